// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/data.hpp"

#include <unistd.h>

#include <cstdint>
#include <vector>

#include "python/native/errors.hpp"
#include "python/native/texts.hpp"
#include "python/native/vocabulary.hpp"
#include "rueda/data.h"

namespace rueda::python {
namespace {

constexpr const char* kPipelineName = "rueda.data_pipeline";
constexpr const char* kBatchName = "rueda.data_batch";

/// Returns the id of this process as a pointer. Each capsule stores it as its context.
void* process_mark() { return reinterpret_cast<void*>(static_cast<std::intptr_t>(getpid())); }

/// Whether this process made the capsule. A forked child has a copy of the capsule, but not the threads of the
/// pipeline. So it must not close the pipeline, because closing waits for the threads.
bool is_of_this_process(PyObject* capsule) { return PyCapsule_GetContext(capsule) == process_mark(); }

/// Makes a capsule whose destructor frees `object`. If this fails, frees `object` and returns null.
template <class T>
PyObject* owner_of(T* object, const char* name, void (*free)(T*), PyCapsule_Destructor destructor) {
    PyObject* const capsule = PyCapsule_New(object, name, destructor);
    if (capsule == nullptr || PyCapsule_SetContext(capsule, process_mark()) != 0) {
        if (capsule == nullptr) {
            free(object);
        }
        Py_XDECREF(capsule);
        return nullptr;
    }
    return capsule;
}

rueda_data_pipeline* pipeline_in(PyObject* capsule) {
    return static_cast<rueda_data_pipeline*>(PyCapsule_GetPointer(capsule, kPipelineName));
}

/// Arguments: (options as a JSON text, list of the vocabularies that its stages use). Opens a pipeline and returns a
/// capsule with it.
PyObject* data_open(PyObject* /*module*/, PyObject* args) {
    const char* text = nullptr;
    PyObject* list = nullptr;
    std::vector<rueda_data_vocabulary*> vocabularies;
    rueda_data_pipeline* pipeline = nullptr;
    if (PyArg_ParseTuple(args, "sO", &text, &list) == 0 || !vocabularies_in(list, vocabularies) ||
        !succeeds([&] { return rueda_data_open_with(text, vocabularies.data(), vocabularies.size(), &pipeline); })) {
        return nullptr;
    }
    return owner_of<rueda_data_pipeline>(pipeline, kPipelineName, rueda_data_close, [](PyObject* dying) {
        if (is_of_this_process(dying)) {
            rueda_data_pipeline* const closing = pipeline_in(dying);
            const WithoutGil released;
            rueda_data_close(closing);
        }
    });
}

/// Arguments: (pipeline, seconds). Waits until data_next() can return without blocking, but not longer than `seconds`.
/// Returns true if data_next() can do this.
PyObject* data_wait(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    double seconds = 0;
    if (PyArg_ParseTuple(args, "Od", &capsule, &seconds) == 0) {
        return nullptr;
    }
    rueda_data_pipeline* const pipeline = pipeline_in(capsule);
    std::int32_t ready = 0;
    if (pipeline == nullptr || !succeeds([&] { return rueda_data_wait(pipeline, seconds, &ready); })) {
        return nullptr;
    }
    return PyBool_FromLong(ready);
}

/// Returns a list of tuples (name, dtype, width, address, bytes, address of the offsets, number of offsets).
PyObject* columns_of(rueda_data_batch* batch, std::size_t count) {
    Ref list = Ref::taken(PyList_New(static_cast<Py_ssize_t>(count)));
    for (std::size_t i = 0; list && i < count; ++i) {
        rueda_data_column column{};
        if (const int status = rueda_data_batch_column(batch, i, &column); status != RUEDA_OK) {
            raise_last(status);
            return nullptr;
        }
        PyObject* const entry =
            Py_BuildValue("siLKnKn", column.name, static_cast<int>(column.dtype), static_cast<long long>(column.width),
                          static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(column.data)),
                          static_cast<Py_ssize_t>(column.bytes),
                          static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(column.offsets)),
                          static_cast<Py_ssize_t>(column.offset_count));
        if (entry == nullptr || PyList_SetItem(list.borrow(), static_cast<Py_ssize_t>(i), entry) != 0) {
            return nullptr;
        }
    }
    return list.release();
}

/// Argument: the pipeline. Returns None at the end of an epoch. Otherwise returns a batch as a tuple (number of
/// samples, columns, owner of the memory).
PyObject* data_next(PyObject* /*module*/, PyObject* capsule) {
    rueda_data_pipeline* const pipeline = pipeline_in(capsule);
    rueda_data_batch* batch = nullptr;
    if (pipeline == nullptr || !succeeds([&] { return rueda_data_next(pipeline, &batch); })) {
        return nullptr;
    }
    if (batch == nullptr) {
        Py_RETURN_NONE;
    }
    Ref owner = Ref::taken(owner_of<rueda_data_batch>(batch, kBatchName, rueda_data_batch_release, [](PyObject* dying) {
        if (is_of_this_process(dying)) {
            rueda_data_batch_release(static_cast<rueda_data_batch*>(PyCapsule_GetPointer(dying, kBatchName)));
        }
    }));
    std::int64_t rows = 0;
    std::size_t count = 0;
    if (!owner) {
        return nullptr;
    }
    if (const int status = rueda_data_batch_size(batch, &rows, &count); status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    PyObject* const columns = columns_of(batch, count);
    return columns != nullptr ? Py_BuildValue("LNN", static_cast<long long>(rows), columns, owner.release()) : nullptr;
}

/// Argument: the pipeline. Returns its description as JSON (rueda_data_describe()).
PyObject* data_describe(PyObject* /*module*/, PyObject* capsule) {
    const rueda_data_pipeline* const pipeline = pipeline_in(capsule);
    char* text = nullptr;
    if (pipeline == nullptr || !succeeds([&] { return rueda_data_describe(pipeline, &text); })) {
        return nullptr;
    }
    return take_text(text, rueda_data_free_text);
}

PyMethodDef data_methods[] = {{"data_open", data_open, METH_VARARGS, nullptr},
                              {"data_wait", data_wait, METH_VARARGS, nullptr},
                              {"data_next", data_next, METH_O, nullptr},
                              {"data_describe", data_describe, METH_O, nullptr},
                              {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyMethodDef* data_functions() { return data_methods; }

}  // namespace rueda::python
