// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Gives Rueda the memory of a Python object as a tensor. The BorrowedTensor keeps the object alive while an operation
// may use the memory.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// A tensor whose memory belongs to a Python object. Threads: the constructor and the destructor run on a thread that
/// holds the GIL.
class BorrowedTensor {
public:
    BorrowedTensor() = default;
    // An object must not move, because `tensor_` may point to the shape in it.
    BorrowedTensor(const BorrowedTensor&) = delete;
    BorrowedTensor& operator=(const BorrowedTensor&) = delete;
    ~BorrowedTensor() { give_back(); }

    /// Describes the memory of `object` as a tensor. `writable` says whether the operation will write to it. Returns
    /// false, with a Python error set, if the object is not a tensor or must not be written.
    [[nodiscard]] bool borrow(PyObject* object, bool writable);
    void give_back();
    /// Gives the tensor back if PyTorch has allocated its memory; otherwise does nothing. The reason for the
    /// difference: PyTorch's allocator gives freed memory only to later work of the stream for which it was allocated.
    /// Other allocators may give freed memory to other streams at once.
    void give_back_to_torch();
    [[nodiscard]] const rueda_tensor& tensor() const { return tensor_; }
    /// Returns the device in whose memory the tensor is, and the stream on which it is ready.
    [[nodiscard]] const rueda_device_stream& device() const { return device_; }

private:
    [[nodiscard]] bool borrow_buffer(PyObject* object, bool writable);
    [[nodiscard]] bool borrow_view(Ref view, bool writable);
    [[nodiscard]] bool borrow_torch(PyObject* object);

    // While this buffer is held, its owner cannot resize it. A mere reference to the owner would not prevent this.
    rueda_py_buffer buffer_{};
    Ref owner_;  // the TensorView or the PyTorch tensor that owns the memory
    rueda_tensor tensor_{};
    rueda_device_stream device_{RUEDA_CPU, 0, nullptr};
    std::int64_t shape_[RUEDA_MAX_DIMENSIONS];  // the shape of a PyTorch tensor; uninitialised for any other object
};

}  // namespace rueda::python
