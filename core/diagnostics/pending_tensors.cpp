// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/pending_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "base/text.hpp"
#include "core/diagnostics/pending_end.hpp"
#include "core/negotiation/call_sites.hpp"

namespace rueda::core {
namespace {

using Memory = NegotiationMemory<base::StdAtomics>;
using Label = SlotLabel<base::StdAtomics>;

/// Who has announced `id.generation`, and since when. Nothing if nobody has.
std::optional<PendingTensor> read_places(const Memory& memory, const PendingTensor::Id& id) {
    PendingTensor tensor{.id = id, .name = {}, .call = 0, .since_ns = 0, .ready_mask = 0};
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        const auto& place = memory.place(id.slot, member, id.generation);
        if (place.stamp.load(std::memory_order_acquire) != id.generation + 1) {
            continue;
        }
        const std::int64_t announced = place.announced_ns.load(std::memory_order_relaxed);
        tensor.since_ns = tensor.ready_mask == 0 ? announced : std::min(tensor.since_ns, announced);
        tensor.ready_mask |= std::uint64_t{1} << member;
        if (memory.extent().call_sites != 0) {
            tensor.sites.resize(memory.extent().members);
            tensor.sites[member] = read_site(memory.site(id.slot, member, id.generation).read());
        }
    }
    return tensor.ready_mask == 0 ? std::nullopt : std::optional(tensor);
}

/// Some members have arrived and others not, by the slot's arrivals.
bool is_incomplete(const Memory& memory, std::uint64_t word) {
    return !ArrivalCount::is_retired(word) && ArrivalCount::arrivals(word) % memory.extent().members != 0;
}

/// The last generation that anybody has announced: what went directly is not among the arrivals. 0: none, or the first.
std::uint64_t newest_generation(const Memory& memory, std::uint32_t slot) {
    std::uint64_t stamp = 1;
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        for (std::uint64_t parity = 0; parity < 2; ++parity) {
            stamp = std::max(stamp, memory.place(slot, member, parity).stamp.load(std::memory_order_acquire));
        }
    }
    return stamp - 1;
}

/// Whose last direct announcement was in the slot: it may be pending there.
bool went_directly(const Memory& memory, std::uint32_t slot) {
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        if (memory.cursor(member).direct.load(std::memory_order_acquire) == slot + 1) {
            return true;
        }
    }
    return false;
}

std::optional<PendingTensor> look_at_unnamed(const Memory& memory, std::uint32_t slot) {
    const auto& count = memory.arrivals(slot).count;
    const std::uint64_t word = count.load(std::memory_order_acquire);
    if (!is_incomplete(memory, word)) {
        return std::nullopt;
    }
    const std::uint64_t generation = ArrivalCount::arrivals(word) / memory.extent().members + 1;
    std::optional<PendingTensor> tensor = read_places(memory, {slot, 0, generation});
    if (!tensor || count.load(std::memory_order_acquire) != word) {
        return std::nullopt;
    }
    tensor->call = (generation - 1) * memory.extent().unnamed_slots + slot + 1;
    return tensor;
}

/// The generation of a named slot that may be pending, given its state and its arrivals. What is announced directly
/// stays pending where the slot is retired under it, until all members have read that.
std::optional<std::uint64_t> generation_to_look_at(const Memory& memory, std::uint32_t slot, SlotState state,
                                                   std::uint64_t word, bool direct) {
    if (state == SlotState::first_sight && !ArrivalCount::is_retired(word)) {
        return 0;
    }
    if (!(state == SlotState::bound && is_incomplete(memory, word)) &&
        !(direct && (state == SlotState::bound || state == SlotState::retired))) {
        return std::nullopt;
    }
    const std::uint64_t newest = newest_generation(memory, slot);
    return newest > 0 ? std::optional(newest) : std::nullopt;
}

std::optional<PendingTensor> look_at_named(const Memory& memory, std::uint32_t slot) {
    const auto& count = memory.arrivals(slot).count;
    const std::uint64_t first_look = count.load(std::memory_order_acquire);
    const bool direct = went_directly(memory, slot);
    const bool all_arrived = first_look != 0 && ArrivalCount::arrivals(first_look) % memory.extent().members == 0;
    if (!direct && (ArrivalCount::is_retired(first_look) || all_arrived)) {
        return std::nullopt;  // the usual case, and the label need not be looked at
    }
    const Label& label = memory.label(slot);
    const Label::State state = label.state();
    const std::uint64_t word = count.load(std::memory_order_acquire);
    const auto generation = generation_to_look_at(memory, slot, state.state, word, direct);
    if (!generation) {
        return std::nullopt;
    }
    std::optional<PendingTensor> tensor = read_places(memory, {slot, state.use, *generation});
    if (!tensor) {
        return std::nullopt;
    }
    tensor->name = label.name(state);
    const bool moved = tensor->name.empty() || label.state() != state ||
                       count.load(std::memory_order_acquire) != word ||
                       (*generation > 0 && newest_generation(memory, slot) != *generation);
    const bool all_ready = std::popcount(tensor->ready_mask) == static_cast<int>(memory.extent().members);
    return moved || all_ready ? std::nullopt : tensor;
}

/// Ranks that wait in join(), since something was last announced: as long as the others go on they wait for nothing
/// that is late.
std::optional<PendingTensor> look_at_joins(const Memory& memory) {
    const auto& header = memory.header();
    const std::uint64_t joined = header.joined.load(std::memory_order_acquire);
    const std::uint64_t all = all_members(memory.extent().members);
    // Of several hosts, those where all have joined wait for the others.
    if (joined == 0 || ((joined & all) == all && !memory.extent().is_led())) {
        return std::nullopt;
    }
    const std::int64_t since = header.announced_ns.load(std::memory_order_relaxed);
    PendingTensor joins{.id = {kNoSlot, 0, static_cast<std::uint64_t>(since)},
                        .name = "join()",
                        .call = 0,
                        .since_ns = since,
                        .ready_mask = joined & all};
    for (std::uint32_t member = 0; memory.extent().call_sites != 0 && member < memory.extent().members; ++member) {
        const bool here = (joined >> member & 1) != 0;
        joins.sites.push_back(here ? read_site(memory.join_site(member).read()) : std::string());
    }
    return joins;
}

}  // namespace

std::vector<std::uint64_t> unnamed_started(const Memory& memory) {
    const std::uint32_t slots = memory.extent().unnamed_slots;
    std::vector<std::uint64_t> started(memory.extent().members, 0);
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
        // Who has announced a generation has completed the one before, so all have announced that.
        const std::uint64_t newest = newest_generation(memory, slot);
        for (std::uint32_t member = 0; member < started.size(); ++member) {
            for (std::uint64_t generation = newest; generation > 0 && generation + 2 > newest; --generation) {
                const std::uint64_t stamp =
                    memory.place(slot, member, generation).stamp.load(std::memory_order_acquire);
                if (stamp == generation + 1) {
                    started[member] = std::max(started[member], (generation - 1) * slots + slot + 1);
                }
            }
        }
    }
    return started;
}

std::string describe_started(const StartedByRank& ranks) {
    if (ranks.size() < 2) {
        return {};
    }
    std::string text;
    for (auto more = ranks.rbegin(); more != ranks.rend(); ++more) {
        const char* const has = more->second.size() == 1 ? "has" : "have";
        text += text.empty() ? fmt::format("{} {} started {} unnamed operations", base::format_ranks(more->second), has,
                                           more->first)
                             : fmt::format(", {}: {}", base::format_ranks(more->second), more->first);
    }
    return "; " + text +
           "; they match by the order of the calls, so all ranks make as many: names or RUEDA_CALL_SITES=1 show which";
}

std::vector<PendingTensor> pending_tensors(const Memory& memory) {
    std::vector<PendingTensor> pending;
    const std::uint32_t slots =
        std::min(memory.header().high_slot.load(std::memory_order_acquire), memory.extent().slots);
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
        const bool unnamed = slot < memory.extent().unnamed_slots;
        if (auto tensor = unnamed ? look_at_unnamed(memory, slot) : look_at_named(memory, slot)) {
            pending.push_back(std::move(*tensor));
        }
    }
    if (auto joins = look_at_joins(memory)) {
        pending.push_back(std::move(*joins));
    }
    if (auto end = look_at_end(memory)) {
        pending.push_back(std::move(*end));
    }
    std::stable_sort(pending.begin(), pending.end(),
                     [](const PendingTensor& a, const PendingTensor& b) { return a.since_ns < b.since_ns; });
    return pending;
}

}  // namespace rueda::core
