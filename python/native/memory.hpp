// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The Python type Memory, which gives access to Rueda's memory by Python's buffer protocol. The memory is either
// resident (shared by the ranks of the host), or the result of an operation.
#pragma once

#include <memory>

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Keeps an operation's handle, and with it the operation's output, alive. Several Memory objects may share it.
using SharedHandle = std::shared_ptr<rueda_handle>;

/// Returns a new reference to the type Memory; on failure, null with an error set.
[[nodiscard]] PyObject* make_memory_type();

/// Returns a new Memory with the first `bytes` bytes of the output of a completed operation; on failure, null with an
/// error set.
[[nodiscard]] PyObject* memory_of_output(const SharedHandle& handle, void* data, std::size_t bytes);

/// Implements allocate(bytes) -> Memory. The memory is shared by the ranks of the host, and zeroed. This memory is
/// freed when the last reference to the Memory is released.
PyObject* allocate(PyObject* module, PyObject* bytes);

}  // namespace rueda::python
