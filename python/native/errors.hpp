// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Failures of librueda as Python exceptions. The classes are defined in Python (rueda/errors.py), which passes them to
// this module.
#pragma once

#include <string>

#include "python/native/python_api.hpp"

namespace rueda::python {

/// Sets the classes, by status code from 1, and the function that borrows tensors without a simple buffer
/// (rueda/_tensors.py).
PyObject* set_hooks(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

/// Raises the exception of `status` with the text.
void raise(int status, const std::string& text);
/// Raises the exception of `status`, which is not 0, with the text of rueda_last_error(). Call it on the thread that
/// got the status.
void raise_last(int status);

/// Returns the Python function that turns (object, writable) into a TensorView; a borrowed reference.
[[nodiscard]] PyObject* adapter();
/// Returns the Python function behind `await handle`; a borrowed reference.
[[nodiscard]] PyObject* awaiter();

}  // namespace rueda::python
