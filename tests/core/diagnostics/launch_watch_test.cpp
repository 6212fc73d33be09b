// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/launch_watch.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/cuda/plugin_interface.hpp"
#include "core/diagnostics/batch_watch.hpp"
#include "core/negotiation/device_state.hpp"
#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
using Phase = DeviceState::Phase;
using Inputs = DeviceState::Inputs;
using Call = collectives::DeviceCall;

/// A job of three ranks with one GPU each. This process plays all of them.
struct GpuJob {
    Members set{{.members = 3, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 8}};
    std::unique_ptr<base::ControlBlock> control = std::make_unique<base::ControlBlock>();
    std::vector<std::int32_t> elsewhere{};
    double shutdown_seconds = 0;

    GpuJob() {
        for (std::uint32_t member = 0; member < 3; ++member) {
            control->ranks[member].pid.store(getpid());
            control->ranks[member].global_rank.store(static_cast<std::int32_t>(member));
        }
        static_cast<void>(Log<base::StdAtomics>(set.memory()).append({EntryKind::call, 2}));
    }
    [[nodiscard]] StallSettings settings() const {
        base::Config config;
        config.stall_warning_seconds = 10;
        config.stall_shutdown_seconds = shutdown_seconds;
        return StallSettings(config);
    }
    [[nodiscard]] LaunchWatch watch(std::uint32_t own) const { return {settings(), *control, set.memory(), own}; }
    [[nodiscard]] std::vector<StallReport::Rank> ranks(std::int64_t now_ns) const {
        return StallMonitor(settings(), *control, 0, set.memory()).account(now_ns).missing_ranks;
    }
    [[nodiscard]] std::optional<StallMonitor::Finding> look(LaunchWatch& watch, std::int64_t now_ns) const {
        return watch.tick(now_ns,
                          {.oldest =
                               [] {
                                   return std::optional(LaunchedBatch{
                                       .position = 0, .since_ns = 1 * kSecond, .name = "w", .others = 2, .device = 0});
                               },
                           .ranks = [this, now_ns] { return ranks(now_ns); },
                           .elsewhere = [this] { return elsewhere; }});
    }
    void beat(std::int64_t at_ns) const {
        for (std::uint32_t member = 0; member < 3; ++member) {
            control->ranks[member].heartbeat_ns.store(at_ns);
        }
    }
    /// Simulates that the member has launched the batch at position 0 on its GPU.
    void launch(std::uint32_t member, Inputs inputs, Call call = Call::unknown) {
        set.catch_up(member);
        auto& cursor = set.memory().cursor(member);
        cursor.device.store(
            DeviceState{.inputs = inputs, .device = static_cast<std::int32_t>(member), .call = call}.word());
        cursor.launched_ns.store(1 * kSecond);
        cursor.launched.store(1);
    }
    void finish(std::uint32_t member) { set.memory().cursor(member).launched.store(0); }
    void begin(std::uint32_t member, Phase phase, std::int32_t awaited_set = -1) {
        set.memory().cursor(member).device.store(
            DeviceState{.phase = phase, .device = static_cast<std::int32_t>(member), .set = awaited_set}.word());
    }
};

TEST_CASE("the state of a rank's GPU is the same after it was stored in one word") {
    const DeviceState state{.phase = Phase::launching, .inputs = Inputs::ready, .device = 7};
    CHECK(DeviceState::of(state.word()) == state);
    const DeviceState waiting{
        .phase = Phase::waits_for_set, .device = 200, .set = 1'000'000, .call = Call::peer_kernels};
    CHECK(DeviceState::of(waiting.word()) == waiting);
    CHECK(DeviceState::of(0) == DeviceState{.phase = Phase::idle, .inputs = Inputs::unknown, .device = -1, .set = -1});
}

TEST_CASE("a launched operation that does not end is reported with what each GPU does") {
    GpuJob job;
    job.launch(0, Inputs::ready, Call::packed_nccl_all_reduce);
    job.launch(1, Inputs::awaited, Call::peer_kernels);
    job.launch(2, Inputs::unknown);
    LaunchWatch watch = job.watch(0);
    LaunchWatch other = job.watch(1);
    for (std::int64_t second = 1; second < 11; ++second) {
        job.beat(second * kSecond);
        REQUIRE_FALSE(job.look(watch, second * kSecond));
        REQUIRE_FALSE(job.look(other, second * kSecond));
    }
    job.finish(2);
    job.beat(13 * kSecond);
    CHECK_FALSE(job.look(other, 13 * kSecond));  // rank 0 reports
    const auto finding = job.look(watch, 13 * kSecond);
    REQUIRE(finding);
    CHECK_FALSE(finding->shut_down);
    CHECK_THAT(finding->text,
               Catch::StartsWith("the allreduce of tensor 'w' and 2 more was launched on the GPUs of all ranks 12 "
                                 "seconds ago and is still not done: a GPU makes no progress\n"
                                 "  Probable cause: the GPU of rank 1 has not done the work that the program put into "
                                 "its stream before the call; a kernel of the program may hang\n"
                                 "  tensor 'w': not done for 12 s; done: rank 2; not done: ranks 0, 1\n"));
    CHECK_THAT(finding->text, Catch::Contains("launched it on GPU 0 12 s ago (ncclAllReduce between two kernels "
                                              "rueda_copy, in Rueda's stream for NCCL); its input is ready, and the "
                                              "GPU has not done it") &&
                                  Catch::Contains("launched it on GPU 1 12 s ago (kernels rueda_reduce and copies, in "
                                                  "Rueda's stream for CUDA IPC); the GPU has not come to it") &&
                                  !Catch::Contains("rank 2 (pid"));
    CHECK_FALSE(job.look(watch, 36 * kSecond));
    job.beat(37 * kSecond);
    CHECK(job.look(watch, 37 * kSecond));  // again, with growing intervals
}

TEST_CASE("while a GPU gets on with its batches, nothing is reported") {
    GpuJob job;
    LaunchWatch watch = job.watch(0);
    for (std::int64_t second = 1; second < 100; ++second) {
        job.launch(0, Inputs::ready);
        job.set.memory().cursor(0).launched.store(static_cast<std::uint64_t>(second));
        job.beat(second * kSecond);
        REQUIRE_FALSE(job.look(watch, second * kSecond));
    }
}

TEST_CASE("the rank whose GPU works on the oldest batch reports") {
    GpuJob job;
    job.launch(0, Inputs::unknown);
    job.launch(1, Inputs::unknown);
    job.launch(2, Inputs::unknown);
    job.set.memory().cursor(0).launched.store(2);  // rank 0 has done the batch and has launched the next one
    LaunchWatch first = job.watch(0);
    LaunchWatch second = job.watch(1);
    static_cast<void>(job.look(first, 1 * kSecond));
    static_cast<void>(job.look(second, 1 * kSecond));
    job.beat(12 * kSecond);
    CHECK_FALSE(job.look(first, 12 * kSecond));
    const auto finding = job.look(second, 12 * kSecond);
    REQUIRE(finding);
    CHECK_THAT(finding->text, Catch::Contains("done: rank 0; not done: ranks 1, 2\n"));
}

TEST_CASE("after the shutdown time a hanging GPU ends the job") {
    GpuJob job;
    job.shutdown_seconds = 15;
    for (std::uint32_t member = 0; member < 3; ++member) {
        job.launch(member, Inputs::ready);
    }
    LaunchWatch watch = job.watch(0);
    static_cast<void>(job.look(watch, 1 * kSecond));
    CHECK(job.look(watch, 11 * kSecond).has_value());
    CHECK_FALSE(job.look(watch, 15 * kSecond));
    const auto finding = job.look(watch, 16 * kSecond);
    REQUIRE(finding);
    CHECK(finding->shut_down);
    CHECK_THAT(finding->text, Catch::StartsWith("the allreduce of tensor 'w' was launched on the GPUs of all ranks and "
                                                "is not done after 15 s, ") &&
                                  Catch::EndsWith("not done by the GPUs of: ranks 0-2; the job is ended"));
    CHECK(finding->ends_job == finding->text);
    CHECK_THAT(finding->report_before, Catch::StartsWith("the allreduce of tensor 'w' and 2 more was launched"));
}

TEST_CASE("a report on several hosts does not claim that the ranks of other hosts have launched a batch") {
    GpuJob job;
    job.shutdown_seconds = 15;
    job.elsewhere = {3, 4};
    for (std::uint32_t member = 0; member < 3; ++member) {
        job.launch(member, Inputs::ready);
    }
    LaunchWatch watch = job.watch(0);
    static_cast<void>(job.look(watch, 1 * kSecond));
    const auto warning = job.look(watch, 11 * kSecond);
    REQUIRE(warning);
    CHECK_THAT(warning->text, Catch::StartsWith("the allreduce of tensor 'w' and 2 more was launched on the GPUs of "
                                                "all ranks of this host 10 seconds ago and is still not done: ") &&
                                  Catch::Contains("\n  ranks 3, 4 are on other hosts, and may not have launched it\n"));
    job.elsewhere = {3};
    const auto end = job.look(watch, 16 * kSecond);
    REQUIRE(end);
    CHECK_THAT(end->text, Catch::StartsWith("the allreduce of tensor 'w' was launched on the GPUs of all ranks of this "
                                            "host and is not done after 15 s, ") &&
                              Catch::EndsWith("not done by the GPUs of: ranks 0-2; rank 3 is on another host, and may "
                                              "not have launched it; the job is ended"));
}

TEST_CASE("a report about a batch in the host's memory names the rank that the others wait for") {
    GpuJob job;
    std::vector<std::uint64_t> moved{4, 4, 1};
    BatchWatch watch(job.settings(), *job.control, job.set.memory(), 0,
                     [&moved](std::uint32_t member) { return moved[member]; });
    const auto look = [&](std::int64_t now_ns) {
        job.beat(now_ns);
        return watch.tick(now_ns, {.ranks = [&job, now_ns] { return job.ranks(now_ns); },
                                   .elsewhere = [&job] { return job.elsewhere; }});
    };
    static_cast<void>(look(1 * kSecond));
    job.begin(0, Phase::on_cpu);
    job.begin(1, Phase::on_cpu);
    job.begin(2, Phase::copies);
    const auto copying = look(12 * kSecond);
    REQUIRE(copying);
    CHECK_THAT(
        copying->text,
        Catch::Contains("\n  Probable cause: rank 2 has not delivered its part: 3 steps behind the rank that has "
                        "done most\n") &&
            Catch::Contains("exchanges the data of GPU 1 with the other ranks through the host's memory") &&
            Catch::Contains("waits for copies between the memory of GPU 2 and the host's memory"));

    job.begin(2, Phase::waits_for_inputs);
    const auto computing = look(60 * kSecond);
    REQUIRE(computing);
    CHECK_THAT(computing->text,
               Catch::Contains("\n  Probable cause: the GPU of rank 2 has not done the work that the program put into "
                               "its stream before the call; a kernel of the program may hang\n") &&
                   Catch::Contains("has announced it, and has not begun it: GPU 2 has not done the work that the "
                                   "program put into its stream before the call") &&
                   !Catch::Contains("has not delivered its part"));

    // With CUDA IPC, the ranks wait for each other on the CPU, too.
    job.begin(0, Phase::meets_peers);
    job.begin(1, Phase::meets_peers);
    job.begin(2, Phase::in_peer_memory);
    const auto sharing = look(200 * kSecond);
    REQUIRE(sharing);
    CHECK_THAT(
        sharing->text,
        Catch::Contains("\n  Probable cause: rank 2 has not delivered its part: 3 steps behind the rank that has "
                        "done most\n") &&
            Catch::Contains("GPU 1 has done its share of a part of it in GPU memory that the ranks share (CUDA "
                            "IPC), and the rank waits for the other ranks") &&
            Catch::Contains("GPU 2 copies or combines a part of it in GPU memory that the ranks share"));

    // With NCCL, the steps of the ranks do not show which rank is the cause.
    job.begin(0, Phase::launching);
    job.begin(1, Phase::launching);
    job.begin(2, Phase::waits_for_turn);
    const auto launching = look(800 * kSecond);
    REQUIRE(launching);
    CHECK_THAT(launching->text, !Catch::Contains("Probable cause"));
}

TEST_CASE("a report about a batch that a rank has not launched says how far each rank is") {
    GpuJob job;
    job.launch(0, Inputs::unknown);
    job.begin(1, Phase::waits_for_turn);
    LaunchWatch first = job.watch(0);
    BatchWatch second(job.settings(), *job.control, job.set.memory(), 1);
    const auto look = [&](std::int64_t now_ns) {
        return second.tick(now_ns, {.ranks = [&job, now_ns] { return job.ranks(now_ns); },
                                    .elsewhere = [&job] { return job.elsewhere; }});
    };
    static_cast<void>(job.look(first, 1 * kSecond));
    static_cast<void>(look(1 * kSecond));
    job.beat(12 * kSecond);
    CHECK_FALSE(job.look(first, 12 * kSecond));  // the rank that has launched the batch reports nothing
    const auto finding = look(12 * kSecond);
    REQUIRE(finding);
    CHECK_THAT(finding->text,
               Catch::Contains("not launched for 11 s; launched: rank 0; not launched: ranks 1, 2\n") &&
                   Catch::Contains("has announced it, and has not launched it: another process set puts its work into "
                                   "the stream of GPU 1") &&
                   Catch::Contains("launched it on GPU 0 11 s ago; the GPU has not done it") &&
                   Catch::Contains("has announced it, and has not launched it: it executes an earlier operation"));
    job.begin(1, Phase::agrees_on_order);
    job.begin(2, Phase::waits_for_set, 4);
    job.beat(60 * kSecond);
    const auto ordering = look(60 * kSecond);
    REQUIRE(ordering);
    CHECK_THAT(ordering->text,
               Catch::Contains("agrees with the other ranks on its place among the operations of all "
                               "process sets") &&
                   Catch::Contains("an operation of process set 4 must be launched before it on GPU 2"));
    job.begin(1, Phase::offering);
    job.begin(2, Phase::connecting);
    job.beat(200 * kSecond);
    const auto connecting = look(200 * kSecond);
    REQUIRE(connecting);
    CHECK_THAT(connecting->text, Catch::Contains("and waits for the offers of all ranks") &&
                                     Catch::Contains("has the offers of all ranks, and connects GPU 2"));
}

}  // namespace
}  // namespace rueda::core::test
