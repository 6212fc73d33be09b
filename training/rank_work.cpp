// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/rank_work.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "base/system/process_logger.hpp"
#include "base/system/thread_signals.hpp"
#include "rueda/rueda.hpp"
#include "rueda/training/agreement.hpp"
#include "training/log_warning.hpp"

namespace rueda::training {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// The time after which the watching thread reads the counts of this rank again. Reading them takes tens of
/// microseconds.
constexpr std::chrono::milliseconds kPause{100};

/// What this rank's operations did.
struct Counts {
    std::int64_t ended = 0;  ///< the number of operations that have ended
    double waited = 0.0;     ///< how long these operations waited for other ranks: the sum, in seconds
    double oldest = 0.0;     ///< the wait of the oldest pending operation so far, in seconds
};

/// Throws NotInitialized after the end of the job.
Counts read_counts() {
    const auto json = nlohmann::json::parse(metrics());
    Counts counts;
    counts.oldest = json.at("rueda_oldest_pending_operation_seconds").get<double>();
    for (const auto& [kind, number] : json.at("rueda_operations_total").items()) {
        counts.ended += number.get<std::int64_t>();
    }
    for (const auto& [kind, seconds] : json.at("rueda_operation_waiting_seconds_total").items()) {
        counts.waited += seconds.get<double>();
    }
    return counts;
}

/// Watches in a thread how long this rank's operations wait while rank 0 works alone. The watch ends when the first of
/// these operations ends. Rank 0 has then ended its work, because operations of all ranks need rank 0. The watch sends
/// nothing, so it does not itself add operations that wait. Threads: one thread at a time may use the object.
class WaitWatch {
public:
    WaitWatch() = default;
    WaitWatch(const WaitWatch&) = delete;
    WaitWatch& operator=(const WaitWatch&) = delete;
    ~WaitWatch() { finish(); }

    /// Ends the watch of the previous work, if it still runs. Then begins a watch for the next work.
    void start(const std::string& what, Seconds warn_after) {
        finish();
        owner_ = ::getpid();
        stop_ = std::make_unique<Stop>();
        const base::ProgramSignalsBlocked blocked;
        try {
            thread_ = std::thread([this, what, warn_after, before = read_counts(), began = Clock::now()] {
                watch(what, warn_after, before, began);
            });
        } catch (const std::system_error& error) {
            // Rank 1 must not throw here: the other ranks do not know about this failure, and continue.
            warnings_to_the_log(1)(
                fmt::format("Nobody watches how long rank 1 waits for rank 0's work on '{}', because starting a thread "
                            "failed: {}. Allow this user more threads",
                            what, error.what()));
        }
    }

private:
    /// How finish() wakes the thread.
    struct Stop {
        std::mutex mutex;
        std::condition_variable condition;
        bool is_asked_for = false;  ///< protected by the mutex
    };

    /// Makes the watching thread read the counts once more and end, and waits for its end.
    void finish() {
        if (thread_.joinable() && ::getpid() != owner_) {
            // A forked process has the object, but not the thread. The condition variable counts the thread as waiting,
            // so its destructor would wait forever (pthread_cond_destroy in glibc). The condition variable is therefore
            // never destroyed.
            thread_.detach();
            (void)stop_.release();
        }
        if (thread_.joinable()) {
            {
                const std::lock_guard lock(stop_->mutex);
                stop_->is_asked_for = true;
            }
            stop_->condition.notify_one();  // wakes is_stopped_in_pause()
            thread_.join();
        }
    }

    /// Waits for a while, or until finish() wakes this thread. Returns whether finish() was called.
    [[nodiscard]] bool is_stopped_in_pause() {
        std::unique_lock lock(stop_->mutex);
        return stop_->condition.wait_for(lock, kPause, [this] { return stop_->is_asked_for; });
    }

    void watch(const std::string& what, Seconds warn_after, const Counts& before, Clock::time_point began) {
        double longest = 0.0;
        bool is_stopped = false;
        for (bool has_ended = false; !has_ended;) {
            Counts now;
            try {
                now = read_counts();
            } catch (const std::exception&) {
                break;  // the job has ended, so the counts that were read last are the final ones
            }
            longest = std::max(longest, std::min(now.oldest, Seconds(Clock::now() - began).count()));
            has_ended = now.ended > before.ended;
            if (has_ended) {
                // Operations that waited may have ended before this thread read the counts. So the mean wait of the
                // ended operations counts, too.
                longest =
                    std::max(longest, (now.waited - before.waited) / static_cast<double>(now.ended - before.ended));
            }
            if (is_stopped) {
                break;
            }
            // if finish() was called, the loop reads the counts one last time
            is_stopped = !has_ended && is_stopped_in_pause();
        }
        if (longest >= warn_after.count()) {
            warnings_to_the_log(1)(fmt::format(
                "Rank 1 waited for rank 0 for {:.1f} s, because rank 0 worked on '{}'. Divide the work with "
                "on_all_ranks(), do it less often, or do it in another program",
                longest, what));
        }
    }

    std::unique_ptr<Stop> stop_;  ///< shared with thread_
    pid_t owner_ = 0;             ///< the process that started the thread
    std::thread thread_;
};

}  // namespace

void on_rank_zero(const std::string& what, const std::function<void()>& body, std::chrono::milliseconds warn_after) {
    if (rank() == 0) {
        const auto began = Clock::now();
        {
            const Busy busy(what);
            body();
        }
        base::process_logger(0).info("Rank 0 worked on '{}' for {:.1f} s", what, Seconds(Clock::now() - began).count());
    } else if (rank() == 1) {
        static WaitWatch watch;
        watch.start(what, warn_after);
    }
}

void on_all_ranks(const std::string& what, const std::function<void()>& body) {
    run_on_every_rank([&] {
        const Busy busy(what);
        body();
    });
}

}  // namespace rueda::training
