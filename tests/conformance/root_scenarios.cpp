// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <array>
#include <numeric>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

constexpr std::array<std::int64_t, 4> kRowElements = {1, 20, 130, 2500};

std::string joined(const std::vector<std::int64_t>& numbers) { return fmt::format("{}", fmt::join(numbers, ",")); }

/// Returns whether this rank makes a blocking call. Depending on the round, all ranks do this, no rank does, or only
/// some ranks do. In the last case, the ranks take different code paths for small operations.
bool blocks(const Client& client, int round) {
    return round % 3 == 0 || (round % 3 == 1 && (round + client.rank()) % 2 == 0);
}

/// Returns each rank's number of rows in a round. In some rounds no rank has rows, in others only one rank.
std::vector<std::int64_t> rows_of_ranks(int size, int round) {
    std::vector<std::int64_t> rows;
    for (int rank = 0; rank < size; ++rank) {
        rows.push_back(round % 5 == 0 ? 0 : round % 5 == 1 ? (rank == size - 1 ? 5 : 0) : (rank * 3 + round) % 6);
    }
    return rows;
}

struct Case {
    int round = 0;
    int root = 0;
    std::int64_t row = 0;
    DType dtype = DType::float32;
    Residency residency = Residency::all_private;
    [[nodiscard]] std::string what(const char* operation) const {
        return fmt::format("{} round {}: rows of {} {} to or from {}, {}", operation, round, row, rueda::name_of(dtype),
                           root, name_of(residency));
    }
};

template <class Each>
void for_each_case(const Client& client, int rounds, Each&& each) {
    constexpr std::array kDTypes = {DType::float32, DType::int64, DType::bfloat16, DType::uint8};
    for (int round = 0; round < rounds; ++round) {
        const auto index = static_cast<std::size_t>(round);
        each(Case{round, round * 7 / 4 % client.size(), kRowElements[index % kRowElements.size()],
                  kDTypes[index / 2 % kDTypes.size()], kResidencies[index / 3 % 3]});
    }
}

void check_rows(const Tensor& output, const std::vector<std::int64_t>& rows, const Case& of, const std::string& what) {
    RUEDA_RANK_EQUAL(joined(output.shape),
                     joined({std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), of.row}));
    std::int64_t first = 0;
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
        check_copy(output, static_cast<std::size_t>(first), static_cast<std::size_t>(rows[rank] * of.row),
                   static_cast<int>(rank), of.round, what);
        first += rows[rank] * of.row;
    }
}

void gather_once(Client& client, const Case& of, const std::string& name) {
    const std::string what = of.what("gather");
    const std::vector<std::int64_t> rows = rows_of_ranks(client.size(), of.round);
    const bool is_root = client.rank() == of.root;
    const bool gives_output = of.round % 2 == 0;
    const Buffer mine(client, of.dtype, {rows[static_cast<std::size_t>(client.rank())], of.row},
                      is_resident(of.residency, client.rank(), of.round));
    // On the ranks that are not the root, `out` has a wrong shape. Rueda must ignore this tensor and leave it
    // unchanged.
    const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    const Buffer out(client, of.dtype, {is_root ? all : 2, of.row},
                     is_resident(of.residency, client.rank(), of.round + 1));
    fill_input(mine.tensor(), ReduceOp::sum, client.rank(), of.round);
    fill_input(out.tensor(), ReduceOp::sum, 7, of.round);
    const Tensor* const into = gives_output ? &out.tensor() : nullptr;
    const bool runs = blocks(client, of.round);
    const auto pending = expect_value(runs ? client.gather(name, mine.tensor(), into, of.root)
                                           : client.start_gather(name, mine.tensor(), into, of.root),
                                      what);
    expect_ok(pending->wait(), what);
    check_copy(mine.tensor(), 0, mine.tensor().elements(), client.rank(), of.round, what + ", the input");
    out.check_margin(what);
    if (!is_root) {
        check_copy(out.tensor(), 0, out.tensor().elements(), 7, of.round, what + ", no output");
        return;
    }
    check_rows(gives_output ? out.tensor() : pending->output(), rows, of, what);
    if (!runs || !gives_output) {
        RUEDA_RANK_EQUAL(joined(pending->received_splits()), joined(rows));
    }
}

void gathers(Client& client) {
    for_each_case(client, 60, [&](const Case& of) {
        gather_once(client, of, of.round % 7 == 0 ? "" : fmt::format("root.gather.{}.{}", of.row, of.round % 4));
    });
}

/// Scatters once. The root's input contains the rows of all ranks.
void scatter_once(Client& client, const Case& of, const std::string& name) {
    const std::string what = of.what("scatter");
    const bool even = of.round % 6 == 0;
    const std::vector<std::int64_t> splits =
        even ? std::vector<std::int64_t>(static_cast<std::size_t>(client.size()), of.round % 4)
             : rows_of_ranks(client.size(), of.round);
    const auto me = static_cast<std::size_t>(client.rank());
    const std::int64_t all = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
    const std::int64_t before = std::accumulate(splits.begin(), splits.begin() + client.rank(), std::int64_t{0});
    const bool is_root = client.rank() == of.root;
    const bool gives_output = (of.round + client.rank()) % 2 == 0 || !client.allocates_outputs();
    const bool has_rows = is_root || of.round % 4 == 1;  // Rueda must read rows on the root only
    const Buffer mine(client, of.dtype, {has_rows ? all : 0, of.row},
                      is_resident(of.residency, client.rank(), of.round));
    const Buffer out(client, of.dtype, {splits[me], of.row}, is_resident(of.residency, client.rank(), of.round + 1));
    fill_input(mine.tensor(), ReduceOp::sum, client.rank(), of.round);
    Tensor in = mine.tensor();
    if (!is_root && !has_rows) {
        in = {nullptr, of.dtype, {1000, of.row}};
    }
    const Tensor* const into = gives_output ? &out.tensor() : nullptr;
    const Splits given = even || !is_root ? Splits() : Splits(splits);
    const auto pending = expect_value(blocks(client, of.round) ? client.scatter(name, in, given, into, of.root)
                                                               : client.start_scatter(name, in, given, into, of.root),
                                      what);
    expect_ok(pending->wait(), what);
    const Tensor result = gives_output ? out.tensor() : pending->output();
    RUEDA_RANK_EQUAL(joined(result.shape), joined({splits[me], of.row}));
    check_copy(result, 0, result.elements(), of.root, of.round, what, static_cast<std::size_t>(before * of.row));
    check_copy(mine.tensor(), 0, mine.tensor().elements(), client.rank(), of.round, what + ", the input");
    out.check_margin(what);
}

void scatters(Client& client) {
    for_each_case(client, 60, [&](const Case& of) {
        scatter_once(client, of, of.round % 7 == 0 ? "" : fmt::format("root.scatter.{}.{}", of.row, of.round % 4));
    });
}

/// The root's result must have the same bits as an allreduce with the same inputs.
void reduce_once(Client& client, const Case& of, const Reduce& reduce, const std::string& name) {
    const std::string what = of.what("reduce") + fmt::format(", {}", rueda::name_of(reduce.op));
    const std::vector<std::int64_t> shape = {of.round % 5, of.row};
    const bool is_root = client.rank() == of.root;
    const bool in_place = of.round % 4 == 0;
    const Buffer mine(client, of.dtype, shape, is_resident(of.residency, client.rank(), of.round));
    const Buffer beside(client, of.dtype, shape, is_resident(of.residency, client.rank(), of.round + 1));
    const Buffer everywhere(client, of.dtype, shape, false);
    fill_input(mine.tensor(), reduce.op, client.rank(), of.round);
    fill_input(beside.tensor(), ReduceOp::sum, 7, of.round);
    expect_ok(client.allreduce(name.empty() ? "" : name + ".all", mine.tensor(), everywhere.tensor(), reduce), what);
    const Tensor& out = in_place ? mine.tensor() : beside.tensor();
    if (blocks(client, of.round)) {
        expect_ok(client.reduce(name, mine.tensor(), out, of.root, reduce), what);
    } else {
        const auto pending = expect_value(client.start_reduce(name, mine.tensor(), out, of.root, reduce), what);
        expect_ok(pending->wait(), what);
    }
    if (is_root) {
        check_allreduce(out, reduce, Among(client), of.round, what);
        RUEDA_RANK_CHECK(std::memcmp(out.data, everywhere.tensor().data, out.bytes()) == 0);
    } else {
        check_copy(beside.tensor(), 0, beside.tensor().elements(), 7, of.round, what + ", no output");
    }
    for (const Buffer* buffer : {&mine, &beside}) {
        buffer->check_margin(what);
    }
}

void reduces(Client& client) {
    constexpr std::array kOps = {ReduceOp::sum, ReduceOp::max, ReduceOp::average, ReduceOp::min};
    for_each_case(client, 60, [&](const Case& of) {
        const Reduce reduce{kOps[static_cast<std::size_t>(of.round) / 4 % kOps.size()]};
        reduce_once(
            client, of, reduce,
            of.round % 7 == 0 ? "" : fmt::format("root.reduce.{}.{}.{}", of.row, of.round % 5, of.round / 4 % 4));
    });
}

/// The tensor is larger than all cells (buffers for chunks) together. So the other ranks can write more only after the
/// root has emptied cells.
void large_ones(Client& client) {
    const Case of{3, client.size() - 1, 40'000, DType::float32, Residency::all_private};
    gather_once(client, of, "root.large.gather");
    scatter_once(client, of, "root.large.scatter");
    reduce_once(client, of, {ReduceOp::sum}, "root.large.reduce");
}

void refusals(Client& client) {
    std::array<float, 8> memory{};
    const Tensor tensor{memory.data(), DType::float32, {8}};
    const int none = client.size() + 90;
    for (const Status& refused : {end_of(client.start_gather("root.refused", tensor, nullptr, none)),
                                  end_of(client.start_scatter("root.refused", tensor, std::nullopt, nullptr, none)),
                                  end_of(client.start_reduce("root.refused", tensor, tensor, none, {}))}) {
        const std::string text = expect_failure(refused, ErrorCode::invalid_argument, "a root that is no member");
        RUEDA_RANK_CHECK(text.starts_with(fmt::format("tensor 'root.refused': the root rank is {}", none)));
    }
    const int me = client.rank();
    const std::string splits = without_name(
        expect_failure(
            client.start_scatter("root.refused", tensor, Splits(std::vector<std::int64_t>{9}), nullptr, me).status(),
            ErrorCode::invalid_argument, "splits that are not those of the rows"),
        "root.refused");
    RUEDA_RANK_EQUAL(
        splits, client.size() == 1
                    ? std::string("the sum of the splits is 9; expected at most 8, the first dimension of the input")
                    : fmt::format("there are 1 splits; expected {}, the number of rows for each rank", client.size()));
    const Tensor overlapping{memory.data() + 4, DType::float32, {8}};
    RUEDA_RANK_EQUAL(
        without_name(expect_failure(client.start_gather("root.refused", tensor, &overlapping, me).status(),
                                    ErrorCode::invalid_argument, "an output over the input"),
                     "root.refused"),
        std::string("input and output overlap, which is not allowed in a gather: give other memory for the output"));
}

/// The operation must fail on the root only. The other ranks have done their part.
void an_output_that_does_not_fit(Client& client) {
    const bool is_root = client.rank() == 0;
    const Buffer mine(client, DType::float32, {2, 3}, false);
    const Buffer out(client, DType::float32, {1, 3}, false);
    fill_input(mine.tensor(), ReduceOp::sum, client.rank(), 1);
    const auto pending = expect_value(client.start_gather("root.fit", mine.tensor(), &out.tensor(), 0), "a gather");
    const Status ended = pending->wait();
    if (is_root) {
        RUEDA_RANK_EQUAL(expect_failure(ended, ErrorCode::invalid_argument, "too small"),
                         fmt::format("tensor 'root.fit': the output's first dimension is 1; expected {}, the number of "
                                     "rows that come from all ranks",
                                     2 * client.size()));
    } else {
        expect_ok(ended, "the others");
    }
    out.check_margin("an output that does not fit");
}

/// The operation must fail on the last rank only.
void a_share_that_does_not_fit(Client& client) {
    const bool is_last = client.rank() == client.size() - 1;
    const Buffer all(client, DType::float32, {2 * client.size(), 3}, false);
    const Buffer out(client, DType::float32, {is_last ? 1 : 2, 3}, false);
    fill_input(all.tensor(), ReduceOp::sum, client.rank(), 1);
    const auto pending =
        expect_value(client.start_scatter("root.share", all.tensor(), std::nullopt, &out.tensor(), 0), "a scatter");
    const Status ended = pending->wait();
    if (is_last) {
        RUEDA_RANK_EQUAL(expect_failure(ended, ErrorCode::invalid_argument, "too small"),
                         std::string("tensor 'root.share': the output's first dimension is 1; expected 2, the number "
                                     "of rows that come from the root"));
    } else {
        expect_ok(ended, "the others");
        check_copy(out.tensor(), 0, 6, 0, 1, "the others", static_cast<std::size_t>(6 * client.rank()));
    }
    out.check_margin("a share that does not fit");
}

}  // namespace

std::span<const Scenario> root_scenarios() {
    static constexpr Scenario kScenarios[] = {
        {"gathers to a root", &gathers},
        {"scatters from a root", &scatters},
        {"reduces to a root", &reduces},
        {"operations with a root, large", &large_ones},
        {"operations with a root that are refused", &refusals},
        {"a gather into an output that does not fit", &an_output_that_does_not_fit},
        {"a scatter into an output that does not fit", &a_share_that_does_not_fit},
    };
    return kScenarios;
}

}  // namespace rueda::tests
