// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.hpp"
#include "base/timeline/timeline_part.hpp"
#include "base/unique_fd.hpp"

namespace rueda::base {

/// Reads the file of a timeline in pieces, so that a large file takes little memory. Threads: one.
class PartReader {
public:
    /// Opens the file and reads its header. `piece_bytes`: about how many bytes of the file are in memory at a time.
    [[nodiscard]] static Result<PartReader> open(const std::string& path,
                                                 std::size_t piece_bytes = std::size_t{1} << 18U);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const TimelineHeader& header() const { return header_; }
    /// Returns the next piece of the file. A piece contains only whole events. Returns nothing after the last piece.
    /// Fails with InvalidArgument if the file is damaged.
    [[nodiscard]] Result<std::optional<TimelinePart>> next();
    /// Whether this object has read the event with which the writer ends the file.
    [[nodiscard]] bool has_end() const { return has_end_; }
    /// Whether the file is complete: whether its last event is the one with which the writer ends the file. This
    /// function looks at the end of the file, even if next() has not come so far.
    [[nodiscard]] bool ends_with_end() const;

private:
    PartReader(std::string path, UniqueFd file, std::size_t piece_bytes)
        : path_(std::move(path)), file_(std::move(file)), piece_bytes_(piece_bytes) {}
    Status read_header();
    /// Reads more of the file, and appends it to `text_`. Sets `is_over_` at the end of the file.
    Status read_more();

    std::string path_;
    UniqueFd file_;
    std::size_t piece_bytes_;
    TimelineHeader header_;
    std::string header_line_;  ///< the file's first line; parse_timeline() needs it before the events of each piece
    std::string text_;         ///< text that was read from the file, but that next() has not returned yet
    bool is_over_ = false;
    bool has_end_ = false;
};

/// Whether the file at this path is a complete part of this job's timeline. Reads only the beginning and the end of the
/// file.
[[nodiscard]] bool is_complete_part(const std::string& path, const TimelineHeader& job, std::int32_t host_index);

}  // namespace rueda::base
