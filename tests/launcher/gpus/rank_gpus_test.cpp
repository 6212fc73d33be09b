// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/gpus/rank_gpus.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "launcher/plan/describe_plan.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {
namespace {

TEST_CASE("the GPUs of a host survive the journey to ruedarun", "[unit]") {
    const std::vector<base::MachineGpu> machine(3);
    for (const char* const variable : {"2,0", "", "1,x"}) {
        const base::VisibleGpus visible = base::visible_gpus(std::string(variable), machine);
        const base::VisibleGpus same = decode_gpus(encode_gpus(visible));
        CHECK(same.entries == visible.entries);
        CHECK(same.variable == visible.variable);
        CHECK(same.problem == visible.problem);
        CHECK(same.on_machine == 3);
    }
    CHECK_FALSE(decode_gpus(encode_gpus(base::visible_gpus({}, machine))).variable);
    CHECK(encode_gpus(base::visible_gpus("a\nb\tc", machine)).find('\n') == std::string::npos);
    CHECK(decode_gpus("").entries.empty());
    CHECK(decode_gpus("x\t0,1").on_machine == 0);
}

TEST_CASE("the arguments of a supervisor say how GPUs are divided", "[unit]") {
    CHECK(words_of({}).empty());
    CHECK(words_of({0, true}).empty());
    const std::vector<std::string> words = words_of({2, true});
    CHECK(words == std::vector<std::string>{"--gpus-per-rank=2", "--share-gpu"});
    CHECK(read_rank_gpus(words).per_rank == 2);
    CHECK(read_rank_gpus(words).share);
    CHECK(read_rank_gpus(std::vector<std::string>{"RANK"}).per_rank == 0);
    CHECK(is_word_about_gpus("--share-gpu"));
    CHECK_FALSE(is_word_about_gpus("RANK"));
}

Options four_ranks(int gpus_per_rank, bool share = false) {
    Options options;
    options.ranks = 4;
    options.program = {"./train"};
    options.gpus_per_rank = gpus_per_rank;
    options.share_gpu = share;
    return options;
}

Surroundings machine_of_four_gpus() {
    Surroundings around;
    around.mpi = MpiLauncher{"/usr/bin/mpirun", MpiKind::open_mpi, "Open MPI 4.1.4"};
    around.own_path = "/usr/bin/ruedarun";
    around.gpus.resize(4);
    return around;
}

bool reasons_contain(const LaunchPlan& plan, const std::string& text) {
    return std::any_of(plan.reasons.begin(), plan.reasons.end(),
                       [&](const std::string& reason) { return reason.find(text) != std::string::npos; });
}

TEST_CASE("a plan for this host divides its GPUs", "[unit]") {
    Surroundings around = machine_of_four_gpus();
    const Result<LaunchPlan> plan = make_plan(four_ranks(1), around);
    REQUIRE(plan.is_ok());
    CHECK(plan.value().devices == std::vector<std::string>{"0", "1", "2", "3"});
    CHECK(changed_environment({}, rank_environment(plan.value(), 2)).at("CUDA_VISIBLE_DEVICES") == "2");
    CHECK(changed_environment({}, plan.value().environment).at("RUEDA_GPUS_PER_RANK") == "1");
    CHECK(reasons_contain(plan.value(), "CUDA_VISIBLE_DEVICES: one GPU for each rank, of 4 GPUs"));
    CHECK(describe_as_shell(plan.value()).find("# rank 3 gets CUDA_VISIBLE_DEVICES=3\n") != std::string::npos);
    const std::vector<std::string>& mpirun = plan.value().mpirun;
    CHECK(std::find(mpirun.begin(), mpirun.end(), "--gpus-per-rank=1") != mpirun.end());

    around.environment["CUDA_VISIBLE_DEVICES"] = "3,1";
    const Result<LaunchPlan> refused = make_plan(four_ranks(1), around);
    CHECK(refused.status().code() == ErrorCode::invalid_argument);
    CHECK(refused.status().message().find("but 2 GPUs (CUDA_VISIBLE_DEVICES is '3,1')") != std::string::npos);
    const Result<LaunchPlan> shared = make_plan(four_ranks(1, true), around);
    REQUIRE(shared.is_ok());
    CHECK(shared.value().devices == std::vector<std::string>{"3", "3", "1", "1"});
    CHECK(changed_environment({}, shared.value().environment).at("RUEDA_SHARE_GPU") == "1");
}

TEST_CASE("a plan for several hosts leaves the GPUs to the hosts", "[unit]") {
    Surroundings around = machine_of_four_gpus();
    around.gpus.clear();
    Options options = four_ranks(2);
    options.hosts = "a:2,b:2";
    const Result<LaunchPlan> plan = make_plan(options, around);
    REQUIRE(plan.is_ok());
    CHECK(plan.value().devices.empty());
    CHECK(plan.value().gpus.per_rank == 2);
    CHECK(reasons_contain(plan.value(), "each rank gets 2 of the GPUs of its host"));
    CHECK(
        describe_as_shell(plan.value()).starts_with("# each rank gets 2 of its host's GPUs by CUDA_VISIBLE_DEVICES; "));
}

TEST_CASE("without the option each rank sees all GPUs", "[unit]") {
    Options options = four_ranks(1);
    options.gpus_per_rank.reset();
    Surroundings around = machine_of_four_gpus();
    around.environment["RUEDA_GPUS_PER_RANK"] = "1";  // this variable describes an outer job
    const Result<LaunchPlan> plan = make_plan(options, around);
    REQUIRE(plan.is_ok());
    CHECK(plan.value().devices.empty());
    REQUIRE(plan.value().notes.size() == 1);
    CHECK(plan.value().notes.front().starts_with("RUEDA_GPUS_PER_RANK is set in the environment and is removed"));
    CHECK_FALSE(changed_environment(around.environment, plan.value().environment).contains("RUEDA_GPUS_PER_RANK"));
    CHECK_FALSE(changed_environment({}, rank_environment(plan.value(), 2)).contains("CUDA_VISIBLE_DEVICES"));
    options.exported.push_back({"RUEDA_GPUS_PER_RANK", "2"});
    const Result<LaunchPlan> by_user = make_plan(options, around);
    REQUIRE(by_user.is_ok());
    CHECK(changed_environment({}, by_user.value().environment).at("RUEDA_GPUS_PER_RANK") == "2");
    CHECK(by_user.value().gpus.per_rank == 0);
}

}  // namespace
}  // namespace rueda::launcher
