// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that the parts of all hosts become one file at the end of a job.
#include "core/timeline/whole_timeline.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/folder.hpp"

namespace rueda::core {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLong{30};

base::TimelineHeader job_of_two() {
    base::TimelineHeader header;
    header.host = "a";
    header.host_count = 2;
    header.size = 2;
    header.began_realtime_ns = 17;
    return header;
}

std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Parts {
public:
    /// Writes the parts of both hosts. The part of the second host may lack its end. Returns the path of the timeline.
    std::string write(const std::string& name, bool second_has_end = true) {
        const std::string path = (folder_.path() / name).string();
        base::TimelineHeader header = job_of_two();
        std::ofstream(path) << "[\n" + base::format_header(header) + base::format_end({}) + "\n]\n";
        header.host = "b";
        header.host_index = 1;
        std::ofstream(path + ".host1") << "[\n" + base::format_header(header) +
                                              (second_has_end ? base::format_end({.lost = 5}) + "\n]\n" : "");
        return path;
    }
    [[nodiscard]] std::size_t files() const {
        return static_cast<std::size_t>(
            std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
    }

private:
    tests::Folder folder_;
};

}  // namespace

TEST_CASE("the parts of all hosts become one file", "[unit]") {
    Parts parts;
    const std::string first = parts.write("first");
    const std::string second = parts.write("second");
    WholeTimelines whole(job_of_two(), {first, second});
    std::thread thread([&whole] { whole.run(); });
    CHECK(whole.wait(kLong));
    thread.join();
    CHECK(whole.left().empty());
    CHECK(parts.files() == 2);
    for (const std::string& path : {first, second}) {
        const auto events = nlohmann::json::parse(content(path));
        CHECK(events.front()["args"]["merged"] == true);
        CHECK(events.back()["args"]["lost"] == 5);
    }
}

TEST_CASE("parts stay as they are if one is not complete", "[unit]") {
    Parts parts;
    const std::string path = parts.write("t", /*second_has_end=*/false);
    const std::string before = content(path);
    WholeTimelines whole(job_of_two(), {path});
    std::thread thread([&whole] { whole.run(); });
    CHECK(whole.wait(std::chrono::milliseconds(1)));  // wait() gives up after 1 ms, and the thread ends soon
    thread.join();
    CHECK(whole.left() == std::vector<std::string>{path});
    CHECK(whole.reason() == "this host does not see a complete '" + path + ".host1'");
    CHECK(content(path) == before);
    CHECK(parts.files() == 2);
}

TEST_CASE("a timeline that was given up leaves nothing behind", "[unit]") {
    Parts parts;
    const std::string path = parts.write("t");
    const std::string before = content(path);
    WholeTimelines whole(job_of_two(), {path});
    CHECK_FALSE(whole.wait(std::chrono::milliseconds(0)));  // run() has not been called yet
    whole.run();
    CHECK(whole.left() == std::vector<std::string>{path});
    CHECK(whole.reason() == "there was too little time");
    CHECK(content(path) == before);
    CHECK(parts.files() == 2);
}

TEST_CASE("the command that merges the parts", "[unit]") {
    CHECK(merge_command("t", 2) == "rueda timeline t t.host1 -o merged.json");
    CHECK(merge_command("t", 64) == "rueda timeline t t.host1 t.host2 … -o merged.json");
    CHECK(part_path("t", 0) == "t");
}

}  // namespace rueda::core
