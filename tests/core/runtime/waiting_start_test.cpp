// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the start of an operation with rueda_options::wait_seconds: the start waits until the operation has ended or
// the time has passed.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "core/operations/requests.hpp"
#include "rueda/rueda.h"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

/// An allreduce of one element under one name, which starts with the option wait_seconds.
class Allreduce {
public:
    explicit Allreduce(RuntimeClient& client) : client_(client) {}

    void start(core::Completion& completion, double seconds) {
        value_ = static_cast<float>(client_.rank() + 1);
        const rueda_tensor tensor{&value_, &extent_, 1, RUEDA_FLOAT32};
        const core::Arguments arguments{.operation = collectives::Operation::allreduce, .in = &tensor, .out = &tensor};
        rueda_options options = RUEDA_OPTIONS_INIT;
        options.reduce_op = RUEDA_SUM;
        options.wait_seconds = seconds;
        core::Runtime& runtime = client_.runtime();
        RUEDA_RANK_CHECK(runtime.start(runtime.world(), nullptr, "waits", arguments, options, completion).is_ok());
    }
    [[nodiscard]] bool is_right(const core::Completion& completion) const {
        return completion.done() && completion.status().is_ok() && value_ == 3;
    }

private:
    RuntimeClient& client_;
    float value_ = 0;
    std::int64_t extent_ = 1;
};

TEST_CASE("a start that waits returns when the operation has ended or the time has passed", "[threads]") {
    check_passed(run_clients(2, test_config(), [](RankContext& context, RuntimeClient& client) {
        Allreduce allreduce(client);
        // The ranks negotiate the first operation, and know the name in the later operations.
        for (int round = 0; round < 3; ++round) {
            core::Completion completion;
            allreduce.start(completion, 60);
            RUEDA_RANK_CHECK(allreduce.is_right(completion));
        }
        core::Completion completion;
        if (client.rank() == 0) {
            allreduce.start(completion, 0.01);
            RUEDA_RANK_CHECK(!completion.done());
            context.phase("the time has passed");
            RUEDA_RANK_CHECK(client.runtime().wait(completion, -1).is_ok());
        } else {
            context.wait_for_phase(0, "the time has passed");
            allreduce.start(completion, 60);
        }
        RUEDA_RANK_CHECK(allreduce.is_right(completion));
    }));
}

// No thread looks again by itself in this test, so a missing wake-up makes a rank wait for too long.
TEST_CASE("after its time, a start that waits leaves the operation to the background thread", "[threads]") {
    check_passed(run_clients(2, patient_config(), [](RankContext& context, RuntimeClient& client) {
        Allreduce allreduce(client);
        for (int round = 0; round < 6; ++round) {
            core::Completion completion;
            const std::string passed = fmt::format("the time has passed {}", round);
            const std::string ended = fmt::format("the operation has ended {}", round);
            if (client.rank() == 0) {
                allreduce.start(completion, 0.001);
                context.phase(passed);
                context.wait_for_phase(1, ended);
                RUEDA_RANK_CHECK(client.runtime().wait(completion, 20).is_ok());
            } else {
                context.wait_for_phase(0, passed);
                // In turns, the other rank waits in its start, and leaves the operation to its background thread.
                allreduce.start(completion, round % 2 == 0 ? 20 : 0);
                RUEDA_RANK_CHECK(client.runtime().wait(completion, 20).is_ok());
                context.phase(ended);
            }
            RUEDA_RANK_CHECK(allreduce.is_right(completion));
        }
    }));
}

}  // namespace
}  // namespace rueda::tests
