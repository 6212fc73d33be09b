// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// What Rueda tells about operations that a device has got and not done.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>

#include "tests/core/devices/device_rank.hpp"
#include "tests/support/check_passed.hpp"
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
            rank.context().report("error", ended.message());
            RUEDA_RANK_CHECK(has_text(ended,
                                      "the allreduce of tensor 'x' was launched on the GPUs of all ranks and is "
                                      "not done after"));
            RUEDA_RANK_CHECK(has_text(ended, "; not done by the GPUs of: ranks 0, 1, 2; "));
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
            rank.allreduce("x", data, 1);  // connects
            rank.synchronize();
            rank.meet("connected");
            if (rank.rank() == 0) {
                gpu::hold_device(1);
            }
            rank.meet("held");
            rank.write(data, std::array{2.0F});  // rank 1's stream does not come to this copy
            core::Completion completion;
            rank.start_allreduce("y", data, 1, completion).throw_if_failed();
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

}  // namespace
}  // namespace rueda::tests
