// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "base/shared_memory/control_block.hpp"

namespace rueda::core {

/// Answers the questions of other ranks for the stack of this rank's main thread. A short-lived thread does the work,
/// because finding names opens files and takes long, and the background thread has to drive progress meanwhile.
///
/// Threads: one at a time, the background thread and then the thread that has ended it.
class StackResponder {
public:
    /// `block` is this rank's, and outlives this object.
    explicit StackResponder(base::StackBlock& block) : block_(block) {}
    ~StackResponder() { stop(); }
    StackResponder(const StackResponder&) = delete;
    StackResponder& operator=(const StackResponder&) = delete;

    /// Call it a few times per second. It starts the thread if there is a question. Does not wait.
    void look();
    /// Waits until the thread has answered, for about a second at most.
    void stop();

private:
    void answer(std::uint32_t question) noexcept;

    base::StackBlock& block_;
    std::uint32_t answered_ = 0;
    std::thread thread_;
    std::atomic<bool> finished_{false};  // release by the thread, acquire by look()
};

/// The text for a question: the stack, or the reason why there is none. Not for the main thread.
[[nodiscard]] std::string stack_of_main_thread();

}  // namespace rueda::core
