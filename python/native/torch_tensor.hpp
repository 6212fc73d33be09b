// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Reads PyTorch tensors. The build does not need PyTorch, because the code only reads attributes that tensors have in
// every version of PyTorch.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Implements set_torch(torch.Tensor, torch.strided, {torch.dtype: number}, current_stream). After this call,
/// is_torch_tensor() recognises PyTorch tensors. The function current_stream(index) returns the address of PyTorch's
/// current stream of a CUDA device.
PyObject* set_torch(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

[[nodiscard]] bool is_torch_tensor(PyObject* object);

/// Describes a tensor for which is_torch_tensor() is true. The tensor must be dense, and in the memory of the CPU
/// or of a CUDA device. The function writes the extents to `shape`, and `tensor` points to them. `device` becomes the
/// tensor's device and PyTorch's current stream there; it is not changed for a tensor of the CPU. On failure, returns
/// false with a Python error set.
[[nodiscard]] bool describe_torch_tensor(PyObject* object, rueda_tensor& tensor,
                                         std::int64_t (&shape)[RUEDA_MAX_DIMENSIONS], rueda_device_stream& device);

/// Writes PyTorch's current stream of the device `index` to `stream`. On failure, returns false with a Python error
/// set.
[[nodiscard]] bool read_current_stream(std::int32_t index, void*& stream);

}  // namespace rueda::python
