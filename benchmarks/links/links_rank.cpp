// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// One rank of benchmarks/links/links. Times blocking allreduces in turn: Rueda, Rueda with float16 values between
// hosts, and MPI. Rank 0 prints a line of JSON for each size:
//
//   {"bytes": …, "rueda": [µs …], "fp16": [µs …], "mpi": [µs …]}
//
// Usage: links_rank SECONDS SIZE…
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/numbers.hpp"
#include "rueda/rueda.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/// Times single operations and checks their results. The time is that of the slowest rank, in µs.
class Timed {
public:
    explicit Timed(std::size_t elements) : data_(elements) {}

    double operator()(const std::function<void(std::vector<float>&)>& reduce) {
        for (std::size_t i = 0; i < data_.size(); ++i) {
            data_[i] = value(i, rueda::rank());
        }
        MPI_Barrier(MPI_COMM_WORLD);
        const auto begin = Clock::now();
        reduce(data_);
        double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        check();
        return seconds * 1e6;
    }

private:
    /// Returns a small integer. Sums of such integers are exact in every order and, with up to 66 ranks, also in
    /// float16.
    static float value(std::size_t i, int rank) {
        return static_cast<float>((i + static_cast<std::size_t>(rank)) % 32);
    }
    void check() const {
        for (std::size_t i = 0; i < data_.size(); ++i) {
            float expected = 0;
            for (int rank = 0; rank < rueda::size(); ++rank) {
                expected += value(i, rank);
            }
            if (data_[i] != expected) {
                throw rueda::Internal(fmt::format("element {} is {}, expected {}", i, data_[i], expected));
            }
        }
    }

    std::vector<float> data_;
};

using Reduce = std::function<void(std::vector<float>&)>;
struct Candidate {
    const char* name;
    Reduce reduce;
    std::vector<double> times = {};
};

void print(std::size_t bytes, const std::vector<Candidate>& candidates) {
    fmt::print("{{\"bytes\": {}", bytes);
    for (const Candidate& candidate : candidates) {
        fmt::print(", \"{}\": [{:.2f}]", candidate.name, fmt::join(candidate.times, ", "));
    }
    fmt::print("}}\n");
    std::fflush(stdout);
}

Reduce by_rueda(const rueda::TensorSlot& slot, rueda::Compression compression) {
    return [&slot, compression](std::vector<float>& data) {
        rueda::allreduce(slot, data, {.op = rueda::ReduceOp::sum, .compression = compression});
    };
}

void measure(std::size_t bytes, double seconds) {
    Timed timed(bytes / sizeof(float));
    const rueda::TensorSlot plain(fmt::format("tensor of {}", bytes));
    const rueda::TensorSlot halves(fmt::format("tensor of {} as float16", bytes));
    const auto by_mpi = [](std::vector<float>& data) {
        MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    std::vector<Candidate> candidates = {{"rueda", by_rueda(plain, rueda::Compression::none)},
                                         {"fp16", by_rueda(halves, rueda::Compression::fp16)},
                                         {"mpi", by_mpi}};
    for (const Candidate& candidate : candidates) {
        static_cast<void>(timed(candidate.reduce));
    }
    const auto begin = Clock::now();
    int go_on = 1;
    for (int rounds = 1; go_on != 0; ++rounds) {
        for (Candidate& candidate : candidates) {
            candidate.times.push_back(timed(candidate.reduce));
        }
        go_on = Clock::now() - begin < std::chrono::duration<double>(seconds) || rounds < 3 ? 1 : 0;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rueda::rank() == 0) {
        print(bytes, candidates);
    }
}

}  // namespace

int main(int argc, char** argv) {
    try {
        rueda::init();
        for (int i = 2; i < argc; ++i) {
            const auto bytes = rueda::base::parse_bytes(argv[i]);
            if (!bytes || *bytes < sizeof(float) || *bytes % sizeof(float) != 0) {
                throw rueda::InvalidArgument(fmt::format("size '{}' is not whole float32 (4, 64K, 16M)", argv[i]));
            }
            measure(*bytes, std::stod(argv[1]));
        }
        rueda::shutdown();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
