// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/collectives/hierarchical/hosts_of_threads.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "collectives/rows.hpp"
#include "tests/collectives/hierarchical/between_hosts.hpp"
#include "tests/ops/adasum_reference.hpp"
#include "tests/ops/buffers.hpp"
#include "tests/support/ranks/thread_transport.hpp"

namespace rueda::tests {

using collectives::Arena;
using collectives::Operation;
using collectives::StepResult;

namespace {

constexpr std::uint64_t kResidentBytes = 16 * 1024 * 1024;
/// If no rank makes progress in this many rounds of steps, run() concludes that the ranks wait for each other forever.
constexpr int kIdleRounds = 1000;

Bytes slice(const Bytes& bytes, std::uint64_t begin, std::uint64_t end) {
    return {bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.begin() + static_cast<std::ptrdiff_t>(end)};
}

bool has_joined(const BatchPlan& plan, std::uint32_t rank) { return !plan.joined.empty() && plan.joined[rank]; }

}  // namespace

std::vector<std::shared_ptr<Arena>> arenas_of(std::uint32_t members, const HostsShape& shape) {
    collectives::ArenaPlan plan;
    plan.members = members;
    plan.negotiation_bytes = 4096;
    plan.cell_bytes = shape.cell_bytes;
    plan.cells_per_rank = shape.cells;
    plan.resident_bytes = kResidentBytes;
    plan.stream_from = 1024;  // small outputs use streaming stores, too; in the conformance suite they do not
    auto memory = Arena::create_memory(plan);
    memory.status().throw_if_failed();
    std::vector<std::shared_ptr<Arena>> arenas;
    for (std::uint32_t member = 0; member < members; ++member) {
        auto arena = Arena::map(base::UniqueFd(dup(memory.value().value())), plan, member);
        arena.status().throw_if_failed();
        if (member == 0) {
            arena.value()->initialise();
        }
        arenas.push_back(arena.value());
    }
    return arenas;
}

struct HostsOfThreads::Rank {
    std::uint32_t number = 0;
    std::shared_ptr<Arena> arena;
    std::unique_ptr<DelayedTransport> transport;
    std::unique_ptr<collectives::HierarchicalCommunicator> communicator;
    std::uint64_t resident_used = 0;
    std::size_t next_batch = 0;
    collectives::Task* task = nullptr;
    std::vector<collectives::Segment> segments;
    std::vector<collectives::Location> locations;
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> splits;
    bool knows_splits = false;
};

std::string HostsShape::text() const {
    return fmt::format("hosts {}, {} cells of {}, residency {}, small up to {}, chunks of {}, delay {}", host_of, cells,
                       cell_bytes, static_cast<int>(residency), options.small_bytes, options.network_chunk_bytes,
                       most_delay);
}

HostsOfThreads::HostsOfThreads(const HostsShape& shape, const std::vector<BatchPlan>& batches, std::uint32_t seed)
    : shape_(shape),
      host_count_(*std::max_element(shape.host_of.begin(), shape.host_of.end()) + 1),
      ranks_of_(host_count_),
      batches_(batches) {
    const auto size = static_cast<std::uint32_t>(shape.host_of.size());
    std::vector<collectives::RankFacts> facts;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        ranks_of_[shape.host_of[rank]].push_back(rank);
        facts.push_back({fmt::format("host{}", shape.host_of[rank]), "boot", 0, 0, 0, static_cast<std::int32_t>(rank)});
    }
    ranks_.resize(size);
    auto transports = collectives::make_thread_transports(static_cast<int>(size));
    for (const auto& members : ranks_of_) {
        const auto arenas = arenas_of(static_cast<std::uint32_t>(members.size()), shape);
        for (std::size_t member = 0; member < members.size(); ++member) {
            const std::uint32_t number = members[member];
            auto rank = std::make_unique<Rank>();
            rank->number = number;
            rank->arena = arenas[member];
            rank->transport =
                std::make_unique<DelayedTransport>(std::move(transports[number]), shape.most_delay, seed + number);
            rank->communicator = std::make_unique<collectives::HierarchicalCommunicator>(
                rank->arena, collectives::group_by_host(static_cast<int>(number), facts), *rank->transport,
                shape.options);
            ranks_[number] = std::move(rank);
        }
    }
    std::mt19937_64 random(seed);
    for (const BatchPlan& plan : batches_) {
        lay_out(plan, random);
    }
}

HostsOfThreads::~HostsOfThreads() = default;

collectives::HierarchicalCommunicator& HostsOfThreads::communicator(std::uint32_t rank) {
    return *ranks_[rank]->communicator;
}

void HostsOfThreads::lose(std::uint32_t rank) {
    ranks_[rank]->communicator->abandon();
    ranks_[rank]->communicator.reset();
}

DelayedTransport& HostsOfThreads::transport(std::uint32_t rank) { return *ranks_[rank]->transport; }

HostsOfThreads::Place HostsOfThreads::place(std::uint32_t rank, std::uint64_t bytes, bool resident) {
    if (!resident) {
        private_.push_back(std::make_unique<std::byte[]>(bytes));
        return {private_.back().get(), 0, false};
    }
    Rank& owner = *ranks_[rank];
    const std::uint64_t offset = owner.resident_used;
    // Leaves a gap of at least 64 bytes. Tensors begin at multiples of 8 bytes, the largest size of an element. These
    // are not always multiples of 64, so tensors begin at different places of a cache line.
    owner.resident_used += (bytes + 64 + 7) / 8 * 8;
    if (owner.resident_used > kResidentBytes) {
        throw std::runtime_error("the test's tensors need more resident memory than it reserves");
    }
    return {owner.arena->resident(owner.arena->rank()) + offset, offset, true};
}

bool HostsOfThreads::draw_resident(std::mt19937_64& random) const {
    return shape_.residency == Residency::all || (shape_.residency == Residency::mixed && random() % 2 == 0);
}

std::uint64_t HostsOfThreads::input_elements(const BatchPlan& plan, const TensorPlan& tensor,
                                             std::uint32_t rank) const {
    switch (plan.operation) {
        case Operation::allgather:
        case Operation::reducescatter:
            return tensor.count * static_cast<std::uint64_t>(plan.rows[rank]);
        case Operation::alltoall: {
            const auto begin = plan.splits.begin() + static_cast<std::ptrdiff_t>(rank * size());
            return tensor.count * static_cast<std::uint64_t>(std::accumulate(begin, begin + size(), std::int64_t{0}));
        }
        default:
            return tensor.count;
    }
}

void HostsOfThreads::lay_out(const BatchPlan& plan, std::mt19937_64& random) {
    std::vector<Tensor> tensors;
    for (const TensorPlan& tensor : plan.tensors) {
        Tensor memory;
        for (std::uint32_t rank = 0; rank < size(); ++rank) {
            const std::uint64_t elements = input_elements(plan, tensor, rank);
            memory.inputs.push_back(tensor.op == ReduceOp::adasum
                                        ? ops::test::random_gradients(tensor.dtype, elements, random)
                                        : ops::test::random_elements(tensor.dtype, elements, random));
        }
        for (std::uint32_t rank = 0; rank < size(); ++rank) {
            const Bytes& input = memory.inputs[rank];
            const std::uint64_t out_bytes = expected(plan, tensor, memory, rank).size();
            const bool can_be_in_place = plan.operation == Operation::allreduce ||
                                         plan.operation == Operation::broadcast ||
                                         plan.operation == Operation::allgather;
            const bool in_place = can_be_in_place && random() % 2 == 0;
            Place out = place(rank, out_bytes, draw_resident(random));
            Place in = out;
            if (!in_place) {
                in = place(rank, input.size(), draw_resident(random));
            } else if (plan.operation == Operation::allgather) {
                for (std::uint32_t lower = 0; lower < rank; ++lower) {
                    in.memory += memory.inputs[lower].size();
                    in.offset += memory.inputs[lower].size();
                }
            }
            std::copy(input.begin(), input.end(), in.memory);
            memory.in.push_back(in);
            memory.out_bytes.push_back(out_bytes);
            memory.out.push_back(out);
            memory.in_place.push_back(in_place);
        }
        memory.inputs_after.resize(size());
        memory.outputs.resize(size());
        for (std::uint32_t rank = 0; rank < size(); ++rank) {
            const std::byte* const out = memory.out[rank].memory;
            memory.outputs_before.emplace_back(out, out + memory.out_bytes[rank]);
        }
        tensors.push_back(std::move(memory));
    }
    memory_.push_back(std::move(tensors));
}

/// Stores the results of the rank's batch. The caller may overwrite the tensors afterwards.
void HostsOfThreads::take_results(Rank& rank) {
    const BatchPlan& plan = batches_[rank.next_batch];
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
        Tensor& memory = memory_[rank.next_batch][t];
        std::byte* const in = memory.in[rank.number].memory;
        std::byte* const out = memory.out[rank.number].memory;
        const std::size_t in_bytes = memory.inputs[rank.number].size();
        const std::size_t out_bytes = memory.out_bytes[rank.number];
        memory.inputs_after[rank.number] = {in, in + in_bytes};
        memory.outputs[rank.number] = {out, out + out_bytes};
        std::fill_n(in, in_bytes, std::byte{0x5A});
        std::fill_n(out, out_bytes, std::byte{0x5A});
    }
}

void HostsOfThreads::make_batch(Rank& rank, std::uint32_t number) {
    const BatchPlan& plan = batches_[rank.next_batch];
    rank.segments.clear();
    rank.locations.clear();
    rank.rows = plan.rows;
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
        const TensorPlan& tensor = plan.tensors[t];
        const Tensor& memory = memory_[rank.next_batch][t];
        collectives::Segment segment;
        segment.dtype = tensor.dtype;
        segment.reduce_op = tensor.op;
        segment.prescale = tensor.prescale;
        segment.postscale = tensor.postscale;
        segment.compression = tensor.compression;
        segment.root = plan.root;
        segment.count = tensor.count;
        segment.input = memory.in[number].memory;
        const bool keeps = plan.keeps_nothing.empty() || !plan.keeps_nothing[number];
        segment.output = keeps ? memory.out[number].memory : nullptr;
        segment.uncounted = plan.uncounted;
        if (has_joined(plan, number)) {
            segment.input = segment.output = nullptr;
        }
        rank.segments.push_back(segment);
        for (const std::uint32_t other : ranks_of_[shape_.host_of[number]]) {
            collectives::Location location;
            if (!plan.rows.empty()) {
                location.first_dimension = plan.rows[other];
            }
            std::byte* const region = rank.arena->resident(ranks_[other]->arena->rank());
            location.input = memory.in[other].resident ? region + memory.in[other].offset : nullptr;
            location.output = memory.out[other].resident ? region + memory.out[other].offset : nullptr;
            if (has_joined(plan, other)) {
                location = {};
                location.absent = true;
                ++rank.segments.back().absent;
            }
            rank.locations.push_back(location);
        }
    }
}

StepResult HostsOfThreads::step(std::uint32_t number) {
    Rank& rank = *ranks_[number];
    if (rank.next_batch == batches_.size()) {
        return StepResult::done;
    }
    const BatchPlan& plan = batches_[rank.next_batch];
    if (rank.task == nullptr) {
        if (plan.operation == Operation::alltoall && !rank.knows_splits) {
            const auto begin = plan.splits.begin() + static_cast<std::ptrdiff_t>(number * size());
            rank.splits.assign(begin, begin + size());
            rank.splits.resize(std::size_t{2} * size(), -1);
            rank.task = &rank.communicator->start_splits(std::span(rank.splits).first(size()),
                                                         std::span(rank.splits).last(size()));
            return StepResult::advanced;
        }
        make_batch(rank, number);
        rank.task = &rank.communicator->start({plan.operation, rank.segments, rank.locations, rank.splits, rank.rows});
        return StepResult::advanced;
    }
    const StepResult result = rank.task->step();
    if (result != StepResult::done) {
        return result;
    }
    rank.task = nullptr;
    if (plan.operation == Operation::alltoall && !rank.knows_splits) {
        rank.knows_splits = true;
        return StepResult::advanced;
    }
    rank.knows_splits = false;
    take_results(rank);
    ++rank.next_batch;
    return rank.next_batch == batches_.size() ? StepResult::done : StepResult::advanced;
}

bool HostsOfThreads::run(std::mt19937& random) {
    std::vector<std::uint32_t> order(size());
    std::iota(order.begin(), order.end(), 0U);
    for (int idle = 0; idle < kIdleRounds; ++idle) {
        std::shuffle(order.begin(), order.end(), random);
        bool all_done = true;
        for (const std::uint32_t rank : order) {
            StepResult result = step(rank);
            for (auto more = random() % 4 == 0 ? random() % 30 : 0; more > 0 && result == StepResult::advanced;
                 --more) {
                result = step(rank);
            }
            idle = result == StepResult::advanced ? 0 : idle;
            all_done = all_done && result == StepResult::done;
        }
        if (all_done) {
            return true;
        }
    }
    return false;
}

/// A tensor is divided into one share for each lane (local rank), and each share is divided into one part for each
/// host.
Bytes HostsOfThreads::expected_adasum(const ops::Reduction& reduction, const std::vector<std::vector<Bytes>>& by_host,
                                      std::uint64_t count) const {
    std::size_t lanes = by_host.front().size();
    for (const auto& inputs : by_host) {
        lanes = std::min(lanes, inputs.size());
    }
    std::vector<Bytes> partials;
    for (const auto& inputs : by_host) {
        partials.push_back(
            ops::test::expected_adasum(reduction, inputs, count, static_cast<std::uint32_t>(lanes), host_count_));
    }
    return ops::test::expected_adasum({.dtype = reduction.dtype, .op = ReduceOp::adasum}, partials, count,
                                      static_cast<std::uint32_t>(lanes), host_count_);
}

/// A host whose ranks have all joined does not change the result; in an adasum it counts as zeros.
Bytes HostsOfThreads::expected_allreduce(const BatchPlan& plan, const TensorPlan& tensor, std::uint64_t count,
                                         const std::vector<Bytes>& inputs) const {
    std::vector<std::vector<Bytes>> by_host;
    for (const auto& ranks : ranks_of_) {
        by_host.emplace_back();
        for (const std::uint32_t rank : ranks) {
            if (!has_joined(plan, rank)) {
                by_host.back().push_back(inputs[rank]);
            } else if (tensor.op == ReduceOp::adasum) {
                by_host.back().emplace_back(inputs[rank].size());
            }
        }
    }
    const ops::Reduction reduction{.dtype = tensor.dtype,
                                   .op = tensor.op,
                                   .prescale = tensor.prescale,
                                   .postscale = tensor.postscale,
                                   .divisor = static_cast<int>(size() - plan.uncounted)};
    if (tensor.op == ReduceOp::adasum) {
        return expected_adasum(reduction, by_host, count);
    }
    if (tensor.compression != Compression::none && host_count_ > 1) {
        return expected_compressed(reduction, tensor.compression, by_host, count);
    }
    const bool is_small = count * size_of(tensor.dtype) <= shape_.options.small_bytes;
    return expected_between_hosts(reduction, by_host, count, is_small ? HostOrder::balanced : HostOrder::by_host);
}

Bytes HostsOfThreads::expected(const BatchPlan& plan, const TensorPlan& tensor, const Tensor& memory,
                               std::uint32_t rank) const {
    const std::uint64_t row_bytes = tensor.count * size_of(tensor.dtype);
    switch (plan.operation) {
        case Operation::allreduce:
            return expected_allreduce(plan, tensor, tensor.count, memory.inputs);
        case Operation::reducescatter: {
            const Bytes all = expected_allreduce(plan, tensor, tensor.count * static_cast<std::uint64_t>(plan.rows[0]),
                                                 memory.inputs);
            const auto mine = collectives::rows_of_member(plan.rows[0], rank, size());
            return slice(all, static_cast<std::uint64_t>(mine.begin) * row_bytes,
                         static_cast<std::uint64_t>(mine.begin + mine.count) * row_bytes);
        }
        case Operation::allgather: {
            Bytes all;
            for (const Bytes& input : memory.inputs) {
                all.insert(all.end(), input.begin(), input.end());
            }
            return all;
        }
        case Operation::alltoall: {
            Bytes all;
            for (std::uint32_t from = 0; from < size(); ++from) {
                const auto splits = plan.splits.begin() + static_cast<std::ptrdiff_t>(from * size());
                const auto before = static_cast<std::uint64_t>(std::accumulate(splits, splits + rank, std::int64_t{0}));
                const auto count = static_cast<std::uint64_t>(*(splits + rank));
                const Bytes part = slice(memory.inputs[from], before * row_bytes, (before + count) * row_bytes);
                all.insert(all.end(), part.begin(), part.end());
            }
            return all;
        }
        default:
            return memory.inputs[plan.root];
    }
}

std::string HostsOfThreads::check() const {
    for (std::size_t batch = 0; batch < batches_.size(); ++batch) {
        const BatchPlan& plan = batches_[batch];
        for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
            const TensorPlan& tensor = plan.tensors[t];
            const Tensor& memory = memory_[batch][t];
            for (std::uint32_t rank = 0; rank < size(); ++rank) {
                const auto where = [&] {
                    return fmt::format("batch {} ({}), tensor {} ({} {} x {}), rank {}: ", batch,
                                       name_of(plan.operation), t, name_of(tensor.op), name_of(tensor.dtype),
                                       tensor.count, rank);
                };
                if (!memory.in_place[rank] && memory.inputs[rank] != memory.inputs_after[rank]) {
                    return where() + "the input has changed";
                }
                if (has_joined(plan, rank)) {
                    if (memory.outputs[rank] != memory.outputs_before[rank]) {
                        return where() + "the output of a rank that has joined has changed";
                    }
                    continue;
                }
                if (!plan.keeps_nothing.empty() && plan.keeps_nothing[rank]) {
                    continue;
                }
                const Bytes wanted = expected(plan, tensor, memory, rank);
                const auto [found, other] = std::mismatch(wanted.begin(), wanted.end(), memory.outputs[rank].begin());
                if (found != wanted.end()) {
                    return where() + fmt::format("byte {} of {} is wrong", found - wanted.begin(), wanted.size());
                }
            }
        }
    }
    return "";
}

}  // namespace rueda::tests
