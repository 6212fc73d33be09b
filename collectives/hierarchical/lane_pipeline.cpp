// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/lane_pipeline.hpp"

#include <algorithm>

#include "collectives/hierarchical/doubling_exchange.hpp"
#include "collectives/hierarchical/reduce_scatter_exchange.hpp"

namespace rueda::collectives {

LanePipeline::LanePipeline(HierarchicalSet& set, const NetworkChunks& chunks, std::uint32_t lane)
    : set_(set), chunks_(chunks), lane_(lane) {
    if (lane < set.hosts.lanes()) {
        for (std::uint32_t host = 0; host < set.hosts.count(); ++host) {
            peers_.push_back(set.hosts.ranks_of(host)[lane]);
        }
    }
}

void LanePipeline::begin(std::span<const PartialReduction> reductions) {
    reductions_ = reductions;
    count_ = chunks_.count();
    next_start_ = opened_ = ready_ = delivered_ = 0;
    // All messages of the previous batch were sent, so every slot is free.
    for (Slot& slot : slots_) {
        slot.algorithm = nullptr;
    }
}

NetworkAllreduce& LanePipeline::algorithm(Slot& slot, NetworkWay way) {
    std::unique_ptr<NetworkAllreduce>& algorithm = slot.algorithms[static_cast<std::size_t>(way)];
    if (algorithm == nullptr) {
        const std::uint32_t host = set_.hosts.my_host();
        switch (way) {
            case NetworkWay::doubling:
                algorithm = std::make_unique<DoublingExchange>(set_.messages, peers_, host);
                break;
            case NetworkWay::reduce_scatter:
                algorithm = std::make_unique<ReduceScatterExchange>(set_.messages, peers_, host);
                break;
        }
    }
    return *algorithm;
}

bool LanePipeline::open_next() {
    if (opened_ == count_ || opened_ == delivered_ + kSlots) {
        return false;
    }
    Slot& next = slot(opened_);
    if (next.algorithm != nullptr && !next.algorithm->has_sent()) {
        return false;
    }
    if (next.memory == nullptr) {
        next.memory = set_.messages.allocate(chunks_.memory_bytes());
    }
    const NetworkChunks::Chunk chunk = chunks_.chunk(opened_);
    next.start = next_start_;
    next.receives = next.sends = 0;
    next.filled = false;
    next.algorithm = &algorithm(next, chunk.way);
    next.algorithm->begin(chunks_.map_of(chunk), NetworkChunks::share(chunk, lane_), reductions_, next.memory);
    ++opened_;
    ++next_start_;
    if (opened_ >= kSlots) {
        const Slot& oldest = slot(opened_);  // the next chunk will use this slot
        next_start_ = std::max(next_start_, oldest.start + kPhaseDistance * (oldest.algorithm->phases() - 1) + 1);
    }
    return true;
}

std::optional<std::uint64_t> LanePipeline::next_in_order(std::uint32_t Slot::*started) const {
    std::optional<std::uint64_t> first;
    std::uint64_t first_key = opened_ < count_ ? next_start_ : ~std::uint64_t{0};
    for (std::uint64_t chunk = delivered_; chunk < opened_; ++chunk) {
        const Slot& candidate = slot(chunk);
        const std::uint32_t phase = candidate.*started;
        const std::uint64_t key = candidate.start + kPhaseDistance * phase;
        // `first_key` begins with the key of the next chunk that is not open yet. If an open chunk has the same key,
        // the open chunk goes first, because its number is lower.
        if (phase < candidate.algorithm->phases() && (key < first_key || (!first && key == first_key))) {
            first = chunk;
            first_key = key;
        }
    }
    return first;
}

bool LanePipeline::start_receives() {
    bool something = false;
    while (const auto chunk = next_in_order(&Slot::receives)) {
        Slot& next = slot(*chunk);
        next.algorithm->start_receives(next.receives++);
        something = true;
    }
    return something;
}

bool LanePipeline::start_sends() {
    const auto chunk = next_in_order(&Slot::sends);
    if (!chunk) {
        return false;
    }
    Slot& next = slot(*chunk);
    const bool may =
        next.sends == 0 ? next.filled : next.receives >= next.sends && next.algorithm->has_received(next.sends - 1);
    if (may) {
        next.algorithm->start_sends(next.sends++);
    }
    return may;
}

bool LanePipeline::finish_next() {
    if (ready_ == opened_) {
        return false;
    }
    Slot& oldest = slot(ready_);
    const std::uint32_t phases = oldest.algorithm->phases();
    if (oldest.sends < phases || oldest.receives < phases || !oldest.algorithm->has_received(phases - 1)) {
        return false;
    }
    oldest.algorithm->finish();
    ++ready_;
    return true;
}

bool LanePipeline::step() {
    const bool opened = open_next();
    const bool receiving = start_receives();
    return finish_next() || start_sends() || opened || receiving;
}

bool LanePipeline::all_sent() {
    bool all = true;
    for (Slot& slot : slots_) {
        all = (slot.algorithm == nullptr || slot.algorithm->has_sent()) && all;
    }
    return all;
}

}  // namespace rueda::collectives
