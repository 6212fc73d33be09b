// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Sends and receives of tensors in device memory. They go through memory of the host.
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <vector>

#include "core/messages/operation.hpp"
#include "tests/core/devices/device_rank.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

enum class Memory { host, device };

/// Starts a send or a receive as the C interface does.
void start_message(DeviceRank& rank, bool sends, float* memory, std::size_t count, int peer, int tag,
                   core::Completion& completion, Memory where = Memory::device) {
    core::MessageRequest request;
    const auto set = rank.runtime().shared_world();
    request.sends = sends;
    request.peer = peer;
    request.tag = tag;
    request.set = {set, &set->identity()};
    request.dtype = DType::float32;
    request.bytes = count * sizeof(float);
    request.memory = reinterpret_cast<std::byte*>(memory);
    if (where == Memory::device) {
        rank.runtime().use_device(rank.stream(), request).throw_if_failed();
        if (!sends) {
            completion.expect_launches(1);
        }
    }
    rank.runtime().start(std::move(request), completion).throw_if_failed();
}

std::vector<float> values_of(int rank, std::size_t count) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), static_cast<float>(1000 * rank));
    return values;
}

void wait(DeviceRank& rank, const core::Completion& completion) {
    rank.runtime().wait(completion, 20).throw_if_failed();
}

TEST_CASE("every rank sends to the next one and receives from the one before", "[messages]") {
    const int ranks = GENERATE(1, 2, 3);
    run_on_devices(ranks, [](DeviceRank& rank) {
        const int next = (rank.rank() + 1) % rank.size();
        const int before = (rank.rank() + rank.size() - 1) % rank.size();
        for (const std::size_t count : {1U, 2000U, 3000U, 300'000U}) {
            for (int round = 0; round < 3; ++round) {
                float* const out = rank.put(values_of(rank.rank() + round, count));
                float* const in = rank.garbage(count);
                core::Completion sent;
                core::Completion received;
                start_message(rank, true, out, count, next, 7, sent);
                start_message(rank, false, in, count, before, 7, received);
                rank.wait_on_stream(received).throw_if_failed();
                RUEDA_RANK_CHECK(rank.get(in, count) == values_of(before + round, count));
                wait(rank, sent);
                wait(rank, received);
                RUEDA_RANK_CHECK(received.sender == before);
            }
        }
    });
}

TEST_CASE("a message between a device and the host needs nothing special", "[messages]") {
    run_on_devices(2, [](DeviceRank& rank) {
        constexpr std::size_t kCount = 5000;
        core::Completion completion;
        if (rank.rank() == 0) {
            start_message(rank, true, rank.put(values_of(3, kCount)), kCount, 1, 1, completion);
            wait(rank, completion);
        } else {
            std::vector<float> values(kCount);
            start_message(rank, false, values.data(), kCount, 0, 1, completion, Memory::host);
            wait(rank, completion);
            RUEDA_RANK_CHECK(values == values_of(3, kCount));
        }
    });
}

TEST_CASE("a send waits for its tensor without blocking the program, and later sends do not overtake it",
          "[messages]") {
    run_on_devices(3, [](DeviceRank& rank) {
        std::array<core::Completion, 3> completions;
        std::vector<float> first(10);
        std::vector<float> second(10);
        if (rank.rank() == 0) {
            float* const out = rank.put(values_of(0, 10));
            rank.synchronize();
            gpu::hold_device(0);
            rank.write(out, values_of(1, 10));  // not done until the device goes on
            first = values_of(2, 10);
            start_message(rank, true, out, 10, 1, 5, completions[0]);
            start_message(rank, true, first.data(), 10, 1, 5, completions[1], Memory::host);
            start_message(rank, true, first.data(), 10, 2, 5, completions[2], Memory::host);
            wait(rank, completions[2]);  // the message to another rank is not held up
            RUEDA_RANK_CHECK(!completions[0].done() && !completions[1].done());
        } else {
            const int messages = rank.rank() == 1 ? 2 : 1;
            start_message(rank, false, first.data(), 10, 0, 5, completions[0], Memory::host);
            if (messages == 2) {
                start_message(rank, false, second.data(), 10, 0, 5, completions[1], Memory::host);
            }
        }
        rank.meet("another rank has its message");
        if (rank.rank() == 0) {
            gpu::release_device(0);
            wait(rank, completions[0]);
            wait(rank, completions[1]);
        } else {
            wait(rank, completions[0]);
            RUEDA_RANK_CHECK(first == values_of(rank.rank() == 1 ? 1 : 2, 10));
            if (rank.rank() == 1) {
                wait(rank, completions[1]);
                RUEDA_RANK_CHECK(second == values_of(2, 10));
            }
        }
    });
}

TEST_CASE("a receive overwrites its tensor after the work of the stream, and the host does not wait for the device",
          "[messages]") {
    run_on_devices(2, [](DeviceRank& rank) {
        core::Completion completion;
        if (rank.rank() == 0) {
            start_message(rank, true, rank.put(values_of(4, 10)), 10, 1, 5, completion);
            wait(rank, completion);
            rank.meet("the message has been received");
            return;
        }
        float* const in = rank.garbage(10);
        rank.synchronize();
        gpu::hold_device(1);
        rank.write(in, values_of(9, 10));
        start_message(rank, false, in, 10, 0, 5, completion);
        rank.wait_on_stream(completion).throw_if_failed();
        RUEDA_RANK_CHECK(!completion.done());
        rank.meet("the message has been received");
        gpu::release_device(1);
        RUEDA_RANK_CHECK(rank.get(in, 10) == values_of(4, 10));
        wait(rank, completion);
    });
}

TEST_CASE("a message of another size is a mismatch on both sides, also with wait_on_stream()", "[messages]") {
    run_on_devices(2, [](DeviceRank& rank) {
        core::Completion completion;
        float* const data = rank.put(values_of(0, 10));
        start_message(rank, rank.rank() == 0, data, rank.rank() == 0 ? 10 : 9, 1 - rank.rank(), 5, completion);
        RUEDA_RANK_CHECK(rank.wait_on_stream(completion).code() == ErrorCode::mismatch);
        RUEDA_RANK_CHECK(rank.runtime().wait(completion, 20).code() == ErrorCode::mismatch);
        core::Completion after;
        start_message(rank, rank.rank() == 0, data, 10, 1 - rank.rank(), 5, after);
        wait(rank, after);
    });
}

TEST_CASE("the failure of a copy ends the operation with the driver's error", "[messages]") {
    begin_devices();
    const RanksResult result = run_ranks(1, [](RankContext& context) {
        DeviceRank rank(context, 0);
        float* const data = rank.put(values_of(0, 10));
        rank.synchronize();
        core::Completion sent;
        gpu::fail_call("cuMemcpyAsync", 1, collectives::cuda::kCudaLaunchFailed);
        start_message(rank, true, data, 10, 0, 5, sent);
        const Status status = rank.runtime().wait(sent, 20);
        RUEDA_RANK_CHECK(status.message().find("send to rank 0, tag 5: cuMemcpyAsync failed on GPU 0") == 0);
    });
    check_passed(result);
}

TEST_CASE("a shutdown ends messages that wait for a device", "[messages]") {
    begin_devices();
    const RanksResult result = run_ranks(1, [](RankContext& context) {
        auto rank = std::make_unique<DeviceRank>(context, 0);
        float* const data = rank->put(values_of(0, 10));
        rank->synchronize();
        gpu::hold_device(0);
        rank->write(data, values_of(1, 10));
        core::Completion sent;
        core::Completion received;
        start_message(*rank, true, data, 10, 0, 5, sent);
        start_message(*rank, false, data, 10, 0, 6, received);
        rank->runtime().shutdown().throw_if_failed();
        gpu::release_device(0);
        RUEDA_RANK_CHECK(sent.done() && sent.status().code() == ErrorCode::not_initialized);
        RUEDA_RANK_CHECK(received.done() && received.is_launched() && received.has_failed());
    });
    check_passed(result);
}

}  // namespace
}  // namespace rueda::tests
