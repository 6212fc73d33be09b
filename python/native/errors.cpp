// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/errors.hpp"

#include "python/native/texts.hpp"
#include "rueda/rueda.h"

namespace rueda::python {
namespace {

// rueda/__init__.py sets these objects once, under the GIL, before any call can fail.
PyObject* error_classes = nullptr;
PyObject* adapt_function = nullptr;
PyObject* await_function = nullptr;
PyObject* stream_function = nullptr;

}  // namespace

PyObject* set_hooks(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 4) {
        PyErr_Format(PyExc_TypeError, "set_hooks: %zd arguments; expected 4", count);
        return nullptr;
    }
    error_classes = Ref::to(arguments[0]).release();
    adapt_function = Ref::to(arguments[1]).release();
    await_function = Ref::to(arguments[2]).release();
    stream_function = Ref::to(arguments[3]).release();
    Py_RETURN_NONE;
}

void raise(int status, const std::string& text) {
    // Ctrl-C interrupts all ranks. The first rank that ends because of it aborts the other ranks. So a rank may get
    // both the abort and its own Ctrl-C. It then reports the Ctrl-C.
    if (status == RUEDA_ABORTED && PyErr_CheckSignals() != 0) {
        return;
    }
    // Returns the exception class as a borrowed reference. Returns null, with an error set, if this package does not
    // know the status code.
    PyObject* const type = PyTuple_GetItem(error_classes, status - 1);
    if (type != nullptr) {
        const Ref message = Ref::taken(python_text(text));
        if (message) {
            PyErr_SetObject(type, message.borrow());
        }
    }
}

void raise_last(int status) {
    // The library's texts contain names of C++ functions. In Python the functions have the same names, but with
    // "rueda." in front instead of "rueda::".
    std::string text = rueda_last_error();
    for (std::size_t at = text.find("rueda::"); at != std::string::npos; at = text.find("rueda::", at)) {
        text.replace(at, 7, "rueda.");
    }
    raise(status, text);
}

PyObject* adapter() { return adapt_function; }
PyObject* awaiter() { return await_function; }
PyObject* stream_reader() { return stream_function; }

}  // namespace rueda::python
