// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <array>
#include <functional>

#include "collectives/rows.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

constexpr std::array kDTypes = {DType::float32, DType::int64, DType::uint8};

/// The tensors of a group, with different shapes and types.
class Members {
public:
    template <class Rows>
    Members(Client& client, std::size_t count, Residency residency, int salt, Rows&& rows) : salt_(salt) {
        for (std::size_t i = 0; i < count; ++i) {
            buffers_.emplace_back(client, kDTypes[i % kDTypes.size()],
                                  std::vector<std::int64_t>{rows(client.rank(), i), row(i)},
                                  is_resident(residency, client.rank(), static_cast<int>(i)));
            tensors_.push_back(buffers_.back().tensor());
            fill_input(tensors_.back(), ReduceOp::sum, client.rank(), salt_of(i));
        }
    }
    [[nodiscard]] static std::int64_t row(std::size_t i) { return static_cast<std::int64_t>(i * i * 40 + 1); }
    [[nodiscard]] int salt_of(std::size_t i) const { return salt_ + static_cast<int>(i); }
    [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }

private:
    int salt_;
    std::vector<Buffer> buffers_;
    std::vector<Tensor> tensors_;
};

void expect_shape(const Tensor& tensor, std::int64_t rows, std::int64_t row, const std::string& what) {
    RUEDA_RANK_EQUAL(fmt::format("{}: {}", what, fmt::join(tensor.shape, ",")),
                     fmt::format("{}: {},{}", what, rows, row));
}

void grouped_allgathers(Client& client) {
    const auto rows = [](int rank, std::size_t i) { return (rank + static_cast<std::int64_t>(i)) % 3; };
    int salt = 0;
    for (const Residency residency : kResidencies) {
        for (const std::size_t count : {1U, 2U, 5U}) {
            salt += 10;
            const Members members(client, count, residency, salt, rows);
            const auto pending =
                expect_value(client.start_grouped_allgather("groups.gather", members.tensors()), "a group");
            expect_ok(pending->wait(), "grouped allgather");
            for (std::size_t i = 0; i < count; ++i) {
                const std::string what = fmt::format("grouped allgather, member {} of {}", i, count);
                const Tensor output = pending->output(i);
                std::int64_t first = 0;
                for (int rank = 0; rank < client.size(); ++rank) {
                    const std::int64_t elements = rows(rank, i) * Members::row(i);
                    check_copy(output, static_cast<std::size_t>(first), static_cast<std::size_t>(elements), rank,
                               members.salt_of(i), what);
                    first += elements;
                }
                expect_shape(output, first / Members::row(i), Members::row(i), what);
            }
        }
    }
}

void grouped_reducescatters(Client& client) {
    int salt = 500;
    for (const Residency residency : kResidencies) {
        for (const std::size_t count : {1U, 2U, 5U}) {
            salt += 10;
            const auto rows = [&](int, std::size_t i) { return client.size() + static_cast<std::int64_t>(i); };
            const Members members(client, count, residency, salt, rows);
            const Reduce reduce{count == 2 ? ReduceOp::max : ReduceOp::sum};
            const auto pending = expect_value(
                client.start_grouped_reducescatter("groups.scatter", members.tensors(), reduce), "a group");
            expect_ok(pending->wait(), "grouped reducescatter");
            for (std::size_t i = 0; i < count; ++i) {
                const std::string what = fmt::format("grouped reducescatter, member {} of {}", i, count);
                const collectives::Rows mine = collectives::rows_of_member(
                    rows(0, i), static_cast<std::uint32_t>(client.rank()), static_cast<std::uint32_t>(client.size()));
                expect_shape(pending->output(i), mine.count, Members::row(i), what);
                check_reduction(pending->output(i), static_cast<std::size_t>(mine.begin * Members::row(i)), reduce,
                                Among(client), members.salt_of(i), what);
            }
        }
    }
}

using Start =
    std::function<Result<PendingPointer>(Client&, const std::string& name, const std::vector<Tensor>& tensors)>;

std::vector<Start> starts() {
    return {[](Client& client, const std::string& name, const std::vector<Tensor>& tensors) {
                return client.start_group(name, tensors, {});
            },
            [](Client& client, const std::string& name, const std::vector<Tensor>& tensors) {
                return client.start_grouped_allgather(name, tensors);
            },
            [](Client& client, const std::string& name, const std::vector<Tensor>& tensors) {
                return client.start_grouped_reducescatter(name, tensors, {});
            }};
}

std::string others_of(int size) {
    return size == 2 ? "rank 0" : size == 3 ? "ranks 0, 1" : fmt::format("ranks 0-{}", size - 2);
}

/// Starts a group with `odd` members on the last rank, and with `usual` members on the other ranks. The error must name
/// the ranks and their numbers of members. Afterwards the name must be free.
void disagree(Client& client, const Start& start, const std::string& name, std::size_t usual, std::size_t odd) {
    const std::size_t count = client.rank() == client.size() - 1 ? odd : usual;
    const auto rows = [](int, std::size_t) { return std::int64_t{4}; };
    const Members members(client, count, Residency::all_private, 0, rows);
    const auto pending = expect_value(start(client, name, members.tensors()), name);
    RUEDA_RANK_EQUAL(expect_failure(pending->wait(), ErrorCode::mismatch, name),
                     fmt::format("group '{}': the ranks disagree about the number of its members: {}: {}; rank {}: {}",
                                 name, others_of(client.size()), usual, client.size() - 1, odd));
}

void numbers_of_members(Client& client) {
    int which = 0;
    for (const Start& start : starts()) {
        const std::string name = fmt::format("groups.numbers.{}", which++);
        const auto agree = [&](std::size_t count) {
            const auto rows = [](int, std::size_t) { return std::int64_t{4}; };
            const Members members(client, count, Residency::all_resident, 0, rows);
            const auto pending = expect_value(start(client, name, members.tensors()), name);
            expect_ok(pending->wait(), name);
        };
        disagree(client, start, name, 2, 3);  // with a new name
        agree(3);
        disagree(client, start, name, 3, 1);  // the name now has a slot
        disagree(client, start, name, 1, 3);
        agree(1);
        agree(2);  // all ranks change the number of members at the same time, which is allowed
    }
}

/// If a member fails, the group must return this member's error on all ranks, with the member's name. The other members
/// must have ended, too.
void members_that_disagree(Client& client) {
    const bool odd = client.rank() == client.size() - 1;
    const auto rows = [](int, std::size_t) { return std::int64_t{4}; };
    const Members members(client, 3, Residency::all_private, 0, rows);
    std::vector<Tensor> tensors = members.tensors();
    tensors[1].shape[1] -= odd ? 1 : 0;
    const auto pending = expect_value(client.start_grouped_allgather("groups.member", tensors), "a group");
    RUEDA_RANK_EQUAL(expect_failure(pending->wait(), ErrorCode::mismatch, "a member"),
                     fmt::format("tensor 'groups.member_2of3': the ranks disagree about the shape: {}: [any, 41]; "
                                 "rank {}: [any, 40]",
                                 others_of(client.size()), client.size() - 1));
    const auto again = expect_value(client.start_grouped_allgather("groups.member", members.tensors()), "again");
    expect_ok(again->wait(), "again");
}

/// While a group is pending, no other group of this name may start, even with another number of members. A refused
/// group must start none of its members.
void one_group_of_a_name(Client& client) {
    const auto rows = [](int, std::size_t) { return std::int64_t{1}; };
    const Members members(client, 2, Residency::all_private, 0, rows);
    const Members other(client, 3, Residency::all_private, 0, rows);
    const auto start = [&] {
        return expect_value(client.start_grouped_allgather("groups.twice", members.tensors()), "a group");
    };
    PendingPointer pending;
    if (client.rank() == 0) {
        pending = start();
        RUEDA_RANK_EQUAL(expect_failure(client.start_grouped_allgather("groups.twice", other.tensors()).status(),
                                        ErrorCode::duplicate_name, "another number"),
                         std::string("group 'groups.twice': a group or an operation with this name is still pending on "
                                     "this rank; wait for it, or use another name"));
    }
    expect_ok(client.barrier(), "the others may start");
    if (client.rank() != 0) {
        pending = start();
    }
    expect_ok(pending->wait(), "the first group");
    const auto after = expect_value(client.start_grouped_allgather("groups.twice", other.tensors()), "after it");
    expect_ok(after->wait(), "after it");
}

}  // namespace

std::span<const Scenario> group_scenarios() {
    static constexpr Scenario kScenarios[] = {
        {"grouped allgathers", &grouped_allgathers},
        {"grouped reducescatters", &grouped_reducescatters},
        {"groups of different numbers", &numbers_of_members, 2},
        {"one group of a name", &one_group_of_a_name, 2},
        {"members of a group that disagree", &members_that_disagree, 2},
    };
    return kScenarios;
}

}  // namespace rueda::tests
