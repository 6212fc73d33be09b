// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Turns failures of librueda into Python exceptions. The exception classes are defined in Python (rueda/errors.py),
// which passes them to this module.
#pragma once

#include <string>

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Stores four Python objects: a tuple with one exception class for each status code from 1 on, and the functions
/// adapter(), awaiter() and stream_reader().
PyObject* set_hooks(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

/// Raises the exception class of `status` with the text.
void raise(int status, const std::string& text);
/// Raises the exception class of `status`, which must not be 0, with the text of rueda_last_error(). Call it on the
/// thread that got the status, because the text belongs to the thread.
void raise_last(int status);

/// Runs `body` without the GIL, and raises its error. Returns whether it succeeded.
template <class Body>
bool succeeds(const Body& body) {
    int status = RUEDA_OK;
    {
        const WithoutGil released;
        status = body();
    }
    if (status != RUEDA_OK) {
        raise_last(status);
    }
    return status == RUEDA_OK;
}

/// Returns the Python function that turns (object, writable) into a TensorView, as a borrowed reference. The function
/// is for tensors that have no simple buffer.
[[nodiscard]] PyObject* adapter();
/// Returns the Python function that implements `await handle`, as a borrowed reference.
[[nodiscard]] PyObject* awaiter();
/// Returns the Python function that turns an object of a library, such as CuPy, into the address of its CUDA stream, as
/// a borrowed reference.
[[nodiscard]] PyObject* stream_reader();

}  // namespace rueda::python
