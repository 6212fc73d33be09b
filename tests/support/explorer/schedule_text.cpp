// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/explorer/schedule_text.hpp"

#include <fmt/format.h>

namespace rueda::explorer {
namespace {

constexpr std::size_t kMostLines = 400;

[[nodiscard]] const char* text_of(OperationKind kind) {
    switch (kind) {
        case OperationKind::load:
            return "load";
        case OperationKind::store:
            return "store";
        case OperationKind::exchange:
            return "exchange";
        case OperationKind::fetch_add:
            return "fetch_add";
        case OperationKind::fetch_sub:
            return "fetch_sub";
        case OperationKind::fetch_and:
            return "fetch_and";
        case OperationKind::fetch_or:
            return "fetch_or";
        case OperationKind::fetch_xor:
            return "fetch_xor";
        case OperationKind::compare_exchange:
            return "compare_exchange";
        case OperationKind::futex_wait:
            return "futex_wait";
        case OperationKind::futex_wake_all:
            return "futex_wake_all";
        case OperationKind::flush:
            return "reaches memory";
        case OperationKind::plain_read:
            return "read";
        case OperationKind::plain_write:
            return "write";
    }
    return "?";
}

[[nodiscard]] const char* text_of(std::memory_order order) {
    switch (order) {
        case std::memory_order_relaxed:
            return "relaxed";
        case std::memory_order_consume:
            return "consume";
        case std::memory_order_acquire:
            return "acquire";
        case std::memory_order_release:
            return "release";
        case std::memory_order_acq_rel:
            return "acq_rel";
        case std::memory_order_seq_cst:
            return "seq_cst";
    }
    return "?";
}

[[nodiscard]] bool has_order(OperationKind kind) { return kind <= OperationKind::compare_exchange; }

[[nodiscard]] std::string value_text(std::uint64_t value) {
    return value > 0xFFFFFFFFU ? fmt::format("{:#x}", value) : fmt::format("{}", value);
}

[[nodiscard]] std::string outcome_text(const Operation& operation, const Outcome& outcome) {
    const std::string before = value_text(outcome.before);
    switch (operation.kind) {
        case OperationKind::load:
            return before + (outcome.buffered ? "  (from its own buffer)" : "");
        case OperationKind::plain_read:
        case OperationKind::plain_write:
            return before;
        case OperationKind::compare_exchange:
            return outcome.succeeded ? fmt::format("{} -> {}", before, value_text(outcome.after))
                                     : fmt::format("{}  (fails: expected {})", before, value_text(operation.expected));
        case OperationKind::futex_wait:
            return outcome.succeeded
                       ? fmt::format("{}  (sleeps)", before)
                       : fmt::format("{}  (returns: expected {})", before, value_text(operation.expected));
        case OperationKind::futex_wake_all: {
            std::string woken;
            for (std::size_t thread = 0; thread < kMaxThreads; ++thread) {
                woken += contains(outcome.affected, thread) ? fmt::format(" {}", thread) : "";
            }
            return woken.empty() ? "wakes nobody" : "wakes" + woken;
        }
        default:
            return fmt::format("{} -> {}{}", before, value_text(outcome.after),
                               outcome.buffered ? "  (into its buffer)" : "");
    }
}

}  // namespace

std::string schedule_text(const Execution& execution) {
    const std::vector<Step>& steps = execution.steps();
    const std::size_t first = steps.size() > kMostLines ? steps.size() - kMostLines : 0;
    std::string text = first == 0 ? "" : fmt::format("  ({} earlier lines)\n", first);
    for (std::size_t i = first; i < steps.size(); ++i) {
        const Step& step = steps[i];
        const OperationKind kind = step.operation.kind;
        const std::string what =
            has_order(kind) ? fmt::format("{} {}", text_of(kind), text_of(step.operation.order)) : text_of(kind);
        text += fmt::format("{:5}  {} {}  {:<25} {:<20} {}\n", i, is_buffer(step.process) ? "buffer" : "thread",
                            thread_of(step.process), what, execution.objects().name_of(step.operation.object),
                            outcome_text(step.operation, step.outcome));
    }
    return text;
}

}  // namespace rueda::explorer
