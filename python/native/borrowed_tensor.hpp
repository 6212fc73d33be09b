// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Gives Rueda the memory of a Python object as a tensor. The BorrowedTensor keeps the object alive while an operation
// may use the memory.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Threads: the constructor and the destructor run on a thread that holds the GIL.
class BorrowedTensor {
public:
    BorrowedTensor() = default;
    // The tensor may point to a shape inside this object, so this object must not move.
    BorrowedTensor(const BorrowedTensor&) = delete;
    BorrowedTensor& operator=(const BorrowedTensor&) = delete;
    ~BorrowedTensor() { give_back(); }

    /// Returns false, with a Python error set, if the object is not a tensor. If `writable` is true, the operation will
    /// write to the tensor.
    [[nodiscard]] bool borrow(PyObject* object, bool writable);
    void give_back();
    [[nodiscard]] const rueda_tensor& tensor() const { return tensor_; }

private:
    [[nodiscard]] bool borrow_buffer(PyObject* object, bool writable);
    [[nodiscard]] bool borrow_view(Ref view, bool writable);
    [[nodiscard]] bool borrow_torch(PyObject* object);

    // While the buffer is held, its owner cannot resize it. Holding only a reference to the owner would not prevent a
    // resize.
    rueda_py_buffer buffer_{};
    Ref owner_;  // a TensorView or a PyTorch tensor
    rueda_tensor tensor_{};
    std::int64_t shape_[RUEDA_MAX_DIMENSIONS];  // used only for a PyTorch tensor; otherwise uninitialised
};

}  // namespace rueda::python
