// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/analyze/read_recordings.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

namespace fs = std::filesystem;

/// The largest difference between the times when the ranks of one job began. All ranks begin within the start timeout,
/// which is a minute by default. This limit is longer, because the clocks of the hosts may differ.
constexpr std::int64_t kMostApartNs = 600'000'000'000;

Result<base::Recording> read_one(const fs::path& path, std::int32_t rank) {
    const auto refuse = [&](std::string_view what) {
        return failure(ErrorCode::invalid_argument, "reading {}: {}", base::quote(path.string(), 300), what);
    };
    const std::optional<std::string> text = base::read_small_file(path.string());
    if (!text) {
        return refuse("the file cannot be read, or has more than 4 MiB");
    }
    Result<base::Recording> recording = base::parse_recording(*text);
    if (!recording.is_ok()) {
        return refuse(recording.status().message());
    }
    if (recording.value().rank != rank) {
        return refuse(fmt::format("it is of rank {}", recording.value().rank));
    }
    return recording;
}

using RankFiles = std::vector<std::pair<std::int32_t, fs::path>>;

/// Reads all files with several threads, because for hundreds of ranks nearly all of the time is spent in parsing. If
/// some files cannot be read, returns the error for the lowest rank whose file cannot be read.
Status read_all(const RankFiles& files, std::vector<base::Recording>& recordings) {
    std::vector<Status> results(files.size());
    // The index of the next file. The order relaxed is enough: a thread uses only the elements whose indices it took.
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < files.size();
             i = next.fetch_add(1, std::memory_order_relaxed)) {
            try {
                Result<base::Recording> recording = read_one(files[i].second, files[i].first);
                results[i] = recording.status();
                if (recording.is_ok()) {
                    recordings[i] = std::move(recording).value();
                }
            } catch (const std::bad_alloc&) {  // must not leave the thread
                results[i] = Status(ErrorCode::resource_exhausted, "reading the files: there is not enough memory");
            }
        }
    };
    {
        const std::size_t threads = std::min<std::size_t>(std::thread::hardware_concurrency(), files.size());
        std::vector<std::jthread> others;  // the threads are joined at the end of this block
        for (std::size_t thread = 1; thread < threads; ++thread) {
            try {
                others.emplace_back(work);
            } catch (const std::system_error&) {
                break;  // the system refuses another thread, because the limit of processes is reached; the threads
                        // that exist can read all files
            }
        }
        work();
    }
    const auto failed =
        std::find_if(results.begin(), results.end(), [](const Status& result) { return !result.is_ok(); });
    return failed != results.end() ? *failed : Status();
}

}  // namespace

Result<std::vector<base::Recording>> read_recordings(const std::string& folder) {
    RankFiles files;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        if (const auto rank = base::rank_of_recording_file(entry->path().filename().string())) {
            files.emplace_back(*rank, entry->path());
        }
    }
    if (error) {
        return failure(ErrorCode::invalid_argument, "reading the folder {}: {}", base::quote(folder, 300),
                       error.message());
    }
    if (files.empty()) {
        return failure(ErrorCode::invalid_argument,
                       "the folder {} has no files of the flight recorder ({}, …): a job writes them to "
                       "RUEDA_DIAGNOSTICS_DIR when it is aborted or stands still",
                       base::quote(folder, 300), base::recording_file_name(0));
    }
    std::sort(files.begin(), files.end());
    std::vector<base::Recording> recordings(files.size());
    RUEDA_RETURN_IF_FAILED(read_all(files, recordings));
    RUEDA_RETURN_IF_FAILED(check_same_job(recordings));
    return recordings;
}

Status check_same_job(const std::vector<base::Recording>& recordings) {
    const base::Recording& first = recordings.front();
    const auto began = [](const base::Recording& one) { return one.began_ns + one.realtime_offset_ns; };
    for (const base::Recording& other : recordings) {
        if (&other != &first && other.rank == first.rank) {
            return failure(ErrorCode::invalid_argument, "two files are of rank {}", first.rank);
        }
        if (other.size != first.size) {
            return failure(ErrorCode::invalid_argument,
                           "the files are of different jobs: rank {} is of {} ranks, and rank {} of {}; remove the "
                           "older files",
                           first.rank, first.size, other.rank, other.size);
        }
        if (began(other) - began(first) > kMostApartNs || began(first) - began(other) > kMostApartNs) {
            return failure(ErrorCode::invalid_argument,
                           "the files are of different jobs: ranks {} and {} began more than ten minutes apart; remove "
                           "the older files",
                           first.rank, other.rank);
        }
    }
    return {};
}

}  // namespace rueda::launcher
