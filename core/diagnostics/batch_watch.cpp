// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/batch_watch.hpp"

#include <fmt/format.h>

#include "base/system/process_status.hpp"
#include "core/negotiation/batch_end.hpp"

namespace rueda::core {
namespace {

constexpr double kNanoseconds = 1e9;

double seconds_of(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / kNanoseconds; }

}  // namespace

BatchWatch::BatchWatch(const StallSettings& settings, const base::HostBlocks& blocks,
                       const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t own)
    : blocks_(blocks), memory_(memory), log_(memory), own_(own), settings_(settings) {}

std::optional<std::string> BatchWatch::tick(std::int64_t now_ns) {
    const std::uint64_t position = memory_.cursor(own_).position.load(std::memory_order_acquire);
    // This must be peek() and not read(), because another thread of this rank may move past the entry, and the entry
    // may then be overwritten.
    const auto entry = settings_.enabled ? log_.peek(position) : std::nullopt;
    if (!entry || !is_call(entry->kind)) {
        since_ns_ = 0;
        return std::nullopt;
    }
    if (since_ns_ == 0 || position != position_) {
        position_ = position;
        since_ns_ = now_ns;
        next_report_ns_ = now_ns + settings_.warning_ns();
        return std::nullopt;
    }
    if (now_ns < next_report_ns_) {
        return std::nullopt;
    }
    next_report_ns_ = now_ns + 2 * (now_ns - since_ns_);
    return is_reporter(now_ns) ? std::optional(describe(now_ns)) : std::nullopt;
}

bool BatchWatch::is_reporter(std::int64_t now_ns) const {
    for (std::uint32_t member = 0; member < own_; ++member) {
        // A member that has finished the batch does not report it. Acquire: pairs with advance_to().
        const bool sees_it = memory_.cursor(member).position.load(std::memory_order_acquire) <= position_;
        if (sees_it &&
            now_ns - blocks_.of(member).heartbeat_ns.load(std::memory_order_relaxed) <= settings_.silence_limit_ns) {
            return false;
        }
    }
    return true;
}

std::string BatchWatch::describe(std::int64_t now_ns) const {
    const auto entry = log_.peek(position_);
    const std::uint32_t slot = entry ? entry->slot : kNoSlot;
    std::string name = entry ? "an unnamed tensor" : "a tensor";
    if (slot < memory_.extent().slots && slot >= memory_.extent().unnamed_slots) {
        name = fmt::format("tensor '{}'", memory_.label(slot).name(memory_.label(slot).state()));
    }
    std::string text = fmt::format(
        "{} was announced by all ranks {:.3g} seconds ago and is still not done: a rank does not get on with it", name,
        seconds_of(now_ns - since_ns_));
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        const base::RankBlock& block = blocks_.of(member);
        const std::int64_t silent_ns = now_ns - block.heartbeat_ns.load(std::memory_order_relaxed);
        const std::int32_t pid = block.pid.load(std::memory_order_relaxed);
        const auto status = base::read_process_status(pid);
        text += fmt::format("\n  rank {} (pid {}): {}", block.global_rank.load(std::memory_order_relaxed), pid,
                            status ? base::describe_process_state(status->state) : "not to be seen");
        if (silent_ns > settings_.silence_limit_ns) {
            text += fmt::format(", has not responded for {:.3g} s", seconds_of(silent_ns));
        }
        if (const std::string busy = block.busy.read(); !busy.empty()) {
            text += fmt::format(", busy: {}", busy);
        }
    }
    return text;
}

}  // namespace rueda::core
