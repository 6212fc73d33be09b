// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/files/stall_file.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/folder.hpp"

namespace rueda::core {
namespace {

using Json = nlohmann::json;
using tests::Folder;

Json content_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    return Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

StallReport report_about(const std::string& name) {
    StallReport report;
    report.tensors = {{name, 0, 61.2504, {0}, {1}}};
    report.tensors.front().sites = {{"train.py:42", {0}}};
    StallReport::Rank rank;
    rank.rank = 1;
    rank.pid = 17;
    rank.process_state = "sleeping";
    rank.busy = "saving checkpoint";
    rank.busy_seconds = 71.5;
    rank.waits_in = {{"", 3, 2.5, {}, {}}};
    rank.step = 118;
    rank.finished = StallReport::Tensor{"earlier", 0, 62, {}, {}};
    report.missing_ranks = {rank};
    report.steps = {{-1, {2}}, {118, {1}}, {119, {0}}};
    report.started = {{3, {1}}, {2, {0, 2}}};
    report.unheard = {2};
    report.elsewhere = {4};
    report.missing_ranks.front().steps_behind = 5;
    report.missing_ranks.front().takes_turns = false;
    report.missing_ranks.front().part = {StallReport::Part::Kind::share, 21, 64};
    return report;
}

TEST_CASE("the file has everything that the text has") {
    const Json json = Json::parse(
        to_json({.rank = 0, .pid = 5, .host = "a"}, {{report_about("w"), "process set 2 (ranks 0, 1, 2)", 1.5, ""}}));
    CHECK(json["format"] == "rueda-stall-report");
    CHECK(json["version"] == 1);
    CHECK(json["rank"] == 0);
    CHECK(json["pid"] == 5);
    CHECK(json["host"] == "a");
    REQUIRE(json["reports"].size() == 1);
    const Json& report = json["reports"][0];
    CHECK(report["unix_seconds"] == 1.5);
    CHECK(report["process_set"] == "process set 2 (ranks 0, 1, 2)");
    CHECK(report["ends_job"].is_null());
    CHECK(report["executing"] == false);
    CHECK(report["warning_seconds"] == 60);
    CHECK(report["text"] == format_stall_report(report_about("w")));
    const Json& cause = report["probable_causes"][0];
    CHECK(cause["kind"] == "busy");
    CHECK(cause["ranks"] == Json{1});
    CHECK(cause["text"] == "rank 1 has been busy with 'saving checkpoint' for 72 s");
    const Json& tensor = report["tensors"][0];
    CHECK(tensor["what"] == "tensor 'w'");
    CHECK(tensor["name"] == "w");
    CHECK(tensor["unnamed_call"].is_null());
    CHECK(tensor["seconds"] == 61.25);
    CHECK(tensor["ready"] == Json{0});
    CHECK(tensor["missing"] == Json{1});
    CHECK(tensor["called_from"][0]["site"] == "train.py:42");
    const Json& rank = report["ranks"][0];
    CHECK(rank["rank"] == 1);
    CHECK(rank["process_state"] == "sleeping");
    CHECK(rank["busy"] == "saving checkpoint");
    CHECK(rank["busy_seconds"] == 71.5);
    CHECK(rank["step"] == 118);
    CHECK(rank["last_finished"]["name"] == "earlier");
    CHECK(rank["last_finished"]["seconds"] == 62);
    CHECK(rank["waits_in"][0]["name"].is_null());
    CHECK(rank["waits_in"][0]["unnamed_call"] == 3);
    CHECK(rank["stack"].is_null());
    CHECK(report["unheard"] == Json{2});
    CHECK(report["elsewhere"] == Json{4});
    CHECK(rank["steps_behind"] == 5);
    CHECK(rank["takes_turns"] == false);
    CHECK(rank["not_delivered"]["what"] == "its share of chunk 21 of 64");
    CHECK(rank["not_delivered"]["chunk"] == 21);
    CHECK(rank["not_delivered"]["chunks"] == 64);
    CHECK(report["steps"] == Json::parse(R"([{"step":118,"ranks":[1]},{"step":119,"ranks":[0]}])"));
    CHECK(report["unnamed_started"].size() == 2);
}

TEST_CASE("unknown values are null, and bytes that are not UTF-8 do not break the file") {
    StallReport report = report_about("\xff\xfe");
    report.missing_ranks = {{1, 17, "", "", {}, "", 0}};
    const Json json = Json::parse(to_json({}, {{report, "", 0, "the job is ended"}}));
    const Json& written = json["reports"][0];
    CHECK(written["ends_job"] == "the job is ended");
    CHECK(written["tensors"][0]["name"].get<std::string>().find('\xff') == std::string::npos);
    for (const char* key : {"busy", "busy_seconds", "step", "last_finished", "stack", "takes_turns"}) {
        INFO(key);
        CHECK(written["ranks"][0][key].is_null());
    }
}

TEST_CASE("each report replaces the file, which keeps the last ones") {
    const Folder folder;
    const std::filesystem::path inner = folder.path() / "made" / "here";
    FileWriter files(inner.string(), 3);
    StallFile file(files);
    CHECK_FALSE(std::filesystem::exists(inner));  // the file is created together with its first report
    constexpr std::size_t kReports = StallFile::kMostEntries + 3;
    for (std::size_t i = 0; i < kReports; ++i) {
        CHECK_FALSE(file.add({.rank = 3}, {report_about("w" + std::to_string(i)), "", 0, ""}));
    }
    files.stop();
    const Json json = content_of(inner / "stall.rank.3.json");
    CHECK(json["rank"] == 3);
    REQUIRE(json["reports"].size() == StallFile::kMostEntries);
    CHECK(json["reports"][0]["tensors"][0]["name"] == "w3");
    CHECK(json["reports"].back()["tensors"][0]["name"] == "w" + std::to_string(kReports - 1));
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(inner)) {
        count += entry.exists() ? 1 : 0;
    }
    CHECK(count == 1);
}

}  // namespace
}  // namespace rueda::core
