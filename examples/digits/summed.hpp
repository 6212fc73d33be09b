// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"

namespace digits {

/// Numbers that are summed over all ranks while this rank continues to compute: start(), then other work, then wait().
/// They lie in resident memory, where the ranks of a host add them up in place. The look-up of their name is kept.
template <class T>
class Summed {
public:
    Summed(const std::string& name, const rueda::Shape& shape)
        : shape_(shape), numbers_(static_cast<std::size_t>(shape.elements())), slot_(name) {}
    Summed(Summed&&) noexcept = default;
    Summed& operator=(Summed&&) = delete;
    /// Rueda uses the numbers until the operation has ended, so the destructor waits, also after an exception.
    ~Summed() {
        try {
            pending_.wait();
        } catch (const rueda::Error&) {  // the caller of wait() got this error already
        }
    }

    [[nodiscard]] std::span<T> numbers() noexcept { return numbers_; }
    void start(rueda::Compression compression = rueda::Compression::none) {
        const rueda::TensorView view(numbers_.data(), rueda::dtype_of<T>, shape_);
        pending_ = rueda::allreduce_async(slot_, view, {.op = rueda::ReduceOp::sum, .compression = compression});
    }
    void wait() { pending_.wait(); }

private:
    rueda::Shape shape_;
    std::vector<T, rueda::Allocator<T>> numbers_;
    rueda::TensorSlot slot_;
    rueda::Handle pending_;
};

}  // namespace digits
