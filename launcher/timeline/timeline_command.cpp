// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/timeline/timeline_command.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/system/atomic_file.hpp"
#include "base/text.hpp"
#include "base/timeline/merge_parts.hpp"
#include "base/timeline/part_reader.hpp"
#include "launcher/analyze/read_recordings.hpp"
#include "launcher/options/command_app.hpp"
#include "launcher/timeline/merge_timeline.hpp"

namespace rueda::launcher {

namespace {

namespace fs = std::filesystem;

/// The maximum number of operations in memory, which take about 300 MiB. Usually an operation stays in memory until the
/// records of all ranks have been read. If there are more operations than this maximum, some leave the memory earlier.
constexpr std::size_t kMostHeldOperations = 1'000'000;

int refuse_files(const std::string& text) {
    fmt::print(stderr, "rueda timeline: {}\n", text);
    return static_cast<int>(TimelineExit::failed);
}

/// The file that the user named. If it is a regular file, it may be one of the parts that are merged. So the file keeps
/// its old content until the merge is complete, and is replaced as a whole after that. Any other file, for example
/// /dev/stdout, must not be replaced, and is written directly. Threads: one.
class OutputFile {
public:
    Status open(const std::string& path) {
        path_ = path;
        std::error_code error;
        const fs::file_status status = fs::status(path, error);
        const bool is_device = path.starts_with("/dev/") || path.starts_with("/proc/");  // perhaps redirected to a file
        if (is_device || (fs::exists(status) && !fs::is_regular_file(status))) {
            direct_.emplace(path, std::ios::binary);
            return {};
        }
        const fs::path target = fs::canonical(path, error);  // fails if the file does not exist yet
        Result<base::AtomicFile> file = base::AtomicFile::create(error ? fs::path(path) : target);
        RUEDA_RETURN_IF_FAILED(file.status());
        atomic_.emplace(std::move(file).value());
        return {};
    }
    Status write(std::string_view text) {
        if (atomic_) {
            return atomic_->write(std::as_bytes(std::span(text)));
        }
        *direct_ << text;
        return direct_->good() ? Status() : cannot_write();
    }
    Status finish() {
        if (atomic_) {
            return atomic_->commit();
        }
        direct_->close();
        return direct_->good() ? Status() : cannot_write();
    }

private:
    [[nodiscard]] Status cannot_write() const {
        return failure(ErrorCode::invalid_argument, "writing {}: the file cannot be written", base::quote(path_, 300));
    }

    std::string path_;
    std::optional<base::AtomicFile> atomic_;
    std::optional<std::ofstream> direct_;
};

/// Makes a timeline of the flight recorder's files in the folder.
Result<base::MergedTotals> make_of_recordings(const std::string& folder, OutputFile& output) {
    const Result<std::vector<base::Recording>> recordings = read_recordings(folder);
    RUEDA_RETURN_IF_FAILED(recordings.status());
    const MergedTimeline timeline = timeline_of(recordings.value());
    RUEDA_RETURN_IF_FAILED(output.write(timeline.text));
    return base::MergedTotals{timeline.ranks, timeline.end};
}

void say_what_is_missing(const std::vector<base::PartReader>& parts) {
    for (const base::PartReader& part : parts) {
        if (!part.has_end()) {
            fmt::print(stderr,
                       "rueda timeline: {} has no end, because its writer was killed; the last operations may be "
                       "missing\n",
                       base::quote(part.path(), 300));
        }
    }
    const base::TimelineHeader& header = parts.front().header();
    const auto hosts = static_cast<std::size_t>(header.host_count);
    if (parts.size() < hosts && !header.is_merged) {
        fmt::print(stderr, "rueda timeline: the parts of {} of {} hosts are missing\n", hosts - parts.size(), hosts);
    }
}

Result<base::MergedTotals> make(const std::vector<std::string>& paths, OutputFile& output) {
    std::error_code error;
    if (paths.size() == 1 && fs::is_directory(paths.front(), error)) {
        return make_of_recordings(paths.front(), output);
    }
    std::vector<base::PartReader> parts;
    for (const std::string& path : paths) {
        Result<base::PartReader> part = base::PartReader::open(path);
        RUEDA_RETURN_IF_FAILED(part.status());
        parts.push_back(std::move(part).value());
    }
    Result<base::MergedTotals> totals =
        base::merge_parts(parts, kMostHeldOperations, [&output](std::string_view text) { return output.write(text); });
    if (totals.is_ok()) {
        say_what_is_missing(parts);
    }
    return totals;
}

Result<base::MergedTotals> make_file(const std::vector<std::string>& paths, const std::string& output) {
    OutputFile file;
    RUEDA_RETURN_IF_FAILED(file.open(output));
    Result<base::MergedTotals> totals = make(paths, file);
    if (totals.is_ok()) {
        RUEDA_RETURN_IF_FAILED(file.finish());
    }
    return totals;
}

}  // namespace

int run_timeline(std::span<const std::string> arguments) {
    CommandApp command(
        {"rueda timeline", "PART… -o FILE",
         "Merges the parts of a timeline, which the hosts of a job wrote (RUEDA_TIMELINE), into one file. A job does "
         "this\n"
         "itself where its first host sees all parts; a job that was killed does not. The hosts' clocks are aligned\n"
         "already. With a folder instead of parts, it makes a timeline of the flight recorder's\n"
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
    const Result<base::MergedTotals> timeline = make_file(paths, output);
    if (!timeline.is_ok()) {
        return refuse_files(timeline.status().message());
    }
    fmt::print("{}: {} operations of {} ranks{}\n", output, timeline.value().end.operations, timeline.value().ranks,
               timeline.value().end.lost == 0
                   ? ""
                   : fmt::format("; {} operations are missing, because they were overwritten before they were read",
                                 timeline.value().end.lost));
    return static_cast<int>(TimelineExit::written);
}

}  // namespace rueda::launcher
