// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The Python type Memory: bytes that Rueda owns, with Python's buffer protocol. They are resident memory, or an
// operation's result.
#pragma once

#include <memory>

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Allocates resident memory. It is freed when the last reference is released.
using SharedHandle = std::shared_ptr<rueda_handle>;

/// Returns a new reference to the type; null with an error set.
[[nodiscard]] PyObject* make_memory_type();

/// Returns `bytes` bytes of the output of a completed operation, as a new reference; null with an error set.
[[nodiscard]] PyObject* memory_of_output(const SharedHandle& handle, void* data, std::size_t bytes);

/// allocate(bytes) -> Memory: resident, zeroed.
PyObject* allocate(PyObject* module, PyObject* bytes);

}  // namespace rueda::python
