// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <random>
#include <thread>

#include "collectives/host/arena/arena.hpp"
#include "core/negotiation/metadata.hpp"
#include "rueda/rueda.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/sanitized.hpp"

namespace rueda::tests {
namespace {

void check(int size, const std::function<void(RankContext&, RuntimeClient&)>& body, const Layout& layout = {}) {
    check_passed(run_clients(size, test_config(), body, {}, layout));
}

/// The values of a tensor repeat with this period, so that checking them does not dominate the test's time.
constexpr std::size_t kPeriod = 4;

/// Returns small integers, whose sums and products in this test are exact in double.
double value_of(int rank, int step, std::size_t element) {
    return 1 + (rank * 5 + step * 3 + static_cast<int>(element % kPeriod)) % 7;
}

/// Computes the expected result over `ranks` element by element, whereas the library computes it rank by rank.
double expected(ReduceOp op, const std::vector<int>& ranks, int step, std::size_t element, double divisor) {
    std::vector<double> values;
    for (const int rank : ranks) {
        values.push_back(value_of(rank, step, element));
    }
    std::sort(values.begin(), values.end());
    if (op == ReduceOp::min) {
        return values.front();
    }
    if (op == ReduceOp::max) {
        return values.back();
    }
    double result = op == ReduceOp::product ? 1 : 0;
    for (const double value : values) {
        result = op == ReduceOp::product ? result * value : result + value;
    }
    return op == ReduceOp::average ? result / divisor : result;
}

struct Batches {
    std::vector<int> of_rank;
    bool counted = true;

    [[nodiscard]] std::vector<int> active(int step) const {
        std::vector<int> ranks;
        for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
            if (step < of_rank[rank]) {
                ranks.push_back(static_cast<int>(rank));
            }
        }
        return ranks;
    }
};

/// One tensor of a step, whose result is compared with the expected result of the ranks that are active in the step.
/// The last bit of an average may differ: the test divides, but the library multiplies by the reciprocal.
class Gradient {
public:
    Gradient(Client& client, const Batches& batches, int step, std::string name, std::size_t count, ReduceOp op,
             double* memory = nullptr)
        : client_(client),
          batches_(batches),
          step_(step),
          name_(std::move(name)),
          op_(op),
          own_(memory == nullptr ? count : 0),
          values_(memory == nullptr ? own_.data() : memory),
          count_(count) {
        for (std::size_t i = 0; i < count; ++i) {
            values_[i] = value_of(client.rank(), step, i);
        }
    }

    [[nodiscard]] Tensor tensor() const { return {values_, DType::float64, {static_cast<std::int64_t>(count_)}}; }
    void reduce() {
        expect_ok(client_.allreduce(name_, tensor(), tensor(), {op_}), name_);
        check();
    }
    void start() { pending_ = expect_value(client_.start_allreduce(name_, tensor(), tensor(), {op_}), name_); }
    void finish() {
        expect_ok(pending_->wait(), name_);
        check();
    }
    void check() const {
        const std::vector<int> active = batches_.active(step_);
        const double divisor = batches_.counted ? client_.size() : static_cast<double>(active.size());
        std::array<double, kPeriod> period{};
        for (std::size_t i = 0; i < kPeriod; ++i) {
            period[i] = expected(op_, active, step_, i, divisor);
        }
        for (std::size_t i = 0; i < count_; ++i) {
            const double wanted = period[i % kPeriod];
            if (std::abs(values_[i] - wanted) > (op_ == ReduceOp::average ? wanted * 1e-15 : 0)) {
                RUEDA_RANK_EQUAL(fmt::format("{} step {} element {}: {}", name_, step_, i, values_[i]),
                                 fmt::format("{} step {} element {}: {}", name_, step_, i, wanted));
                return;
            }
        }
    }

private:
    Client& client_;
    const Batches& batches_;
    int step_;
    std::string name_;
    ReduceOp op_;
    std::vector<double> own_;
    double* values_;
    std::size_t count_;
    PendingPointer pending_;
};

constexpr std::array kOps{ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product};

/// Element counts of the tensors. The first tensor travels in the announcement, the second in the memory beside the
/// announcement. The third is staged in one chunk, the fourth in several chunks: a chunk has 256 KiB at most.
using Counts = std::array<std::size_t, 4>;
constexpr Counts kCounts{1, 200, 5'000, 70'000};
/// Element counts of the tensors for chunks of 256 bytes. The third tensor has many chunks, and the fourth has even
/// more.
constexpr Counts kCountsOfTinyChunks{1, 200, 5'000, 10'000};

void train(Client& client, const Batches& batches, int round, std::mt19937& random, const Counts& counts,
           double* resident, std::size_t resident_count) {
    const int mine = batches.of_rank[static_cast<std::size_t>(client.rank())];
    for (int step = 0; step < mine; ++step) {
        if (random() % 4 == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
        }
        // All ranks must make the same choices, so the choices depend only on the round and the step.
        const ReduceOp op = kOps[static_cast<std::size_t>(step + round) % kOps.size()];
        const std::size_t count = counts[static_cast<std::size_t>(step * 7 + round) % counts.size()];
        // The name contains the size, because a name must keep its shape. Every second round uses new names.
        Gradient(client, batches, step, fmt::format("blocking.{}.{}", count, round / 2), count, op).reduce();
        std::vector<Gradient> several;
        several.reserve(counts.size());
        for (std::size_t i = 0; i < counts.size(); ++i) {
            several.emplace_back(client, batches, step, fmt::format("async.{}", i), counts[i], op);
            several.back().start();
        }
        Gradient(client, batches, step, "resident", resident_count, op, resident).reduce();
        for (Gradient& gradient : several) {
            gradient.finish();
        }
        // The shape of "changing" changes while some ranks have joined. The second operation has no name.
        Gradient(client, batches, step, "changing", static_cast<std::size_t>(step % 3 + 1), op).reduce();
        Gradient(client, batches, step, "", 3, op).reduce();
        expect_ok(client.barrier(), "a barrier");
    }
}

TEST_CASE("ranks with fewer batches join, round after round", "[threads]") {
    // Each letter is the host of one rank.
    const Layout layout = GENERATE("a", "aa", "aaa", "aaaa", "ab", "aab", "aabb", "abab", "abbc");
    const auto size = static_cast<int>(layout.size());
    const unsigned seed = GENERATE(1U, 2U, 3U);
    if ((seed == 2 && layout.find('b') != Layout::npos && layout != "aab") || (seed == 3 && layout == "abab")) {
        return;  // this case is skipped, because the ranks would spend much time waiting for each other
    }
    // Seed 1 uses the usual settings, and seed 2 many chunks and little memory. Seed 3 has so few slots that names lose
    // their slots all the time.
    base::Config config = seed == 2 ? tiny_config() : test_config();
    if (seed == 3) {
        config.slots = 10;
        config.slots_max = 10;
    }
    // The test has thousands of waits. If another process occupies all cores, each wait takes as long as that process's
    // time slice. Therefore the deadline is long.
    const RanksOptions patient{.deadline = std::chrono::minutes(4)};
    const auto body = [&](RankContext&, RuntimeClient& client) {
        constexpr std::size_t kResident = 3'000;
        auto memory = client.allocate(kResident * sizeof(double));
        memory.status().throw_if_failed();
        // this generator yields the same numbers on all ranks
        std::mt19937 same(seed);
        std::mt19937 own(seed * 100 + static_cast<unsigned>(client.rank()));  // different numbers on each rank
        for (int round = 0; round < (kSanitized ? 2 : 4); ++round) {
            Batches batches;
            for (int rank = 0; rank < size; ++rank) {
                batches.of_rank.push_back(static_cast<int>(same() % 5));
            }
            batches.counted = round % 2 == 0;
            train(client, batches, round, own, seed == 2 ? kCountsOfTinyChunks : kCounts,
                  static_cast<double*>(memory.value()), kResident);
            const int last = expect_value(client.join(batches.counted), "join");
            // The rank that joined last must be one of the ranks with the most batches.
            RUEDA_RANK_EQUAL(batches.of_rank[static_cast<std::size_t>(last)],
                             *std::max_element(batches.of_rank.begin(), batches.of_rank.end()));
            double low = last;
            const Tensor tensor{&low, DType::float64, {1}};
            expect_ok(client.allreduce("last", tensor, tensor, {ReduceOp::max}), "last");
            RUEDA_RANK_EQUAL(low, static_cast<double>(last));
        }
        expect_ok(client.deallocate(memory.value()), "deallocate");
    };
    const RanksResult result = run_clients(size, config, body, patient, layout);
    INFO(layout << ", seed " << seed << "\n" << result.text());
    CHECK(result.passed());
}

/// Returns the number of this rank's batches whose tensors were in resident memory.
std::uint64_t resident_batches(RuntimeClient& client) {
    const auto rank = static_cast<std::uint32_t>(client.rank());
    return client.runtime().arena()->progress(rank).resident.load(std::memory_order_acquire);
}

/// A tensor with this number of elements does not fit into an announcement.
constexpr std::ptrdiff_t kElements = 12'000;

/// Starts an allreduce for each tensor, and pauses between the starts as if it computed. Then polls until all of them
/// are done. So only the rank in join() waits inside Rueda.
void train_without_waiting(RuntimeClient& client, float* memory, int tensors) {
    std::vector<PendingPointer> pending;
    for (int i = 0; i < tensors; ++i) {
        const Tensor tensor{memory + kElements * i, DType::float32, {kElements}};
        pending.push_back(
            expect_value(client.start_allreduce(fmt::format("t{}", i), tensor, tensor, {ReduceOp::max}), "a start"));
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    for (const PendingPointer& one : pending) {
        while (!one->ready()) {
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        expect_ok(one->wait(), "an allreduce");
    }
}

TEST_CASE("a rank that waits in join leaves batches open as long as a rank that trains", "[threads]") {
    const int size = GENERATE(2, 3);
    constexpr int kTensors = 161;
    constexpr int kSteps = 4;
    base::Config config = test_config();
    // The hold time is long enough to announce all tensors of a step, even on a loaded machine.
    config.hold_seconds = 0.1;
    const auto body = [&](RankContext&, RuntimeClient& client) {
        auto memory = client.allocate(kTensors * kElements * sizeof(float));
        memory.status().throw_if_failed();
        auto* const values = static_cast<float*>(memory.value());
        std::fill(values, values + kTensors * kElements, static_cast<float>(client.rank() + 1));
        train_without_waiting(client, values, kTensors);  // binds the names to slots while no rank has joined
        RUEDA_RANK_EQUAL(values[kTensors * kElements - 1], static_cast<float>(size));
        if (client.rank() < size - 1) {
            const std::uint64_t before = resident_batches(client);
            for (int step = 0; step < kSteps; ++step) {
                train_without_waiting(client, values, kTensors);
            }
            const std::uint64_t batches = resident_batches(client) - before;
            RUEDA_RANK_CHECK(batches >= kSteps);
            RUEDA_RANK_CHECK(batches <= std::uint64_t{10} * kSteps);
        }
        expect_value(client.join(true), "join");
        expect_ok(client.deallocate(memory.value()), "deallocate");
    };
    const RanksResult result = run_clients(size, config, body);
    INFO(size << " ranks\n" << result.text());
    CHECK(result.passed());
}

/// Each rank starts a group that no other rank starts, and then joins. Before the ranks announce the members of the
/// group, they agree on the number of the members. So the members may still be pending when the rank joins.
/// Nevertheless, the join must succeed. The result of the group must be the rank's own values.
TEST_CASE("a group that only one rank starts before it joins", "[threads]") {
    for (const char* layout : {"aa", "aaa", "ab", "aab"}) {
        const int size = static_cast<int>(std::string(layout).size());
        check(
            size,
            [](RankContext&, RuntimeClient& client) {
                for (int round = 0; round < 3; ++round) {
                    // In round 1 no rank knows another rank's name. In later rounds the other ranks may know the name.
                    const std::string name = fmt::format("group {}", (client.rank() + round) % client.size());
                    std::array<double, 3> values{1.5, 2.5, static_cast<double>(client.rank())};
                    std::vector<Tensor> tensors;
                    for (double& value : values) {
                        tensors.push_back({&value, DType::float64, {1}});
                    }
                    const auto group = expect_value(client.start_group(name, tensors, {ReduceOp::sum}), "a group");
                    expect_value(client.join(true), "join");
                    expect_ok(group->wait(), "a group");
                    RUEDA_RANK_CHECK((values == std::array<double, 3>{1.5, 2.5, static_cast<double>(client.rank())}));
                }
            },
            layout);
    }
}

TEST_CASE("groups of tensors and averages of integers without a rank", "[threads]") {
    const Layout layout = GENERATE("aaa", "aab", "aba");
    const auto body = [](RankContext&, RuntimeClient& client) {
        if (client.rank() != 1) {
            std::vector<double> a(10, client.rank() + 1);
            std::vector<double> b(4'000, client.rank() + 2);
            const auto group = expect_value(
                client.start_group("group", {{a.data(), DType::float64, {10}}, {b.data(), DType::float64, {4'000}}},
                                   {ReduceOp::sum}),
                "a group");
            expect_ok(group->wait(), "a group");
            RUEDA_RANK_EQUAL(a[9], 4.0);
            RUEDA_RANK_EQUAL(b[3'999], 6.0);
            std::vector<std::int32_t> whole(7, client.rank() == 0 ? -4 : -3);
            const Tensor tensor{whole.data(), DType::int32, {7}};
            expect_ok(client.allreduce("whole", tensor, tensor, {ReduceOp::average}), "integers");
            RUEDA_RANK_EQUAL(whole[6], client.size() == 3 ? -2 : 0);  // -7 / 3 is rounded toward zero
            std::vector<float> scaled(5, 3.0F);
            const Tensor factors{scaled.data(), DType::float32, {5}};
            expect_ok(client.allreduce("scaled", factors, factors, {ReduceOp::min, -2.0, 0.5}), "factors");
            // A joined rank must not contribute infinity: infinity times -2 would become the minimum.
            RUEDA_RANK_EQUAL(scaled[4], -3.0F);
            scaled.assign(5, 3.0F);
            expect_ok(client.allreduce("scaled.product", factors, factors, {ReduceOp::product, 2.0}), "factors");
            RUEDA_RANK_EQUAL(scaled[0], 36.0F);

            std::vector<Tensor> uneven(client.rank() == 0 ? 2 : 3, {a.data(), DType::float64, {1}});
            for (std::size_t i = 0; i < uneven.size(); ++i) {
                uneven[i].data = &a[i];
            }
            const auto refused = expect_value(client.start_group("uneven", uneven, {ReduceOp::sum}), "a group");
            RUEDA_RANK_EQUAL(
                expect_failure(refused->wait(-1), ErrorCode::mismatch, "a group"),
                std::string(
                    "group 'uneven': the ranks disagree about the number of its members: rank 0: 2; rank 2: 3"));
        }
        static_cast<void>(expect_value(client.join(true), "join"));
    };
    check(3, body, layout);
}

TEST_CASE("an operation that needs every rank is refused on all ranks while one has joined, and works afterwards",
          "[threads]") {
    const Layout layout = GENERATE("aaaa", "aabb", "abab");
    const auto body = [](RankContext&, RuntimeClient& client) {
        std::uint64_t unnamed = 0;
        const auto everything = [&](const std::function<void(const Status&, const std::string&)>& verify) {
            std::array<float, 8> values{};
            std::array<float, 2> share{};
            const Tensor tensor{values.data(), DType::float32, {8}};
            const Tensor two{share.data(), DType::float32, {2}};
            verify(client.broadcast("b", tensor, 0), "tensor 'b': this broadcast");
            verify(client.allgather("g", tensor, nullptr).status(), "tensor 'g': this allgather");
            verify(client.alltoall("a", tensor, {}, nullptr).status(), "tensor 'a': this alltoall");
            verify(client.reducescatter("r", tensor, two, {ReduceOp::sum}), "tensor 'r': this reducescatter");
            verify(client.gather("to", tensor, nullptr, 0).status(), "tensor 'to': this gather");
            verify(client.reduce("sum", tensor, tensor, 0, {ReduceOp::sum}), "tensor 'sum': this reduce");
            verify(client.broadcast("", tensor, 0),
                   fmt::format("{}: this broadcast", core::describe_unnamed(++unnamed)));
        };
        // In the first round no rank has joined, and the names get their slots.
        everything([](const Status& status, const std::string& what) { expect_ok(status, what); });
        if (client.rank() % 2 == 0) {
            for (int again = 0; again < 3; ++again) {
                everything([](const Status& status, const std::string& what) {
                    RUEDA_RANK_EQUAL(
                        expect_failure(status, ErrorCode::invalid_argument, what),
                        what +
                            " needs every rank, and ranks 1, 3 are in join(): do it before a rank joins, or after all "
                            "have joined; while ranks are in join(), only allreduce and barrier are possible");
                });
                expect_ok(client.barrier(), "a barrier");
                ++unnamed;  // the barrier counts as an unnamed operation
                Batches batches{{9, 0, 9, 0}};
                Gradient(client, batches, again, "fine", 11, ReduceOp::average).reduce();
            }
            std::array<double, 3> values{};
            const Tensor differs{values.data(), DType::float64, {client.rank() == 0 ? 2 : 3}};
            RUEDA_RANK_EQUAL(
                expect_failure(client.allreduce("m", differs, differs, {}), ErrorCode::mismatch, "a mismatch"),
                std::string("tensor 'm': the ranks disagree about the shape: rank 0: [2]; rank 2: [3]"));
        }
        static_cast<void>(expect_value(client.join(true), "join"));
        everything([](const Status& status, const std::string& what) { expect_ok(status, what); });
    };
    check(4, body, layout);
}

TEST_CASE("operations that a rank has started before it joins get its values", "[threads]") {
    const Layout layout = GENERATE("aaa", "abb", "aba");
    const auto body = [](RankContext&, RuntimeClient& client) {
        std::vector<double> values(100, client.rank() + 1);
        const Tensor tensor{values.data(), DType::float64, {100}};
        PendingPointer early;
        PendingPointer sent;
        double root = client.rank();
        if (client.rank() != 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        early = expect_value(client.start_allreduce("early", tensor, tensor, {ReduceOp::sum}), "early");
        sent = expect_value(client.start_broadcast("sent", {&root, DType::float64, {1}}, 0), "sent");
        if (client.rank() != 0) {
            expect_ok(early->wait(), "early");
            expect_ok(sent->wait(), "sent");
            Batches batches{{0, 9, 9}};
            Gradient(client, batches, 2, "later", 20, ReduceOp::sum).reduce();
        }
        static_cast<void>(expect_value(client.join(true), "join"));
        expect_ok(early->wait(), "early");
        RUEDA_RANK_EQUAL(values[99], 6.0);
        RUEDA_RANK_EQUAL(root, 0.0);
    };
    check(3, body, layout);
}

TEST_CASE("a rank that has joined starts nothing, and joins once", "[threads]") {
    const Layout layout = GENERATE("aa", "ab");
    const auto body = [](RankContext& context, RuntimeClient& client) {
        if (client.rank() == 0) {
            core::Completion joined;
            expect_ok(client.runtime().start_join(joined, true), "join");
            double value = 1;
            const Tensor tensor{&value, DType::float64, {1}};
            RUEDA_RANK_EQUAL(
                expect_failure(client.allreduce("x", tensor, tensor, {}), ErrorCode::invalid_argument, "x"),
                std::string("tensor 'x': rank 0 is in join(), and can start nothing before all ranks have joined"));
            RUEDA_RANK_EQUAL(expect_failure(client.join(true).status(), ErrorCode::invalid_argument, "a second join"),
                             std::string("rank 0 is in join(), and can start nothing before all ranks have joined"));
            RUEDA_RANK_EQUAL(joined.done(), false);
            context.phase("looked");
            expect_ok(client.runtime().wait(joined, -1), "join");
            RUEDA_RANK_EQUAL(joined.joined_last, 1);
        } else {
            context.wait_for_phase(0, "looked");
            RUEDA_RANK_EQUAL(expect_value(client.join(true), "join"), 1);
        }
        double value = 1;
        const Tensor tensor{&value, DType::float64, {1}};
        expect_ok(client.allreduce("x", tensor, tensor, {ReduceOp::sum}), "x");
        RUEDA_RANK_EQUAL(value, 2.0);
    };
    check(2, body, layout);
}

/// With patient_config() a sleeping caller wakes up by itself only after an hour, so a lost wake-up makes this test
/// hang.
TEST_CASE("a joined rank that sleeps is woken when the others announce something", "[threads]") {
    const Layout layout = GENERATE("aa", "ab");
    const auto body = [](RankContext&, RuntimeClient& client) {
        for (int step = 0; client.rank() == 0 && step < 200; ++step) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));  // after 1 ms the joined rank sleeps
            double value = 5;
            const Tensor tensor{&value, DType::float64, {1}};
            expect_ok(client.allreduce(step % 20 == 0 ? fmt::format("new.{}", step) : "bound", tensor, tensor,
                                       {ReduceOp::sum}),
                      "a step");
            RUEDA_RANK_EQUAL(value, 5.0);
        }
        static_cast<void>(expect_value(client.join(true), "join"));
    };
    check_passed(run_clients(2, patient_config(), body, {}, layout));
}

TEST_CASE("a rank that has joined has joined in its process sets", "[threads]") {
    const Layout layout = GENERATE("aaaa", "aabb", "abab", "aaab");
    const auto body = [](RankContext&, RuntimeClient& client) {
        auto low = client.add_set({0, 1, 2});
        low.status().throw_if_failed();
        auto high = client.add_set({2, 3});
        high.status().throw_if_failed();
        for (int round = 0; round < 3; ++round) {
            const int steps = client.rank() == round ? 0 : 5 + client.rank();
            for (int step = 0; step < steps; ++step) {
                for (auto* set : {low.value().get(), high.value().get()}) {
                    if (set == nullptr) {
                        continue;
                    }
                    double value = 1;
                    const Tensor tensor{&value, DType::float64, {1}};
                    double wanted = 0;
                    for (const int rank : set->identity().ranks) {
                        wanted += rank != round && step < 5 + rank ? 1 : 0;
                    }
                    expect_ok(set->allreduce("x", tensor, tensor, {ReduceOp::sum}), "x");
                    RUEDA_RANK_EQUAL(value, wanted);
                }
            }
            static_cast<void>(expect_value(client.join(true), "join"));
        }
        auto later = client.add_set({0, 3});
        later.status().throw_if_failed();
    };
    check(4, body, layout);
}

TEST_CASE("a rank that shuts down instead of joining ends the others' joins", "[threads]") {
    const Layout layout = GENERATE("aaa", "aab", "abb", "abc");
    const auto body = [](RankContext&, RuntimeClient& client) {
        if (client.rank() == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            expect_ok(client.shutdown(), "shutdown");
        } else if (client.rank() == 0) {
            RUEDA_RANK_EQUAL(expect_failure(client.join(true).status(), ErrorCode::aborted, "join"),
                             std::string("join: rank 1 has shut down, so no operation is possible any more; a rank "
                                         "with fewer batches has to call join() before it shuts down"));
        } else {
            double value = 1;
            const Tensor tensor{&value, DType::float64, {1}};
            RUEDA_RANK_EQUAL(expect_failure(client.allreduce("x", tensor, tensor, {}), ErrorCode::aborted, "x"),
                             std::string("tensor 'x': rank 1 has shut down, so no operation is possible any more; a "
                                         "rank with fewer batches has to call join() before it shuts down"));
        }
    };
    check(3, body, layout);
}

TEST_CASE("a rank that is killed ends the joins of all survivors, with its name", "[processes]") {
    const int victim = GENERATE(0, 2);  // rank 0 is in its training loop, rank 2 in join()
    const RanksResult result =
        run_clients(4, test_config(),
                    [&](RankContext& context, RuntimeClient& client) {
                        const auto died = [&](const Status& status, const char* what) {
                            const std::string text = expect_failure(status, ErrorCode::aborted, what);
                            RUEDA_RANK_CHECK(text.find(fmt::format("rank {} ", victim)) != std::string::npos);
                        };
                        if (client.rank() >= 2) {
                            context.phase("joining");
                            died(client.join(true).status(), "join");
                        } else {
                            context.phase("joining");
                            std::vector<double> values(10'000, 1);
                            const Tensor tensor{values.data(), DType::float64, {10'000}};
                            Status status;
                            while ((status = client.allreduce("x", tensor, tensor, {ReduceOp::sum})).is_ok()) {
                            }
                            died(status, "an allreduce");
                        }
                    },
                    {.as = RanksAs::processes, .meanwhile = [&](RunningRanks& running) {
                         for (int rank = 0; rank < 4; ++rank) {
                             running.wait_for_phase(rank, "joining");
                         }
                         std::this_thread::sleep_for(std::chrono::milliseconds(50));
                         running.kill_rank(victim, SIGKILL);
                     }});
    INFO(result.text());
    CHECK(result.leaks.empty());
    for (int rank = 0; rank < 4; ++rank) {
        const RankOutcome& outcome = result.ranks[static_cast<std::size_t>(rank)];
        CHECK(outcome.end == (rank == victim ? RankEnd::killed : RankEnd::returned));
    }
}

TEST_CASE("whole hosts join, and new names, changes and mismatches of the others still work", "[threads]") {
    const Layout layout = GENERATE("ab", "aabb", "aab", "abb", "abcdefghijkl", "abaccb");
    const auto size = static_cast<int>(layout.size());
    check(
        size,
        [&](RankContext&, RuntimeClient& client) {
            for (int round = 0; round < 3; ++round) {
                // In each round, ranks of one host join early. In round 0 these are all ranks of the first host. In
                // round 1 they are all ranks of the last host. In round 2 they are all ranks of the last host except
                // its last rank.
                const char away = round == 0 ? 'a' : layout.back();
                Batches batches{{}, round != 1};
                for (int rank = 0; rank < size; ++rank) {
                    const bool goes =
                        layout[static_cast<std::size_t>(rank)] == away && (round != 2 || rank + 1 != size);
                    batches.of_rank.push_back(goes ? round : 9);
                }
                for (int step = 0; step < batches.of_rank[static_cast<std::size_t>(client.rank())]; ++step) {
                    const ReduceOp op = kOps[static_cast<std::size_t>(step + round) % kOps.size()];
                    Gradient(client, batches, step, "known", 50, op).reduce();
                    Gradient(client, batches, step, fmt::format("new.{}.{}", round, step), 70'000, op).reduce();
                    // The shape changes in every step, so some hosts still know the name with an old shape.
                    Gradient(client, batches, step, "changes", static_cast<std::size_t>(4 + step), op).reduce();
                    Gradient unnamed(client, batches, step, "", 3, op);
                    Gradient another(client, batches, step, "", 30'000, op);
                    unnamed.start();
                    another.start();
                    unnamed.finish();
                    another.finish();
                    if (batches.active(step).size() < static_cast<std::size_t>(size)) {
                        float value = 0;
                        const Tensor tensor{&value, DType::float32, {1}};
                        const std::string refused =
                            expect_failure(client.broadcast("b", tensor, 0), ErrorCode::invalid_argument, "b");
                        RUEDA_RANK_CHECK(refused.starts_with("tensor 'b': this broadcast needs every rank, and rank"));
                    }
                    expect_ok(client.barrier(), "a barrier");
                }
                const int last = expect_value(client.join(batches.counted), "join");
                RUEDA_RANK_EQUAL(batches.of_rank[static_cast<std::size_t>(last)], 9);
            }
            float value = static_cast<float>(client.rank());
            const Tensor tensor{&value, DType::float32, {1}};
            expect_ok(client.broadcast("b", tensor, size - 1), "all are back");
            RUEDA_RANK_EQUAL(value, static_cast<float>(size - 1));
        },
        layout);
}

/// Many operations are pending at once. A host whose ranks have joined is asked for these operations in the order in
/// which they arrived.
TEST_CASE("a host that has joined keeps up with many operations of the others", "[threads]") {
    const Layout layout = GENERATE("aab", "aabb");
    check(
        static_cast<int>(layout.size()),
        [&](RankContext&, RuntimeClient& client) {
            if (layout[static_cast<std::size_t>(client.rank())] == 'a') {
                const Batches batches{layout == "aab" ? std::vector<int>{99, 99, 0} : std::vector<int>{99, 99, 0, 0}};
                for (int step = 0; step < (kSanitized ? 2 : 4); ++step) {
                    std::vector<Gradient> several;
                    several.reserve(300);
                    for (int i = 0; i < 300; ++i) {
                        several.emplace_back(client, batches, step, i % 3 == 0 ? "" : fmt::format("many.{}", i),
                                             static_cast<std::size_t>(i), ReduceOp::sum);
                        several.back().start();
                    }
                    for (Gradient& gradient : several) {
                        gradient.finish();
                    }
                }
            }
            RUEDA_RANK_CHECK(expect_value(client.join(true), "join") < 2);
        },
        layout);
}

/// Rank r trains r + 1 batches, so the last rank joins last. Rank 0 polls the handle of its join, and the other ranks
/// block in wait().
void join_by_handle(RankContext& context, JoinAverage average) {
    const int size = rueda::size();
    for (int batch = 0; batch <= rueda::rank(); ++batch) {
        auto value = static_cast<float>(rueda::rank() + 1);
        rueda::allreduce("gradient", std::span(&value, 1));
        const int active = size - batch;
        // The sum of the integers from (batch + 1) to size.
        const auto sum = static_cast<float>(active * (batch + 1 + size)) / 2;
        RUEDA_RANK_EQUAL(value, sum / static_cast<float>(average == JoinAverage::all ? size : active));
    }
    const std::string refused = average == JoinAverage::all ? "refused" : "refused again";
    if (rueda::rank() > 0) {
        // rank 0 checks a call during its join, so the join must not end before this check
        context.wait_for_phase(0, refused);
    }
    const Handle joined = rueda::join_async(average);
    if (rueda::rank() == 0 && size > 1) {
        try {
            float value = 0;
            rueda::allreduce("late", std::span(&value, 1));
            RUEDA_RANK_CHECK(false);
        } catch (const InvalidArgument&) {
        }
        context.phase(refused);
        while (!joined.ready()) {
            std::this_thread::yield();
        }
    } else {
        joined.wait();
    }
    RUEDA_RANK_EQUAL(joined.joined_last(), size - 1);
}

TEST_CASE("join as a handle in C++", "[processes]") {
    const int size = GENERATE(1, 2, 4);  // powers of two, so that the averages over all ranks are exact
    check_passed(run_public_ranks(size, [](RankContext& context) {
        rueda::init();
        join_by_handle(context, JoinAverage::all);
        if (rueda::size() < 3) {  // with 1 or 2 active ranks, the averages over active ranks are exact, too
            join_by_handle(context, JoinAverage::active);
        }
        const Handle barrier = rueda::barrier_async();
        barrier.wait();
        try {
            static_cast<void>(barrier.joined_last());
            RUEDA_RANK_CHECK(false);
        } catch (const InvalidArgument&) {
        }
        rueda::shutdown();
    }));
}

}  // namespace
}  // namespace rueda::tests
