// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/screen.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/jobs/columns.hpp"
#include "launcher/top/hosts/bounded_lines.hpp"
#include "launcher/top/merge_hosts.hpp"

namespace rueda::launcher {
namespace {

RankRow row(std::int32_t rank) {
    RankRow made;
    made.rank = rank;
    made.pid = 4711 + rank;
    made.process = "running";
    made.step = 118;
    made.step_seconds = 0.5;
    made.waiting_share = 0.2;
    made.waits = {{2, 400'000'000}};
    made.bytes_per_second = 3 * 1024 * 1024;
    made.operations_per_second = 8;
    made.batches_per_second = 1234;
    made.cpu_share = 0.98;
    made.resident_bytes = 64 * 1024 * 1024;
    return made;
}

TopView view_of(std::vector<RankRow> rows) {
    TopView view;
    view.job.id = "j1034";
    view.job.program = "./trainer";
    for (const RankRow& one : rows) {
        RankSample sample;
        sample.rank = one.rank;
        sample.step = one.step;
        sample.state = base::RankState::running;
        sample.process = ProcessSample{'R', 0, 60, 0};
        view.job.ranks.push_back(sample);
    }
    view.interval_seconds = 2;
    view.rows = std::move(rows);
    return view;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) {
        text += line + "\n";
    }
    return text;
}

TEST_CASE("the screen as text") {
    RankRow straggler = row(2);
    straggler.is_straggler = true;
    straggler.waiting_share = 0;
    straggler.waits.clear();
    straggler.scope = "saving";
    RankRow last = row(3);
    last.waits = {{2, 300'000'000}, {kOtherHosts, 100'000'000}};
    RankRow receiver = row(0);
    receiver.waits = {{kAnyRank, 400'000'000}};
    CHECK_THAT(joined(render(screen_of(view_of({receiver})), {}, false)), Catch::Contains(" 20%  any rank "));
    CHECK(joined(render(screen_of(view_of({row(1), straggler, last})), {}, false)) ==
          "j1034  running  ./trainer  age 1m00s  interval 2.00 s\n"
          "\n"
          "RANK   PID  PROCESS  STEP  STEP TIME  WAITS  FOR                         BYTES/S  OPS/S  BATCHES/S   CPU   "
          "MEMORY  DOING\n"
          "   1  4712  running   118     500 ms    20%  rank 2                        3 MiB    8.0       1234   98%   "
          "64 MiB\n"
          " ! 2  4713  running   118     500 ms     0%                                3 MiB    8.0       1234   98%   "
          "64 MiB  in scope 'saving'\n"
          "   3  4714  running   118     500 ms    20%  rank 2 15%, other hosts 5%    3 MiB    8.0       1234   98%   "
          "64 MiB\n"
          " all                  118     500 ms    13%                                9 MiB     24       3702  294%  "
          "192 MiB\n"
          "! Rank 2 is a straggler: the other ranks wait for it.\n");
}

TEST_CASE("values that are not known are dashes") {
    RankRow empty;
    empty.rank = 0;
    empty.process = "gone";
    const std::string text = joined(render(screen_of(view_of({empty})), {}, false));
    CHECK_THAT(text, Catch::Contains("\n   0    -  gone "));
    CHECK_THAT(text, Catch::Contains("-          -      -             -      -          -    -       -\n"));
}

TEST_CASE("an aborted job shows the reason") {
    TopView view = view_of({row(0)});
    view.job.was_aborted = true;
    view.job.abort_reason = "rank 1 was killed";
    const auto lines = render(screen_of(view), {}, false);
    CHECK_THAT(lines[0], Catch::Contains("aborted"));
    CHECK(lines[1] == "Aborted: rank 1 was killed");
}

TEST_CASE("a step that takes long, and an operation that waits long, are shown as they go on") {
    RankRow stuck = row(0);
    stuck.in_step_seconds = 12;
    stuck.pending = "allreduce 'loss' for 11 s";
    stuck.scope = "evaluate";
    const std::string text = joined(render(screen_of(view_of({stuck})), {}, false));
    CHECK_THAT(text, Catch::Contains(">12.0 s"));
    CHECK_THAT(text, Catch::Contains("in scope 'evaluate'; allreduce 'loss' for 11 s\n"));
    stuck.in_step_seconds = 0.9;
    CHECK_THAT(joined(render(screen_of(view_of({stuck})), {}, false)), !Catch::Contains(">"));
}

TEST_CASE("the line of all ranks shows the longest step that is not over") {
    std::vector<RankRow> rows = {row(0), row(1), row(2)};
    rows[0].in_step_seconds = 7.4;
    rows[2].in_step_seconds = 9;
    CHECK_THAT(render(screen_of(view_of(rows)), {}, false).back(), Catch::Contains(" 118    >9.00 s "));
    rows[0].in_step_seconds = rows[2].in_step_seconds = 0.6;
    CHECK_THAT(render(screen_of(view_of(rows)), {}, false).back(), Catch::Contains(" 118     500 ms "));
}

TEST_CASE("a narrow terminal shows whole sentences and has fewer columns") {
    RankRow straggler = row(2);
    straggler.is_straggler = straggler.seems_bound_by_input = true;
    straggler.idle_share = 0.8;
    straggler.pending = "receive from rank 0 for 6 s";
    straggler.waits.clear();
    const TopView view = view_of({straggler});
    const auto has = [&view](std::size_t columns, const std::string& title) {
        return screen_of(view, columns).head.back().text.find(title) != std::string::npos;
    };
    const std::size_t widest = columns_of(screen_of(view).rows[0].text);
    CHECK(has(widest, "BATCHES/S"));
    CHECK_FALSE(has(widest - 1, "BATCHES/S"));
    CHECK(has(widest - 1, "  OPS/S"));
    CHECK_FALSE(has(widest - 12, "  OPS/S"));
    CHECK(has(widest - 25, "  BYTES/S"));  // 20 characters of DOING are visible
    CHECK_FALSE(has(widest - 26, "  BYTES/S"));
    CHECK(has(widest - 26, "  MEMORY"));
    CHECK(columns_of(screen_of(view, 20).head.back().text) == 60);
    CHECK(screen_of(view_of({row(2)}), 80).head.back().text.find("  MEMORY") != std::string::npos);
    CHECK(joined(render(screen_of(view, 80), {80, 24}, false)) ==
          "j1034  running  ./trainer  age 1m00s  interval 2.00 s\n"
          "\n"
          "RANK   PID  PROCESS  STEP  STEP TIME  WAITS  FOR  CPU  DOING\n"
          " ! 2  4713  running   118     500 ms    20%       98%  receive from rank 0 for …\n"
          " all                  118     500 ms    20%       98%\n"
          "! Rank 2 is a straggler: the other ranks wait for it.\n"
          "Rank 2 seems to wait for input: 80% of the time it neither computes nor is in\n"
          "Rueda or in a declared scope.\n");
    CHECK(render(screen_of(view, 80), {80, 7}, false).size() == 7);
}

TEST_CASE("ranks that seem to wait for input are named together") {
    std::vector<RankRow> rows = {row(0), row(1), row(2), row(3)};
    for (const std::size_t index : {0U, 1U, 2U}) {
        rows[index].seems_bound_by_input = true;
        rows[index].idle_share = index == 1 ? 0.42 : 0.6;
    }
    rows[3].waits_for_own_threads = true;
    rows[3].outside = TimeOutside{0.2, 0.45, 0.1};
    CHECK_THAT(joined(render(screen_of(view_of(rows)), {}, false)),
               Catch::EndsWith("\nRanks 0-2 seem to wait for input: at least 42% of the time they neither compute nor "
                               "are in Rueda or in a declared scope.\n"
                               "Rank 3 waits for other threads of its process: 45% of the time its main thread sleeps "
                               "outside of Rueda, while another thread runs.\n"));
    rows.resize(1);
    CHECK_THAT(joined(render(screen_of(view_of(rows)), {}, false)),
               Catch::EndsWith("\nRank 0 seems to wait for input: 60% of the time it neither computes nor is in Rueda "
                               "or in a declared scope.\n"));
}

TEST_CASE("GPUs have columns only where there are some") {
    RankRow on_gpus = row(0);
    on_gpus.gpus = {{0, 0.9, 3ULL << 30, 8ULL << 30}, {1, 0.6, 1ULL << 30, 8ULL << 30}};
    on_gpus.scope = "saving";
    TopView view = view_of({on_gpus, row(1)});
    CHECK_THAT(joined(render(screen_of(view), {}, false)), !Catch::Contains("GPU"));
    view.has_gpus = true;
    const auto lines = render(screen_of(view), {}, false);
    CHECK_THAT(lines[2], Catch::EndsWith("  MEMORY  GPU  GPU MEMORY  DOING"));
    CHECK_THAT(lines[3], Catch::EndsWith("  64 MiB  75%       4 GiB  in scope 'saving'"));
    CHECK_THAT(lines[4], Catch::EndsWith("  64 MiB    -           -"));
    CHECK_THAT(lines[5], Catch::EndsWith(" 128 MiB"));
}

TEST_CASE("colours mark titles and stragglers, and end within the line") {
    RankRow straggler = row(1);
    straggler.is_straggler = true;
    const auto lines = render(screen_of(view_of({row(0), straggler})), {40, 0}, true);
    CHECK_THAT(lines[2], Catch::StartsWith("\x1b[1mRANK") && Catch::EndsWith("\x1b[0m"));
    CHECK(lines[3].find('\x1b') == std::string::npos);
    CHECK_THAT(lines[4], Catch::StartsWith("\x1b[31m ! 1") && Catch::EndsWith("\x1b[0m"));
    for (const std::string& line : render(screen_of(view_of({row(0), straggler})), {}, false)) {
        CHECK(line.find('\x1b') == std::string::npos);
    }
}

TEST_CASE("the screen fits the terminal") {
    std::vector<RankRow> rows;
    for (std::int32_t rank = 0; rank < 30; ++rank) {
        rows.push_back(row(rank));
    }
    const Screen screen = screen_of(view_of(rows));
    for (const std::size_t columns : {1U, 20U, 300U}) {
        for (const std::size_t lines : {1U, 3U, 5U, 12U, 34U, 100U}) {
            const auto shown = render(screen, {columns, lines}, false);
            CHECK(shown.size() <= lines);
            for (const std::string& line : shown) {
                CHECK(columns_of(line) <= columns);
            }
        }
    }
    const auto twelve = render(screen, {300, 12}, false);
    REQUIRE(twelve.size() == 12);
    CHECK_THAT(twelve[9], Catch::Contains(" 4717 "));
    CHECK(twelve[10] == "... 23 more ranks do not fit on the screen");
    CHECK_THAT(twelve[11], Catch::Contains("all"));
    CHECK(render(screen, {300, 34}, false).size() == 34);
}

TEST_CASE("durations have three digits") {
    CHECK(format_duration(0.0000123) == "12 us");
    CHECK(format_duration(0.0123) == "12.3 ms");
    CHECK(format_duration(0.5) == "500 ms");
    CHECK(format_duration(1.5) == "1.50 s");
    CHECK(format_duration(31.25) == "31.2 s");
    CHECK(format_duration(312) == "312 s");
}

TEST_CASE("the screen in JSON") {
    RankRow other = row(1);
    other.waiting_share.reset();
    other.waits = {{kOtherHosts, 500'000'000}};
    other.pid = 0;
    other.is_straggler = true;
    other.outside = TimeOutside{0.25, 0.125, 0.5};
    other.idle_share = 0.375;
    other.gpus = {{3, 0.125, {}, 4096}};
    other.seems_bound_by_input = true;
    const auto document = nlohmann::json::parse(view_as_json(view_of({row(0), other})));
    CHECK(document["id"] == "j1034");
    CHECK(document["state"] == "running");
    CHECK(document["interval_seconds"] == 2.0);
    const auto& ranks = document["ranks"];
    CHECK(ranks[0]["rank"] == 0);
    CHECK(ranks[0]["pid"] == 4711);
    CHECK(ranks[0]["waiting_share"] == 0.2);
    CHECK(ranks[0]["waits_for"][0]["rank"] == 2);
    CHECK(ranks[0]["waits_for"][0]["seconds"] == 0.4);
    CHECK(ranks[0]["is_straggler"] == false);
    CHECK(ranks[1]["pid"].is_null());
    CHECK(ranks[1]["waiting_share"].is_null());
    CHECK(ranks[1]["waits_for"][0]["rank"].is_null());
    CHECK(ranks[1]["is_straggler"] == true);
    CHECK(ranks[0]["sleeps_outside_share"].is_null());
    CHECK(ranks[1]["runs_outside_share"] == 0.25);
    CHECK(ranks[1]["threads_run_outside_share"] == 0.125);
    CHECK(ranks[1]["sleeps_outside_share"] == 0.5);
    CHECK(ranks[1]["idle_share"] == 0.375);
    CHECK(ranks[0]["gpus"].empty());
    CHECK(ranks[1]["gpus"][0]["index"] == 3);
    CHECK(ranks[1]["gpus"][0]["utilization"] == 0.125);
    CHECK(ranks[1]["gpus"][0]["used_bytes"].is_null());
    CHECK(ranks[1]["gpus"][0]["total_bytes"] == 4096);
    CHECK(ranks[1]["seems_bound_by_input"] == true);
    CHECK(ranks[1]["waits_for_own_threads"] == false);
}

TEST_CASE("a view is read from its JSON as it was") {
    RankRow full = row(1);
    full.waits = {{0, 500'000'000}, {kOtherHosts, 250'000'000}, {kAnyRank, 125'000'000}};
    full.scope = "saving";
    full.pending = "allreduce 'loss' for 11 s";
    full.in_step_seconds = 0.25;
    full.outside = TimeOutside{0.25, 0.125, 0.5};
    full.idle_share = 0.375;
    full.gpus = {{3, 0.125, {}, 4096}};
    full.is_straggler = full.seems_bound_by_input = full.waits_for_own_threads = true;
    RankRow empty;
    empty.rank = 2;
    empty.process = "gone";
    TopView view = view_of({full, empty});
    view.job.was_aborted = true;
    view.job.abort_reason = "rank 1 was killed";
    view.has_gpus = true;
    view.job.ranks[1].process.reset();
    const std::string text = view_as_json(view);
    const Result<TopView> read = view_from_json(text);
    REQUIRE(read.is_ok());
    CHECK(view_as_json(read.value()) == text);
    CHECK(joined(render(screen_of(read.value()), {}, false)) == joined(render(screen_of(view), {}, false)));
}

TEST_CASE("JSON that is not a view is refused, and texts lose their control characters") {
    const std::string good = view_as_json(view_of({row(0)}));
    for (const auto& [found, harmed] : {std::pair<std::string, std::string>{"\"rank\": 0", "\"rank\": \"0\""},
                                        {"\"gpus\": []", "\"gpus\": [1]"},
                                        {"\"cpu_share\"", "\"cpu\""},
                                        {"\"rank\": 0", "\"rank\": 3000000000"},
                                        {"\"rank\": 0", "\"rank\": 0.5"},
                                        {"\"step\": 118", "\"step\": 1e300"},
                                        {"\"step_seconds\": 0.5", "\"step_seconds\": 1e300"},
                                        {"\"seconds\": 0.4", "\"seconds\": 1e12"},
                                        {"\"is_straggler\": false", "\"is_straggler\": 0"},
                                        {"\"ranks\": [", "\"ranks\": [ ["}}) {
        std::string text = good;
        REQUIRE(text.find(found) != std::string::npos);
        text.replace(text.find(found), found.size(), harmed);
        const Result<TopView> read = view_from_json(text);
        REQUIRE_FALSE(read.is_ok());
        CHECK_THAT(read.status().message(), Catch::StartsWith("its answer cannot be read"));
    }
    std::string text = good;
    text.replace(text.find("./trainer"), 9, "\\u001b[2J");
    CHECK(view_from_json(text).value().job.program == "?[2J");
    text = good;
    text.replace(text.find("./trainer"), 9, std::string(5000, 'x'));
    CHECK(view_from_json(text).value().job.program.size() <= 512);
    CHECK_FALSE(view_from_json(std::string(1 << 20, '[')).is_ok());
    CHECK_FALSE(view_from_json("1").is_ok());
}

TEST_CASE("a view is one line of JSON for another host") {
    const TopView view = view_of({row(0), row(1)});
    const std::string line = view_as_json_line(view);
    CHECK(line.find('\n') == line.size() - 1);
    CHECK(view_as_json(view_from_json(line).value()) == view_as_json(view));
}

TEST_CASE("the answer of a host is found between other lines") {
    const HostAnswer found = read_host_answer("a", "a warning\n{\n  \"id\": 1\n}\nmpirun: bye\n");
    CHECK(found.host == "a");
    CHECK(found.json == "{\n  \"id\": 1\n}\n");
    CHECK(found.problem.empty());
    CHECK(read_host_answer("a", "-----\nssh: no route\nmore\n").problem == "ssh: no route");
    CHECK(read_host_answer("a", "a warning\nrueda: no job\x1b of Rueda\n").problem == "no job? of Rueda");
    CHECK(read_host_answer("a", "ssh: no route\r\n").problem == "ssh: no route");
    CHECK(read_host_answer("a", "rueda: no job \r\n").problem == "no job");
    CHECK(read_host_answer("a", "").problem == "it did not answer");
    const HostAnswer cut = read_host_answer("a", "{\n  \"id\": 1\n");
    CHECK(cut.json.empty());
    CHECK(cut.problem == "it did not answer");
}

TEST_CASE("the ranks of several hosts are on one screen") {
    const std::vector<HostAnswer> answers = {{"b", view_as_json(view_of({row(2), row(3)})), ""},
                                             {"a", view_as_json(view_of({row(0)})), ""},
                                             {"c", "{}", ""},
                                             {"d", "", "ssh: no route"}};
    const TopView view = merge_hosts(answers);
    const auto lines = render(screen_of(view), {}, false);
    REQUIRE(lines.size() == 9);
    CHECK_THAT(lines[0], Catch::StartsWith("j1034 on b, j1034 on a  running  ./trainer  age 1m00s"));
    CHECK_THAT(lines[2], Catch::StartsWith("HOST  RANK   PID  "));
    CHECK_THAT(lines[3], Catch::StartsWith("a        0  4711  running"));
    CHECK_THAT(lines[4], Catch::StartsWith("b        2  4713  running"));
    CHECK_THAT(lines[5], Catch::StartsWith("b        3  4714  running"));
    CHECK_THAT(lines[6], Catch::StartsWith("       all ") && Catch::EndsWith(" 192 MiB"));
    CHECK_THAT(lines[7], Catch::StartsWith("Host c is not shown: its answer cannot be read"));
    CHECK(lines[8] == "Host d is not shown: ssh: no route");

    const auto document = nlohmann::json::parse(hosts_as_json(answers));
    CHECK(document["hosts"][0]["host"] == "b");
    CHECK(document["hosts"][0]["problem"].is_null());
    CHECK(document["hosts"][0]["job"]["ranks"][1]["rank"] == 3);
    CHECK(document["hosts"][2]["job"].is_null());
    CHECK(document["hosts"][3]["problem"] == "ssh: no route");
}

TEST_CASE("a host that does not answer keeps its rows, and says how old they are") {
    constexpr std::int64_t kSecond = 1'000'000'000;
    constexpr std::int64_t kInterval = 2 * kSecond;
    HostPicture late{"b", view_of({row(1)}), 0, false, ""};
    const HostPicture newest{"a", view_of({row(0)}), 11 * kSecond, false, ""};
    const HostPicture silent{"c", std::nullopt, 4 * kSecond, false, ""};
    const HostPicture ended{"d", view_of({row(3)}), 0, true, "job j4 has ended"};
    const HostPicture refused{"e", std::nullopt, 0, true, ""};
    const std::vector<HostPicture> pictures = {late, newest, silent, ended, refused};
    const auto lines = render(screen_of(merge_pictures(pictures, 12 * kSecond, kInterval)), {}, false);
    REQUIRE(lines.size() == 10);
    CHECK_THAT(lines[0], Catch::StartsWith("j1034 on b, j1034 on a  running  ./trainer  "));
    CHECK_THAT(lines[3], Catch::StartsWith("a               0  4711  running"));
    CHECK_THAT(lines[4], Catch::StartsWith("b (12s old)     1  4712  running"));
    CHECK(lines[6] == "Host b does not answer: its rows are 12s old");
    CHECK(lines[7] == "Host c has not answered yet, after 8s");
    CHECK(lines[8] == "Host d is not shown any more: job j4 has ended");
    CHECK(lines[9] == "Host e is not shown: its rueda has ended");

    late.arrived_ns = 6 * kSecond;  // three intervals: not late yet
    late.problem = "its answer cannot be read";
    const TopView view = merge_pictures(std::span(&late, 1), 12 * kSecond, kInterval);
    CHECK(view.rows.at(0).host == "b");
    CHECK(view.problems == std::vector<std::string>{"Host b: its answer cannot be read"});
}

TEST_CASE("the lines of another host have a limit") {
    std::vector<std::string> lines;
    const auto note = [&lines](std::string_view line) { lines.emplace_back(line); };
    BoundedLines cutter(8);
    CHECK(cutter.feed("one\r\ntw", note));
    CHECK(cutter.feed("o\n\n12345678\nx", note));
    CHECK(lines == std::vector<std::string>{"one", "two", "", "12345678"});
    CHECK(cutter.feed("1234567", note));
    CHECK_FALSE(cutter.feed("9\nlater\n", note));
    CHECK(lines.size() == 4);
}

}  // namespace
}  // namespace rueda::launcher
