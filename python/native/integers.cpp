// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/integers.hpp"

#include <string>

#include "python/native/errors.hpp"
#include "rueda/rueda.h"

namespace rueda::python {
namespace {

void raise_out_of_range(PyObject* given, const char* what) {
    const Ref shown = Ref::taken(PyObject_Str(given));
    const char* const text = shown ? PyUnicode_AsUTF8AndSize(shown.borrow(), nullptr) : nullptr;
    if (text != nullptr) {
        raise(RUEDA_INVALID_ARGUMENT,
              std::string(what) + " is " + text + "; expected a number of 32 bits, from -2147483648 to 2147483647");
    }
}

/// Replaces an overflow or type error of Python by one that names the argument. Leaves errors of other kinds unchanged.
void raise_wrong_kind(PyObject* given, const char* what, const char* expected) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
        const Ref kind = Ref::to(reinterpret_cast<PyObject*>(Py_TYPE(given)));
        PyErr_Format(PyExc_TypeError, "%s is %R, %R; expected %s", what, given, kind.borrow(), expected);
    }
}

}  // namespace

bool read_int32(PyObject* given, const char* what, std::int32_t& value) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(given, &overflow);
    if (number == -1 && overflow == 0 && PyErr_Occurred() != nullptr) {
        raise_wrong_kind(given, what, "a whole number");
        return false;
    }
    if (overflow != 0 || number < INT32_MIN || number > INT32_MAX) [[unlikely]] {
        raise_out_of_range(given, what);
        return false;
    }
    value = static_cast<std::int32_t>(number);
    return true;
}

bool read_double(PyObject* given, const char* what, double& value) {
    value = PyFloat_AsDouble(given);
    if (value == -1.0 && PyErr_Occurred() != nullptr) {
        raise_wrong_kind(given, what, "a number");
        return false;
    }
    return true;
}

}  // namespace rueda::python
