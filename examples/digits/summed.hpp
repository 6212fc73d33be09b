// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"

namespace digits {

/// Sums (or otherwise reduces) numbers over all ranks while this rank computes: call start(), do other work, and then
/// call wait(). The numbers are in resident memory, where the ranks of a host add them up in place. A TensorSlot keeps
/// the numbers' name, so that Rueda need not look up the name in each step.
template <class T>
class Summed {
public:
    Summed(const std::string& name, const rueda::Shape& shape)
        : shape_(shape), numbers_(static_cast<std::size_t>(shape.elements())), slot_(name) {}
    Summed(Summed&&) noexcept = default;
    Summed& operator=(Summed&&) = delete;
    /// Waits for the allreduce of the numbers, even after an exception, because Rueda uses the numbers until the end of
    /// the allreduce.
    ~Summed() {
        try {
            pending_.wait();
        } catch (const rueda::Error&) {  // ignored: the caller of wait() already got this error
        }
    }

    [[nodiscard]] std::span<T> numbers() noexcept { return numbers_; }
    void start(const rueda::AllreduceOptions& options = {.op = rueda::ReduceOp::sum}) {
        const rueda::TensorView view(numbers_.data(), rueda::dtype_of<T>, shape_);
        pending_ = rueda::allreduce_async(slot_, view, options);
    }
    void wait() { pending_.wait(); }

private:
    rueda::Shape shape_;
    std::vector<T, rueda::Allocator<T>> numbers_;
    rueda::TensorSlot slot_;
    rueda::Handle pending_;
};

}  // namespace digits
