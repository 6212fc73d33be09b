// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/rank_work.hpp>
#include <rueda/training/sampler.hpp>
#include <vector>

// Stands for an evaluation: counts the samples that are multiples of 3.
std::int64_t evaluate(rueda::training::Range samples) {
    std::int64_t right = 0;
    for (std::int64_t sample = samples.begin; sample < samples.end; ++sample) {
        right += sample % 3 == 0 ? 1 : 0;
    }
    return right;
}

int main() {
    namespace training = rueda::training;
    rueda::init();
    // Rank 0 evaluates, and the other ranks go on. Stall reports and `rueda top` say that rank 0 is busy with
    // "evaluate".
    training::on_rank_zero("evaluate", [] { std::printf("%d are right\n", static_cast<int>(evaluate({0, 100}))); });

    // All ranks evaluate a share, which takes less time.
    std::vector<std::int64_t> right = {0};
    training::on_all_ranks("evaluate",
                           [&] { right[0] = evaluate(training::shard(100, rueda::rank(), rueda::size())); });
    rueda::allreduce("right", right, {.op = rueda::ReduceOp::sum});
    rueda::shutdown();
    return right[0] == 34 ? 0 : 1;
}
