// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests JobSummary and use_cores() with any number of ranks. Usage: job_summary_job FOLDER. The exit status is 1 if
// something is wrong.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "rueda/error.hpp"
#include "rueda/rueda.hpp"
#include "rueda/training/cores.hpp"
#include "rueda/training/job_summary.hpp"

namespace {

namespace training = rueda::training;

int failures = 0;

void check(bool is_right, const char* what) {
    if (!is_right) {
        std::printf("rank %d: %s\n", rueda::rank(), what);
        ++failures;
    }
}

/// Rank 0 comes late to barriers until each other rank was blocked for at least 0.2 s. On a busy machine, the other
/// ranks may come late, too, so several barriers may be needed.
void wait_for_rank_0() {
    double blocked = 0;
    for (int round = 0; blocked < 0.2; ++round) {
        if (rueda::rank() == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        rueda::barrier();
        std::vector<double> least = {rueda::rank() == 0 ? 1e9 : rueda::blocked_seconds()};
        rueda::allreduce("least", least, {.op = rueda::ReduceOp::min});
        blocked = least[0];
        if (round == 600) {
            check(false, "a minute of waiting was not counted");
            return;
        }
    }
}

void check_report(const training::JobReport& report, const std::string& folder, const std::string& printed) {
    check(report.ranks.size() == static_cast<std::size_t>(rueda::size()), "a rank is missing");
    check(report.steps() == 3 && report.samples() == 30L * rueda::size(), "wrong numbers of steps or samples");
    for (const training::RankReport& rank : report.ranks) {
        const auto number = &rank - report.ranks.data();
        check(rank.in_communication <= rank.seconds, "a rank was blocked longer than the job ran");
        check(number == 0 || rank.in_communication >= 0.2, "the wait for rank 0 was not counted");
        check(rank.waiting_for_data >= 0.5 + static_cast<double>(number), "the wait for data was not counted");
        check(!rank.host.empty() && rank.host == report.ranks.front().host, "wrong host");
    }
    check((rueda::rank() == 0) == !printed.empty(), "a wrong rank printed the summary");
    if (rueda::rank() != 0) {
        return;
    }
    check(printed == report.text(), "another text was printed");
    check(report.checkpoint && report.checkpoint->step == 3 && report.checkpoint->age >= 0 &&
              report.checkpoint->age <= report.seconds() + 60,
          "wrong checkpoint");
    check(report.checkpoint && report.checkpoint->folder.parent_path() == folder,
          "the checkpoint is in a wrong folder");
    std::ifstream file(folder + "/summary.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    check(text == report.json() + "\n", "the file has other numbers");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        return 2;
    }
    const std::string folder = argv[1];
    bool has_thrown = false;
    try {
        const training::JobSummary too_early;
    } catch (const rueda::NotInitialized&) {
        has_thrown = true;
    }
    check(has_thrown, "JobSummary did not say that init() was not called");
    rueda::init();
    check(rueda::threads_per_rank() >= 1 &&
              rueda::threads_per_rank() <= std::max(1, static_cast<int>(std::thread::hardware_concurrency())),
          "wrong number of threads");
    ::unsetenv("OMP_NUM_THREADS");
    const training::Cores cores = training::use_cores();
    check(cores.threads == rueda::threads_per_rank() && !cores.is_set_by_user, "use_cores() chose another number");
    ::setenv("OMP_NUM_THREADS", "5,2", 1);
    const training::Cores of_user = training::use_cores();
    check(of_user.threads == 5 && of_user.is_set_by_user &&
              of_user.summary == "cores: OMP_NUM_THREADS=5,2 stays as it is",
          "use_cores() does not keep the user's number");
    for (const char* const value : {"abc", "0", "-1", " "}) {
        ::setenv("OMP_NUM_THREADS", value, 1);
        const training::Cores replaced = training::use_cores();
        check(replaced.threads == rueda::threads_per_rank() && !replaced.is_set_by_user &&
                  replaced.summary.ends_with(std::string("; OMP_NUM_THREADS=") + value +
                                             " had no effect, because it is no number above 0"),
              "use_cores() does not replace a value that is no number");
    }
    ::setenv("OMP_NUM_THREADS", " 4 ,2", 1);
    check(training::use_cores().threads == 4, "use_cores() does not read a number with spaces around it");
    {
        training::JobSummary summary;
        training::CheckpointManager manager({.folder = folder});
        std::vector<float> weights = {1.0F, 2.0F};
        const std::vector<training::NamedTensor> model = {{"weights", weights}};
        for (int step = 0; step < 3; ++step) {
            const int samples = summary.waiting_for_data([] { return 10; });
            summary.step(samples);
        }
        summary.waited_for_data(0.5 + rueda::rank());
        wait_for_rank_0();
        manager.save({.step = 3, .model = model});
        std::string printed;
        const training::JobReport report = summary.finish(
            {.checkpoints = &manager, .json = folder + "/summary.json", .print = [&printed](std::string_view text) {
                 printed = text;
             }});
        check_report(report, folder, printed);
        // the default prints the text; a file that cannot be written is only a warning
        static_cast<void>(summary.finish({.json = folder + "/none/summary.json"}));
    }
    rueda::shutdown();
    return failures == 0 ? 0 : 1;
}
