// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that threads block SIGPIPE while they call the transport. MPI's transport writes to connections, and a
// connection to a rank that has died would otherwise end the process of a survivor.
#include <signal.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/ranks/thread_transport.hpp"

namespace rueda::tests {
namespace {

void reduce_and_poll(RuntimeClient& client, const std::string& name) {
    std::vector<float> values(1000);
    const Tensor tensor{values.data(), DType::float32, {1000}};
    fill_input(tensor, ReduceOp::sum, client.rank(), 1);
    const auto pending = expect_value(client.start_allreduce(name, tensor, tensor, {ReduceOp::sum}), "start");
    while (!pending->ready()) {
    }
    check_allreduce(tensor, {ReduceOp::sum}, client.size(), 1, name);
}

void exchange_with_other_host(RuntimeClient& client) {
    const int peer = (client.rank() + 2) % 4;  // on the other host
    std::vector<float> sent(10, static_cast<float>(client.rank()));
    std::vector<float> received(10);
    const Tensor mine{sent.data(), DType::float32, {10}};
    const Tensor others{received.data(), DType::float32, {10}};
    const auto receiving = expect_value(client.start_receive(others, peer, 7), "receive");
    const auto sending = expect_value(client.start_send(mine, peer, 7), "send");
    expect_ok(receiving->wait(-1), "receive");
    expect_ok(sending->wait(-1), "send");
    RUEDA_RANK_CHECK(received.front() == static_cast<float>(peer));
}

bool blocks_sigpipe() {
    sigset_t blocked;
    return pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0 && sigismember(&blocked, SIGPIPE) == 1;
}

TEST_CASE("threads block SIGPIPE while they call the transport, and only then", "[threads]") {
    std::atomic<std::uint64_t> before{0};
    check_passed(run_clients(
        4, test_config(),
        [&](RankContext&, RuntimeClient& client) {
            expect_ok(client.barrier(), "barrier");
            if (client.rank() == 0) {
                // In a program, the caller of Runtime::create() blocks SIGPIPE. This test does not, so it must not
                // count the calls in create(). After the barrier, no rank is in create() any more, so the count can
                // begin.
                before = collectives::calls_without_blocked_sigpipe();
            }
            expect_ok(client.barrier(), "barrier");
            for (int round = 0; round < 5; ++round) {
                reduce_and_poll(client, "polled");
                exchange_with_other_host(client);
                expect_ok(client.barrier(), "barrier");
            }
            for (const std::vector<int>& ranks : {std::vector{0, 2}, std::vector{1, 2, 3}}) {
                auto set = client.add_set(ranks);
                set.status().throw_if_failed();
                if (set.value() != nullptr) {
                    expect_ok(set.value()->barrier(), "barrier");
                }
            }
            RUEDA_RANK_CHECK(!blocks_sigpipe());
        },
        {}, "aabb"));
    CHECK(collectives::calls_without_blocked_sigpipe() == before);
    CHECK_FALSE(blocks_sigpipe());
    // This thread does not block SIGPIPE, so its call must be counted. Otherwise, the comparison above proves nothing.
    const auto transports = collectives::make_thread_transports(2);
    CHECK(transports[0]->send(1, collectives::Transport::Channel::control, {}).is_ok());
    CHECK(collectives::calls_without_blocked_sigpipe() == before + 1);
}

}  // namespace
}  // namespace rueda::tests
