// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests what real ranks record, what the files contain after the job, and what `rueda analyze` prints about them.
#include <signal.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "core/pending/completion.hpp"
#include "core/runtime/runtime.hpp"
#include "launcher/analyze/analyze.hpp"
#include "launcher/analyze/read_recordings.hpp"
#include "rueda/rueda.h"
#include "tests/support/folder.hpp"
#include "tests/support/runtime_rank.hpp"

namespace rueda::tests {
namespace {

using base::RecordedOperation;
using core::Completion;
using core::Runtime;
using tests::Folder;

base::Config settings(const std::string& folder = {}) {
    base::Config config = runtime_rank_settings();
    config.diagnostics_dir = folder;
    return config;
}

class Rank : public RuntimeRank {
public:
    using RuntimeRank::RuntimeRank;

    /// A send of 64 bytes to another rank, or a receive from it.
    [[nodiscard]] core::MessageRequest message(bool sends, int peer, std::int32_t tag) {
        const auto& world = runtime().shared_world();
        core::MessageRequest request;
        request.sends = sends;
        request.peer = peer;
        request.tag = tag;
        request.set = {world, &world->identity()};
        request.bytes = bytes_.size();
        request.memory = bytes_.data();
        return request;
    }
    Status run(const core::MessageRequest& request) {
        Completion completion;
        return runtime().run(request, completion);
    }

    [[nodiscard]] std::vector<RecordedOperation> recorded() {
        return base::RecorderReader(*runtime().arena()->recorder(runtime().arena()->rank())).operations();
    }

private:
    std::array<std::byte, 64> bytes_{};
};

std::vector<const RecordedOperation*> named(const std::vector<RecordedOperation>& operations, const std::string& name) {
    std::vector<const RecordedOperation*> found;
    for (const RecordedOperation& operation : operations) {
        if (operation.name == name) {
            found.push_back(&operation);
        }
    }
    return found;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a rank records its operations from begin to end", "[threads]") {
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context, settings());
        rank.runtime().begin_step(41);
        for (int step = 0; step < 3; ++step) {
            RUEDA_RANK_CHECK(rank.allreduce("loss").is_ok());
        }
        Completion first;
        Completion second;
        rank.start("a", first);
        rank.start("b", second);
        RUEDA_RANK_CHECK(rank.runtime().wait(first, -1).is_ok());
        RUEDA_RANK_CHECK(rank.runtime().wait(second, -1).is_ok());

        const auto operations = rank.recorded();
        RUEDA_RANK_CHECK(operations.size() == 6);
        RUEDA_RANK_CHECK(operations[0].kind == base::RecordKind::kStep && operations[0].ordinal == 41);
        std::uint64_t ordinal = 0;
        for (const RecordedOperation& operation : operations) {
            if (operation.kind == base::RecordKind::kStep) {
                continue;
            }
            RUEDA_RANK_CHECK(operation.kind == base::RecordKind::kAllreduce);
            RUEDA_RANK_CHECK(operation.dtype == static_cast<std::uint8_t>(DType::float32));
            RUEDA_RANK_CHECK(operation.bytes == 32);
            RUEDA_RANK_CHECK(operation.ordinal == ++ordinal);
            RUEDA_RANK_CHECK(operation.status == 0);
            RUEDA_RANK_CHECK(operation.started_ns && operation.ended_ns);
            RUEDA_RANK_CHECK(operation.announced_ns <= *operation.started_ns);
            RUEDA_RANK_CHECK(*operation.started_ns <= *operation.ended_ns);
        }
        const auto losses = named(operations, "loss");
        RUEDA_RANK_CHECK(losses.size() == 3);
        // The name had no slot yet, so the operation was called in a batch.
        RUEDA_RANK_CHECK(losses[0]->generation == 0 && losses[0]->batch.has_value());
        RUEDA_RANK_CHECK(losses[1]->generation == 1 && losses[2]->generation == 2);
        RUEDA_RANK_CHECK(losses[0]->is_blocking);
        RUEDA_RANK_CHECK(!named(operations, "a")[0]->is_blocking);
        const auto counters =
            base::RecorderReader(*rank.runtime().arena()->recorder(rank.runtime().arena()->rank())).counters();
        RUEDA_RANK_CHECK(counters.ended == 5 && counters.bytes == 160 && counters.steps == 1);
        rank.runtime().shutdown().throw_if_failed();
    });
    INFO(result.text());
    CHECK(result.passed());
}

/// A blocking call is recorded after its announcement, and does not hold the enqueue lock then. So another thread may
/// announce at the same time.
TEST_CASE("operations of two threads of a rank have different numbers", "[threads]") {
    constexpr std::uint64_t kCalls = 400;
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context, settings());
        const auto reduce = [&rank](const std::string& name, bool blocks) {
            float value = 1;
            const std::int64_t elements = 1;
            const rueda_tensor tensor{&value, &elements, 1, static_cast<std::int32_t>(DType::float32)};
            const core::Arguments arguments{
                .operation = collectives::Operation::allreduce, .in = &tensor, .out = &tensor};
            const rueda_options options = RUEDA_OPTIONS_INIT;
            for (std::uint64_t call = 0; call < kCalls; ++call) {
                Completion completion;
                Runtime& runtime = rank.runtime();
                auto& world = runtime.world();
                const Status called = blocks ? runtime.run(world, nullptr, name, arguments, options, completion)
                                             : runtime.start(world, nullptr, name, arguments, options, completion);
                RUEDA_RANK_CHECK(called.is_ok());
                RUEDA_RANK_CHECK(blocks || runtime.wait(completion, -1).is_ok());
            }
        };
        Status thrown;
        std::thread other([&] {
            try {
                reduce("asynchronous", false);
            } catch (const std::exception& error) {
                thrown = Status(ErrorCode::internal, error.what());
            }
        });
        reduce("blocking", true);
        other.join();
        thrown.throw_if_failed();
        std::vector<std::uint64_t> numbers;
        for (const RecordedOperation& operation : rank.recorded()) {
            numbers.push_back(operation.ordinal);
            RUEDA_RANK_CHECK(operation.is_blocking == (operation.name == "blocking"));
        }
        std::sort(numbers.begin(), numbers.end());
        RUEDA_RANK_CHECK(numbers.size() == 2 * kCalls);
        for (std::uint64_t index = 0; index < numbers.size(); ++index) {
            RUEDA_RANK_CHECK(numbers[index] == index + 1);
        }
        rank.runtime().shutdown().throw_if_failed();
    });
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("a rank records its sends and receives", "[threads]") {
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context, settings());
        const bool sends = context.rank() == 0;
        const int peer = 1 - context.rank();
        RUEDA_RANK_CHECK(rank.run(rank.message(sends, peer, 5)).is_ok());
        Completion completion;
        rank.runtime().start(rank.message(sends, sends ? peer : RUEDA_ANY_PEER, 6), completion).throw_if_failed();
        RUEDA_RANK_CHECK(rank.runtime().wait(completion, -1).is_ok());
        RUEDA_RANK_CHECK(rank.allreduce("loss").is_ok());

        const auto operations = rank.recorded();
        RUEDA_RANK_CHECK(operations.size() == 3);
        for (std::size_t i = 0; i < 2; ++i) {
            const RecordedOperation& message = operations[i];
            RUEDA_RANK_CHECK(message.kind == (sends ? base::RecordKind::kSend : base::RecordKind::kReceive));
            RUEDA_RANK_CHECK((message.message == base::MessageEnd{peer, 5 + static_cast<std::int32_t>(i)}));
            RUEDA_RANK_CHECK(message.bytes == 64 && message.set_id == 0 && message.status == 0);
            RUEDA_RANK_CHECK(i != 0 || message.is_blocking);
            RUEDA_RANK_CHECK(message.announced_ns <= *message.started_ns && *message.started_ns <= *message.ended_ns);
        }
        RUEDA_RANK_CHECK(operations[2].ordinal == 1);  // messages are not counted among the operations of the set
        rank.runtime().shutdown().throw_if_failed();
    });
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("a receive counts as blocking if the program waits for it at once", "[threads]") {
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context, settings());
        const auto is_blocking = [&rank](std::chrono::milliseconds between) {
            Completion completion;
            rank.runtime().start(rank.message(/*sends=*/false, 0, 7), completion).throw_if_failed();
            std::this_thread::sleep_for(between);
            RUEDA_RANK_CHECK(rank.runtime().wait(completion, 0.001).code() == ErrorCode::timeout);
            const bool found = rank.recorded().back().is_blocking;
            // rank 0 waits for this message before it sends its own
            rank.run(rank.message(/*sends=*/true, 0, 8)).throw_if_failed();
            rank.runtime().wait(completion, -1).throw_if_failed();
            return found;
        };
        // The system may suspend the thread between its two calls. Therefore the test makes several attempts.
        constexpr int kAttempts = 20;
        int blocking = 0;
        for (int attempt = 0; attempt < kAttempts; ++attempt) {
            if (context.rank() == 0) {
                rank.run(rank.message(/*sends=*/false, 1, 8)).throw_if_failed();
                rank.run(rank.message(/*sends=*/true, 1, 7)).throw_if_failed();
            } else {
                blocking += is_blocking(std::chrono::milliseconds(attempt == 0 ? 50 : 0)) ? 1 : 0;
                RUEDA_RANK_CHECK(attempt != 0 || blocking == 0);
            }
        }
        RUEDA_RANK_CHECK(context.rank() == 0 || blocking > 0);
        rank.runtime().shutdown().throw_if_failed();
    });
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("after a hang in a receive the files name it", "[threads]") {
    const Folder folder;
    const RanksResult result = run_ranks(3, [&](RankContext& context) {
        Rank rank(context, settings(folder.path().string()));
        RUEDA_RANK_CHECK(rank.allreduce("gradient").is_ok());
        Completion completion;
        if (context.rank() == 2) {
            rank.runtime().start(rank.message(/*sends=*/false, 0, 7), completion).throw_if_failed();
        } else {
            rank.start("loss", completion);
        }
        rank.meet("submitted");
        if (context.rank() == 1) {
            rank.runtime().abort("the test ends the job");
        }
        // during this sleep, the background thread waits for the message
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        RUEDA_RANK_CHECK(rank.runtime().wait(completion, -1).code() == ErrorCode::aborted);
        static_cast<void>(rank.runtime().shutdown());
    });
    INFO(result.text());
    REQUIRE(result.passed());
    const auto recordings = launcher::read_recordings(folder.path().string());
    INFO(recordings.status().message());
    REQUIRE(recordings.is_ok());
    const launcher::Analysis analysis = launcher::analyze(recordings.value());
    const std::string text = launcher::format_analysis(analysis);
    INFO(text);
    CHECK(analysis.divergences.empty());
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.pending[0].missing == std::vector<std::int32_t>{2});
    REQUIRE(analysis.pending_messages.messages.size() == 1);
    CHECK(analysis.pending_messages.messages[0].rank == 2);
    CHECK(contains(text,
                   "in a receive from rank 0, tag 7 (64 bytes), in the background; rank 0 did not wait in its send"));
}

TEST_CASE("steps that begin after the end of the job are not recorded, and do no harm", "[threads]") {
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context, settings());
        rank.runtime().shutdown().throw_if_failed();
        rank.runtime().begin_step(1);
    });
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("after a divergence the files say where", "[threads]") {
    const Folder folder;
    const RanksResult result = run_ranks(3, [&](RankContext& context) {
        Rank rank(context, settings(folder.path().string()));
        for (int step = 0; step < 4; ++step) {
            RUEDA_RANK_CHECK(rank.allreduce("gradient").is_ok());
        }
        Completion completion;
        rank.start(context.rank() == 2 ? "metric" : "loss", completion);
        rank.meet("submitted");
        if (context.rank() == 1) {
            rank.runtime().abort("the test ends the job");
        }
        RUEDA_RANK_CHECK(rank.runtime().wait(completion, -1).code() == ErrorCode::aborted);
        static_cast<void>(rank.runtime().shutdown());
    });
    INFO(result.text());
    REQUIRE(result.passed());

    const auto recordings = launcher::read_recordings(folder.path().string());
    INFO(recordings.status().message());
    REQUIRE(recordings.is_ok());
    REQUIRE(recordings.value().size() == 3);
    for (const base::Recording& recording : recordings.value()) {
        CHECK(recording.size == 3);
        CHECK(contains(recording.reason, "the test ends the job"));
        CHECK(named(recording.operations, "gradient").size() == 4);
        CHECK(recording.sets == std::vector<base::RecordedSet>{{0, "ranks 0-2"}});
    }
    const launcher::Analysis analysis = launcher::analyze(recordings.value());
    const std::string text = launcher::format_analysis(analysis);
    INFO(text);
    CHECK(contains(text,
                   "rank 2 called allreduce 'metric' where ranks 0, 1 called allreduce 'loss': operation 5 of "
                   "the world"));
    CHECK(analysis.pending.size() == 2);
    REQUIRE(analysis.lateness.size() == 3);
    CHECK(analysis.lateness[0].compared == 4);
    CHECK(launcher::run_analyze(std::vector{folder.path().string()}) == 1);
}

TEST_CASE("the recorder of a killed rank is written by another", "[processes]") {
    const Folder folder;
    const RanksResult result = run_ranks(4,
                                         [&](RankContext& context) {
                                             Rank rank(context, settings(folder.path().string()));
                                             for (int step = 0; step < 10; ++step) {
                                                 RUEDA_RANK_CHECK(rank.allreduce("gradient").is_ok());
                                             }
                                             Completion completion;
                                             if (context.rank() == 1) {
                                                 rank.start("the last one", completion);
                                                 rank.meet("submitted");
                                                 raise(SIGKILL);
                                             }
                                             rank.meet("submitted");
                                             RUEDA_RANK_CHECK(rank.allreduce("another").code() == ErrorCode::aborted);
                                             static_cast<void>(rank.runtime().shutdown());
                                         },
                                         {.as = RanksAs::processes});
    INFO(result.text());
    CHECK(result.ranks[1].signal == SIGKILL);
    for (const int rank : {0, 2, 3}) {
        REQUIRE(result.ranks[static_cast<std::size_t>(rank)].end == RankEnd::returned);
    }
    const auto recordings = launcher::read_recordings(folder.path().string());
    INFO(recordings.status().message());
    REQUIRE(recordings.is_ok());
    REQUIRE(recordings.value().size() == 4);
    const base::Recording& killed = recordings.value()[1];
    CHECK(killed.state == "dead");
    CHECK(killed.written_by == 0);
    REQUIRE(killed.operations.size() == 11);
    CHECK(killed.operations.back().name == "the last one");
    CHECK_FALSE(killed.operations.back().ended_ns);
    CHECK(killed.operations[9].name == "gradient");
    CHECK(killed.operations[9].ended_ns);

    const launcher::Analysis analysis = launcher::analyze(recordings.value());
    const std::string text = launcher::format_analysis(analysis);
    INFO(text);
    CHECK(contains(text, "rank 1 called allreduce 'the last one' where ranks 0, 2, 3 called allreduce 'another'"));
    CHECK(contains(text, "dead"));
}

TEST_CASE("a stall report comes with the files of all ranks of the host", "[threads]") {
    const Folder folder;
    base::Config config = settings(folder.path().string());
    config.stall_warning_seconds = 0.2;
    config.liveness_seconds = 0.02;
    const RanksResult result = run_ranks(2, [&](RankContext& context) {
        Rank rank(context, config);
        if (context.rank() == 0) {
            Completion completion;
            rank.start("lonely", completion);
            // The background thread writes the report. If it does not, the test's deadline ends this loop.
            const auto has_both = [&] {
                const auto recordings = launcher::read_recordings(folder.path().string());
                return recordings.is_ok() && recordings.value().size() == 2;
            };
            while (!has_both()) {
                std::this_thread::yield();
            }
            context.phase("written");
            RUEDA_RANK_CHECK(rank.runtime().wait(completion, -1).is_ok());
        } else {
            context.wait_for_phase(0, "written");
            RUEDA_RANK_CHECK(rank.allreduce("lonely").is_ok());
        }
        rank.runtime().shutdown().throw_if_failed();
    });
    INFO(result.text());
    REQUIRE(result.passed());
    const auto recordings = launcher::read_recordings(folder.path().string());
    REQUIRE(recordings.is_ok());
    const launcher::Analysis analysis = launcher::analyze(recordings.value());
    const std::string text = launcher::format_analysis(analysis);
    INFO(text);
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.divergences.empty());
    CHECK(contains(text, "allreduce 'lonely': rank 0 called it"));
    CHECK(analysis.pending[0].missing == std::vector<std::int32_t>{1});
}

}  // namespace rueda::tests
