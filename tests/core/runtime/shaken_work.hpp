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

/// The operations of which shaken_bits_test.cpp compares the bits: each knows its inputs, and how to start it.
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
    message,  ///< to the next member of the set, and from the one before
};

/// Where an operation is done: the job or a process set, whose members share hosts or do not.
struct Place {
    std::string hosts;  ///< by member: "aab" are two members on one host and one on another

    [[nodiscard]] int size() const { return static_cast<int>(hosts.size()); }
    /// Members of each host, hosts in the order of their lowest members.
    [[nodiscard]] std::vector<std::vector<int>> members_of_hosts() const;
};

struct Work {
    int number = 0;  ///< among all; the seed of its inputs
    WorkKind kind = WorkKind::allreduce;
    DType dtype = DType::float32;
    Reduce reduce{};
    std::int64_t rows = 0;  ///< of a member, about; as the kind says exactly
    std::int64_t columns = 1;
    int set = 0;  ///< index of its place

    [[nodiscard]] std::string name() const;
    /// Of every rank the same: who is the root, a member.
    [[nodiscard]] int root(int members) const { return number % members; }
    /// Rows that a member gives.
    [[nodiscard]] std::int64_t rows_of(int member, int members) const;
    /// Rows that `from` has for `to`, of an alltoall or (with from = root) of a scatter.
    [[nodiscard]] std::int64_t split(int from, int to) const;
    /// The tensors that a member gives, bit for bit: several of a group.
    [[nodiscard]] std::vector<Bytes> inputs(int member, int members) const;
    [[nodiscard]] std::size_t tensors() const;
    /// Every member gets the same result.
    [[nodiscard]] bool is_the_same_for_all() const;
};

/// All kinds, each with dtypes, reductions and sizes; `sets`: places, of which the first has all works.
[[nodiscard]] std::vector<Work> all_works(int sets);

/// A work under way on this rank, with its memory.
class RunningWork {
public:
    struct Circumstances {
        bool resident = false;
        bool in_place = true;
        bool blocks = false;
    };
    RunningWork(RuntimeClient& client, const Work& work, const Circumstances& circumstances);
    /// Waits. The result of this rank: tensors one after another, empty where it has none.
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
    Tensor result_;  ///< this rank's own memory that the result comes to, if any
    PendingPointer pending_;
    std::unique_ptr<core::Completion> sent_;
    std::unique_ptr<core::Completion> received_;
};

/// Throws RankCheckFailed where `result` of `member` is further from what the inputs give, computed in other and wider
/// arithmetic, than rounding explains.
void check_values(const Work& work, const Place& place, int member, const Bytes& result);

}  // namespace rueda::tests
