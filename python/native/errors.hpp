// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Failures of librueda as Python exceptions. The classes are Python's (rueda/errors.py), which hands them in.
#pragma once

#include <string>

#include "python/native/python_api.hpp"

namespace rueda::python {

/// The classes, by status code from 1; and what borrows tensors that have no simple buffer (rueda/_tensors.py).
PyObject* set_hooks(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

/// Raises the exception of `status` with the text.
void raise(int status, const std::string& text);
/// Raises what rueda_last_error() says, for a status that is not 0, on the thread that got it.
void raise_last(int status);

/// The Python function that turns (object, writable) into a TensorView; borrowed.
[[nodiscard]] PyObject* adapter();
/// The Python function behind `await handle`; borrowed.
[[nodiscard]] PyObject* awaiter();

}  // namespace rueda::python
