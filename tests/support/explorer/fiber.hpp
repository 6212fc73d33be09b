// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <functional>

namespace rueda::explorer {

/// A function with its own stack. The function runs until it suspends itself. After it has returned, it can be started
/// again on the same stack.
///
/// The destructor does not unwind the stack: if the function is suspended, the objects on its stack are not destroyed.
///
/// Threads: the owner and the fiber run on the same operating-system thread.
class Fiber {
public:
    explicit Fiber(std::function<void()> body);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// Called by the owner. Continues the function where it suspended itself, or starts it again if it has returned.
    /// resume() returns when the function suspends itself or returns.
    void resume();
    /// Called by the function on the fiber. Suspends the function and returns to the owner.
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
