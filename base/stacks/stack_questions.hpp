// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/shared_memory/control_block.hpp"

namespace rueda::base {

/// Asks ranks of this host for the stacks of their main threads, without waiting. A round begins with the first call of
/// ask(), and ends with end_round().
///
/// Threads: one at a time.
class StackQuestions {
public:
    /// The blocks outlive this object. A rank whose heartbeat is older than `silence_limit_ns` is not asked.
    StackQuestions(const HostBlocks& blocks, std::int64_t silence_limit_ns)
        : blocks_(blocks), silence_limit_ns_(silence_limit_ns) {}

    /// Asks those of the members, a bit mask, that this round has not asked. Returns whether every member that can
    /// answer has answered or has had the time to. The caller then takes the texts; otherwise it calls again later.
    [[nodiscard]] bool ask(std::uint64_t members, std::int64_t now_ns);
    /// Several lines: the stack, or why there is none, and what the kernel says about the thread. "" for a member that
    /// does not take part in stacks. `pid` is the number of the member's process, as the calling process sees it.
    [[nodiscard]] std::string text_of(std::uint32_t member, std::int32_t pid, std::int64_t now_ns) const;
    void end_round() { asked_ = {}; }

private:
    struct Question {
        std::uint32_t number = 0;
        std::int64_t asked_ns = 0;  ///< 0: not asked
    };
    [[nodiscard]] bool responds(std::uint32_t member, std::int64_t now_ns) const;
    [[nodiscard]] bool has_answered(std::uint32_t member) const;

    HostBlocks blocks_;
    std::int64_t silence_limit_ns_;
    std::array<Question, kMaxLocalRanks> asked_;
};

/// Whether the text of a member has a stack, and not only the reason why there is none.
[[nodiscard]] bool has_stack(std::string_view text);

/// Describes what the kernel says about a process's main thread, for example "its main thread waits in the kernel
/// function futex_wait_queue, in system call 202"; "" if nothing can be read.
[[nodiscard]] std::string describe_from_outside(std::int32_t pid);

}  // namespace rueda::base
