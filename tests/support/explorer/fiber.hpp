// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <functional>

namespace rueda::explorer {

/// A stack of its own on which a function runs until it suspends itself. The function can be started again after it
/// has returned, on the same stack.
///
/// Not what it does: unwind. A fiber that is destroyed while suspended leaves what lies on its stack as it is.
/// Threads: owner and fiber are one operating-system thread.
class Fiber {
public:
    explicit Fiber(std::function<void()> body);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// Runs the function from where it suspended itself (from its beginning, if it had returned) until it suspends
    /// itself or returns. Called by the owner.
    void resume();
    /// Back to the owner. Called on the fiber.
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
