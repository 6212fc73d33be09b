// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/analyze/analyze.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/analyze/read_recordings.hpp"
#include "tests/support/folder.hpp"

namespace rueda::launcher {
namespace {

int exit_of(const std::vector<std::string>& arguments) { return run_analyze(arguments); }

using base::RecordedOperation;
using base::Recording;
using Ranks = std::vector<std::int32_t>;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The recordings of a job. A test adds operations to them.
class Job {
public:
    explicit Job(std::int32_t size) {
        for (std::int32_t rank = 0; rank < size; ++rank) {
            Recording recording;
            recording.rank = rank;
            recording.size = size;
            recording.host = "vm";
            recording.state = "running";
            recording.reason = "a test";
            recording.written_ns = kWritten;
            recording.sets.push_back({0, "ranks 0-" + std::to_string(size - 1)});
            ranks.push_back(recording);
        }
    }
    /// Adds an operation of a rank; times are in milliseconds. An operation without an end is pending.
    RecordedOperation& call(std::int32_t rank, const std::string& name, std::int64_t at_ms, std::int64_t end_ms = -1,
                            std::int32_t set_id = 0) {
        Recording& recording = ranks[static_cast<std::size_t>(rank)];
        RecordedOperation operation;
        operation.number = recording.operations.size();
        operation.has_name_record = true;
        operation.name = name;
        operation.name_hash = static_cast<std::uint32_t>(std::hash<std::string>{}(name));
        operation.set_id = set_id;
        operation.announced_ns = at_ms * 1'000'000;
        operation.ordinal = 1;
        operation.generation = 1;
        for (const RecordedOperation& other : recording.operations) {
            operation.ordinal += other.set_id == set_id ? 1U : 0U;
            operation.generation += other.set_id == set_id && other.name == name ? 1U : 0U;
        }
        if (end_ms >= 0) {
            operation.started_ns = end_ms * 1'000'000;
            operation.ended_ns = end_ms * 1'000'000;
        }
        recording.counters.announced = recording.operations.size() + 1;
        recording.operations.push_back(operation);
        return recording.operations.back();
    }
    /// The rank calls a blocking send or receive. Times are in milliseconds. A send or receive without an end is
    /// pending.
    RecordedOperation& message(std::int32_t rank, std::uint8_t kind, base::MessageEnd end, std::int64_t at_ms,
                               std::int64_t end_ms = -1) {
        Recording& recording = ranks[static_cast<std::size_t>(rank)];
        RecordedOperation& message = recording.operations.emplace_back();
        message.number = recording.operations.size() - 1;
        message.kind = kind;
        message.message = end;
        message.bytes = 64;
        message.is_blocking = true;
        message.announced_ns = at_ms * 1'000'000;
        if (end_ms >= 0) {
            message.started_ns = message.ended_ns = end_ms * 1'000'000;
        }
        recording.counters.announced = recording.operations.size();
        ++recording.counters.messages;
        return message;
    }
    static constexpr std::int64_t kWritten = 10'000'000'000;
    std::vector<Recording> ranks;
};

}  // namespace

TEST_CASE("a job without a finding", "[analyze]") {
    Job job(3);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
        job.call(rank, "x", 5, 6);
    }
    const Analysis analysis = analyze(job.ranks);
    CHECK(analysis.is_clean());
    CHECK(analysis.without_file.empty());
    CHECK(contains(format_analysis(analysis), "No operation was pending."));
    CHECK(contains(format_analysis(analysis),
                   "rank 1 on vm: running; 1 operations; the last that ended was allreduce 'x', "
                   "10.0 s before this was written"));
}

TEST_CASE("ranks that call different operations diverge", "[analyze]") {
    Job job(3);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
        job.call(rank, "x", 5, 6);
        job.call(rank, rank == 2 ? "b" : "a", 7);
    }
    const Analysis analysis = analyze(job.ranks);
    REQUIRE(analysis.divergences.size() == 1);
    const Divergence& divergence = analysis.divergences[0];
    CHECK(divergence.other.ranks == Ranks{2});
    CHECK(divergence.other.what.name == "b");
    CHECK(divergence.most.ranks == Ranks{0, 1});
    CHECK(divergence.most.what.name == "a");
    CHECK(divergence.most.ordinal == 2);
    const std::string text = format_analysis(analysis);
    CHECK(contains(text,
                   "  rank 2 called allreduce 'b' where ranks 0, 1 called allreduce 'a': operation 2 of the world\n"));
    CHECK(
        contains(text, "  allreduce 'a': ranks 0, 1 called it, and waited for up to 10.0 s; rank 2 did not call it\n"));
}

TEST_CASE("an operation that failed because the job ended was pending", "[analyze]") {
    Job job(2);
    RecordedOperation& failed = job.call(0, "a", 7, 9);
    failed.status = static_cast<std::uint8_t>(ErrorCode::aborted);
    failed.started_ns.reset();
    RecordedOperation& other = job.call(1, "b", 7, 9);
    other.status = static_cast<std::uint8_t>(ErrorCode::mismatch);
    const Analysis analysis = analyze(job.ranks);
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.pending[0].missing == Ranks{1});
    CHECK(analysis.pending[0].calls[0].waited_ns == 2'000'000);
}

TEST_CASE("a GPU that does not end an operation is named", "[analyze]") {
    Job job(3);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
        RecordedOperation& call = job.call(rank, "w", 100, rank == 1 ? -1 : 120);
        call.started_ns = 110'000'000;
        call.is_launched = true;
    }
    const Analysis analysis = analyze(job.ranks);
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.pending[0].calls[0].rank == 1);
    CHECK(analysis.pending[0].calls[0].is_launched);
    CHECK(analysis.pending[0].ended == Ranks{0, 2});
    CHECK(contains(format_analysis(analysis),
                   "allreduce 'w': rank 1 called it, and waited for up to 9.9 s; launched, and not done by the GPU of "
                   "rank 1; it had ended on ranks 0, 2\n"));
    CHECK(nlohmann::json::parse(format_analysis_json(analysis))["pending"][0]["calls"][0]["launched"] == true);

    // The analysis must not report that a GPU was still at work when the job ended.
    Job other(2);
    other.call(0, "w", 100, 120).is_launched = true;
    RecordedOperation& aborted = other.call(1, "w", 100, 130);
    aborted.is_launched = true;
    aborted.status = static_cast<std::uint8_t>(ErrorCode::aborted);
    CHECK(analyze(other.ranks).pending.empty());
}

TEST_CASE("a GPU that has not got an operation is named", "[analyze]") {
    Job job(2);
    job.call(0, "w", 100).is_launched = true;
    job.call(1, "w", 100);
    CHECK(contains(format_analysis(analyze(job.ranks)),
                   "; launched, and not done by the GPU of rank 0; rank 1 had not launched it\n"));
}

TEST_CASE("a rank that calls nothing is missing, and does not diverge", "[analyze]") {
    Job job(3);
    job.call(0, "a", 7);
    job.call(2, "a", 8);
    const Analysis analysis = analyze(job.ranks);
    CHECK(analysis.divergences.empty());
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.pending[0].missing == Ranks{1});
    CHECK(analysis.pending[0].unknown.empty());
}

TEST_CASE("two ranks of hundreds wait in many operations", "[analyze]") {
    constexpr std::int32_t kRanks = 300;
    Job job(kRanks);
    for (std::int32_t rank = 0; rank < kRanks; ++rank) {
        for (int i = 0; i < 20; ++i) {
            job.call(rank, "layer" + std::to_string(i), i, i + 1);
        }
    }
    for (int i = 0; i < 50; ++i) {
        job.call(7, "layer" + std::to_string(i), 100 + i);
        job.call(8, "layer" + std::to_string(i), 100 + i);
    }
    job.call(250, "other", 200);
    const Analysis analysis = analyze(job.ranks);
    REQUIRE(analysis.pending.size() == 51);
    for (const PendingOperation& pending : analysis.pending) {
        CHECK(pending.missing.size() == kRanks - pending.calls.size());
        CHECK(pending.unknown.empty());
    }
    CHECK(analysis.pending[0].first_ordinal == 21);
    REQUIRE(analysis.divergences.size() == 1);  // the first operation in which the two ranks differ
    CHECK(analysis.divergences[0].most.what.name == "layer0");
    CHECK(analysis.divergences[0].most.ranks == Ranks{7, 8});
    CHECK(analysis.divergences[0].other.what.name == "other");
    REQUIRE(analysis.lateness.size() == kRanks);
    CHECK(analysis.lateness[123].compared == 20);
}

TEST_CASE("a rank without a file is not called missing", "[analyze]") {
    Job job(3);
    job.call(0, "a", 7);
    job.call(2, "a", 8);
    job.ranks.erase(job.ranks.begin() + 1);
    const Analysis analysis = analyze(job.ranks);
    CHECK(analysis.without_file == Ranks{1});
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.pending[0].missing.empty());
    CHECK(analysis.pending[0].unknown == Ranks{1});
}

TEST_CASE("a rank whose ring does not reach back is not called missing", "[analyze]") {
    Job job(2);
    job.call(0, "a", 7);
    for (int i = 0; i < 5; ++i) {
        job.call(1, "other", 8, 9);
    }
    // Simulates that the ring overwrote the first operation.
    job.ranks[1].operations.erase(job.ranks[1].operations.begin());
    const Analysis analysis = analyze(job.ranks);
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.pending[0].missing.empty());
    CHECK(analysis.pending[0].unknown == Ranks{1});
}

TEST_CASE("ranks in one operation do not diverge because of an earlier use of its name", "[analyze]") {
    Job job(2);
    for (std::int32_t rank = 0; rank < 2; ++rank) {
        // `generation` is 0 if the name had no slot when the operation was called. So both calls of "a" have the same
        // generation.
        job.call(rank, "a", 1, 2).generation = 0;
        job.call(rank, "b", 3, 4);
    }
    job.call(0, "a", 7).generation = 0;
    const Analysis analysis = analyze(job.ranks);
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.pending[0].missing == Ranks{1});
}

TEST_CASE("operations without a name are told by the number of the call", "[analyze]") {
    Job job(2);
    job.call(0, "", 7).generation = 17;
    job.call(1, "", 7).generation = 18;
    CHECK(
        contains(format_analysis(analyze(job.ranks)),
                 "rank 1 called allreduce without a name (call 18) where rank 0 called allreduce without a name (call "
                 "17)"));
}

TEST_CASE("only members of a process set are missing", "[analyze]") {
    Job job(4);
    for (const std::int32_t rank : {1, 3}) {
        job.ranks[static_cast<std::size_t>(rank)].sets.push_back({5, "ranks 1, 3"});
    }
    job.call(1, "a", 7, -1, 5);
    const Analysis analysis = analyze(job.ranks);
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.pending[0].missing == Ranks{3});
    CHECK(contains(format_analysis(analysis), "(process set 5)"));
}

TEST_CASE("a rank that waits in a receive is named, and does not diverge", "[analyze]") {
    Job job(3);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
        job.call(rank, "x", 5, 6);
    }
    job.message(0, base::RecordKind::kSend, {1, 4}, 7, 8);
    job.message(1, base::RecordKind::kReceive, {0, 4}, 7, 9);
    job.message(2, base::RecordKind::kReceive, {0, 7}, 4000);
    job.call(0, "loss", 5000);
    job.call(1, "loss", 5000);
    const Analysis analysis = analyze(job.ranks);
    CHECK(analysis.divergences.empty());
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.pending[0].missing == Ranks{2});
    CHECK(analysis.lateness[0].compared == 1);
    CHECK(analysis.ranks[1].last->describe() == "receive from rank 0, tag 4");
    CHECK(analysis.ranks[1].operations == 2);
    CHECK(analysis.ranks[1].messages == 1);
    CHECK_FALSE(analysis.is_clean());
    const std::string text = format_analysis(analysis);
    INFO(text);
    CHECK(contains(
        text,
        "Pending sends and receives:\n"
        "  rank 2 waited 6.0 s in a receive from rank 0, tag 7 (64 bytes); rank 0 did not wait in its send\n"));
    CHECK(
        contains(text,
                 "rank 1 on vm: running; 2 operations, 1 sends and receives; the last that ended was receive from rank "
                 "0, tag 4, 10.0 s before"));
    const auto json = nlohmann::json::parse(format_analysis_json(analysis));
    REQUIRE(json["pending_messages"].size() == 1);
    CHECK(json["pending_messages"][0]["rank"] == 2);
    CHECK(json["pending_messages"][0]["operation"] == nlohmann::json{{"kind", "receive"}, {"peer", 0}, {"tag", 7}});
    CHECK(json["pending_messages"][0]["other_side"] == "not called");
    CHECK(json["ranks"][0]["messages"] == 1);
}

TEST_CASE("messages whose other side waits, or is not known", "[analyze]") {
    Job job(4);
    job.message(0, base::RecordKind::kSend, {1, 4}, 7);
    job.message(1, base::RecordKind::kReceive, {-1, 4}, 7).is_blocking = false;
    job.message(1, base::RecordKind::kReceive, {-1, 5}, 7).set_id = 3;
    job.message(2, base::RecordKind::kSend, {3, 4}, 7);
    job.ranks.pop_back();  // rank 3 has no file
    job.message(0, base::RecordKind::kReceive, {2, 1}, 9000, 9500).status =
        static_cast<std::uint8_t>(ErrorCode::aborted);
    const Analysis analysis = analyze(job.ranks);
    using Side = PendingMessage::OtherSide;
    std::vector<Side> sides;
    for (const PendingMessage& message : analysis.pending_messages.messages) {
        sides.push_back(message.other_side);
    }
    CHECK(sides == std::vector{Side::called, Side::not_called, Side::called, Side::unknown, Side::unknown});
    const std::string text = format_analysis(analysis);
    INFO(text);
    CHECK(contains(text, "rank 0 waited 10.0 s in a send to rank 1, tag 4 (64 bytes); rank 1 waited in the receive\n"));
    CHECK(contains(text,
                   "rank 0 waited 500.0 ms in a receive from rank 2, tag 1 (64 bytes); rank 2 did not wait in its "));
    CHECK(
        contains(text, "in a receive from any rank, tag 4 (64 bytes), in the background; a rank waited in the send\n"));
    CHECK(contains(text, "(64 bytes) (process set 3); it is not known whether a rank called the send\n"));
    CHECK(contains(text, "; it is not known whether rank 3 called the receive\n"));
    CHECK(analysis.pending_messages.crossed.empty());
}

TEST_CASE("two ranks that send to each other", "[analyze]") {
    Job job(3);
    job.message(0, base::RecordKind::kSend, {2, 4}, 7);
    job.message(1, base::RecordKind::kSend, {2, 4}, 7);
    job.message(2, base::RecordKind::kSend, {0, 9}, 7);
    const Analysis analysis = analyze(job.ranks);
    REQUIRE(analysis.pending_messages.crossed.size() == 1);
    CHECK(contains(format_analysis(analysis),
                   "  ranks 0 and 2 each waited in a blocking send to the other; neither received\n"));
}

TEST_CASE("a ring full of messages does not reach back", "[analyze]") {
    Job job(2);
    job.call(0, "a", 7);
    for (int i = 0; i < 5; ++i) {
        job.message(1, base::RecordKind::kSend, {0, 1}, 8, 9);
    }
    job.ranks[1].counters.announced += 1000;  // were overwritten
    const Analysis analysis = analyze(job.ranks);
    REQUIRE(analysis.pending.size() == 1);
    CHECK(analysis.pending[0].missing.empty());
    CHECK(analysis.pending[0].unknown == Ranks{1});
}

TEST_CASE("the rank that is last is late", "[analyze]") {
    Job job(3);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
        job.call(rank, "a", rank == 1 ? 30 : 10, 31);  // rank 1 is 20 ms late
        job.call(rank, "b", rank == 1 ? 45 : 40, 46);  // rank 1 is 5 ms late
        job.call(rank, "c", 50, 51);
        job.call(rank, "d", rank == 0 ? 60 : 61, 62);  // ranks 1 and 2 are both last, so neither is a straggler
    }
    job.call(0, "e", 70, 71);  // only one rank has recorded this operation, so it is not compared
    const Analysis analysis = analyze(job.ranks);
    REQUIRE(analysis.lateness.size() == 3);
    CHECK(analysis.lateness[0].last == 0);
    CHECK(analysis.lateness[1].compared == 4);
    CHECK(analysis.lateness[1].last == 2);
    CHECK(analysis.lateness[1].awaited_ns == 25'000'000);
    CHECK(analysis.lateness[1].longest_ns == 20'000'000);
    CHECK(analysis.lateness[1].longest_in == "allreduce 'a'");
    CHECK(analysis.lateness[2].last == 0);
}

TEST_CASE("hosts are compared by their clocks", "[analyze]") {
    Job job(2);
    job.call(0, "a", 10, 20);
    job.call(1, "a", 3, 20);
    job.ranks[1].host = "other";
    job.ranks[1].realtime_offset_ns = 9'000'000;  // on rank 0's clock, rank 1 called the operation at 12 ms
    const Analysis analysis = analyze(job.ranks);
    CHECK(analysis.several_hosts);
    CHECK(analysis.lateness[1].last == 1);
    CHECK(analysis.lateness[1].awaited_ns == 2'000'000);
    CHECK(contains(format_analysis(analysis), "clocks"));
}

TEST_CASE("JSON has what the text has", "[analyze]") {
    Job job(3);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
        job.call(rank, "x", 5, 6);
        job.call(rank, rank == 2 ? "b\"\n" : "a", 7);
    }
    const auto json = nlohmann::json::parse(format_analysis_json(analyze(job.ranks)));
    CHECK(json["divergences"][0]["other"]["operation"]["name"] == "b\"\n");
    CHECK(json["divergences"][0]["most"]["ranks"] == std::vector<int>{0, 1});
    CHECK(json["pending"][0]["missing"].size() == 1);
    CHECK(json["ranks"].size() == 3);
    CHECK(json["lateness"][0]["compared"] == 1);
}

TEST_CASE("members of a set are read from its text", "[analyze]") {
    CHECK(parse_members("ranks 0-3, 8", 10) == Ranks{0, 1, 2, 3, 8});
    CHECK(parse_members("rank 4", 10) == Ranks{4});
    CHECK(parse_members("ranks 0, 1", 10) == Ranks{0, 1});
    CHECK(parse_members("ranks 0, 2, 4…", 10) == Ranks{0, 2});
    CHECK(parse_members("ranks 0-2000000000", 4) == Ranks{0, 1, 2, 3});
    for (const char* damaged : {"", "no rank", "ranks -1", "ranks ,", "ranks 99999999999"}) {
        CAPTURE(damaged);
        CHECK(parse_members(damaged, 4).empty());
    }
}

// ---- files ----------------------------------------------------------------------------------------------------------

namespace {

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("the files of a folder", "[analyze]") {
    const tests::Folder folder;
    const auto refusal = [&] { return read_recordings(folder.path().string()).status().message(); };
    CHECK(contains(refusal(), "has no files of the flight recorder"));
    CHECK(exit_of({folder.path().string()}) == 2);

    Job job(3);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
        job.call(rank, "x", 5, 6);
        write(folder.path() / base::recording_file_name(rank),
              base::format_recording(job.ranks[static_cast<std::size_t>(rank)]));
    }
    write(folder.path() / "stall.rank.0.json", "{}");
    REQUIRE(read_recordings(folder.path().string()).is_ok());
    CHECK(read_recordings(folder.path().string()).value() == job.ranks);
    CHECK(exit_of({folder.path().string()}) == 0);
    CHECK(exit_of({"--json", folder.path().string()}) == 0);

    write(folder.path() / base::recording_file_name(1), "{\"format\":\"rueda-recor");
    CHECK(contains(refusal(), "recorder-rank1.json': it is not whole JSON"));
    CHECK(exit_of({folder.path().string()}) == 2);

    write(folder.path() / base::recording_file_name(1), base::format_recording(job.ranks[2]));
    CHECK(contains(refusal(), "recorder-rank1.json': it is of rank 2"));

    Recording foreign = job.ranks[1];
    foreign.size = 8;
    write(folder.path() / base::recording_file_name(1), base::format_recording(foreign));
    CHECK(contains(refusal(), "rank 0 is of 3 ranks, and rank 1 of 8"));

    Recording older = job.ranks[1];
    older.began_ns = -3'600'000'000'000;
    write(folder.path() / base::recording_file_name(1), base::format_recording(older));
    CHECK(contains(refusal(), "ranks 0 and 1 began more than ten minutes apart"));
}

TEST_CASE("wrong arguments of analyze", "[analyze]") {
    CHECK(exit_of({}) == 3);
    CHECK(exit_of({"--nonsense", "."}) == 3);
    CHECK(exit_of({"/there/is/no/such/folder"}) == 2);
    CHECK(exit_of({"--help"}) == 0);
}

}  // namespace rueda::launcher
