// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/conformance/client.hpp"
#include "tests/conformance/values.hpp"
#include "tests/ops/reference.hpp"
#include "tests/support/ranks.hpp"

/// Operations with their inputs, with the calls that start them, and with the checks of their results.
/// shaken_bits_test.cpp and tests/soak run them.
namespace rueda::tests {

using ops::test::Bytes;

enum class WorkKind : std::uint8_t {
    allreduce,
    broadcast,
    allgather,
    reducescatter,
    alltoall,
    gather,
    scatter,
    reduce,
    grouped_allreduce,
    grouped_allgather,
    grouped_reducescatter,
    /// each member sends its tensor to the next member of the set, and receives the tensor of the previous member
    message,
};

/// The ranks that run an operation, on one or several hosts: all ranks of the job, or the ranks of a process set.
struct Place {
    std::string hosts;  ///< one letter per member: with "aab", two members are on one host and the third is on another

    [[nodiscard]] int size() const { return static_cast<int>(hosts.size()); }
    /// Returns the members of each host. Hosts are ordered by their lowest member.
    [[nodiscard]] std::vector<std::vector<int>> members_of_hosts() const;
};

struct Work {
    int number = 0;  ///< identifies this work among all works, and is the seed of its inputs
    WorkKind kind = WorkKind::allreduce;
    DType dtype = DType::float32;
    Reduce reduce{};
    std::int64_t rows = 0;  ///< the approximate number of rows of a member; rows_of() gives the exact number
    std::int64_t columns = 1;
    int set = 0;  ///< the index of the Place

    [[nodiscard]] std::string name() const;
    /// Returns the root among the members. All ranks get the same root.
    [[nodiscard]] int root(int members) const { return number % members; }
    [[nodiscard]] std::int64_t rows_of(int member, int members) const;
    /// Returns the number of rows that `from` sends to `to` in an alltoall, or in a scatter with the root `from`.
    [[nodiscard]] std::int64_t split(int from, int to) const;
    /// Returns the bytes of a member's input tensors. A group has several tensors.
    [[nodiscard]] std::vector<Bytes> inputs(int member, int members) const;
    [[nodiscard]] std::size_t tensors() const;
    /// Whether every member gets the same result.
    [[nodiscard]] bool is_the_same_for_all() const;
};

/// Returns works of all kinds, with all types, reductions and sizes. `sets` is the number of Places, the groups of
/// ranks that run operations. Every work is for the Place with index 0, and some works are also for another Place.
[[nodiscard]] std::vector<Work> all_works(int sets);

/// An operation that this rank has started, with its memory.
class RunningWork {
public:
    struct Circumstances {
        std::string name;      ///< the operation's name; if it is empty, the work's name is used
        std::int32_t tag = 0;  ///< the message's tag; no other pending message of the set has the same tag
        bool resident = false;
        bool in_place = true;
        bool blocks = false;
    };
    RunningWork(Client& client, const Work& work, const Circumstances& circumstances);
    /// Waits for the end of the work. Returns the bytes of this rank's result tensors one after another. The bytes are
    /// empty if this rank gets no result.
    [[nodiscard]] Bytes finish();
    [[nodiscard]] bool poll();

private:
    void start();
    void start_message();
    void start_group();
    [[nodiscard]] Tensor tensor_for(std::size_t index, std::int64_t rows, const Bytes* content);
    [[nodiscard]] std::int64_t result_rows() const;

    Client& client_;
    const Work& work_;
    const Circumstances circumstances_;
    const std::string name_;
    std::vector<Buffer> buffers_;
    Tensor result_;  ///< memory for the result, unless Rueda allocates it
    PendingPointer pending_;
    PendingPointer sent_;  ///< the pending send, if the work is a message; `pending_` is then the pending receive
};

/// Computes the result from the inputs in wider arithmetic. Throws RankCheckFailed if rounding cannot explain the
/// difference from `result`.
void check_values(const Work& work, const Place& place, int member, const Bytes& result);

}  // namespace rueda::tests
