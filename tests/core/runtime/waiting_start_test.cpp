// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the start of an operation with rueda_options::wait_seconds: the start waits until the operation has ended or
// the time has passed.
#include <catch2/catch.hpp>

#include "core/operations/requests.hpp"
#include "rueda/rueda.h"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

TEST_CASE("a start that waits returns when the operation has ended or the time has passed", "[threads]") {
    check_passed(run_clients(2, test_config(), [](RankContext& context, RuntimeClient& client) {
        core::Runtime& runtime = client.runtime();
        float value = 0;
        const std::int64_t extent = 1;
        const rueda_tensor tensor{&value, &extent, 1, RUEDA_FLOAT32};
        const core::Arguments arguments{.operation = collectives::Operation::allreduce, .in = &tensor, .out = &tensor};
        rueda_options options = RUEDA_OPTIONS_INIT;
        options.reduce_op = RUEDA_SUM;
        const auto start = [&](core::Completion& completion, double seconds) {
            value = static_cast<float>(client.rank() + 1);
            options.wait_seconds = seconds;
            RUEDA_RANK_CHECK(runtime.start(runtime.world(), nullptr, "waits", arguments, options, completion).is_ok());
        };
        // The ranks negotiate the first operation, and announce the later operations directly.
        for (int round = 0; round < 3; ++round) {
            core::Completion completion;
            start(completion, 60);
            RUEDA_RANK_CHECK(completion.done() && completion.status().is_ok() && value == 3);
        }
        core::Completion completion;
        if (client.rank() == 0) {
            start(completion, 0.01);
            RUEDA_RANK_CHECK(!completion.done());
            context.phase("the time has passed");
            RUEDA_RANK_CHECK(runtime.wait(completion, -1).is_ok());
        } else {
            context.wait_for_phase(0, "the time has passed");
            start(completion, 60);
        }
        RUEDA_RANK_CHECK(completion.done() && completion.status().is_ok() && value == 3);
    }));
}

}  // namespace
}  // namespace rueda::tests
