// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/borrowed_tensor.hpp"

#include <cstring>

#include "python/native/errors.hpp"
#include "python/native/tensor_view.hpp"
#include "python/native/torch_tensor.hpp"

namespace rueda::python {
namespace {

/// Returns the dtype for a format string of Python's struct module; -1 if Rueda has no such dtype.
int dtype_of(const char* format, Py_ssize_t itemsize) {
    if (format == nullptr) {
        return itemsize == 1 ? RUEDA_UINT8 : -1;
    }
    // '@' and '=' at the beginning mean this machine's byte order. On a little-endian machine, '<' means the same.
    if (*format == '@' || *format == '=' || *format == '<') {
        ++format;
    }
    if (*format == '\0' || format[1] != '\0') {
        return -1;
    }
    switch (*format) {
        case '?':
            return RUEDA_BOOL;
        case 'B':
            return RUEDA_UINT8;
        case 'b':
            return RUEDA_INT8;
        case 'H':
            return RUEDA_UINT16;
        case 'h':
            return RUEDA_INT16;
        case 'I':
        case 'L':
        // 'l' and 'L' are a C long, which has eight bytes in native formats and four bytes in standard formats
        case 'Q':
            return itemsize == 8 ? RUEDA_UINT64 : itemsize == 4 ? RUEDA_UINT32 : -1;
        case 'i':
        case 'l':
        case 'q':
            return itemsize == 8 ? RUEDA_INT64 : itemsize == 4 ? RUEDA_INT32 : -1;
        case 'e':
            return RUEDA_FLOAT16;
        case 'f':
            return RUEDA_FLOAT32;
        case 'd':
            return RUEDA_FLOAT64;
        default:
            return -1;
    }
}

}  // namespace

void BorrowedTensor::give_back() {
    if (buffer_.obj != nullptr) {
        PyBuffer_Release(&buffer_);
    }
    owner_ = Ref();
}

void BorrowedTensor::give_back_to_torch() {
    PyObject* const holder = owner_.borrow();
    if (holder == nullptr) {
        return;
    }
    PyObject* const owner = is_tensor_view(holder) ? reinterpret_cast<const TensorView*>(holder)->owner : holder;
    if (owner != nullptr && is_torch_tensor(owner)) {
        give_back();
    }
}

bool BorrowedTensor::borrow(PyObject* object, bool writable) {
    if (is_tensor_view(object)) {
        return borrow_view(Ref::to(object), writable);
    }
    if (is_torch_tensor(object)) {
        return borrow_torch(object);
    }
    if (borrow_buffer(object, writable)) {
        return true;
    }
    // The object has no buffer, or Rueda cannot use the buffer's description. The object may still support DLPack or
    // hold bfloat16 or 8-bit floats, so the Python function adapter() tries to use it. If this fails too, the error of
    // adapter() says what is wrong.
    PyErr_Clear();
    Ref view = Ref::taken(
        PyObject_CallFunctionObjArgs(adapter(), object, writable ? Py_True : Py_False, static_cast<void*>(nullptr)));
    return view && borrow_view(std::move(view), writable);
}

bool BorrowedTensor::borrow_buffer(PyObject* object, bool writable) {
    if (PyObject_GetBuffer(object, &buffer_, kDimensions | kFormat | (writable ? kWritable : 0)) != 0) {
        buffer_.obj = nullptr;
        return false;
    }
    const int dtype = dtype_of(buffer_.format, buffer_.itemsize);
    if (dtype < 0 || buffer_.itemsize != static_cast<Py_ssize_t>(bytes_of(dtype))) {
        PyBuffer_Release(&buffer_);
        return false;
    }
    tensor_ = {buffer_.buf, reinterpret_cast<const std::int64_t*>(buffer_.shape), buffer_.ndim, dtype};
    return true;
}

bool BorrowedTensor::borrow_torch(PyObject* object) {
    if (!describe_torch_tensor(object, tensor_, shape_, device_)) {
        return false;
    }
    owner_ = Ref::to(object);
    return true;
}

bool BorrowedTensor::borrow_view(Ref view, bool writable) {
    if (!is_tensor_view(view.borrow())) {
        PyErr_SetString(PyExc_TypeError, "the adapter of tensors returned no TensorView");
        return false;
    }
    const auto& viewed = *reinterpret_cast<const TensorView*>(view.borrow());
    if (writable && !viewed.writable) {
        PyErr_SetString(PyExc_ValueError,
                        "the tensor is read-only and cannot be an output; give one that can be written");
        return false;
    }
    tensor_ = viewed.tensor;
    device_ = viewed.device;
    owner_ = std::move(view);
    return true;
}

}  // namespace rueda::python
