// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "collectives/hierarchical/hierarchical_communicator.hpp"
#include "tests/collectives/hierarchical/delayed_transport.hpp"
#include "tests/ops/reference.hpp"

namespace rueda::tests {

using ops::test::Bytes;

/// The description of one tensor of an allreduce.
struct TensorPlan {
    DType dtype = DType::float32;
    ReduceOp op = ReduceOp::sum;
    std::uint64_t count = 0;
    double prescale = 1.0;
    double postscale = 1.0;
    Compression compression = Compression::none;
};

/// A batch that all ranks execute together. Operations other than allreduce have one element in `tensors`. In
/// operations of variable size, `count` is the number of elements of a row.
struct BatchPlan {
    collectives::Operation operation = collectives::Operation::allreduce;
    std::vector<TensorPlan> tensors;
    std::uint32_t root = 0;
    /// The number of rows of each rank in an allgather or reducescatter. In a reducescatter, all ranks have the same
    /// number.
    std::vector<std::int64_t> rows;
    /// In an alltoall: the number of rows from each rank to each rank, ordered by the sending rank.
    std::vector<std::int64_t> splits;
    std::vector<bool> keeps_nothing;  ///< whether each rank gets no result; empty if all ranks get one
    std::vector<bool> joined = {};    ///< whether each rank has joined (in an allreduce); empty if none has
    std::uint32_t uncounted = 0;      ///< the number of joined ranks that an average does not count
};

enum class Residency : std::uint8_t { none, all, mixed };

struct HostsShape {
    /// the host of each rank; hosts are numbered in the order of their lowest ranks
    std::vector<std::uint32_t> host_of;
    std::uint64_t cell_bytes = 4096;
    std::uint32_t cells = 4;
    Residency residency = Residency::none;
    collectives::HierarchicalOptions options;
    std::uint32_t most_delay = 0;  ///< the maximum number of polls before a message completes

    [[nodiscard]] std::string text() const;
};

/// Creates the arena of one host. Returns one mapping of it for each rank of the host.
[[nodiscard]] std::vector<std::shared_ptr<collectives::Arena>> arenas_of(std::uint32_t members,
                                                                         const HostsShape& shape);

/// The ranks of several hosts, which run the same batches one after another. Each host has its own arena. Random
/// numbers decide the inputs, and the order in which the ranks take steps. They also decide whether a tensor lies in
/// the arena, and whether an output uses the input's memory. A rank overwrites the tensors of a batch as soon as its
/// part of the batch is done. Threads: one at a time, except step(), which the ranks' own threads may call at the same
/// time.
class HostsOfThreads {
public:
    HostsOfThreads(const HostsShape& shape, const std::vector<BatchPlan>& batches, std::uint32_t seed);
    ~HostsOfThreads();
    HostsOfThreads(const HostsOfThreads&) = delete;
    HostsOfThreads& operator=(const HostsOfThreads&) = delete;

    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
    /// Takes a step of the rank's current batch, or starts the rank's next batch. Returns `done` after the last batch.
    collectives::StepResult step(std::uint32_t rank);
    /// Calls step() for random ranks until all ranks are done. Often one rank takes many steps in a row. Returns false
    /// if all ranks wait for each other.
    [[nodiscard]] bool run(std::mt19937& random);
    [[nodiscard]] collectives::HierarchicalCommunicator& communicator(std::uint32_t rank);
    /// Abandons and destroys the rank's communicator, as an abort does.
    void lose(std::uint32_t rank);
    [[nodiscard]] DelayedTransport& transport(std::uint32_t rank);

    /// The input and output of the first tensor of the first batch, valid after run().
    [[nodiscard]] const Bytes& input_of(std::uint32_t rank) const { return memory_[0][0].inputs[rank]; }
    [[nodiscard]] const Bytes& output_of(std::uint32_t rank) const { return memory_[0][0].outputs[rank]; }

    /// Returns the first error that was found, or "" if there is none.
    [[nodiscard]] std::string check() const;

private:
    struct Place {
        std::byte* memory = nullptr;  // the tensor's address, in the mapping of the rank that owns it
        std::uint64_t offset = 0;     // the tensor's offset, in the resident region of the rank that owns it
        bool resident = false;
    };
    struct Tensor {
        std::vector<Bytes> inputs;  // by rank, before the batch
        std::vector<Place> in;
        std::vector<Place> out;
        std::vector<std::size_t> out_bytes;
        std::vector<bool> in_place;
        std::vector<Bytes> inputs_after;  // each rank's input after its batch
        std::vector<Bytes> outputs;       // each rank's output after its batch
        std::vector<Bytes> outputs_before;
    };
    struct Rank;

    Place place(std::uint32_t rank, std::uint64_t bytes, bool resident);
    [[nodiscard]] bool draw_resident(std::mt19937_64& random) const;
    void lay_out(const BatchPlan& plan, std::mt19937_64& random);
    void make_batch(Rank& rank, std::uint32_t number);
    void take_results(Rank& rank);
    [[nodiscard]] std::uint64_t input_elements(const BatchPlan& plan, const TensorPlan& tensor,
                                               std::uint32_t rank) const;
    [[nodiscard]] Bytes expected(const BatchPlan& plan, const TensorPlan& tensor, const Tensor& memory,
                                 std::uint32_t rank) const;
    [[nodiscard]] Bytes expected_adasum(const ops::Reduction& reduction, const std::vector<std::vector<Bytes>>& by_host,
                                        std::uint64_t count) const;
    [[nodiscard]] Bytes expected_allreduce(const BatchPlan& plan, const TensorPlan& tensor, std::uint64_t count,
                                           const std::vector<Bytes>& inputs) const;

    HostsShape shape_;
    std::uint32_t host_count_ = 0;
    std::vector<std::vector<std::uint32_t>> ranks_of_;  // by host
    std::vector<BatchPlan> batches_;
    std::vector<std::vector<Tensor>> memory_;  // by batch and tensor
    std::vector<std::unique_ptr<Rank>> ranks_;
    std::vector<std::unique_ptr<std::byte[]>> private_;
};

}  // namespace rueda::tests
