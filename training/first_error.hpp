// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <exception>

namespace rueda::training {

/// Runs several actions, even if some of them fail, and keeps the first error. Threads: one at a time.
class FirstError {
public:
    template <class Action>
    void attempt(Action&& action) {
        try {
            action();
        } catch (...) {
            first_ = first_ == nullptr ? std::current_exception() : first_;
        }
    }
    [[nodiscard]] bool none() const noexcept { return first_ == nullptr; }
    void rethrow() const {
        if (first_ != nullptr) {
            std::rethrow_exception(first_);
        }
    }

private:
    std::exception_ptr first_;
};

}  // namespace rueda::training
