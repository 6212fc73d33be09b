// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/show/live_screen.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "launcher/top/interval.hpp"
#include "launcher/top/show/screen_session.hpp"

namespace rueda::launcher {

namespace {

/// The screen of `rueda top` for a job on this host. Threads: one.
class LiveScreen {
public:
    LiveScreen(Job& job, std::chrono::nanoseconds interval) : job_(job), watch_(job, interval) {}

    int run() {
        if (const Status status = session_.open(); !status.is_ok()) {
            fmt::print(stderr, "rueda: {}\n", status.message());
            return 1;
        }
        const bool has_ended = show_intervals();
        session_.leave();
        if (has_ended) {
            fmt::print("Job {} has ended.\n", job_.id);
        }
        return session_.exit_status();
    }

private:
    /// Returns whether the job has ended.
    bool show_intervals() {
        const JobWatch::Wait wait = [this](std::chrono::nanoseconds time) { return wait_for(time); };
        while (std::optional<TopView> view = watch_.next(wait)) {
            view_ = *std::move(view);
            if (!view_->job.has_processes()) {
                return true;
            }
            session_.draw();
        }
        return false;
    }

    /// Waits until a key is pressed, a signal arrives, or the time is over. Returns false if the program should end.
    bool wait_for(std::chrono::nanoseconds time) {
        if (session_.goes_on()) {
            base::PollSet set;
            session_.add_to(set);
            set.wake_at(std::chrono::steady_clock::now() + time);
            set.wait_and_dispatch();
        }
        return session_.goes_on();
    }

    Job& job_;
    JobWatch watch_;
    std::optional<TopView> view_;
    ScreenSession session_{
        [this](std::size_t columns) { return view_ ? std::optional(screen_of(*view_, columns)) : std::nullopt; }};
};

}  // namespace

int show_live(Job& job, std::chrono::nanoseconds interval) { return LiveScreen(job, interval).run(); }

}  // namespace rueda::launcher
