// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A Python object's memory as a tensor, and the hold on it while an operation may use it.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Threads: made and destroyed by who holds the GIL.
class BorrowedTensor {
public:
    BorrowedTensor() = default;
    // The shape may lie in here or in the buffer's own structure, so it stays where it is.
    BorrowedTensor(const BorrowedTensor&) = delete;
    BorrowedTensor& operator=(const BorrowedTensor&) = delete;
    ~BorrowedTensor() { give_back(); }

    /// False with an error set. `writable`: it is to be an output.
    [[nodiscard]] bool borrow(PyObject* object, bool writable);
    void give_back();
    [[nodiscard]] const rueda_tensor& tensor() const { return tensor_; }

private:
    [[nodiscard]] bool borrow_buffer(PyObject* object, bool writable);
    [[nodiscard]] bool borrow_view(Ref view, bool writable);
    [[nodiscard]] bool borrow_torch(PyObject* object);

    // A held buffer also keeps its owner from resizing it, which a reference to the owner would not.
    rueda_py_buffer buffer_{};
    Ref owner_;  // a TensorView, or a tensor of PyTorch's
    rueda_tensor tensor_{};
    std::int64_t shape_[RUEDA_MAX_DIMENSIONS];  // of a tensor of PyTorch's; not written otherwise
};

}  // namespace rueda::python
