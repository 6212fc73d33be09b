// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/pending_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace rueda::core {
namespace {

using EndMemory = NegotiationMemory<base::StdAtomics>;

constexpr std::array<std::string_view, 3> kEndCalls{"shutdown()", "remove_process_set()", "leave_process_set()"};

std::string_view name_of_call(const EndMemory& memory) {
    const std::uint32_t call = memory.header().end_call.load(std::memory_order_relaxed);
    // Another process wrote the number, so it may be invalid.
    return kEndCalls[std::min<std::size_t>(call, kEndCalls.size() - 1)];
}

std::uint64_t bit_of(std::uint32_t member) { return std::uint64_t{1} << member; }

/// Returns the members that are doing the registrar's work. If there are none, returns the members that are posting to
/// the registrar.
std::uint64_t at_work_for_end(const EndMemory& memory) {
    std::uint64_t registrars = 0;
    std::uint64_t posting = 0;
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        const std::uint32_t step = step_of(memory, member);
        registrars |= step == ProtocolStep::kRegistrar ? bit_of(member) : 0;
        posting |= step == ProtocolStep::kPosting ? bit_of(member) : 0;
    }
    return registrars != 0 ? registrars : posting;
}

}  // namespace

void begin_to_await_end(const EndMemory& memory, std::uint32_t member, EndCall call, std::int64_t now_ns) {
    auto& header = memory.header();
    // For all waiting members together, one call and one time are stored: those of the first member that waits. If
    // several members begin to wait at the same time, the stored values may be those of any of them. Their times differ
    // by only a few µs.
    if (header.end_awaited.load(std::memory_order_relaxed) == 0) {
        header.end_call.store(static_cast<std::uint32_t>(call), std::memory_order_relaxed);
        header.end_awaited_ns.store(now_ns, std::memory_order_relaxed);
    }
    // This release pairs with the acquire load in look_at_end(). If look_at_end() sees this bit, it also sees the call
    // and the time that were stored above.
    header.end_awaited.fetch_or(bit_of(member), std::memory_order_release);
}

void end_to_await_end(const EndMemory& memory, std::uint32_t member) {
    memory.header().end_awaited.fetch_and(~bit_of(member), std::memory_order_release);
}

void note_end_announced(const EndMemory& memory, std::uint32_t member) {
    memory.header().end_announced.fetch_or(bit_of(member), std::memory_order_release);
}

std::optional<PendingTensor> look_at_end(const EndMemory& memory) {
    const auto& header = memory.header();
    const std::uint64_t all = all_members(memory.extent().members);
    // This acquire load pairs with the release in begin_to_await_end().
    if ((header.end_awaited.load(std::memory_order_acquire) & all) == 0) {
        return std::nullopt;
    }
    const std::int64_t since = header.end_awaited_ns.load(std::memory_order_relaxed);
    // This acquire load pairs with the release in note_end_announced(). A member stores its current step before it
    // calls note_end_announced(), so this rank sees the step too.
    const std::uint64_t announced = header.end_announced.load(std::memory_order_acquire) & all;
    return PendingTensor{.id = {kNoSlot, 1, static_cast<std::uint64_t>(since)},
                         .name = std::string(name_of_call(memory)),
                         .call = 0,
                         .since_ns = since,
                         .ready_mask = announced,
                         .unfinished_mask = announced & at_work_for_end(memory)};
}

std::string describe_end_of(const EndMemory& memory, std::uint32_t member) {
    const auto& header = memory.header();
    const std::uint64_t awaited = header.end_awaited.load(std::memory_order_acquire);
    if (awaited == 0) {
        return {};
    }
    std::string text;
    const bool has_announced = (header.end_announced.load(std::memory_order_acquire) & bit_of(member)) != 0;
    if ((awaited & bit_of(member)) != 0 && !has_announced) {
        // This acquire load pairs with Registrar::await_readers(). If some members have not read the answers, the
        // mailbox stays full, and await_readers() stores a value other than 0.
        const bool is_full = std::atomic_ref(memory.mailbox(member).reads_awaited).load(std::memory_order_acquire) != 0;
        text = fmt::format(
            "has called {}, and {}", name_of_call(memory),
            is_full ? "waits until the others have read what it announced before" : "has not announced it yet");
    }
    std::uint64_t furthest = 0;
    for (std::uint32_t other = 0; other < memory.extent().members; ++other) {
        furthest = std::max(furthest, memory.cursor(other).position.load(std::memory_order_relaxed));
    }
    const std::uint64_t own = memory.cursor(member).position.load(std::memory_order_relaxed);
    if (own < furthest) {
        text += fmt::format("{}has read {} of {} decisions", text.empty() ? "" : "; ", own, furthest);
    }
    return text;
}

bool is_name_of_end(std::string_view name) {
    return std::find(kEndCalls.begin(), kEndCalls.end(), name) != kEndCalls.end();
}

std::string first_line_about_end(std::string_view name, std::string_view warning_seconds) {
    return fmt::format(
        "{} was called by a subset of the ranks, and has waited for the others for more than {} seconds. Either they "
        "still have work that this subset does not have (with uneven data, call join() before), or they stand still.",
        name, warning_seconds);
}

}  // namespace rueda::core
