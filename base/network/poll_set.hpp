// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace rueda::base {

/// The descriptors and times that one turn of an event loop waits for. Each turn of the loop fills a new object of this
/// class. Threads: only one thread may use an object.
class PollSet {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// Adds a descriptor. `on_ready` is called when one of `events` occurs, or when the other end was closed.
    void add(int fd, short events, std::function<void()> on_ready) {
        descriptors_.push_back({fd, events, 0});
        callbacks_.push_back(std::move(on_ready));
    }

    /// Adds a time. The wait ends at the earliest of all times.
    void wake_at(std::optional<TimePoint> time) {
        if (time && (!wake_ || *time < *wake_)) {
            wake_ = time;
        }
    }

    void wait_and_dispatch() {
        if (::poll(descriptors_.data(), descriptors_.size(), timeout_ms()) <= 0) {
            return;
        }
        for (std::size_t i = 0; i < descriptors_.size(); ++i) {
            if (descriptors_[i].revents != 0) {
                callbacks_[i]();
            }
        }
    }

private:
    [[nodiscard]] int timeout_ms() const {
        if (!wake_) {
            return -1;
        }
        // The timeout is rounded up. Otherwise the next turn could begin too early, and would find nothing to do.
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake_ - std::chrono::steady_clock::now());
        return left.count() < 0 ? 0 : static_cast<int>(left.count());
    }

    std::vector<pollfd> descriptors_;
    std::vector<std::function<void()>> callbacks_;
    std::optional<TimePoint> wake_;
};

}  // namespace rueda::base
