// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Turns failures of librueda into Python exceptions. The exception classes are defined in Python (rueda/errors.py) and
// passed to this module.
#pragma once

#include <string>

#include "python/native/python_api.hpp"

namespace rueda::python {

/// Sets the exception classes, one per status code, starting with code 1. Also sets the function from rueda/_tensors.py
/// that borrows tensors which have no simple buffer.
PyObject* set_hooks(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

/// Raises the exception class of `status` with the text.
void raise(int status, const std::string& text);
/// Raises the exception class of `status`, which is not 0, with the text of rueda_last_error(). Call it on the thread
/// that received the status.
void raise_last(int status);

/// Returns a borrowed reference to the Python function that turns (object, writable) into a TensorView.
[[nodiscard]] PyObject* adapter();
/// Returns a borrowed reference to the Python function that implements `await handle`.
[[nodiscard]] PyObject* awaiter();

}  // namespace rueda::python
