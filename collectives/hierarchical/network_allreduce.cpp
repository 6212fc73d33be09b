// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/network_allreduce.hpp"

namespace rueda::collectives {

void NetworkAllreduce::begin(const SegmentMap& map, Range share, std::span<const PartialReduction> reductions,
                             std::byte* memory) {
    map_ = &map;
    share_ = share;
    reductions_ = reductions;
    memory_ = memory;
    receives_.clear();
    sends_.clear();
    received_ = sent_ = 0;
    prepare();
}

bool NetworkAllreduce::has_received(std::uint32_t phase) {
    while (received_ < receives_.size() && receives_[received_].phase <= phase) {
        if (!messages_.has_ended(receives_[received_].message)) {
            return false;
        }
        ++received_;
    }
    return true;
}

bool NetworkAllreduce::has_sent() {
    while (sent_ < sends_.size() && messages_.has_ended(sends_[sent_])) {
        ++sent_;
    }
    return sent_ == sends_.size();
}

void NetworkAllreduce::send(std::uint32_t host, const std::byte* bytes, std::uint64_t count) {
    if (count > 0) {
        sends_.push_back(messages_.send(peers_[host], {bytes, count}));
    }
}

void NetworkAllreduce::receive(std::uint32_t phase, std::uint32_t host, std::byte* room, std::uint64_t count) {
    if (count > 0) {
        receives_.push_back({phase, messages_.receive(peers_[host], {room, count})});
    }
}

void NetworkAllreduce::combine(Range range, std::span<const std::byte* const> sources, std::byte* destination,
                               ops::Reduction PartialReduction::*level) {
    sources_.resize(sources.size());
    map_->for_each_piece(range, [&](std::uint32_t segment, std::uint64_t, std::uint64_t bytes, std::uint64_t at) {
        const std::uint64_t offset = at - range.begin;
        for (std::size_t i = 0; i < sources.size(); ++i) {
            sources_[i] = sources[i] + offset;
        }
        combine_piece(segment, sources_, destination + offset, bytes, level);
    });
}

}  // namespace rueda::collectives
