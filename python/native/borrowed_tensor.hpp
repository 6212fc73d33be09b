// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A Python object's memory as a tensor. While an operation may use the memory, this object keeps it alive.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Threads: constructed and destroyed by a thread that holds the GIL.
class BorrowedTensor {
public:
    BorrowedTensor() = default;
    // The shape may lie in this object or in the buffer's own structure, so this object must not move.
    BorrowedTensor(const BorrowedTensor&) = delete;
    BorrowedTensor& operator=(const BorrowedTensor&) = delete;
    ~BorrowedTensor() { give_back(); }

    /// Returns false, with a Python error set, if the object is no tensor. `writable`: the tensor is to be an output.
    [[nodiscard]] bool borrow(PyObject* object, bool writable);
    void give_back();
    [[nodiscard]] const rueda_tensor& tensor() const { return tensor_; }

private:
    [[nodiscard]] bool borrow_buffer(PyObject* object, bool writable);
    [[nodiscard]] bool borrow_view(Ref view, bool writable);
    [[nodiscard]] bool borrow_torch(PyObject* object);

    // While a buffer is held, its owner cannot resize it. A reference to the owner would not prevent that.
    rueda_py_buffer buffer_{};
    Ref owner_;  // a TensorView, or a tensor of PyTorch's
    rueda_tensor tensor_{};
    std::int64_t shape_[RUEDA_MAX_DIMENSIONS];  // only for a tensor of PyTorch; otherwise not written
};

}  // namespace rueda::python
