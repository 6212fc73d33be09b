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
    rueda_device_stream device;  // where the memory is, and the stream on which it is ready
    bool writable;
    PyObject* owner;
};

/// Returns the size in bytes of an element; 0 if `dtype` is not the number of a dtype.
[[nodiscard]] std::size_t bytes_of(int dtype);

[[nodiscard]] bool is_tensor_view(PyObject* object);
/// Returns a new reference to the type TensorView; on failure, null with an error set.
[[nodiscard]] PyObject* make_tensor_view_type();

/// Implements view_of_dlpack(capsule, stream) -> TensorView. The capsule still owns the memory. `stream` is the stream
/// on which memory of a GPU is ready; memory of the CPU needs none.
PyObject* view_of_dlpack(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

}  // namespace rueda::python
