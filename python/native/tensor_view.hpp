// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The Python type TensorView: memory described as a tensor, with a dtype and a shape. A TensorView keeps the owner of
// the memory alive.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Threads: the object does not change, so any thread may read it.
struct TensorView {
    PyObject base;  // PyObject_HEAD
    std::int64_t shape[RUEDA_MAX_DIMENSIONS];
    rueda_tensor tensor;
    bool writable;
    PyObject* owner;
};

/// Returns the size in bytes of an element; 0 if `dtype` is not the number of a dtype.
[[nodiscard]] std::size_t bytes_of(int dtype);

[[nodiscard]] bool is_tensor_view(PyObject* object);
/// Returns a new reference to the type TensorView; null with an error set.
[[nodiscard]] PyObject* make_tensor_view_type();

/// Implements view_of_dlpack(capsule) -> (TensorView, device type). The capsule still owns the memory.
PyObject* view_of_dlpack(PyObject* module, PyObject* capsule);

}  // namespace rueda::python
