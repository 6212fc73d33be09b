// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/messages/operation.hpp"
#include "tests/conformance/runtime_client.hpp"
#include "tests/conformance/values.hpp"
#include "tests/ops/reference.hpp"
#include "tests/support/ranks.hpp"

/// The operations whose bits shaken_bits_test.cpp compares. Each one knows its inputs and how to start it.
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
    message,  ///< sent to the next member of the set, and received from the previous member
};

/// The place where an operation runs: the job or a process set, on one host or on several hosts.
struct Place {
    std::string hosts;  ///< by member: with "aab", two members are on one host and one is on another

    [[nodiscard]] int size() const { return static_cast<int>(hosts.size()); }
    /// The members of each host. Hosts are in the order of their lowest members.
    [[nodiscard]] std::vector<std::vector<int>> members_of_hosts() const;
};

struct Work {
    int number = 0;  ///< this work's number among all works; it is also the seed of its inputs
    WorkKind kind = WorkKind::allreduce;
    DType dtype = DType::float32;
    Reduce reduce{};
    std::int64_t rows = 0;  ///< the approximate number of rows of a member; `kind` defines the exact number
    std::int64_t columns = 1;
    int set = 0;  ///< the index of its place

    [[nodiscard]] std::string name() const;
    /// The root, a member of the set. It is the same on every rank.
    [[nodiscard]] int root(int members) const { return number % members; }
    /// The number of rows of the input of `member`.
    [[nodiscard]] std::int64_t rows_of(int member, int members) const;
    /// The number of rows that `from` sends to `to` in an alltoall. In a scatter, `from` is the root.
    [[nodiscard]] std::int64_t split(int from, int to) const;
    /// The input tensors of a member, with their exact bits. A group has several tensors.
    [[nodiscard]] std::vector<Bytes> inputs(int member, int members) const;
    [[nodiscard]] std::size_t tensors() const;
    /// Whether every member gets the same result.
    [[nodiscard]] bool is_the_same_for_all() const;
};

/// Returns works of all kinds, each with dtypes, reductions and sizes. `sets` is the number of places; all works run in
/// the first place.
[[nodiscard]] std::vector<Work> all_works(int sets);

/// A work in progress on this rank, with its memory.
class RunningWork {
public:
    struct Circumstances {
        bool resident = false;
        bool in_place = true;
        bool blocks = false;
    };
    RunningWork(RuntimeClient& client, const Work& work, const Circumstances& circumstances);
    /// Waits for the work. Returns this rank's result: the tensors one after another, or nothing if this rank has no
    /// result.
    [[nodiscard]] Bytes finish();
    [[nodiscard]] bool poll();

private:
    void start();
    void start_message();
    void start_group();
    [[nodiscard]] Tensor tensor_for(std::size_t index, std::int64_t rows, const Bytes* content);
    [[nodiscard]] std::int64_t result_rows() const;

    RuntimeClient& client_;
    const Work& work_;
    const Circumstances circumstances_;
    std::vector<Buffer> buffers_;
    Tensor result_;  ///< this rank's own memory for the result, if any
    PendingPointer pending_;
    std::unique_ptr<core::Completion> sent_;
    std::unique_ptr<core::Completion> received_;
};

/// Computes the result from the inputs in another way and in wider arithmetic. Throws RankCheckFailed if `result` of
/// `member` differs from it by more than rounding explains.
void check_values(const Work& work, const Place& place, int member, const Bytes& result);

}  // namespace rueda::tests
