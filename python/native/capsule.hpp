// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Objects of the C interface in Python capsules, and calls of functions with such an object.
#pragma once

#include <unistd.h>

#include <cstdint>

#include "python/native/errors.hpp"
#include "python/native/python_api.hpp"
#include "python/native/texts.hpp"

namespace rueda::python {

/// For a type T of objects of the C interface: the name of the capsules that contain a T (kName), and the function that
/// frees a T (free()). Each T specialises this template.
template <class T>
struct Held;

/// Returns the object in a capsule. Returns null, with a Python error set, if the capsule has another kind of object.
template <class T>
T* held_in(PyObject* capsule) {
    return static_cast<T*>(PyCapsule_GetPointer(capsule, Held<T>::kName));
}

/// Makes a capsule that owns the object. If this fails, frees the object and returns null, with a Python error set.
///
/// A forked child has a copy of the capsule, and does not free the object. Freeing a pipeline would wait for threads
/// that the child does not have, and freeing a writer would write the bytes that the parent also writes.
template <class T>
PyObject* capsule_of(T* object) {
    void* const process = reinterpret_cast<void*>(static_cast<std::intptr_t>(getpid()));
    PyObject* const capsule = PyCapsule_New(object, Held<T>::kName, [](PyObject* dying) {
        if (PyCapsule_GetContext(dying) == reinterpret_cast<void*>(static_cast<std::intptr_t>(getpid()))) {
            Held<T>::free(held_in<T>(dying));
        }
    });
    if (capsule == nullptr || PyCapsule_SetContext(capsule, process) != 0) {
        if (capsule == nullptr) {
            Held<T>::free(object);
        }
        Py_XDECREF(capsule);
        return nullptr;
    }
    return capsule;
}

/// Calls `open` without the GIL. `open` makes a T, stores its address, and returns a status code. Returns a capsule
/// with the T; after a failure null, with a Python error set.
template <class T, class Open>
PyObject* capsule_from(const Open& open) {
    T* object = nullptr;
    return succeeds([&] { return open(&object); }) ? capsule_of(object) : nullptr;
}

/// Calls `body` with the capsule's object, without the GIL. `body` returns a status code. Returns whether it succeeded;
/// otherwise a Python error is set.
template <class T, class Body>
bool succeeds_with(PyObject* capsule, const Body& body) {
    T* const object = held_in<T>(capsule);
    return object != nullptr && succeeds([&] { return body(object); });
}

/// Calls `body` with the capsule's object, without the GIL. Returns None; after a failure null, with a Python error
/// set.
template <class T, class Body>
PyObject* none_after(PyObject* capsule, const Body& body) {
    if (!succeeds_with<T>(capsule, body)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

/// Calls `body` with the capsule's object and the address of a char pointer, without the GIL. `body` stores a text
/// there. Returns this text as a Python text, and frees the original with `free`. After a failure, returns null with a
/// Python error set.
template <class T, class Body>
PyObject* text_from(PyObject* capsule, const Body& body, void (*free)(char*)) {
    char* text = nullptr;
    return succeeds_with<T>(capsule, [&](T* object) { return body(object, &text); }) ? take_text(text, free) : nullptr;
}

}  // namespace rueda::python
