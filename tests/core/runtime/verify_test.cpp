// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests RUEDA_VERIFY and RUEDA_CHECK_NAN: what they find, which ranks get the error, and which operations still work.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"

namespace rueda::tests {
namespace {

/// Memory whose two halves are the same pages, so a write to one half also changes the other half. If the halves of a
/// result must differ, this memory makes the result wrong, and RUEDA_VERIFY must find the error.
class FoldedMemory {
public:
    static constexpr std::size_t kHalf = 65536;  // a multiple of the page size of every machine
    static constexpr std::int64_t kFloats = 2 * kHalf / sizeof(float);

    FoldedMemory() {
        const int file = memfd_create("folded", 0);
        void* const room = mmap(nullptr, 2 * kHalf, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memory_ = static_cast<std::byte*>(room);
        RUEDA_RANK_CHECK(file >= 0 && ftruncate(file, kHalf) == 0 && room != MAP_FAILED);
        for (const std::size_t at : {std::size_t{0}, kHalf}) {
            RUEDA_RANK_CHECK(mmap(memory_ + at, kHalf, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
                             memory_ + at);
        }
        close(file);
    }
    FoldedMemory(const FoldedMemory&) = delete;
    FoldedMemory& operator=(const FoldedMemory&) = delete;
    ~FoldedMemory() { munmap(memory_, 2 * kHalf); }

    [[nodiscard]] Tensor tensor() const { return {memory_, DType::float32, {kFloats}}; }

private:
    std::byte* memory_ = nullptr;
};

/// Rank 1 has its output in a FoldedMemory. The other ranks have their outputs in ordinary memory.
struct Outputs {
    explicit Outputs(const Client& client) : flat(FoldedMemory::kFloats), odd(client.rank() == 1) {}
    [[nodiscard]] Tensor one() {
        return odd ? folded.tensor() : Tensor{flat.data(), DType::float32, {FoldedMemory::kFloats}};
    }

    std::vector<float> flat;
    FoldedMemory folded;
    bool odd;
};

std::vector<float> counted() {
    std::vector<float> values(FoldedMemory::kFloats);
    std::iota(values.begin(), values.end(), 1.0F);
    return values;
}

void check(int size, const base::Config& config, const std::function<void(RankContext&, RuntimeClient&)>& body,
           const RanksOptions& options = {}, const Layout& layout = {}) {
    const RanksResult result = run_clients(size, config, body, options, layout);
    INFO(layout << "\n" << result.text());
    CHECK(result.passed());
}

base::Config verifying(std::uint32_t every = 1) {
    base::Config config = test_config();
    config.verify = every;
    return config;
}

/// Expects the error "… differ …: ranks 0, 2: <checksum>; rank 1: <checksum>; …" on all ranks.
void expect_difference(const Status& status, const std::string& tensor, const std::string& operation,
                       const std::string& others) {
    const std::string text = expect_failure(status, ErrorCode::mismatch, tensor);
    const std::string head = fmt::format(
        "{}: the results of this {} differ between the ranks (RUEDA_VERIFY), by their checksums: {}: ", tensor,
        operation, others);
    const std::size_t odd = text.find("; rank 1: ", head.size());
    RUEDA_RANK_CHECK(text.starts_with(head) && odd != std::string::npos);
    constexpr const char* kDigits = "0123456789abcdef";
    RUEDA_RANK_EQUAL(text.find_first_not_of(kDigits, head.size()), odd);
    RUEDA_RANK_CHECK(text.find_first_not_of(kDigits, odd + 10) > odd + 20);
}

/// If rank 1's result of an allreduce or a broadcast differs, the operation must fail on all ranks. The next operation
/// with this name and all other operations must work.
void difference(Client& client) {
    const std::string others = client.size() == 2 ? "rank 0" : "ranks 0, 2";
    Outputs outputs(client);
    const std::vector<float> input = counted();
    const Tensor in{const_cast<float*>(input.data()), DType::float32, {FoldedMemory::kFloats}};
    std::vector<float> sum(input.size());
    const Tensor out{sum.data(), DType::float32, {FoldedMemory::kFloats}};
    const auto works = [&](const std::string& name) {
        expect_ok(client.allreduce(name, in, out, {ReduceOp::sum}), "the next one");
        RUEDA_RANK_EQUAL(sum.back(), input.back() * static_cast<float>(client.size()));
    };
    for (int round = 0; round < 3; ++round) {
        expect_difference(client.allreduce("w", in, outputs.one(), {ReduceOp::sum}), "tensor 'w'", "allreduce", others);
        works("w");
        const auto pending = expect_value(client.start_allreduce("w", in, outputs.one(), {ReduceOp::sum}), "w");
        works("beside it");
        expect_difference(pending->wait(), "tensor 'w'", "allreduce", others);
        works("w");
    }
    const Tensor parameters = outputs.one();
    if (client.rank() == 0) {
        outputs.flat = input;
    }
    const std::string text =
        expect_failure(client.broadcast("parameters", parameters, 0), ErrorCode::mismatch, "broadcast");
    RUEDA_RANK_CHECK(text.ends_with("; the first one was tensor 'w'"));
    expect_failure(client.allreduce("", in, outputs.one(), {ReduceOp::sum}), ErrorCode::mismatch, "without a name");
    works("");
    expect_ok(client.barrier(), "the end");
}

TEST_CASE("results that differ are found, on all ranks", "[threads]") {
    const auto [size, layout] = GENERATE(table<int, Layout>({{2, ""}, {3, ""}, {3, "aab"}, {3, "abc"}, {2, "ab"}}));
    const bool tiny = GENERATE(false, true);
    base::Config config = tiny ? tiny_config() : test_config();
    config.verify = 1;
    check(
        size, config, [](RankContext&, RuntimeClient& client) { difference(client); }, {}, layout);
}

TEST_CASE("results that differ are found, on all ranks, as processes", "[processes]") {
    check(3, verifying(), [](RankContext&, RuntimeClient& client) { difference(client); }, {.as = RanksAs::processes});
}

TEST_CASE("every third allreduce is compared, in the order in which they are called", "[threads]") {
    const Layout layout = GENERATE("", "aab");
    check(
        3, verifying(3),
        [](RankContext&, RuntimeClient& client) {
            Outputs outputs(client);
            const std::vector<float> input = counted();
            const Tensor in{const_cast<float*>(input.data()), DType::float32, {FoldedMemory::kFloats}};
            for (int call = 1; call <= 12; ++call) {
                const std::string name = fmt::format("tensor {}", call % 5);
                RUEDA_RANK_EQUAL(client.allreduce(name, in, outputs.one(), {}).is_ok(), call % 3 != 0);
            }
        },
        {}, layout);
}

/// One of the two tensors is small enough to travel in its announcement. Each tensor is reduced both in place and not
/// in place.
TEST_CASE("an input that is changed under way is found", "[threads]") {
    const Layout layout = GENERATE("", "aab");
    check(
        3, verifying(),
        [](RankContext& context, RuntimeClient& client) {
            for (const std::int64_t count : {std::int64_t{3}, std::int64_t{50'000}}) {
                for (const bool in_place : {true, false}) {
                    const std::string name = fmt::format("{} {}", count, in_place);
                    std::vector<float> values(static_cast<std::size_t>(count), 1.0F);
                    std::vector<float> other(values.size());
                    const Tensor in{values.data(), DType::float32, {count}};
                    const Tensor out{in_place ? values.data() : other.data(), DType::float32, {count}};
                    if (client.rank() == 1) {
                        const auto pending = expect_value(client.start_allreduce(name, in, out, {}), name);
                        values.back() = 2;
                        context.phase("changed " + name);
                        RUEDA_RANK_EQUAL(
                            expect_failure(pending->wait(), ErrorCode::mismatch, name),
                            fmt::format("tensor '{}': the input of this allreduce was changed while the operation was "
                                        "under way (RUEDA_VERIFY): rank 1; leave it alone from the call until the "
                                        "operation has completed{}",
                                        name, name == "3 true" ? "" : "; the first one was tensor '3 true'"));
                    } else {
                        context.wait_for_phase(1, "changed " + name);
                        expect_failure(client.allreduce(name, in, out, {}), ErrorCode::mismatch, name);
                    }
                    expect_ok(client.allreduce(name, in, out, {}), "the next one");
                }
            }
        },
        {}, layout);
}

TEST_CASE("a NaN is found before it is everywhere", "[threads]") {
    const Layout layout = GENERATE("a", "aaa", "aab");
    base::Config config = test_config();
    config.check_nan = true;
    config.verify = GENERATE(0U, 1U);
    check(
        static_cast<int>(layout.size()), config,
        [](RankContext&, RuntimeClient& client) {
            const int last = client.size() - 1;
            const auto expected = [&](const char* what, const char* operation, int at) {
                return fmt::format(
                    "tensor '{}': the input of this {} has values that are not finite (RUEDA_CHECK_NAN): rank {}: NaN "
                    "at element {}; look for their cause before this operation",
                    what, operation, last, at);
            };
            std::vector<float> values(3000, 1.0F);
            const Tensor in{values.data(), DType::float32, {3000}};
            std::vector<float> results(3000);
            const Tensor out{results.data(), DType::float32, {3000}};
            const Tensor few{values.data(), DType::float32, {4}};
            const auto spoil = [&](std::size_t at) {
                values[at] = client.rank() == last ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
            };
            spoil(2000);
            const auto sum = [&] { return client.allreduce("sum", in, out, {ReduceOp::sum}); };
            const std::string first = expect_failure(sum(), ErrorCode::invalid_argument, "sum");
            RUEDA_RANK_EQUAL(first, expected("sum", "allreduce", 2000));
            spoil(1);
            const auto in_place = expect_value(client.start_allreduce("few", few, few, {}), "few");
            RUEDA_RANK_CHECK(expect_failure(in_place->wait(), ErrorCode::invalid_argument, "few")
                                 .starts_with(expected("few", "allreduce", 1)));
            std::fill(values.begin(), values.end(), 1.0F);
            spoil(5);
            const Status reduced = client.reduce("reduce", in, out, 0, {ReduceOp::max});
            RUEDA_RANK_CHECK(expect_failure(reduced, ErrorCode::invalid_argument, "reduce")
                                 .starts_with(expected("reduce", "reduce", 5)));
            const auto rows = expect_value(client.start_reducescatter("rows", in, nullptr, {}), "rows");
            expect_failure(rows->wait(), ErrorCode::invalid_argument, "rows");
            values[5] = 1;
            expect_ok(sum(), "finite");
            RUEDA_RANK_EQUAL(results.back(), static_cast<float>(client.size()));
            std::vector<std::int32_t> whole(4, 0x7fc0'0000);  // as a float, these bits would be a NaN
            const Tensor integers{whole.data(), DType::int32, {4}};
            expect_ok(client.allreduce("integers", integers, integers, {ReduceOp::max}), "integers");
        },
        {}, layout);
}

TEST_CASE("each process set counts and compares its own calls", "[threads]") {
    const Layout layout = GENERATE("", "abb");
    check(
        3, verifying(2),
        [](RankContext&, RuntimeClient& world) {
            auto added = world.add_set({1, 2});
            added.status().throw_if_failed();
            Outputs outputs(world);
            const std::vector<float> input = counted();
            const Tensor in{const_cast<float*>(input.data()), DType::float32, {FoldedMemory::kFloats}};
            for (int call = 1; call <= 6; ++call) {
                if (added.value() != nullptr) {
                    const Status status = added.value()->allreduce("w", in, outputs.one(), {});
                    RUEDA_RANK_EQUAL(status.is_ok(), call % 2 != 0);
                    RUEDA_RANK_CHECK(status.is_ok() || status.message().find("; rank 2: ") != std::string::npos);
                }
                // After every third call in the set, all ranks make the same call in the world. The world counts its
                // calls separately, and compares the results of every second call.
                if (call % 3 == 0) {
                    RUEDA_RANK_EQUAL(world.allreduce("w", in, outputs.one(), {}).is_ok(), call / 3 % 2 != 0);
                }
            }
        },
        {}, layout);
}

/// The results must be equal on all ranks even if values were rounded to 16 bits between hosts, or if Adasum weighted
/// them by dot products.
TEST_CASE("compressed allreduces and Adasum have the same results on all ranks", "[threads]") {
    const Layout layout = GENERATE("", "aab", "abb", "abc");
    base::Config config = verifying();
    config.compression = GENERATE(Compression::none, Compression::fp16, Compression::bf16);
    const auto body = [](RankContext&, RuntimeClient& client) {
        std::vector<float> values(5000);
        const Tensor tensor{values.data(), DType::float32, {5000}};
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::adasum}) {
            for (std::size_t i = 0; i < values.size(); ++i) {
                values[i] = 1.0F / static_cast<float>(i + 3 * static_cast<std::size_t>(client.rank()) + 1);
            }
            expect_ok(client.allreduce("w", tensor, tensor, {op}), "w");
        }
    };
    check(3, config, body, {}, layout);
}

/// A joined rank has no result to compare. The other ranks must still compare theirs, even if all ranks of a host have
/// joined.
TEST_CASE("checks go on without those who have joined", "[threads]") {
    const Layout layout = GENERATE("", "aab", "abb", "abc");
    const auto body = [](RankContext&, RuntimeClient& client) {
        Outputs outputs(client);
        const std::vector<float> input = counted();
        const Tensor in{const_cast<float*>(input.data()), DType::float32, {FoldedMemory::kFloats}};
        std::vector<float> flat(input.size());
        const Tensor out{flat.data(), DType::float32, {FoldedMemory::kFloats}};
        const int steps = client.rank() == 2 ? 2 : 5;
        std::vector<PendingPointer> pending;
        for (int step = 0; step < steps; ++step) {
            expect_ok(client.allreduce("right", in, out, {ReduceOp::sum}), "right");
            const std::string text = expect_failure(
                client.allreduce(fmt::format("folded {}", step), in, outputs.one(), {}), ErrorCode::mismatch, "folded");
            RUEDA_RANK_CHECK(text.find(step < 2 ? ": ranks 0, 2: " : ": rank 0: ") != std::string::npos);
            pending.push_back(expect_value(
                client.start_allreduce(fmt::format("late {}", step), in, outputs.one(), {ReduceOp::sum}), "late"));
        }
        static_cast<void>(expect_value(client.join(true), "join"));
        for (const PendingPointer& one : pending) {
            expect_failure(one->wait(), ErrorCode::mismatch, "late");
        }
        expect_ok(client.allreduce("right", in, out, {ReduceOp::sum}), "afterwards");
        RUEDA_RANK_EQUAL(flat.back(), 3 * input.back());
    };
    check(3, verifying(), body, {}, layout);
}

/// Rank 0 shuts down without waiting for its operation. The other ranks wait for the operation. Such a wait may
/// succeed if the rank already has the result.
TEST_CASE("a shutdown does not wait for comparisons", "[threads]") {
    for (int round = 0; round < 10; ++round) {
        check(3, verifying(), [](RankContext& context, RuntimeClient& client) {
            std::array<float, 4> values{};
            const Tensor tensor{values.data(), DType::float32, {4}};
            const auto pending = expect_value(client.start_allreduce("last", tensor, tensor, {}), "last");
            context.phase("submitted");
            if (client.rank() == 0) {
                context.wait_for_phase(1, "submitted");
                context.wait_for_phase(2, "submitted");
                expect_ok(client.shutdown(), "shutdown");
            }
            const Status status = pending->wait();
            RUEDA_RANK_CHECK(status.is_ok() || status.code() == ErrorCode::aborted ||
                             status.code() == ErrorCode::not_initialized);
        });
    }
}

/// Rank 1 makes one call more than the other ranks. The other ranks shut down instead of making this last call.
TEST_CASE("if a rank makes one unnamed call too many, its error at the shutdown says so", "[threads]") {
    check(3, test_config(), [](RankContext& context, RuntimeClient& client) {
        float value = 1;
        const Tensor tensor{&value, DType::float32, {1}};
        for (int step = 0; step < 70; ++step) {  // there are fewer slots than operations
            expect_ok(client.allreduce("", tensor, tensor, {}), "together");
        }
        if (client.rank() != 1) {
            context.wait_for_phase(1, "one more");
        } else {
            const auto pending = expect_value(client.start_allreduce("", tensor, tensor, {}), "one more");
            context.phase("one more");
            const std::string text = expect_failure(pending->wait(), ErrorCode::aborted, "one more");
            RUEDA_RANK_CHECK(
                text.starts_with("the 71st unnamed operation of this process set; rank 1 has started 71 unnamed "
                                 "operations, ranks 0, 2: 70; they match by the order of the calls, so all ranks must "
                                 "make the same number: names or RUEDA_CALL_SITES=1 show which: rank "));
            const std::string next = expect_failure(client.barrier(), ErrorCode::aborted, "another one");
            RUEDA_RANK_CHECK(next.starts_with("the 72nd unnamed operation of this process set: rank "));
        }
    });
}

}  // namespace
}  // namespace rueda::tests
