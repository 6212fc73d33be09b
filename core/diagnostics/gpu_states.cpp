// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/gpu_states.hpp"

#include <fmt/format.h>

#include <string>

#include "collectives/cuda/plugin_interface.hpp"
#include "core/diagnostics/seconds.hpp"

namespace rueda::core {
namespace {

std::string text_of_launching(const DeviceState& state) {
    switch (state.phase) {
        case DeviceState::Phase::idle:
            break;
        case DeviceState::Phase::offering:
            return "has announced it, and has not launched it: has offered to connect its GPU with the other ranks' "
                   "GPUs, "
                   "and waits for the offers of all ranks";
        case DeviceState::Phase::connecting:
            return fmt::format(
                "has announced it, and has not launched it: has the offers of all ranks, and connects GPU {} with the "
                "other ranks' GPUs",
                state.device);
        case DeviceState::Phase::agrees_on_order:
            return "has announced it, and has not launched it: agrees with the other ranks on its place among the "
                   "operations of all process sets";
        case DeviceState::Phase::waits_for_set:
            return fmt::format(
                "has announced it, and has not launched it: an operation of process set {} must be launched before it "
                "on GPU {}",
                state.set, state.device);
        case DeviceState::Phase::waits_for_turn:
            return fmt::format(
                "has announced it, and has not launched it: another process set puts its work into the stream of GPU "
                "{}",
                state.device);
        case DeviceState::Phase::launching:
            return fmt::format(
                "has announced it, and has not launched it: connects the ranks anew by NCCL, or puts NCCL's calls into "
                "Rueda's stream for NCCL on GPU {}",
                state.device);
        case DeviceState::Phase::waits_for_inputs:
            return fmt::format(
                "has announced it, and has not begun it: GPU {} has not done the work that the program put into its "
                "stream before the call",
                state.device);
        case DeviceState::Phase::copies:
            return fmt::format(
                "has announced it, and has not done it: waits for copies between the memory of GPU {} and the host's "
                "memory",
                state.device);
        case DeviceState::Phase::on_cpu:
            return fmt::format(
                "has announced it, and has not done it: exchanges the data of GPU {} with the other ranks through the "
                "host's memory",
                state.device);
        case DeviceState::Phase::in_peer_memory:
            return fmt::format(
                "has announced it, and has not done it: GPU {} copies or combines a part of it in GPU memory that the "
                "ranks share (CUDA IPC)",
                state.device);
        case DeviceState::Phase::meets_peers:
            return fmt::format(
                "has announced it, and has not done it: GPU {} has done its share of a part of it in GPU memory that "
                "the ranks share (CUDA IPC), and the rank waits for the other ranks",
                state.device);
    }
    return "has announced it, and has not launched it";
}

/// Names the call and the stream for a person with a debugger or a profiler. The value comes from another process, so
/// it may be none of the enumerators.
const char* text_of_call(collectives::DeviceCall call) {
    using Call = collectives::DeviceCall;
    switch (call) {
        case Call::nccl_all_reduce:
            return " (ncclAllReduce, in Rueda's stream for NCCL)";
        case Call::nccl_broadcast:
            return " (ncclBroadcast, in Rueda's stream for NCCL)";
        case Call::nccl_reduce:
            return " (ncclReduce, in Rueda's stream for NCCL)";
        case Call::nccl_all_gather:
            return " (ncclAllGather, in Rueda's stream for NCCL)";
        case Call::nccl_reduce_scatter:
            return " (ncclReduceScatter, in Rueda's stream for NCCL)";
        case Call::nccl_messages:
            return " (ncclSend and ncclRecv, in Rueda's stream for NCCL)";
        case Call::packed_nccl_all_reduce:
            return " (ncclAllReduce between two kernels rueda_copy, in Rueda's stream for NCCL)";
        case Call::copies:
            return " (copies from the host's memory, in Rueda's stream for copies)";
        case Call::peer_kernels:
            return " (kernels rueda_reduce and copies, in Rueda's stream for CUDA IPC)";
        case Call::unknown:
            break;
    }
    return "";
}

std::string text_on_gpu(const GpuState& state, std::int64_t now_ns) {
    std::string text = fmt::format("launched it on GPU {} {} s ago{}; ", state.state.device,
                                   seconds_text(seconds(now_ns - state.launched_ns)), text_of_call(state.state.call));
    switch (state.state.inputs) {
        case DeviceState::Inputs::unknown:
            break;
        case DeviceState::Inputs::awaited:
            return text +
                   "the GPU has not come to it, because it has not done the work that the program put into its "
                   "stream before the call";
        case DeviceState::Inputs::ready:
            return text + "its input is ready, and the GPU has not done it";
    }
    return text + "the GPU has not done it";
}

}  // namespace

GpuState gpu_state_of(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member, std::uint64_t position) {
    auto& cursor = memory.cursor(member);
    // This acquire load pairs with LogCursor::advance_to(). The other loads are relaxed, because a report is made only
    // seconds after the last change of these values.
    const std::uint64_t read = cursor.position.load(std::memory_order_acquire);
    GpuState state{.state = DeviceState::of(cursor.device.load(std::memory_order_relaxed))};
    const std::uint64_t launched = cursor.launched.load(std::memory_order_relaxed);
    if (read < position) {
        return state;
    }
    if (read == position) {
        state.stage =
            state.state.phase == DeviceState::Phase::idle ? GpuState::Stage::not_begun : GpuState::Stage::launching;
    } else if (launched == 0 || launched > position + 1) {
        state.stage = GpuState::Stage::done;
    } else if (launched < position + 1) {
        state.stage = GpuState::Stage::behind_others;
    } else {
        state.stage = GpuState::Stage::on_gpu;
        state.launched_ns = cursor.launched_ns.load(std::memory_order_relaxed);
    }
    return state;
}

void add_gpu_state(StallReport::Rank& rank, const GpuState& state, std::int64_t now_ns) {
    // The report does not show the rank's last finished operation, because it would mislead the reader: the flight
    // recorder counts an operation as finished as soon as it is launched.
    rank.finished.reset();
    switch (state.stage) {
        case GpuState::Stage::not_begun:
            rank.on_gpu = "has announced it, and has not launched it: it executes an earlier operation";
            break;
        case GpuState::Stage::launching:
            rank.on_gpu = text_of_launching(state.state);
            rank.waits_for_program = state.state.phase == DeviceState::Phase::waits_for_inputs;
            rank.is_on_cpu =
                state.state.phase == DeviceState::Phase::on_cpu || state.state.phase == DeviceState::Phase::meets_peers;
            break;
        case GpuState::Stage::behind_others:
            rank.on_gpu = fmt::format("has launched it; GPU {} has not done an earlier operation", state.state.device);
            break;
        case GpuState::Stage::on_gpu:
            rank.on_gpu = text_on_gpu(state, now_ns);
            rank.waits_for_program = state.state.inputs == DeviceState::Inputs::awaited;
            break;
        case GpuState::Stage::done:
            rank.on_gpu = fmt::format("GPU {} has done it", state.state.device);
            break;
    }
}

}  // namespace rueda::core
