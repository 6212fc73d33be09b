// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

constexpr std::array kOps = {ReduceOp::average, ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};

/// One allreduce and its memory. The object starts the operation and checks the result.
class Trial {
public:
    Trial(Client& client, const std::string& name, DType dtype, std::size_t elements, const Reduce& reduce,
          Residency residency, bool in_place, int salt)
        : client_(client),
          name_(name),
          reduce_(reduce),
          salt_(salt),
          what_(fmt::format("'{}' {} {} of {}, {}, {}", name, rueda::name_of(reduce.op), rueda::name_of(dtype),
                            elements, name_of(residency), in_place ? "in place" : "out of place")),
          input_(client, dtype, {static_cast<std::int64_t>(elements)}, is_resident(residency, client.rank(), 0)) {
        if (!in_place) {
            outputs_.emplace_back(client, dtype, std::vector{static_cast<std::int64_t>(elements)},
                                  is_resident(residency, client.rank(), 1));
        }
        fill_input(input_.tensor(), reduce.op, client.rank(), salt);
    }

    void start() {
        pending_ = expect_value(client_.start_allreduce(name_, input_.tensor(), output().tensor(), reduce_), what_);
    }
    void run() { expect_ok(client_.allreduce(name_, input_.tensor(), output().tensor(), reduce_), what_); }
    void finish() {
        if (pending_ != nullptr) {
            expect_ok(pending_->wait(), what_);
        }
        check_allreduce(output().tensor(), reduce_, Among(client_), salt_, what_);
        output().check_margin(what_);
        input_.check_margin(what_);
        if (!outputs_.empty()) {  // Rueda must not change the input
            const Tensor& in = input_.tensor();
            for (std::size_t i = 0; i < in.elements(); ++i) {
                const auto given = input_value(in.dtype, reduce_.op, client_.rank(), i, salt_);
                if (element(in, i) != static_cast<double>(given)) {
                    throw RankCheckFailed(fmt::format("{}: element {} of the input has changed", what_, i));
                }
            }
        }
    }

private:
    Buffer& output() { return outputs_.empty() ? input_ : outputs_.front(); }

    Client& client_;
    std::string name_;
    Reduce reduce_;
    int salt_;
    std::string what_;
    Buffer input_;
    std::vector<Buffer> outputs_;
    PendingPointer pending_;
};

/// Sizes around the limit of inline inputs (80 bytes), sizes around 4 KiB, and sizes that need several tiny chunks.
std::vector<std::size_t> sizes_of(DType dtype) {
    const std::size_t bytes = size_of(dtype);
    std::vector<std::size_t> sizes = {
        0, 1, 3, 20, 21, 80 / bytes, 80 / bytes + 1, 1000, 4096 / bytes, 4096 / bytes + 1};
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

/// Starts all operations at once, so that Rueda forms batches. In the second round the names have slots (the numbers
/// that stand for names after their first use).
void matrix(Client& client) {
    int salt = 0;
    for (const Residency residency : kResidencies) {
        for (const bool in_place : {false, true}) {
            std::vector<std::unique_ptr<Trial>> trials;
            ++salt;
            for (const ReduceOp op : kOps) {
                for (const DType dtype : dtypes_of_round(op, salt)) {
                    for (const std::size_t elements : sizes_of(dtype)) {
                        const std::string name =
                            fmt::format("matrix.{}.{}.{}", rueda::name_of(op), rueda::name_of(dtype), elements);
                        trials.push_back(std::make_unique<Trial>(client, name, dtype, elements, Reduce{op}, residency,
                                                                 in_place, salt));
                        trials.back()->start();
                    }
                }
            }
            for (const auto& trial : trials) {
                trial->finish();
            }
        }
    }
}

void blocking(Client& client) {
    for (const Residency residency : kResidencies) {
        for (int round = 0; round < 3; ++round) {
            // Sizes around each limit up to which an input travels in an announcement. The limits are the size of the
            // announcement's own cache lines (80 bytes), 8 KiB with more than two ranks, and 64 KiB with two. With two
            // ranks, resident tensors of more than 32 KiB do not travel, so that some inputs travel and others do not.
            for (const std::size_t elements : {0U, 1U, 20U, 21U, 512U, 513U, 1000U, 2047U, 2048U, 2049U, 5000U, 8191U,
                                               8192U, 8193U, 12000U, 16384U, 16385U}) {
                Trial trial(client, fmt::format("blocking.{}", elements), DType::float32, elements, {ReduceOp::sum},
                            residency, round % 2 == 0, round);
                trial.run();
                trial.finish();
            }
        }
    }
}

void large(Client& client) {
    constexpr std::size_t kMebibyte = 1 << 20;
    int salt = 0;
    for (const Residency residency : kResidencies) {
        for (const bool in_place : {false, true}) {
            const DType dtype = salt % 2 == 0 ? DType::float32 : DType::bfloat16;
            Trial one(client, "large.blocking", DType::float32, kMebibyte / 4 - 3, {ReduceOp::average}, residency,
                      in_place, ++salt);
            Trial two(client, fmt::format("large.{}", rueda::name_of(dtype)), dtype, kMebibyte / 2 + 5, {ReduceOp::sum},
                      residency, in_place, salt);
            two.start();
            one.run();
            one.finish();
            two.finish();
        }
    }
}

void scaled(Client& client) {
    constexpr std::array kFactors = {Reduce{ReduceOp::sum, 0.5, 3.0}, Reduce{ReduceOp::average, 2.0, 1.0},
                                     Reduce{ReduceOp::average, 1.0, 0.5}, Reduce{ReduceOp::max, 0.5, 2.0},
                                     Reduce{ReduceOp::min, 1.0, 2.0}};
    int salt = 0;
    int round = 0;
    for (const Residency residency : kResidencies) {
        std::vector<std::unique_ptr<Trial>> trials;
        ++round;  // dtypes_of_round() would return bool in round 0, and bool supports no factors
        for (const Reduce& reduce : kFactors) {
            for (const DType dtype : dtypes_of_round(reduce.op, round)) {
                for (const std::size_t elements : {5U, 300U}) {
                    const std::string name =
                        fmt::format("scaled.{}.{}.{}", trials.size(), rueda::name_of(dtype), elements);
                    trials.push_back(std::make_unique<Trial>(client, name, dtype, elements, reduce, residency,
                                                             trials.size() % 2 == 0, ++salt));
                    trials.back()->start();
                }
            }
        }
        for (const auto& trial : trials) {
            trial->finish();
        }
    }
}

/// Returns the average of single elements; rank r contributes `mine(r)`.
template <class T, class Mine>
T average_of(Client& client, const std::string& name, Mine&& mine) {
    T value = static_cast<T>(mine(client.rank()));
    const Tensor tensor{&value, dtype_of<T>, {1}};
    expect_ok(client.allreduce(name, tensor, tensor, {ReduceOp::average}), name);
    return value;
}

void integer_averages(Client& client) {
    const int size = client.size();
    // −(2·size − 1) / size is just above −2, and truncation toward zero gives −1.
    RUEDA_RANK_EQUAL(average_of<std::int32_t>(client, "int.negative", [](int rank) { return rank == 0 ? -1 : -2; }),
                     size == 1 ? -1 : -(2 * size - 1) / size);
    RUEDA_RANK_EQUAL(average_of<std::int64_t>(client, "int.minus_one", [](int rank) { return rank == 0 ? -1 : 0; }),
                     size == 1 ? -1 : 0);
    // The sum does not fit into the type, but the average does.
    RUEDA_RANK_EQUAL(average_of<std::uint8_t>(client, "int.uint8", [](int) { return 255; }), 255);
    RUEDA_RANK_EQUAL(average_of<std::int8_t>(client, "int.int8", [](int) { return -128; }), -128);
    RUEDA_RANK_EQUAL(average_of<std::int32_t>(client, "int.int32", [](int) { return 2147483647; }), 2147483647);
    constexpr std::int64_t kLargest = 9223372036854775807;
    RUEDA_RANK_EQUAL(average_of<std::int64_t>(client, "int.int64", [](int) { return kLargest; }), kLargest);
    RUEDA_RANK_EQUAL(average_of<std::int64_t>(client, "int.lowest", [](int) { return -kLargest - 1; }), -kLargest - 1);
    RUEDA_RANK_EQUAL(average_of<std::int16_t>(client, "int.int16", [](int) { return -32768; }), -32768);
    RUEDA_RANK_EQUAL(average_of<std::uint16_t>(client, "int.uint16", [](int) { return 65535; }), 65535);
    RUEDA_RANK_EQUAL(average_of<std::uint32_t>(client, "int.uint32", [](int) { return 4294967295U; }), 4294967295U);
    constexpr std::uint64_t kTop = 18446744073709551615U;
    RUEDA_RANK_EQUAL(average_of<std::uint64_t>(client, "int.uint64", [](int) { return kTop; }), kTop);
    RUEDA_RANK_EQUAL(
        average_of<std::uint64_t>(client, "int.one less", [](int rank) { return rank == 0 ? kTop : kTop - 1; }),
        size == 1 ? kTop : kTop - 1);
}

/// Every byte except 0 means true. The result must be 0 or 1, so every code path has to convert the bytes.
void booleans(Client& client) {
    constexpr std::array<std::uint8_t, 5> kTrue = {1, 2, 128, 255, 77};
    const auto byte_of = [&](int rank, std::size_t i, ReduceOp op) {
        const bool truth = input_value(DType::boolean, op, rank, i, 3) != 0;
        return truth ? kTrue[(i + static_cast<std::size_t>(rank)) % kTrue.size()] : std::uint8_t{0};
    };
    for (const Residency residency : kResidencies) {
        for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
            for (const std::int64_t elements : {1, 80, 81, 1000, 20000}) {
                const std::string what = fmt::format("bool.{}.{}", rueda::name_of(op), elements);
                const Buffer buffer(client, DType::boolean, {elements}, is_resident(residency, client.rank(), 0));
                auto* const bytes = static_cast<std::uint8_t*>(buffer.tensor().data);
                for (std::size_t i = 0; i < buffer.tensor().elements(); ++i) {
                    bytes[i] = byte_of(client.rank(), i, op);
                }
                expect_ok(client.allreduce(what, buffer.tensor(), buffer.tensor(), {op}), what);
                check_allreduce(buffer.tensor(), {op}, client.size(), 3, what);
                buffer.check_margin(what);
            }
        }
    }
}

void grouped(Client& client) {
    for (int round = 0; round < 3; ++round) {
        std::vector<Buffer> buffers;
        std::vector<Tensor> tensors;
        for (int i = 0; i < 40; ++i) {
            const DType dtype = i % 3 == 0 ? DType::float64 : i % 3 == 1 ? DType::float32 : DType::int32;
            buffers.emplace_back(client, dtype, std::vector<std::int64_t>{i % 5, 7 + i * 3}, (i + round) % 2 == 0);
            tensors.push_back(buffers.back().tensor());
            fill_input(tensors.back(), ReduceOp::sum, client.rank(), round + i);
        }
        const auto pending = expect_value(client.start_group("group", tensors, {ReduceOp::sum}), "the group");
        expect_ok(pending->wait(), "the group");
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            check_allreduce(tensors[i], {ReduceOp::sum}, client.size(), round + static_cast<int>(i),
                            fmt::format("member {} of the group", i));
            buffers[i].check_margin("a member of the group");
        }
    }
}

/// Some ranks make blocking calls and others start the same operation asynchronously; the roles change in each round.
/// Sometimes one rank is late, so that the other ranks are asleep when it arrives.
void mixed_ways(Client& client) {
    constexpr std::array<std::size_t, 7> kElements = {1, 12, 300, 1500, 5000, 2049, 8192};
    for (int round = 0; round < 210; ++round) {
        const std::size_t elements = kElements[static_cast<std::size_t>(round) % kElements.size()];
        Trial trial(client, fmt::format("mixed.{}.{}", elements, round / 7 % 2), DType::float32, elements,
                    {ReduceOp::sum}, kResidencies[round / 5 % 3], round % 2 == 0, round);
        const bool blocks = (round * 5 + client.rank() * 3 + round / 11) % 4 != 0;
        if (round % 25 == 7 && client.rank() == round / 25 % client.size()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        if (blocks) {
            trial.run();
        } else {
            trial.start();
        }
        trial.finish();
    }
}

constexpr std::array kScenarios = {
    Scenario{"allreduce: every operation, dtype and size", matrix},
    Scenario{"allreduce: blocking", blocking, 1, true},
    Scenario{"allreduce: blocking on some ranks", mixed_ways, 1, true},
    Scenario{"allreduce: a mebibyte", large},
    Scenario{"allreduce: factors", scaled},
    Scenario{"allreduce: averages of integers", integer_averages},
    Scenario{"allreduce: bool", booleans},
    Scenario{"allreduce: groups", grouped},
};

}  // namespace

std::span<const Scenario> allreduce_scenarios() { return kScenarios; }

}  // namespace rueda::tests
