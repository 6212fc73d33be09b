// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stacks/requested_stacks.hpp"

#include <fmt/format.h>

#include <sstream>

namespace rueda::core {

std::optional<std::string> RequestedStacks::look(bool is_requested, std::int64_t now_ns) {
    is_asking_ = is_asking_ || is_requested;
    const std::uint64_t all = ~std::uint64_t{0} >> (base::kMaxLocalRanks - members_);
    if (!is_asking_ || !questions_.ask(all, now_ns)) {
        return std::nullopt;
    }
    std::string text = "the stacks of the main threads of all ranks of this host, as requested by a signal:";
    for (std::uint32_t member = 0; member < members_; ++member) {
        const base::RankBlock& block = blocks_.of(member);
        const std::int32_t pid = block.pid.load(std::memory_order_relaxed);
        text += fmt::format("\n  rank {} (pid {}):", block.global_rank.load(std::memory_order_relaxed), pid);
        std::istringstream lines(questions_.text_of(member, pid, now_ns));
        for (std::string line; std::getline(lines, line);) {
            text += "\n    " + line;
        }
    }
    questions_.end_round();
    is_asking_ = false;
    return text;
}

}  // namespace rueda::core
