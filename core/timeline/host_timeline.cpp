// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/timeline/host_timeline.hpp"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <exception>
#include <utility>

#include "base/system/thread_signals.hpp"
#include "base/text.hpp"

namespace rueda::core {

namespace {

/// How long the end of a timeline waits for the file system.
constexpr std::chrono::seconds kPatience{2};

/// Starts a thread that handles no signals: they belong to the program's threads.
std::thread start_thread(const std::shared_ptr<TimelineRecording>& recording) {
    const sigset_t blocked = base::signals_of_the_program();
    sigset_t saved;
    pthread_sigmask(SIG_SETMASK, &blocked, &saved);
    try {
        std::thread thread([recording] {
            pthread_setname_np(pthread_self(), "rueda-timeline");
            recording->run();
        });
        pthread_sigmask(SIG_SETMASK, &saved, nullptr);
        return thread;
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &saved, nullptr);
        throw;
    }
}

}  // namespace

Status HostTimeline::start(const std::string& path, bool marks_cycles, TimelineRecording::From from) {
    if (path.empty()) {
        return {ErrorCode::invalid_argument, "starting a timeline: the path is empty; expected the path of a file"};
    }
    if (arena_->recorder(0) == nullptr) {
        return {ErrorCode::unsupported, "starting a timeline: this job has no flight recorder"};
    }
    const std::lock_guard lock(mutex_);
    if (is_on() && path == path_) {
        return {};
    }
    stop_recording();
    if (arena_->rank() == 0) {
        base::TimelineHeader header = header_;
        header.marks_cycles = marks_cycles;
        auto recording = std::make_shared<TimelineRecording>(arena_, std::move(header));
        const std::string suffix = header_.host_index == 0 ? "" : fmt::format(".host{}", header_.host_index);
        RUEDA_RETURN_IF_FAILED(recording->begin(path + suffix, from));
        thread_ = start_thread(recording);
        recording_ = std::move(recording);
    }
    path_ = path;
    is_on_.store(true, std::memory_order_relaxed);
    return {};
}

void HostTimeline::stop() noexcept {
    try {
        const std::lock_guard lock(mutex_);
        stop_recording();
    } catch (const std::exception& error) {
        logger_.warning("the timeline could not be ended: {}", error.what());
    }
}

void HostTimeline::stop_recording() {
    is_on_.store(false, std::memory_order_relaxed);
    const std::shared_ptr<TimelineRecording> recording = std::exchange(recording_, nullptr);
    if (recording == nullptr) {
        return;
    }
    recording->stop();
    if (!recording->wait_until_done(kPatience)) {
        thread_.detach();
        logger_.warning("the timeline {} is not complete, because writing it takes longer than {} s",
                        base::quote(path_, 300), kPatience.count());
        return;
    }
    thread_.join();
    if (!recording->result().is_ok()) {
        logger_.warning("the timeline is not complete: {}", recording->result().message());
    } else if (recording->end().lost != 0) {
        logger_.warning(
            "the timeline {} lacks {} operations, because the ranks were faster than they could be written; events "
            "RECORDS_LOST mark the places",
            base::quote(path_, 300), recording->end().lost);
    }
}

}  // namespace rueda::core
