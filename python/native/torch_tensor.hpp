// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// PyTorch's tensors, without PyTorch at build time: what a tensor is, is asked of it by attributes that every version
// has.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// set_torch(torch.Tensor, torch.strided, {torch.dtype: number}): from then on is_torch_tensor() knows them.
PyObject* set_torch(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

[[nodiscard]] bool is_torch_tensor(PyObject* object);

/// Describes a tensor of is_torch_tensor(): its memory is the CPU's, and dense. `shape` gets its extents, which
/// `tensor` points to. False with an error set.
[[nodiscard]] bool describe_torch_tensor(PyObject* object, rueda_tensor& tensor,
                                         std::int64_t (&shape)[RUEDA_MAX_DIMENSIONS]);

}  // namespace rueda::python
