// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The Python type TensorView: a typed, shaped view of memory. It keeps the owner of the memory alive.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Threads: immutable once made.
struct TensorView {
    PyObject base;  // PyObject_HEAD
    std::int64_t shape[RUEDA_MAX_DIMENSIONS];
    rueda_tensor tensor;
    bool writable;
    PyObject* owner;
};

/// The number of bytes of an element; 0 if the number is no dtype.
[[nodiscard]] std::size_t bytes_of(int dtype);

[[nodiscard]] bool is_tensor_view(PyObject* object);
/// Returns a new reference to the type; null with an error set.
[[nodiscard]] PyObject* make_tensor_view_type();

/// view_of_dlpack(capsule) -> (TensorView, device type). The capsule stays the owner of the memory.
PyObject* view_of_dlpack(PyObject* module, PyObject* capsule);

}  // namespace rueda::python
