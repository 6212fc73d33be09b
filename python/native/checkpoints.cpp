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

/// Borrows the tensors in a list of tuples. The tuples are (name, tensor) or, for parts of tensors, (name, tensor,
/// number of the first row, number of rows of the whole tensor). The tensors stay borrowed as long as this object
/// lives.
template <class Each>
class Borrowed {
public:
    /// Returns false, with a Python error set, if the list does not consist of such tuples, or if a tensor is not in
    /// the CPU's memory.
    [[nodiscard]] bool borrow(PyObject* list, bool writable) {
        const Py_ssize_t count = PyList_Size(list);
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* const entry = PyList_GetItem(list, i);
            PyObject* tensor = nullptr;
            Each each{};
            if (entry == nullptr || !parse(entry, each, tensor) || !borrowed_.emplace_back().borrow(tensor, writable)) {
                return false;
            }
            if (borrowed_.back().device().type != RUEDA_CPU) {
                raise(RUEDA_INVALID_ARGUMENT, std::string("checkpoint: tensor '") + each.name +
                                                  "' is on a GPU; expected a tensor in the CPU's memory");
                return false;
            }
            each.tensor = borrowed_.back().tensor();
            all_.push_back(each);
        }
        return count >= 0;
    }
    [[nodiscard]] const Each* data() const { return all_.data(); }
    [[nodiscard]] std::size_t size() const { return all_.size(); }

private:
    /// Both parse() functions give the caller pointers to the name and the tensor in the tuple. They take no
    /// references, because the tuple keeps the two alive.
    static bool parse(PyObject* tuple, rueda_named_tensor& named, PyObject*& tensor) {
        return PyArg_ParseTuple(tuple, "sO", &named.name, &tensor) != 0;
    }
    static bool parse(PyObject* tuple, rueda_tensor_part& part, PyObject*& tensor) {
        long long first = 0;
        long long whole = 0;
        const bool parsed = PyArg_ParseTuple(tuple, "sOLL", &part.name, &tensor, &first, &whole) != 0;
        part.first_row = first;
        part.whole_rows = whole;
        return parsed;
    }

    std::deque<BorrowedTensor> borrowed_;  // a deque, because a BorrowedTensor must not move
    std::vector<Each> all_;
};
using NamedTensors = Borrowed<rueda_named_tensor>;
using TensorParts = Borrowed<rueda_tensor_part>;

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

/// A snapshot of the C interface, and the Python objects that own the memory to which its pointers point.
struct Snapshot {
    /// Arguments: (folder as bytes, step, model, state, values, metric or None, better, max_to_keep, size)
    [[nodiscard]] bool parse(PyObject* args) {
        PyObject* folder = nullptr;
        PyObject* model = nullptr;
        PyObject* state = nullptr;
        PyObject* metric = nullptr;
        long long step = 0;
        if (PyArg_ParseTuple(args, "OLOOsOiii", &folder, &step, &model, &state, &snapshot.values, &metric,
                             &snapshot.better, &snapshot.max_to_keep, &snapshot.size) == 0) {
            return false;
        }
        snapshot.folder = path_of(folder);
        if (snapshot.folder == nullptr || !model_tensors.borrow(model, /*writable=*/false) ||
            !state_tensors.borrow(state, /*writable=*/false)) {
            return false;
        }
        if (metric != Py_None) {
            snapshot.has_metric = 1;
            snapshot.metric = PyFloat_AsDouble(metric);
        }
        snapshot.step = step;
        snapshot.model = model_tensors.data();
        snapshot.model_count = model_tensors.size();
        snapshot.state = state_tensors.data();
        snapshot.state_count = state_tensors.size();
        return PyErr_Occurred() == nullptr;
    }

    rueda_snapshot snapshot = RUEDA_SNAPSHOT_INIT;
    NamedTensors model_tensors;
    NamedTensors state_tensors;
};

/// Returns the text as a Python text, or None. None means that there is no text, or that the memory does not suffice
/// for it. The checkpoint is complete in all cases. This function raises no error, because after an error the manager
/// would remove the checkpoint.
PyObject* take_pruning_failure(char* text) {
    PyObject* const taken = take_text(text, rueda_checkpoint_free_text);
    if (taken == nullptr) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return taken;
}

/// Arguments: those of Snapshot
PyObject* checkpoint_save(PyObject* /*module*/, PyObject* args) {
    Snapshot given;
    char* pruning_failure = nullptr;
    return given.parse(args) && succeeds([&] { return rueda_checkpoint_save(&given.snapshot, &pruning_failure); })
               ? take_pruning_failure(pruning_failure)
               : nullptr;
}

/// Arguments: (folder as bytes, step). Returns the name of the checkpoint.
PyObject* checkpoint_begin(PyObject* /*module*/, PyObject* args) {
    PyObject* folder = nullptr;
    long long step = 0;
    if (PyArg_ParseTuple(args, "OL", &folder, &step) == 0) {
        return nullptr;
    }
    const char* const path = path_of(folder);
    char* name = nullptr;
    return path != nullptr && succeeds([&] { return rueda_checkpoint_begin(path, step, &name); })
               ? take_text(name, rueda_checkpoint_free_text)
               : nullptr;
}

/// Arguments: (path as bytes, step, parts, rank, size)
PyObject* checkpoint_write_part(PyObject* /*module*/, PyObject* args) {
    PyObject* path = nullptr;
    PyObject* list = nullptr;
    long long step = 0;
    int rank = 0;
    int size = 0;
    if (PyArg_ParseTuple(args, "OLOii", &path, &step, &list, &rank, &size) == 0) {
        return nullptr;
    }
    TensorParts parts;
    const char* const text = path_of(path);
    if (text == nullptr || !parts.borrow(list, /*writable=*/false) ||
        !succeeds([&] { return rueda_checkpoint_write_part(text, step, parts.data(), parts.size(), rank, size); })) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

/// Arguments: (path as bytes, rank, size). Looks for a missing part, beginning with the part of `rank`. Returns the
/// first rank whose part is missing, or `size` if none is missing.
PyObject* checkpoint_missing_part(PyObject* /*module*/, PyObject* args) {
    PyObject* path = nullptr;
    int rank = 0;
    int size = 0;
    if (PyArg_ParseTuple(args, "Oii", &path, &rank, &size) == 0) {
        return nullptr;
    }
    const char* const text = path_of(path);
    return text != nullptr && succeeds([&] { return rueda_checkpoint_missing_part(text, &rank, size); })
               ? PyLong_FromLong(rank)
               : nullptr;
}

/// Arguments: (name, arguments of Snapshot as a tuple)
PyObject* checkpoint_complete(PyObject* /*module*/, PyObject* args) {
    const char* name = nullptr;
    PyObject* arguments = nullptr;
    Snapshot given;
    char* pruning_failure = nullptr;
    return PyArg_ParseTuple(args, "sO", &name, &arguments) != 0 && given.parse(arguments) &&
                   succeeds([&] { return rueda_checkpoint_complete(&given.snapshot, name, &pruning_failure); })
               ? take_pruning_failure(pruning_failure)
               : nullptr;
}

/// Arguments: (path as bytes, rank, size)
PyObject* checkpoint_give_up_part(PyObject* /*module*/, PyObject* args) {
    PyObject* path = nullptr;
    int rank = 0;
    int size = 0;
    if (PyArg_ParseTuple(args, "Oii", &path, &rank, &size) == 0) {
        return nullptr;
    }
    const char* const text = path_of(path);
    if (text == nullptr || !succeeds([&] { return rueda_checkpoint_give_up_part(text, rank, size); })) {
        return nullptr;
    }
    Py_RETURN_NONE;
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

/// Arguments: (capsule, parts)
PyObject* checkpoint_check_parts(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    PyObject* list = nullptr;
    TensorParts parts;
    if (PyArg_ParseTuple(args, "OO", &capsule, &list) == 0 || !parts.borrow(list, /*writable=*/false)) {
        return nullptr;
    }
    return none_after<rueda_checkpoint>(capsule, [&](const rueda_checkpoint* checkpoint) {
        return rueda_checkpoint_check_parts(checkpoint, parts.data(), parts.size());
    });
}

/// Arguments: (capsule, parts, state)
PyObject* checkpoint_read_parts(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    PyObject* list = nullptr;
    PyObject* state = nullptr;
    TensorParts parts;
    NamedTensors state_tensors;
    if (PyArg_ParseTuple(args, "OOO", &capsule, &list, &state) == 0 || !parts.borrow(list, /*writable=*/true) ||
        !state_tensors.borrow(state, /*writable=*/true)) {
        return nullptr;
    }
    return none_after<rueda_checkpoint>(capsule, [&](const rueda_checkpoint* checkpoint) {
        return rueda_checkpoint_read_parts(checkpoint, parts.data(), parts.size(), state_tensors.data(),
                                           state_tensors.size());
    });
}

/// Argument: (folder as bytes). Returns a capsule with the claim. Returns None if this process has claimed the folder
/// before, or if the file system has no locks.
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
                                    {"checkpoint_begin", checkpoint_begin, METH_VARARGS, nullptr},
                                    {"checkpoint_write_part", checkpoint_write_part, METH_VARARGS, nullptr},
                                    {"checkpoint_missing_part", checkpoint_missing_part, METH_VARARGS, nullptr},
                                    {"checkpoint_complete", checkpoint_complete, METH_VARARGS, nullptr},
                                    {"checkpoint_give_up_part", checkpoint_give_up_part, METH_VARARGS, nullptr},
                                    {"checkpoint_list", checkpoint_list, METH_O, nullptr},
                                    {"checkpoint_open", checkpoint_open, METH_O, nullptr},
                                    {"checkpoint_describe", checkpoint_describe, METH_O, nullptr},
                                    {"checkpoint_check_model", checkpoint_check_model, METH_VARARGS, nullptr},
                                    {"checkpoint_read", checkpoint_read, METH_VARARGS, nullptr},
                                    {"checkpoint_check_parts", checkpoint_check_parts, METH_VARARGS, nullptr},
                                    {"checkpoint_read_parts", checkpoint_read_parts, METH_VARARGS, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyMethodDef* checkpoint_functions() { return checkpoint_methods; }

}  // namespace rueda::python
