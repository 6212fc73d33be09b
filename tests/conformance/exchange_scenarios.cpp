// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

std::int64_t extent(std::size_t value) { return static_cast<std::int64_t>(value); }

void broadcasts(Client& client) {
    int salt = 0;
    for (const Residency residency : kResidencies) {
        for (int root = 0; root < client.size(); ++root) {
            for (const DType dtype : {DType::uint8, DType::float16, DType::float64}) {
                std::vector<Buffer> buffers;
                std::vector<PendingPointer> pending;
                const std::vector<std::size_t> sizes = {0, 1, 9, 10, 11, 79, 81, 1000, 10000};
                ++salt;
                for (const std::size_t size : sizes) {
                    buffers.emplace_back(client, dtype, std::vector{extent(size)},
                                         is_resident(residency, client.rank(), salt));
                    const Tensor& tensor = buffers.back().tensor();
                    if (client.rank() == root) {
                        fill_input(tensor, ReduceOp::sum, root, salt);
                    }
                    const std::string name = fmt::format("broadcast.{}.{}", rueda::name_of(dtype), size);
                    if (size % 2 == 0) {
                        expect_ok(client.broadcast(name, tensor, root), name);
                    } else {
                        pending.push_back(expect_value(client.start_broadcast(name, tensor, root), name));
                    }
                }
                for (const auto& one : pending) {
                    expect_ok(one->wait(), "a broadcast");
                }
                for (std::size_t i = 0; i < sizes.size(); ++i) {
                    const std::string what =
                        fmt::format("broadcast of {} {} from {}", sizes[i], rueda::name_of(dtype), root);
                    check_copy(buffers[i].tensor(), 0, sizes[i], root, salt, what);
                    buffers[i].check_margin(what);
                }
            }
        }
    }
}

/// Returns the number of rows of a rank in a round. In some rounds no rank has rows, in others only one rank.
std::int64_t rows_of(int rank, int size, int round) {
    switch (round) {
        case 0:
            return 0;
        case 1:
            return rank == size - 1 ? 3 : 0;
        case 2:
            return rank == 0 ? 500 : rank % 2;
        default:
            return (rank * 5 + round) % 7;
    }
}

void allgathers(Client& client) {
    const int size = client.size();
    int salt = 0;
    for (const Residency residency : kResidencies) {
        for (int round = 0; round < 6; ++round) {
            for (const std::int64_t row : {0, 1, 20, 300, 3000}) {
                ++salt;
                const DType dtype = salt % 3 == 0 ? DType::int64 : salt % 3 == 1 ? DType::float32 : DType::int8;
                const Buffer mine(client, dtype, {rows_of(client.rank(), size, round), row},
                                  is_resident(residency, client.rank(), salt));
                fill_input(mine.tensor(), ReduceOp::sum, client.rank(), salt);
                const std::string what =
                    fmt::format("allgather of rows of {}, round {}, {}", row, round, name_of(residency));
                const auto pending = expect_value(
                    client.start_allgather(fmt::format("allgather.{}.{}", row, rueda::name_of(dtype)), mine.tensor()),
                    what);
                expect_ok(pending->wait(), what);

                const Tensor output = pending->output();
                std::int64_t rows = 0;
                for (int rank = 0; rank < size; ++rank) {
                    rows += rows_of(rank, size, round);
                }
                RUEDA_RANK_EQUAL(fmt::format("{}", fmt::join(output.shape, ",")), fmt::format("{},{}", rows, row));
                RUEDA_RANK_CHECK(output.dtype == dtype);
                std::int64_t first = 0;
                for (int rank = 0; rank < size; ++rank) {
                    const std::int64_t elements = rows_of(rank, size, round) * row;
                    check_copy(output, static_cast<std::size_t>(first), static_cast<std::size_t>(elements), rank, salt,
                               what);
                    first += elements;
                }
            }
        }
    }
}

/// The memory for the result of an allgather: separate from the input, around the input, or allocated by Rueda.
enum class Output { beside, in_place, of_rueda };

/// Returns `output`. If `output` is `of_rueda`, but Rueda cannot allocate outputs in this client, returns `beside`.
Output possible_output(const Client& client, Output output) {
    return output == Output::of_rueda && !client.allocates_outputs() ? Output::beside : output;
}

/// One allgather with its memory. The object starts the operation and checks the result. `each(r)` is the number of
/// rows of rank r; `mine` is the number of rows of this rank.
class Gathering {
public:
    template <class Each>
    Gathering(Client& client, DType dtype, std::int64_t row, Each&& each, Residency residency, Output output, int salt)
        : client_(client), row_(row), output_(output), salt_(salt) {
        for (int rank = 0; rank < client.size(); ++rank) {
            before_ += rank < client.rank() ? each(rank) : 0;
            rows_.push_back(each(rank));
            total_ += rows_.back();
        }
        what_ = fmt::format("allgather of {} rows of {} into {}, {}, salt {}", total_, row,
                            output == Output::beside     ? "other memory"
                            : output == Output::in_place ? "the input's"
                                                         : "Rueda's",
                            name_of(residency), salt);
        const std::int64_t mine = each(client.rank());
        if (output != Output::of_rueda) {
            into_.emplace_back(client, dtype, std::vector{total_, row}, is_resident(residency, client.rank(), salt));
        }
        if (output == Output::in_place) {
            in_ = {static_cast<std::byte*>(into_.front().tensor().data) + offset(before_, dtype), dtype, {mine, row}};
        } else {
            beside_.emplace_back(client, dtype, std::vector{mine, row},
                                 is_resident(residency, client.rank(), salt + 1));
            in_ = beside_.front().tensor();
        }
        fill_input(in_, ReduceOp::sum, client.rank(), salt);
    }

    void start(const std::string& name) { pending_ = expect_value(client_.start_allgather(name, in_, out()), what_); }
    void run(const std::string& name) { pending_ = expect_value(client_.allgather(name, in_, out()), what_); }
    void finish() {
        expect_ok(pending_->wait(), what_);
        const Tensor result = output_ == Output::of_rueda ? pending_->output() : into_.front().tensor();
        RUEDA_RANK_EQUAL(fmt::format("{}", fmt::join(result.shape, ",")), fmt::format("{},{}", total_, row_));
        std::int64_t first = 0;
        for (int rank = 0; rank < client_.size(); ++rank) {
            const std::int64_t elements = rows_[static_cast<std::size_t>(rank)] * row_;
            check_copy(result, static_cast<std::size_t>(first), static_cast<std::size_t>(elements), rank, salt_, what_);
            first += elements;
        }
        check_copy(in_, 0, in_.elements(), client_.rank(), salt_, what_ + ", the input");
        for (const auto* buffers : {&into_, &beside_}) {
            for (const Buffer& buffer : *buffers) {
                buffer.check_margin(what_);
            }
        }
    }

private:
    [[nodiscard]] std::size_t offset(std::int64_t rows, DType dtype) const {
        return static_cast<std::size_t>(rows * row_) * size_of(dtype);
    }
    [[nodiscard]] const Tensor* out() const { return into_.empty() ? nullptr : &into_.front().tensor(); }

    Client& client_;
    std::int64_t row_;
    Output output_;
    int salt_;
    std::string what_;
    std::vector<std::int64_t> rows_;
    std::int64_t before_ = 0;
    std::int64_t total_ = 0;
    std::vector<Buffer> into_;
    std::vector<Buffer> beside_;
    Tensor in_;
    PendingPointer pending_;
};

/// Mixes asynchronous and blocking calls. Some ranks pass an output; on the others Rueda allocates it.
void allgathers_into(Client& client) {
    constexpr std::array kOutputs = {Output::beside, Output::in_place, Output::of_rueda};
    int salt = 0;
    for (const Residency residency : kResidencies) {
        for (int round = 0; round < 8; ++round) {
            for (const std::int64_t row : {0, 1, 20, 300}) {
                ++salt;
                const auto each = [&](int rank) { return rows_of(rank, client.size(), round); };
                const std::size_t choice =
                    static_cast<std::size_t>(round < 4 ? salt : salt + client.rank()) % kOutputs.size();
                Gathering gathering(client, salt % 2 == 0 ? DType::float64 : DType::uint8, row, each, residency,
                                    possible_output(client, kOutputs[choice]), salt);
                const std::string name = fmt::format("into.{}.{}", row, salt % 2);
                // In every second round, only some ranks make an asynchronous call.
                if ((salt + client.rank() * (round % 2)) % 3 == 0) {
                    gathering.start(name);
                } else {
                    gathering.run(name);
                }
                gathering.finish();
            }
        }
    }
}

/// One rank's output does not fit. The operation must fail on this rank and leave the output unchanged. The other ranks
/// must get their results.
void allgathers_into_a_wrong_output(Client& client) {
    const int size = client.size();
    int salt = 0;
    for (const Residency residency : kResidencies) {
        // An input of the first size travels in the announcement. The second size needs one chunk, and the third size
        // needs several chunks.
        for (const std::int64_t each : {1, 40, 3000}) {
            for (const std::int64_t more : {-1, 1}) {
                ++salt;
                const std::string name = fmt::format("into.wrong.{}", each);
                const int wrong = salt % size;
                if (client.rank() != wrong) {
                    Gathering gathering(
                        client, DType::int32, 3, [&](int) { return each; }, residency, Output::beside, salt);
                    gathering.run(name);
                    gathering.finish();
                    continue;
                }
                const Buffer mine(client, DType::int32, {each, 3}, is_resident(residency, wrong, salt + 1));
                const Buffer out(client, DType::int32, {each * size + more, 3}, is_resident(residency, wrong, salt));
                fill_input(mine.tensor(), ReduceOp::sum, wrong, salt);
                fill_input(out.tensor(), ReduceOp::sum, 7, salt);
                const auto failed = [&] {
                    if (salt % 2 == 0) {
                        return client.allgather(name, mine.tensor(), &out.tensor()).status();
                    }
                    return expect_value(client.start_allgather(name, mine.tensor(), &out.tensor()), name)->wait();
                };
                RUEDA_RANK_EQUAL(expect_failure(failed(), ErrorCode::invalid_argument, name),
                                 fmt::format("tensor '{}': the output's first dimension is {}; expected {}, the number "
                                             "of rows that come from all ranks",
                                             name, each * size + more, each * size));
                check_copy(out.tensor(), 0, out.tensor().elements(), 7, salt, name + ", the output");
                check_copy(mine.tensor(), 0, mine.tensor().elements(), wrong, salt, name + ", the input");
                out.check_margin(name);
            }
        }
    }
}

/// The input of the last rank lies inside its output, but at the place for the rows of another rank. Rueda must refuse
/// it.
void allgathers_from_a_wrong_place(Client& client) {
    const int last = client.size() - 1;
    const Buffer out(client, DType::float32, {4 * client.size(), 5}, true);
    const Buffer beside(client, DType::float32, {4, 5}, false);
    const bool wrong = client.rank() == last;
    const Tensor in = {wrong ? out.tensor().data : beside.tensor().data, DType::float32, {4, 5}};
    fill_input(in, ReduceOp::sum, client.rank(), 1);
    const Status status =
        expect_value(client.start_allgather("into.wrong.place", in, &out.tensor()), "an overlap")->wait();
    if (wrong) {
        RUEDA_RANK_EQUAL(expect_failure(status, ErrorCode::invalid_argument, "an overlap"),
                         fmt::format("tensor 'into.wrong.place': input and output overlap; the input must be the place "
                                     "of this rank's rows in the output (from row {} on), or not overlap it at all",
                                     4 * last));
        check_copy(in, 0, in.elements(), last, 1, "the input at a wrong place");
        return;
    }
    expect_ok(status, "beside an overlap");
    for (int rank = 0; rank < client.size(); ++rank) {
        check_copy(out.tensor(), static_cast<std::size_t>(rank) * 20, 20, rank, 1, "beside an overlap");
    }
}

/// No rank leaves a barrier before the last rank has entered it.
void barriers(Client& client) {
    for (int i = 0; i < 50; ++i) {
        expect_ok(client.barrier(), "a barrier");
    }
    // The processes of a host share the clock CLOCK_MONOTONIC, so the test can compare their times.
    const auto now = [] { return std::int64_t{std::chrono::steady_clock::now().time_since_epoch().count()}; };
    if (client.rank() == client.size() - 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::array<std::int64_t, 2> times{now(), 0};
    expect_ok(client.barrier(), "the timed barrier");
    times[1] = now();
    const Tensor latest_arrival{times.data(), DType::int64, {1}};
    const Tensor earliest_leave{times.data() + 1, DType::int64, {1}};
    expect_ok(client.allreduce("barrier.arrived", latest_arrival, latest_arrival, {ReduceOp::max}), "arrivals");
    expect_ok(client.allreduce("barrier.left", earliest_leave, earliest_leave, {ReduceOp::min}), "leaves");
    RUEDA_RANK_CHECK(times[0] <= times[1]);
}

/// Unnamed operations of different kinds must match by the order of the calls. This must hold even if more than 64 of
/// them are pending: there are 64 slots for unnamed operations.
void unnamed(Client& client) {
    constexpr int kOperations = 200;
    for (int round = 0; round < 2; ++round) {
        std::vector<Buffer> buffers;
        std::vector<PendingPointer> pending;
        for (int i = 0; i < kOperations; ++i) {
            buffers.emplace_back(client, DType::float32, std::vector<std::int64_t>{1 + i * 2}, i % 5 == 0);
            const Tensor& tensor = buffers.back().tensor();
            const int root = i % client.size();
            if (i % 3 != 1 || client.rank() == root) {
                fill_input(tensor, ReduceOp::sum, client.rank(), i);
            }
            pending.push_back(expect_value(i % 3 == 0   ? client.start_allreduce("", tensor, tensor, {ReduceOp::sum})
                                           : i % 3 == 1 ? client.start_broadcast("", tensor, root)
                                                        : client.start_allgather("", tensor),
                                           "an unnamed operation"));
        }
        for (int i = 0; i < kOperations; ++i) {
            const auto index = static_cast<std::size_t>(i);
            const std::string what = fmt::format("unnamed operation {}", i);
            expect_ok(pending[index]->wait(), what);
            const Tensor& tensor = buffers[index].tensor();
            if (i % 3 == 0) {
                check_allreduce(tensor, {ReduceOp::sum}, client.size(), i, what);
            } else if (i % 3 == 1) {
                check_copy(tensor, 0, tensor.elements(), i % client.size(), i, what);
            } else {
                for (int rank = 0; rank < client.size(); ++rank) {
                    check_copy(pending[index]->output(), static_cast<std::size_t>(rank) * tensor.elements(),
                               tensor.elements(), rank, i, what);
                }
            }
        }
        expect_ok(client.barrier(), "a barrier between unnamed operations");
    }
}

constexpr std::array kScenarios = {
    Scenario{"broadcast: every root and size", broadcasts},
    Scenario{"allgather: different first dimensions", allgathers},
    Scenario{"allgather: into memory of the caller", allgathers_into, 1, true},
    Scenario{"allgather: into an output that does not fit", allgathers_into_a_wrong_output},
    Scenario{"allgather: from a wrong place in the output", allgathers_from_a_wrong_place, 2},
    Scenario{"barrier", barriers},
    Scenario{"unnamed operations", unnamed},
};

}  // namespace

std::span<const Scenario> exchange_scenarios() { return kScenarios; }

}  // namespace rueda::tests
