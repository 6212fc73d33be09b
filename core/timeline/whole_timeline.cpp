// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/timeline/whole_timeline.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/system/atomic_file.hpp"
#include "base/text.hpp"
#include "base/timeline/merge_parts.hpp"
#include "base/timeline/part_reader.hpp"

namespace rueda::core {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// How long this host waits for the parts of the other hosts, for all timelines together. All hosts complete their
/// parts at about the same time, but this host may be the first.
constexpr milliseconds kPatienceForParts{2000};
constexpr milliseconds kPauseBetweenLooks{20};
/// When wait() gives up, the thread removes what it has written, if the file system answers, and ends. wait() waits
/// this long for the end of the thread.
constexpr milliseconds kPatienceForRemoval{500};
/// The maximum number of operations in memory, about 20 MiB. An operation ends on all hosts within milliseconds, so
/// usually only few operations are in memory.
constexpr std::size_t kMostHeldInMerge = 65536;

constexpr std::string_view kMergedSuffix = ".merging";

}  // namespace

std::string part_path(const std::string& path, std::int32_t host_index) {
    return host_index == 0 ? path : fmt::format("{}.host{}", path, host_index);
}

std::string merge_command(const std::string& path, std::int32_t host_count) {
    // the command lists only the paths of the first hosts, because nobody would read a line with many paths
    constexpr std::int32_t kNamed = 3;
    std::string command = "rueda timeline";
    for (std::int32_t host = 0; host < std::min(host_count, kNamed); ++host) {
        command += " " + part_path(path, host);
    }
    return base::printable(command, 1000) + (host_count > kNamed ? " …" : "") + " -o merged.json";
}

void WholeTimelines::run() noexcept {
    try {
        const std::vector<std::string> paths = left();
        const steady_clock::time_point deadline = steady_clock::now() + kPatienceForParts;
        for (const std::string& path : paths) {
            Status merged = await_parts(path, deadline);
            if (merged.is_ok()) {
                merged = merge(path);
            }
            const std::lock_guard lock(mutex_);
            if (merged.is_ok()) {
                std::erase(left_, path);
            } else if (reason_.empty()) {
                reason_ = merged.message();
            }
        }
    } catch (const std::exception& error) {
        const std::lock_guard lock(mutex_);
        reason_ = error.what();
    }
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    changed_.notify_all();
}

Status WholeTimelines::await_parts(const std::string& path, steady_clock::time_point deadline) {
    for (std::int32_t host = 0; host < job_.host_count;) {
        if (base::is_complete_part(part_path(path, host), job_, host)) {
            ++host;
            continue;
        }
        if (is_given_up_.load(std::memory_order_relaxed) || steady_clock::now() >= deadline) {
            return failure(ErrorCode::unsupported, "this host does not see a complete {}",
                           base::quote(part_path(path, host), 300));
        }
        // This thread must poll, because other hosts send no message when their parts of the timeline are complete.
        std::this_thread::sleep_for(kPauseBetweenLooks);
    }
    return {};
}

Status WholeTimelines::merge(const std::string& path) {
    std::vector<base::PartReader> parts;
    for (std::int32_t host = 0; host < job_.host_count; ++host) {
        Result<base::PartReader> part = base::PartReader::open(part_path(path, host));
        RUEDA_RETURN_IF_FAILED(part.status());
        parts.push_back(std::move(part).value());
    }
    std::error_code error;
    // If `path` is a symbolic link, the link stays, and the file that it names is replaced.
    const std::filesystem::path target = std::filesystem::canonical(path, error);
    Result<base::AtomicFile> file =
        base::AtomicFile::create(error ? std::filesystem::path(path) : target, kMergedSuffix);
    RUEDA_RETURN_IF_FAILED(file.status());
    const base::WriteMerged write = [this, &file](std::string_view text) {
        return is_given_up_.load(std::memory_order_relaxed) ? failure(ErrorCode::timeout, "there was too little time")
                                                            : file.value().write(std::as_bytes(std::span(text)));
    };
    RUEDA_RETURN_IF_FAILED(base::merge_parts(parts, kMostHeldInMerge, write).status());
    RUEDA_RETURN_IF_FAILED(file.value().commit());
    for (std::int32_t host = 1; host < job_.host_count; ++host) {
        ::unlink(part_path(path, host).c_str());
    }
    return {};
}

bool WholeTimelines::wait_until_done(milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return is_done_; });
}

bool WholeTimelines::wait(milliseconds patience) {
    if (wait_until_done(patience)) {
        return true;
    }
    is_given_up_.store(true, std::memory_order_relaxed);
    return wait_until_done(kPatienceForRemoval);
}

std::vector<std::string> WholeTimelines::left() const {
    const std::lock_guard lock(mutex_);
    return left_;
}

std::string WholeTimelines::reason() const {
    const std::lock_guard lock(mutex_);
    return reason_.empty() ? "it takes too long" : reason_;
}

}  // namespace rueda::core
