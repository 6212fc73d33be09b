// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/nccl/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace rueda::tests::gpu {

using namespace collectives::cuda;

namespace {

std::byte* pointer(DeviceAddress address) { return reinterpret_cast<std::byte*>(address); }

bool is_reduction(NcclKind kind) {
    return kind == NcclKind::all_reduce || kind == NcclKind::reduce || kind == NcclKind::reduce_scatter;
}

}  // namespace

const char* function_name(NcclKind kind) {
    constexpr const char* kNames[] = {"ncclAllReduce",     "ncclBroadcast", "ncclReduce", "ncclAllGather",
                                      "ncclReduceScatter", "ncclSend",      "ncclRecv"};
    return kNames[static_cast<std::size_t>(kind)];
}

std::size_t NcclOperation::input_bytes() const {
    const auto ranks = static_cast<std::size_t>(communicator->ranks);
    switch (kind) {
        case NcclKind::reduce_scatter:
            return bytes() * ranks;
        case NcclKind::broadcast:
            return communicator->rank == root ? bytes() : 0;
        case NcclKind::receive:
            return 0;
        default:
            return bytes();
    }
}

std::size_t NcclOperation::output_bytes() const {
    const auto ranks = static_cast<std::size_t>(communicator->ranks);
    switch (kind) {
        case NcclKind::all_gather:
            return bytes() * ranks;
        case NcclKind::reduce:
            return communicator->rank == root ? bytes() : 0;
        case NcclKind::send:
            return 0;
        default:
            return bytes();
    }
}

std::string NcclOperation::describe() const {
    std::string text = fmt::format("{} {} {}", function_name(kind), count, type_name(type));
    if (is_reduction(kind)) {
        constexpr const char* kReductions[] = {"sum", "product", "max", "min", "average"};
        text += fmt::format(" {}", reduction < 5 ? kReductions[reduction] : "premultiplied sum");
    }
    if (kind == NcclKind::broadcast || kind == NcclKind::reduce) {
        text += fmt::format(" root {}", root);
    } else if (kind == NcclKind::send || kind == NcclKind::receive) {
        text += fmt::format(" peer {}", root);
    }
    return text;
}

std::vector<std::byte> NcclPart::contribution() const {
    std::vector<std::byte> bytes(operation_.input_bytes());
    if (!bytes.empty()) {
        std::memcpy(bytes.data(), pointer(operation_.input), bytes.size());
    }
    const std::size_t elements = bytes.size() / element_bytes(operation_.type);
    if (is_reduction(operation_.kind)) {
        const Communicator& communicator = *operation_.communicator;
        if (operation_.reduction == kNcclAverage && is_floating(operation_.type)) {
            multiply(bytes.data(), elements, operation_.type, one_divided_by(communicator.ranks, operation_.type));
        } else if (operation_.reduction > kNcclAverage) {
            multiply(bytes.data(), elements, operation_.type, operation_.factor);
        }
    }
    return bytes;
}

OperationHeader NcclPart::header() const {
    const bool has_root = operation_.kind == NcclKind::broadcast || operation_.kind == NcclKind::reduce;
    return {.kind = static_cast<std::int32_t>(operation_.kind),
            .type = operation_.type,
            // A premultiplied sum is a user's reduction, whose number may differ between the ranks. So all
            // premultiplied sums get the same number here.
            .reduction = is_reduction(operation_.kind) ? std::min(operation_.reduction, kNcclAverage + 1) : 0,
            .root = has_root ? operation_.root : 0,
            .count = operation_.count,
            .registered = operation_.registered};
}

bool NcclPart::post() {
    const Communicator& communicator = *operation_.communicator;
    if (operation_.kind == NcclKind::send) {
        const int peer = operation_.root;
        return communicator.pair(communicator.rank, peer).post(number_, header(), contribution(), peer, peer + 1);
    }
    return communicator.own().box.post(number_, header(), contribution(), 0, communicator.ranks);
}

/// NCCL User Guide, "Collective Operations": all ranks must call an operation with the same count and datatype.
/// Otherwise the behaviour is undefined, and the operation may hang. Here it always hangs, because a test can see this.
bool NcclPart::all_have_posted() {
    const Communicator& communicator = *operation_.communicator;
    for (int rank = 0; rank < communicator.ranks; ++rank) {
        const Box& box = communicator.member(rank).box;
        if (!box.has(number_)) {
            return false;
        }
        if (box.header(number_) != header()) {
            if (!has_complained_) {
                const OperationHeader other = box.header(number_);
                report_registration(other, rank);
                Machine::instance().report(fmt::format(
                    "Rank {} calls {}, but rank {} calls {} {} {} as operation {} of the same communicator. NCCL hangs "
                    "then.",
                    communicator.rank, operation_.describe(), rank, function_name(static_cast<NcclKind>(other.kind)),
                    other.count, type_name(other.type), number_));
            }
            has_complained_ = true;
            return false;
        }
    }
    return true;
}

/// NCCL User Guide, "User Buffer Registration": "if any rank in a communicator passes registered buffers to a NCCL
/// communication function, all other ranks in the same communicator must pass their registered buffers". For NVLink
/// SHARP: "Offset to the head address of the buffer is the same in collectives for each rank."
void NcclPart::report_registration(const OperationHeader& other, int rank) const {
    if (other.registered != header().registered) {
        Machine::instance().report(fmt::format(
            "Rank {} calls {} with {}, and rank {} with {}. All ranks must pass registered memory, with the same "
            "offsets, or none.",
            operation_.communicator->rank, operation_.describe(),
            operation_.registered == 0 ? "memory that is not registered"
                                       : fmt::format("registered memory ({:#x})", operation_.registered),
            rank,
            other.registered == 0 ? "memory that is not registered"
                                  : fmt::format("registered memory ({:#x})", other.registered)));
    }
}

void NcclPart::write(std::size_t offset, const std::vector<std::byte>& bytes) const {
    if (!bytes.empty()) {
        std::memcpy(pointer(operation_.output) + offset, bytes.data(), bytes.size());
    }
}

/// Reduces the elements from number `first` on, over all ranks in the order of the ranks, so that all ranks get the
/// same bits.
bool NcclPart::reduce(std::size_t first, std::size_t count) {
    const Communicator& communicator = *operation_.communicator;
    const std::size_t size = element_bytes(operation_.type);
    const NcclReduction reduction = operation_.reduction >= kNcclAverage ? kNcclSum : operation_.reduction;
    std::vector<std::byte> sum;
    for (int rank = 0; rank < communicator.ranks; ++rank) {
        const auto values = communicator.member(rank).box.read(number_);
        if (!values.has_value()) {
            return false;
        }
        const std::byte* begin = values->data() + first * size;
        if (rank == 0) {
            sum.assign(begin, begin + count * size);
        } else {
            combine(sum.data(), begin, count, operation_.type, reduction);
        }
    }
    if (operation_.reduction == kNcclAverage && !is_floating(operation_.type)) {
        divide(sum.data(), count, operation_.type, communicator.ranks);
    }
    write(0, sum);
    return true;
}

/// Calculates the result. Returns false if the contribution of another rank is lost, because that rank's process has
/// ended.
bool NcclPart::calculate() {
    const Communicator& communicator = *operation_.communicator;
    switch (operation_.kind) {
        case NcclKind::all_reduce:
            return reduce(0, operation_.count);
        case NcclKind::reduce:
            return communicator.rank != operation_.root || reduce(0, operation_.count);
        case NcclKind::reduce_scatter:
            return reduce(static_cast<std::size_t>(communicator.rank) * operation_.count, operation_.count);
        case NcclKind::broadcast: {
            const auto bytes = communicator.member(operation_.root).box.read(number_);
            if (bytes.has_value()) {
                write(0, *bytes);
            }
            return bytes.has_value();
        }
        default:
            break;
    }
    for (int rank = 0; rank < communicator.ranks; ++rank) {
        const auto bytes = communicator.member(rank).box.read(number_);
        if (!bytes.has_value()) {
            return false;
        }
        write(static_cast<std::size_t>(rank) * operation_.bytes(), *bytes);
    }
    return true;
}

bool NcclPart::progress_collective() {
    if (!is_posted_) {
        is_posted_ = post();
    }
    if (!is_posted_ || !all_have_posted() || !calculate()) {
        return false;
    }
    const Communicator& communicator = *operation_.communicator;
    for (int rank = 0; rank < communicator.ranks; ++rank) {
        communicator.member(rank).box.consume(number_, communicator.rank);
    }
    return true;
}

bool NcclPart::progress_receive() {
    const Communicator& communicator = *operation_.communicator;
    Box& box = communicator.pair(operation_.root, communicator.rank);
    if (!box.has(number_)) {
        return false;
    }
    const auto bytes = box.read(number_);
    if (!bytes.has_value()) {
        return false;
    }
    if (!has_complained_ && box.header(number_).registered != operation_.registered) {
        report_registration(box.header(number_), operation_.root);
        has_complained_ = true;
    }
    if (bytes->size() != operation_.bytes()) {
        if (!has_complained_) {
            Machine::instance().report(fmt::format("Rank {} calls {}, but the other rank sends {} bytes",
                                                   communicator.rank, operation_.describe(), bytes->size()));
        }
        has_complained_ = true;
        return false;
    }
    write(0, *bytes);
    box.consume(number_, communicator.rank);
    return true;
}

bool NcclPart::progress() {
    if (!is_over_) {
        switch (operation_.kind) {
            case NcclKind::send: {
                // NCCL User Guide, "ncclSend": the operation blocks the GPU. Assumption: it ends when the receiver has
                // the data. NCCL does not say when a send ends. Here it ends as late as possible, so a program that
                // relies on buffered messages hangs.
                const Communicator& communicator = *operation_.communicator;
                const int peer = operation_.root;
                is_posted_ = is_posted_ || post();
                is_over_ = is_posted_ && communicator.pair(communicator.rank, peer).is_consumed(number_, peer);
                break;
            }
            case NcclKind::receive:
                is_over_ = progress_receive();
                break;
            default:
                is_over_ = progress_collective();
        }
    }
    return is_over_;
}

/// Assumption: the kernels of a communicator run one after the other. The maintainers of NCCL say so
/// (github.com/NVIDIA/nccl/issues/212), but the user guide does not promise it. So this order counts only for the
/// execution, and not for the detection of races.
bool NcclKernel::may_start() {
    return previous_ == nullptr || previous_->done || communicator_->aborted.load(std::memory_order_acquire);
}

std::vector<Range> NcclKernel::ranges() {
    std::vector<Range> ranges;
    for (const NcclPart& part : parts_) {
        const NcclOperation& operation = part.operation();
        ranges.push_back({.address = operation.input, .bytes = operation.input_bytes(), .write = false});
        ranges.push_back({.address = operation.output, .bytes = operation.output_bytes(), .write = true});
    }
    return ranges;
}

void NcclKernel::begin() {
    Machine& machine = Machine::instance();
    const std::lock_guard lock(machine.mutex);
    for (const NcclPart& part : parts_) {
        machine.nccl_operations.push_back(part.operation().describe());
    }
    if (failure_ != kNcclSuccess) {
        communicator_->set_error(failure_, "the stand-in made this operation fail");
    }
}

/// Overwrites a part of each output of an aborted operation. Assumption: a real abort may leave partly written results.
/// The NCCL User Guide does not say what an abort leaves.
void NcclKernel::spoil_outputs() {
    for (const NcclPart& part : parts_) {
        const NcclOperation& operation = part.operation();
        std::memset(pointer(operation.output), 0xAB, operation.output_bytes() / 2);
    }
}

bool NcclKernel::run() {
    if (!std::exchange(has_begun_, true)) {
        begin();
    }
    if (communicator_->aborted.load(std::memory_order_acquire)) {
        spoil_outputs();
        return true;
    }
    if (failure_ != kNcclSuccess) {
        return false;
    }
    bool is_over = true;
    for (NcclPart& part : parts_) {
        is_over = part.progress() && is_over;
    }
    return is_over;
}

void NcclKernel::drop() {
    Machine& machine = Machine::instance();
    const std::lock_guard lock(machine.mutex);
    if (communicator_->error == kNcclSuccess) {
        communicator_->set_error(kNcclUnhandledCudaError, "the device is broken");
    }
}

}  // namespace rueda::tests::gpu
