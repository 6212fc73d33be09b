// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

constexpr std::array kOps = {ReduceOp::average, ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};

/// The memory for the output of a reducescatter: separate from the input, inside the input, or allocated by Rueda.
enum class Output { beside, in_place, of_rueda };
constexpr std::array kOutputs = {Output::beside, Output::in_place, Output::of_rueda};

/// Returns `output`. Returns `beside` instead if Rueda is to allocate the output, but this client cannot let Rueda do
/// so.
Output possible(const Client& client, Output output) {
    return output == Output::of_rueda && !client.allocates_outputs() ? Output::beside : output;
}

std::size_t unsigned_of(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Distributes the rows one by one, so each of the first ranks may get one row more than the other ranks.
std::vector<std::int64_t> dealt(std::int64_t rows, int size) {
    std::vector<std::int64_t> each(static_cast<std::size_t>(size), 0);
    for (std::int64_t row = 0; row < rows; ++row) {
        ++each[unsigned_of(row % size)];
    }
    return each;
}

/// One reducescatter with its memory. The object starts the operation and checks the result.
class Trial {
public:
    Trial(Client& client, const std::string& name, DType dtype, std::int64_t rows, std::int64_t row,
          const Reduce& reduce, Residency residency, Output output, int salt)
        : client_(client),
          name_(name),
          reduce_(reduce),
          salt_(salt),
          row_(row),
          output_(output),
          what_(fmt::format("'{}' {} {} of [{}, {}], {}, {}", name, rueda::name_of(reduce.op), rueda::name_of(dtype),
                            rows, row, name_of(residency),
                            output == Output::beside     ? "beside"
                            : output == Output::in_place ? "in place"
                                                         : "of Rueda")),
          input_(client, dtype, {rows, row}, is_resident(residency, client.rank(), 0)) {
        const std::vector<std::int64_t> each = dealt(rows, client.size());
        my_rows_ = each[unsigned_of(client.rank())];
        for (int rank = 0; rank < client.rank(); ++rank) {
            first_row_ += each[unsigned_of(rank)];
        }
        if (output == Output::beside) {
            beside_.emplace_back(client, dtype, std::vector{my_rows_, row}, is_resident(residency, client.rank(), 1));
        }
        fill_input(input_.tensor(), reduce.op, client.rank(), salt);
    }

    void start() {
        const Tensor out = given_output();
        pending_ = expect_value(
            client_.start_reducescatter(name_, input_.tensor(), output_ == Output::of_rueda ? nullptr : &out, reduce_),
            what_);
    }
    void run() { expect_ok(client_.reducescatter(name_, input_.tensor(), given_output(), reduce_), what_); }
    void finish() {
        if (pending_ != nullptr) {
            expect_ok(pending_->wait(), what_);
        }
        const Tensor result = output_ == Output::of_rueda ? pending_->output() : given_output();
        RUEDA_RANK_EQUAL(fmt::format("{}", fmt::join(result.shape, ",")), fmt::format("{},{}", my_rows_, row_));
        RUEDA_RANK_CHECK(result.dtype == input_.tensor().dtype);
        check_reduction(result, unsigned_of(first_row_ * row_), reduce_, Among(client_), salt_, what_);
        check_input();
        input_.check_margin(what_);
        for (const Buffer& buffer : beside_) {
            buffer.check_margin(what_);
        }
    }

private:
    [[nodiscard]] Tensor given_output() const {
        const Tensor& in = input_.tensor();
        auto* const own = static_cast<std::byte*>(in.data) + unsigned_of(first_row_ * row_) * size_of(in.dtype);
        return {beside_.empty() ? own : beside_.front().tensor().data, in.dtype, {my_rows_, row_}};
    }
    /// Checks that Rueda has not changed the input, except for this rank's own rows in an in-place operation.
    void check_input() const {
        const Tensor& in = input_.tensor();
        for (std::size_t i = 0; i < in.elements(); ++i) {
            const bool own = i >= unsigned_of(first_row_ * row_) && i < unsigned_of((first_row_ + my_rows_) * row_);
            const auto given = input_value(in.dtype, reduce_.op, client_.rank(), i, salt_);
            if (!(own && output_ == Output::in_place) && element(in, i) != static_cast<double>(given)) {
                throw RankCheckFailed(fmt::format("{}: element {} of the input has changed", what_, i));
            }
        }
    }

    Client& client_;
    std::string name_;
    Reduce reduce_;
    int salt_;
    std::int64_t row_;
    Output output_;
    std::string what_;
    Buffer input_;
    std::vector<Buffer> beside_;
    std::int64_t my_rows_ = 0;
    std::int64_t first_row_ = 0;
    PendingPointer pending_;
};

/// Numbers of rows and lengths of a row. There is a case for each of these: no rows, fewer rows than ranks, sizes
/// around the limit of inline inputs (80 bytes), rows that cannot be divided evenly, and several tiny chunks.
struct Extents {
    std::int64_t rows;
    std::int64_t row;
};
constexpr std::array kExtents = {Extents{0, 3}, Extents{5, 0},  Extents{1, 1},  Extents{3, 2},   Extents{10, 1},
                                 Extents{7, 3}, Extents{21, 1}, Extents{40, 7}, Extents{1001, 1}};

void reducescatters(Client& client) {
    int salt = 0;
    int round = 0;
    for (const Residency residency : kResidencies) {
        for (const Output output : kOutputs) {
            std::vector<std::unique_ptr<Trial>> trials;
            ++round;
            for (const ReduceOp op : kOps) {
                for (const DType dtype : dtypes_of_round(op, round)) {
                    const Extents extents = kExtents[static_cast<std::size_t>(++salt) % kExtents.size()];
                    const std::string name = fmt::format("scatter.{}.{}", rueda::name_of(op), static_cast<int>(dtype));
                    trials.push_back(std::make_unique<Trial>(client, name, dtype, extents.rows, extents.row, Reduce{op},
                                                             residency, output, salt));
                    trials.back()->start();
                }
            }
            for (const auto& trial : trials) {
                trial->finish();
            }
        }
    }
}

/// Uses the same names again, so that these names have slots. Uses the blocking form of an operation if the caller
/// provides the output, and the asynchronous form if Rueda allocates the output.
void repeated_reducescatters(Client& client) {
    constexpr std::array kFactors = {Reduce{ReduceOp::sum, 0.5, 3.0}, Reduce{ReduceOp::average, 2.0, 1.0},
                                     Reduce{ReduceOp::max, 0.5, 2.0}};
    int salt = 0;
    for (int round = 0; round < 2; ++round) {
        for (const Residency residency : kResidencies) {
            for (const Extents& extents : kExtents) {
                for (const Output output : kOutputs) {
                    const Reduce& reduce = kFactors[static_cast<std::size_t>(++salt) % kFactors.size()];
                    const DType dtype = extents.row % 2 == 0 ? DType::bfloat16 : DType::float32;
                    Trial trial(client, fmt::format("scatter.again.{}.{}.{}", extents.rows, extents.row, salt % 3),
                                dtype, extents.rows, extents.row, reduce, residency, output, salt);
                    if (output == Output::of_rueda) {
                        trial.start();
                    } else {
                        trial.run();
                    }
                    trial.finish();
                }
            }
        }
    }
}

/// Returns small tensors of every type with an even division of rows, an uneven one, and fewer rows than ranks. Also
/// returns float32 tensors around the limit for inputs in announcements: 64 KiB with two ranks, 8 KiB with more than
/// two.
std::vector<std::pair<Extents, DType>> small_extents(int size) {
    std::vector<std::pair<Extents, DType>> all;
    for (std::int32_t dtype = 0; dtype < kDTypeCount; ++dtype) {
        all.emplace_back(Extents{dtype % 3 == 0   ? 2 * size
                                 : dtype % 3 == 1 ? 2 * size + 1
                                                  : 1,
                                 5 + 4 * dtype},
                         static_cast<DType>(dtype));
    }
    for (const Extents extents : {Extents{16, 128}, Extents{23, 89}, Extents{683, 3}, Extents{16, 1024},
                                  Extents{127, 129}, Extents{5461, 3}, Extents{16385, 1}}) {
        all.emplace_back(extents, DType::float32);
    }
    return all;
}

/// Uses the same names many times, so that Rueda reuses the memory of their announcements.
void small_reducescatters(Client& client) {
    const auto extents = small_extents(client.size());
    for (int round = 0; round < 7; ++round) {
        for (std::size_t i = 0; i < extents.size(); ++i) {
            const auto& [shape, dtype] = extents[i];
            const ReduceOp op = dtype == DType::boolean ? ReduceOp::min : kOps[i % kOps.size()];
            Trial trial(client, fmt::format("scatter.small.{}", i), dtype, shape.rows, shape.row, {op},
                        kResidencies[round % 3], round % 2 == 0 ? Output::beside : Output::in_place, round);
            trial.run();
            trial.finish();
        }
    }
}

/// Returns whether this rank makes a blocking call in this round. The answer can differ between ranks. Sometimes lets a
/// rank be late, so that the other ranks are asleep when it arrives.
bool blocks_or_is_late(const Client& client, int round) {
    if (round % 25 == 7 && client.rank() == round / 25 % client.size()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return (round * 5 + client.rank() * 3 + round / 11) % 4 != 0;
}

/// The ranks run a reduce-scatter of the same name with different calls: some ranks make a blocking call, some have
/// resident memory, and some pass their own output.
void mixed_reducescatters(Client& client) {
    constexpr std::array kShapes = {Extents{3, 1}, Extents{9, 11}, Extents{41, 13}, Extents{97, 50}, Extents{128, 127}};
    for (int round = 0; round < 150; ++round) {
        const std::size_t which = static_cast<std::size_t>(round) % kShapes.size();
        const Output output =
            possible(client, kOutputs[static_cast<std::size_t>(round / 3 + client.rank()) % kOutputs.size()]);
        Trial trial(client, fmt::format("scatter.mixed.{}", which), DType::float32, kShapes[which].rows,
                    kShapes[which].row, {ReduceOp::sum}, kResidencies[round / 7 % 3], output, round);
        if (blocks_or_is_late(client, round) && output != Output::of_rueda) {
            trial.run();
        } else {
            trial.start();
        }
        trial.finish();
    }
}

void large_reducescatters(Client& client) {
    int salt = 0;
    for (const Residency residency : kResidencies) {
        const Output output = kOutputs[static_cast<std::size_t>(++salt) % kOutputs.size()];
        Trial trial(client, "scatter.large", DType::float32, 1003, 257, {ReduceOp::average}, residency, output, salt);
        trial.start();
        trial.finish();
    }
}

/// Returns the number of rows that rank `from` sends to rank `to` in a round. In some rounds nobody sends rows. In
/// others each rank sends rows only to itself, or all ranks send rows only to one rank, or some of the numbers are 0.
std::int64_t split_of(int from, int to, int size, int round) {
    switch (round) {
        case 0:
            return 0;
        case 1:
            return from == to ? 4 : 0;
        case 2:
            return to == size - 1 ? 3 : 0;
        case 3:
            return from == 0 ? 100 * (to + 1) : 0;
        case 4:
            return (from + 1) % size == to ? 130 : 1;
        default:
            return (from * 3 + to * 5 + round) % 4;
    }
}

/// Checks that this rank received the rows of `split(from, to)` from each rank.
template <class Split>
void check_exchanged(Client& client, const Tensor& output, std::int64_t row, int salt, const std::string& what,
                     Split&& split, std::vector<std::int64_t>& received) {
    std::int64_t rows = 0;
    for (int from = 0; from < client.size(); ++from) {
        std::int64_t skipped = 0;
        for (int to = 0; to < client.rank(); ++to) {
            skipped += split(from, to);
        }
        received.push_back(split(from, client.rank()));
        check_copy(output, unsigned_of(rows * row), unsigned_of(received.back() * row), from, salt, what,
                   unsigned_of(skipped * row));
        rows += received.back();
    }
    RUEDA_RANK_EQUAL(fmt::format("{}", fmt::join(output.shape, ",")), fmt::format("{},{}", rows, row));
}
template <class Split>
void check_alltoall(Client& client, Pending& pending, DType dtype, std::int64_t row, int salt, const std::string& what,
                    Split&& split) {
    std::vector<std::int64_t> received;
    check_exchanged(client, pending.output(), row, salt, what, split, received);
    RUEDA_RANK_EQUAL(fmt::format("{}", fmt::join(pending.received_splits(), ",")),
                     fmt::format("{}", fmt::join(received, ",")));
    RUEDA_RANK_CHECK(pending.output().dtype == dtype);
}

/// Uses the same names in all rounds, while the splits change.
void alltoalls(Client& client) {
    const int size = client.size();
    int salt = 0;
    for (const Residency residency : kResidencies) {
        for (int round = 0; round < 8; ++round) {
            for (const std::int64_t row : {0, 1, 20, 300}) {
                ++salt;
                const auto split = [&](int from, int to) { return split_of(from, to, size, round); };
                std::vector<std::int64_t> splits;
                std::int64_t rows = 0;
                for (int to = 0; to < size; ++to) {
                    splits.push_back(split(client.rank(), to));
                    rows += splits.back();
                }
                const DType dtype = row == 1 ? DType::int64 : row == 20 ? DType::float16 : DType::int8;
                const Buffer mine(client, dtype, {rows, row}, is_resident(residency, client.rank(), salt));
                fill_input(mine.tensor(), ReduceOp::sum, client.rank(), salt);
                const std::string what =
                    fmt::format("alltoall of rows of {}, round {}, {}", row, round, name_of(residency));
                const auto pending =
                    expect_value(client.start_alltoall(fmt::format("alltoall.{}", row), mine.tensor(), splits), what);
                // Rueda must read the splits only during the call, so the test overwrites them.
                std::fill(splits.begin(), splits.end(), -1);
                expect_ok(pending->wait(), what);
                check_alltoall(client, *pending, dtype, row, salt, what, split);
                mine.check_margin(what);
            }
        }
    }
}

/// Makes blocking and asynchronous calls whose result goes into the caller's memory. If all splits are equal, the calls
/// are also made without splits. Sometimes one rank's output does not fit. Then this rank's operation must fail, and
/// the operations of the other ranks must succeed.
void alltoalls_into(Client& client) {
    const int size = client.size();
    int salt = 0;
    for (const Residency residency : kResidencies) {
        for (int round = 0; round < 9; ++round) {
            for (const std::int64_t row : {1, 20, 300}) {
                ++salt;
                const bool even = round == 8;
                const auto split = [&](int from, int to) {
                    return even ? std::int64_t{9} : split_of(from, to, size, round);
                };
                std::vector<std::int64_t> splits;
                std::int64_t rows = 0;
                std::int64_t expected = 0;
                for (int other = 0; other < size; ++other) {
                    splits.push_back(split(client.rank(), other));
                    rows += splits.back();
                    expected += split(other, client.rank());
                }
                const bool wrong = salt % 4 == 0 && client.rank() == salt / 4 % size;
                const std::string name = fmt::format("alltoall.into.{}", row);
                const std::string what = fmt::format("{}, round {}, {}", name, round, name_of(residency));
                const Buffer mine(client, DType::int64, {rows, row}, is_resident(residency, client.rank(), salt));
                const Buffer out(client, DType::int64, {expected + (wrong ? 1 : 0), row},
                                 is_resident(residency, client.rank(), salt + 1));
                fill_input(mine.tensor(), ReduceOp::sum, client.rank(), salt);
                fill_input(out.tensor(), ReduceOp::sum, 7, salt);
                const Splits given = even ? Splits() : Splits(splits);
                Result<PendingPointer> started = salt % 2 == 0
                                                     ? client.alltoall(name, mine.tensor(), given, &out.tensor())
                                                     : client.start_alltoall(name, mine.tensor(), given, &out.tensor());
                const Status ended = started.is_ok() ? started.value()->wait() : started.status();
                out.check_margin(what);
                check_copy(mine.tensor(), 0, mine.tensor().elements(), client.rank(), salt, what + ", the input");
                if (wrong) {
                    RUEDA_RANK_EQUAL(expect_failure(ended, ErrorCode::invalid_argument, what),
                                     fmt::format("tensor '{}': the output's first dimension is {}; expected {}, the "
                                                 "number of rows that come from all ranks",
                                                 name, expected + 1, expected));
                    check_copy(out.tensor(), 0, out.tensor().elements(), 7, salt, what + ", the output");
                    continue;
                }
                expect_ok(ended, what);
                std::vector<std::int64_t> received;
                check_exchanged(client, out.tensor(), row, salt, what, split, received);
                if (salt % 2 != 0) {
                    RUEDA_RANK_EQUAL(fmt::format("{}", fmt::join(started.value()->received_splits(), ",")),
                                     fmt::format("{}", fmt::join(received, ",")));
                }
            }
        }
    }
}

/// Some or all ranks make blocking calls, some have resident memory, and some pass their own output. Most inputs
/// travel in their announcements. With two ranks, resident inputs of more than 32 KiB do not. The splits and the ranks
/// with data change.
void mixed_alltoalls(Client& client) {
    constexpr std::array<std::int64_t, 4> kRows = {1, 19, 130, 3000};
    const int size = client.size();
    for (int round = 0; round < 150; ++round) {
        const auto which = static_cast<std::size_t>(round) % kRows.size();
        const std::int64_t row = kRows[which];
        const int kind = round / 3 % 8;
        const auto split = [&](int from, int to) { return split_of(from, to, size, kind); };
        std::vector<std::int64_t> splits;
        std::int64_t rows = 0;
        std::int64_t expected = 0;
        for (int other = 0; other < size; ++other) {
            splits.push_back(split(client.rank(), other));
            rows += splits.back();
            expected += split(other, client.rank());
        }
        const Residency residency = kResidencies[round / 7 % 3];
        const DType dtype = which == 0 ? DType::int64 : which == 1 ? DType::bfloat16 : DType::uint8;
        const Buffer mine(client, dtype, {rows, row}, is_resident(residency, client.rank(), round));
        const Buffer out(client, dtype, {expected, row}, is_resident(residency, client.rank(), round + 1));
        fill_input(mine.tensor(), ReduceOp::sum, client.rank(), round);
        const std::string what =
            fmt::format("mixed alltoall of rows of {}, round {}, {}", row, round, name_of(residency));
        const std::string name = fmt::format("alltoall.mixed.{}", row);
        const bool given = (round + client.rank()) % 2 == 0 || !client.allocates_outputs();
        const Tensor* const into = given ? &out.tensor() : nullptr;
        const bool all_block = round / 30 % 2 == 0;
        const auto pending = expect_value(blocks_or_is_late(client, round) || all_block
                                              ? client.alltoall(name, mine.tensor(), splits, into)
                                              : client.start_alltoall(name, mine.tensor(), splits, into),
                                          what);
        expect_ok(pending->wait(), what);
        std::vector<std::int64_t> received;
        check_exchanged(client, given ? out.tensor() : pending->output(), row, round, what, split, received);
        check_copy(mine.tensor(), 0, mine.tensor().elements(), client.rank(), round, what + ", the input");
        mine.check_margin(what);
        out.check_margin(what);
    }
}

void even_alltoalls(Client& client) {
    int salt = 100;
    for (const Residency residency : kResidencies) {
        for (const std::int64_t each : {0, 1, 7, 300}) {
            ++salt;
            const Buffer mine(client, DType::float64, {each * client.size(), 5},
                              is_resident(residency, client.rank(), salt));
            fill_input(mine.tensor(), ReduceOp::sum, client.rank(), salt);
            const std::string what = fmt::format("alltoall of {} rows for each, {}", each, name_of(residency));
            const auto pending =
                expect_value(salt % 2 == 0 ? client.start_alltoall("alltoall.even", mine.tensor(), std::nullopt)
                                           : client.alltoall("alltoall.even", mine.tensor(), std::nullopt, nullptr),
                             what);
            expect_ok(pending->wait(), what);
            check_alltoall(client, *pending, DType::float64, 5, salt, what, [&](int, int) { return each; });
        }
    }
}

/// Each rank starts several operations in a different order, mixed with other operations. The scenario repeats this
/// with unnamed operations.
void among_others(Client& client) {
    constexpr int kOperations = 24;
    const int size = client.size();
    for (int round = 0; round < 4; ++round) {
        const bool named = round % 2 == 0;
        std::vector<std::unique_ptr<Buffer>> buffers(kOperations);
        std::vector<PendingPointer> pending(kOperations);
        const auto rows = [&](int i) { return std::int64_t{i} * 9 + round; };
        for (int position = 0; position < kOperations; ++position) {
            // 5 and 24 have no common factor, so the loop reaches every i once.
            const int i = named ? (position * 5 + client.rank()) % kOperations : position;
            const auto index = static_cast<std::size_t>(i);
            const std::string name = named ? fmt::format("among.{}", i) : std::string();
            // If this is an alltoall, each rank sends all its rows to the next rank.
            buffers[index] =
                std::make_unique<Buffer>(client, DType::float32, std::vector{rows(i), std::int64_t{3}}, i % 5 == 0);
            const Tensor& tensor = buffers[index]->tensor();
            fill_input(tensor, ReduceOp::sum, client.rank(), i);
            std::vector<std::int64_t> splits(static_cast<std::size_t>(size), 0);
            splits[static_cast<std::size_t>((client.rank() + 1) % size)] = rows(i);
            pending[index] =
                expect_value(i % 3 == 0   ? client.start_allreduce(name, tensor, tensor, {ReduceOp::sum})
                             : i % 3 == 1 ? client.start_reducescatter(name, tensor, nullptr, {ReduceOp::sum})
                                          : client.start_alltoall(name, tensor, splits),
                             "one among others");
        }
        for (int i = 0; i < kOperations; ++i) {
            const auto index = static_cast<std::size_t>(i);
            const std::string what = fmt::format("operation {} among others, round {}", i, round);
            expect_ok(pending[index]->wait(), what);
            if (i % 3 == 0) {
                check_allreduce(buffers[index]->tensor(), {ReduceOp::sum}, size, i, what);
            } else if (i % 3 == 1) {
                const std::vector<std::int64_t> each = dealt(rows(i), size);
                std::int64_t first = 0;
                for (int rank = 0; rank < client.rank(); ++rank) {
                    first += each[unsigned_of(rank)];
                }
                check_reduction(pending[index]->output(), unsigned_of(first * 3), {ReduceOp::sum}, size, i, what);
            } else {
                check_alltoall(client, *pending[index], DType::float32, 3, i, what,
                               [&](int from, int to) { return (from + 1) % size == to ? rows(i) : 0; });
            }
        }
        expect_ok(client.barrier(), "a barrier between rounds");
    }
}

constexpr std::array kScenarios = {
    Scenario{"reducescatter: small and blocking", small_reducescatters, 1, true},
    Scenario{"reducescatter: blocking on some ranks", mixed_reducescatters, 1, true},
    Scenario{"alltoall: blocking on some ranks", mixed_alltoalls, 1, true},
    Scenario{"reducescatter: every operation and dtype", reducescatters},
    Scenario{"reducescatter: again, with factors", repeated_reducescatters},
    Scenario{"reducescatter: a mebibyte", large_reducescatters},
    Scenario{"alltoall: different splits", alltoalls},
    Scenario{"alltoall: equal splits", even_alltoalls},
    Scenario{"alltoall: into memory of the caller", alltoalls_into},
    Scenario{"reducescatter and alltoall among others", among_others},
};

}  // namespace

std::span<const Scenario> scatter_scenarios() { return kScenarios; }

}  // namespace rueda::tests
