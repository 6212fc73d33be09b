// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the metrics of ranks that do a known amount of work.
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "core/metrics/host_metrics.hpp"
#include "core/pending/completion.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"
#include "tests/support/runtime_rank.hpp"

namespace rueda::tests {
namespace {

using core::Completion;
using core::HostMetrics;
using core::Runtime;
using nlohmann::json;

class Rank : public RuntimeRank {
public:
    using RuntimeRank::RuntimeRank;

    [[nodiscard]] json own() {
        const Result<std::string> text = runtime().metrics();
        text.status().throw_if_failed();
        return json::parse(text.value());
    }
    [[nodiscard]] HostMetrics all() { return core::read_host_metrics(*runtime().arena(), runtime().group().size); }
};

}  // namespace

TEST_CASE("a rank counts what it has done, and sees the other ranks", "[threads]") {
    const RanksResult result = run_ranks(3, [&](RankContext& context) {
        Rank rank(context);
        RUEDA_RANK_CHECK(rank.own()["rueda_operations_total"]["allreduce"] == 0);
        RUEDA_RANK_CHECK(rank.own()["rueda_step"] == -1);
        rank.meet("begins");
        rank.runtime().begin_step(40);
        rank.runtime().begin_step(41);
        for (int step = 0; step < 5; ++step) {
            RUEDA_RANK_CHECK(rank.allreduce("loss").is_ok());
        }
        const Result<void*> memory = rank.runtime().allocate(1000);
        RUEDA_RANK_CHECK(memory.is_ok());
        const json own = rank.own();
        RUEDA_RANK_CHECK(own["rank"] == context.rank());
        RUEDA_RANK_CHECK(own["rueda_job_ranks"] == 3);
        RUEDA_RANK_CHECK(own["rueda_rank_up"] == 1);
        RUEDA_RANK_CHECK(own["rueda_operations_total"]["allreduce"] == 5);
        RUEDA_RANK_CHECK(own["rueda_operation_bytes_total"]["allreduce"] == 5 * 8 * sizeof(float));
        RUEDA_RANK_CHECK(own["rueda_operations_total"]["broadcast"] == 0);
        RUEDA_RANK_CHECK(own["rueda_steps_total"] == 2);
        RUEDA_RANK_CHECK(own["rueda_step"] == 41);
        RUEDA_RANK_CHECK(own["rueda_operations_pending"] == 0);
        // The first allreduce needs a batch, because its name has no slot yet. The others may be direct announcements.
        RUEDA_RANK_CHECK(own["rueda_batches_total"] >= 1 && own["rueda_batches_total"] <= 5);
        RUEDA_RANK_CHECK(own["rueda_batched_operations_total"] == own["rueda_batches_total"]);
        RUEDA_RANK_CHECK(own["rueda_operation_waiting_seconds_total"]["allreduce"] >= 0.0);
        RUEDA_RANK_CHECK(own["rueda_resident_bytes"] >= 1000 && own["rueda_resident_bytes"] < 10000);
        RUEDA_RANK_CHECK(rank.runtime().deallocate(memory.value()).is_ok());
        RUEDA_RANK_CHECK(rank.own()["rueda_resident_bytes"] == 0);
        rank.meet("worked");
        const HostMetrics host = rank.all();
        RUEDA_RANK_CHECK(host.ranks.size() == 3 && host.job_ranks == 3 && !host.is_aborted);
        for (int other = 0; other < 3; ++other) {
            const core::RankMetrics& metrics = host.ranks[static_cast<std::size_t>(other)];
            RUEDA_RANK_CHECK(metrics.rank == other && metrics.is_up);
            RUEDA_RANK_CHECK(metrics.operations[base::RecordKind::kAllreduce].count == 5);
        }
        rank.meet("looked");
        rank.runtime().shutdown().throw_if_failed();
        RUEDA_RANK_CHECK(rank.runtime().metrics().status().code() == ErrorCode::not_initialized);
    });
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("a stalled operation is pending, is reported, and then fails", "[threads]") {
    base::Config config = runtime_rank_settings();
    config.stall_warning_seconds = 0.2;
    config.liveness_seconds = 0.02;
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context, config);
        Completion completion;
        if (context.rank() == 0) {
            rank.start("lonely", completion);
            // The background thread makes the report. The test's deadline limits this loop.
            while (rank.own()["rueda_stall_reports_total"] == 0) {
                std::this_thread::yield();
            }
            const json own = rank.own();
            RUEDA_RANK_CHECK(own["rueda_operations_pending"] == 1);
            RUEDA_RANK_CHECK(own["rueda_oldest_pending_operation_seconds"] >= 0.2);
            RUEDA_RANK_CHECK(own["rueda_operations_total"]["allreduce"] == 0);
            rank.runtime().abort("the test ends the job");
            RUEDA_RANK_CHECK(rank.runtime().wait(completion, -1).code() == ErrorCode::aborted);
            const json after = rank.own();
            RUEDA_RANK_CHECK(after["rueda_job_aborted"] == 1);
            RUEDA_RANK_CHECK(after["rueda_operations_failed_total"] == 1);
            RUEDA_RANK_CHECK(after["rueda_operations_pending"] == 0);
            RUEDA_RANK_CHECK(after["rueda_oldest_pending_operation_seconds"] == 0);
        }
        rank.meet("done");
        static_cast<void>(rank.runtime().shutdown());
    });
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("metrics are read by many threads while the rank works and leaves", "[threads]") {
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context);
        std::array<std::thread, 2> readers;
        for (std::thread& reader : readers) {
            reader = std::thread([&] {
                while (rank.runtime().metrics().is_ok()) {
                    std::this_thread::yield();
                }
            });
        }
        for (int step = 0; step < 200; ++step) {
            RUEDA_RANK_CHECK(rank.allreduce("loss").is_ok());
        }
        rank.runtime().shutdown().throw_if_failed();
        for (std::thread& reader : readers) {
            reader.join();
        }
    });
    INFO(result.text());
    CHECK(result.passed());
}

}  // namespace rueda::tests
