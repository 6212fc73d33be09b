// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/call_site.hpp"

#include <set>
#include <string>
#include <string_view>

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {
namespace {

bool wanted = false;

/// A new reference; empty where there is no such attribute.
Ref attribute(const Ref& object, const char* name) {
    return object ? Ref::taken(PyObject_GetAttrString(object.borrow(), name)) : Ref();
}

std::string_view text_of(PyObject* object) {
    Py_ssize_t length = 0;
    const char* const text =
        object != nullptr && PyUnicode_Check(object) != 0 ? PyUnicode_AsUTF8AndSize(object, &length) : nullptr;
    return text != nullptr ? std::string_view(text, static_cast<std::size_t>(length)) : std::string_view();
}

bool is_of_package(const Ref& frame) {
    const Ref globals = attribute(frame, "f_globals");
    PyObject* const name = globals ? PyDict_GetItemString(globals.borrow(), "__name__") : nullptr;
    const std::string_view module = text_of(name);
    return module == "rueda" || module.starts_with("rueda.");
}

/// As many as a program has files that call; never freed, since operations under way keep pointers.
const char* kept(std::string_view file) {
    static auto* const files = new std::set<std::string, std::less<>>;
    const auto known = files->find(file);
    return (known != files->end() ? known : files->emplace(file).first)->c_str();
}

}  // namespace

void note_if_call_sites_are_wanted() { wanted = rueda_wants_call_sites() != 0; }

bool call_sites_are_wanted() { return wanted; }

CallSite calling_site() {
    Ref frame = Ref::to(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
    while (frame && frame.borrow() != Py_None && is_of_package(frame)) {
        frame = attribute(frame, "f_back");
    }
    CallSite site;
    if (frame && frame.borrow() != Py_None) {
        const Ref file = attribute(attribute(frame, "f_code"), "co_filename");
        const Ref line = attribute(frame, "f_lineno");
        if (const std::string_view name = text_of(file.borrow()); !name.empty()) {
            site = {kept(name), line ? static_cast<std::int32_t>(PyLong_AsLong(line.borrow())) : 0};
        }
    }
    PyErr_Clear();  // without an attribute there is no site, and no error
    return site;
}

}  // namespace rueda::python
