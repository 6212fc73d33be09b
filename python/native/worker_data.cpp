// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/worker_data.hpp"

#include <array>
#include <cstdint>

#include "python/native/errors.hpp"
#include "rueda/data.h"

namespace rueda::python {
namespace {

constexpr const char* kPinnedName = "rueda.data_pinned";
constexpr std::size_t kKeyBytes = 32;

rueda_data_pinned* pinned_in(PyObject* capsule) {
    return static_cast<rueda_data_pinned*>(PyCapsule_GetPointer(capsule, kPinnedName));
}

/// Runs the handshake by which both sides of a connection prove that they know the secret. Arguments: (socket, whether
/// this side has accepted the connection, secret, purpose, seconds). Returns the connection's keys for sending and
/// receiving.
PyObject* data_prove(PyObject* /*module*/, PyObject* args) {
    int socket = -1;
    int accepted = 0;
    const char* secret = nullptr;
    const char* purpose = nullptr;
    double seconds = 0;
    std::array<unsigned char, kKeyBytes> sending{};
    std::array<unsigned char, kKeyBytes> receiving{};
    if (PyArg_ParseTuple(args, "ipssd", &socket, &accepted, &secret, &purpose, &seconds) == 0 || !succeeds([&] {
            return rueda_data_prove(socket, accepted, secret, purpose, seconds, sending.data(), receiving.data());
        })) {
        return nullptr;
    }
    return Py_BuildValue("y#y#", reinterpret_cast<const char*>(sending.data()), static_cast<Py_ssize_t>(kKeyBytes),
                         reinterpret_cast<const char*>(receiving.data()), static_cast<Py_ssize_t>(kKeyBytes));
}

/// Arguments: (address, bytes, device). Pins memory and returns a capsule. The capsule has no destructor, because only
/// the caller knows whether the memory is still mapped.
PyObject* data_pin(PyObject* /*module*/, PyObject* args) {
    unsigned long long address = 0;
    Py_ssize_t bytes = 0;
    int device = 0;
    rueda_data_pinned* pinned = nullptr;
    if (PyArg_ParseTuple(args, "Kni", &address, &bytes, &device) == 0 || !succeeds([&] {
            return rueda_data_pin(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)),
                                  static_cast<std::size_t>(bytes), device, &pinned);
        })) {
        return nullptr;
    }
    PyObject* const capsule = PyCapsule_New(pinned, kPinnedName, nullptr);
    if (capsule == nullptr) {
        static_cast<void>(rueda_data_unpin(pinned));
    }
    return capsule;
}

/// Argument: the capsule. Records that the GPU may use the pinned memory until it has done all work that is now in its
/// legacy default stream.
PyObject* data_pinned_note_work(PyObject* /*module*/, PyObject* capsule) {
    rueda_data_pinned* const pinned = pinned_in(capsule);
    if (pinned == nullptr || !succeeds([&] { return rueda_data_pinned_note_work(pinned, nullptr); })) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* data_pinned_is_idle(PyObject* /*module*/, PyObject* capsule) {
    rueda_data_pinned* const pinned = pinned_in(capsule);
    std::int32_t idle = 0;
    if (pinned == nullptr || !succeeds([&] { return rueda_data_pinned_is_idle(pinned, &idle); })) {
        return nullptr;
    }
    return PyBool_FromLong(idle);
}

/// Argument: the capsule, which must not be used afterwards.
PyObject* data_unpin(PyObject* /*module*/, PyObject* capsule) {
    rueda_data_pinned* const pinned = pinned_in(capsule);
    if (pinned == nullptr || !succeeds([&] { return rueda_data_unpin(pinned); })) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyMethodDef worker_data_methods[] = {{"data_prove", data_prove, METH_VARARGS, nullptr},
                                     {"data_pin", data_pin, METH_VARARGS, nullptr},
                                     {"data_pinned_note_work", data_pinned_note_work, METH_O, nullptr},
                                     {"data_pinned_is_idle", data_pinned_is_idle, METH_O, nullptr},
                                     {"data_unpin", data_unpin, METH_O, nullptr},
                                     {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyMethodDef* worker_data_functions() { return worker_data_methods; }

}  // namespace rueda::python
