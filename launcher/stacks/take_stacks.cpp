// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/stacks/take_stacks.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/stacks/stack_questions.hpp"
#include "base/system/clock.hpp"

namespace rueda::launcher {

namespace {

/// A rank whose last heartbeat is older than this is not asked for its stack. A rank writes a heartbeat every 0.2 s by
/// default.
constexpr std::int64_t kSilenceLimitNs = 2'000'000'000;

/// How often this program checks for answers. It must check repeatedly, because a rank that has answered does not
/// notify it.
constexpr std::chrono::milliseconds kLookInterval{20};

std::string lines_of_stack(const base::StackQuestions& questions, const RankSample& rank, std::int64_t now_ns) {
    if (!rank.process) {
        return "stack: the process does not exist any more";
    }
    if (std::string text = questions.text_of(rank.member, rank.pid, now_ns); !text.empty()) {
        return text;
    }
    const std::string outside = base::describe_from_outside(rank.pid);
    return "stack: the rank does not show it, because it was started with RUEDA_STACK_SIGNAL=none, has left the job, "
           "or "
           "is a thread of a process with several ranks" +
           (outside.empty() ? "" : "; " + outside);
}

}  // namespace

bool JobStacks::are_complete() const { return std::all_of(texts.begin(), texts.end(), base::has_stack); }

Result<JobStacks> take_stacks(const Job& job) {
    const Result<ArenaView> arena = ArenaView::open(job.path, ArenaUse::ask);
    RUEDA_RETURN_IF_FAILED(arena.status());
    JobStacks stacks;
    stacks.job = take_sample(job);
    std::uint64_t asked = 0;
    for (const RankSample& rank : stacks.job.ranks) {
        asked |= std::uint64_t{rank.process ? 1U : 0U} << rank.member;
    }
    base::StackQuestions questions(arena.value().blocks_to_ask(), kSilenceLimitNs);
    std::int64_t now_ns = base::monotonic_ns();
    while (!questions.ask(asked, now_ns)) {
        std::this_thread::sleep_for(kLookInterval);
        now_ns = base::monotonic_ns();
    }
    for (const RankSample& rank : stacks.job.ranks) {
        stacks.texts.push_back(lines_of_stack(questions, rank, now_ns));
    }
    return stacks;
}

}  // namespace rueda::launcher
