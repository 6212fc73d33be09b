// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/call_site.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {
namespace {

bool wanted = false;

/// Returns a new reference to the attribute; empty if there is no such attribute.
Ref attribute(const Ref& object, const char* name) {
    return object ? Ref::taken(PyObject_GetAttrString(object.borrow(), name)) : Ref();
}

std::string_view text_of(PyObject* object) {
    Py_ssize_t length = 0;
    const char* const text =
        object != nullptr && PyUnicode_Check(object) != 0 ? PyUnicode_AsUTF8AndSize(object, &length) : nullptr;
    return text != nullptr ? std::string_view(text, static_cast<std::size_t>(length)) : std::string_view();
}

bool is_frame(const Ref& frame) { return frame && frame.borrow() != Py_None; }

bool is_of(const Ref& frame, std::string_view package) {
    const Ref globals = attribute(frame, "f_globals");
    PyObject* const name = globals ? PyDict_GetItemString(globals.borrow(), "__name__") : nullptr;
    const std::string_view module = text_of(name);
    return module.starts_with(package) && (module.size() == package.size() || module[package.size()] == '.');
}

/// Searches from the frame `from` outwards, and returns the first frame whose code belongs to none of the packages.
Ref outside_of(const Ref& from, std::initializer_list<std::string_view> packages) {
    Ref frame = Ref::to(from.borrow());
    while (is_frame(frame) && std::any_of(packages.begin(), packages.end(),
                                          [&frame](std::string_view package) { return is_of(frame, package); })) {
        frame = attribute(frame, "f_back");
    }
    return frame;
}

/// Returns the frame to show as the caller. A frame of the user's program is preferred. If PyTorch makes the call on
/// its own thread, the program has no frame there, and a frame of PyTorch is returned.
Ref calling_frame() {
    Ref caller = outside_of(Ref::to(reinterpret_cast<PyObject*>(PyEval_GetFrame())), {"rueda"});
    Ref of_program = outside_of(caller, {"rueda", "torch"});
    return is_frame(of_program) ? std::move(of_program) : std::move(caller);
}

/// Returns a copy of the file's name that is never freed, because pending operations keep pointers to it. Each name is
/// stored once, so there are at most as many copies as the program has files.
const char* kept(std::string_view file) {
    static auto* const files = new std::set<std::string, std::less<>>;
    const auto known = files->find(file);
    return (known != files->end() ? known : files->emplace(file).first)->c_str();
}

}  // namespace

void note_if_call_sites_are_wanted() { wanted = rueda_wants_call_sites() != 0; }

bool call_sites_are_wanted() { return wanted; }

CallSite calling_site() {
    const Ref frame = calling_frame();
    CallSite site;
    if (is_frame(frame)) {
        const Ref file = attribute(attribute(frame, "f_code"), "co_filename");
        const Ref line = attribute(frame, "f_lineno");
        if (const std::string_view name = text_of(file.borrow()); !name.empty()) {
            site = {kept(name), line ? static_cast<std::int32_t>(PyLong_AsLong(line.borrow())) : 0};
        }
    }
    PyErr_Clear();  // if an attribute is missing, there is no call site; this is no error
    return site;
}

}  // namespace rueda::python
