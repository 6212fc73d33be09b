// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The Python type Memory: bytes that Rueda owns, for Python's buffer protocol. Resident memory, or an operation's
// result.
#pragma once

#include <memory>

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Given back by the last who holds it.
using SharedHandle = std::shared_ptr<rueda_handle>;

/// The type, with a new reference; null with an error set.
[[nodiscard]] PyObject* make_memory_type();

/// The `bytes` of a completed operation's own output. A new reference; null with an error set.
[[nodiscard]] PyObject* memory_of_output(const SharedHandle& handle, void* data, std::size_t bytes);

/// allocate(bytes) -> Memory: resident, zeroed.
PyObject* allocate(PyObject* module, PyObject* bytes);

}  // namespace rueda::python
