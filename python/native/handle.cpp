// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/handle.hpp"

#include <cmath>
#include <utility>

#include "python/native/callback_scope.hpp"
#include "python/native/errors.hpp"
#include "python/native/torch_tensor.hpp"

namespace rueda::python {
namespace {

struct Handle {
    PyObject base;  // stands for PyObject_HEAD
    InFlight* operation;
};

PyTypeObject* handle_type = nullptr;

InFlight& operation_of(PyObject* self) { return *reinterpret_cast<Handle*>(self)->operation; }

void destroy(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    if (InFlight* const operation = reinterpret_cast<Handle*>(self)->operation) {
        abandon(std::unique_ptr<InFlight>(operation));
    }
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/// Reads a timeout in seconds. `seconds` becomes -1 for None. On failure, returns false with a Python error set.
bool read_limit(PyObject* given, double& seconds) {
    seconds = given == Py_None ? -1 : PyFloat_AsDouble(given);
    if (PyErr_Occurred() != nullptr) {
        return false;
    }
    if (given != Py_None && (std::isnan(seconds) || seconds < 0)) {
        PyErr_Format(PyExc_ValueError, "timeout is %R; expected seconds from 0, or None to wait without end", given);
        return false;
    }
    return true;
}

/// Reads the only argument, `timeout=…`, in seconds. `seconds` becomes -1 if the argument is None or missing. On
/// failure, returns false with a Python error set.
bool read_timeout(PyObject* const* arguments, Py_ssize_t count, PyObject* names, double& seconds) {
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_Size(names);
    if (count + named > 1 ||
        (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "timeout") != 0)) {
        PyErr_SetString(PyExc_TypeError, "the only argument is timeout: seconds, or None");
        return false;
    }
    return read_limit(count + named == 0 ? Py_None : arguments[0], seconds);
}

/// Waits for the operation. Returns true if it succeeded; otherwise sets a Python error.
bool wait_until_ended(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    double seconds = -1;
    if (!read_timeout(arguments, count, names, seconds)) {
        return false;
    }
    InFlight& operation = operation_of(self);
    const int status = operation.wait(seconds);
    if (status == RUEDA_OK) {
        return true;
    }
    operation.raise_for(status, seconds);
    // The operation is still pending if the wait timed out, if a signal interrupted the wait, or if a callback was not
    // allowed to wait. In these cases its tensors are still in use.
    if (operation.has_ended()) {
        operation.give_tensors_back();
    }
    return false;
}

PyObject* wait(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    if (!wait_until_ended(self, arguments, count, names)) {
        return nullptr;
    }
    operation_of(self).give_tensors_back();
    Py_RETURN_NONE;
}

PyObject* result(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    return wait_until_ended(self, arguments, count, names) ? operation_of(self).conclude() : nullptr;
}

/// Makes `stream` wait for an operation on a GPU. Returns true if the operation has not failed; otherwise sets a Python
/// error.
bool wait_on(PyObject* self, void* stream, double seconds) {
    InFlight& operation = operation_of(self);
    const int status = operation.wait_on_stream(stream, seconds);
    if (status == RUEDA_OK) {
        return true;
    }
    operation.raise_for(status, seconds);
    if (operation.has_ended()) {
        operation.give_tensors_back();
    }
    return false;
}

/// Arguments: (stream, timeout). `stream` is the address of a CUDA stream on the operation's device. For an operation
/// in the CPU's memory, waits until the operation has ended.
PyObject* wait_on_stream(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    double seconds = -1;
    if (count != 2 || !read_limit(arguments[1], seconds)) {
        if (PyErr_Occurred() == nullptr) {
            PyErr_Format(PyExc_TypeError, "_wait_on_stream: %zd arguments; expected 2", count);
        }
        return nullptr;
    }
    InFlight& operation = operation_of(self);
    if (operation.device.type == RUEDA_CPU) {
        return wait(self, arguments + 1, 1, nullptr);
    }
    void* const stream = PyLong_AsVoidPtr(arguments[0]);
    if (PyErr_Occurred() != nullptr || !wait_on(self, stream, seconds)) {
        return nullptr;
    }
    operation.give_tensors_back_in(stream);
    Py_RETURN_NONE;
}

/// Arguments: (stream, timeout). `stream` is a stream object of another library, or a stream's address.
PyObject* wait_on_stream_of_caller(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    PyObject* found[] = {nullptr, Py_None};  // stream, timeout
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_Size(names);
    bool fits = count + named <= 2;
    for (Py_ssize_t i = 0; fits && i < count + named; ++i) {
        PyObject* const name = i < count ? nullptr : PyTuple_GetItem(names, i - count);
        const bool is_stream = name == nullptr ? i == 0 : PyUnicode_CompareWithASCIIString(name, "stream") == 0;
        fits = name == nullptr || (is_stream && count == 0) || PyUnicode_CompareWithASCIIString(name, "timeout") == 0;
        found[is_stream ? 0 : 1] = arguments[i];
    }
    if (!fits || found[0] == nullptr) {
        PyErr_SetString(PyExc_TypeError, "wait_on_stream: expected a stream, and timeout: seconds, or None");
        return nullptr;
    }
    const Ref address =
        Ref::taken(PyObject_CallFunctionObjArgs(stream_reader(), found[0], static_cast<void*>(nullptr)));
    if (!address) {
        return nullptr;
    }
    PyObject* const given[] = {address.borrow(), found[1]};
    return wait_on_stream(self, given, 2);
}

/// Arguments: (stream, timeout). Like wait_on_stream(), but returns False after the timeout, and does not raise the
/// error of a failed operation.
PyObject* try_to_wait_on_stream(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    double seconds = -1;
    InFlight& operation = operation_of(self);
    if (count != 2 || operation.device.type == RUEDA_CPU) {
        PyErr_SetString(PyExc_TypeError, "_try_to_wait_on_stream: expected an operation on a GPU and 2 arguments");
        return nullptr;
    }
    void* const stream = PyLong_AsVoidPtr(arguments[0]);
    if (PyErr_Occurred() != nullptr || !read_limit(arguments[1], seconds)) {
        return nullptr;
    }
    const int status = operation.wait_on_stream(stream, seconds);
    if (status == RUEDA_OK || status == RUEDA_TIMEOUT || operation.has_ended()) {
        return PyBool_FromLong(status != RUEDA_TIMEOUT || operation.has_ended() ? 1 : 0);
    }
    operation.raise_for(status, seconds);
    return nullptr;
}

/// Argument: a timeout in seconds, or None. Returns the result of the operation. If its tensors are on a GPU, makes
/// PyTorch's current stream wait for the operation. In this case the calling thread does not wait for the GPU.
PyObject* torch_result(PyObject* self, PyObject* timeout) {
    InFlight& operation = operation_of(self);
    if (operation.device.type == RUEDA_CPU) [[likely]] {
        return result(self, &timeout, 1, nullptr);
    }
    double seconds = -1;
    void* stream = nullptr;
    return read_limit(timeout, seconds) && read_current_stream(operation.device.index, stream) &&
                   wait_on(self, stream, seconds)
               ? operation.conclude_on_stream(stream)
               : nullptr;
}

PyObject* poll(PyObject* self, PyObject* /*unused*/) {
    const bool ended = operation_of(self).has_ended();
    if (ended) {
        operation_of(self).give_tensors_back();
    }
    return PyBool_FromLong(ended ? 1 : 0);
}

PyObject* wait_a_while(PyObject* self, PyObject* seconds) {
    const double slice = PyFloat_AsDouble(seconds);
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    return PyBool_FromLong(operation_of(self).wait_a_while(slice) ? 1 : 0);
}

PyObject* waits_for(PyObject* self, PyObject* /*unused*/) {
    return PyUnicode_FromString(operation_of(self).waits_for().c_str());
}

/// Calls one callback. If the callback raises an exception, sys.unraisablehook reports it, and it is not raised further
/// (as in concurrent.futures).
void call_with(PyObject* callback, PyObject* self) {
    const CallbackScope scope;
    const Ref returned = Ref::taken(PyObject_CallFunctionObjArgs(callback, self, static_cast<void*>(nullptr)));
    if (!returned) {
        PyErr_WriteUnraisable(callback);
    }
}

/// Calls all callbacks of a handle. Runs on a thread of Rueda, or inside add_done_callback() on the calling thread.
/// `data` owns a reference to the handle, so the handle stays alive until this function has run.
void call_all(int /*status*/, const char* /*message*/, void* data) {
    const PyGILState_STATE state = PyGILState_Ensure();
    {
        const Ref self = Ref::taken(static_cast<PyObject*>(data));
        // The list is taken out of the handle before the callbacks run. If one of the callbacks adds another callback,
        // add_done_callback() finds no list, and the new callback is called at once.
        const Ref callbacks = std::move(operation_of(self.borrow()).callbacks);
        for (Py_ssize_t i = 0, count = PyList_Size(callbacks.borrow()); i < count; ++i) {
            call_with(PyList_GetItem(callbacks.borrow(), i), self.borrow());
        }
    }
    PyGILState_Release(state);
}

PyObject* add_done_callback(PyObject* self, PyObject* callback) {
    if (PyCallable_Check(callback) == 0) {
        PyErr_Format(PyExc_TypeError, "add_done_callback: %R cannot be called; expected a function of the handle",
                     callback);
        return nullptr;
    }
    InFlight& operation = operation_of(self);
    if (operation.callbacks) {
        return PyList_Append(operation.callbacks.borrow(), callback) == 0 ? Ref::to(Py_None).release() : nullptr;
    }
    if (operation.has_ended()) {
        call_with(callback, self);
        Py_RETURN_NONE;
    }
    operation.callbacks = Ref::taken(PyList_New(0));
    if (!operation.callbacks || PyList_Append(operation.callbacks.borrow(), callback) != 0) {
        return nullptr;
    }
    Py_INCREF(self);  // call_all() releases this reference
    const int status = rueda_handle_on_completion(operation.handle.get(), &call_all, self);
    if (status != RUEDA_OK) {
        operation.callbacks = Ref();
        Py_DECREF(self);
        raise_last(status);
        return nullptr;
    }
    Py_RETURN_NONE;
}

/// Refuses `Handle()`. Otherwise the type would inherit the constructor of `object`, and a program could make handles
/// without an operation.
PyObject* refuse_to_make(PyTypeObject* /*type*/, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    PyErr_SetString(
        PyExc_TypeError,
        "a rueda.Handle cannot be made or copied: it belongs to one operation; call an _async function, such "
        "as rueda.allreduce_async(), which returns one");
    return nullptr;
}

PyObject* await(PyObject* self) { return PyObject_CallFunctionObjArgs(awaiter(), self, static_cast<void*>(nullptr)); }

PyObject* name_of(PyObject* self, void* /*closure*/) { return Ref::to(operation_of(self).name.borrow()).release(); }

PyObject* device_of_handle(PyObject* self, void* /*closure*/) {
    const rueda_device_stream& device = operation_of(self).device;
    return PyLong_FromLong(device.type == RUEDA_CPU ? -1 : device.index);
}

PyObject* stream_of_handle(PyObject* self, void* /*closure*/) {
    return PyLong_FromVoidPtr(operation_of(self).device.stream);
}

PyObject* show(PyObject* self) {
    InFlight& operation = operation_of(self);
    return PyUnicode_FromFormat("<rueda.Handle %R, %s>", operation.name.borrow(),
                                operation.has_ended() ? "completed" : "pending");
}

template <class Function>
PyCFunction as_method(Function* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace

PyObject* make_handle_type() {
    static PyMethodDef methods[] = {
        {"wait", as_method(&wait), METH_FASTCALL | METH_KEYWORDS,
         "wait(timeout=None)\n--\n\nBlock until the operation has completed; raise what it failed with."},
        {"result", as_method(&result), METH_FASTCALL | METH_KEYWORDS,
         "result(timeout=None)\n--\n\nWait, and return what the blocking form returns."},
        {"poll", poll, METH_NOARGS, "poll()\n--\n\nWhether the operation has completed, well or not. Does not block."},
        {"wait_on_stream", as_method(&wait_on_stream_of_caller), METH_FASTCALL | METH_KEYWORDS,
         "wait_on_stream(stream, timeout=None)\n--\n\nMake a CUDA stream wait for the operation, and not the host."},
        {"_wait_on_stream", as_method(&wait_on_stream), METH_FASTCALL,
         "Make the stream with this address wait for the operation; (stream, timeout)."},
        {"_try_to_wait_on_stream", as_method(&try_to_wait_on_stream), METH_FASTCALL,
         "Whether the stream with this address waits for the operation now; (stream, timeout)."},
        {"_torch_result", torch_result, METH_O, "result(), for which PyTorch's current stream waits, not the host."},
        {"_wait_a_while", wait_a_while, METH_O, "Block for at most so many seconds; whether it has completed."},
        {"_waits_for", waits_for, METH_NOARGS,
         "_waits_for()\n--\n\nWhich ranks have announced a pending operation and which have not; '' where that is not "
         "known."},
        {"add_done_callback", add_done_callback, METH_O,
         "add_done_callback(fn)\n--\n\nCall fn(handle) when the operation has completed: at once where it has, else on "
         "a "
         "thread of Rueda."},
        {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Handle[T]: a handle whose result is a T."},
        {nullptr, nullptr, 0, nullptr}};
    static PyGetSetDef properties[] = {
        {"name", name_of, nullptr, "The operation's name, a TensorSlot, or None.", nullptr},
        {"_device", device_of_handle, nullptr, "The number of the tensors' CUDA device; -1 for the CPU's memory.",
         nullptr},
        {"_stream", stream_of_handle, nullptr, "The address of the stream of the call.", nullptr},
        {nullptr, nullptr, nullptr, nullptr, nullptr}};
    static PyType_Slot slots[] = {
        {Py_tp_new, reinterpret_cast<void*>(&refuse_to_make)},
        {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
        {Py_tp_methods, methods},
        {Py_tp_getset, properties},
        {Py_tp_repr, reinterpret_cast<void*>(&show)},
        {Py_am_await, reinterpret_cast<void*>(&await)},
        {Py_tp_doc, const_cast<char*>("The caller's end of an operation under way.\n\n"
                                      "Rueda uses the operation's tensors until it has completed; the handle keeps "
                                      "them alive. Dropping a handle neither\n"
                                      "waits nor cancels. Threads: any; several may wait for the same handle.\n\n"
                                      "Example::\n\n"
                                      "    handle = rueda.allreduce_async(gradient, 'gradient')\n"
                                      "    average = handle.result()  # or: average = await handle\n")},
        {0, nullptr}};
    static PyType_Spec spec = {"rueda.Handle", sizeof(Handle), 0, Py_TPFLAGS_DEFAULT, slots};
    handle_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return Ref::to(reinterpret_cast<PyObject*>(handle_type)).release();
}

PyObject* new_handle(std::unique_ptr<InFlight> operation) {
    Ref made = Ref::taken(reinterpret_cast<PyObject* (*)(PyTypeObject*, Py_ssize_t)>(
        PyType_GetSlot(handle_type, Py_tp_alloc))(handle_type, 0));
    if (!made) {
        abandon(std::move(operation));
        return nullptr;
    }
    reinterpret_cast<Handle*>(made.borrow())->operation = operation.release();
    return made.release();
}

}  // namespace rueda::python
