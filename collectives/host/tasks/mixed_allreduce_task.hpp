// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/communicator.hpp"

namespace rueda::collectives {

/// A batch of allreduces in which some tensors use adasum. It is split into two batches for two tasks, which run one
/// after the other. All members split the batch in the same way.
///
/// Threads: the thread that drives progress.
class MixedAllreduceTask final : public Task {
public:
    using Begin = std::function<Task&(const Batch&)>;
    /// `others` and `adasum` start the two tasks. `members` is the number of members on this host.
    MixedAllreduceTask(std::uint32_t members, Begin others, Begin adasum);

    /// `is_adasum(segment)` gets the index of a segment and returns whether it uses adasum.
    template <class IsAdasum>
    void begin(const Batch& batch, IsAdasum&& is_adasum) {
        others_.clear();
        adasums_.clear();
        for (std::uint32_t i = 0; i < batch.segments.size(); ++i) {
            (is_adasum(i) ? adasums_ : others_).add(batch, i, members_);
        }
        start(batch);
    }
    StepResult step() override;

private:
    struct Part {
        std::vector<Segment> segments;
        std::vector<Location> locations;

        void clear() {
            segments.clear();
            locations.clear();
        }
        void add(const Batch& batch, std::uint32_t segment, std::uint32_t members);
        [[nodiscard]] Batch batch(const Batch& of) const;
    };
    void start(const Batch& batch);

    std::uint32_t members_;
    Begin begin_others_;
    Begin begin_adasum_;
    Batch batch_;
    Part others_;
    Part adasums_;
    Task* task_ = nullptr;
    bool adasum_follows_ = false;
};

}  // namespace rueda::collectives
