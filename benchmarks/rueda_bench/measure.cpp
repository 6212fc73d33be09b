// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "measure.hpp"

#include <algorithm>
#include <chrono>

#include "rueda/rueda.hpp"
#include "values.hpp"

namespace rueda::bench {
namespace {

using Clock = std::chrono::steady_clock;

void write_input(std::byte* input, const Case& c, const Encoding& encoding, int rank, std::uint64_t iteration) {
    const std::size_t element = size_of(c.dtype);
    for (std::uint64_t i = 0; i < c.count(); ++i) {
        encoding.write(input + i * element, value_at(i, rank, iteration));
    }
}

/// Returns the expected element i of the output.
int expected(const Case& c, const Job& job, std::uint64_t i, std::uint64_t iteration) {
    const std::uint64_t part = c.count() / static_cast<std::uint64_t>(job.size);
    const auto mine = static_cast<std::uint64_t>(job.rank) * part;  // the first index of this rank's part
    switch (c.operation) {
        case Operation::alltoall:  // each rank sent one part of the output
            return value_at(mine + i % part, static_cast<int>(i / part), iteration);
        case Operation::reducescatter:
            i += mine;
            break;
        case Operation::broadcast:
            return value_at(i, 0, iteration);
        case Operation::allgather:
            return value_at(i % c.count(), static_cast<int>(i / c.count()), iteration);
        case Operation::message:  // the second rank sends back what the first rank of the pair sent
            return value_at(i, job.rank - job.rank % 2, iteration);
        case Operation::allreduce:
            break;
    }
    int sum = 0;
    for (int rank = 0; rank < job.size; ++rank) {
        sum += value_at(i, rank, iteration);
    }
    return sum;
}

std::uint64_t count_wrong(const std::byte* output, const Case& c, const Encoding& encoding, const Job& job,
                          std::uint64_t iteration) {
    const std::uint64_t count = c.output_count(job.size);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        wrong += encoding.equals(output + i * size_of(c.dtype), expected(c, job, i, iteration)) ? 0U : 1U;
    }
    return wrong;
}

/// Takes each iteration's time from the slowest rank, and adds up the errors of all ranks.
void combine(std::vector<Row>& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::string name = "bench.times." + std::to_string(i);
        rueda::allreduce(name, rows[i].microseconds, {.op = ReduceOp::max});
        std::int64_t wrong = static_cast<std::int64_t>(rows[i].wrong);
        rueda::allreduce(name + ".wrong", std::span(&wrong, 1), {.op = ReduceOp::sum});
        rows[i].wrong = static_cast<std::uint64_t>(wrong);
        std::sort(rows[i].microseconds.begin(), rows[i].microseconds.end());
    }
}

/// Returns whether there is time for another round. Rank 0's clock decides for all ranks.
bool goes_on(Clock::time_point end, std::uint64_t done, const Plan& plan) {
    std::int32_t more = done < plan.fewest_iterations || (done < plan.most_iterations && Clock::now() < end) ? 1 : 0;
    rueda::broadcast("bench.goes_on", std::span(&more, 1), 0);
    return more != 0;
}

}  // namespace

double Row::quantile(double q) const {
    return microseconds[static_cast<std::size_t>(q * static_cast<double>(microseconds.size() - 1) + 0.5)];
}
double Row::algorithm_gigabytes_per_second() const { return static_cast<double>(c.bytes) / quantile(0.5) * 1e-3; }
double Row::bus_gigabytes_per_second(int size) const {
    const double n = size;
    const double rate = algorithm_gigabytes_per_second();
    switch (c.operation) {
        case Operation::allreduce:
            return rate * 2 * (n - 1) / n;
        case Operation::broadcast:
            return rate;
        case Operation::allgather:
            return rate * (n - 1);
        case Operation::reducescatter:
        case Operation::alltoall:
            return rate * (n - 1) / n;
        case Operation::message:
            return rate * 2;
    }
    return rate;
}

std::vector<Row> measure(const Case& c, const std::vector<std::unique_ptr<Candidate>>& candidates, const Job& job,
                         const Plan& plan) {
    constexpr std::uint64_t kWarmUp = 3;
    constexpr std::uint64_t kRound = 20;  // number of iterations before the clock is read again
    const Encoding encoding(c.dtype);
    std::vector<Candidate*> able;
    std::vector<Row> rows;
    for (const auto& candidate : candidates) {
        if (candidate->can(c)) {
            candidate->begin(c);
            able.push_back(candidate.get());
            rows.push_back({candidate->name(), c, {}, 0});
        }
    }
    const auto iterate = [&](std::uint64_t iteration, bool counts) {
        for (std::size_t k = 0; k < able.size(); ++k) {
            write_input(able[k]->input(), c, encoding, job.rank, iteration);
            line_up();
            const auto begin = Clock::now();
            able[k]->run();
            const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
            if (counts) {
                rows[k].microseconds.push_back(time.count());
            }
            if (able[k]->has_result()) {
                rows[k].wrong += count_wrong(able[k]->output(), c, encoding, job, iteration);
            }
        }
    };
    for (std::uint64_t i = 0; i < kWarmUp; ++i) {
        iterate(i, false);
    }
    const auto end = Clock::now() +
                     std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(plan.seconds_per_case));
    std::uint64_t done = 0;
    while (goes_on(end, done, plan)) {
        const std::uint64_t round = c.bytes < (1U << 20) ? std::min(kRound, plan.most_iterations - done) : 1;
        for (std::uint64_t i = 0; i < round; ++i) {
            iterate(kWarmUp + done + i, true);
        }
        done += round;
    }
    for (Candidate* candidate : able) {
        candidate->end();
    }
    combine(rows);
    return rows;
}

}  // namespace rueda::bench
