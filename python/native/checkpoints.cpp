// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/checkpoints.hpp"

#include <deque>
#include <string>
#include <vector>

#include "python/native/borrowed_tensor.hpp"
#include "python/native/capsule.hpp"
#include "rueda/checkpoints.h"

namespace rueda::python {

template <>
struct Held<rueda_checkpoint> {
    static constexpr const char* kName = "rueda.checkpoint";
    static void free(rueda_checkpoint* checkpoint) { rueda_checkpoint_close(checkpoint); }
};
template <>
struct Held<rueda_checkpoint_claim> {
    static constexpr const char* kName = "rueda.checkpoint_claim";
    static void free(rueda_checkpoint_claim* claim) { rueda_checkpoint_release(claim); }
};

namespace {

/// The tensors of a list of tuples (name, tensor). They stay borrowed as long as this NamedTensors lives.
class NamedTensors {
public:
    /// Returns false, with a Python error set, if the list does not consist of such tuples, or if a tensor is not in
    /// the CPU's memory.
    [[nodiscard]] bool borrow(PyObject* list, bool writable) {
        const Py_ssize_t count = PyList_Size(list);
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* const entry = PyList_GetItem(list, i);
            PyObject* const name = entry != nullptr ? PyTuple_GetItem(entry, 0) : nullptr;
            PyObject* const tensor = name != nullptr ? PyTuple_GetItem(entry, 1) : nullptr;
            const char* const text = tensor != nullptr ? PyUnicode_AsUTF8AndSize(name, nullptr) : nullptr;
            if (text == nullptr || !borrowed_.emplace_back().borrow(tensor, writable)) {
                return false;
            }
            if (borrowed_.back().device().type != RUEDA_CPU) {
                raise(RUEDA_INVALID_ARGUMENT, std::string("checkpoint: tensor '") + text +
                                                  "' is on a GPU; expected a tensor in the CPU's memory");
                return false;
            }
            named_.push_back({text, borrowed_.back().tensor()});
        }
        return count >= 0;
    }
    [[nodiscard]] const rueda_named_tensor* data() const { return named_.data(); }
    [[nodiscard]] std::size_t size() const { return named_.size(); }

private:
    std::deque<BorrowedTensor> borrowed_;  // a deque, because a BorrowedTensor must not move
    std::vector<rueda_named_tensor> named_;
};

/// Returns the bytes of a path. Returns null, with a Python error set, if the path contains a zero byte.
const char* path_of(PyObject* path) {
    char* text = nullptr;
    return PyBytes_AsStringAndSize(path, &text, nullptr) == 0 ? text : nullptr;
}

/// Argument: (folder as bytes)
PyObject* checkpoint_create_folder(PyObject* /*module*/, PyObject* folder) {
    const char* const path = path_of(folder);
    if (path == nullptr || !succeeds([&] { return rueda_checkpoint_create_folder(path); })) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

/// Arguments: (folder as bytes, step, model, state, values, metric or None, better, max_to_keep, size)
PyObject* checkpoint_save(PyObject* /*module*/, PyObject* args) {
    rueda_snapshot snapshot = RUEDA_SNAPSHOT_INIT;
    PyObject* folder = nullptr;
    PyObject* model = nullptr;
    PyObject* state = nullptr;
    PyObject* values = nullptr;
    PyObject* metric = nullptr;
    long long step = 0;
    if (PyArg_ParseTuple(args, "OLOOUOiii", &folder, &step, &model, &state, &values, &metric, &snapshot.better,
                         &snapshot.max_to_keep, &snapshot.size) == 0) {
        return nullptr;
    }
    NamedTensors model_tensors;
    NamedTensors state_tensors;
    snapshot.folder = path_of(folder);
    snapshot.values = PyUnicode_AsUTF8AndSize(values, nullptr);
    if (snapshot.folder == nullptr || snapshot.values == nullptr || !model_tensors.borrow(model, /*writable=*/false) ||
        !state_tensors.borrow(state, /*writable=*/false)) {
        return nullptr;
    }
    if (metric != Py_None) {
        snapshot.has_metric = 1;
        snapshot.metric = PyFloat_AsDouble(metric);
        if (PyErr_Occurred() != nullptr) {
            return nullptr;
        }
    }
    snapshot.step = step;
    snapshot.model = model_tensors.data();
    snapshot.model_count = model_tensors.size();
    snapshot.state = state_tensors.data();
    snapshot.state_count = state_tensors.size();
    char* pruning_failure = nullptr;
    return succeeds([&] { return rueda_checkpoint_save(&snapshot, &pruning_failure); })
               ? take_text(pruning_failure, rueda_checkpoint_free_text)
               : nullptr;
}

/// Argument: (folder as bytes). Returns JSON.
PyObject* checkpoint_list(PyObject* /*module*/, PyObject* folder) {
    const char* const path = path_of(folder);
    char* text = nullptr;
    return path != nullptr && succeeds([&] { return rueda_checkpoint_list(path, &text); })
               ? take_text(text, rueda_checkpoint_free_text)
               : nullptr;
}

/// Argument: (path as bytes). Returns a capsule.
PyObject* checkpoint_open(PyObject* /*module*/, PyObject* folder) {
    const char* const path = path_of(folder);
    return path == nullptr ? nullptr : capsule_from<rueda_checkpoint>([&](rueda_checkpoint** checkpoint) {
        return rueda_checkpoint_open(path, checkpoint);
    });
}

/// Argument: (capsule). Returns JSON.
PyObject* checkpoint_describe(PyObject* /*module*/, PyObject* capsule) {
    return text_from<rueda_checkpoint>(capsule, rueda_checkpoint_describe, rueda_checkpoint_free_text);
}

/// Arguments: (capsule, model)
PyObject* checkpoint_check_model(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    PyObject* model = nullptr;
    NamedTensors tensors;
    if (PyArg_ParseTuple(args, "OO", &capsule, &model) == 0 || !tensors.borrow(model, /*writable=*/false)) {
        return nullptr;
    }
    return none_after<rueda_checkpoint>(capsule, [&](const rueda_checkpoint* checkpoint) {
        return rueda_checkpoint_check_model(checkpoint, tensors.data(), tensors.size());
    });
}

/// Arguments: (capsule, model, state)
PyObject* checkpoint_read(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    PyObject* model = nullptr;
    PyObject* state = nullptr;
    NamedTensors model_tensors;
    NamedTensors state_tensors;
    if (PyArg_ParseTuple(args, "OOO", &capsule, &model, &state) == 0 ||
        !model_tensors.borrow(model, /*writable=*/true) || !state_tensors.borrow(state, /*writable=*/true)) {
        return nullptr;
    }
    return none_after<rueda_checkpoint>(capsule, [&](const rueda_checkpoint* checkpoint) {
        return rueda_checkpoint_read(checkpoint, model_tensors.data(), model_tensors.size(), state_tensors.data(),
                                     state_tensors.size());
    });
}

/// Argument: (folder as bytes). Returns a capsule, or None if there is nothing to hold.
PyObject* checkpoint_claim(PyObject* /*module*/, PyObject* folder) {
    const char* const path = path_of(folder);
    rueda_checkpoint_claim* claim = nullptr;
    if (path == nullptr || !succeeds([&] { return rueda_checkpoint_claim_folder(path, &claim); })) {
        return nullptr;
    }
    if (claim == nullptr) {
        Py_RETURN_NONE;
    }
    return capsule_of(claim);
}

PyMethodDef checkpoint_methods[] = {{"checkpoint_create_folder", checkpoint_create_folder, METH_O, nullptr},
                                    {"checkpoint_claim", checkpoint_claim, METH_O, nullptr},
                                    {"checkpoint_save", checkpoint_save, METH_VARARGS, nullptr},
                                    {"checkpoint_list", checkpoint_list, METH_O, nullptr},
                                    {"checkpoint_open", checkpoint_open, METH_O, nullptr},
                                    {"checkpoint_describe", checkpoint_describe, METH_O, nullptr},
                                    {"checkpoint_check_model", checkpoint_check_model, METH_VARARGS, nullptr},
                                    {"checkpoint_read", checkpoint_read, METH_VARARGS, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyMethodDef* checkpoint_functions() { return checkpoint_methods; }

}  // namespace rueda::python
