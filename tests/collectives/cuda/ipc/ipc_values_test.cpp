// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests tensors that move through device memory shared by CUDA IPC. The results must have the same bits as on the CPU.
// Members are processes, on the stand-in.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/floating_point.hpp"
#include "collectives/rows.hpp"
#include "ops/reduce.hpp"
#include "tests/collectives/cuda/ipc/ipc_members.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using Random = std::mt19937_64;

constexpr std::size_t kGuard = 32;  ///< bytes around an output, which must not change
constexpr std::byte kGuardByte{0x5a};
constexpr std::size_t kMostApart = 5;  ///< if a batch has more tensors than this, all are in one allocation

std::vector<std::byte> random_bytes(std::uint64_t seed, std::size_t bytes) {
    Random random(seed);
    std::vector<std::byte> made(bytes);
    std::generate(made.begin(), made.end(), [&] { return static_cast<std::byte>(random()); });
    return made;
}

/// A tensor of a batch, the same on all members.
struct Shape {
    Segment segment;
    std::size_t shift = 0;  ///< the tensor begins this number of bytes after an aligned address
    bool is_in_place = false;
    std::uint64_t seed = 0;

    [[nodiscard]] std::vector<std::byte> input_of(std::uint32_t member) const {
        return random_bytes(seed + member, segment.bytes());
    }
};

struct Case {
    Operation operation = Operation::allreduce;
    std::vector<Shape> shapes;
};

ReduceOp random_reduction(Random& random, DType dtype, double prescale, double postscale) {
    constexpr ReduceOp kAll[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product};
    for (;;) {
        const ReduceOp op = kAll[random() % std::size(kAll)];
        if (ops::is_defined({.dtype = dtype, .op = op, .prescale = prescale, .postscale = postscale})) {
            return op;
        }
    }
}

Shape random_shape(Random& random, std::uint32_t members, std::size_t most_bytes) {
    Shape shape;
    Segment& segment = shape.segment;
    segment.dtype = static_cast<DType>(random() % kDTypeCount);
    const bool has_factors = segment.dtype != DType::boolean && random() % 3 == 0;
    segment.prescale = has_factors ? 0.5 : 1.0;
    segment.postscale = has_factors && random() % 2 == 0 ? 3.0 : 1.0;
    segment.reduce_op = random_reduction(random, segment.dtype, segment.prescale, segment.postscale);
    segment.root = static_cast<std::uint32_t>(random() % members);
    segment.count = 1 + random() % std::max<std::size_t>(most_bytes / size_of(segment.dtype), 1);
    shape.shift = random() % 2 == 0 ? 0 : random() % 17;
    shape.is_in_place = random() % 2 == 0;
    shape.seed = random();
    return shape;
}

/// Returns a random batch. If the batch has few tensors, each of them has at most the size of five slots. If it has
/// many tensors, each has at most 200 bytes.
Case random_case(Random& random, std::uint32_t members, std::size_t slot) {
    Case made;
    const std::uint64_t kind = random() % 6;
    made.operation = kind == 0 ? Operation::broadcast : kind == 1 ? Operation::reduce : Operation::allreduce;
    const std::size_t tensors =
        made.operation != Operation::allreduce ? 1 : 1 + random() % (random() % 4 == 0 ? 400 : 5);
    for (std::size_t i = 0; i < tensors; ++i) {
        made.shapes.push_back(random_shape(random, members, tensors > kMostApart ? 200 : 5 * slot));
        // Neighbouring tensors with the same dtype and reduction are reduced together, so most tensors get the dtype
        // and the reduction of the tensor before them.
        if (i > 0 && random() % 3 != 0) {
            const Segment& last = made.shapes[i - 1].segment;
            Segment& segment = made.shapes[i].segment;
            segment.dtype = last.dtype;
            segment.reduce_op = last.reduce_op;
            segment.prescale = last.prescale;
            segment.postscale = last.postscale;
        }
    }
    if (random() % 3 == 0) {
        Segment& segment = made.shapes[0].segment;
        const std::size_t in_slot = slot / size_of(segment.dtype);
        segment.count = in_slot * (1 + random() % 2) + random() % 3 - 1;
    }
    return made;
}

std::vector<std::byte> expected_of(const Case& one, const Shape& shape, std::uint32_t members) {
    const Segment& segment = shape.segment;
    if (one.operation == Operation::broadcast) {
        return shape.input_of(segment.root);
    }
    std::vector<std::vector<std::byte>> inputs;
    std::vector<const std::byte*> sources;
    for (std::uint32_t member = 0; member < members; ++member) {
        inputs.push_back(shape.input_of(member));
    }
    for (const auto& input : inputs) {
        sources.push_back(input.data());
    }
    std::vector<std::byte> result(segment.bytes());
    std::byte* const destination = result.data();
    const base::DefaultFloatingPoint environment;
    ops::reduce(segment.reduction(members), sources, {&destination, 1}, segment.count);
    return result;
}

/// A tensor's memory on this member, with guards around the output.
struct Buffers {
    std::byte* input = nullptr;
    std::byte* output = nullptr;  ///< behind the guard
};

/// The bytes before a tensor's output: the guard, and the shift from the aligned beginning.
std::size_t before_output(const Shape& shape) { return kGuard + shape.shift; }

/// The output with its guards. An output in place contains the input.
std::vector<std::byte> guarded_output(const Shape& shape, const std::vector<std::byte>& input) {
    const std::size_t before = before_output(shape);
    std::vector<std::byte> guarded(before + input.size() + kGuard, kGuardByte);
    if (shape.is_in_place) {
        std::copy(input.begin(), input.end(), guarded.begin() + static_cast<std::ptrdiff_t>(before));
    }
    return guarded;
}

/// The memory of a batch's tensors on this member.
///
/// Each tensor of a small batch has allocations of its own, so that the stand-in finds accesses beyond a tensor's end.
/// The tensors of a large batch are in one allocation. Otherwise, each of 400 tensors would need two allocations and
/// three copies. These would take most of the test's time, and would need thousands of descriptors.
class BatchMemory {
public:
    BatchMemory(IpcMember& member, const std::vector<Shape>& shapes) : member_(member), shapes_(shapes) {
        std::vector<std::size_t> inputs;
        for (const Shape& shape : shapes) {
            const std::vector<std::byte> input = shape.input_of(member.number());
            const std::vector<std::byte> guarded = guarded_output(shape, input);
            if (!is_together()) {
                std::byte* const output = member.put(guarded) + before_output(shape);
                buffers_.push_back({shape.is_in_place ? output : member.put(input), output});
                continue;
            }
            inputs.push_back(shape.is_in_place ? 0 : append_aligned(input));
            outputs_.push_back(append_aligned(guarded));
        }
        if (is_together()) {
            memory_ = member.put(together_);
            for (std::size_t i = 0; i < shapes.size(); ++i) {
                std::byte* const output = memory_ + outputs_[i] + before_output(shapes[i]);
                buffers_.push_back({shapes[i].is_in_place ? output : memory_ + inputs[i], output});
            }
        }
    }
    [[nodiscard]] const Buffers& of(std::size_t tensor) const { return buffers_[tensor]; }

    /// Reads all outputs with their guards, after all work in the program's stream.
    [[nodiscard]] std::vector<std::vector<std::byte>> guarded_outputs() const {
        const std::vector<std::byte> all =
            is_together() ? member_.get(memory_, together_.size()) : std::vector<std::byte>();
        std::vector<std::vector<std::byte>> outputs;
        for (std::size_t i = 0; i < shapes_.size(); ++i) {
            const std::size_t before = before_output(shapes_[i]);
            const std::size_t bytes = before + shapes_[i].segment.bytes() + kGuard;
            if (is_together()) {
                const auto begin = all.begin() + static_cast<std::ptrdiff_t>(outputs_[i]);
                outputs.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(bytes));
            } else {
                outputs.push_back(member_.get(buffers_[i].output - before, bytes));
            }
        }
        return outputs;
    }

private:
    [[nodiscard]] bool is_together() const { return shapes_.size() > kMostApart; }
    /// Appends the bytes at an aligned offset, and returns this offset. Allocations of the device have the same
    /// alignment.
    std::size_t append_aligned(const std::vector<std::byte>& bytes) {
        constexpr std::size_t kAlignment = 256;
        const std::size_t offset = (together_.size() + kAlignment - 1) / kAlignment * kAlignment;
        together_.resize(offset, kGuardByte);
        together_.insert(together_.end(), bytes.begin(), bytes.end());
        return offset;
    }

    IpcMember& member_;
    const std::vector<Shape>& shapes_;
    std::vector<Buffers> buffers_;
    std::vector<std::byte> together_;  // the contents of the common allocation before the batch; empty if there is none
    std::vector<std::size_t> outputs_;  // the offsets of the guarded outputs in the common allocation
    std::byte* memory_ = nullptr;       // the one allocation
};

void check_output(const IpcMember& member, const Case& one, const Shape& shape, const std::vector<std::byte>& found) {
    const std::uint64_t bytes = shape.segment.bytes();
    const auto begin = found.begin() + static_cast<std::ptrdiff_t>(before_output(shape));
    const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
    const auto is_guard = [](std::byte byte) { return byte == kGuardByte; };
    RUEDA_RANK_CHECK(std::all_of(found.begin(), begin, is_guard) && std::all_of(end, found.end(), is_guard));
    const bool has_result = one.operation != Operation::reduce || member.number() == shape.segment.root;
    if (has_result) {
        const std::vector<std::byte> expected = expected_of(one, shape, member.members());
        const auto [wrong, other] = std::mismatch(begin, end, expected.begin());
        if (wrong != end) {
            throw RankCheckFailed(fmt::format("{} of {} {} ({}), {} bytes: byte {} is {:#x}, expected {:#x}",
                                              name_of(one.operation), shape.segment.count, name_of(shape.segment.dtype),
                                              static_cast<int>(shape.segment.reduce_op), bytes, wrong - begin,
                                              std::to_integer<int>(*wrong), std::to_integer<int>(*other)));
        }
    }
}

void run_case(IpcMember& member, DeviceCommunicator& communicator, const Case& one) {
    const BatchMemory memory(member, one.shapes);
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < one.shapes.size(); ++i) {
        Segment segment = one.shapes[i].segment;
        segment.input = memory.of(i).input;
        segment.output = memory.of(i).output;
        if (one.operation == Operation::reduce && member.number() != segment.root) {
            segment.output = nullptr;
        }
        segments.push_back(segment);
    }
    member.run(communicator, one.operation, segments);
    const std::vector<std::vector<std::byte>> outputs = memory.guarded_outputs();
    for (std::size_t i = 0; i < one.shapes.size(); ++i) {
        check_output(member, one, one.shapes[i], outputs[i]);
    }
}

Case whole_tensor(DType dtype, ReduceOp op, std::uint64_t count, std::uint64_t seed) {
    return {.shapes = {{.segment = {.dtype = dtype, .reduce_op = op, .count = count}, .seed = seed}}};
}

// Operations that move rows.

struct RowsCase {
    Operation operation = Operation::allgather;
    Segment segment{};
    IpcLists lists{};
    std::uint64_t seed = 0;

    [[nodiscard]] std::size_t members() const { return lists.rows.size(); }
    [[nodiscard]] std::size_t bytes(std::int64_t rows) const {
        return static_cast<std::size_t>(rows) * segment.bytes();
    }
    [[nodiscard]] std::vector<std::byte> input_of(std::size_t member) const {
        return random_bytes(seed + member, bytes(lists.rows[member]));
    }
};

RowsCase random_rows(Random& random, std::uint32_t members, std::size_t slot) {
    constexpr Operation kAll[] = {Operation::allgather, Operation::reducescatter, Operation::alltoall,
                                  Operation::gather, Operation::scatter};
    RowsCase made;
    made.operation = kAll[random() % std::size(kAll)];
    made.seed = random();
    Segment& segment = made.segment;
    segment.dtype = static_cast<DType>(random() % kDTypeCount);
    segment.reduce_op = random_reduction(random, segment.dtype, 1.0, 1.0);
    segment.root = static_cast<std::uint32_t>(random() % members);
    segment.count = 1 + random() % 100;
    const auto random_number = [&] {
        return static_cast<std::int64_t>(random() % 5 == 0 ? 0 : random() % (2 + 3 * slot / segment.bytes() / members));
    };
    made.lists.rows.assign(members, random_number() * members);
    if (made.operation == Operation::reducescatter) {
        return made;
    }
    made.lists.splits.assign(std::size_t{members} * members, 0);
    for (std::size_t from = 0; from < members; ++from) {
        made.lists.rows[from] = made.operation == Operation::allgather ? random_number() : 0;
        for (std::size_t to = 0; to < members && made.operation != Operation::allgather; ++to) {
            const bool is_moved = made.operation == Operation::alltoall ||
                                  segment.root == (made.operation == Operation::gather ? to : from);
            made.lists.splits[from * members + to] = is_moved ? random_number() : 0;
            made.lists.rows[from] += made.lists.splits[from * members + to];
        }
    }
    if (made.operation == Operation::allgather) {
        made.lists.splits.clear();
    }
    return made;
}

void append(std::vector<std::byte>& to, const std::vector<std::byte>& from, std::size_t begin, std::size_t bytes) {
    const auto first = from.begin() + static_cast<std::ptrdiff_t>(begin);
    to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(bytes));
}

std::vector<std::byte> expected_rows(const RowsCase& one, std::size_t member) {
    std::vector<std::byte> expected;
    const std::size_t members = one.members();
    if (one.operation == Operation::reducescatter) {
        const Case whole{.shapes = {{.segment = one.segment, .seed = one.seed}}};
        Shape shape = whole.shapes[0];
        shape.segment.count *= static_cast<std::uint64_t>(one.lists.rows[0]);
        const Rows own =
            rows_of_member(one.lists.rows[0], static_cast<std::uint32_t>(member), static_cast<std::uint32_t>(members));
        append(expected, expected_of(whole, shape, static_cast<std::uint32_t>(members)), one.bytes(own.begin),
               one.bytes(own.count));
        return expected;
    }
    for (std::size_t from = 0; from < members; ++from) {
        const std::vector<std::byte> input = one.input_of(from);
        if (one.operation == Operation::allgather) {
            append(expected, input, 0, input.size());
            continue;
        }
        std::int64_t before = 0;
        for (std::size_t to = 0; to < member; ++to) {
            before += one.lists.splits[from * members + to];
        }
        append(expected, input, one.bytes(before), one.bytes(one.lists.splits[from * members + member]));
    }
    return expected;
}

void run_rows(IpcMember& member, DeviceCommunicator& communicator, const RowsCase& one) {
    const std::vector<std::byte> expected = expected_rows(one, member.number());
    std::vector<std::byte> guarded(expected.size() + 2 * kGuard, kGuardByte);
    std::byte* const output = member.put(guarded) + kGuard;
    Segment segment = one.segment;
    const std::vector<std::byte> input = one.input_of(member.number());
    segment.input = member.put(input);
    segment.output = expected.empty() ? nullptr : output;
    member.run(communicator, one.operation, {&segment, 1}, one.lists);
    std::copy(expected.begin(), expected.end(), guarded.begin() + kGuard);
    const std::vector<std::byte> found = member.get(output - kGuard, guarded.size());
    if (found != guarded) {
        const auto wrong = std::mismatch(found.begin(), found.end(), guarded.begin()).first - found.begin();
        throw RankCheckFailed(fmt::format("{} of {} rows of {} bytes: byte {} of {} is wrong", name_of(one.operation),
                                          one.lists.rows, one.segment.bytes(), wrong, expected.size()));
    }
}

}  // namespace

TEST_CASE("random operations that move rows", "[ipc][values]") {
    for (std::uint64_t seed = 31; seed <= 34; ++seed) {
        const int members = 2 + static_cast<int>(seed % 3);
        require_ipc({.members = members, .seed = seed}, [seed](IpcMember& member) {
            Random random(seed);
            const auto communicator = member.connect();
            for (int i = 0; i < 40; ++i) {
                run_rows(member, *communicator, random_rows(random, member.members(), 4096));
            }
            RUEDA_RANK_CHECK(gpu::calls("cuIpcOpenMemHandle") > 0);
            member.meet();
        });
    }
}

TEST_CASE("every type and reduction has the bits of the CPU", "[ipc][values]") {
    for (const int members : {2, 3, 4}) {
        require_ipc({.members = members, .seed = 11}, [](IpcMember& member) {
            const auto communicator = member.connect();
            for (std::size_t number = 0; number < kDTypeCount; ++number) {
                const auto dtype = static_cast<DType>(number);
                for (const ReduceOp op :
                     {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
                    if (ops::is_defined({.dtype = dtype, .op = op})) {
                        run_case(member, *communicator, whole_tensor(dtype, op, 2000, number));
                    }
                }
            }
            RUEDA_RANK_EQUAL(gpu::calls("cuIpcOpenMemHandle"), member.members() - 1U);
            RUEDA_RANK_CHECK(communicator->last_call() == DeviceCall::peer_kernels);
            RUEDA_RANK_EQUAL(gpu::host_waits() > 0, true);  // the test's own
            RUEDA_RANK_CHECK(gpu::nccl_operations().empty());
            member.meet();
        });
    }
}

TEST_CASE("random batches around the size of a slot, with random delays", "[ipc][values]") {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        const int members = 2 + static_cast<int>(seed % 3);
        const int devices = seed % 2 == 0 ? 1 : members;
        require_ipc({.members = members,
                     .devices = devices,
                     .seed = seed,
                     .path = devices == 1 ? DevicePath::automatic : DevicePath::ipc},
                    [seed](IpcMember& member) {
                        Random random(seed);
                        const auto communicator = member.connect();
                        for (int i = 0; i < 25; ++i) {
                            run_case(member, *communicator, random_case(random, member.members(), 4096));
                        }
                        RUEDA_RANK_CHECK(gpu::calls("cuIpcOpenMemHandle") > 0);
                        member.meet();
                    });
    }
}

TEST_CASE("batches that follow each other without a wait of the program", "[ipc][values]") {
    require_ipc({.members = 3, .seed = 21, .delays = std::chrono::milliseconds(2)}, [](IpcMember& member) {
        const auto communicator = member.connect();
        constexpr std::uint64_t kCount = 3000;
        std::vector<float> values(kCount, static_cast<float>(member.number() + 1));
        const auto bytes = std::as_bytes(std::span(values));
        std::byte* const memory = member.put(bytes);
        const Segment segment{.count = kCount, .input = memory, .output = memory};
        double expected = 6;
        for (int round = 0; round < 6; ++round, expected *= 3) {
            member.run(*communicator, Operation::allreduce, {&segment, 1});
        }
        const std::vector<std::byte> found = member.get(memory, bytes.size());
        std::memcpy(values.data(), found.data(), found.size());
        RUEDA_RANK_EQUAL(values, std::vector<float>(kCount, static_cast<float>(expected / 3)));
        member.meet();
    });
}

}  // namespace rueda::tests
