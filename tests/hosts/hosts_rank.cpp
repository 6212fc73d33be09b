// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// One rank of a job on several hosts. In all modes that write to FOLDER, a rank writes to FOLDER/rank<n>.
//
// hosts_rank layout         Prints the rank's position in the job, and checks a sum.
// hosts_rank transfer N     Checks an allreduce of few elements and one of N float32, and prints the seconds of each.
// hosts_rank steps FOLDER   Trains until something ends the job. Writes its pid, "running", and the error with its
//                           time. Ends when FOLDER/done exists.
// hosts_rank wait FOLDER    As "steps", but after some steps the last rank starts no operation, and the other ranks
//                           wait for it.
// hosts_rank again FOLDER STATUS
//                           Runs a job, and then another one in the same processes. The last rank does not join the
//                           second job: it writes "left" and the time, and ends with the exit status STATUS.
// hosts_rank absent FOLDER STATUS
//                           As "again", but without the first job.
// hosts_rank late FOLDER    As "absent", but the last rank does not end before FOLDER/done exists.
// hosts_rank leave FOLDER   Runs a job whose ranks shut down when FOLDER/go exists. Writes "pid", "running", and either
//                           "left" or the error with its time. After an error, the exit status is 1.
// hosts_rank exit FOLDER    As "leave", but the ranks end without a call of shutdown().
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
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

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns integers, so that sums are exact. The integers differ between positions and between ranks.
float value_at(std::size_t place, int rank) {
    return static_cast<float>(place % 1021) + static_cast<float>(rank * (static_cast<int>(place % 7) + 1));
}

double seconds_of_allreduce(const std::string& name, std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
        values[i] = value_at(i, rueda::rank());
    }
    rueda::barrier();
    const double begin = seconds_now();
    rueda::allreduce(name, values, {.op = rueda::ReduceOp::sum});
    const double seconds = seconds_now() - begin;
    for (std::size_t i = 0; i < count; ++i) {
        float expected = 0;
        for (int rank = 0; rank < rueda::size(); ++rank) {
            expected += value_at(i, rank);
        }
        if (values[i] != expected) {
            throw std::runtime_error(name + ": element " + std::to_string(i) + " is " + std::to_string(values[i]) +
                                     "; expected " + std::to_string(expected));
        }
    }
    return seconds;
}

int transfer(std::size_t count) {
    rueda::init();
    const double small = seconds_of_allreduce("small", 2);
    const double large = seconds_of_allreduce("large", count);
    // A single write prints the line, so that the lines of several ranks do not mix.
    std::printf("rank %d: small %.6f large %.6f\n", rueda::rank(), small, large);
    std::fflush(stdout);
    rueda::shutdown();
    return 0;
}

double seconds_of_the_clock() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Reduces a small and a large tensor, which use different algorithms between hosts.
void step(std::vector<float>& gradient) {
    float loss = 1;
    auto handle = rueda::allreduce_async("gradient", gradient);
    rueda::allreduce("loss", std::span(&loss, 1));
    handle.wait();
}

void report_error(std::ofstream& report, const rueda::Error& error) {
    report << "error " << std::to_string(seconds_of_the_clock()) << ' ' << name_of(error.code()) << ": " << error.what()
           << std::endl;
}

void wait_for(const std::filesystem::path& file) {
    while (!std::filesystem::exists(file)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

int steps(const std::filesystem::path& folder, bool last_stays_away) {
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
            while (number == 20 && last_stays_away && rueda::rank() == rueda::size() - 1) {
                ::pause();
            }
        }
    } catch (const rueda::Error& error) {
        report_error(report, error);
    }
    // Some launchers kill the other ranks when the first rank ends, so each rank waits until all ranks have reported.
    wait_for(folder / "done");
    return 1;
}

/// Returns the rank number from the environment of ruedarun or mpirun, which is known before init.
int number_in_environment(const char* of_ruedarun, const char* of_mpirun) {
    const char* const text = std::getenv(of_ruedarun);                  // NOLINT(concurrency-mt-unsafe): one thread
    return std::stoi(text != nullptr ? text : std::getenv(of_mpirun));  // NOLINT(concurrency-mt-unsafe): one thread
}

int leave(const std::filesystem::path& folder, bool calls_shutdown) {
    rueda::init();
    std::ofstream report(folder / ("rank" + std::to_string(rueda::rank())));
    report << "pid " << ::getpid() << std::endl;
    float one = 1;
    rueda::allreduce("one", std::span(&one, 1));
    report << "running" << std::endl;
    wait_for(folder / "go");
    try {
        if (calls_shutdown) {
            rueda::shutdown();
            report << "left" << std::endl;
        }
    } catch (const rueda::Error& error) {
        report_error(report, error);
        return 1;
    }
    return 0;
}

int join_without_the_last(const std::filesystem::path& folder, bool after_a_job, bool comes_late, int status) {
    const int rank = number_in_environment("RUEDA_RANK", "OMPI_COMM_WORLD_RANK");
    const int size = number_in_environment("RUEDA_SIZE", "OMPI_COMM_WORLD_SIZE");
    std::ofstream report(folder / ("rank" + std::to_string(rank)));
    if (after_a_job) {
        rueda::init();
        float one = 1;
        rueda::allreduce("one", std::span(&one, 1));
        rueda::shutdown();
    }
    if (rank == size - 1) {
        // during this sleep, the other ranks begin to wait
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        if (comes_late) {
            wait_for(folder / "done");
        }
        report << "left " << std::to_string(seconds_of_the_clock()) << std::endl;
        ::_exit(status);  // exit() would run MPI_Finalize, which waits for the other ranks
    }
    try {
        rueda::init();
    } catch (const rueda::Error& error) {
        report_error(report, error);
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
        if (words.size() == 2 && words[0] == "transfer") {
            return transfer(std::stoul(words[1]));
        }
        if (words.size() == 2 && (words[0] == "steps" || words[0] == "wait")) {
            return steps(words[1], words[0] == "wait");
        }
        if (words.size() == 3 && (words[0] == "again" || words[0] == "absent")) {
            return join_without_the_last(words[1], words[0] == "again", /*comes_late=*/false, std::stoi(words[2]));
        }
        if (words.size() == 2 && words[0] == "late") {
            return join_without_the_last(words[1], /*after_a_job=*/false, /*comes_late=*/true, 0);
        }
        if (words.size() == 2 && (words[0] == "leave" || words[0] == "exit")) {
            return leave(words[1], words[0] == "leave");
        }
        std::fprintf(
            stderr,
            "hosts_rank layout | transfer N | (steps|wait|late|leave|exit) FOLDER | (again|absent) FOLDER STATUS\n");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return 2;
}
