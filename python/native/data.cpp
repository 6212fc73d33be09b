// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/data.hpp"

#include <cstdint>
#include <vector>

#include "python/native/capsule.hpp"
#include "python/native/vocabulary.hpp"
#include "rueda/data.h"

namespace rueda::python {

template <>
struct Held<rueda_data_pipeline> {
    static constexpr const char* kName = "rueda.data_pipeline";
    static void free(rueda_data_pipeline* pipeline) {
        const WithoutGil released;  // closes the pipeline without the GIL, because closing waits for the threads of the
                                    // pipeline
        rueda_data_close(pipeline);
    }
};
template <>
struct Held<rueda_data_batch> {
    static constexpr const char* kName = "rueda.data_batch";
    static void free(rueda_data_batch* batch) {
        const WithoutGil released;  // frees the batch without the GIL, because freeing the last batch of a closed
                                    // pipeline may have to wait for a GPU
        rueda_data_batch_release(batch);
    }
};

namespace {

/// Reads a list of bytes objects. They must stay alive while the result is used.
bool contents_in(PyObject* list, std::vector<rueda_data_bytes>& contents) {
    const Py_ssize_t count = PyList_Size(list);
    for (Py_ssize_t i = 0; i < count; ++i) {
        char* bytes = nullptr;
        Py_ssize_t size = 0;
        if (PyBytes_AsStringAndSize(PyList_GetItem(list, i), &bytes, &size) != 0) {
            return false;
        }
        contents.push_back({bytes, static_cast<std::size_t>(size)});
    }
    return count >= 0;
}

/// Arguments: (options as a JSON text, list of the vocabularies that the pipeline's stages use, list of the bytes of
/// its memory sources). Opens a pipeline. Returns a capsule with the pipeline.
PyObject* data_open(PyObject* /*module*/, PyObject* args) {
    const char* text = nullptr;
    PyObject* list = nullptr;
    PyObject* bytes = nullptr;
    std::vector<rueda_data_vocabulary*> vocabularies;
    std::vector<rueda_data_bytes> contents;
    if (PyArg_ParseTuple(args, "sOO", &text, &list, &bytes) == 0 || !vocabularies_in(list, vocabularies) ||
        !contents_in(bytes, contents)) {
        return nullptr;
    }
    return capsule_from<rueda_data_pipeline>([&](rueda_data_pipeline** pipeline) {
        return rueda_data_open_from(text, vocabularies.data(), vocabularies.size(), contents.data(), contents.size(),
                                    pipeline);
    });
}

/// Arguments: (pipeline, seconds). Waits until data_next() can return without blocking, but not longer than `seconds`.
/// Returns true if data_next() would not block.
PyObject* data_wait(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    double seconds = 0;
    if (PyArg_ParseTuple(args, "Od", &capsule, &seconds) == 0) {
        return nullptr;
    }
    std::int32_t ready = 0;
    const bool waited = succeeds_with<rueda_data_pipeline>(
        capsule, [&](rueda_data_pipeline* pipeline) { return rueda_data_wait(pipeline, seconds, &ready); });
    return waited ? PyBool_FromLong(ready) : nullptr;
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
    rueda_data_batch* batch = nullptr;
    if (!succeeds_with<rueda_data_pipeline>(
            capsule, [&](rueda_data_pipeline* pipeline) { return rueda_data_next(pipeline, &batch); })) {
        return nullptr;
    }
    if (batch == nullptr) {
        Py_RETURN_NONE;
    }
    Ref owner = Ref::taken(capsule_of(batch));
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
    return text_from<rueda_data_pipeline>(capsule, rueda_data_describe, rueda_data_free_text);
}

PyMethodDef data_methods[] = {{"data_open", data_open, METH_VARARGS, nullptr},
                              {"data_wait", data_wait, METH_VARARGS, nullptr},
                              {"data_next", data_next, METH_O, nullptr},
                              {"data_describe", data_describe, METH_O, nullptr},
                              {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyMethodDef* data_functions() { return data_methods; }

}  // namespace rueda::python
