// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// One rank of a job on several hosts.
// hosts_rank layout         prints where it stands, and checks a sum
// hosts_rank steps FOLDER   trains until something ends the job; writes FOLDER/rank<n>: its pid, "running", and the
// error
//                           with the time when it came; ends when FOLDER/done is there
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "rueda/rueda.hpp"

namespace {

int layout() {
    rueda::init();
    auto sum = static_cast<float>(rueda::rank() + 1);
    rueda::allreduce("sum", std::span(&sum, 1), {.op = rueda::ReduceOp::sum});
    std::printf("rank %d of %d: local %d of %d, cross %d of %d, sum %.0f\n", rueda::rank(), rueda::size(),
                rueda::local_rank(), rueda::local_size(), rueda::cross_rank(), rueda::cross_size(),
                static_cast<double>(sum));
    std::fflush(stdout);
    rueda::shutdown();
    return 0;
}

double seconds_of_the_clock() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Both kinds of tensors between hosts, small and large.
void step(std::vector<float>& gradient) {
    float loss = 1;
    auto handle = rueda::allreduce_async("gradient", gradient);
    rueda::allreduce("loss", std::span(&loss, 1));
    handle.wait();
}

int steps(const std::filesystem::path& folder) {
    rueda::init();
    const auto written = folder / ("rank" + std::to_string(rueda::rank()));
    std::ofstream report(written.string() + ".new");
    report << "pid " << ::getpid() << std::endl;
    std::vector<float> gradient(300'000, 1.0F);
    try {
        for (int number = 0;; ++number) {
            step(gradient);
            if (number == 20) {
                report << "running" << std::endl;
                std::filesystem::rename(written.string() + ".new", written);
            }
        }
    } catch (const rueda::Error& error) {
        report << "error " << std::to_string(seconds_of_the_clock()) << ' ' << name_of(error.code()) << ": "
               << error.what() << std::endl;
    }
    // Under some launchers the first rank that ends takes the others with it, before they could report.
    while (!std::filesystem::exists(folder / "done")) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    try {
        if (words.size() == 1 && words[0] == "layout") {
            return layout();
        }
        if (words.size() == 2 && words[0] == "steps") {
            return steps(words[1]);
        }
        std::fprintf(stderr, "hosts_rank layout | steps FOLDER\n");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return 2;
}
