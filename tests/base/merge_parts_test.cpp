// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how PartReader reads the parts of a timeline piece by piece, and how the parts become one timeline.
#include "base/timeline/merge_parts.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/timeline/operation_groups.hpp"
#include "base/timeline/trace_events.hpp"
#include "tests/support/folder.hpp"

namespace rueda::base {

namespace {

using Json = nlohmann::json;
using tests::Folder;

constexpr std::size_t kSmallPiece = 300;  // less than an event
constexpr std::size_t kMany = 1000;

TimelineHeader header_of_part(std::int32_t host_index) {
    TimelineHeader header;
    header.host = host_index == 0 ? "a" : "b";
    header.host_index = host_index;
    header.host_count = 2;
    header.size = 2;
    header.began_realtime_ns = 1'700'000'000'000'000'000;
    header.clock_uncertainty_ns = 7 * host_index;
    return header;
}

/// Returns an operation of rank `rank`. It is the only operation in its batch.
TimelineOperation operation_of(std::int32_t rank, std::uint32_t batch, std::int64_t announced_ns,
                               std::int64_t ended_ns) {
    TimelineOperation made;
    made.rank = rank;
    made.record.has_name_record = true;
    made.record.name = "gradient";
    made.record.name_hash = 17;
    made.record.batch = batch;
    made.record.bytes = 64;
    made.record.number = batch;
    made.record.announced_ns = announced_ns;
    made.record.started_ns = ended_ns - 1;
    made.record.ended_ns = ended_ns;
    return made;
}

/// Returns the part that the library writes for a host with one rank.
std::string part_of(const TimelineHeader& header, const std::vector<TimelineOperation>& operations) {
    std::string text = format_header(header);
    TraceEvents events(false);
    events.add_rank(header.host_index, header.host, text);
    for (const TimelineOperation& operation : operations) {
        events.add_group({operation}, 0, text);
    }
    events.add_lost(header.host_index, 3, 5, text);
    return "[\n" + text + format_end({.operations = operations.size(), .lost = 3}) + "\n]\n";
}

class Parts {
public:
    std::string write(const std::string& name, const std::string& text) {
        const std::string path = (folder_.path() / name).string();
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }
    PartReader open(const std::string& name, const std::string& text, std::size_t piece_bytes = kSmallPiece) {
        Result<PartReader> reader = PartReader::open(write(name, text), piece_bytes);
        REQUIRE(reader.is_ok());
        return std::move(reader).value();
    }

private:
    Folder folder_;
};

struct Merged {
    Json events;
    MergedTotals totals;
};

Merged merge(std::vector<PartReader> parts, std::size_t most_held = kMany) {
    std::string text;
    const Result<MergedTotals> totals = merge_parts(parts, most_held, [&text](std::string_view piece) {
        text += piece;
        return Status();
    });
    REQUIRE(totals.is_ok());
    return {Json::parse(text), totals.value()};
}

std::vector<Json> negotiations_of(const Json& events, std::int32_t rank) {
    std::vector<Json> found;
    for (const Json& event : events) {
        if (event["pid"] == rank && event["name"] == "NEGOTIATE_ALLREDUCE") {
            found.push_back(event);
        }
    }
    return found;
}

/// Rank 1 announces each operation a little later than rank 0.
std::pair<std::vector<TimelineOperation>, std::vector<TimelineOperation>> operations_of_two_hosts(std::uint32_t count) {
    std::pair<std::vector<TimelineOperation>, std::vector<TimelineOperation>> made;
    for (std::uint32_t i = 0; i < count; ++i) {
        made.first.push_back(operation_of(0, i, i * 100, i * 100 + 60));
        made.second.push_back(operation_of(1, i, i * 100 + 40, i * 100 + 50));
    }
    return made;
}

}  // namespace

TEST_CASE("a part is read in pieces", "[timeline]") {
    Parts files;
    const std::vector<TimelineOperation> operations = operations_of_two_hosts(50).first;
    PartReader reader = files.open("t", part_of(header_of_part(0), operations));
    CHECK(reader.header().host == "a");
    std::size_t pieces = 0;
    std::vector<TimelineOperation> read;
    for (;;) {
        Result<std::optional<TimelinePart>> piece = reader.next();
        REQUIRE(piece.is_ok());
        if (!piece.value()) {
            break;
        }
        ++pieces;
        for (const TimelineOperation& operation : piece.value()->operations) {
            read.push_back(operation);
        }
    }
    CHECK(pieces > 50);
    CHECK(reader.has_end());
    REQUIRE(read.size() == operations.size());
    for (std::size_t i = 0; i < read.size(); ++i) {
        CHECK(read[i].record == operations[i].record);
    }
}

TEST_CASE("the merged operations know the last rank of all hosts", "[timeline]") {
    Parts files;
    const auto [of_a, of_b] = operations_of_two_hosts(200);
    std::vector<PartReader> parts;
    parts.push_back(files.open("t.host1", part_of(header_of_part(1), of_b)));
    parts.push_back(files.open("t", part_of(header_of_part(0), of_a)));
    const Merged merged = merge(std::move(parts));
    CHECK(merged.totals.ranks == 2);
    CHECK(merged.totals.end.operations == 400);
    CHECK(merged.totals.end.lost == 6);
    for (const std::int32_t rank : {0, 1}) {
        const std::vector<Json> found = negotiations_of(merged.events, rank);
        REQUIRE(found.size() == 200);
        for (const Json& event : found) {
            CHECK(event["args"]["last_rank"] == 1);
        }
    }
    const Json& header = merged.events.front()["args"];
    CHECK(header["merged"] == true);
    CHECK(header["host"] == "a");
    CHECK(header["clock_uncertainty_ns"] == 7);
    CHECK(merged.events.back()["name"] == "rueda_timeline_end");
}

TEST_CASE("operations that only one part has are held up to the limit", "[timeline]") {
    Parts files;
    const auto [of_a, of_b] = operations_of_two_hosts(100);
    // In the other host's part, all operations except the last are missing, as if that host had begun to record late.
    std::vector<PartReader> parts;
    parts.push_back(files.open("t", part_of(header_of_part(0), of_a)));
    parts.push_back(files.open("t.host1", part_of(header_of_part(1), {of_b.back()})));
    const Merged merged = merge(std::move(parts), 4);
    CHECK(merged.totals.end.operations == 101);
    const std::vector<Json> found = negotiations_of(merged.events, 0);
    REQUIRE(found.size() == 100);
    for (const Json& event : found) {
        CHECK(event["args"]["last_rank"] == (event["args"]["batch"] == 99 ? 1 : 0));
    }
    CHECK(found.front()["args"]["batch"] == 0);
}

TEST_CASE("a part whose writer was killed is merged without its last event", "[timeline]") {
    Parts files;
    const auto [of_a, of_b] = operations_of_two_hosts(3);
    std::string cut = part_of(header_of_part(1), of_b);
    cut.resize(cut.rfind("RECORDS_LOST"));
    std::vector<PartReader> parts;
    parts.push_back(files.open("t", part_of(header_of_part(0), of_a)));
    parts.push_back(files.open("t.host1", cut));
    std::string text;
    const Result<MergedTotals> totals = merge_parts(parts, kMany, [&text](std::string_view piece) {
        text += piece;
        return Status();
    });
    REQUIRE(totals.is_ok());
    CHECK(totals.value().end.operations == 6);
    CHECK(parts[0].has_end());
    CHECK_FALSE(parts[1].has_end());
}

TEST_CASE("parts that do not belong together are refused", "[timeline]") {
    Parts files;
    const auto refusal = [&](TimelineHeader second) {
        std::vector<PartReader> parts;
        parts.push_back(files.open("t", part_of(header_of_part(0), {})));
        parts.push_back(files.open("t.host1", part_of(second, {})));
        return merge_parts(parts, kMany, [](std::string_view) { return Status(); }).status().message();
    };
    TimelineHeader other = header_of_part(1);
    other.began_realtime_ns += 1;
    CHECK(refusal(other) == "the parts of 'a' and of 'b' are of different jobs");
    CHECK(refusal(header_of_part(0)) == "two parts are of the host 'a'");
    other = header_of_part(1);
    other.is_merged = true;
    CHECK(refusal(other) == "one of the files is merged already; give the parts only");

    const auto problem = [&](const std::string& text) {
        return PartReader::open(files.write("damaged", text)).status().message();
    };
    CHECK_THAT(problem(""), Catch::EndsWith("/damaged': line 0: it is not a timeline of Rueda"));
    CHECK_THAT(problem("[\n{\"name\":1}\n"), Catch::Contains("/damaged': line 2: "));
    CHECK_THAT(PartReader::open("/dev/null").status().message(), Catch::EndsWith("expected a regular file"));
    PartReader endless =
        files.open("long", "[\n" + format_header(header_of_part(0)) + std::string(2 << 20, 'x'), 65536);
    CHECK_THAT(endless.next().status().message(), Catch::EndsWith("an event has more than 1048576 bytes"));
}

TEST_CASE("a failed write ends the merge", "[timeline]") {
    Parts files;
    std::vector<PartReader> parts;
    parts.push_back(files.open("t", part_of(header_of_part(0), {})));
    const Status failed = merge_parts(parts, kMany, [](std::string_view) {
                              return Status(ErrorCode::timeout, "there was too little time");
                          }).status();
    CHECK(failed.code() == ErrorCode::timeout);
}

TEST_CASE("a part is complete when its writer has ended it", "[timeline]") {
    Parts files;
    const TimelineHeader job = header_of_part(0);
    const std::string whole = part_of(header_of_part(1), operations_of_two_hosts(100).second);
    CHECK(is_complete_part(files.write("whole", whole), job, 1));
    CHECK_FALSE(is_complete_part(files.write("whole", whole), job, 0));
    const std::string growing = whole.substr(0, whole.rfind(",\n")) + "\n]\n";
    CHECK_FALSE(is_complete_part(files.write("growing", growing), job, 1));
    CHECK_FALSE(is_complete_part(files.write("cut", whole.substr(0, whole.size() - 3)), job, 1));
    TimelineHeader earlier = header_of_part(1);
    earlier.began_realtime_ns -= 1;
    CHECK_FALSE(is_complete_part(files.write("earlier", part_of(earlier, {})), job, 1));
    CHECK_FALSE(is_complete_part("/nothing/there", job, 1));
    CHECK(std::filesystem::file_size(files.write("whole", whole)) > 4096);
}

}  // namespace rueda::base
