// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <atomic>
#include <catch2/catch.hpp>

#include "tests/core/diagnostics/stacks/workloads.hpp"

namespace rueda::core::test {

[[gnu::noinline, gnu::visibility("default")]] double add_in_parallel(const std::atomic<bool>& done) {
    constexpr int kTerms = 100'000;
    double sum = 0;
    while (!done.load(std::memory_order_acquire)) {
#pragma omp parallel for reduction(+ : sum) num_threads(2)
        for (int i = 0; i < kTerms; ++i) {
            sum += 1.0 / (1 + i);
        }
    }
    return sum;
}

TEST_CASE("the stack of a main thread in an OpenMP loop", "[stacks]") {
    const InstalledHandler handler;
    std::atomic<bool> done{false};
    double sum = 0;
    const auto texts = stacks_during([&] { sum = add_in_parallel(done); }, [&] { done.store(true); });
    INFO(texts.front());
    CHECK(sum > 0);
    CHECK(count_with(texts, "add_in_parallel") >= kCaptures - 1);
}

}  // namespace rueda::core::test
