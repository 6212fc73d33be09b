// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/slot.hpp"

#include <cstring>

#include "python/native/errors.hpp"
#include "python/native/integers.hpp"

namespace rueda::python {
namespace {

struct TensorSlot {
    PyObject base;  // PyObject_HEAD
    rueda_slot* slot;
    PyObject* name;
};

PyTypeObject* slot_type = nullptr;

TensorSlot& of(PyObject* object) { return *reinterpret_cast<TensorSlot*>(object); }

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"name", "process_set", nullptr};
    PyObject* name = nullptr;
    PyObject* process_set = nullptr;
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "U|O:TensorSlot", const_cast<char**>(names), &name,
                                    &process_set) == 0) {
        return nullptr;
    }
    std::int32_t number = 0;
    if (process_set != nullptr) {
        const Ref id = Ref::taken(PyObject_GetAttrString(process_set, "process_set_id"));
        if (!id || !read_int32(id.borrow(), "the number of the process set", number)) {
            return nullptr;
        }
    }
    const char* const text = text_of_name(name);
    if (text == nullptr) {
        return nullptr;
    }
    rueda_slot* slot = nullptr;
    if (const int status = rueda_slot_create_in(text, number, &slot); status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    PyObject* const made =
        reinterpret_cast<PyObject* (*)(PyTypeObject*, Py_ssize_t)>(PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (made == nullptr) {
        rueda_slot_destroy(slot);
        return nullptr;
    }
    of(made).slot = slot;
    of(made).name = Ref::to(name).release();
    return made;
}

void destroy(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    // No operation is pending with this slot, because each pending operation holds a reference to this object.
    rueda_slot_destroy(of(self).slot);
    Py_XDECREF(of(self).name);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject* name_of(PyObject* self, void* /*closure*/) { return Ref::to(of(self).name).release(); }
PyObject* as_text(PyObject* self) { return Ref::to(of(self).name).release(); }
PyObject* show(PyObject* self) { return PyUnicode_FromFormat("rueda.TensorSlot(%R)", of(self).name); }

}  // namespace

PyObject* make_slot_type() {
    static PyGetSetDef properties[] = {{"name", name_of, nullptr, "The name it stands for.", nullptr},
                                       {nullptr, nullptr, nullptr, nullptr, nullptr}};
    static PyType_Slot slots[] = {
        {Py_tp_new, reinterpret_cast<void*>(&create)},
        {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
        {Py_tp_getset, properties},
        {Py_tp_repr, reinterpret_cast<void*>(&show)},
        {Py_tp_str, reinterpret_cast<void*>(&as_text)},
        {Py_tp_doc,
         const_cast<char*>("A name whose look-up is kept: give it in place of a name that is used at every step.\n\n"
                           "For operations of one process set.\n\n"
                           "Example::\n\n"
                           "    slot = rueda.TensorSlot('loss')\n"
                           "    for loss in losses:\n"
                           "        rueda.allreduce_(loss, slot)\n")},
        {0, nullptr}};
    static PyType_Spec spec = {"rueda.TensorSlot", sizeof(TensorSlot), 0, Py_TPFLAGS_DEFAULT, slots};
    slot_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return Ref::to(reinterpret_cast<PyObject*>(slot_type)).release();
}

rueda_slot* slot_of(PyObject* object) { return Py_TYPE(object) == slot_type ? of(object).slot : nullptr; }

const char* text_of_name(PyObject* name) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(name, &size);
    if (text != nullptr && std::strlen(text) != static_cast<std::size_t>(size)) {
        PyErr_Format(PyExc_ValueError, "the name %R has a zero byte; names are text without one", name);
        return nullptr;
    }
    return text;
}

}  // namespace rueda::python
