// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests what Rueda reports about operations that were given to a device and have not ended.
#include <array>
#include <barrier>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "collectives/host/arena/arena.hpp"
#include "core/messages/operation.hpp"
#include "tests/core/devices/device_rank.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

bool has_text(const Status& status, const char* text) { return status.message().find(text) != std::string::npos; }

base::Config impatient() {
    base::Config config = DeviceRank::settings();
    config.stall_warning_seconds = 0.2;
    config.stall_shutdown_seconds = 0.6;
    config.liveness_seconds = 0.05;
    return config;
}

TEST_CASE("a device that hangs ends the job after the shutdown time, and the reason names its rank", "[diagnostics]") {
    run_on_devices(
        3,
        [](DeviceRank& rank) {
            float* const data = rank.put(std::array{1.0F});
            core::Completion completion;
            rank.launch_while_held(/*device=*/1, data, completion);
            const auto began = std::chrono::steady_clock::now();
            const Status ended = rank.runtime().wait(completion, 20);
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
            RUEDA_RANK_CHECK(ended.code() == ErrorCode::aborted);
            RUEDA_RANK_CHECK(has_text(ended,
                                      "the allreduce of tensor 'x' was launched on the GPUs of all ranks and is "
                                      "not done after"));
            RUEDA_RANK_CHECK(has_text(ended, "; not done by the GPUs of: ranks 0-2; "));
            RUEDA_RANK_CHECK(took.count() < 10);
            rank.meet("aborted");
            if (rank.rank() == 0) {
                gpu::release_device(1);
            }
        },
        impatient());
}

TEST_CASE("a program's own work that hangs on a device is named", "[diagnostics]") {
    run_on_devices(
        2,
        [](DeviceRank& rank) {
            float* const data = rank.put(std::array{1.0F});
            rank.connect_and_hold(/*device=*/1, data);
            rank.write(data, std::array{2.0F});  // rank 1's stream is held back before this copy
            core::Completion completion;
            rank.start_allreduce("y", data, 1, completion).throw_if_failed();
            // the memory must not be freed before the operation has ended
            rank.wait_on_stream(completion).throw_if_failed();
            const Status ended = rank.runtime().wait(completion, 20);
            RUEDA_RANK_CHECK(ended.code() == ErrorCode::aborted);
            RUEDA_RANK_CHECK(has_text(ended,
                                      "the GPU of rank 1 has not done the work that the program put into its "
                                      "stream before the call"));
            rank.meet("aborted");
            if (rank.rank() == 0) {
                gpu::release_device(1);
            }
        },
        impatient());
}

void start_message_on_device(DeviceRank& rank, bool sends, float* data, int peer, core::Completion& completion) {
    core::MessageRequest request;
    const auto set = rank.runtime().shared_world();
    request.sends = sends;
    request.peer = peer;
    request.tag = 5;
    request.set = {set, &set->identity()};
    request.dtype = DType::float32;
    request.bytes = sizeof(float);
    request.memory = reinterpret_cast<std::byte*>(data);
    rank.runtime().use_device(rank.stream(), request).throw_if_failed();
    if (!sends) {
        completion.expect_launches(1);
    }
    rank.runtime().start(std::move(request), completion).throw_if_failed();
}

TEST_CASE("a message that waits for the GPU of its own rank is not blamed on the other rank", "[diagnostics]") {
    const bool sends = GENERATE(true, false);
    run_on_devices(
        2,
        [sends](DeviceRank& rank) {
            float* const data = rank.put(std::array{1.0F});
            rank.synchronize();
            core::Completion completion;
            if (rank.rank() == 1) {
                if (!sends) {
                    start_message_on_device(rank, true, data, 0, completion);
                    rank.runtime().wait(completion, 20).throw_if_failed();
                }
                rank.meet("aborted");
                return;
            }
            gpu::hold_device(0);
            rank.write(data, std::array{2.0F});  // the stream is held back before this copy
            start_message_on_device(rank, sends, data, 1, completion);
            if (!sends) {
                rank.wait_on_stream(completion).throw_if_failed();  // the message has arrived
            }
            const Status ended = rank.runtime().wait(completion, 20);
            RUEDA_RANK_CHECK(ended.code() == ErrorCode::aborted);
            RUEDA_RANK_CHECK(has_text(ended, sends ? "send to rank 1, tag 5 (waits for the work of GPU 0) has waited "
                                                     "for the GPU of rank 0 for "
                                                   : "receive from rank 1, tag 5 (waits for the work of GPU 0) has "
                                                     "waited for the GPU of rank 0 for "));
            gpu::release_device(0);
            rank.meet("aborted");
        },
        impatient());
}

TEST_CASE("a program's own work that hangs is named if its tensor moves through the host's memory", "[diagnostics]") {
    base::Config config = impatient();
    config.gpu_path = base::GpuPath::host;
    run_on_devices(
        2,
        [](DeviceRank& rank) {
            float* const data = rank.put(std::array{1.0F});
            rank.connect_and_hold(/*device=*/1, data);
            rank.write(data, std::array{2.0F});  // rank 1's stream is held back before this copy
            core::Completion completion;
            rank.start_allreduce("y", data, 1, completion).throw_if_failed();
            const Status ended = rank.runtime().wait(completion, 20);
            RUEDA_RANK_CHECK(ended.code() == ErrorCode::aborted);
            RUEDA_RANK_CHECK(has_text(ended, "tensor 'y' was announced by all ranks and is not done after"));
            RUEDA_RANK_CHECK(has_text(ended,
                                      "the GPU of rank 1 has not done the work that the program put into its "
                                      "stream before the call"));
            rank.meet("aborted");
            if (rank.rank() == 0) {
                gpu::release_device(1);
            }
        },
        config);
}

TEST_CASE("the flight recorder knows launched operations", "[diagnostics]") {
    run_on_devices(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        core::Completion completion;
        rank.launch_while_held(/*device=*/0, data, completion);
        const auto last = [&] {
            const collectives::Arena& arena = *rank.runtime().arena();
            return base::RecorderReader(*arena.recorder(arena.rank())).operations(1).back();
        };
        RUEDA_RANK_CHECK(last().name == "x" && last().is_launched && !last().ended_ns);
        rank.meet("seen");
        if (rank.rank() == 0) {
            gpu::release_device(0);
        }
        rank.runtime().wait(completion, 20).throw_if_failed();
        RUEDA_RANK_CHECK(last().ended_ns.has_value() && last().status == 0 && last().is_launched);
    });
}

/// Returns the names of those events in a timeline that show a part of an operation's execution.
std::set<std::string> parts_of_executions(const std::string& path) {
    std::ifstream file(path);
    std::set<std::string> names;
    for (const auto& event : nlohmann::json::parse(file)) {
        if (event.value("cat", "") == "part") {
            names.insert(event["name"]);
        }
    }
    return names;
}

TEST_CASE("a timeline names the copies of a tensor that moves through the host's memory", "[diagnostics]") {
    const tests::Folder folder;
    base::Config config = DeviceRank::settings();
    config.gpu_path = base::GpuPath::host;
    config.timeline = (folder.path() / "timeline.json").string();
    run_on_devices(
        2,
        [](DeviceRank& rank) {
            float* const data = rank.put(std::vector<float>(1000, 1.0F));
            for (int step = 0; step < 3; ++step) {
                rank.allreduce("gradient", data, 1000);
            }
            rank.synchronize();
            core::Completion joined;  // a join, which ends all operations before the job ends
            rank.runtime().start_join(joined, /*counted=*/false).throw_if_failed();
            rank.runtime().wait(joined, 20).throw_if_failed();
        },
        config);
    const std::set<std::string> names = parts_of_executions(config.timeline);
    CAPTURE(names);
    CHECK(names.contains("COPY_IN"));
    CHECK(names.contains("waiting for the GPU or NCCL"));
    CHECK_FALSE(names.contains("waiting for other hosts"));
}

/// Returns the spans in the timeline's rows for the GPUs, by rank.
std::map<int, std::vector<nlohmann::json>> spans_of_gpus(const std::string& path) {
    std::ifstream file(path);
    const auto events = nlohmann::json::parse(file);
    std::map<std::pair<int, int>, std::string> rows;
    std::map<int, std::vector<nlohmann::json>> spans;
    for (const auto& event : events) {
        if (event.value("name", "") == "thread_name") {
            rows[{event["pid"], event["tid"]}] = event["args"]["name"];
        }
    }
    for (const auto& event : events) {
        const int rank = event.value("pid", -1);
        if (event.value("ph", "") == "X" && rows[{rank, event.value("tid", -1)}] == "GPU " + std::to_string(rank)) {
            spans[rank].push_back(event);
        }
    }
    return spans;
}

/// Two ranks reduce a tensor until the clocks of both GPUs are measured. On a busy machine, this takes several tries,
/// with a second between them.
class MeasuredSteps {
public:
    /// Takes at least `least` steps. If `measured` is true, takes more steps until the clocks of both GPUs are
    /// measured.
    MeasuredSteps(std::size_t least, bool measured) : least_(least), measured_(measured) {}

    void run(DeviceRank& rank) {
        float* const data = rank.put(std::vector<float>(10, 1.0F));
        while (!is_over_) {
            rank.allreduce("gradient", data, 10);
            rank.synchronize();
            barrier_.arrive_and_wait();  // when both ranks are here, decide() chooses whether they make another step
        }
        core::Completion joined;  // all operations end before the job ends
        rank.runtime().start_join(joined, /*counted=*/false).throw_if_failed();
        rank.runtime().wait(joined, 20).throw_if_failed();
    }

private:
    /// If the library calls cuEventElapsedTime() more than eight times in three steps, both devices are measured. The
    /// library makes two calls for each measured batch. With only one measured device, it would make six calls for the
    /// batches of the three steps. It could make two more calls for the batch before these steps, because it may notice
    /// the end of a batch late.
    void decide() noexcept {
        constexpr std::size_t kMostSteps = 100;
        const std::size_t calls = gpu::calls("cuEventElapsedTime");
        calls_.push_back(calls);
        const std::size_t steps = calls_.size();
        const bool are_measured = steps > 3 && calls - calls_[steps - 4] > 8;
        is_over_ = steps >= least_ && (!measured_ || are_measured || steps == kMostSteps);
        if (measured_ && !is_over_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
    }
    struct Decide {
        MeasuredSteps* steps;
        void operator()() const noexcept { steps->decide(); }
    };

    const std::size_t least_;
    const bool measured_;
    std::vector<std::size_t> calls_;  // after each step
    bool is_over_ = false;            // written by decide() while both ranks are at the barrier
    std::barrier<Decide> barrier_{2, Decide{this}};
};

TEST_CASE("a timeline shows when each GPU worked, and without a timeline nothing is measured", "[diagnostics]") {
    begin_devices();
    const std::size_t before = gpu::calls("cuEventElapsedTime");
    MeasuredSteps without(8, /*measured=*/false);
    run_on_devices(2, [&without](DeviceRank& rank) { without.run(rank); });
    CHECK(gpu::calls("cuEventElapsedTime") == before);

    const tests::Folder folder;
    base::Config config = DeviceRank::settings();
    config.timeline = (folder.path() / "timeline.json").string();
    constexpr std::chrono::milliseconds kDelay{30};
    gpu::delay_operations("ncclAllReduce", kDelay);
    MeasuredSteps measured(4, /*measured=*/true);
    run_on_devices(
        2, [&measured](DeviceRank& rank) { measured.run(rank); }, config);
    gpu::delay_operations("ncclAllReduce", std::chrono::milliseconds(0));
    const auto spans = spans_of_gpus(config.timeline);
    REQUIRE(spans.size() == 2);
    for (const auto& [rank, of_rank] : spans) {
        REQUIRE(of_rank.size() >= 2);
        double end = 0;
        for (const auto& span : of_rank) {
            CHECK(span["name"] == "ALLREDUCE");
            CHECK(span["args"]["gpu"] == rank);
            // Spans of time are in microseconds. A span that would end in the future is shortened. A measurement of the
            // GPU's clock may take 20 ms on a busy machine, and the clock may then be wrong by half of this time.
            CHECK(span["dur"].get<double>() >= 19'000);
            CHECK(span["ts"].get<double>() >= end);
            end = span["ts"].get<double>() + span["dur"].get<double>() - 50;  // the clocks' precision
        }
    }
}

}  // namespace
}  // namespace rueda::tests
