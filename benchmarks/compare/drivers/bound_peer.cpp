// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Measures, without any library, a lower bound for the time of every allreduce in shared memory (the "crossing bound").
// First every rank writes its own buffer. When all ranks have done this, each rank scales its share of the buffers of
// all ranks in place. With buffers of S bytes, each rank thus reads S bytes, most of which other cores have written,
// and writes S bytes. Every allreduce in shared memory has to read and write at least this much.
#include <algorithm>
#include <stdexcept>

#include "harness.hpp"

namespace {

class Bound final : public compare::Peer {
public:
    explicit Bound(const compare::Place& place) : place_(place) {}

    [[nodiscard]] std::vector<float*> begin(const compare::Case& c) override {
        if (c.operation != "allreduce" || c.counts.size() != 1) {
            throw std::runtime_error("the crossing bound is that of the allreduce of one tensor");
        }
        count_ = c.counts.front();
        buffers_.clear();
        for (std::byte* buffer : compare::shared_buffers(place_, count_ * sizeof(float))) {
            buffers_.push_back(reinterpret_cast<float*>(buffer));
        }
        return {buffers_[static_cast<std::size_t>(place_.rank)]};
    }
    void run() override {
        constexpr std::uint64_t kUnit = 16;  // number of float32 values in a cache line
        const std::uint64_t units = (count_ + kUnit - 1) / kUnit;
        const auto rank = static_cast<std::uint64_t>(place_.rank);
        const auto size = static_cast<std::uint64_t>(place_.size);
        const std::uint64_t begin = std::min(units * rank / size * kUnit, count_);
        const std::uint64_t end = std::min(units * (rank + 1) / size * kUnit, count_);
        compare::line_up(place_);
        for (float* values : buffers_) {
            for (std::uint64_t i = begin; i < end; ++i) {
                values[i] *= 1.0625F;
            }
        }
        compare::line_up(place_);
    }
    [[nodiscard]] std::vector<const float*> outputs() override { return {}; }
    void end() override {}

private:
    compare::Place place_;
    std::uint64_t count_ = 0;
    std::vector<float*> buffers_;
};

int run(int /*argc*/, char** /*argv*/) {
    const compare::Place place = compare::place_from_conductor();
    compare::bind_to_own_core(place);
    Bound bound(place);
    compare::run_plan(bound, place, compare::proportional_bytes());
    return 0;
}

}  // namespace

int main(int argc, char** argv) { return compare::guarded("bound_peer", run, argc, argv); }
