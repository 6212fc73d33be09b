// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rueda/data/pipeline.hpp"
#include "tests/support/folder.hpp"
#include "training/metrics/metric_files.hpp"

namespace rueda::training {
namespace {

using Catch::Contains;
using tests::Folder;

std::string content_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void put(const std::filesystem::path& path, std::string_view content) {
    std::ofstream(path, std::ios::binary) << content;
}

MetricFiles opened(const Folder& folder, std::vector<MetricFormat> formats, std::int64_t first_step = 0) {
    auto files = MetricFiles::open(folder.path(), {std::move(formats), first_step});
    REQUIRE(files.status().message().empty());
    return std::move(files).value();
}

void write(MetricFiles& files, std::int64_t step, const std::vector<Metric>& metrics) {
    CHECK(files.write(step, metrics).message().empty());
}

TEST_CASE("metrics as CSV and JSON lines", "[unit]") {
    const Folder folder;
    MetricFiles files = opened(folder, {MetricFormat::csv, MetricFormat::jsonl});
    write(files, 0, {{"loss", 2.5}, {"a,\"b", 0.1}});
    write(files, 1, {{"a,\"b", 3}, {"loss", std::nan("")}});
    write(files, 2, {{"loss", 1e-30}});
    CHECK(content_of(folder.file("metrics.csv")) == "step,loss,\"a,\"\"b\"\r\n0,2.5,0.1\r\n1,nan,3.0\r\n2,1e-30,\r\n");
    std::vector<nlohmann::json> lines;
    std::ifstream file(folder.file("metrics.jsonl"));
    for (std::string line; std::getline(file, line);) {
        lines.push_back(nlohmann::json::parse(line));
        CHECK(lines.back().at("time") > 1.7e9);
        lines.back().erase("time");
    }
    CHECK(lines == std::vector<nlohmann::json>{{{"step", 0}, {"loss", 2.5}, {"a,\"b", 0.1}},
                                               {{"step", 1}, {"loss", nullptr}, {"a,\"b", 3.0}},
                                               {{"step", 2}, {"loss", 1e-30}}});
    CHECK_THAT(files.write(3, std::vector<Metric>{{"auc", 1}}).message(), Contains("'auc' has no column in"));
    CHECK(files.close().is_ok());
    CHECK(files.close().is_ok());
    CHECK_THAT(files.write(3, {}).message(), Contains("the files were closed"));
}

TEST_CASE("a resumed job keeps the whole lines of earlier steps", "[unit]") {
    const Folder folder;
    // The CSV file has a row with too few fields, a row whose step is no number, a row of the later step 3, and a row
    // that was cut. The JSON file ends as if the power failed while it was written.
    put(folder.file("metrics.csv"), "step,\"a\"\"\"\r\n0,1.5\r\n1\r\nx,1\r\n2,7.0\n3,8.0\r\n1,2");
    put(folder.file("metrics.jsonl"), std::string("{\"step\": 0}\n{\"step\"\n[1]\n{\"step\": 2}\n{\"ste\0\0", 43));
    MetricFiles files = opened(folder, {MetricFormat::csv, MetricFormat::jsonl}, 3);
    write(files, 3, {{"a\"", 9}});
    CHECK(content_of(folder.file("metrics.csv")) == "step,\"a\"\"\"\r\n0,1.5\r\n2,7.0\r\n3,9.0\r\n");
    CHECK(content_of(folder.file("metrics.jsonl")).rfind("{\"step\": 0}\n{\"step\": 2}\n{\"step\":3,", 0) == 0);
    MetricFiles again = opened(folder, {MetricFormat::csv, MetricFormat::jsonl});
    CHECK(content_of(folder.file("metrics.csv")).empty());
    CHECK(content_of(folder.file("metrics.jsonl")).empty());
}

/// Returns the records of all event files in the folder. A data pipeline reads them and checks their checksums.
std::vector<std::string> event_records(const Folder& folder) {
    data::PipelineOptions options{.sources = data::files((folder.path() / "events.out.tfevents.*").string()),
                                  .format = data::Tfrecords(),
                                  .batch = 100,
                                  .epochs = 1};
    data::Pipeline pipeline(options);
    data::Batch batch;
    REQUIRE(pipeline.next(batch));
    std::vector<std::string> records;
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.rows()); ++i) {
        records.emplace_back(batch.column("record").text(i));
    }
    return records;
}

TEST_CASE("an event file has the records that TensorBoard expects", "[unit]") {
    const Folder folder;
    MetricFiles files = opened(folder, {MetricFormat::tensorboard}, 300);
    write(files, 300, {{"loss", 0.5}, {"auc", 2}});
    const auto records = event_records(folder);
    // Each record begins with the time: tag 0x09, and eight bytes.
    REQUIRE(records.size() == 3);
    for (const std::string& record : records) {
        REQUIRE(record.size() > 9);
        double time = 0;
        std::memcpy(&time, record.data() + 1, sizeof time);
        CHECK((record[0] == 9 && time > 1.7e9 && time < 1e10));
    }
    // The expected rest of each record was written by hand, in the encoding of protocol buffers. The first record has
    // step 0 and the version of the file.
    CHECK(records[0].substr(9) == std::string("\x10\0\x1a\x0d"
                                              "brain.Event:2",
                                              17));
    // The second record has step 300 (0xac 0x02) and a SessionLog whose status is START.
    CHECK(records[1].substr(9) == "\x10\xac\x02\x3a\x02\x08\x01");
    // The third record has step 300 and a Summary with two values. 0.5 is 0x3f000000, and 2 is 0x40000000.
    CHECK(records[2].substr(9) == std::string("\x10\xac\x02\x2a\x19"
                                              "\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f"
                                              "\x0a\x0a\x0a\x03"
                                              "auc\x15\0\0\0\x40",
                                              30));
    // the second object must write to a new file, and not overwrite the first one
    MetricFiles other = opened(folder, {MetricFormat::tensorboard});
    CHECK(event_records(folder).size() == 4);
}

TEST_CASE("if the disk becomes full, no half line stays in a file", "[unit]") {
    const Folder folder;
    MetricFiles files = opened(folder, {MetricFormat::csv});
    write(files, 1, {{"loss", 1}});
    const std::string before = content_of(folder.file("metrics.csv"));
    // With this limit, a file of this process may grow by at most three bytes, as if the disk had room for three bytes.
    auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit old_limit{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &old_limit) == 0);
    const rlimit limit{before.size() + 3, old_limit.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const Status status = files.write(2, std::vector<Metric>{{"loss", 2}});
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &old_limit) == 0);
    std::signal(SIGXFSZ, old_handler);
    CHECK(status.code() == ErrorCode::resource_exhausted);
    CHECK_THAT(status.message(), Contains("metrics.csv: write failed"));
    CHECK(content_of(folder.file("metrics.csv")) == before);
    write(files, 3, {{"loss", 3}});
    CHECK(content_of(folder.file("metrics.csv")) == before + "3,3.0\r\n");
}

TEST_CASE("metrics and options that cannot be written are refused", "[unit]") {
    const Folder folder;
    MetricFiles files = opened(folder, {});
    for (const auto& [name, reason] : std::vector<std::pair<std::string, std::string>>{
             {"step", "'step'; choose another name"}, {"", "choose another"}, {"a\nb", "control"}, {"\xff", "UTF-8"}}) {
        CHECK_THAT(files.write(1, std::vector<Metric>{{name, 1}}).message(), Contains(reason));
    }
    CHECK_THAT(files.write(1, std::vector<Metric>{{"a", 1}, {"a", 1}}).message(), Contains("each metric once"));
    CHECK_THAT(MetricFiles::open(folder.path(), {.first_step = -1}).status().message(), Contains("first_step is -1"));
    put(folder.file("file"), "");
    CHECK_THAT(MetricFiles::open(folder.file("file") / "x", {}).status().message(), Contains("creating the folder"));
}

}  // namespace
}  // namespace rueda::training
