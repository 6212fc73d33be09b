// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/interval.hpp"

#include <algorithm>
#include <utility>

#include "base/system/clock.hpp"

namespace rueda::launcher {

namespace {

/// A short interval has about this many looks (samples of the ranks' activities). A look at one rank takes about 35 us
/// of processor time.
constexpr std::int64_t kLooks = 20;
constexpr std::int64_t kLongestLookNs = 100'000'000;

constexpr std::chrono::milliseconds kFirstInterval{500};

/// Returns whether there is a rank whose process is not known. Such a rank has ended, or it was not yet in the job when
/// the job was found.
bool has_late_ranks(const TopView& view) {
    const std::vector<RankSample>& ranks = view.job.ranks;
    return std::any_of(ranks.begin(), ranks.end(), [](const RankSample& rank) { return !rank.process; });
}

}  // namespace

Interval::Interval(const Job& job, Gpus& gpus, std::chrono::nanoseconds length)
    : Interval(job, gpus, length, take_top_sample(job)) {}

Interval::Interval(const Job& job, Gpus& gpus, std::chrono::nanoseconds length, TopSample last)
    : job_(job),
      gpus_(gpus),
      end_ns_(base::monotonic_ns() + length.count()),
      look_ns_(std::min<std::int64_t>(length.count() / kLooks, kLongestLookNs)),
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

std::optional<TopView> JobWatch::next(const Wait& wait) {
    Interval interval = last_ ? Interval(job_, gpus_, interval_, *std::move(last_))
                              : Interval(job_, gpus_, std::min<std::chrono::nanoseconds>(kFirstInterval, interval_));
    last_.reset();
    while (!interval.is_over()) {
        if (!wait(interval.until_next_look())) {
            return std::nullopt;
        }
        interval.look_if_due();
    }
    TopView view = interval.finish();
    last_ = interval.end();
    if (view.job.has_processes() && has_late_ranks(view)) {
        find_holders_again(job_);
    }
    return view;
}

}  // namespace rueda::launcher
