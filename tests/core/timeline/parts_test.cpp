// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests some classes of the timeline one by one: RingDrain (reads the ring of operations), TimelineFile, ClockInterval
// (the difference between the clocks of two hosts) and ProgramScopes.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "base/recorder/recorder_writer.hpp"
#include "base/system/clock.hpp"
#include "core/setup/host_clock.hpp"
#include "core/timeline/program_scopes.hpp"
#include "core/timeline/ring_drain.hpp"
#include "core/timeline/timeline_file.hpp"
#include "tests/support/folder.hpp"

namespace rueda::core {
namespace {

using base::RankRecorder;
using base::TimelineOperation;
using tests::Folder;

/// The accuracy, in ns, with which a recorder converts times shortly after its start.
constexpr std::int64_t kConversion = 100'000;

struct Recorder {
    std::unique_ptr<RankRecorder> memory = std::make_unique<RankRecorder>();
    base::RecorderWriter writer{memory.get()};
    Recorder() { writer.begin(); }
    [[nodiscard]] base::RecorderReader reader() const { return base::RecorderReader(*memory); }
    [[nodiscard]] std::uint64_t announce() const { return writer.announce({.kind = base::RecordKind::kAllreduce}); }
    void end(std::uint64_t number) const { writer.end(number, base::ticks_now(), ErrorCode::ok); }
};

std::vector<std::uint64_t> numbers_of(const std::vector<TimelineOperation>& operations) {
    std::vector<std::uint64_t> numbers;
    for (const TimelineOperation& operation : operations) {
        numbers.push_back(operation.record.number);
    }
    return numbers;
}

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("each record is given out once, when it has ended", "[unit]") {
    const Recorder recorder;
    RingDrain drain(3, 1'000'000, 0);
    std::vector<TimelineOperation> ended;
    const auto read = [&] {
        ended.clear();
        drain.revisit(recorder.reader(), ended);
        static_cast<void>(drain.advance(recorder.reader(), 100, ended));
        return numbers_of(ended);
    };
    const std::uint64_t first = recorder.announce();
    const std::uint64_t second = recorder.announce();
    CHECK(read().empty());
    recorder.end(second);
    CHECK(read() == std::vector<std::uint64_t>{second});
    CHECK(ended[0].rank == 3);
    // Two readers convert the processor's time counter with slightly different results, so the two times may differ a
    // little.
    CHECK(std::abs(ended[0].record.announced_ns - recorder.reader().operation(second)->announced_ns - 1'000'000) <
          kConversion);
    CHECK(read().empty());
    recorder.writer.begin_step(17);
    recorder.end(first);
    CHECK(read() == std::vector<std::uint64_t>{first, 2});
    const std::uint64_t last = recorder.announce();
    CHECK(read().empty());
    std::vector<TimelineOperation> open;
    drain.append_open(recorder.reader(), open);
    CHECK(numbers_of(open) == std::vector<std::uint64_t>{last});
    CHECK(drain.take_lost() == 0);
}

TEST_CASE("records that were overwritten are counted", "[unit]") {
    const Recorder recorder;
    RingDrain drain(0, 0, 0);
    std::vector<TimelineOperation> ended;
    static_cast<void>(recorder.announce());  // this operation stays open until the ring overwrites it
    CHECK(drain.advance(recorder.reader(), 100, ended) == 1);
    constexpr std::uint64_t kMore = RankRecorder::kOperations + 500;
    for (std::uint64_t i = 0; i < kMore; ++i) {
        recorder.end(recorder.announce());
    }
    drain.revisit(recorder.reader(), ended);
    CHECK(ended.empty());
    CHECK(drain.take_lost() == 1);
    CHECK(drain.advance(recorder.reader(), 2 * kMore, ended) == RankRecorder::kOperations);
    CHECK(ended.size() == RankRecorder::kOperations);
    CHECK(drain.take_lost() == 500);
    CHECK(drain.take_lost() == 0);
    CHECK(ended.front().record.number == 501);
}

TEST_CASE("a file is whole after each write", "[unit]") {
    const Folder folder;
    const std::string path = folder.path().string() + "/t.json";
    std::ofstream(path) << std::string(10'000, 'x');  // a file that an earlier job left
    TimelineFile file;
    REQUIRE(file.open(path).is_ok());
    for (int written = 1; written <= 3; ++written) {
        REQUIRE(file.append("{\"a\":1},\n{\"b\":2},\n").is_ok());
        CHECK(nlohmann::json::parse(text_of(path)).size() == 2U * static_cast<unsigned>(written));
    }
    CHECK(file.append("").is_ok());
}

TEST_CASE("a path that cannot be written is refused", "[unit]") {
    const Folder folder;
    TimelineFile file;
    const Status missing = file.open(folder.path().string() + "/nothing/t.json");
    CHECK(missing.code() == ErrorCode::invalid_argument);
    CHECK(missing.message().find("/nothing/t.json': open failed: No such file or directory") != std::string::npos);
    const std::string pipe = folder.path().string() + "/pipe";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    CHECK_FALSE(file.open(pipe).is_ok());  // open() must not wait for a reader of the pipe
    CHECK(file.open("/dev/null").message().find("expected the path of a regular file") != std::string::npos);
}

TEST_CASE("messages narrow the difference of two clocks", "[unit]") {
    // The other host's clock is 1000 ns ahead.
    ClockInterval interval;
    interval.note_received(1'000 + 500, 580);  // the message took 80 ns
    interval.note_sent(600, 1'000 + 630);      // the message took 30 ns
    CHECK(interval.middle_ns() == 975);        // the difference is between 920 and 1030
    CHECK(interval.half_width_ns() == 55);
    // This message was slower than the earlier ones, so it does not narrow the interval.
    interval.note_received(1'000 + 700, 790);
    interval.note_sent(800, 1'000 + 990);
    CHECK(interval.half_width_ns() == 55);
    interval.note_received(1'000 + 900, 910);
    interval.note_sent(950, 1'000 + 960);
    CHECK(interval.middle_ns() == 1'000);
    CHECK(interval.half_width_ns() == 10);
}

TEST_CASE("a scope is recorded with its times", "[unit]") {
    const Recorder recorder;
    ProgramScopes scopes(recorder.writer);
    const std::int64_t began = base::monotonic_ns();
    scopes.add("saving", began);
    scopes.add("saving", 0);  // the scope began before the job, so it is not recorded
    scopes.end();
    scopes.add("after the end", began);
    const auto operations = recorder.reader().operations();
    REQUIRE(operations.size() == 2);
    CHECK(operations[0].kind == base::RecordKind::kScope);
    CHECK(operations[0].name == "saving");
    CHECK(std::abs(operations[0].announced_ns - began) < kConversion);
    CHECK(*operations[0].ended_ns >= operations[0].announced_ns);
    CHECK(operations[1].announced_ns >= recorder.memory->begin_ns.load() - kConversion);
    CHECK(recorder.reader().counters().scopes == 2);
}

}  // namespace rueda::core
