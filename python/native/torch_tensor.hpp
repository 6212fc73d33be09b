// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// PyTorch's tensors, without PyTorch at build time. The code reads only attributes of a tensor that every version of
// PyTorch has.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// set_torch(torch.Tensor, torch.strided, {torch.dtype: number}): after this call is_torch_tensor() recognises them.
PyObject* set_torch(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

[[nodiscard]] bool is_torch_tensor(PyObject* object);

/// Describes a tensor for which is_torch_tensor() is true. Its memory must be dense and the CPU's. Its extents are
/// written to `shape`, and `tensor` points to them. Returns false with an error set.
[[nodiscard]] bool describe_torch_tensor(PyObject* object, rueda_tensor& tensor,
                                         std::int64_t (&shape)[RUEDA_MAX_DIMENSIONS]);

}  // namespace rueda::python
