// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests faults on several hosts, with ranks as threads: a host is cut off, or a rank does not come or leaves early.
#include <catch2/catch.hpp>
#include <thread>

#include "tests/faults/captured_errors.hpp"
#include "tests/faults/faults.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/ranks/thread_transport.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;

constexpr double kHostTimeout = 0.5;

struct Work {
    std::int64_t elements = 4;
    bool by_adasum = false;
    Compression compression = Compression::none;
    char joining = '-';  ///< the host whose ranks are in join() when the connection is cut
};

/// Starts allreduces until the test cuts the connections of host b. Then all ranks must fail, and each error must name
/// a host that does not answer.
void reduce_until_cut(RankContext& context, const Layout& layout, const Work& work) {
    context.phase("init");
    auto plane = context.open_control_plane();
    plane.status().throw_if_failed();
    collectives::Transport& transport = *plane.value()->transport();
    base::Config config = test_config();
    config.host_timeout_seconds = kHostTimeout;
    config.leader_sockets = false;  // leaders must use the transport that the test cuts, not sockets on the loopback
    config.compression = work.compression;
    const char host = layout.at(static_cast<std::size_t>(context.rank()));
    config.hostname = std::string("host-") + host;
    auto client = RuntimeClient::create(config, std::move(plane).value());
    client.status().throw_if_failed();

    std::thread cutter;
    double cut_at = 0;
    if (context.rank() == 0) {
        cutter = std::thread([&] {
            std::this_thread::sleep_for(50ms);
            cut_at = now_seconds();
            for (std::size_t rank = 0; rank < layout.size(); ++rank) {
                if (layout[rank] == 'b') {
                    collectives::cut_thread_transport(transport, static_cast<int>(rank));
                }
            }
        });
    }
    const auto reduce_without_joined = [&] {
        std::vector<float> values(static_cast<std::size_t>(work.elements));
        const Tensor tensor{values.data(), DType::float32, {work.elements}};
        Status status;
        while (status.is_ok()) {
            status = client.value()->allreduce("gradient", tensor, tensor, {ReduceOp::sum});
        }
        return status;
    };
    const auto status_at_end = [&] {
        if (work.joining != '-') {
            return host == work.joining ? client.value()->join(true).status() : reduce_without_joined();
        }
        return work.by_adasum ? adasum_until_failure(*client.value(), "gradient", work.elements, false)
                              : reduce_until_failure(*client.value(), "gradient", false, work.elements, false);
    };
    const Status status = status_at_end();
    const double failed_at = now_seconds();
    if (cutter.joinable()) {
        cutter.join();
        RUEDA_RANK_CHECK(failed_at - cut_at < kHostTimeout + kPromiseSeconds);
    }
    RUEDA_RANK_CHECK(status.code() == ErrorCode::aborted);
    // The ranks of host b get no answer from any other host. The other ranks get no answer from host b.
    expect_part(status.message(), " has not answered for ");
    if (host != 'b') {
        expect_part(status.message(), "host host-b (");
    }
    const float one = 1;
    float result = 0;
    expect_failure(client.value()->allreduce("later", {const_cast<float*>(&one), DType::float32, {1}},
                                             {&result, DType::float32, {1}}, {}),
                   ErrorCode::aborted, "an operation after the end");
    static_cast<void>(client.value()->shutdown());
}

TEST_CASE("a host that is cut off ends the job on all hosts", "[faults]") {
    const Layout layout = GENERATE("ab", "aabb", "abc", "aabbcc");
    const std::int64_t elements = GENERATE(4, 100'000);
    const RanksResult result = run_ranks(static_cast<int>(layout.size()),
                                         [&](RankContext& context) { reduce_until_cut(context, layout, {elements}); });
    INFO(layout << "\n" << result.text());
    CHECK(result.passed());
}

TEST_CASE("a host that is cut off in the middle of Adasum, or of what is compressed", "[faults]") {
    const Layout layout = GENERATE("aabb", "abc");
    const std::int64_t elements = GENERATE(4, 100'000);
    const Work work =
        GENERATE_COPY(Work{elements, true, Compression::none, '-'}, Work{elements, false, Compression::fp16, '-'},
                      Work{elements, false, Compression::bf16, '-'});
    const RanksResult result = run_ranks(static_cast<int>(layout.size()),
                                         [&](RankContext& context) { reduce_until_cut(context, layout, work); });
    INFO(layout << ", " << elements << " elements, compression " << name_of(work.compression) << "\n" << result.text());
    CHECK(result.passed());
}

TEST_CASE("a host that is cut off while ranks are in join() ends them, and the job", "[faults]") {
    const Layout layout = GENERATE("ab", "aabb", "abcc");
    const char joining = GENERATE('a', 'b');
    const RanksResult result = run_ranks(static_cast<int>(layout.size()), [&](RankContext& context) {
        reduce_until_cut(context, layout, {1000, false, Compression::none, joining});
    });
    INFO(layout << ", " << joining << " joins\n" << result.text());
    CHECK(result.passed());
}

TEST_CASE("ranks of other hosts that wait in join() for long are reported, with whom they wait for", "[faults]") {
    base::Config config = test_config();
    config.log_level = base::LogLevel::warning;
    config.stall_warning_seconds = 0.5;
    const CapturedErrors errors;
    const RanksResult result = run_clients(
        4, config,
        [&](RankContext&, RuntimeClient& client) {
            if (client.rank() == 1) {
                client.runtime().begin_busy("evaluating");
                const double begin = now_seconds();
                while (errors.text().find("evaluating") == std::string::npos && now_seconds() - begin < 20) {
                    std::this_thread::sleep_for(5ms);
                }
                expect_ok(client.runtime().end_busy(), "end_busy");
            }
            expect_ok(client.join(true).status(), "join");
        },
        {}, "aabb");
    const std::string text = errors.text();
    INFO(result.text() << text);
    CHECK(result.passed());
    CHECK(occurrences(text, "\n  join(): waiting for ") == 1);
    CHECK(occurrences(text, "; ready: ranks 0, 2, 3; missing: rank 1\n") == 1);
}

TEST_CASE("a tensor that a rank of another host does not submit is reported, with what that rank does", "[faults]") {
    base::Config config = test_config();
    config.log_level = base::LogLevel::warning;
    config.stall_warning_seconds = 0.5;
    const CapturedErrors errors;
    check_passed(run_clients(
        4, config,
        [&](RankContext& context, RuntimeClient& client) {
            std::vector<float> values(100);
            const Tensor tensor{values.data(), DType::float32, {100}};
            fill_input(tensor, ReduceOp::sum, client.rank(), 1);
            float before = 1;
            const Tensor earlier{&before, DType::float32, {1}};
            expect_ok(client.allreduce("earlier", earlier, earlier, {}), "earlier");
            if (client.rank() == 3) {
                client.runtime().begin_step(8);
                client.runtime().begin_busy("loading data");
                context.phase("busy");
                const double begin = now_seconds();
                while (errors.text().find("loading data") == std::string::npos && now_seconds() - begin < 20) {
                    std::this_thread::sleep_for(5ms);
                }
                expect_ok(client.runtime().end_busy(), "end_busy");
            } else {
                context.wait_for_phase(3, "busy");
            }
            expect_ok(client.allreduce("gradient", tensor, tensor, {ReduceOp::sum}), "gradient");
            check_allreduce(tensor, {ReduceOp::sum}, client.size(), 1, "gradient");
        },
        {}, "aabb"));
    const std::string text = errors.text();
    INFO(text);
    CHECK(occurrences(text, "One or more tensors were submitted to be reduced") == 1);
    CHECK(occurrences(text, "\n  tensor 'gradient': waiting for ") == 1);
    CHECK(occurrences(text, "; ready: ranks 0-2; missing: rank 3\n") == 1);
    CHECK(occurrences(text, "\n  rank 3 on host-b (pid ") == 1);
    CHECK(occurrences(text, "in step 8; last finished tensor 'earlier' ") == 1);
    CHECK(occurrences(text, "; busy with 'loading data' for ") == 1);
    CHECK(occurrences(text, "\n  Probable cause: rank 3 has been busy with 'loading data' for ") == 1);
}

TEST_CASE("a stalled job on several hosts is ended for one reason", "[faults]") {
    base::Config config = test_config();
    config.stall_warning_seconds = 0.2;
    config.stall_shutdown_seconds = 0.6;
    check_passed(run_clients(
        4, config,
        [](RankContext& context, RuntimeClient& client) {
            float value = 0;
            const Tensor tensor{&value, DType::float32, {1}};
            if (client.rank() == 1) {
                context.wait_for_phase(3, "failed");
            }
            const std::string text =
                expect_failure(client.allreduce("gradient", tensor, tensor, {}), ErrorCode::aborted, "gradient");
            context.phase("failed");
            expect_part(text, "has waited for rank 1 for ");
            expect_part(text, "; ready: ranks 0, 2, 3; the job is ended");
        },
        {}, "aabb"));
}

TEST_CASE("a rank that leaves early ends what others on all hosts wait for, and they leave after it", "[faults]") {
    check_passed(run_clients(
        4, test_config(),
        [](RankContext& context, RuntimeClient& client) {
            float value = 1;
            const Tensor tensor{&value, DType::float32, {1}};
            expect_ok(client.allreduce("once", tensor, tensor, {}), "once");
            if (client.rank() == 2) {
                for (const int rank : {0, 1, 3}) {
                    context.wait_for_phase(rank, "pending");
                }
                return;
            }
            const auto named = expect_value(client.start_allreduce("once", tensor, tensor, {}), "named");
            float other = 1;
            const Tensor second{&other, DType::float32, {1}};
            const auto fresh = expect_value(client.start_allreduce("fresh", second, second, {}), "fresh");
            context.phase("pending");
            expect_part(expect_failure(named->wait(), ErrorCode::aborted, "named"), "rank 2 has shut down");
            expect_part(expect_failure(fresh->wait(), ErrorCode::aborted, "fresh"), "rank 2 has shut down");
            expect_part(expect_failure(client.allreduce("late", tensor, tensor, {}), ErrorCode::aborted, "late"),
                        "rank 2 has shut down");
        },
        {}, "aabb"));
}

TEST_CASE("names come and go on several hosts where there are few slots", "[faults]") {
    base::Config config = test_config();
    config.slots = 2;
    config.slots_max = 2;
    RanksOptions options;
    options.deadline = 20s;
    check_passed(run_clients(
        4, config,
        [](RankContext& context, RuntimeClient& client) {
            // Starts more operations than there are free slots for names. The remaining operations wait until slots are
            // free.
            std::array<float, 2> values{};
            for (int i = 0; i < 20; ++i) {
                context.phase(fmt::format("round {}", i));
                std::vector<PendingPointer> pending;
                for (std::size_t k = 0; k < values.size(); ++k) {
                    const Tensor tensor{&values[k], DType::float32, {1}};
                    fill_input(tensor, ReduceOp::sum, client.rank(), i);
                    pending.push_back(expect_value(
                        client.start_allreduce(fmt::format("name {} {}", i, k), tensor, tensor, {ReduceOp::sum}),
                        "start"));
                }
                for (std::size_t k = 0; k < values.size(); ++k) {
                    expect_ok(pending[k]->wait(), "name");
                    check_allreduce({&values[k], DType::float32, {1}}, {ReduceOp::sum}, client.size(), i, "name");
                }
            }
        },
        options, "aabb"));
}

TEST_CASE("a host whose leader has nothing to do is not taken to be cut off", "[faults]") {
    base::Config config = test_config();
    config.host_timeout_seconds = 0.5;
    config.liveness_seconds = 5;
    check_passed(run_clients(
        2, config,
        [](RankContext& context, RuntimeClient& client) {
            float value = 0;
            const Tensor tensor{&value, DType::float32, {1}};
            for (int i = 0; i < 300; ++i) {
                expect_ok(client.allreduce("often", tensor, tensor, {ReduceOp::sum}), "often");
            }
            context.phase("computing");
            std::this_thread::sleep_for(1500ms);
            expect_ok(client.allreduce("often", tensor, tensor, {ReduceOp::sum}), "after a while");
        },
        {}, "ab"));
}

TEST_CASE("a report of many tensors names only the rank that stays away", "[faults]") {
    constexpr int kTensors = 200;
    base::Config config = test_config();
    config.log_level = base::LogLevel::warning;
    config.stall_warning_seconds = 0.5;
    const CapturedErrors errors;
    check_passed(run_clients(
        4, config,
        [&](RankContext& context, RuntimeClient& client) {
            std::vector<float> values(kTensors, 1);
            const auto start_all = [&] {
                std::vector<PendingPointer> pending;
                for (int i = 0; i < kTensors; ++i) {
                    // The two hosts start the operations in opposite orders, so a name gets a different slot on each
                    // host.
                    const int number = client.rank() < 2 ? i : kTensors - 1 - i;
                    const Tensor tensor{&values[static_cast<std::size_t>(number)], DType::float32, {1}};
                    pending.push_back(expect_value(
                        client.start_allreduce(fmt::format("gradient {}", number), tensor, tensor, {}), "start"));
                }
                return pending;
            };
            if (client.rank() == 2) {
                context.wait_for_phase(3, "away");
                // after this sleep, the operations for which host a waits are older than 50 ms
                std::this_thread::sleep_for(50ms);
            }
            if (client.rank() == 3) {
                context.phase("away");
                const double begin = now_seconds();
                while (errors.text().find("One or more tensors") == std::string::npos && now_seconds() - begin < 20) {
                    std::this_thread::sleep_for(5ms);
                }
                std::this_thread::sleep_for(100ms);
            }
            for (const auto& one : start_all()) {
                expect_ok(one->wait(), "gradient");
            }
        },
        {}, "aabb"));
    const std::string text = errors.text();
    INFO(text.substr(0, 3000));
    CHECK(occurrences(text, "; missing: rank 3\n") > 0);
    CHECK(occurrences(text, "; missing: ranks ") == 0);
}

TEST_CASE("a rank leaves while others have more to say than their mailboxes hold", "[faults]") {
    constexpr int kTensors = 900;
    check_passed(run_clients(
        4, test_config(),
        [&](RankContext& context, RuntimeClient& client) {
            std::vector<float> values(kTensors, 1);
            const auto start_all = [&] {
                std::vector<PendingPointer> pending;
                for (int i = 0; i < kTensors; ++i) {
                    const Tensor tensor{&values[static_cast<std::size_t>(i)], DType::float32, {1}};
                    pending.push_back(expect_value(
                        client.start_allreduce(fmt::format("gradient {}", i), tensor, tensor, {}), "start"));
                }
                return pending;
            };
            for (const auto& one : start_all()) {
                expect_ok(one->wait(), "first time");
            }
            context.phase("bound");
            if (client.rank() == 2) {
                context.wait_for_phase(1, "all");
                return;
            }
            if (client.rank() == 1) {
                context.wait_for_phase(0, "all");
            }
            std::vector<PendingPointer> pending;
            for (int i = 0; i < kTensors; ++i) {
                const Tensor tensor{&values[static_cast<std::size_t>(i)], DType::float32, {1}};
                auto started = client.start_allreduce(fmt::format("gradient {}", i), tensor, tensor, {});
                if (!started.is_ok()) {
                    break;
                }
                pending.push_back(std::move(started).value());
            }
            context.phase("all");
            std::this_thread::sleep_for(20ms);  // lets the background thread run
            for (const auto& one : pending) {
                expect_part(expect_failure(one->wait(), ErrorCode::aborted, "gradient"), "rank 2 has shut down");
            }
        },
        {}, "aabb"));
}

TEST_CASE("ranks of several hosts leave as soon as all of them do", "[faults]") {
    check_passed(run_clients(
        4, test_config(),
        [](RankContext& /*context*/, RuntimeClient& client) {
            float value = 1;
            const Tensor tensor{&value, DType::float32, {1}};
            expect_ok(client.allreduce("last", tensor, tensor, {}), "last");
            const double begin = now_seconds();
            expect_ok(client.shutdown(), "shutdown");
            RUEDA_RANK_CHECK(now_seconds() - begin < 0.5);
        },
        {}, "aabb"));
}

}  // namespace
}  // namespace rueda::tests
