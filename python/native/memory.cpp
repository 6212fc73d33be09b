// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/memory.hpp"

#include <new>

#include "python/native/errors.hpp"

namespace rueda::python {
namespace {

struct Memory {
    PyObject base;  // PyObject_HEAD
    void* data;
    Py_ssize_t bytes;
    SharedHandle handle;  // the operation whose output this memory is; null if the memory is from allocate()
};

PyTypeObject* memory_type = nullptr;

Memory& memory_of(PyObject* object) { return *reinterpret_cast<Memory*>(object); }

Ref new_memory(void* data, std::size_t bytes, SharedHandle handle) {
    Ref made = Ref::taken(reinterpret_cast<PyObject* (*)(PyTypeObject*, Py_ssize_t)>(
        PyType_GetSlot(memory_type, Py_tp_alloc))(memory_type, 0));
    if (made) {
        Memory& memory = memory_of(made.borrow());
        memory.data = data;
        memory.bytes = static_cast<Py_ssize_t>(bytes);
        new (&memory.handle) SharedHandle(std::move(handle));
    }
    return made;
}

void destroy(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    Memory& memory = memory_of(self);
    if (!memory.handle) {
        // The library refuses to free memory that an operation uses. This cannot happen here: such an operation would
        // hold a reference to the array over the memory, and thereby to this object. But this object has no references
        // left.
        rueda_deallocate(memory.data);
    }
    memory.handle.~SharedHandle();
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

int export_buffer(PyObject* self, rueda_py_buffer* view, int flags) {
    return PyBuffer_FillInfo(view, self, memory_of(self).data, memory_of(self).bytes, /*readonly=*/0, flags);
}

}  // namespace

PyObject* make_memory_type() {
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
        {kGetBufferSlot, reinterpret_cast<void*>(&export_buffer)},
        {Py_tp_doc, const_cast<char*>("Bytes that Rueda owns; freed with the last view of them.")},
        {0, nullptr}};
    static PyType_Spec spec = {"rueda.Memory", sizeof(Memory), 0, Py_TPFLAGS_DEFAULT, slots};
    memory_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return Ref::to(reinterpret_cast<PyObject*>(memory_type)).release();
}

PyObject* memory_of_output(const SharedHandle& handle, void* data, std::size_t bytes) {
    return new_memory(data, bytes, handle).release();
}

PyObject* allocate(PyObject* /*module*/, PyObject* bytes) {
    const std::size_t wanted = PyLong_AsSize_t(bytes);
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    void* data = nullptr;
    int status = RUEDA_OK;
    {
        // the first use of the memory takes long; without the GIL, other Python threads can run meanwhile
        const WithoutGil without_gil;
        status = rueda_allocate(wanted, &data);
    }
    if (status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    Ref made = new_memory(data, wanted, {});
    if (!made) {
        rueda_deallocate(data);
    }
    return made.release();
}

}  // namespace rueda::python
