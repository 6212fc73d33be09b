// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/collectives/host/hand_made_batches.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "collectives/rows.hpp"
#include "tests/ops/adasum_reference.hpp"
#include "tests/ops/buffers.hpp"

namespace rueda::tests {

using collectives::Arena;
using collectives::Operation;
using collectives::StepResult;

namespace {

constexpr std::uint64_t kResidentBytes = 16 * 1024 * 1024;

}  // namespace

struct HandMadeJob::Member {
    std::shared_ptr<Arena> arena;
    std::unique_ptr<collectives::HostCommunicator> communicator;
    std::uint64_t resident_used = 0;
    std::size_t next_batch = 0;
    collectives::Task* task = nullptr;
    std::vector<collectives::Segment> segments;
    std::vector<collectives::Location> locations;
};

HandMadeJob::HandMadeJob(const Shape& shape, const std::vector<BatchPlan>& batches, std::uint32_t seed)
    : batches_(batches) {
    collectives::ArenaPlan plan;
    plan.members = shape.members;
    plan.negotiation_bytes = 4096;
    plan.cell_bytes = shape.cell_bytes;
    plan.cells_per_rank = shape.cells;
    plan.resident_bytes = kResidentBytes;
    if (shape.members % 2 == 0) {
        plan.stream_from = 1024;  // small outputs use streaming stores, too
    }
    auto memory = Arena::create_memory(plan);
    memory.status().throw_if_failed();
    for (std::uint32_t rank = 0; rank < plan.members; ++rank) {
        auto arena = Arena::map(base::UniqueFd(dup(memory.value().value())), plan, rank);
        arena.status().throw_if_failed();
        if (rank == 0) {
            arena.value()->initialise();
        }
        auto member = std::make_unique<Member>();
        member->arena = arena.value();
        member->communicator = std::make_unique<collectives::HostCommunicator>(arena.value());
        members_.push_back(std::move(member));
    }
    std::mt19937_64 random(seed);
    memory_.resize(batches_.size());
    for (std::uint32_t batch = 0; batch < batches_.size(); ++batch) {
        lay_out(batch, shape.residency, random);
    }
}

HandMadeJob::~HandMadeJob() = default;

HandMadeJob::Place HandMadeJob::place(std::uint32_t member, std::uint64_t bytes, bool resident) {
    if (!resident) {
        private_.push_back(std::make_unique<std::byte[]>(bytes));
        return {private_.back().get(), 0, false};
    }
    Member& owner = *members_[member];
    const std::uint64_t offset = owner.resident_used;
    // Leaves a gap of at least 64 bytes. Tensors begin at multiples of 8 bytes, the largest size of an element. These
    // are not always multiples of 64, so tensors begin at different places of a cache line.
    owner.resident_used += (bytes + 64 + 7) / 8 * 8;
    if (owner.resident_used > kResidentBytes) {
        throw std::runtime_error("the test's tensors need more resident memory than it reserves");
    }
    return {owner.arena->resident(member) + offset, offset, true};
}

ops::Reduction HandMadeJob::reduction(const TensorPlan& tensor) const {
    return {.dtype = tensor.dtype,
            .op = tensor.op,
            .prescale = tensor.prescale,
            .postscale = tensor.postscale,
            .divisor = static_cast<int>(members())};
}

std::uint64_t HandMadeJob::output_begin(const BatchPlan& batch, const TensorPlan& tensor, std::uint32_t member) const {
    return batch.operation == Operation::allreduce
               ? 0
               : static_cast<std::uint64_t>(
                     collectives::rows_of_member(static_cast<std::int64_t>(tensor.count), member, members()).begin);
}

std::uint64_t HandMadeJob::output_count(const BatchPlan& batch, const TensorPlan& tensor, std::uint32_t member) const {
    return batch.operation == Operation::allreduce
               ? tensor.count
               : static_cast<std::uint64_t>(
                     collectives::rows_of_member(static_cast<std::int64_t>(tensor.count), member, members()).count);
}

void HandMadeJob::lay_out(std::uint32_t batch, Residency residency, std::mt19937_64& random) {
    const BatchPlan& plan = batches_[batch];
    for (const TensorPlan& tensor : plan.tensors) {
        TensorMemory memory;
        for (std::uint32_t member = 0; member < members(); ++member) {
            const std::uint64_t bytes = tensor.count * size_of(tensor.dtype);
            const auto resident = [&] {
                return !tensor.travels &&
                       (residency == Residency::all || (residency == Residency::mixed && random() % 2 == 0));
            };
            memory.inputs.push_back(tensor.op == ReduceOp::adasum
                                        ? ops::test::random_gradients(tensor.dtype, tensor.count, random)
                                        : ops::test::random_elements(tensor.dtype, tensor.count, random));
            memory.in.push_back(place(member, bytes, resident()));
            std::copy(memory.inputs.back().begin(), memory.inputs.back().end(), memory.in.back().memory);
            const bool in_place = plan.operation == Operation::allreduce && random() % 2 == 0;
            memory.in_place.push_back(in_place);
            memory.out.push_back(
                in_place ? memory.in.back()
                         : place(member, output_count(plan, tensor, member) * size_of(tensor.dtype), resident()));
        }
        memory_[batch].push_back(std::move(memory));
    }
}

void HandMadeJob::make_batch(Member& member, std::uint32_t rank) {
    const BatchPlan& plan = batches_[member.next_batch];
    member.segments.clear();
    member.locations.clear();
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
        const TensorPlan& tensor = plan.tensors[t];
        const TensorMemory& memory = memory_[member.next_batch][t];
        collectives::Segment segment;
        segment.dtype = tensor.dtype;
        segment.reduce_op = tensor.op;
        segment.prescale = tensor.prescale;
        segment.postscale = tensor.postscale;
        segment.count = plan.operation == Operation::allreduce ? tensor.count : 1;
        segment.input = memory.in[rank].memory;
        segment.output = memory.out[rank].memory;
        member.segments.push_back(segment);
        for (std::uint32_t other = 0; other < members(); ++other) {
            collectives::Location location;
            location.first_dimension = static_cast<std::int64_t>(tensor.count);
            std::byte* const region = member.arena->resident(other);
            if (tensor.travels) {
                location.payload = memory.inputs[other].data();
            } else {
                location.input = memory.in[other].resident ? region + memory.in[other].offset : nullptr;
                location.output = memory.out[other].resident ? region + memory.out[other].offset : nullptr;
            }
            member.locations.push_back(location);
        }
    }
}

StepResult HandMadeJob::step(std::uint32_t rank) {
    Member& member = *members_[rank];
    if (member.next_batch == batches_.size()) {
        return StepResult::done;
    }
    if (member.task == nullptr) {
        make_batch(member, rank);
        member.task =
            &member.communicator->start({batches_[member.next_batch].operation, member.segments, member.locations, {}});
        return StepResult::advanced;
    }
    const StepResult result = member.task->step();
    if (result != StepResult::done) {
        return result;
    }
    member.task = nullptr;
    ++member.next_batch;
    return member.next_batch == batches_.size() ? StepResult::done : StepResult::advanced;
}

bool HandMadeJob::run(std::mt19937& random) {
    std::vector<std::uint32_t> order(members());
    for (std::uint32_t member = 0; member < members(); ++member) {
        order[member] = member;
    }
    while (true) {
        std::shuffle(order.begin(), order.end(), random);
        bool all_done = true;
        bool something = false;
        for (const std::uint32_t member : order) {
            const bool was_done = members_[member]->next_batch == batches_.size();
            StepResult result = step(member);
            something = something || result == StepResult::advanced || (result == StepResult::done && !was_done);
            all_done = all_done && result == StepResult::done;
            for (auto more = random() % 4 == 0 ? random() % 30 : 0; more > 0 && result == StepResult::advanced;
                 --more) {
                result = step(member);
            }
        }
        if (all_done || !something) {
            return all_done;
        }
    }
}

Bytes HandMadeJob::expected_output(std::size_t batch, std::size_t tensor, std::uint32_t member) const {
    const BatchPlan& plan = batches_[batch];
    const TensorPlan& t = plan.tensors[tensor];
    if (t.op == ReduceOp::adasum) {
        return ops::test::expected_adasum(reduction(t), memory_[batch][tensor].inputs, t.count, members(), 1);
    }
    const Bytes all = ops::test::expected(reduction(t), memory_[batch][tensor].inputs, t.count);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(output_begin(plan, t, member) * size_of(t.dtype));
    return {begin, begin + static_cast<std::ptrdiff_t>(output_count(plan, t, member) * size_of(t.dtype))};
}

Bytes HandMadeJob::output(std::size_t batch, std::size_t tensor, std::uint32_t member) const {
    const TensorPlan& t = batches_[batch].tensors[tensor];
    const std::byte* memory = memory_[batch][tensor].out[member].memory;
    return {memory, memory + output_count(batches_[batch], t, member) * size_of(t.dtype)};
}

bool HandMadeJob::inputs_are_intact(std::size_t batch, std::size_t tensor) const {
    const TensorMemory& memory = memory_[batch][tensor];
    for (std::uint32_t member = 0; member < members(); ++member) {
        if (!memory.in_place[member] &&
            !std::equal(memory.inputs[member].begin(), memory.inputs[member].end(), memory.in[member].memory)) {
            return false;
        }
    }
    return true;
}

void HandMadeJob::run_as_threads() {
    std::vector<std::thread> threads;
    for (std::uint32_t member = 0; member < members(); ++member) {
        threads.emplace_back([this, member] {
            for (StepResult result = StepResult::advanced; result != StepResult::done;) {
                result = step(member);
                if (result == StepResult::waiting) {
                    std::this_thread::yield();
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

void check_outputs(const HandMadeJob& job, const std::vector<BatchPlan>& batches) {
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
        for (std::size_t tensor = 0; tensor < batches[batch].tensors.size(); ++tensor) {
            for (std::uint32_t member = 0; member < job.members(); ++member) {
                CAPTURE(batch, tensor, member);
                REQUIRE(job.output(batch, tensor, member) == job.expected_output(batch, tensor, member));
            }
            CHECK(job.inputs_are_intact(batch, tensor));
        }
    }
}

}  // namespace rueda::tests
