// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/live_screen.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "base/system/clock.hpp"
#include "launcher/processes/signal_inbox.hpp"
#include "launcher/top/screen.hpp"
#include "launcher/top/terminal.hpp"

namespace rueda::launcher {

namespace {

constexpr int kExitOfSignal = 128;

/// A short interval has about so many looks. A look at a rank takes some 35 us of processor time.
constexpr std::int64_t kLooks = 20;
constexpr std::int64_t kLongestLookNs = 100'000'000;

/// The first picture comes early.
constexpr std::chrono::milliseconds kFirstInterval{500};

/// The screen of `rueda top`, and what the user does. Threads: one.
class LiveScreen {
public:
    LiveScreen(Job& job, std::chrono::nanoseconds interval)
        : job_(job), interval_(interval), terminal_(STDIN_FILENO, STDOUT_FILENO) {}

    int run() {
        Status status = signals_.open({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP});
        if (status.is_ok()) {
            status = terminal_.enter();
        }
        if (!status.is_ok()) {
            terminal_.leave();
            fmt::print(stderr, "rueda: {}\n", status.message());
            return 1;
        }
        show_intervals();
        terminal_.leave();
        if (has_job_ended_) {
            fmt::print("Job {} has ended.\n", job_.id);
        }
        return exit_status_;
    }

private:
    void show_intervals() {
        Interval first(job_, gpus_, std::min<std::chrono::nanoseconds>(kFirstInterval, interval_));
        std::optional<TopSample> last = watch(first);
        while (last) {
            Interval next(job_, gpus_, interval_, std::move(*last));
            last = watch(next);
        }
    }

    /// Shows the interval when it is over. Returns the sample at its end, or nothing if the program shall end.
    std::optional<TopSample> watch(Interval& interval) {
        while (!interval.is_over()) {
            if (!wait(interval.until_next_look())) {
                return std::nullopt;
            }
            interval.look_if_due();
        }
        view_ = interval.finish();
        has_job_ended_ = !view_->job.has_processes();
        if (has_job_ended_ || !draw()) {
            return std::nullopt;
        }
        find_late_ranks();
        return interval.end();
    }

    /// A rank whose process is not known has ended, or it had not joined the job when the job was found.
    void find_late_ranks() {
        const std::vector<RankSample>& ranks = view_->job.ranks;
        if (std::any_of(ranks.begin(), ranks.end(), [](const RankSample& rank) { return !rank.process; })) {
            find_holders_again(job_);
        }
    }

    [[nodiscard]] bool draw() const {
        return !view_ || terminal_.show(render(screen_of(*view_), terminal_.size(), /*with_colours=*/true));
    }

    /// Waits for a key, a signal or the end of the time; the kernel wakes it. Returns false if the program shall end.
    bool wait(std::chrono::nanoseconds time) {
        std::array<pollfd, 2> sources = {pollfd{signals_.fd(), POLLIN, 0},
                                         pollfd{terminal_.has_keys() ? terminal_.input() : -1, POLLIN, 0}};
        const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(time).count();
        if (::poll(sources.data(), sources.size(), static_cast<int>(milliseconds)) <= 0) {
            return true;
        }
        bool goes_on = true;
        while (const std::optional<signalfd_siginfo> signal = signals_.take()) {
            goes_on = handle(static_cast<int>(signal->ssi_signo)) && goes_on;
        }
        if (goes_on && sources[1].revents != 0) {
            const std::optional<std::string> keys = terminal_.read_keys();
            goes_on = keys && keys->find_first_of("qQ") == std::string::npos;
        }
        return goes_on;
    }

    bool handle(int signal_number) {
        switch (signal_number) {
            case SIGWINCH:
                return draw();
            case SIGTSTP:
                return stop_and_resume();
            case SIGINT:  // Ctrl-C is a usual way to end a program like this, and no failure
                return false;
            default:
                exit_status_ = kExitOfSignal + signal_number;
                return false;
        }
    }

    /// Ctrl-Z: the shell gets its screen, until it resumes this program.
    bool stop_and_resume() {
        terminal_.leave();
        ::raise(SIGSTOP);
        return terminal_.enter().is_ok() && draw();
    }

    Job& job_;
    Gpus gpus_;
    std::chrono::nanoseconds interval_;
    Terminal terminal_;
    SignalInbox signals_;
    std::optional<TopView> view_;
    bool has_job_ended_ = false;
    int exit_status_ = 0;
};

}  // namespace

Interval::Interval(const Job& job, Gpus& gpus, std::chrono::nanoseconds length)
    : Interval(job, gpus, length, take_top_sample(job)) {}

Interval::Interval(const Job& job, Gpus& gpus, std::chrono::nanoseconds length, TopSample last)
    : job_(job),
      gpus_(gpus),
      end_ns_(base::monotonic_ns() + length.count()),
      look_ns_(std::min(length.count() / kLooks, kLongestLookNs)),
      next_look_ns_(base::monotonic_ns() + look_ns_),
      begin_(std::move(last)) {}

bool Interval::is_over() const { return base::monotonic_ns() >= end_ns_; }

std::chrono::nanoseconds Interval::until_next_look() const {
    const std::int64_t ns = std::min(next_look_ns_, end_ns_) - base::monotonic_ns();
    return std::chrono::nanoseconds(std::max<std::int64_t>(ns, 0));
}

void Interval::look_if_due() {
    const std::int64_t now = base::monotonic_ns();
    if (now >= next_look_ns_) {
        look_at_activities(job_, begin_.job.ranks, looks_);
        gpus_.look(now);
        next_look_ns_ = now + look_ns_;
    }
}

TopView Interval::finish() {
    end_ = take_top_sample(job_);
    return compare(begin_, end_, looks_, gpus_.take(end_.job.time_ns));
}

int show_live(Job& job, std::chrono::nanoseconds interval) { return LiveScreen(job, interval).run(); }

}  // namespace rueda::launcher
