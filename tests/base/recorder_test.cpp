// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "base/recorder/recorder_writer.hpp"
#include "base/recorder/recording_file.hpp"
#include "base/system/clock.hpp"

namespace rueda::base {

namespace {

/// A flight recorder in this process's memory. The memory begins with zeros, as in the arena.
struct Recorder {
    std::unique_ptr<RankRecorder> memory = std::make_unique<RankRecorder>();
    RecorderWriter writer{memory.get()};
    Recorder() { writer.begin(); }
    [[nodiscard]] std::vector<RecordedOperation> read(std::size_t most = RankRecorder::kOperations) const {
        return RecorderReader(*memory).operations(most);
    }
};

}  // namespace

TEST_CASE("an operation on a GPU is launched, and ends later", "[recorder]") {
    const Recorder recorder;
    const std::uint64_t first = recorder.writer.announce({.kind = RecordKind::kAllreduce});
    const std::uint64_t second = recorder.writer.announce({.kind = RecordKind::kAllreduce});
    recorder.writer.start(first, ticks_now(), 1);
    recorder.writer.start(second, ticks_now(), 1);
    recorder.writer.launch(first, ticks_now());
    recorder.writer.launch(second, ticks_now());
    const std::int64_t launched_ns = monotonic_ns();
    CHECK(recorder.read()[0].is_launched);
    CHECK_FALSE(recorder.read()[0].ended_ns);
    CHECK(recorder.read()[0].launched_ns.value_or(0) <= launched_ns);
    recorder.writer.end_launched(first, ErrorCode::ok);
    while (monotonic_ns() < launched_ns + 5'000'000) {
    }
    recorder.writer.end_launched(second, ErrorCode::aborted);
    const auto ended = recorder.read();
    CHECK(ended[0].is_launched);
    CHECK(*ended[0].ended_ns < launched_ns + 1'000'000);  // the time of the launch
    CHECK(*ended[1].ended_ns > launched_ns + 4'000'000);
    CHECK(ended[1].status == static_cast<std::uint8_t>(ErrorCode::aborted));
    CHECK(RecorderReader(*recorder.memory).counters().ended == 1);
}

TEST_CASE("a recorder gives back what was recorded", "[recorder]") {
    const Recorder recorder;
    const std::int64_t before = monotonic_ns();
    recorder.writer.note_set(3, "ranks 0, 2");
    const std::uint64_t name = recorder.writer.note_name(3, "gradient");
    const std::uint64_t number = recorder.writer.announce({.kind = RecordKind::kBroadcast,
                                                           .dtype = 9,
                                                           .reduce_op = 4,
                                                           .is_blocking = true,
                                                           .ordinal = 118,
                                                           .name = name,
                                                           .generation = 7,
                                                           .bytes = 1 << 20});
    CHECK(number == 0);
    {
        const auto pending = recorder.read();
        REQUIRE(pending.size() == 1);
        CHECK(pending[0].kind == RecordKind::kBroadcast);
        CHECK(pending[0].dtype == 9);
        CHECK(pending[0].reduce_op == 4);
        CHECK(pending[0].is_blocking);
        CHECK(pending[0].ordinal == 118);
        CHECK(pending[0].has_name_record);
        CHECK(pending[0].name == "gradient");
        CHECK(pending[0].set_id == 3);
        CHECK(pending[0].generation == 7);
        CHECK(pending[0].bytes == 1 << 20);
        CHECK_FALSE(pending[0].started_ns);
        CHECK_FALSE(pending[0].ended_ns);
        CHECK_FALSE(pending[0].batch);
    }
    recorder.writer.start(number, ticks_now(), 4711);
    CHECK(recorder.read()[0].batch == 4711U);
    CHECK_FALSE(recorder.read()[0].ended_ns);
    recorder.writer.end(number, ticks_now(), ErrorCode::ok);
    const std::int64_t after = monotonic_ns();

    const RecordedOperation ended = recorder.read()[0];
    REQUIRE(ended.started_ns);
    REQUIRE(ended.ended_ns);
    CHECK(ended.status == static_cast<std::uint8_t>(ErrorCode::ok));
    CHECK(ended.announced_ns <= *ended.started_ns);
    CHECK(*ended.started_ns <= *ended.ended_ns);
    // The rate of the counter was measured over a short time only, so the times are not exact. A wrong unit would cause
    // a much larger error.
    CHECK(ended.announced_ns >= before - 1'000'000);
    CHECK(*ended.ended_ns <= after + 1'000'000);
    CHECK(RecorderReader(*recorder.memory).sets() == std::vector<RecordedSet>{{3, "ranks 0, 2"}});
}

TEST_CASE("counters add up what has ended", "[recorder]") {
    const Recorder recorder;
    for (std::uint64_t i = 1; i <= 3; ++i) {
        const std::uint64_t number = recorder.writer.announce({.ordinal = i, .bytes = 100 * i});
        const std::uint64_t announced = recorder.memory->operations[number].announced.load();
        recorder.writer.start(number, announced + 1000);
        recorder.writer.end(number, announced + 3000, ErrorCode::ok);
    }
    const std::uint64_t failed = recorder.writer.announce({.bytes = 5});
    recorder.writer.end(failed, ticks_now(), ErrorCode::mismatch);
    recorder.writer.note_batch(3);
    recorder.writer.begin_step(10);
    recorder.writer.begin_step(11);

    const KindCounters& allreduces = recorder.memory->counters.of_kind[RecordKind::kAllreduce];
    CHECK(allreduces.waited_ticks.load() == 3000);
    CHECK(allreduces.executed_ticks.load() == 6000);
    const RecordedCounters counters = RecorderReader(*recorder.memory).counters();
    CHECK(counters.announced == 6);
    CHECK(counters.ended == 3);
    CHECK(counters.failed == 1);
    CHECK(counters.bytes == 600);
    CHECK(counters.batches == 1);
    CHECK(counters.steps == 2);
    CHECK(counters.step_ns.has_value());
    const auto operations = recorder.read();
    REQUIRE(operations.size() == 6);
    CHECK(operations[3].status == static_cast<std::uint8_t>(ErrorCode::mismatch));
    CHECK(operations[5].kind == RecordKind::kStep);
    CHECK(operations[5].ordinal == 11);
}

TEST_CASE("sends and receives are recorded with the other rank", "[recorder]") {
    const Recorder recorder;
    const std::uint64_t received = recorder.writer.announce_message({.sends = false,
                                                                     .dtype = 9,
                                                                     .is_blocking = true,
                                                                     .set_id = -7,
                                                                     .end = {.peer = -1, .tag = -2'000'000'000},
                                                                     .bytes = 64});
    const std::uint64_t sent = recorder.writer.announce_message({.sends = true, .end = {3, 5}, .bytes = 8});
    {
        const auto pending = recorder.read();
        REQUIRE(pending.size() == 2);
        CHECK(pending[0].kind == RecordKind::kReceive);
        CHECK(pending[0].message == MessageEnd{-1, -2'000'000'000});
        CHECK(pending[0].set_id == -7);
        CHECK(pending[0].dtype == 9);
        CHECK(pending[0].is_blocking);
        CHECK(pending[0].bytes == 64);
        CHECK_FALSE(pending[0].has_name_record);
        CHECK_FALSE(pending[0].started_ns);
        CHECK(pending[1].kind == RecordKind::kSend);
        CHECK(pending[1].message == MessageEnd{3, 5});
        CHECK_FALSE(pending[1].is_blocking);
    }
    // pending() does not count messages, only operations of process sets
    CHECK(RecorderReader(*recorder.memory).pending().count == 0);
    const std::uint64_t announced = recorder.memory->operations[received].announced.load();
    recorder.writer.start(received, announced + 100);
    recorder.writer.end_message(received, announced + 150, ErrorCode::ok, 2);
    recorder.writer.end_message(sent, ticks_now(), ErrorCode::ok, -1);
    const std::uint64_t failed = recorder.writer.announce_message({.sends = true, .end = {1, 1}, .bytes = 8});
    recorder.writer.end_message(failed, ticks_now(), ErrorCode::aborted, -1);

    const auto ended = recorder.read();
    REQUIRE(ended.size() == 3);
    CHECK(ended[0].message == MessageEnd{2, -2'000'000'000});
    CHECK(*ended[0].started_ns <= *ended[0].ended_ns);
    CHECK(ended[1].message == MessageEnd{3, 5});
    // no start was recorded for this transfer, so its start equals its end
    CHECK(ended[1].started_ns == ended[1].ended_ns);
    CHECK(ended[2].status == static_cast<std::uint8_t>(ErrorCode::aborted));
    CHECK_FALSE(ended[2].started_ns);
    const RecordedCounters counters = RecorderReader(*recorder.memory).counters();
    CHECK(counters.announced == 3);
    CHECK(counters.messages == 3);
    // These two counters do not count messages, only operations of process sets.
    CHECK(counters.failed == 0);
    CHECK(counters.ended == 0);
    CHECK(counters.bytes == 0);
    const KindCounters& receives = recorder.memory->counters.of_kind[RecordKind::kReceive & (RankCounters::kKinds - 1)];
    CHECK(receives.ended.load() == 1);
    CHECK(receives.bytes.load() == 64);
    CHECK(receives.waited_ticks.load() == 100);
    CHECK(receives.executed_ticks.load() == 50);
}

TEST_CASE("parts of an execution are recorded when they are over", "[recorder]") {
    const Recorder recorder;
    CHECK_FALSE(recorder.writer.notes_parts());
    recorder.writer.set_notes_parts(true);
    CHECK(recorder.writer.notes_parts());
    const std::uint64_t now = ticks_now();
    recorder.writer.note_part(7, {.kind = PartKind::wait,
                                  .awaited = 3,
                                  .steps = 12,
                                  .begin_ticks = now,
                                  .end_ticks = now + 1000,
                                  .waited_ticks = 1000});
    const auto operations = recorder.read();
    REQUIRE(operations.size() == 1);
    const RecordedOperation& part = operations[0];
    CHECK(part.kind == RecordKind::kPart);
    CHECK(part.dtype == static_cast<std::uint8_t>(PartKind::wait));
    CHECK(part.message == MessageEnd{3, 12});
    CHECK(part.set_id == 7);
    // Each reader measures the rate of the processor's counter for itself. Therefore the results of two readers differ
    // a little.
    CHECK(part.bytes > 0);
    CHECK(part.bytes <= static_cast<std::uint64_t>(2 * RecorderReader(*recorder.memory).span_ns(1000)));
    CHECK(part.announced_ns <= *part.ended_ns);
    CHECK(RecorderReader(*recorder.memory).counters().parts == 1);
    CHECK(RecorderReader(*recorder.memory).pending().count == 0);
    recorder.writer.set_notes_parts(false);
    CHECK_FALSE(recorder.writer.notes_parts());
    CHECK_FALSE(RecorderWriter().notes_parts());
}

TEST_CASE("the ring keeps the newest operations", "[recorder]") {
    const Recorder recorder;
    constexpr std::uint64_t kMore = 10;
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 0; i < RankRecorder::kOperations + kMore; ++i) {
        numbers.push_back(recorder.writer.announce({.ordinal = i + 1, .bytes = i}));
    }
    auto operations = recorder.read();
    REQUIRE(operations.size() == RankRecorder::kOperations);
    CHECK(operations.front().ordinal == kMore + 1);
    CHECK(operations.back().ordinal == RankRecorder::kOperations + kMore);
    CHECK(recorder.read(3).front().ordinal == RankRecorder::kOperations + kMore - 2);

    // Operation 2 ends after a newer operation (`successor`) has overwritten its record in the ring. The end of
    // operation 2 must not change the record, which now belongs to the newer operation.
    const std::uint64_t successor = RankRecorder::kOperations + 2;
    recorder.writer.start(2, ticks_now(), 5);
    recorder.writer.end(2, ticks_now(), ErrorCode::ok);
    operations = recorder.read();
    const auto& taken = operations[successor - kMore];
    CHECK(taken.number == successor);
    CHECK_FALSE(taken.started_ns);
    CHECK_FALSE(taken.ended_ns);
    CHECK(RecorderReader(*recorder.memory).counters().ended == 0);

    // Simulates a store that comes too late. First the writer checked the number of the record. Then a newer operation
    // overwrote the record. Only then did the writer store the state of the old operation.
    recorder.memory->operations[2].state.store(RecordState::begin(RecordKind::kAllreduce, 2) | RecordState::kEnded);
    operations = recorder.read();
    CHECK(operations.size() == RankRecorder::kOperations - 1);
}

TEST_CASE("a reader of a busy ring gets whole records", "[recorder]") {
    const Recorder recorder;
    std::atomic<bool> stop{false};
    // Every field is computed from the operation's ordinal number, so a mixture of two records is recognisable.
    const auto record = [&](std::uint64_t ordinal) {
        return recorder.writer.announce({.kind = static_cast<std::uint8_t>(ordinal % 11),
                                         .dtype = static_cast<std::uint8_t>(ordinal % 13),
                                         .ordinal = ordinal,
                                         .generation = ordinal & 0xffff'ffffU,
                                         .bytes = ordinal * 3});
    };
    std::thread writer([&] {
        for (std::uint64_t ordinal = 1; !stop.load(); ++ordinal) {
            recorder.writer.end(record(ordinal), ticks_now(), ErrorCode::ok);
        }
    });
    std::uint64_t seen = 0;
    std::uint64_t torn = 0;
    while (seen < 50'000) {
        for (const RecordedOperation& operation : recorder.read()) {
            ++seen;
            torn += operation.kind != operation.ordinal % 11 || operation.dtype != operation.ordinal % 13 ||
                    operation.generation != operation.ordinal || operation.bytes != operation.ordinal * 3 ||
                    operation.number + 1 != operation.ordinal;
        }
    }
    stop.store(true);
    writer.join();
    CHECK(torn == 0);
}

TEST_CASE("threads of a rank record at the same time", "[recorder]") {
    const Recorder recorder;
    std::vector<std::thread> threads;
    std::atomic<unsigned> too_large{0};  // Catch's assertions may be used in one thread only
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            for (std::uint64_t i = 0; i < 500; ++i) {
                const std::uint64_t ordinal = thread * 1000 + i;
                static_cast<void>(recorder.writer.announce({.ordinal = ordinal, .bytes = ordinal * 7}));
                const std::uint64_t name = recorder.writer.note_name(static_cast<std::int32_t>(thread), "a name");
                too_large += name > 2000 ? 1U : 0U;  // `name` is 0 if another thread wrote a name at this time
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(too_large.load() == 0);
    const auto operations = recorder.read();
    CHECK(operations.size() == 2000);
    std::vector<std::uint64_t> counts(4000);
    for (const RecordedOperation& operation : operations) {
        CHECK(operation.bytes == operation.ordinal * 7);
        ++counts[operation.ordinal];
    }
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
        CHECK(std::count(counts.begin() + static_cast<std::ptrdiff_t>(thread * 1000),
                         counts.begin() + static_cast<std::ptrdiff_t>(thread * 1000 + 500), 1) == 500);
    }
}

TEST_CASE("an old name is written again", "[recorder]") {
    const Recorder recorder;
    const std::uint64_t first = recorder.writer.note_name(0, "first");
    REQUIRE(first == 1);
    CHECK_FALSE(recorder.writer.knows(0));
    for (std::uint64_t i = 1; i < RankRecorder::kNames; ++i) {
        REQUIRE(recorder.writer.knows(first));
        static_cast<void>(recorder.writer.note_name(0, "other " + std::to_string(i)));
    }
    static_cast<void>(recorder.writer.announce({.ordinal = 1, .name = first}));
    CHECK(recorder.read()[0].name == "first");
    static_cast<void>(recorder.writer.note_name(0, "one too many"));
    CHECK_FALSE(recorder.writer.knows(first));
    CHECK_FALSE(recorder.read()[0].has_name_record);
    CHECK(recorder.writer.note_name(0, "first") == RankRecorder::kNames + 2);
}

TEST_CASE("a long name is shortened, and its hash tells it from others", "[recorder]") {
    const Recorder recorder;
    const std::string begin(200, 'x');
    for (const char* end : {"1", "2"}) {
        static_cast<void>(recorder.writer.announce({.name = recorder.writer.note_name(0, begin + end)}));
    }
    const auto operations = recorder.read();
    CHECK(operations[0].name == operations[1].name);
    CHECK(operations[0].name.size() < 104);
    CHECK(operations[0].name_hash != operations[1].name_hash);
}

TEST_CASE("without a recorder nothing is recorded", "[recorder]") {
    const RecorderWriter writer;
    writer.begin();
    CHECK(writer.announce({}) == RecorderWriter::kNone);
    CHECK(writer.knows(0));
    writer.start(RecorderWriter::kNone, 1);
    writer.end(RecorderWriter::kNone, 1, ErrorCode::ok);
    const auto empty = std::make_unique<RankRecorder>();
    CHECK_FALSE(RecorderReader(*empty).is_ready());
    CHECK(RecorderReader(*empty).operations().empty());
}

TEST_CASE("damaged memory gives no more records than there is room for", "[recorder]") {
    const auto memory = std::make_unique<RankRecorder>();
    for (std::size_t i = 0; i < sizeof(RankRecorder); ++i) {
        reinterpret_cast<unsigned char*>(memory.get())[i] = static_cast<unsigned char>(i * 2654435761U >> 13U);
    }
    const RecorderReader reader(*memory);
    CHECK(reader.operations().size() <= RankRecorder::kOperations);
    CHECK(reader.sets().size() <= RankRecorder::kSets);
    static_cast<void>(reader.counters());
    static_cast<void>(reader.extras());
    CHECK(reader.pending().count <= RankRecorder::kOperations);
}

TEST_CASE("operations are counted by kind", "[recorder]") {
    const Recorder recorder;
    const auto run = [&](std::uint8_t kind, std::uint64_t bytes, std::uint64_t waits, std::uint64_t executes) {
        const std::uint64_t number = recorder.writer.announce({.kind = kind, .bytes = bytes});
        const std::uint64_t announced = recorder.memory->operations[number].announced.load();
        recorder.writer.start(number, announced + waits);
        recorder.writer.end(number, announced + waits + executes, ErrorCode::ok);
    };
    run(RecordKind::kAllreduce, 8, 100, 10);
    run(RecordKind::kReduce, 1000, 3, 4);
    run(RecordKind::kAllreduce, 16, 200, 20);
    run(RecordKind::kBarrier, 0, 5, 0);
    recorder.writer.note_batch(2);
    recorder.writer.note_batch(1);
    recorder.writer.note_stall_report();
    recorder.writer.note_resident_bytes(4096);
    recorder.writer.note_resident_bytes(1024);

    const RecorderReader reader(*recorder.memory);
    const RecordedExtras extras = reader.extras();
    CHECK(extras.kinds[RecordKind::kAllreduce].ended == 2);
    CHECK(extras.kinds[RecordKind::kAllreduce].bytes == 24);
    CHECK(extras.kinds[RecordKind::kAllreduce].waited_ns == reader.span_ns(300));
    CHECK(extras.kinds[RecordKind::kAllreduce].executed_ns == reader.span_ns(30));
    CHECK(extras.kinds[RecordKind::kReduce].ended == 1);
    CHECK(extras.kinds[RecordKind::kReduce].bytes == 1000);
    CHECK(extras.kinds[RecordKind::kBarrier].ended == 1);
    CHECK(extras.kinds[RecordKind::kBroadcast].ended == 0);
    CHECK(extras.batched == 3);
    CHECK(extras.stall_reports == 1);
    CHECK(extras.resident_bytes == 1024);
    CHECK(reader.counters().ended == 4);
    CHECK(reader.counters().bytes == 1024);
    CHECK(reader.counters().waited_ns == reader.span_ns(308));
    CHECK(reader.counters().executed_ns == reader.span_ns(34));
    CHECK(reader.counters().batches == 2);
}

TEST_CASE("pending operations are found in the ring, and steps are none", "[recorder]") {
    const Recorder recorder;
    CHECK(RecorderReader(*recorder.memory).pending().count == 0);
    const std::uint64_t first = recorder.writer.announce({});
    recorder.writer.begin_step(1);
    const std::uint64_t second = recorder.writer.announce({.kind = RecordKind::kJoin});
    static_cast<void>(recorder.writer.announce({}));
    {
        const RecorderReader reader(*recorder.memory);
        CHECK(reader.pending().count == 3);
        CHECK(reader.pending().oldest_announced_ns ==
              reader.ns_of(recorder.memory->operations[first].announced.load()));
    }
    recorder.writer.end(first, ticks_now(), ErrorCode::aborted);
    {
        const RecorderReader reader(*recorder.memory);
        CHECK(reader.pending().count == 2);
        CHECK(reader.pending().oldest_announced_ns ==
              reader.ns_of(recorder.memory->operations[second].announced.load()));
    }
    // The operations of this loop overwrite all earlier operations in the ring.
    for (std::uint64_t i = 0; i < RankRecorder::kOperations; ++i) {
        const std::uint64_t number = recorder.writer.announce({});
        recorder.writer.start(number, ticks_now());
        recorder.writer.end(number, ticks_now(), ErrorCode::ok);
    }
    CHECK(RecorderReader(*recorder.memory).pending().count == 0);
}

// ---- files ----------------------------------------------------------------------------------------------------------

namespace {

Recording some_recording() {
    const Recorder recorder;
    recorder.writer.note_set(0, "ranks 0-3");
    const std::uint64_t name = recorder.writer.note_name(0, "a \"name\"\nof two lines");
    for (std::uint64_t i = 1; i <= 4; ++i) {
        const std::uint64_t number =
            recorder.writer.announce({.ordinal = i, .name = name, .generation = i, .bytes = i * 1000});
        if (i < 4) {
            recorder.writer.start(number, ticks_now(), i);
        }
        if (i < 3) {
            recorder.writer.end(number, ticks_now(), ErrorCode::ok);
        }
    }
    recorder.writer.begin_step(-5);
    const RecorderReader reader(*recorder.memory);
    Recording recording;
    recording.rank = 2;
    recording.size = 4;
    recording.host = "vm";
    recording.pid = 4711;
    recording.state = "dead";
    recording.written_by = 1;
    recording.reason = "rank 2 died";
    recording.written_ns = 10'000'000'000;
    recording.began_ns = 5'000'000'000;
    recording.realtime_offset_ns = 1'700'000'000'000'000'000;
    recording.step = 17;
    recording.busy = "saving";
    recording.counters = reader.counters();
    recording.sets = reader.sets();
    recording.operations = reader.operations();
    return recording;
}

}  // namespace

TEST_CASE("a file has all of a recording", "[recorder]") {
    const Recording recording = some_recording();
    const std::string text = format_recording(recording);
    const Result<Recording> read = parse_recording(text);
    REQUIRE(read.is_ok());
    CHECK(read.value() == recording);
    // The file has one line for each of the five operations and three other lines.
    CHECK(std::count(text.begin(), text.end(), '\n') == 5 + 3);
}

TEST_CASE("a file has sends and receives in a list of their own", "[recorder]") {
    Recording recording = some_recording();
    const std::string without = format_recording(recording);
    CHECK(without.find("\"messages\":[") == std::string::npos);
    RecordedOperation message;
    message.kind = RecordKind::kReceive;
    message.number = recording.operations[1].number;
    message.message = {-1, -17};
    message.set_id = 3;
    message.bytes = 64;
    message.announced_ns = 5;
    message.is_blocking = true;
    for (std::size_t i = 1; i < recording.operations.size(); ++i) {
        ++recording.operations[i].number;
    }
    recording.operations.insert(recording.operations.begin() + 1, message);
    message.kind = RecordKind::kSend;
    message.number = 100;
    message.message = {2, 0};
    message.started_ns = 7;
    message.ended_ns = 9;
    message.status = static_cast<std::uint8_t>(ErrorCode::aborted);
    recording.operations.push_back(message);
    recording.counters.messages = 2;
    Recording with_parts = recording;  // the file must leave out its record of kind kPart
    with_parts.operations.insert(with_parts.operations.begin(), with_parts.operations.front());
    with_parts.operations.front().kind = RecordKind::kPart;
    CHECK(format_recording(with_parts) == format_recording(recording));

    const std::string text = format_recording(recording);
    const Result<Recording> read = parse_recording(text);
    INFO(read.status().message());
    REQUIRE(read.is_ok());
    CHECK(read.value() == recording);
    // messages do not change the file's version: an older Rueda ignores messages when it reads the file
    CHECK(text.find("\"version\":1") != std::string::npos);

    std::string twice = text;
    twice.replace(twice.find("\"number\":100"), 12, "\"number\":0  ");
    CHECK(parse_recording(twice).status().message() == "the operations are not in order");
}

TEST_CASE("a damaged file is refused", "[recorder]") {
    const std::string text = format_recording(some_recording());
    for (std::size_t length = 0; length + 2 < text.size(); length += 7) {
        CAPTURE(length);
        CHECK(parse_recording(std::string_view(text).substr(0, length)).status().code() == ErrorCode::invalid_argument);
    }
    const auto with = [&](std::string_view from, std::string_view to) {
        std::string changed = text;
        const std::size_t at = changed.find(from);
        REQUIRE(at != std::string::npos);
        changed.replace(at, from.size(), to);
        return parse_recording(changed).status();
    };
    CHECK(with("\"rank\":2", "\"rank\":4").message() == "rank 4 of 4 ranks");
    CHECK(with("\"rank\":2", "\"rank\":-1").message() == "rank -1 of 4 ranks");
    CHECK(with("\"rank\":2", "\"rank\":1e30").code() == ErrorCode::invalid_argument);
    CHECK(with("\"size\":4", "\"size\":2000000000").code() == ErrorCode::invalid_argument);
    CHECK(with("\"version\":1", "\"version\":2").message() == "it has version 2; this program reads version 1");
    CHECK(with("rueda-recorder", "something").message() == "it is not a file of the flight recorder");
    CHECK(with("\"reason\":\"rank 2 died\"", "\"reason\":3").message() == "'reason' is not a text");
    CHECK(with("\"pid\":4711", "\"pid\":4294967296").code() == ErrorCode::invalid_argument);
    CHECK(with("\"written_ns\":10000000000", "\"written_ns\":9000000000000000000").message() ==
          "'written_ns' is not a time");
    CHECK(with("\"number\":1", "\"number\":0").message() == "the operations are not in order");
    CHECK(with("\"kind\":\"allreduce\"", "\"kind\":\"nonsense\"").message() == "the kind of an operation is not known");
    CHECK(parse_recording("[1]").status().message() == "it is not a file of the flight recorder");
}

TEST_CASE("the names of the files", "[recorder]") {
    CHECK(recording_file_name(12) == "recorder-rank12.json");
    CHECK(rank_of_recording_file("recorder-rank12.json") == 12);
    for (const char* other : {"", "recorder-rank.json", "recorder-rank-1.json", "recorder-rank1.json.5.part",
                              "recorder-rank1", "stall.rank.1.json", "recorder-rank99999999999.json"}) {
        CAPTURE(other);
        CHECK_FALSE(rank_of_recording_file(other));
    }
}

}  // namespace rueda::base
