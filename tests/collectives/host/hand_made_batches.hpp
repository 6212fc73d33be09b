// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "collectives/host/arena/arena.hpp"
#include "collectives/host/host_communicator.hpp"
#include "tests/ops/reference.hpp"

namespace rueda::tests {

using ops::test::Bytes;

/// The description of one tensor of a batch.
struct TensorPlan {
    DType dtype = DType::float32;
    ReduceOp op = ReduceOp::sum;
    /// The number of elements. In a reducescatter, the number of rows, which have one element each.
    std::uint64_t count = 0;
    double prescale = 1.0;
    double postscale = 1.0;
    bool travels = false;  ///< whether the input is copied into the member's announcement
};

struct BatchPlan {
    collectives::Operation operation = collectives::Operation::allreduce;
    std::vector<TensorPlan> tensors;
};

enum class Residency : std::uint8_t { none, all, mixed };
inline constexpr std::array kResidencies = {Residency::none, Residency::all, Residency::mixed};
inline constexpr std::array kMembers = {2U, 3U, 4U, 5U, 8U};  ///< numbers of members to test with

/// Members of a set that run the same batches one after another. Each member has its own mapping of the arena and its
/// own communicator. Random numbers decide the inputs, and which outputs are in place. With Residency::mixed, random
/// numbers also decide which tensors are in the arena. Threads: one at a time, except step(), which the members' own
/// threads may call at the same time.
class HandMadeJob {
public:
    struct Shape {
        std::uint32_t members = 2;
        std::uint64_t cell_bytes = 4096;
        std::uint32_t cells = 4;
        Residency residency = Residency::none;
    };
    HandMadeJob(const Shape& shape, const std::vector<BatchPlan>& batches, std::uint32_t seed);
    ~HandMadeJob();
    HandMadeJob(const HandMadeJob&) = delete;
    HandMadeJob& operator=(const HandMadeJob&) = delete;

    [[nodiscard]] std::uint32_t members() const { return static_cast<std::uint32_t>(members_.size()); }
    /// Takes a step of the member's current batch, or starts the member's next batch. Returns `done` after the last
    /// batch.
    collectives::StepResult step(std::uint32_t member);
    /// Calls step() for random members until all are done. Often one member takes many steps in a row. Returns false if
    /// all members wait for each other.
    [[nodiscard]] bool run(std::mt19937& random);
    /// Calls step() for each member in a thread of its own until all are done.
    void run_as_threads();

    /// The expected and the actual output of a member. If an operation has no output on a member, both functions return
    /// the member's input, which must not change.
    [[nodiscard]] Bytes expected_output(std::size_t batch, std::size_t tensor, std::uint32_t member) const;
    [[nodiscard]] Bytes output(std::size_t batch, std::size_t tensor, std::uint32_t member) const;
    [[nodiscard]] bool inputs_are_intact(std::size_t batch, std::size_t tensor) const;

private:
    struct Place {
        std::byte* memory = nullptr;  // the tensor's address, in the mapping of the member that owns it
        std::uint64_t offset = 0;     // the tensor's offset, in the resident region of the member that owns it
        bool resident = false;
    };
    struct TensorMemory {
        std::vector<Bytes> inputs;  // by member, before the batch
        std::vector<Place> in;
        std::vector<Place> out;
        std::vector<bool> in_place;
    };
    struct Member;

    Place place(std::uint32_t member, std::uint64_t bytes, bool resident);
    [[nodiscard]] ops::Reduction reduction(const TensorPlan& tensor) const;
    [[nodiscard]] std::uint64_t output_begin(const BatchPlan& batch, const TensorPlan& tensor,
                                             std::uint32_t member) const;
    [[nodiscard]] std::uint64_t output_count(const BatchPlan& batch, const TensorPlan& tensor,
                                             std::uint32_t member) const;
    void lay_out(std::uint32_t batch, Residency residency, std::mt19937_64& random);
    void make_batch(Member& member, std::uint32_t rank);

    std::vector<BatchPlan> batches_;
    std::vector<std::vector<TensorMemory>> memory_;  // by batch and tensor
    std::vector<std::unique_ptr<Member>> members_;
    std::vector<std::unique_ptr<std::byte[]>> private_;
};

/// Checks with Catch that every member has the expected output of every tensor, and that no input has changed.
void check_outputs(const HandMadeJob& job, const std::vector<BatchPlan>& batches);

}  // namespace rueda::tests
