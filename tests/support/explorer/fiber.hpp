// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <functional>

namespace rueda::explorer {

/// A separate stack on which a function runs until it suspends itself. After the function has returned, it can be
/// started again on the same stack.
///
/// A fiber does not unwind: if it is destroyed while suspended, the objects on its stack are not destroyed.
///
/// Threads: owner and fiber run on one operating-system thread.
class Fiber {
public:
    explicit Fiber(std::function<void()> body);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// Runs the function from where it suspended itself (or from its beginning, if it had returned) until it suspends
    /// itself or returns. The owner calls this.
    void resume();
    /// Returns to the owner. Called on the fiber.
    void suspend();

private:
    struct Switch;
    static void enter(Fiber* fiber);
    void switch_to_fiber();
    void switch_to_owner();

    std::function<void()> body_;
    std::byte* memory_ = nullptr;  // a guard page, then the stack
    Switch* switch_ = nullptr;
};

}  // namespace rueda::explorer
