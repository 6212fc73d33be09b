// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/timeline/host_timeline.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <utility>

#include "base/recorder/recorder_writer.hpp"
#include "base/system/thread_signals.hpp"
#include "base/text.hpp"
#include "core/timeline/whole_timeline.hpp"

namespace rueda::core {

namespace {

/// How long the end of a timeline waits for the file system.
constexpr std::chrono::seconds kPatience{2};

/// The lowest rank of the first host merges the timeline into one file. Its shutdown() waits for the merge at most this
/// long. The other ranks do not wait.
constexpr std::chrono::seconds kPatienceForMerge{10};

/// A program may start and stop any number of timelines. At most this many of them are merged at the end.
constexpr std::size_t kMostMerged = 256;

/// Gives the calling thread a lower priority than the ranks' threads. If it took a core from one rank, all ranks would
/// wait for that rank. The calling thread needs a twentieth of a core. At nice 5, it gets a quarter of a core that it
/// shares with one busy thread, and a tenth of a core that it shares with three. At the lowest priority it would get 1
/// %, so records would be lost on a busy machine. On Linux, setpriority() changes the priority of the calling thread
/// only. If setpriority() fails, the thread only slows the ranks down more, so the failure is ignored.
void yield_to_ranks() { static_cast<void>(::setpriority(PRIO_PROCESS, 0, 5)); }

}  // namespace

Status HostTimeline::start(const std::string& path, bool marks_cycles, TimelineRecording::From from) {
    if (path.empty()) {
        return {ErrorCode::invalid_argument, "starting a timeline: the path is empty; expected the path of a file"};
    }
    if (arena_->recorder(0) == nullptr) {
        return {ErrorCode::unsupported, "starting a timeline: this job has no flight recorder"};
    }
    const std::lock_guard lock(mutex_);
    if (has_ended_) {
        return {ErrorCode::not_initialized, "starting a timeline: rueda::shutdown() has been called on this rank"};
    }
    if (is_on() && path == path_) {
        return {};
    }
    stop_recording();
    if (arena_->rank() == 0) {
        base::TimelineHeader header = header_;
        header.marks_cycles = marks_cycles;
        auto recording = std::make_shared<TimelineRecording>(arena_, std::move(header));
        RUEDA_RETURN_IF_FAILED(recording->begin(part_path(path, header_.host_index), from));
        const base::ProgramSignalsBlocked blocked;
        try {
            thread_ = std::thread([recording] {
                pthread_setname_np(pthread_self(), "rueda-timeline");
                yield_to_ranks();
                recording->run();
            });
        } catch (const std::exception& error) {
            return failure(ErrorCode::resource_exhausted, "starting a timeline: no thread could be started: {}",
                           error.what());
        }
        recording_ = std::move(recording);
    }
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(path, error);
    path_ = path;
    absolute_path_ = error ? path : absolute.string();
    set_on(true);
    return {};
}

void HostTimeline::stop() noexcept { stop(/*for_good=*/false); }

bool HostTimeline::end() noexcept {
    stop(/*for_good=*/true);
    const std::lock_guard lock(mutex_);
    return std::all_of(left_behind_.begin(), left_behind_.end(),
                       [](const std::weak_ptr<TimelineRecording>& recording) { return recording.expired(); });
}

void HostTimeline::stop(bool for_good) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        has_ended_ = has_ended_ || for_good;
        stop_recording();
    } catch (const std::exception& error) {
        logger_.warning("the timeline could not be ended: {}", error.what());
    }
}

/// Notes whether the timeline is on, also in a flag of the recorder. While this flag is set, the thread that drives
/// progress records the parts of executions. If the timeline was off and stays off, the recorder is not touched,
/// because its memory may be gone.
void HostTimeline::set_on(bool is_on) {
    if (is_on_.exchange(is_on, std::memory_order_relaxed) != is_on) {
        base::RecorderWriter(arena_->recorder(arena_->rank())).set_notes_parts(is_on);
    }
}

void HostTimeline::stop_recording() {
    set_on(false);
    const std::shared_ptr<TimelineRecording> recording = std::exchange(recording_, nullptr);
    if (recording == nullptr) {
        return;
    }
    recording->stop();
    if (!recording->wait_until_done(kPatience)) {
        thread_.detach();
        left_behind_.push_back(recording);
        logger_.warning("the timeline {} is not complete, because writing it takes longer than {} s",
                        base::quote(path_, 300), kPatience.count());
        return;
    }
    thread_.join();
    note_written();
    if (!recording->result().is_ok()) {
        logger_.warning("the timeline is not complete: {}", recording->result().message());
    } else if (recording->end().lost != 0) {
        logger_.warning(
            "the timeline {} lacks {} operations, because the ranks were faster than they could be written; events "
            "RECORDS_LOST mark the places",
            base::quote(path_, 300), recording->end().lost);
    }
}

void HostTimeline::note_written() {
    const bool is_known = std::find(written_.begin(), written_.end(), absolute_path_) != written_.end();
    if (header_.host_count > 1 && header_.host_index == 0 && !is_known && written_.size() < kMostMerged) {
        written_.push_back(absolute_path_);
    }
}

void HostTimeline::merge_hosts(bool was_aborted) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        if (written_.empty()) {
            return;
        }
        if (was_aborted) {
            say_unmerged(written_, "the job was aborted");
        } else {
            merge_written();
        }
        written_.clear();
    } catch (const std::exception& error) {
        logger_.warning("the parts of the timeline could not be merged: {}", error.what());
    }
}

void HostTimeline::merge_written() {
    const auto whole = std::make_shared<WholeTimelines>(header_, written_);
    std::thread thread;
    {
        const base::ProgramSignalsBlocked blocked;
        thread = std::thread([whole] {
            pthread_setname_np(pthread_self(), "rueda-merge");
            whole->run();
        });
    }
    if (whole->wait(kPatienceForMerge)) {
        thread.join();
    } else {
        // The merging thread still waits for the file system. It may outlive this object, because it shares the
        // ownership of everything that it uses.
        thread.detach();
    }
    if (const std::vector<std::string> left = whole->left(); !left.empty()) {
        say_unmerged(left, whole->reason());
    }
}

void HostTimeline::say_unmerged(const std::vector<std::string>& paths, const std::string& reason) {
    logger_.warning("the timeline {}{} stays in {} parts, one for each host, because {}; this command merges them: {}",
                    base::quote(paths.front(), 300),
                    paths.size() == 1 ? "" : fmt::format(" (and {} more)", paths.size() - 1), header_.host_count,
                    reason, merge_command(paths.front(), header_.host_count));
}

}  // namespace rueda::core
