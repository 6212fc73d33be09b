// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Times collectives and messages of Rueda and of plain MPI, and measures lower bounds for these times. All of them take
// turns in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/numbers.hpp"
#include "candidate.hpp"
#include "measure.hpp"
#include "rueda/rueda.hpp"
#include "standing.hpp"

namespace {

using namespace rueda::bench;

struct Options {
    std::vector<std::string> operations{"allreduce"};
    std::vector<std::string> sizes{"4", "1K", "4K", "16K", "64K", "256K", "1M", "4M", "16M"};
    std::vector<std::string> dtypes{"float32"};
    Plan plan;
    std::string json;
    double idle_seconds = 0;
};

template <class Enum>
Enum named(const std::string& name, std::initializer_list<Enum> all, const char* what) {
    std::string names;
    for (const Enum value : all) {
        if (name == name_of(value)) {
            return value;
        }
        names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(value));
    }
    throw rueda::InvalidArgument(fmt::format("{} '{}' is not known; expected one of {}", what, name, names));
}

std::vector<Case> cases_of(const Options& options) {
    using rueda::DType;
    std::vector<Case> cases;
    for (const std::string& operation : options.operations) {
        for (const std::string& dtype : options.dtypes) {
            for (const std::string& size : options.sizes) {
                Case c;
                c.operation = named(operation,
                                    {Operation::allreduce, Operation::broadcast, Operation::allgather,
                                     Operation::reducescatter, Operation::alltoall, Operation::message},
                                    "operation");
                c.dtype = named(
                    dtype,  // The benchmark checks sums, so it accepts only types whose sums are exact. It accepts no
                            // 8-bit floats.
                    {DType::uint8, DType::int8, DType::int16, DType::uint16, DType::int32, DType::uint32, DType::int64,
                     DType::uint64, DType::float16, DType::bfloat16, DType::float32, DType::float64},
                    "dtype");
                const auto bytes = rueda::base::parse_bytes(size);
                if (!bytes || *bytes == 0 || *bytes % size_of(c.dtype) != 0) {
                    throw rueda::InvalidArgument(fmt::format(
                        "size '{}' is not a number of bytes (4, 64K, 1M) that holds whole {}", size, name_of(c.dtype)));
                }
                c.bytes = *bytes;
                cases.push_back(c);
            }
        }
    }
    return cases;
}

/// Returns the median time of plain MPI. The table shows the ratio of each row to this time.
double peer_median(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
        if (row.candidate == "MPI") {
            return row.quantile(0.5);
        }
    }
    return 0;
}

void print_rows(const std::vector<Row>& rows, const Job& job) {
    const double peer = peer_median(rows);
    for (const Row& row : rows) {
        const std::string ratio = peer > 0 ? fmt::format("{:6.2f}x", peer / row.quantile(0.5)) : "";
        fmt::print("{:<13} {:<9} {:>11}  {:<24} {:>11.2f} {:>11.2f} {:>11.2f} {:>9.2f} {:>8} {:>7}{}\n",
                   name_of(row.c.operation), name_of(row.c.dtype), row.c.bytes, row.candidate, row.quantile(0.1),
                   row.quantile(0.5), row.quantile(0.9), row.bus_gigabytes_per_second(job.size), ratio,
                   row.microseconds.size(), row.wrong > 0 ? fmt::format("  {} WRONG", row.wrong) : "");
    }
    std::fflush(stdout);
}

nlohmann::json json_of(const Row& row, const Job& job) {
    return {{"operation", name_of(row.c.operation)},
            {"dtype", name_of(row.c.dtype)},
            {"bytes", row.c.bytes},
            {"candidate", row.candidate},
            {"iterations", row.microseconds.size()},
            {"microseconds",
             {{"min", row.quantile(0)},
              {"p10", row.quantile(0.1)},
              {"median", row.quantile(0.5)},
              {"p90", row.quantile(0.9)},
              {"max", row.quantile(1)}}},
            {"algorithm_gigabytes_per_second", row.algorithm_gigabytes_per_second()},
            {"bus_gigabytes_per_second", row.bus_gigabytes_per_second(job.size)},
            {"wrong_elements", row.wrong}};
}

/// Returns the largest value of all ranks.
double largest(const char* name, double mine) {
    rueda::allreduce(name, std::span(&mine, 1), {.op = rueda::ReduceOp::max});
    return mine;
}

nlohmann::json measure_standing(const Options& options, const Job& job, std::uint64_t bytes_before) {
    const std::uint64_t now = proportional_bytes();
    const double mebibytes = static_cast<double>(now - std::min(now, bytes_before)) / (1 << 20);
    nlohmann::json report{{"init_mebibytes_per_rank", largest("bench.memory", mebibytes)}};
    if (options.idle_seconds > 0) {
        report["idle_cpu_percent"] = largest("bench.idle", idle_cpu_percent(options.idle_seconds));
        report["waiting_cpu_percent"] = largest("bench.waiting", waiting_cpu_percent(options.idle_seconds, job.rank));
    }
    return report;
}

int run(const Options& options, const Job& job, std::uint64_t bytes_before) {
    const std::vector<Case> cases = cases_of(options);
    nlohmann::json report{{"ranks", job.size}, {"mpi", mpi_description()}, {"rueda", rueda_version()}};
    report["standing"] = measure_standing(options, job, bytes_before);
    const auto candidates = make_candidates(job);
    if (job.rank == 0) {
        fmt::print("{} ranks; MPI: {}; after init: {:.1f} MiB a rank\n", job.size, mpi_description(),
                   report["standing"]["init_mebibytes_per_rank"].get<double>());
        if (options.idle_seconds > 0) {
            fmt::print("CPU of a rank over {:.0f} s: {:.3f} % idle, {:.3f} % waiting for another rank\n",
                       options.idle_seconds, report["standing"]["idle_cpu_percent"].get<double>(),
                       report["standing"]["waiting_cpu_percent"].get<double>());
        }
        fmt::print("{:<13} {:<9} {:>11}  {:<24} {:>11} {:>11} {:>11} {:>9} {:>8} {:>7}\n", "operation", "dtype",
                   "bytes", "way", "p10 us", "median us", "p90 us", "bus GB/s", "to MPI", "times");
    }
    std::uint64_t wrong = 0;
    for (const Case& c : cases) {
        const std::vector<Row> rows = measure(c, candidates, job, options.plan);
        if (rows.empty() && job.rank == 0) {
            fmt::print("{:<13} {:<9} {:>11}  left out: {} ranks cannot share {} elements evenly, or are no pairs\n",
                       name_of(c.operation), name_of(c.dtype), c.bytes, job.size, c.count());
        }
        for (const Row& row : rows) {
            wrong += row.wrong;
            report["rows"].push_back(json_of(row, job));
        }
        if (job.rank == 0) {
            print_rows(rows, job);
        }
    }
    if (job.rank == 0 && !options.json.empty()) {
        std::ofstream file(options.json);
        file << report.dump(2) << '\n';
        if (!file.flush()) {
            throw rueda::InvalidArgument("cannot write '" + options.json +
                                         "': give --json a file in a writable folder");
        }
    }
    return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app{
        "Times collectives and messages of Rueda beside raw MPI and the bounds of the machine, alternating in one "
        "run."};
    app.footer(
        "Examples:\n"
        "  mpirun -np 2 --bind-to core rueda_bench\n"
        "  mpirun -np 2 rueda_bench --operations broadcast allgather --sizes 64K 1M --json result.json\n"
        "  ruedarun --no-mpi -np 4 rueda_bench --dtypes bfloat16 --idle 10\n\n"
        "Every rank rewrites its input before each operation; an iteration's time is that of its slowest rank; all "
        "results\n"
        "are compared with what is expected. Exit status: 0 all right, 1 a wrong result or a failure, 2 wrong usage.");
    app.add_option("--operations", options.operations,
                   "allreduce, broadcast, allgather, reducescatter, alltoall, message (there and back)")
        ->capture_default_str();
    app.add_option("--sizes", options.sizes, "bytes of one rank's input: 4 64K 1M")->capture_default_str();
    app.add_option("--dtypes", options.dtypes, "uint8 … uint64, int8 … int64, float16 … float64")
        ->capture_default_str();
    app.add_option("--seconds", options.plan.seconds_per_case, "time for each case")
        ->capture_default_str()
        ->check(CLI::Range(0.01, 3600.0));
    app.add_option("--iterations", options.plan.most_iterations, "at most, for each case")
        ->capture_default_str()
        ->check(CLI::Range(1, 10'000'000));
    app.add_option("--idle", options.idle_seconds,
                   "seconds over which the CPU use of an idle and of a waiting rank is taken; 0: not")
        ->check(CLI::Range(0.0, 3600.0));
    app.add_option("--json", options.json, "file for the results");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        static_cast<void>(cases_of(options));  // reports wrong options before the job starts
    } catch (const rueda::Error& error) {
        fmt::print(stderr, "rueda_bench: {}\n", error.what());
        return 2;
    }
    options.plan.fewest_iterations = std::min(options.plan.fewest_iterations, options.plan.most_iterations);
    try {
        begin_mpi(&argc, &argv);
        const std::uint64_t bytes_before = proportional_bytes();
        rueda::init();
        const int status = run(options, {rueda::rank(), rueda::size()}, bytes_before);
        rueda::shutdown();
        end_mpi();
        return status;
    } catch (const std::exception& error) {
        fmt::print(stderr, "rueda_bench: {}\n", error.what());
        return 1;
    }
}
