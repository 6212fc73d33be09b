// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// Runs the conformance suite with tensors on simulated GPUs, one for each rank, while calls of the driver and of NCCL
/// fail. Each round makes one job, and lets one call fail. The seed decides which call. All ranks must then get an
/// error in time, and the stand-in must find no misuse. The ranks are threads. The exit status is 0 if this holds in
/// all rounds, and 1 otherwise (with a description on standard error).
///
/// Usage: device_failures RANKS ROUNDS [SEED]. Prints the seed and the call of each round.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/conformance/devices/device_client.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

/// A function that Rueda calls, and that the test's own client does not call.
struct Failing {
    const char* function;
    int result;
    int most;  ///< the seed decides which call of the function fails: number 1 to `most`
};
constexpr std::array kFailing{
    Failing{"ncclAllReduce", collectives::cuda::kNcclSystemError, 60},
    Failing{"ncclBroadcast", collectives::cuda::kNcclRemoteError, 10},
    Failing{"ncclGroupStart", collectives::cuda::kNcclInternalError, 60},
    Failing{"ncclGroupEnd", collectives::cuda::kNcclUnhandledCudaError, 60},
    Failing{"ncclCommGetAsyncError", collectives::cuda::kNcclRemoteError, 200},
    Failing{"ncclCommInitRankConfig", collectives::cuda::kNcclSystemError, 2},
    Failing{"cuEventRecord", collectives::cuda::kCudaOutOfMemory, 200},
    Failing{"cuEventQuery", collectives::cuda::kCudaIllegalAddress, 100},
};
/// If an operation of NCCL fails after its launch, the error of at least one rank must contain this text.
constexpr const char* kOperation = "ncclSystemError";

/// When and with which text a rank's scenarios ended.
struct RankFailure {
    std::string text;
    SteadyTime at;
};

bool has(const RankFailure& failure, std::string_view text) { return failure.text.find(text) != std::string::npos; }
/// Whether the error says that an operation failed because the job ended. The error of a wrong result has another text.
bool is_end_of_job(const RankFailure& failure, std::string_view function) {
    return has(failure, "Aborted") || has(failure, "ResourceExhausted") || has(failure, function);
}

/// Runs the scenarios in an order that the seed decides, until one of them fails. Returns the failure.
RankFailure run_until_failure(RankContext& context, Client& client, std::uint64_t seed) {
    // Without failures, the results of these scenarios differ on GPUs.
    std::vector<Scenario> scenarios = scenarios_on_gpus();
    std::mt19937_64 random(seed);
    std::shuffle(scenarios.begin(), scenarios.end(), random);
    try {
        for (const Scenario& scenario : scenarios) {
            context.phase(scenario.name);
            run_scenarios(client, {&scenario, 1});
        }
    } catch (const std::exception& error) {
        return {error.what(), std::chrono::steady_clock::now()};
    }
    return {{}, std::chrono::steady_clock::now()};
}

std::string describe_next_operation(Client& client) {
    constexpr double kSeconds = 5;  // a limit, because no other rank starts the operation if the job goes on
    float value = 1;
    const Tensor tensor{&value, DType::float32, {1}};
    const auto started = client.call_allreduce(Form::starts, "after the failure", tensor, tensor, {});
    const Status status = started.is_ok() ? started.value()->wait(kSeconds) : started.status();
    return fmt::format("; the next operation: {}: {}", rueda::name_of(status.code()), status.message());
}

/// Returns what is wrong with the failures of the ranks, or an empty string. `name` is the failed function.
std::string complaint_about(const std::vector<RankFailure>& failures, const std::string& name) {
    constexpr std::chrono::seconds kMost{5};  // Rueda promises one second; machines that run tests are busy
    for (std::size_t rank = 0; rank < failures.size(); ++rank) {
        if (!is_end_of_job(failures[rank], name)) {
            return fmt::format("rank {} ended without an abort: '{}'", rank, failures[rank].text);
        }
    }
    if (std::none_of(failures.begin(), failures.end(),
                     [&](const RankFailure& failure) { return has(failure, name); })) {
        return fmt::format("no rank names {}", name);
    }
    const auto [first, last] = std::minmax_element(
        failures.begin(), failures.end(), [](const RankFailure& a, const RankFailure& b) { return a.at < b.at; });
    if (last->at - first->at > kMost) {
        return "the last rank got its error too late";
    }
    return {};
}

/// Runs one job, in which one call fails. Returns what is wrong, or an empty string.
std::string run_round(int ranks, std::mt19937_64& random) {
    const std::size_t draw = random() % (kFailing.size() + 1);
    const std::uint64_t seed = random();
    std::string name;
    if (draw == kFailing.size()) {
        const int nth = 1 + static_cast<int>(random() % 60);
        std::printf("operation %d of NCCL fails\n", nth);
        gpu::fail_operation(nth, collectives::cuda::kNcclSystemError);
        name = kOperation;
    } else {
        const Failing& failing = kFailing.at(draw);
        const int nth = 1 + static_cast<int>(random() % static_cast<std::uint64_t>(failing.most));
        std::printf("call %d of %s fails\n", nth, failing.function);
        gpu::fail_call(failing.function, nth, failing.result);
        name = failing.function;
    }
    static_cast<void>(std::fflush(stdout));
    base::Config config = test_config();
    config.cuda_library = RUEDA_CUDA_PLUGIN_FILE;
    std::vector<RankFailure> failures(static_cast<std::size_t>(ranks));
    const auto body = [&](RankContext& context, RuntimeClient& world) {
        DeviceClient client(world, context.rank(), seed);
        RankFailure failure = run_until_failure(context, client, seed);
        if (!is_end_of_job(failure, name)) {
            // Some scenarios only count failures, without their reasons. A later operation fails for the same reason,
            // so its error is added to the text.
            failure.text += describe_next_operation(world);
        }
        failures[static_cast<std::size_t>(context.rank())] = std::move(failure);
        // The rank ends here, like a program that does not catch an error. The shutdown informs the other ranks.
        static_cast<void>(world.shutdown());
    };
    const RanksResult result = run_clients(ranks, config, body, {.deadline = std::chrono::seconds(60)});
    if (const std::string complaint = complaint_about(failures, name); !complaint.empty()) {
        return complaint + "\n" + result.text();
    }
    std::string text;
    for (const std::string& violation : gpu::violations()) {
        text += "misuse of the driver: " + violation + "\n";
    }
    return gpu::live_communicators() == 0 ? text : text + "communicators are left\n";
}

int run(int ranks, int rounds, std::uint64_t seed) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    gpu::reset(seed, /*devices=*/8);
    gpu::set_delays(std::chrono::microseconds(20));
    std::mt19937_64 random(seed);
    for (int round = 0; round < rounds; ++round) {
        if (const std::string complaint = run_round(ranks, random); !complaint.empty()) {
            std::fprintf(stderr, "seed %llu, round %d: %s\n", static_cast<unsigned long long>(seed), round,
                         complaint.c_str());
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}

}  // namespace
}  // namespace rueda::tests

int main(int argc, char** argv) {
    return rueda::tests::run(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 10,
                             argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
}
