// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/shared_memory/control_block.hpp"
#include "base/stacks/stack_questions.hpp"

namespace rueda::core {

/// The stacks of all ranks of a host. A person asks for them by sending the stack signal (RUEDA_STACK_SIGNAL) to one of
/// the ranks.
///
/// Threads: one, the background thread.
class RequestedStacks {
public:
    /// For the arguments see base::StackQuestions.
    RequestedStacks(const base::HostBlocks& blocks, std::uint32_t members, std::int64_t silence_limit_ns)
        : blocks_(blocks), members_(members), questions_(blocks, silence_limit_ns) {}

    /// Call this a few times per second. `is_requested` is true if the signal has come since the last call. When all
    /// ranks have answered, or when the time for their answers is over, returns the text to print. Otherwise returns
    /// nothing.
    [[nodiscard]] std::optional<std::string> look(bool is_requested, std::int64_t now_ns);

private:
    base::HostBlocks blocks_;
    std::uint32_t members_;
    base::StackQuestions questions_;
    bool is_asking_ = false;
};

}  // namespace rueda::core
