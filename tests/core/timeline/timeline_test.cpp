// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the timelines that real ranks write.
#include <signal.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "base/timeline/timeline_part.hpp"
#include "core/pending/completion.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"
#include "tests/support/folder.hpp"
#include "tests/support/runtime_rank.hpp"

namespace rueda::tests {
namespace {

using core::Completion;
using core::Runtime;
using tests::Folder;
using Json = nlohmann::json;

base::Config settings(const std::string& timeline = {}, const std::string& host = {}) {
    base::Config config = runtime_rank_settings();
    config.hostname = host;
    config.timeline = timeline;
    config.timeline_mark_cycles = true;
    return config;
}

class Rank : public RuntimeRank {
public:
    explicit Rank(RankContext& context, const std::string& timeline = {}, const std::string& host = {})
        : RuntimeRank(context, settings(timeline, host)) {}

    void allreduce(const std::string& name) { RuntimeRank::allreduce(name).throw_if_failed(); }
    /// An allreduce of 4 MiB in private memory, which passes through the arena in many chunks.
    void reduce_large() {
        const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(values_.size())};
        const rueda_tensor tensor{values_.data(), shape.data(), 1, static_cast<std::int32_t>(DType::float32)};
        const rueda_options options = RUEDA_OPTIONS_INIT;
        Completion completion;
        runtime()
            .run(runtime().world(), nullptr, "large",
                 {.operation = collectives::Operation::allreduce, .in = &tensor, .out = &tensor}, options, completion)
            .throw_if_failed();
    }
    /// A send of 400 kB to another rank, or a receive from it.
    void message(bool sends, int peer) {
        const auto& world = runtime().shared_world();
        core::MessageRequest request;
        request.sends = sends;
        request.peer = peer;
        request.tag = 9;
        request.set = {world, &world->identity()};
        request.bytes = 400'000;
        request.memory = reinterpret_cast<std::byte*>(values_.data());
        Completion completion;
        runtime().run(request, completion).throw_if_failed();
    }

private:
    std::vector<float> values_ = std::vector<float>(std::size_t{1} << 20U, 1.0F);
};

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<Json> find(const Json& events, int rank, const std::string& name) {
    std::vector<Json> found;
    for (const Json& event : events) {
        if (event["pid"] == rank && event["name"] == name) {
            found.push_back(event);
        }
    }
    return found;
}

double end_of(const Json& event) { return event["ts"].get<double>() + event["dur"].get<double>(); }

}  // namespace

TEST_CASE("the file has every operation of every rank, and names the late one", "[threads]") {
    constexpr int kRanks = 4;
    constexpr int kLate = 2;
    const Folder folder;
    const std::string path = folder.path().string() + "/t.json";
    const RanksResult result = run_ranks(kRanks, [&](RankContext& context) {
        Rank rank(context, path);
        rank.runtime().begin_step(5);
        for (int i = 0; i < 10; ++i) {
            rank.allreduce("warm");
        }
        Completion completion;
        if (context.rank() != kLate) {
            rank.start("loss", completion);
        }
        context.phase("announced");
        for (int other = 0; other < kRanks; ++other) {
            if (other != kLate) {
                context.wait_for_phase(other, "announced");
            }
        }
        if (context.rank() == kLate) {
            rank.start("loss", completion);
        }
        rank.runtime().wait(completion, -1).throw_if_failed();
        rank.runtime().begin_busy("saving");
        rank.runtime().end_busy().throw_if_failed();
        rank.runtime().shutdown().throw_if_failed();
    });
    INFO(result.text());
    REQUIRE(result.passed());

    const Json events = Json::parse(text_of(path));  // requires valid JSON
    for (int rank = 0; rank < kRanks; ++rank) {
        INFO("rank " << rank);
        std::map<std::string, int> calls;
        double last_end = 0;
        for (const Json& negotiation : find(events, rank, "NEGOTIATE_ALLREDUCE")) {
            const std::string name = negotiation["args"]["name"];
            ++calls[name];
            CHECK(negotiation["args"]["bytes"] == 32);
            CHECK(negotiation["args"]["status"] == 0);
            if (name == "loss") {
                CHECK(negotiation["args"]["last_rank"] == kLate);
                CHECK(negotiation["args"]["blocking"] == false);
            }
        }
        CHECK(calls == std::map<std::string, int>{{"warm", 10}, {"loss", 1}});
        const auto whole = find(events, rank, "ALLREDUCE");
        // The row "execution" has one event for each batch. The row of a name has one event for each operation of this
        // name.
        int operations = 0;
        for (const Json& event : whole) {
            operations += event["cat"] == "operation" ? 1 : 0;
        }
        CHECK(operations == 11);
        CHECK(find(events, rank, "EXECUTE").size() == 11);
        CHECK(find(events, rank, "QUEUE").size() == 11);
        CHECK_FALSE(find(events, rank, "CYCLE_START").empty());
        CHECK(find(events, rank, "saving").size() == 1);
        REQUIRE(find(events, rank, "step 5").size() == 1);
        // Each rank waits for the end of an operation before it announces the next one, so executions must not overlap.
        std::map<double, double> spans;
        for (const Json& execution : find(events, rank, "EXECUTE")) {
            spans[execution["ts"].get<double>()] = end_of(execution);
        }
        for (const auto& [begin, end] : spans) {
            CHECK(begin >= last_end);
            last_end = end;
        }
        CHECK(end_of(find(events, rank, "step 5").front()) >= last_end);
    }
    const Result<base::TimelinePart> part = base::parse_timeline(text_of(path));
    REQUIRE(part.is_ok());
    CHECK(part.value().has_end);
    CHECK(part.value().end.operations == 11 * kRanks);
    CHECK(part.value().end.lost == 0);
}

TEST_CASE("a batch has the parts of its execution, and messages have rows", "[threads]") {
    const Folder folder;
    const std::string path = folder.path().string() + "/t.json";
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context);
        const auto parts = [&] {
            const collectives::Arena& arena = *rank.runtime().arena();
            return base::RecorderReader(*arena.recorder(arena.rank())).counters().parts;
        };
        rank.reduce_large();
        RUEDA_RANK_CHECK(parts() == 0);
        rank.meet("before");
        RUEDA_RANK_CHECK(rank.runtime().start_timeline(path, false).is_ok());
        rank.meet("on");
        rank.reduce_large();
        RUEDA_RANK_CHECK(parts() > 2 && parts() <= 17);
        rank.message(/*sends=*/context.rank() == 0, 1 - context.rank());
        rank.meet("done");
        rank.runtime().stop_timeline();
        const std::uint64_t before = parts();
        rank.reduce_large();
        RUEDA_RANK_CHECK(parts() == before);
        rank.runtime().shutdown().throw_if_failed();
    });
    INFO(result.text());
    REQUIRE(result.passed());
    const Json events = Json::parse(text_of(path));
    for (const int rank : {0, 1}) {
        INFO("rank " << rank);
        Json batch;
        for (const Json& event : find(events, rank, "ALLREDUCE")) {
            batch = event["cat"] == "batch" ? event : batch;
        }
        REQUIRE(batch.is_object());
        std::map<std::string, int> names;
        constexpr double kRounding = 0.02;  // microseconds
        double last_end = batch["ts"];
        for (const Json& event : events) {
            if (event["pid"] == rank && event.value("cat", "") == "part") {
                ++names[event["name"]];
                CHECK(event["tid"] == batch["tid"]);
                // The parts follow each other without overlap, inside of the batch's span. Each time and each
                // duration is rounded by itself.
                CHECK(event["ts"].get<double>() >= last_end - kRounding);
                last_end = end_of(event);
            }
        }
        CHECK(last_end <= end_of(batch) + kRounding);
        CHECK(names["COPY_IN"] >= 1);
        CHECK(names["REDUCE"] >= 1);
        CHECK(names["COPY_OUT"] >= 1);
        CHECK(names["FURTHER_CHUNKS"] == 1);
        const auto messages = find(events, rank, rank == 0 ? "SEND to rank 1" : "RECEIVE from rank 0");
        REQUIRE(messages.size() == 1);
        CHECK(messages[0]["args"]["tag"] == 9);
        CHECK(messages[0]["args"]["bytes"] == 400'000);
        REQUIRE(find(events, rank, "TRANSFER").size() == 1);
        CHECK(find(events, rank, "TRANSFER")[0]["dur"].get<double>() > 0);
    }
}

TEST_CASE("a batch of several hosts has parts, which merged files keep", "[threads]") {
    constexpr int kRanks = 4;
    const Folder folder;
    const std::string path = folder.path().string() + "/t.json";
    const RanksResult result = run_ranks(kRanks, [&](RankContext& context) {
        Rank rank(context, path, context.rank() < 2 ? "host-a" : "host-b");
        rank.reduce_large();
        rank.message(/*sends=*/context.rank() < 2, (context.rank() + 2) % kRanks);
        rank.runtime().shutdown().throw_if_failed();
    });
    INFO(result.text());
    REQUIRE(result.passed());
    // The shutdown of rank 0 has merged the parts of the two hosts.
    CHECK_FALSE(std::filesystem::exists(path + ".host1"));
    const Json events = Json::parse(text_of(path));
    std::map<std::string, int> names;
    for (int rank = 0; rank < kRanks; ++rank) {
        INFO("rank " << rank);
        int parts = 0;
        for (const Json& event : events) {
            if (event["pid"] == rank && event.value("cat", "") == "part") {
                ++names[event["name"]];
                ++parts;
            }
        }
        CHECK(parts > 2);
        CHECK(parts <= 17);
        CHECK(find(events, rank,
                   rank < 2 ? "SEND to rank " + std::to_string(rank + 2)
                            : "RECEIVE from rank " + std::to_string(rank - 2))
                  .size() == 1);
        CHECK(find(events, rank, "TRANSFER").size() == 1);
    }
    CHECK(names["REDUCE"] + names["COPY_IN"] + names["COPY_OUT"] + names["NETWORK"] > 0);
    CHECK(names["waiting for other hosts"] > 0);
}

TEST_CASE("timelines start and stop while the job runs", "[threads]") {
    const Folder folder;
    const auto path = [&](const std::string& name) { return folder.path().string() + "/" + name; };
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context);
        rank.allreduce("before");
        rank.meet("before");
        RUEDA_RANK_CHECK(rank.runtime().start_timeline(path("a"), false).is_ok());
        // If a timeline is on, starting it again has no effect.
        RUEDA_RANK_CHECK(rank.runtime().start_timeline(path("a"), true).is_ok());
        rank.meet("on");
        rank.allreduce("one");
        rank.meet("one");
        RUEDA_RANK_CHECK(rank.runtime().start_timeline(path("b"), false).is_ok());
        rank.meet("another");
        rank.allreduce("two");
        rank.runtime().add_timeline_scope("a scope", base::monotonic_ns());
        rank.meet("two");
        rank.runtime().stop_timeline();
        rank.runtime().stop_timeline();
        rank.meet("off");
        rank.runtime().add_timeline_scope("another scope", base::monotonic_ns());
        rank.allreduce("after");
        const Status refused = rank.runtime().start_timeline(path("nothing/c"), false);
        // Only rank 0 writes, so only rank 0 finds the wrong path.
        RUEDA_RANK_CHECK(refused.is_ok() == (context.rank() != 0));
        RUEDA_RANK_CHECK(rank.runtime().start_timeline("", false).code() == ErrorCode::invalid_argument);
        rank.allreduce("goes on");
        rank.runtime().shutdown().throw_if_failed();
        rank.runtime().add_timeline_scope("after the end", base::monotonic_ns());
    });
    INFO(result.text());
    REQUIRE(result.passed());
    for (const auto& [file, name] : std::map<std::string, std::string>{{"a", "one"}, {"b", "two"}}) {
        const Json events = Json::parse(text_of(path(file)));
        for (const int rank : {0, 1}) {
            const auto negotiations = find(events, rank, "NEGOTIATE_ALLREDUCE");
            REQUIRE(negotiations.size() == 1);
            CHECK(negotiations.front()["args"]["name"] == name);
            CHECK(find(events, rank, "a scope").size() == (file == "b" ? 1 : 0));
            CHECK(find(events, rank, "another scope").empty());
        }
    }
}

TEST_CASE("a program that is faster than the writer loses records, and the file says so", "[threads]") {
    constexpr std::uint64_t kSteps = 40'000;  // the job runs ten times as many operations as the ring has records
    const Folder folder;
    const std::string path = folder.path().string() + "/t.json";
    const RanksResult result = run_ranks(1, [&](RankContext& context) {
        Rank rank(context, path);
        for (std::uint64_t step = 0; step < kSteps; ++step) {
            rank.runtime().begin_step(static_cast<std::int64_t>(step));
        }
        rank.runtime().shutdown().throw_if_failed();
    });
    INFO(result.text());
    REQUIRE(result.passed());
    const Json events = Json::parse(text_of(path));
    std::uint64_t lost = 0;
    std::uint64_t steps = 0;
    for (const Json& event : events) {
        lost += event["name"] == "RECORDS_LOST" ? event["args"]["records"].get<std::uint64_t>() : 0;
        steps += event.value("cat", "") == "step" ? 1U : 0U;
    }
    CHECK(lost > 0);
    CHECK(lost + steps == kSteps);
    CHECK(events.back()["args"]["lost"] == lost);
}

TEST_CASE("a job goes on without a timeline if the file cannot be written", "[threads]") {
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context, "/dev/null/t.json");
        rank.allreduce("x");
        rank.runtime().shutdown().throw_if_failed();
    });
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("the operations that an abort ended are in the file", "[processes]") {
    const Folder folder;
    const std::string path = folder.path().string() + "/t.json";
    const RanksResult result =
        run_ranks(3,
                  [&](RankContext& context) {
                      Rank rank(context, path);
                      rank.allreduce("gradient");
                      Completion completion;
                      if (context.rank() == 1) {
                          context.wait_for_phase(0, "pending");
                          context.wait_for_phase(2, "pending");
                          raise(SIGKILL);
                      }
                      rank.start("loss", completion);
                      context.phase("pending");
                      RUEDA_RANK_CHECK(rank.runtime().wait(completion, -1).code() == ErrorCode::aborted);
                      static_cast<void>(rank.runtime().shutdown());
                  },
                  {.as = RanksAs::processes});
    INFO(result.text());
    REQUIRE(result.ranks[0].end == RankEnd::returned);
    REQUIRE(result.ranks[2].end == RankEnd::returned);
    const Json events = Json::parse(text_of(path));
    for (const int rank : {0, 2}) {
        const auto negotiations = find(events, rank, "NEGOTIATE_ALLREDUCE");
        REQUIRE(negotiations.size() == 2);
    }
    CHECK(find(events, 1, "NEGOTIATE_ALLREDUCE").size() == 1);
    CHECK(find(events, 0, "NEGOTIATE_ALLREDUCE").back()["args"]["status"] == static_cast<int>(ErrorCode::aborted));
}

}  // namespace rueda::tests
