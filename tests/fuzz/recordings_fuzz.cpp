// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the reader of the flight recorder's files, and `rueda analyze`. The input is the text of up to four files,
// separated by zero bytes. Writing and reading an accepted file again must not change it. The analysis may name only
// ranks of the job.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/recorder/recording_file.hpp"
#include "launcher/analyze/analyze.hpp"
#include "launcher/analyze/read_recordings.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using fuzz::expect;

constexpr std::size_t kMostFiles = 4;

std::vector<base::Recording> recordings_of(std::string_view text) {
    std::vector<base::Recording> recordings;
    while (!text.empty() && recordings.size() < kMostFiles) {
        const std::string_view file = text.substr(0, text.find('\0'));
        text.remove_prefix(std::min(file.size() + 1, text.size()));
        Result<base::Recording> recording = base::parse_recording(file);
        if (!recording.is_ok()) {
            expect(recording.status().code() == ErrorCode::invalid_argument && !recording.status().message().empty());
            continue;
        }
        const Result<base::Recording> again = base::parse_recording(base::format_recording(recording.value()));
        expect(again.is_ok() && again.value() == recording.value());
        recordings.push_back(std::move(recording).value());
    }
    std::sort(recordings.begin(), recordings.end(),
              [](const base::Recording& left, const base::Recording& right) { return left.rank < right.rank; });
    return recordings;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::vector<base::Recording> recordings = recordings_of({reinterpret_cast<const char*>(data), size});
    // A report about a million ranks would exceed the fuzzer's time limit.
    constexpr std::int32_t kMostRanks = 1000;
    if (recordings.empty() || recordings.front().size > kMostRanks || !launcher::check_same_job(recordings).is_ok()) {
        return 0;
    }
    const launcher::Analysis analysis = launcher::analyze(recordings);
    const auto is_rank = [&](std::int32_t rank) { return rank >= 0 && rank < recordings.front().size; };
    for (const launcher::PendingOperation& pending : analysis.pending) {
        expect(std::all_of(pending.missing.begin(), pending.missing.end(), is_rank));
        expect(std::all_of(pending.unknown.begin(), pending.unknown.end(), is_rank));
    }
    expect(analysis.ranks.size() == recordings.size());
    for (const launcher::Lateness& late : analysis.lateness) {
        expect(is_rank(late.rank) && late.last <= late.compared && late.awaited_ns >= 0);
    }
    expect(!launcher::format_analysis(analysis).empty() && !launcher::format_analysis_json(analysis).empty());
    return 0;
}
