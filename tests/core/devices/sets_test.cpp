// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests several process sets with tensors in device memory. The ranks start the operations of the sets in different
// orders.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/operations/requests.hpp"
#include "tests/core/devices/device_rank.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

constexpr std::int64_t kCount = 16;  // 16 floats fill a multiple of 16 bytes, so packing adds no padding

struct RankSet {
    std::shared_ptr<core::ProcessSet> set;
    std::int32_t id = 0;
    std::vector<int> ranks;
};

/// Adds the sets, and returns those that contain this rank. All ranks must call this function.
std::vector<RankSet> add_sets(DeviceRank& rank, const std::vector<std::vector<int>>& all) {
    std::vector<RankSet> own;
    for (const std::vector<int>& ranks : all) {
        const auto id = rank.runtime().process_sets().add(ranks);
        id.status().throw_if_failed();
        if (std::find(ranks.begin(), ranks.end(), rank.rank()) != ranks.end()) {
            auto set = rank.runtime().process_sets().find(id.value());
            set.status().throw_if_failed();
            own.push_back({std::move(set).value(), id.value(), ranks});
        }
    }
    return own;
}

RankSet world_of(DeviceRank& rank) {
    std::vector<int> ranks(static_cast<std::size_t>(rank.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return {rank.runtime().shared_world(), 0, ranks};
}

Status start_sum(DeviceRank& rank, const RankSet& set, const std::string& name, float* data,
                 core::Completion& completion) {
    const DeviceTensor tensor(data, kCount);
    return rank.start_in(*set.set, name, rank.options(), completion,
                         [&](core::ProcessSet& /*set*/, const rueda_options& options, core::Request& request) {
                             return core::make_allreduce(tensor.c(), tensor.c(), options, request);
                         });
}

float value_of(int rank, std::size_t operation) {
    return static_cast<float>((rank + 1) * 10) + static_cast<float>(operation);
}

/// One operation of a rank.
struct Sum {
    const RankSet* set = nullptr;
    std::size_t number = 0;
    float* data = nullptr;
    core::Completion completion;
};

/// Starts `count` sums in each of the sets, and checks the results. Each rank has its own random order.
void sum_in_random_order(DeviceRank& rank, const std::vector<RankSet>& sets, std::size_t count, std::uint64_t seed) {
    std::vector<std::unique_ptr<Sum>> sums;
    for (const RankSet& set : sets) {
        for (std::size_t i = 0; i < count; ++i) {
            auto sum = std::make_unique<Sum>();
            sum->set = &set;
            sum->number = i;
            sum->data = rank.put(std::vector<float>(kCount, value_of(rank.rank(), i)));
            sums.push_back(std::move(sum));
        }
    }
    std::mt19937_64 random(seed * 16 + static_cast<std::uint64_t>(rank.rank()));
    std::shuffle(sums.begin(), sums.end(), random);
    std::vector<const Sum*> started;
    for (const auto& sum : sums) {
        start_sum(rank, *sum->set, "sum." + std::to_string(sum->number), sum->data, sum->completion).throw_if_failed();
        started.push_back(sum.get());
    }
    std::shuffle(started.begin(), started.end(), random);
    for (const Sum* sum : started) {
        rank.wait_on_stream(sum->completion).throw_if_failed();
    }
    for (const auto& sum : sums) {
        float expected = 0;
        for (const int member : sum->set->ranks) {
            expected += value_of(member, sum->number);
        }
        RUEDA_RANK_CHECK(rank.get(sum->data, kCount) == std::vector<float>(kCount, expected));
        rank.runtime().wait(sum->completion, 20).throw_if_failed();
    }
}

/// The number of elements that NCCL has reduced on all simulated devices.
std::int64_t elements_of_nccl() {
    std::int64_t elements = 0;
    for (const std::string& operation : gpu::nccl_operations()) {
        if (operation.rfind("ncclAllReduce ", 0) == 0) {
            elements += std::stoll(operation.substr(std::string("ncclAllReduce ").size()));
        }
    }
    return elements;
}

const std::vector<std::vector<int>> kSetsOfFour{{0, 1}, {1, 2}, {2, 3}, {0, 3}, {0, 2, 3}, {1}};

TEST_CASE("overlapping process sets use NCCL, and the ranks may start their operations in any order", "[sets]") {
    begin_devices();
    constexpr std::size_t kSums = 8;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const std::int64_t before = elements_of_nccl();
        run_on_devices(4, [seed](DeviceRank& rank) {
            std::vector<RankSet> sets = add_sets(rank, kSetsOfFour);
            sets.push_back(world_of(rank));
            sum_in_random_order(rank, sets, kSums, seed);
            sum_in_random_order(rank, sets, kSums, seed + 100);
        });
        std::int64_t members = 4;  // of the world
        for (const auto& set : kSetsOfFour) {
            members += static_cast<std::int64_t>(set.size());
        }
        CHECK(elements_of_nccl() - before == members * 2 * static_cast<std::int64_t>(kSums) * kCount);
    }
}

TEST_CASE("a process set that comes after a set that was alone moves its tensors through the host's memory", "[sets]") {
    begin_devices();
    const std::int64_t before = elements_of_nccl();
    run_on_devices(2, [](DeviceRank& rank) {
        std::vector<RankSet> sets{world_of(rank)};
        sum_in_random_order(rank, sets, 1, 1);
        // The members make this set by add_among(), because add() cannot make a set of all ranks.
        const std::array<int, 2> ranks{0, 1};
        const auto id = rank.runtime().process_sets().add_among(ranks);
        id.status().throw_if_failed();
        auto set = rank.runtime().process_sets().find(id.value());
        set.status().throw_if_failed();
        sets.push_back({std::move(set).value(), id.value(), {0, 1}});
        sum_in_random_order(rank, sets, 4, 2);
    });
    CHECK(elements_of_nccl() - before == 2 * (1 + 4) * kCount);  // only the operations of the world used NCCL
}

TEST_CASE("a process set can be removed while others go on", "[sets]") {
    run_on_devices(3, [](DeviceRank& rank) {
        const std::vector<std::vector<int>> all{{0, 1}, {1, 2}, {0, 2}};
        std::vector<RankSet> sets = add_sets(rank, all);
        sum_in_random_order(rank, sets, 4, 3);
        for (const std::vector<int>& ranks : all) {
            const auto id = rank.runtime().process_sets().id_of(ranks);
            id.status().throw_if_failed();
            rank.runtime().process_sets().remove(id.value()).throw_if_failed();
            const auto removed =
                std::find_if(sets.begin(), sets.end(), [&](const RankSet& set) { return set.id == id.value(); });
            if (removed != sets.end()) {
                removed->set->disconnect_devices();
                sets.erase(removed);
            }
            sum_in_random_order(rank, sets, 4, 4);
        }
    });
}

TEST_CASE("a rank that has joined takes part in the order of several process sets", "[sets]") {
    run_on_devices(3, [](DeviceRank& rank) {
        std::vector<RankSet> sets = add_sets(rank, {{0, 1}, {1, 2}, {0, 2}});
        sets.push_back(world_of(rank));
        sum_in_random_order(rank, sets, 3, 5);
        std::vector<std::unique_ptr<Sum>> sums;
        if (rank.rank() != 1) {
            for (const RankSet& set : sets) {
                auto& sum = sums.emplace_back(std::make_unique<Sum>());
                sum->set = &set;
                sum->data = rank.put(std::vector<float>(kCount, value_of(rank.rank(), 0)));
            }
            if (rank.rank() == 2) {
                std::reverse(sums.begin(), sums.end());
            }
            for (const auto& sum : sums) {
                start_sum(rank, *sum->set, "late", sum->data, sum->completion).throw_if_failed();
            }
        }
        core::Completion joined;
        rank.runtime().start_join(joined, /*counted=*/false).throw_if_failed();
        for (const auto& sum : sums) {
            rank.wait_on_stream(sum->completion).throw_if_failed();
            float expected = 0;
            for (const int member : sum->set->ranks) {
                expected += member == 1 ? 0 : value_of(member, 0);
            }
            RUEDA_RANK_CHECK(rank.get(sum->data, kCount) == std::vector<float>(kCount, expected));
            // The background thread may still use the completion after the stream's wait has ended.
            rank.runtime().wait(sum->completion, 20).throw_if_failed();
        }
        rank.runtime().wait(joined, 20).throw_if_failed();
    });
}

TEST_CASE("an abort ends the operations of all process sets", "[sets]") {
    run_on_devices(3, [](DeviceRank& rank) {
        std::vector<RankSet> sets = add_sets(rank, {{0, 1}, {1, 2}, {0, 2}});
        sum_in_random_order(rank, sets, 2, 6);
        rank.synchronize();
        rank.meet("connected");
        if (rank.rank() == 0) {
            gpu::hold_device(1);
        }
        rank.meet("held");
        std::vector<std::unique_ptr<Sum>> sums;
        for (std::size_t i = 0; i < 3; ++i) {
            for (const RankSet& set : sets) {
                auto& sum = sums.emplace_back(std::make_unique<Sum>());
                sum->data = rank.put_for_ever(std::vector<float>(kCount, 1.0F));
                start_sum(rank, set, "last." + std::to_string(i), sum->data, sum->completion).throw_if_failed();
            }
        }
        rank.meet("submitted");
        if (rank.rank() == 2) {
            rank.runtime().abort("the loss is not finite");
        }
        for (const auto& sum : sums) {
            const Status ended = rank.runtime().wait(sum->completion, 20);
            // An operation of the ranks 0 and 2 may end before the abort.
            RUEDA_RANK_CHECK(ended.is_ok() || ended.code() == ErrorCode::aborted);
            RUEDA_RANK_CHECK(ended.is_ok() || ended.message().find("the loss is not finite") != std::string::npos);
        }
        rank.meet("aborted");
        if (rank.rank() == 0) {
            gpu::release_device(1);
        }
    });
}

}  // namespace
}  // namespace rueda::tests
