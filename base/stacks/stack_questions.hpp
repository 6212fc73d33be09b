// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/shared_memory/control_block.hpp"

namespace rueda::base {

/// Asks ranks of this host for the stacks of their main threads, without blocking. A round of questions begins with the
/// first ask(), and ends with end_round().
///
/// Threads: any thread, but only one at a time.
class StackQuestions {
public:
    /// `blocks` must outlive this object. A rank whose heartbeat is older than `silence_limit_ns` is not asked.
    StackQuestions(const HostBlocks& blocks, std::int64_t silence_limit_ns)
        : blocks_(blocks), silence_limit_ns_(silence_limit_ns) {}

    /// Asks the members in the bit mask `members` that were not yet asked in this round. Returns true if every member
    /// that can answer has answered or has had enough time. The caller then calls text_of(). If the function returns
    /// false, the caller calls it again later.
    [[nodiscard]] bool ask(std::uint64_t members, std::int64_t now_ns);
    /// Returns several lines. They contain the stack, or the reason why there is no stack, and what the kernel says
    /// about the main thread. Returns an empty text for a member that offers no stacks. `pid` is the number of the
    /// member's process, as the calling process sees it.
    [[nodiscard]] std::string text_of(std::uint32_t member, std::int32_t pid, std::int64_t now_ns) const;
    void end_round() { asked_ = {}; }

private:
    struct Question {
        std::uint32_t number = 0;
        std::int64_t asked_ns = 0;  ///< 0: not asked in this round
    };
    [[nodiscard]] bool responds(std::uint32_t member, std::int64_t now_ns) const;
    [[nodiscard]] bool has_answered(std::uint32_t member) const;

    HostBlocks blocks_;
    std::int64_t silence_limit_ns_;
    std::array<Question, kMaxLocalRanks> asked_;
};

/// Whether the text of a member contains a stack, and not only the reason why there is none.
[[nodiscard]] bool has_stack(std::string_view text);

/// Describes what the kernel says about a process's main thread, for example "its main thread waits in the kernel
/// function futex_wait_queue, in system call 202". Returns an empty text if nothing can be read.
[[nodiscard]] std::string describe_from_outside(std::int32_t pid);

}  // namespace rueda::base
