// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/timeline/timeline_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "launcher/analyze/read_recordings.hpp"
#include "launcher/options/command_app.hpp"
#include "launcher/timeline/merge_timeline.hpp"

namespace rueda::launcher {

namespace {

namespace fs = std::filesystem;

int refuse_files(const std::string& text) {
    fmt::print(stderr, "rueda timeline: {}\n", text);
    return static_cast<int>(TimelineExit::failed);
}

Result<base::TimelinePart> read_part(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file.is_open() || file.bad()) {
        return failure(ErrorCode::invalid_argument, "reading {}: the file cannot be read", base::quote(path, 300));
    }
    Result<base::TimelinePart> part = base::parse_timeline(text);
    return part.is_ok() ? std::move(part)
                        : failure(ErrorCode::invalid_argument, "reading {}: {}", base::quote(path, 300),
                                  part.status().message());
}

Result<MergedTimeline> make(const std::vector<std::string>& paths) {
    std::error_code error;
    if (paths.size() == 1 && fs::is_directory(paths.front(), error)) {
        const Result<std::vector<base::Recording>> recordings = read_recordings(paths.front());
        RUEDA_RETURN_IF_FAILED(recordings.status());
        return timeline_of(recordings.value());
    }
    std::vector<base::TimelinePart> parts;
    for (const std::string& path : paths) {
        Result<base::TimelinePart> part = read_part(path);
        RUEDA_RETURN_IF_FAILED(part.status());
        if (!part.value().has_end) {
            fmt::print(stderr,
                       "rueda timeline: {} has no end, because its writer was killed; the last operations may be "
                       "missing\n",
                       base::quote(path, 300));
        }
        parts.push_back(std::move(part).value());
    }
    const auto missing = static_cast<std::size_t>(parts.front().header.host_count) -
                         std::min(parts.size(), static_cast<std::size_t>(parts.front().header.host_count));
    if (missing != 0 && !parts.front().header.is_merged) {
        fmt::print(stderr, "rueda timeline: the parts of {} of {} hosts are missing\n", missing,
                   parts.front().header.host_count);
    }
    return merge_parts(std::move(parts));
}

Status write(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    return file.good()
               ? Status()
               : failure(ErrorCode::invalid_argument, "writing {}: the file cannot be written", base::quote(path, 300));
}

}  // namespace

int run_timeline(std::span<const std::string> arguments) {
    CommandApp command(
        {"rueda timeline", "PART… -o FILE",
         "Merges the parts of a timeline, which the hosts of a job wrote (RUEDA_TIMELINE), into one file. The hosts'\n"
         "clocks are aligned already. With a folder instead of parts, it makes a timeline of the flight recorder's\n"
         "files (RUEDA_DIAGNOSTICS_DIR). Open the file at https://ui.perfetto.dev or in chrome://tracing.",
         "Examples:\n"
         "  rueda timeline timeline.json timeline.json.host1 -o merged.json\n"
         "  rueda timeline diagnostics -o timeline.json\n"
         "\n"
         "Exit status: 0 if the file was written, 2 if a file cannot be read or written, 3 if rueda was called\n"
         "wrongly.\n"});
    std::vector<std::string> paths;
    std::string output;
    command.options()
        .add_option("PART", paths, "The files of all hosts; or the folder with the files recorder-rank0.json and so on")
        ->required();
    command.options().add_option("-o,--output", output, "The file to write")->required();
    if (const std::optional<int> status = command.parse(arguments)) {
        return *status;
    }
    const Result<MergedTimeline> timeline = make(paths);
    if (!timeline.is_ok()) {
        return refuse_files(timeline.status().message());
    }
    if (const Status written = write(output, timeline.value().text); !written.is_ok()) {
        return refuse_files(written.message());
    }
    fmt::print("{}: {} operations of {} ranks{}\n", output, timeline.value().end.operations, timeline.value().ranks,
               timeline.value().end.lost == 0
                   ? ""
                   : fmt::format("; {} operations are missing, because they were overwritten before they were read",
                                 timeline.value().end.lost));
    return static_cast<int>(TimelineExit::written);
}

}  // namespace rueda::launcher
