// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Includes the limited API of Python 3.10, so that one binary works with every later Python. Python 3.10 exports the
// functions of the buffer protocol, but its headers declare them in the limited API only from 3.11 on. This file
// therefore declares them (docs/design/0003-python.md).
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include <cstdint>
#include <utility>

extern "C" {

/// The layout of Python's Py_buffer. This layout has not changed since Python 3.3, and the stable ABI guarantees the
/// layout from 3.11 on.
struct rueda_py_buffer {
    void* buf;
    PyObject* obj;  // an owned reference to the object that exports the buffer
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char* format;
    Py_ssize_t* shape;
    Py_ssize_t* strides;
    Py_ssize_t* suboffsets;
    void* internal;
};

// NOLINTBEGIN(readability-identifier-naming): names of Python's
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject* exporter, rueda_py_buffer* view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(rueda_py_buffer* view);
PyAPI_FUNC(int)
    PyBuffer_FillInfo(rueda_py_buffer* view, PyObject* exporter, void* buf, Py_ssize_t len, int readonly, int flags);
// NOLINTEND(readability-identifier-naming)
}

namespace rueda::python {

// The values of Python's PyBUF_WRITABLE, PyBUF_FORMAT and PyBUF_ND, and the slot number Py_bf_getbuffer.
inline constexpr int kWritable = 0x0001;
inline constexpr int kFormat = 0x0004;
inline constexpr int kDimensions = 0x0008;
inline constexpr int kGetBufferSlot = 1;

static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t), "shapes of buffers are given to Rueda as they are");

/// Owns a reference to a Python object. Threads: use it only on a thread that holds the GIL.
class Ref {
public:
    Ref() = default;
    /// Takes ownership of a new reference, which a function of Python returned. The reference may be null, because the
    /// function may have failed.
    static Ref taken(PyObject* object) { return Ref(object); }
    /// Adds a reference to the object.
    static Ref to(PyObject* object) {
        Py_XINCREF(object);
        return Ref(object);
    }
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref& operator=(Ref&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    Ref(const Ref&) = delete;
    Ref& operator=(const Ref&) = delete;
    ~Ref() { Py_XDECREF(object_); }

    [[nodiscard]] PyObject* borrow() const { return object_; }
    [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }
    explicit operator bool() const { return object_ != nullptr; }

private:
    explicit Ref(PyObject* object) : object_(object) {}
    PyObject* object_ = nullptr;
};

/// Releases the GIL for the lifetime of the object, so that other Python threads can run.
class WithoutGil {
public:
    WithoutGil() : state_(PyEval_SaveThread()) {}
    ~WithoutGil() { PyEval_RestoreThread(state_); }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

private:
    PyThreadState* state_;
};

}  // namespace rueda::python
