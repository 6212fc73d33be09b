// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests NCCL in several overlapping process sets, on the stand-in. Each member starts the batches of its sets in its
// own order, and the stand-in runs one kernel of NCCL at a time on a device.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectives/cuda/elements.hpp"
#include "tests/collectives/cuda/members.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Sets = std::vector<Meeting::Set>;

/// Process sets that overlap: many pairs of these sets have two members in common.
const Sets kOverlapping{{0, 1, 2, 3}, {0, 1}, {1, 2}, {0, 2, 3}, {2, 3}, {3}};
/// Process sets that form a cycle: each set has one member in common with the next set, and the last set has one in
/// common with the first.
const Sets kTriangle{{0, 1}, {1, 2}, {0, 2}};
const Sets kSquare{{0, 1}, {1, 2}, {2, 3}, {0, 3}};

void ensure(bool is_true, const std::string& what) {
    if (!is_true) {
        throw std::runtime_error(what);
    }
}

/// The tensors of the batches.
enum class Tensors : std::uint8_t {
    for_nccl,     ///< NCCL reduces all tensors
    mixed,        ///< some batches have tensors for NCCL and also tensors that move through the host's memory
    alternating,  ///< batches that move through the host's memory alternate with batches for NCCL
    none_first    ///< the first batch has no tensors, and the others are for NCCL
};

/// One member's part in one process set: its batches. One batch at a time is in progress.
class OrderedSet {
public:
    OrderedSet(Member& member, const Meeting::Set& set, std::int32_t number, std::unique_ptr<DeviceCommunicator> made,
               std::uint64_t seed, Tensors tensors, std::size_t batches = 10)
        : member_(member), set_(set), number_(number), communicator_(std::move(made)) {
        std::mt19937_64 random(seed);  // all members use the same seed, so they get the same batches
        batches_.resize(batches);
        for (Batch& batch : batches_) {
            const std::size_t b = static_cast<std::size_t>(&batch - batches_.data());
            if (b > 0 || tensors != Tensors::none_first) {
                batch.segments = segments_of_batch(b, tensors == Tensors::mixed         ? random() % 4
                                                      : tensors == Tensors::alternating ? (b + 1) % 2
                                                                                        : 0);
            }
            batch.locations.resize(batch.segments.size() * set_.size());
        }
    }

    [[nodiscard]] bool is_done() const { return task_ == nullptr && next_ == batches_.size(); }
    /// Starts the next batch, or steps the one in progress, as the engine does.
    void advance() {
        if (task_ == nullptr) {
            start();
        } else if (task_->step() == StepResult::done) {
            task_ = nullptr;
            communicator_->end()->make_wait(member_.stream()).throw_if_failed();
        } else {
            communicator_->failed().throw_if_failed();
        }
    }
    [[nodiscard]] DeviceCommunicator& communicator() { return *communicator_; }
    void run_one() {
        const auto limit = Clock::now() + 60s;
        do {
            ensure(Clock::now() < limit, "the batch is not launched");
            advance();
            std::this_thread::yield();
        } while (task_ != nullptr);
    }
    /// Ends the communicator in the middle of a batch.
    void drop() {
        communicator_.reset();
        task_ = nullptr;
    }
    /// Compares the results of all batches.
    void check() const {
        for (std::size_t b = 0; b < batches_.size(); ++b) {
            for (const Segment& segment : batches_[b].segments) {
                double sum = 0;
                for (const std::uint32_t member : set_) {
                    sum += value_in(b, member);
                }
                for (const double found : decode(segment.dtype, member_.get(segment.output, segment.bytes()))) {
                    ensure(found == sum, "process set " + std::to_string(number_) + ", batch " + std::to_string(b) +
                                             ": " + std::to_string(found) + " instead of " + std::to_string(sum));
                }
            }
        }
    }

private:
    struct Batch {
        std::vector<Segment> segments;
        std::vector<Location> locations;
        DeviceEventPtr ready;
        std::vector<DeviceEventPtr> events;
    };

    [[nodiscard]] double value_in(std::size_t batch, std::uint32_t member) const {
        return static_cast<double>((static_cast<std::size_t>(number_) * 31 + batch) * (member + 1) % 97);
    }

    /// A batch of kind 0 has only a tensor for NCCL. A batch of kind 1 has only a tensor that moves through the host's
    /// memory. Any other batch has both tensors.
    [[nodiscard]] std::vector<Segment> segments_of_batch(std::size_t b, std::uint64_t kind) {
        std::vector<DType> dtypes;
        if (kind != 1) {
            dtypes.push_back(DType::int64);
        }
        if (kind != 0) {
            dtypes.push_back(DType::int16);
        }
        std::vector<Segment> segments;
        for (const DType dtype : dtypes) {
            const std::vector<double> values(40, value_in(b, member_.number()));
            segments.push_back({.dtype = dtype,
                                .count = values.size(),
                                .input = member_.put(encode(dtype, values)),
                                .output = member_.garbage(values.size() * size_of(dtype))});
        }
        return segments;
    }

    void start() {
        Batch& batch = batches_[next_++];
        auto recorded = member_.runtime().record(member_.stream());
        recorded.status().throw_if_failed();
        batch.events.assign(batch.segments.size(), recorded.value());
        task_ =
            &communicator_->start({.segments = batch.segments,
                                   .ready = batch.events,
                                   .host = {.segments = batch.segments, .locations = batch.locations, .splits = {}}});
    }

    Member& member_;
    const Meeting::Set set_;
    const std::int32_t number_;
    std::unique_ptr<DeviceCommunicator> communicator_;
    std::vector<Batch> batches_;
    std::size_t next_ = 0;
    Task* task_ = nullptr;
};

/// Whether the sets have different numbers, as in a job. Sets with equal numbers count as one set, so they get no
/// launch order.
enum class Numbers : std::uint8_t { different, equal };

/// The time that the devices may take for all batches. After this time they count as blocked.
constexpr auto kPatience = 60s;
/// The time limit for all batches in tests that expect a deadlock. Such a test cannot tell a slow device from a
/// deadlock.
constexpr auto kShortPatience = 300ms;

/// Returns whether all devices end all of their work within this time.
bool end_all_work(std::chrono::milliseconds patience) {
    const auto limit = Clock::now() + patience;
    while (gpu::outstanding() > 0) {
        if (Clock::now() > limit) {
            return false;
        }
        gpu::settle();
    }
    return true;
}

/// Steps the sets of a member in a random order, until all their batches are launched.
void launch_all(const std::vector<std::unique_ptr<OrderedSet>>& own, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto limit = Clock::now() + 60s;
    while (std::any_of(own.begin(), own.end(), [](const auto& set) { return !set->is_done(); })) {
        ensure(Clock::now() < limit, "the batches are not launched");
        OrderedSet& set = *own[random() % own.size()];
        if (!set.is_done()) {
            set.advance();
        }
        if (random() % 64 == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        } else {
            std::this_thread::yield();
        }
    }
}

/// Runs the batches of all sets of a member, in a random order that differs between the members. When all members have
/// launched all batches, compares the results. Throws "deadlock" if the devices do not end the batches in time.
void run_in_random_order(Member& member, const Sets& sets, std::uint64_t seed, Tensors tensors, Numbers numbers,
                         std::chrono::milliseconds patience = kPatience) {
    std::vector<std::unique_ptr<OrderedSet>> own;
    if (numbers == Numbers::different) {
        member.expect_other_sets();
    }
    for (std::size_t s = 0; s < sets.size(); ++s) {
        const auto number = static_cast<std::int32_t>(numbers == Numbers::different ? s + 1 : 0);
        auto communicator = member.connect(sets[s], number);
        if (communicator != nullptr) {
            own.push_back(std::make_unique<OrderedSet>(member, sets[s], static_cast<std::int32_t>(s + 1),
                                                       std::move(communicator), seed * 100 + s, tensors));
        }
    }
    launch_all(own, seed * 10 + member.number());
    member.meet();
    const bool has_ended = end_all_work(patience);
    member.meet();
    if (!has_ended) {
        for (const auto& set : own) {
            set->communicator().abort();
        }
        member.keep_memory();
        throw std::runtime_error("deadlock");
    }
    for (const auto& set : own) {
        set->check();
    }
    member.meet();
}

TEST_CASE("overlapping process sets use NCCL in any order of their batches", "[gpu][order]") {
    struct Case {
        const Sets& sets;
        std::uint32_t members;
    };
    for (const Case& one : {Case{kOverlapping, 4}, Case{kTriangle, 3}, Case{kSquare, 4}}) {
        for (std::uint64_t seed = 1; seed <= 8; ++seed) {
            run_members(one.members, static_cast<int>(one.members), seed, [&](Member& member) {
                run_in_random_order(member, one.sets, seed, Tensors::for_nccl, Numbers::different);
                ensure(member.warnings().empty(), "a set does not use NCCL");
            });
        }
    }
}

TEST_CASE("overlapping process sets with batches that also move through the host's memory", "[gpu][order]") {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        run_members(
            4, 4, seed,
            [seed](Member& member) {
                run_in_random_order(member, kOverlapping, seed, Tensors::mixed, Numbers::different);
            },
            nullptr, /*piece_bytes=*/64);
    }
}

/// Steps a set until its batch is in the given phase.
void advance_to(OrderedSet& set, LaunchPhase phase) {
    const auto limit = Clock::now() + 60s;
    do {
        ensure(Clock::now() < limit && !set.is_done(), "the batch does not come to the phase");
        set.advance();
        std::this_thread::yield();
    } while (set.communicator().launch_phase() != phase);
}

/// Runs all batches of the sets.
void finish(std::initializer_list<OrderedSet*> sets) {
    const auto limit = Clock::now() + 60s;
    while (std::any_of(sets.begin(), sets.end(), [](const OrderedSet* set) { return !set->is_done(); })) {
        ensure(Clock::now() < limit, "the batches are not launched");
        for (OrderedSet* const set : sets) {
            if (!set->is_done()) {
                set->advance();
            }
        }
        std::this_thread::yield();
    }
}

/// The possible ends of a batch that keeps another set waiting.
enum class End : std::uint8_t { abandoned, aborted, destroyed, launched };

/// Runs two sets of two members. Member 0 enters a batch of the first set, and member 1 does not start this batch.
/// Therefore member 0 cannot launch its batch of the second set until its batch of the first set has ended. `end` says
/// how the batch of the first set ends.
void keep_second_set_waiting(Member& member, End end) {
    member.expect_other_sets();
    std::vector<std::unique_ptr<OrderedSet>> sets;
    for (const int number : {1, 2}) {
        sets.push_back(std::make_unique<OrderedSet>(
            member, member.all_members(), number, member.connect(member.all_members(), number), 5, Tensors::for_nccl));
        sets.back()->run_one();  // in the first batch of a set, its members wait for each other
    }
    member.meet();
    if (member.number() == 0) {
        sets[0]->advance();
        ensure(sets[0]->communicator().launch_phase() == LaunchPhase::agrees_on_order, "another phase");
    }
    member.meet();
    if (member.number() == 0) {
        advance_to(*sets[1], LaunchPhase::waits_for_set);
        ensure(sets[1]->communicator().awaited_set() == 1, "another set");
    } else {
        sets[1]->run_one();  // this batch need not wait, because this member has started no batch of the first set
    }
    member.meet();
    if (end == End::launched) {
        finish({sets[0].get(), sets[1].get()});
    } else if (end == End::abandoned) {
        sets[0]->communicator().abandon();
    } else if (end == End::aborted) {
        sets[0]->communicator().abort();
    } else {
        sets[0]->drop();
    }
    finish({sets[1].get()});
    member.meet();
    ensure(end_all_work(kPatience), "the devices have not done their work");
    sets[1]->check();
    member.meet();
}

TEST_CASE("a batch waits for a batch of another set that was entered before it, until that one leaves the order",
          "[gpu][order]") {
    for (const End end : {End::launched, End::abandoned, End::aborted, End::destroyed}) {
        run_members(2, 2, 81, [end](Member& member) { keep_second_set_waiting(member, end); });
    }
}

/// The members of a set must meet (wait for each other) before two kinds of batches: the set's first batch, and a batch
/// that follows a staged batch. The reason is that a member with a busy device may be late. If one of these batches has
/// no tensors, the members meet before the next batch instead.
TEST_CASE("a batch whose members must meet first keeps no other set waiting", "[gpu][order]") {
    for (const Tensors tensors : {Tensors::for_nccl, Tensors::alternating, Tensors::none_first}) {
        run_members(2, 2, 82, [tensors](Member& member) {
            member.expect_other_sets();
            std::vector<std::unique_ptr<OrderedSet>> sets;
            for (const int number : {1, 2}) {
                sets.push_back(std::make_unique<OrderedSet>(member, member.all_members(), number,
                                                            member.connect(member.all_members(), number), 5,
                                                            number == 1 ? tensors : Tensors::for_nccl));
            }
            if (tensors != Tensors::for_nccl) {
                sets[0]->run_one();  // depending on `tensors`, this batch is staged or has no tensors
            }
            member.meet();
            if (member.number() == 0) {
                sets[0]->advance();
            }
            sets[1]->run_one();
            if (member.number() == 0) {
                ensure(sets[0]->communicator().launch_phase() == LaunchPhase::agrees_on_order, "another phase");
            }
            member.meet();
            finish({sets[0].get(), sets[1].get()});
            member.meet();
            ensure(end_all_work(kPatience), "the devices have not done their work");
            sets[0]->check();
            sets[1]->check();
            member.meet();
        });
    }
}

TEST_CASE("a set that was alone gets an order when another set asks for one, and both then use NCCL", "[gpu][order]") {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        run_members(3, 3, seed, [seed](Member& member) {
            const Sets all{{0, 1, 2}, {1, 2}, {0, 2}};
            std::vector<std::unique_ptr<OrderedSet>> own;
            for (std::size_t s = 0; s < all.size(); ++s) {
                const auto number = static_cast<std::int32_t>(s + 1);
                auto communicator = member.connect(all[s], number);
                if (communicator != nullptr) {
                    own.push_back(std::make_unique<OrderedSet>(member, all[s], number, std::move(communicator),
                                                               seed * 100 + s, Tensors::for_nccl, /*batches=*/30));
                }
                if (s == 0) {
                    own[0]->run_one();
                }
            }
            const std::size_t warnings = member.warnings().size();
            // The first member of a set warns that the set cannot use NCCL yet. The first member of the second set is
            // member 1. The first member of the third set is member 0.
            ensure(warnings == (member.number() == 0 || member.number() == 1 ? 1 : 0), "another number of warnings");
            // The first set has run one batch. At its fourth batch, it gets a launch order. The other sets exchange
            // offers again at their fourth batches.
            for (std::size_t s = 0; s < own.size(); ++s) {
                for (std::uint32_t batch = s == 0 ? 1 : 0; batch < Member::kOrderInterval; ++batch) {
                    own[s]->run_one();
                }
            }
            launch_all(own, seed * 10 + member.number());
            member.meet();
            ensure(end_all_work(kPatience), "the devices have not done their work");
            for (const auto& set : own) {
                set->check();
            }
            // The first set has used NCCL for all its batches, and each of the other sets for all its batches except
            // the first three.
            const std::size_t operations = gpu::nccl_operations().size();
            ensure(operations == 3 * 30 + 4 * 27, "NCCL did " + std::to_string(operations) + " operations");
            ensure(member.warnings().size() == warnings, "a second warning");
            // Each set has made only one identifier for NCCL, although two of the sets have exchanged offers twice.
            ensure(gpu::calls("ncclGetUniqueId") == all.size(), "another number of identifiers");
            member.meet();
        });
    }
}

TEST_CASE("an abort in the middle ends the batches of all sets", "[gpu][order]") {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        run_members(3, 3, seed, [seed](Member& member) {
            member.expect_other_sets();
            member.keep_memory();
            std::vector<std::unique_ptr<OrderedSet>> own;
            for (std::size_t s = 0; s < kTriangle.size(); ++s) {
                auto communicator = member.connect(kTriangle[s], static_cast<std::int32_t>(s + 1));
                if (communicator != nullptr) {
                    own.push_back(std::make_unique<OrderedSet>(member, kTriangle[s], static_cast<std::int32_t>(s + 1),
                                                               std::move(communicator), seed, Tensors::for_nccl));
                }
            }
            std::mt19937_64 random(seed * 10 + member.number());
            const std::size_t steps = 20 + random() % 100;
            for (std::size_t step = 0; step < steps; ++step) {
                OrderedSet& set = *own[random() % own.size()];
                if (!set.is_done()) {
                    set.advance();
                }
            }
            for (const auto& set : own) {
                set->communicator().abort();
            }
            own.clear();
            member.meet();
            ensure(gpu::live_communicators() == 0, "a communicator is left");
        });
    }
}

/// Returns whether one of the seeds leads to a deadlock. Checks that no other complaint comes before the deadlock.
bool is_deadlock_found(const Sets& sets, Numbers numbers, bool agree) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        const auto complaints = complaints_of_members(
            4, 4, seed,
            [&](Member& member) {
                if (!agree) {
                    member.keep_own_proposals();
                }
                run_in_random_order(member, sets, seed, Tensors::for_nccl, numbers, kShortPatience);
            },
            tables_of_stand_in());
        if (!complaints.empty()) {
            CHECK(std::all_of(complaints.begin(), complaints.end(), [](const std::string& complaint) {
                return complaint.find(": deadlock") != std::string::npos;
            }));
            return true;
        }
    }
    return false;
}

TEST_CASE("a planted defect in the order is found", "[gpu][order]") {
    // Sets with equal numbers have no launch order.
    CHECK(is_deadlock_found(kOverlapping, Numbers::equal, true));
    CHECK(is_deadlock_found(kSquare, Numbers::equal, true));
    // The members do not agree on the numbers of the batches.
    CHECK(is_deadlock_found(kOverlapping, Numbers::different, false));
}

}  // namespace
}  // namespace rueda::tests
