// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Kills a rank at a random time. Every other rank must soon get an error that names the killed rank, and must end
// cleanly.
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <iostream>
#include <random>
#include <thread>

#include "tests/faults/faults.hpp"

namespace rueda::tests {
namespace {

enum class Moment {
    init,
    negotiation,
    small,
    staged,
    resident,
    adasum,
    adasum_resident,
    gather,
    broadcast,
    scatter,
    messages,
    sets,
    idle,
    shutdown
};
constexpr std::array kMoments = {Moment::init,      Moment::negotiation, Moment::small,           Moment::staged,
                                 Moment::resident,  Moment::adasum,      Moment::adasum_resident, Moment::gather,
                                 Moment::broadcast, Moment::scatter,     Moment::messages,        Moment::sets,
                                 Moment::idle,      Moment::shutdown};

const char* name_of(Moment moment) {
    switch (moment) {
        case Moment::init:
            return "init";
        case Moment::negotiation:
            return "negotiation";
        case Moment::small:
            return "small tensors";
        case Moment::staged:
            return "staged";
        case Moment::resident:
            return "resident";
        case Moment::adasum:
            return "adasum";
        case Moment::adasum_resident:
            return "adasum in place";
        case Moment::gather:
            return "allgather";
        case Moment::broadcast:
            return "broadcast";
        case Moment::scatter:
            return "alltoall and reducescatter";
        case Moment::messages:
            return "messages";
        case Moment::sets:
            return "process sets";
        case Moment::idle:
            return "idle";
        case Moment::shutdown:
            return "shutdown";
    }
    return "unknown";
}

/// Whether the errors name a tensor. If a change of process sets fails, or a message, there is no name.
bool names_tensor(Moment moment) { return moment != Moment::sets && moment != Moment::messages; }

Status gather_until_failure(Client& client) {
    const Buffer mine(client, DType::float32, {client.rank() * 10'000 + 1}, client.rank() % 2 == 0);
    for (;;) {
        auto started = client.start_allgather("gather", mine.tensor());
        const Status status = started.is_ok() ? started.value()->wait() : started.status();
        if (!status.is_ok()) {
            return status;
        }
    }
}

/// Broadcasts resident tensors, so that the root writes to the other ranks' memory. Each rank is the root in turn.
Status broadcast_until_failure(Client& client) {
    const Buffer mine(client, DType::float32, {1 << 20}, true);
    for (int round = 0;; ++round) {
        const int root = round % client.size();
        const Status status = client.broadcast(fmt::format("broadcast.{}", root), mine.tensor(), root);
        if (!status.is_ok()) {
            return status;
        }
    }
}

Status scatter_until_failure(Client& client) {
    const std::int64_t rows = std::int64_t{10'000} * client.size();
    const Buffer mine(client, DType::float32, {rows}, client.rank() % 2 == 0);
    for (int round = 0;; ++round) {
        auto started = round % 2 == 0 ? client.start_alltoall("alltoall", mine.tensor(), std::nullopt)
                                      : client.start_reducescatter("reducescatter", mine.tensor(), nullptr, {});
        const Status status = started.is_ok() ? started.value()->wait() : started.status();
        if (!status.is_ok()) {
            return status;
        }
    }
}

/// Passes a message around all ranks by blocking calls. It is so long that its sender publishes it in three stretches,
/// and so short that it is sent whole. So the receiver may have copied a stretch when the sender is killed.
Status pass_messages_until_failure(RuntimeClient& client) {
    const Buffer buffer(client, DType::uint8, {64 << 10}, /*resident=*/false);
    auto* const data = static_cast<std::uint8_t*>(buffer.tensor().data);
    const std::size_t bytes = buffer.tensor().bytes();
    const int next = (client.rank() + 1) % client.size();
    const int previous = (client.rank() + client.size() - 1) % client.size();
    for (int round = 0;; ++round) {
        const auto content = static_cast<std::uint8_t>(round % 251);
        if (client.rank() == 0) {
            std::memset(data, content, bytes);
            RUEDA_RETURN_IF_FAILED(client.send(buffer.tensor(), next, round));
        }
        RUEDA_RETURN_IF_FAILED(client.receive(buffer.tensor(), previous, round));
        RUEDA_RANK_EQUAL(data[0], content);
        RUEDA_RANK_EQUAL(std::memcmp(data, data + 1, bytes - 1), 0);  // all bytes are equal
        if (client.rank() != 0) {
            RUEDA_RETURN_IF_FAILED(client.send(buffer.tensor(), next, round));
        }
    }
}

/// Adds and removes process sets, and runs operations between these changes. Each set leaves out a different rank.
Status change_sets_until_failure(RuntimeClient& world) {
    for (int round = 0;; ++round) {
        std::vector<int> ranks;
        for (int rank = 0; rank < world.size(); ++rank) {
            if (rank != round % world.size()) {
                ranks.push_back(rank);
            }
        }
        const auto set = world.add_set(ranks);
        RUEDA_RETURN_IF_FAILED(set.status());
        double value = 1;
        const Tensor tensor{&value, DType::float64, {1}};
        if (set.value() != nullptr) {
            RUEDA_RETURN_IF_FAILED(set.value()->allreduce("in the set", tensor, tensor, {ReduceOp::sum}));
            RUEDA_RANK_EQUAL(value, static_cast<double>(world.size() - 1));
        }
        RUEDA_RETURN_IF_FAILED(world.runtime().process_sets().remove(round + 1));
    }
}

Status work_until_failure(RuntimeClient& client, Moment moment) {
    constexpr std::int64_t kLarge = 1 << 20;
    switch (moment) {
        case Moment::negotiation:
            return reduce_until_failure(client, "new.", true, 100, false);
        case Moment::staged:
            return reduce_until_failure(client, "staged", false, kLarge, false);
        case Moment::resident:
            return reduce_until_failure(client, "resident", false, kLarge, true);
        case Moment::adasum:
            return adasum_until_failure(client, "adasum", kLarge / 4, false);
        case Moment::adasum_resident:
            return adasum_until_failure(client, "adasum in place", kLarge, true);
        case Moment::gather:
            return gather_until_failure(client);
        case Moment::broadcast:
            return broadcast_until_failure(client);
        case Moment::scatter:
            return scatter_until_failure(client);
        case Moment::messages:
            return pass_messages_until_failure(client);
        case Moment::sets:
            return change_sets_until_failure(client);
        case Moment::idle:
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            return reduce_until_failure(client, "late", false, 10, false);
        default:
            return reduce_until_failure(client, "small", false, 3, false);
    }
}

void live_until_failure(RankContext& context, const base::Config& config, Moment moment) {
    const auto failed = [&](const Status& status) {
        context.report("failed", fmt::format("{:.6f}", now_seconds()));
        context.report("code", rueda::name_of(status.code()));
        context.report("text", status.message());
    };
    context.report("pid", ::getpid());
    // A rank is killed only after its control plane is open. If it died earlier, the other ranks could not notice the
    // death, and their start would time out.
    auto plane = context.open_control_plane();
    plane.status().throw_if_failed();
    context.phase(name_of(Moment::init));
    auto created = RuntimeClient::create(config, std::move(plane).value());
    if (!created.is_ok()) {
        return failed(created.status());
    }
    RuntimeClient& client = *created.value();
    context.phase(name_of(moment));
    if (moment != Moment::shutdown) {
        const Status status = work_until_failure(client, moment);
        failed(status);
        // After the error, every call must fail at once with the same text.
        float value = 0;
        const Tensor tensor{&value, DType::float32, {1}};
        const std::string after =
            expect_failure(client.allreduce("after", tensor, tensor, {}), ErrorCode::aborted, "after");
        if (names_tensor(moment)) {
            RUEDA_RANK_EQUAL(after, "tensor 'after': " + status.message().substr(status.message().find("rank ")));
        }
    }
    expect_ok(client.shutdown(), "shutdown");
    context.report("ended", fmt::format("{:.6f}", now_seconds()));
}

struct Kill {
    int size = 2;
    int victim = 0;
    Moment moment = Moment::small;
    std::chrono::microseconds delay{0};
    double at = 0;
};

/// Checks a rank that was not killed. If the rank never needed the killed rank, it has no error.
void check_survivor(const RankOutcome& rank, const Kill& kill, int victim_pid) {
    REQUIRE(rank.end == RankEnd::returned);
    if (rank.values.count("text") == 0) {
        CHECK(kill.moment == Moment::shutdown);
        CHECK(std::stod(rank.value("ended")) - kill.at < kPromiseSeconds);
        return;
    }
    CHECK(std::stod(rank.value("failed")) - kill.at < kPromiseSeconds);
    CHECK(rank.value("code") == "Aborted");
    if (kill.moment == Moment::init && rank.value("text").find("died") == std::string::npos) {
        // Before the arena exists, the control plane reports the death in its own words.
        CHECK(rank.value("text").find(fmt::format("rank {}", kill.victim)) != std::string::npos);
        return;
    }
    // The error begins with the name of a tensor, except if the start failed.
    const std::string& text = rank.value("text");
    const std::string death = fmt::format(
        "rank {} (pid {}) died: its process ended and had not finished rueda::shutdown(); how it ended is "
        "known to the program that started it: ",
        kill.victim, victim_pid);
    if (!names_tensor(kill.moment)) {
        CHECK_THAT(text, Catch::Contains(death));
        return;
    }
    const std::size_t begin = kill.moment == Moment::init && text.find("tensor '") != 0 ? 0 : text.find("': ") + 3;
    CHECK((begin == 0 || text.find("tensor '") == 0));
    CHECK(text.find(death) == begin);
    CHECK(std::stod(rank.value("ended")) - kill.at < kPromiseSeconds);
}

/// Kills a rank. Returns the longest time from the kill to an error on another rank.
double run_kill(Kill& kill) {
    const base::Config config = test_config();
    const RanksResult result = run_ranks(
        kill.size, [&](RankContext& context) { live_until_failure(context, config, kill.moment); },
        {.as = RanksAs::processes, .deadline = std::chrono::seconds(30), .meanwhile = [&](RunningRanks& running) {
             running.wait_for_phase(kill.victim, name_of(kill.moment));
             std::this_thread::sleep_for(kill.delay);
             kill.at = now_seconds();
             running.kill_rank(kill.victim, SIGKILL);
         }});
    INFO(result.text());
    const RankOutcome& dead = result.ranks[static_cast<std::size_t>(kill.victim)];
    if (dead.end != RankEnd::killed) {  // the rank had finished before it could be killed
        CHECK((kill.moment == Moment::init || kill.moment == Moment::shutdown));
        return 0;
    }
    CHECK(dead.signal == SIGKILL);
    CHECK(result.leaks.empty());
    double longest = 0;
    for (int rank = 0; rank < kill.size; ++rank) {
        if (rank != kill.victim) {
            const RankOutcome& survivor = result.ranks[static_cast<std::size_t>(rank)];
            check_survivor(survivor, kill, std::stoi(dead.value("pid")));
            const auto failed = survivor.values.find("failed");
            longest = std::max(longest, failed == survivor.values.end() ? 0 : std::stod(failed->second) - kill.at);
        }
    }
    return longest;
}

/// Rank 0 copies from rank 1's memory for many seconds. It needs no other rank for this copy. During the copy, rank 1
/// dies.
void copy_for_long(RankContext& context) {
    constexpr std::int64_t kBytes = std::int64_t{48} << 20;
    constexpr int kCopies = 1000;
    base::Config config = test_config();
    config.hold_seconds = 0;  // batches begin at once
    auto plane = context.open_control_plane();
    plane.status().throw_if_failed();
    auto created = RuntimeClient::create(config, std::move(plane).value());
    created.status().throw_if_failed();
    RuntimeClient& client = *created.value();
    const Buffer buffer(client, DType::uint8, {kBytes}, /*resident=*/client.rank() == 1);
    std::vector<PendingPointer> copies;
    for (int i = 0; i < kCopies; ++i) {
        copies.push_back(expect_value(client.start_broadcast("copy." + std::to_string(i), buffer.tensor(), 1), "copy"));
    }
    context.phase("copying");
    if (client.rank() == 1) {
        context.wait_for_phase(0, "a phase that never comes");
    }
    // the background thread must notice the death, because this thread makes no call
    while (!client.runtime().aborted()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    context.report("aborted", fmt::format("{:.6f}", now_seconds()));
    expect_failure(copies.back()->wait(), ErrorCode::aborted, "the last copy");
    expect_ok(client.shutdown(), "shutdown");
}

TEST_CASE("a rank is killed while another one has work without a break", "[faults]") {
    double killed_at = 0;
    const RanksResult result = run_ranks(
        2, copy_for_long,
        {.as = RanksAs::processes, .deadline = std::chrono::seconds(60), .meanwhile = [&](RunningRanks& running) {
             running.wait_for_phase(0, "copying");
             running.wait_for_phase(1, "copying");
             killed_at = now_seconds();
             running.kill_rank(1, SIGKILL);
         }});
    INFO(result.text());
    REQUIRE(result.ranks[0].end == RankEnd::returned);
    CHECK(std::stod(result.ranks[0].value("aborted")) - killed_at < kPromiseSeconds);
}

/// FAULT_ROUNDS sets the number of kills, and FAULT_SEED sets the seed from which they are drawn.
TEST_CASE("a rank is killed", "[faults]") {
    const std::uint32_t seed = number_from_environment("FAULT_SEED", 1);
    const std::uint32_t rounds = number_from_environment("FAULT_ROUNDS", 2);
    std::mt19937 random(seed);
    double longest = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        for (const Moment moment : kMoments) {
            Kill kill;
            kill.size = random() % 2 == 0 ? 2 : 4;
            kill.victim = static_cast<int>(random() % static_cast<unsigned>(kill.size));
            kill.moment = moment;
            kill.delay = std::chrono::microseconds(random() % (moment == Moment::init ? 3'000 : 30'000));
            INFO("seed " << seed << ", round " << round << ": rank " << kill.victim << " of " << kill.size
                         << " is killed " << kill.delay.count() << " µs into " << name_of(moment));
            const double seconds = run_kill(kill);
            longest = moment == Moment::idle ? longest : std::max(longest, seconds);
        }
    }
    std::cout << fmt::format("a killed rank was known to the others after at most {:.2f} s\n", longest);
}

}  // namespace
}  // namespace rueda::tests
