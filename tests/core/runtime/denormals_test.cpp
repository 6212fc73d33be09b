// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that results do not depend on the floating-point environment of the calling thread. The engine runs on this
// thread, so the engine must set its own environment.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/check_passed.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>

namespace rueda::tests {
namespace {

constexpr unsigned kFlushToZero = 0x8000;
constexpr unsigned kDenormalsAreZero = 0x0040;
constexpr unsigned kRoundUp = 0x4000;

void reduce_denormals(RankContext&, RuntimeClient& client) {
    const unsigned before = _mm_getcsr();
    const unsigned odd = before | (client.rank() % 2 == 0 ? kFlushToZero | kDenormalsAreZero : kRoundUp);
    // The second call of a name, whose tensor is resident, may travel with the negotiation between hosts.
    for (const bool resident : {false, true}) {
        for (const std::int64_t elements : {5, 500, 1000, 20000}) {
            const Buffer buffer(client, DType::float32, {elements}, resident);
            auto* const bits = static_cast<std::uint32_t*>(buffer.tensor().data);
            for (std::int64_t i = 0; i < elements; ++i) {
                // The bits of a denormal are its value in units of 2^−149.
                bits[i] = static_cast<std::uint32_t>(i + 1 + client.rank());
            }
            const std::string what = "denormals " + std::to_string(elements);
            _mm_setcsr(odd);
            const Status status = client.allreduce(what, buffer.tensor(), buffer.tensor(), {ReduceOp::sum});
            const unsigned after = _mm_getcsr();
            _mm_setcsr(before);
            expect_ok(status, what);
            // The floating-point environment is unchanged except for the exception flags.
            RUEDA_RANK_EQUAL(after & ~0x3FU, odd & ~0x3FU);
            const auto size = static_cast<std::uint32_t>(client.size());
            for (std::int64_t i = 0; i < elements; ++i) {
                RUEDA_RANK_EQUAL(bits[i], size * static_cast<std::uint32_t>(i + 1) + size * (size - 1) / 2);
            }
        }
    }
}

TEST_CASE("a caller that flushes denormals gets the same bits, and keeps flushing", "[threads]") {
    const Layout layout = GENERATE("a", "aa", "aaaa", "ab", "aab");
    for (const base::Config& config : {test_config(), tiny_config()}) {
        check_passed(run_clients(static_cast<int>(layout.size()), config, reduce_denormals, {}, layout));
    }
}

}  // namespace
}  // namespace rueda::tests
#endif
