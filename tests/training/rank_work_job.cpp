// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests on_rank_zero() and on_all_ranks() with any number of ranks. The exit status is 1 if something is wrong.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "rueda/error.hpp"
#include "rueda/rueda.hpp"
#include "rueda/training/rank_work.hpp"
#include "rueda/training/sampler.hpp"

namespace {

namespace training = rueda::training;
using std::chrono::milliseconds;

int failures = 0;

void check(bool is_right, const char* what) {
    if (!is_right) {
        std::printf("rank %d: %s\n", rueda::rank(), what);
        ++failures;
    }
}

/// The other ranks announce an operation and send a message. Rank 0 then works half a second longer, so that the other
/// ranks wait for rank 0. CTest looks for the line that rank 1 logs.
void wait_for_work() {
    const auto work = [] {
        for (int each = 1; each < rueda::size(); ++each) {
            std::vector<double> received(1);
            rueda::receive(received, each, 5);
        }
        std::this_thread::sleep_for(milliseconds(500));
    };
    training::on_rank_zero("waited for", work, milliseconds(250));
    std::vector<double> values = {1.0};
    const rueda::Handle handle = rueda::allreduce_async("next step", values, {.op = rueda::ReduceOp::sum});
    if (rueda::rank() != 0) {
        std::vector<double> token = {0.0};
        rueda::send(token, 0, 5);
    }
    handle.wait();
    check(values[0] == rueda::size(), "the next step has a wrong sum");
}

void go_on_while_rank_0_works() {
    int runs = 0;
    // Rank 1 warns if it waits for rank 0's work longer than a limit. This call ends the watch of the previous work.
    // Its own limit is long, because on a busy machine the other ranks may wait for seconds.
    training::on_rank_zero(
        "short work", [&] { ++runs; }, std::chrono::minutes(10));
    check(runs == (rueda::rank() == 0 ? 1 : 0), "the work ran on a wrong rank");
    rueda::barrier();
}

void pass_exceptions_on() {
    if (rueda::rank() == 0) {
        bool has_thrown = false;
        try {
            training::on_rank_zero("evaluate", [] { throw rueda::InvalidArgument("no data"); });
        } catch (const rueda::InvalidArgument& error) {
            has_thrown = std::string(error.what()) == "no data";
        }
        check(has_thrown, "the exception of the work did not come out");
    }
    const int last = rueda::size() - 1;
    bool has_thrown = false;
    try {
        training::on_all_ranks("evaluate", [&] {
            if (rueda::rank() == last) {
                throw rueda::InvalidArgument("bad share");
            }
        });
    } catch (const rueda::InvalidArgument& error) {
        has_thrown = std::string(error.what()).find("bad share") != std::string::npos;
    }
    check(has_thrown, "the exception of one rank did not come to all ranks");
}

void divide_work() {
    std::vector<std::int64_t> sum = {0};
    training::on_all_ranks("evaluate", [&] {
        const training::Range mine = training::shard(101, rueda::rank(), rueda::size());
        for (std::int64_t sample = mine.begin; sample < mine.end; ++sample) {
            sum[0] += sample;
        }
    });
    rueda::allreduce("sum", sum, {.op = rueda::ReduceOp::sum});
    check(sum[0] == 5050, "the shares have a wrong sum");
}

}  // namespace

int main() {
    rueda::init();
    wait_for_work();
    go_on_while_rank_0_works();
    divide_work();
    pass_exceptions_on();
    rueda::shutdown();
    return failures == 0 ? 0 : 1;
}
