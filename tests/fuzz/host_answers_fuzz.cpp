// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes what `rueda top` reads from the program `rueda` on another host. The first byte chooses whether the input is
// the whole output of mpirun, or a stream of lines that arrives in pieces. The other host may send anything. The lines
// of the screen must not contain characters that control a terminal. If a view (the content of the screen) was accepted
// and is sent to another host, that host must read the same view.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/top/hosts/ask_hosts.hpp"
#include "launcher/top/hosts/bounded_lines.hpp"
#include "launcher/top/screen.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using namespace rueda::launcher;
using fuzz::expect;

constexpr std::size_t kLongestLine = 4000;

void expect_harmless(std::string_view text) {
    expect(std::none_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < ' ' || byte == 0x7F;
    }));
}

void check_view(const std::string& json) {
    const Result<TopView> view = view_from_json(json);
    if (!view.is_ok()) {
        expect(view.status().code() == ErrorCode::invalid_argument);
        expect_harmless(view.status().message());
        return;
    }
    for (const std::string& line : render(screen_of(view.value(), 80), {80, 24}, /*with_colours=*/false)) {
        expect_harmless(line);
    }
    const Result<TopView> same = view_from_json(view_as_json_line(view.value()));
    expect(same.is_ok() && same.value().rows.size() == view.value().rows.size());
    for (std::size_t i = 0; i < view.value().rows.size(); ++i) {  // times are rounded, so they are not compared
        const RankRow& before = view.value().rows[i];
        const RankRow& after = same.value().rows[i];
        expect(before.rank == after.rank && before.pid == after.pid && before.process == after.process);
        expect(before.scope == after.scope && before.pending == after.pending &&
               before.gpus.size() == after.gpus.size());
    }
}

void check_answer(std::string_view output) {
    const HostAnswer answer = read_host_answer("host", output);
    expect(answer.problem.empty() || answer.json.empty());
    expect_harmless(answer.problem);
    if (answer.problem.empty()) {
        check_view(answer.json);
    }
}

/// Returns the lines that the stream contains up to a line that is too long.
std::vector<std::string> lines_in(std::string_view stream, std::size_t piece) {
    BoundedLines lines(kLongestLine);
    std::vector<std::string> found;
    bool goes_on = true;
    while (goes_on && !stream.empty()) {
        const std::string_view part = stream.substr(0, piece);
        stream.remove_prefix(part.size());
        goes_on = lines.feed(part, [&](std::string_view line) { found.emplace_back(line); });
    }
    return found;
}

void check_stream(std::string_view stream, std::size_t piece) {
    const std::vector<std::string> lines = lines_in(stream, piece);
    expect(lines == lines_in(stream, stream.size()));
    for (const std::string& line : lines) {
        expect(line.size() <= kLongestLine);
        check_view(line);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size > 0) {
        const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
        bytes[0] == 0 ? check_answer(text) : check_stream(text, bytes[0]);
    }
    return 0;
}
