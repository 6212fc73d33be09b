// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/shared_memory/control_block.hpp"
#include "base/status.hpp"
#include "core/diagnostics/stacks/stack_signal.hpp"

namespace rueda::core {

/// The text that answers a request for this rank's stack: the stack with names, or the reason why there is none.
[[nodiscard]] std::string describe_stack(const Result<RawStack>& stack);

/// Answers the requests of other ranks for the stack of this rank's main thread. A short-lived thread does the work,
/// because finding names opens files and takes long, and the background thread has to drive progress meanwhile.
///
/// Threads: only the background thread. After the background thread has ended, only the thread that ended it.
class StackResponder {
public:
    /// How long stop() waits for names. Large debug information on a slow file system may take minutes.
    static constexpr std::chrono::milliseconds kPatience{1000};

    /// `block` is the block of this rank, and must outlive this object. `describe` makes the text of an answer; tests
    /// replace this function.
    explicit StackResponder(base::StackBlock& block,
                            std::function<std::string(const Result<RawStack>&)> describe = describe_stack)
        : block_(block), describe_(std::move(describe)) {}
    ~StackResponder() { stop(); }
    StackResponder(const StackResponder&) = delete;
    StackResponder& operator=(const StackResponder&) = delete;

    /// Call this a few times per second. Starts the thread if another rank has requested the stack. Does not wait.
    void look();
    /// Waits until the thread has answered. If the thread still looks for names after kPatience, this function does not
    /// wait any longer: the thread ends by itself later, and does not use the block any more. When this function
    /// returns, no capture is under way.
    void stop();

private:
    struct Shared;

    void refuse(std::uint32_t question, std::string_view text);

    base::StackBlock& block_;
    std::function<std::string(const Result<RawStack>&)> describe_;
    std::uint32_t answered_ = 0;
    std::shared_ptr<Shared> shared_;  // shared with the thread, which may outlive this object
    std::thread thread_;
};

}  // namespace rueda::core
