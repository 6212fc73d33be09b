// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests messages with tensors in device memory. These messages move through memory of the host.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
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
                   core::Completion& completion, Memory where = Memory::device,
                   std::shared_ptr<core::ProcessSet> set = nullptr, collectives::cuda::CudaStream stream = nullptr) {
    core::MessageRequest request;
    set = set != nullptr ? std::move(set) : rank.runtime().shared_world();
    request.sends = sends;
    request.peer = peer;
    request.tag = tag;
    request.set = {set, &set->identity()};
    request.dtype = DType::float32;
    request.bytes = count * sizeof(float);
    request.memory = reinterpret_cast<std::byte*>(memory);
    if (where == Memory::device) {
        rueda_device_stream given = rank.stream();
        given.stream = stream != nullptr ? stream : given.stream;
        rank.runtime().use_device(given, request).throw_if_failed();
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

TEST_CASE("memory of Rueda may be given back while it is sent and received", "[messages]") {
    run_on_devices(2, [](DeviceRank& rank) {
        const std::vector<float> values = values_of(3, 500);
        float* const data = rank.allocate_with_rueda(rank.rank() == 0 ? values : std::vector<float>(500));
        core::Completion completion;
        start_message(rank, /*sends=*/rank.rank() == 0, data, 500, 1 - rank.rank(), 1, completion);
        if (rank.rank() == 0) {
            rank.deallocate(data);
        }
        wait(rank, completion);
        if (rank.rank() == 1) {
            RUEDA_RANK_CHECK(rank.get(data, 500) == values);
            core::Completion dropped;
            start_message(rank, /*sends=*/false, data, 500, 0, 2, dropped);
            rank.deallocate(data);
            wait(rank, dropped);
        } else {
            float* const other = rank.put(values);
            core::Completion sent;
            start_message(rank, /*sends=*/true, other, 500, 1, 2, sent);
            wait(rank, sent);
        }
    });
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
            rank.write(out, values_of(1, 10));  // the device is held back, so this write waits until its release
            first = values_of(2, 10);
            start_message(rank, true, out, 10, 1, 5, completions[0]);
            start_message(rank, true, first.data(), 10, 1, 5, completions[1], Memory::host);
            start_message(rank, true, first.data(), 10, 2, 5, completions[2], Memory::host);
            wait(rank, completions[2]);  // the pending message to rank 1 does not delay this message to another rank
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

TEST_CASE("a send that waits for its tensor holds back no send with another tag or process set", "[messages]") {
    run_on_devices(3, [](DeviceRank& rank) {
        const std::array<int, 2> members{0, 1};
        const Result<std::int32_t> added = rank.runtime().process_sets().add(members);
        added.status().throw_if_failed();
        if (rank.rank() == 2) {  // rank 2 exists only so that the set of ranks 0 and 1 is not the world
            rank.meet("the other messages have arrived");
            return;
        }
        const auto set = rank.runtime().process_sets().find(added.value()).value();
        std::array<core::Completion, 4> completions;
        std::array<std::vector<float>, 4> values;
        values.fill(std::vector<float>(10));
        if (rank.rank() == 0) {
            float* const out = rank.put(values_of(0, 10));
            rank.synchronize();
            gpu::hold_device(0);
            // The device is held back, so this write waits. Messages that do not depend on it arrive before the write.
            rank.write(out, values_of(1, 10));
            start_message(rank, true, out, 10, 1, 1, completions[0]);
            for (int i = 1; i < 4; ++i) {
                values[static_cast<std::size_t>(i)] = values_of(i + 1, 10);
            }
            start_message(rank, true, values[1].data(), 10, 1, 2, completions[1], Memory::host);
            start_message(rank, true, values[2].data(), 10, 1, 1, completions[2], Memory::host, set);
            start_message(rank, true, values[3].data(), 10, 1, 1, completions[3], Memory::host);
            wait(rank, completions[1]);
            wait(rank, completions[2]);
            for (const std::size_t held : {0U, 3U}) {
                const Status late = rank.runtime().wait(completions[held], 0.25);
                RUEDA_RANK_CHECK(late.code() == ErrorCode::timeout);
                RUEDA_RANK_CHECK(late.message().find("it waits for the work of GPU 0 of this rank") !=
                                 std::string::npos);
            }
        } else {
            start_message(rank, false, values[0].data(), 10, 0, 1, completions[0], Memory::host);
            start_message(rank, false, values[3].data(), 10, 0, 1, completions[3], Memory::host);
            start_message(rank, false, values[1].data(), 10, 0, 2, completions[1], Memory::host);
            start_message(rank, false, values[2].data(), 10, 0, 1, completions[2], Memory::host, set);
            wait(rank, completions[1]);
            wait(rank, completions[2]);
            RUEDA_RANK_CHECK(!completions[0].done() && !completions[3].done());
        }
        rank.meet("the other messages have arrived");
        if (rank.rank() == 0) {
            gpu::release_device(0);
        }
        wait(rank, completions[0]);
        wait(rank, completions[3]);
        for (int i = 0; i < 4; ++i) {
            RUEDA_RANK_CHECK(rank.rank() == 0 || values[static_cast<std::size_t>(i)] == values_of(i + 1, 10));
        }
    });
}

TEST_CASE("a receive whose tensor is ready does not wait for the stream of another receive", "[messages]") {
    std::atomic<collectives::cuda::CudaEvent> after_other_work{nullptr};  // meet() orders the accesses
    run_on_devices(2, [&after_other_work](DeviceRank& rank) {
        std::array<core::Completion, 2> completions;
        if (rank.rank() == 0) {
            float* const other = rank.put(values_of(0, 10));
            rank.synchronize();
            gpu::hold_device(0);
            rank.write(other, values_of(1, 10));
            collectives::cuda::CudaEvent event = nullptr;
            RUEDA_RANK_CHECK(rank.cuda().event_create(&event, collectives::cuda::kEventDisableTiming) == 0);
            RUEDA_RANK_CHECK(rank.cuda().event_record(event, rank.own_stream()) == 0);
            after_other_work.store(event, std::memory_order_relaxed);
            rank.meet("held");
            rank.meet("both receives are pending");
            std::vector<float> first = values_of(2, 10);
            std::vector<float> second = values_of(3, 10);
            start_message(rank, true, first.data(), 10, 1, 1, completions[0], Memory::host);
            wait(rank, completions[0]);
            start_message(rank, true, second.data(), 10, 1, 2, completions[1], Memory::host);
            wait(rank, completions[1]);
            rank.meet("the second message is on the device");
            gpu::release_device(0);
            rank.meet("the first message is on the device");
            RUEDA_RANK_CHECK(rank.cuda().event_destroy(event) == 0);
            return;
        }
        float* const first = rank.garbage(10);
        float* const second = rank.garbage(10);
        rank.synchronize();
        rank.meet("held");
        collectives::cuda::CudaStream waits = nullptr;
        RUEDA_RANK_CHECK(rank.cuda().stream_create_with_priority(&waits, collectives::cuda::kStreamNonBlocking, 0) ==
                         0);
        RUEDA_RANK_CHECK(rank.cuda().stream_wait_event(waits, after_other_work.load(std::memory_order_relaxed), 0) ==
                         0);
        start_message(rank, false, first, 10, 0, 1, completions[0], Memory::device, nullptr, waits);
        start_message(rank, false, second, 10, 0, 2, completions[1]);
        rank.synchronize();  // the second tensor is ready before its message arrives
        rank.meet("both receives are pending");
        wait(rank, completions[1]);
        RUEDA_RANK_CHECK(!completions[0].done());
        RUEDA_RANK_CHECK(rank.get(second, 10) == values_of(3, 10));
        rank.meet("the second message is on the device");
        wait(rank, completions[0]);
        RUEDA_RANK_CHECK(rank.get(first, 10) == values_of(2, 10));
        rank.meet("the first message is on the device");
        RUEDA_RANK_CHECK(rank.cuda().stream_destroy(waits) == 0);
    });
}

TEST_CASE("the removal of a process set does not wait for messages of other sets", "[messages]") {
    run_on_devices(2, [](DeviceRank& rank) {
        core::Completion completion;
        float* in = nullptr;
        if (rank.rank() == 0) {
            start_message(rank, true, rank.put(values_of(4, 10)), 10, 1, 5, completion);
            wait(rank, completion);
        } else {
            in = rank.garbage(10);
            rank.synchronize();
            gpu::hold_device(1);
            rank.write(in, values_of(9, 10));
            start_message(rank, false, in, 10, 0, 5, completion);
            // the message is copied to the device only after the program's earlier work on the stream
            rank.wait_on_stream(completion).throw_if_failed();
        }
        std::chrono::steady_clock::duration shortest = std::chrono::hours(1);
        // The test checks only the fastest of three removals, because a busy machine may slow down the others.
        for (int i = 0; i < 3; ++i) {
            const std::array<int, 1> members{1};
            const Result<std::int32_t> added = rank.runtime().process_sets().add(members);
            added.status().throw_if_failed();
            const auto began = std::chrono::steady_clock::now();
            rank.runtime().process_sets().remove(added.value()).throw_if_failed();
            shortest = std::min(shortest, std::chrono::steady_clock::now() - began);
        }
        // if the removal waited for the copy, it would take one second, the limit of this wait
        RUEDA_RANK_CHECK(shortest < std::chrono::milliseconds(900));
        rank.meet("removed");
        if (rank.rank() == 1) {
            RUEDA_RANK_CHECK(!completion.done());
            gpu::release_device(1);
            wait(rank, completion);
            RUEDA_RANK_CHECK(rank.get(in, 10) == values_of(4, 10));
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

/// Whether the job was aborted because a copy for the operation `operation` failed.
bool is_end_of_copy(const Status& status, const std::string& operation) {
    return status.code() == ErrorCode::aborted &&
           status.message().find(operation + ": cuMemcpyAsync failed on GPU 0") != std::string::npos;
}

TEST_CASE("the failure of a send's copy ends the job, and no later message takes the place of the send", "[messages]") {
    run_on_devices(2, [](DeviceRank& rank) {
        std::array<core::Completion, 2> completions;
        std::array<std::vector<float>, 2> values{std::vector<float>(10), std::vector<float>(10)};
        if (rank.rank() == 0) {
            float* const out = rank.put(values_of(0, 10));
            rank.synchronize();
            gpu::hold_device(0);
            rank.write(out, values_of(1, 10));
            start_message(rank, true, out, 10, 1, 5, completions[0]);
            values[1] = values_of(2, 10);
            start_message(rank, true, values[1].data(), 10, 1, 5, completions[1], Memory::host);
            rank.meet("all messages are pending");
            gpu::fail_call("cuMemcpyAsync", 1, collectives::cuda::kCudaLaunchFailed);
            gpu::release_device(0);
        } else {
            start_message(rank, false, values[0].data(), 10, 0, 5, completions[0], Memory::host);
            start_message(rank, false, values[1].data(), 10, 0, 5, completions[1], Memory::host);
            rank.meet("all messages are pending");
        }
        for (const core::Completion& completion : completions) {
            RUEDA_RANK_CHECK(is_end_of_copy(rank.runtime().wait(completion, 20), "send to rank 1, tag 5"));
        }
        RUEDA_RANK_CHECK(rank.rank() == 0 || values[0] == std::vector<float>(10));
    });
}

TEST_CASE("the failure of a receive's copy ends the job", "[messages]") {
    run_on_devices(2, [](DeviceRank& rank) {
        core::Completion received;
        std::vector<float> never(10);
        float* const in = rank.garbage(10);
        rank.synchronize();
        rank.meet("no copy is under way");
        if (rank.rank() == 0) {
            gpu::fail_call("cuMemcpyAsync", 1, collectives::cuda::kCudaLaunchFailed);
            start_message(rank, false, in, 10, 1, 5, received);
            RUEDA_RANK_CHECK(is_end_of_copy(rank.wait_on_stream(received), "receive from rank 1, tag 5"));
            RUEDA_RANK_CHECK(received.is_launched() && received.has_failed());
        } else {
            std::vector<float> out = values_of(1, 10);
            core::Completion sent;
            start_message(rank, false, never.data(), 10, 0, 6, received, Memory::host);
            start_message(rank, true, out.data(), 10, 0, 5, sent, Memory::host);
            static_cast<void>(rank.runtime().wait(sent, 20));  // the send may have succeeded before the failure
        }
        RUEDA_RANK_CHECK(is_end_of_copy(rank.runtime().wait(received, 20), "receive from rank 1, tag 5"));
    });
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
