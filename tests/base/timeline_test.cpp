// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how records become events of a trace, and how a trace is read again.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/timeline/operation_groups.hpp"
#include "base/timeline/timeline_part.hpp"
#include "base/timeline/trace_events.hpp"

namespace rueda::base {

namespace {

using Json = nlohmann::json;

TimelineOperation operation(std::int32_t rank, const std::string& name, std::int64_t announced_ns,
                            std::int64_t started_ns, std::int64_t ended_ns, std::uint32_t batch = 0) {
    TimelineOperation made;
    made.rank = rank;
    made.record.has_name_record = true;
    made.record.name = name;
    made.record.name_hash = static_cast<std::uint32_t>(std::hash<std::string>{}(name));
    made.record.announced_ns = announced_ns;
    made.record.started_ns = started_ns;
    made.record.ended_ns = ended_ns;
    made.record.batch = batch;
    made.record.bytes = 1024;
    return made;
}

/// Parses the lines strictly, as the elements of a JSON array.
std::vector<Json> events_of(std::string lines) {
    if (!lines.empty()) {
        lines.resize(lines.size() - 2);  // removes the last comma
    }
    const Json array = Json::parse("[" + lines + "]");
    return {array.begin(), array.end()};
}

/// The file contains microseconds; the tests compare nanoseconds.
std::int64_t begin_of(const Json& event) { return std::llround(event["ts"].get<double>() * 1000); }
std::int64_t end_of(const Json& event) { return begin_of(event) + std::llround(event["dur"].get<double>() * 1000); }

/// Returns the events of a rank that have this name.
std::vector<Json> find(const std::vector<Json>& events, std::int32_t rank, const std::string& name) {
    std::vector<Json> found;
    for (const Json& event : events) {
        if (event["pid"] == rank && event["name"] == name) {
            found.push_back(event);
        }
    }
    return found;
}

Json only(const std::vector<Json>& events, std::int32_t rank, const std::string& name) {
    const std::vector<Json> found = find(events, rank, name);
    REQUIRE(found.size() == 1);
    return found.front();
}

}  // namespace

TEST_CASE("an operation is negotiated until the last rank announces it", "[timeline]") {
    TraceEvents trace(false);
    std::string text;
    for (const std::int32_t rank : {0, 1, 2}) {
        trace.add_rank(rank, "vm", text);
    }
    const OperationGroup group{operation(0, "x", 1'000, 9'000, 12'345), operation(1, "x", 7'001, 7'500, 12'000),
                               operation(2, "x", 2'000, 9'500, 13'000)};
    trace.add_group(group, 20'000, text);
    trace.finish(20'000, text);
    const std::vector<Json> events = events_of(text);
    for (const TimelineOperation& one : group) {
        const RecordedOperation& record = one.record;
        const Json negotiation = only(events, one.rank, "NEGOTIATE_ALLREDUCE");
        const Json whole = only(events, one.rank, "ALLREDUCE");
        CHECK(begin_of(negotiation) == record.announced_ns);
        CHECK(end_of(negotiation) == 7'001);
        CHECK(negotiation["args"]["last_rank"] == 1);
        CHECK(begin_of(whole) == 7'001);
        CHECK(end_of(whole) == *record.ended_ns);
        CHECK(whole["args"]["bytes"] == 1024);
        CHECK(end_of(only(events, one.rank, "QUEUE")) == *record.started_ns);
        CHECK(begin_of(only(events, one.rank, "EXECUTE")) == *record.started_ns);
        CHECK(end_of(only(events, one.rank, "EXECUTE")) == *record.ended_ns);
        // Each waiting rank has two such events: in the row of the tensor's name, and in the row of all waits.
        CHECK(find(events, one.rank, "waiting for rank 1").size() == (one.rank == 1 ? 0 : 2));
    }
    CHECK(find(events, 1, "waiting for rank 0").empty());
    CHECK(only(events, 2, "process_name")["args"]["name"] == "rank 2 on vm");
}

TEST_CASE("waits that overlap are one span, and spans of a row do not overlap", "[timeline]") {
    TraceEvents trace(false);
    std::string text;
    trace.add_rank(0, "vm", text);
    std::uint32_t batch = 0;
    const auto wait = [&](std::int64_t from, std::int64_t to, std::int32_t last) {
        const std::string name = "x" + std::to_string(++batch);
        trace.add_group({operation(0, name, from, to, to, batch), operation(last, name, to, to, to, batch)}, to, text);
    };
    wait(300, 500, 2);
    wait(100, 400, 2);
    wait(450, 900, 3);
    trace.settle(text);
    wait(600, 700, 2);  // this wait (600 to 700) lies inside the wait from 450 to 900
    trace.finish(1000, text);
    std::map<std::int64_t, std::pair<std::int64_t, std::string>> spans;
    for (const Json& event : events_of(text)) {
        if (event.contains("cat") && event["cat"] == "waits" && event["pid"] == 0) {
            spans[begin_of(event)] = {end_of(event), event["name"]};
        }
    }
    CHECK(spans == std::map<std::int64_t, std::pair<std::int64_t, std::string>>{{100, {500, "waiting for rank 2"}},
                                                                                {500, {900, "waiting for rank 3"}}});
}

TEST_CASE("the operations of a batch are one span of the row of executions", "[timeline]") {
    TraceEvents trace(true);
    std::string text;
    trace.add_rank(0, "vm", text);
    trace.add_alone(operation(0, "a", 1, 10, 40, 7), 0, text);
    trace.add_alone(operation(0, "b", 2, 10, 50, 7), 0, text);
    trace.settle(text);
    // More operations of this batch may follow. Therefore the event CYCLE_START is not written yet.
    CHECK(find(events_of(text), 0, "CYCLE_START").empty());
    trace.add_alone(operation(0, "c", 3, 10, 45, 7), 0, text);
    trace.add_alone(operation(0, "d", 4, 60, 70, 8), 0, text);
    trace.finish(100, text);
    const std::vector<Json> events = events_of(text);
    const Json batch = only(events, 0, "ALLREDUCE of 3 tensors");
    CHECK(begin_of(batch) == 10);
    CHECK(end_of(batch) == 50);
    CHECK(batch["args"]["bytes"] == 3 * 1024);
    CHECK(batch["args"]["batch"] == 7);
    CHECK(find(events, 0, "CYCLE_START").size() == 2);
    CHECK(begin_of(only(events, 0, "ALLREDUCE")) == 60);
}

TEST_CASE("steps, scopes, failures and operations without an end", "[timeline]") {
    TraceEvents trace(false);
    std::string text;
    trace.add_rank(0, "vm", text);
    TimelineOperation step;
    step.record.kind = RecordKind::kStep;
    for (const std::uint64_t number : {41U, 42U}) {
        step.record.ordinal = number;
        step.record.announced_ns = static_cast<std::int64_t>(number) * 100;
        trace.add_alone(step, 0, text);
    }
    TimelineOperation scope = operation(0, "saving \"a\"\n\xff", 5, 5, 9);
    scope.record.kind = RecordKind::kScope;
    trace.add_alone(scope, 0, text);
    TimelineOperation failed = operation(0, "f", 10, 0, 30);
    failed.record.started_ns.reset();
    failed.record.status = 4;
    TimelineOperation open = operation(0, "o", 20, 25, 0);
    open.record.ended_ns.reset();
    trace.add_group({failed}, 5'000, text);
    trace.add_group({open}, 5'000, text);
    trace.finish(5'000, text);
    const std::vector<Json> events = events_of(text);
    CHECK(end_of(only(events, 0, "step 41")) == 4'200);
    CHECK(end_of(only(events, 0, "step 42")) == 5'000);
    CHECK(end_of(only(events, 0, "saving \"a\"\n\xef\xbf\xbd")) == 9);  // bytes that are not UTF-8 are replaced
    const std::vector<Json> negotiations = find(events, 0, "NEGOTIATE_ALLREDUCE");
    REQUIRE(negotiations.size() == 2);
    CHECK(end_of(negotiations[0]) == 30);
    CHECK(negotiations[0]["args"]["status"] == 4);
    CHECK(end_of(only(events, 0, "ALLREDUCE")) == 5'000);
    CHECK(only(events, 0, "ALLREDUCE")["args"]["unfinished"] == true);
}

namespace {

TimelineOperation message(std::uint8_t kind, MessageEnd end, std::int64_t announced_ns,
                          std::optional<std::int64_t> started_ns, std::optional<std::int64_t> ended_ns) {
    TimelineOperation made;
    made.rank = 2;
    made.record.kind = kind;
    made.record.message = end;
    made.record.announced_ns = announced_ns;
    made.record.started_ns = started_ns;
    made.record.ended_ns = ended_ns;
    made.record.bytes = 64;
    made.record.is_blocking = true;
    return made;
}

}  // namespace

TEST_CASE("sends and receives have rows of their own", "[timeline]") {
    TraceEvents trace(false);
    std::string text;
    trace.add_rank(2, "vm", text);
    trace.add_alone(message(RecordKind::kReceive, {0, 7}, 10, 40, 50), 1'000, text);
    trace.add_alone(message(RecordKind::kSend, {1, 8}, 20, 60, 60), 1'000, text);      // at the same time
    trace.add_alone(message(RecordKind::kSend, {2, 8}, 70, 70, 90), 1'000, text);      // to itself
    trace.add_alone(message(RecordKind::kReceive, {-1, 9}, 80, {}, {}), 1'000, text);  // is pending
    trace.finish(1'000, text);
    const std::vector<Json> events = events_of(text);
    const Json received = only(events, 2, "RECEIVE from rank 0");
    CHECK(begin_of(received) == 10);
    CHECK(end_of(received) == 50);
    CHECK(received["tid"] == RankRows::kMessages);
    CHECK(received["args"]["tag"] == 7);
    CHECK(received["args"]["bytes"] == 64);
    CHECK(only(events, 2, "SEND to rank 1")["tid"] == RankRows::kMessages + 1);
    CHECK(only(events, 2, "SEND to rank 2")["tid"] == RankRows::kMessages);
    CHECK(end_of(only(events, 2, "RECEIVE from any rank")) == 1'000);
    CHECK(end_of(only(events, 2, "waiting for any rank")) == 1'000);
    const std::vector<Json> transfers = find(events, 2, "TRANSFER");
    REQUIRE(transfers.size() == 3);
    CHECK(begin_of(transfers[0]) == 40);
    CHECK(end_of(transfers[0]) == 50);
    // The wait for rank 0 is shown twice: in the row of messages, and in the row of all waits.
    std::vector<std::int32_t> rows;
    for (const Json& wait : find(events, 2, "waiting for rank 0")) {
        rows.push_back(wait["tid"]);
        CHECK(begin_of(wait) == 10);
        CHECK(end_of(wait) == 40);
    }
    CHECK(rows == std::vector<std::int32_t>{RankRows::kMessages, RankRows::kWaits});
    CHECK(find(events, 2, "waiting for rank 2").empty());
    CHECK(find(events, 2, "NEGOTIATE_SEND").empty());

    // The messages can be read from the file again.
    const std::string whole =
        "[\n" + format_header({.host = "vm", .size = 3}) + text + format_end({.operations = 0, .lost = 0}) + "\n]\n";
    const Result<TimelinePart> part = parse_timeline(whole);
    INFO(part.status().message());
    REQUIRE(part.is_ok());
    REQUIRE(part.value().operations.size() == 4);
    CHECK(part.value().operations[0].record == message(RecordKind::kReceive, {0, 7}, 10, 40, 50).record);
    CHECK(part.value().operations[3].record == message(RecordKind::kReceive, {-1, 9}, 80, {}, {}).record);
}

TEST_CASE("parts of an execution lie in the row of executions", "[timeline]") {
    TraceEvents trace(false);
    std::string text;
    trace.add_rank(2, "vm", text);
    std::int64_t at = 0;
    const auto add = [&](PartKind kind, std::int32_t awaited, std::int32_t steps) {
        TimelineOperation part = message(RecordKind::kPart, {awaited, steps}, at, {}, at + 10);
        part.record.dtype = static_cast<std::uint8_t>(kind);
        trace.add_alone(part, 0, text);
        at += 10;
    };
    add(PartKind::copy_in, -1, 2);
    add(PartKind::wait, 1, 30);
    add(PartKind::reduce, -1, 1);
    add(PartKind::copy_out, -1, 1);
    add(PartKind::network, -1, 1);
    add(PartKind::wait_for_hosts, -1, 1);
    add(PartKind::wait_for_gpu, -1, 1);
    add(PartKind::wait, -1, 1);
    add(PartKind::rest, -1, 99);
    add(PartKind::work, -1, 1);
    add(static_cast<PartKind>(200), -1, 1);  // damaged memory
    std::vector<std::string> names;
    for (const Json& event : events_of(text)) {
        if (event.value("cat", "") == "part") {
            names.push_back(event["name"]);
            CHECK(event["tid"] == RankRows::kBatches);
            CHECK(end_of(event) == begin_of(event) + 10);
        }
    }
    CHECK(names == std::vector<std::string>{"COPY_IN", "waiting for rank 1", "REDUCE", "COPY_OUT", "NETWORK",
                                            "waiting for other hosts", "waiting for the GPU or NCCL",
                                            "waiting for another rank", "FURTHER_CHUNKS", "WORK", "WORK"});
    CHECK(only(events_of(text), 2, "waiting for rank 1")["args"]["rank"] == 1);
    CHECK(only(events_of(text), 2, "FURTHER_CHUNKS")["args"]["waited_ns"] == 64);
    CHECK(only(events_of(text), 2, "FURTHER_CHUNKS")["args"]["steps"] == 99);

    // These events are copied when files are merged.
    const std::string whole =
        "[\n" + format_header({.host = "vm", .size = 3}) + text + format_end({.operations = 0, .lost = 0}) + "\n]\n";
    const Result<TimelinePart> read = parse_timeline(whole);
    REQUIRE(read.is_ok());
    CHECK(read.value().others.size() == 11);
}

TEST_CASE("the work of GPUs lies in rows of its own", "[timeline]") {
    TraceEvents trace(false);
    std::string text;
    trace.add_rank(2, "vm", text);
    const auto add = [&](std::int32_t device, std::int32_t operations, std::int64_t at) {
        TimelineOperation part =
            message(RecordKind::kPart, {RecordKind::kAllreduce, GpuPart{device, operations}.tag()}, at, {}, at + 10);
        part.record.dtype = static_cast<std::uint8_t>(PartKind::gpu);
        trace.add_alone(part, 0, text);
    };
    add(3, 1, 100);
    add(3, 12, 200);
    add(7, 1, 300);
    const std::vector<Json> events = events_of(text);
    const Json many = only(events, 2, "ALLREDUCE of 12 tensors");
    CHECK(many["tid"] == RankRows::kGpus);
    CHECK(many["args"]["gpu"] == 3);
    CHECK(begin_of(many) == 200);
    CHECK(end_of(many) == 210);
    REQUIRE(find(events, 2, "ALLREDUCE").size() == 2);
    CHECK(find(events, 2, "ALLREDUCE")[1]["tid"] == RankRows::kGpus + 1);
    std::vector<std::string> rows;
    for (const Json& event : find(events, 2, "thread_name")) {
        if (event["tid"] >= RankRows::kGpus) {
            rows.push_back(event["args"]["name"]);
        }
    }
    CHECK(rows == std::vector<std::string>{"GPU 3", "GPU 7"});
    // When files are merged, the rows keep their names.
    const std::string whole =
        "[\n" + format_header({.host = "vm", .size = 3}) + text + format_end({.operations = 0, .lost = 0}) + "\n]\n";
    const Result<TimelinePart> read = parse_timeline(whole);
    REQUIRE(read.is_ok());
    CHECK(read.value().others.size() == 3 + 2 * 2);
    CHECK(GpuPart::of(GpuPart{4095, 1'000'000}.tag()).operations == 0x7FFFF);
}

TEST_CASE("operations without a name get rows side by side", "[timeline]") {
    TraceEvents trace(false);
    std::string text;
    trace.add_rank(0, "vm", text);
    trace.add_group({operation(0, "", 10, 50, 60)}, 100, text);
    trace.add_group({operation(0, "", 20, 70, 80)}, 100, text);
    trace.add_group({operation(0, "", 65, 90, 95)}, 100, text);
    trace.add_group({operation(0, "x", 10, 20, 30)}, 100, text);
    std::vector<std::int32_t> rows;
    for (const Json& event : find(events_of(text), 0, "ALLREDUCE")) {
        rows.push_back(event["tid"]);
    }
    CHECK(rows == std::vector<std::int32_t>{16, 17, 16, 18});
}

TEST_CASE("groups are released when they are complete, old, repeated or too many", "[timeline]") {
    std::vector<OperationGroup> ready;
    OperationGroups groups(4);
    groups.add(operation(0, "x", 1, 2, 3, 1), 2, 1, ready);
    groups.add(operation(0, "x", 1, 2, 3, 2), 2, 2, ready);  // another use of the same name, in another batch
    CHECK(ready.empty());
    groups.add(operation(1, "x", 1, 2, 3, 1), 2, 3, ready);
    REQUIRE(ready.size() == 1);
    CHECK(ready[0].size() == 2);
    CHECK(groups.size() == 1);
    groups.release_older(2, ready);
    CHECK(ready.size() == 1);
    groups.release_older(3, ready);
    CHECK(ready.size() == 2);
    CHECK(groups.size() == 0);
    ready.clear();

    TimelineOperation early = operation(0, "first use", 1, 2, 3);
    // A name may be used several times. If a record does not name its batch, its key does not tell to which use of the
    // name the operation belongs.
    early.record.batch.reset();
    groups.add(early, 2, 1, ready);
    groups.add(early, 2, 1, ready);
    CHECK(ready.size() == 1);
    for (std::uint32_t batch = 10; batch < 14; ++batch) {
        groups.add(operation(0, "y", 1, 2, 3, batch), 2, 1, ready);
    }
    CHECK(ready.size() == 2);
    CHECK(groups.size() == 4);
    groups.release_all(ready);
    CHECK(ready.size() == 6);
    CHECK(groups.size() == 0);
}

TEST_CASE("a file gives back its operations", "[timeline]") {
    TimelineHeader header;
    header.host = "h\"1";
    header.host_index = 1;
    header.host_count = 2;
    header.size = 3;
    header.marks_cycles = true;
    header.began_realtime_ns = 1'700'000'000'123'456'789;
    header.clock_offset_ns = -42;
    header.clock_uncertainty_ns = 17;
    TraceEvents trace(true);
    std::string text = format_header(header);
    trace.add_rank(2, header.host, text);
    TimelineOperation written = operation(2, "name, with \"quotes\"", 5, 6, 7, 9);
    written.record.kind = RecordKind::kBroadcast;
    written.record.number = 1234;
    written.record.ordinal = 12;
    written.record.dtype = 6;
    written.record.reduce_op = 1;
    written.record.is_blocking = true;
    TimelineOperation open = operation(2, "", 8, 9, 0);
    open.record.batch.reset();
    open.record.generation = 77;
    open.record.started_ns.reset();
    open.record.ended_ns.reset();
    trace.add_group({written}, 100, text);
    trace.add_group({open}, 100, text);
    trace.add_lost(2, 30, 50, text);
    const std::string whole = "[\n" + text + format_end({.operations = 2, .lost = 30}) + "\n]\n";
    CHECK(Json::parse(whole).is_array());

    const Result<TimelinePart> part = parse_timeline(whole);
    REQUIRE(part.is_ok());
    CHECK(part.value().header.host == header.host);
    CHECK(part.value().header.host_index == 1);
    CHECK(part.value().header.began_realtime_ns == header.began_realtime_ns);
    CHECK(part.value().header.clock_offset_ns == -42);
    CHECK(part.value().header.clock_uncertainty_ns == 17);
    CHECK(part.value().header.marks_cycles);
    CHECK(part.value().ranks == std::vector<std::int32_t>{2});
    CHECK(part.value().has_end);
    CHECK(part.value().end.lost == 30);
    REQUIRE(part.value().operations.size() == 2);
    CHECK(part.value().operations[0].record == written.record);
    CHECK(part.value().operations[1].record == open.record);
    CHECK(part.value().others.size() == 1);

    // If the process that writes a file is killed, the file may end at any byte after the first lines.
    for (std::size_t length = whole.find('\n', 3) + 1; length < whole.size(); ++length) {
        CHECK(parse_timeline(std::string_view(whole).substr(0, length)).is_ok());
    }
}

TEST_CASE("damaged files are refused", "[timeline]") {
    const std::string header = "[\n" + format_header({.host = "a", .size = 2});
    const auto refusal = [](const std::string& text) { return parse_timeline(text).status().message(); };
    CHECK(refusal("") == "line 0: it is not a timeline of Rueda");
    CHECK(refusal("[\n{\"name\":\"something else\"}\n]\n") == "line 2: it is not a timeline of Rueda");
    CHECK(refusal(header + "17,\n") == "line 3: an event is not an object");
    CHECK(refusal(header + R"({"name":"step 1","cat":"step","pid":2})" + "\n") ==
          "line 3: an event is of rank 2, and the job has 2 ranks");
    CHECK(refusal(header + R"({"name":"NEGOTIATE_X","cat":"negotiation","pid":0,"args":{}})" + "\n") ==
          "line 3: the kind of an operation is not known");
    CHECK(refusal(header + R"({"name":"NEGOTIATE_JOIN","cat":"negotiation","pid":0,"args":{"set":-1e99}})" + "\n")
              .starts_with("line 3: 'set' is not a number between "));
    std::string other_version = header;
    other_version.replace(other_version.find("\"version\":1"), 11, "\"version\":2");
    CHECK(refusal(other_version) == "line 2: it has version 2; this program reads version 1");
}

}  // namespace rueda::base
