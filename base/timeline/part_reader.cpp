// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/timeline/part_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace rueda::base {

namespace {

/// The longest line of a timeline, in bytes. A line has one event, whose name takes at most some KiB. A file that has a
/// longer line is not a timeline.
constexpr std::size_t kLongestEvent = std::size_t{1} << 20U;
constexpr std::size_t kShownPath = 300;
/// The last event of a file and the closing bracket lie within this many bytes at the end of the file.
constexpr std::size_t kEndBytes = 4096;

std::string reading(const std::string& path) { return "reading " + quote(path, kShownPath); }

}  // namespace

Result<PartReader> PartReader::open(const std::string& path, std::size_t piece_bytes) {
    // O_NONBLOCK is needed in case the path is a pipe: without this flag, open() would wait until another process opens
    // the pipe for writing.
    UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!file.is_open()) {
        return system_failure(ErrorCode::invalid_argument, reading(path) + ": open");
    }
    struct stat facts {};
    if (fstat(file.value(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
        return failure(ErrorCode::invalid_argument, "{}: expected a regular file", reading(path));
    }
    PartReader reader(path, std::move(file), piece_bytes);
    RUEDA_RETURN_IF_FAILED(reader.read_header());
    return reader;
}

Status PartReader::read_more() {
    const std::size_t before = text_.size();
    text_.resize(before + piece_bytes_);
    ssize_t got = 0;
    do {
        got = ::read(file_.value(), text_.data() + before, piece_bytes_);
    } while (got < 0 && errno == EINTR);
    text_.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got < 0) {
        return system_failure(ErrorCode::invalid_argument, reading(path_) + ": read");
    }
    is_over_ = got == 0;
    return {};
}

Status PartReader::read_header() {
    constexpr std::string_view kBegin = "[\n";
    std::size_t end = std::string::npos;
    while (end == std::string::npos && !is_over_ && text_.size() <= kLongestEvent) {
        RUEDA_RETURN_IF_FAILED(read_more());
        end = text_.size() > kBegin.size() ? text_.find('\n', kBegin.size()) : std::string::npos;
    }
    const Result<TimelinePart> part = parse_timeline(std::string_view(text_).substr(0, end));
    if (!part.is_ok()) {
        return failure(ErrorCode::invalid_argument, "{}: {}", reading(path_), part.status().message());
    }
    header_ = part.value().header;
    header_line_ = format_header(header_);
    text_.erase(0, end == std::string::npos ? end : end + 1);
    return {};
}

Result<std::optional<TimelinePart>> PartReader::next() {
    std::size_t end = std::string::npos;  // the end of the last whole line
    while (!is_over_ && (end = text_.rfind('\n')) == std::string::npos) {
        if (text_.size() > kLongestEvent) {
            return failure(ErrorCode::invalid_argument, "{}: an event has more than {} bytes", reading(path_),
                           kLongestEvent);
        }
        RUEDA_RETURN_IF_FAILED(read_more());
    }
    if (end == std::string::npos && text_.empty()) {
        return std::optional<TimelinePart>();
    }
    const std::size_t length = end == std::string::npos ? text_.size() : end + 1;
    Result<TimelinePart> part = parse_timeline(header_line_ + text_.substr(0, length));
    if (!part.is_ok()) {
        return failure(ErrorCode::invalid_argument, "{}: {}", reading(path_), part.status().message());
    }
    text_.erase(0, length);
    has_end_ = has_end_ || part.value().has_end;
    return std::optional(std::move(part).value());
}

bool PartReader::ends_with_end() const {
    struct stat facts {};
    if (fstat(file_.value(), &facts) != 0) {
        return false;
    }
    std::array<char, kEndBytes> bytes{};
    const off_t place = std::max<off_t>(facts.st_size - static_cast<off_t>(bytes.size()), 0);
    const ssize_t got = ::pread(file_.value(), bytes.data(), bytes.size(), place);
    const std::string_view text(bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    // The last event must be the one that marks the end. TimelineRecording writes this event and the closing bracket in
    // one write.
    const std::string end = format_end({});
    const std::string_view begin_of_end = std::string_view(end).substr(0, end.find(':', end.find("args")));
    return text.ends_with("\n]\n") && text.rfind(begin_of_end) != std::string_view::npos;
}

bool is_complete_part(const std::string& path, const TimelineHeader& job, std::int32_t host_index) {
    const Result<PartReader> reader = PartReader::open(path, kEndBytes);
    return reader.is_ok() && reader.value().header().host_index == host_index &&
           are_of_one_job(reader.value().header(), job) && reader.value().ends_with_end();
}

}  // namespace rueda::base
