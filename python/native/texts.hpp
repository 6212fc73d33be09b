// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string_view>

#include "python/native/python_api.hpp"

namespace rueda::python {

/// Makes a Python text. The texts of the C interface may contain bytes that are not valid UTF-8; these bytes are
/// replaced.
inline PyObject* python_text(std::string_view text) {
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

/// Turns a text of the C interface into a Python text, or null into None. Frees the text of the C interface with
/// `free`.
inline PyObject* take_text(char* text, void (*free)(char*)) {
    if (text == nullptr) {
        Py_RETURN_NONE;
    }
    PyObject* const taken = python_text(text);
    free(text);
    return taken;
}

}  // namespace rueda::python
