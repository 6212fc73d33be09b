// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

#include "tests/support/ranks/board.hpp"
#include "tests/support/ranks/thread_control_plane.hpp"

namespace rueda::tests::detail {
namespace {

/// Keeps the control planes of all ranks. The planes that the ranks open first share one hub, the planes that they open
/// second share another hub, and so on.
class ThreadPlanes {
public:
    explicit ThreadPlanes(int size) : ended_(static_cast<std::size_t>(size), false) {}

    std::unique_ptr<collectives::ControlPlane> take(int rank, int number) {
        const std::lock_guard lock(mutex_);
        while (static_cast<int>(hubs_.size()) <= number) {
            hubs_.push_back(collectives::make_thread_control_planes(static_cast<int>(ended_.size())));
            close_planes_of_ended();
        }
        return std::move(hubs_[static_cast<std::size_t>(number)][static_cast<std::size_t>(rank)]);
    }
    /// Called when a rank has ended. Closes the rank's side of the planes that only other ranks have opened, so that
    /// those ranks do not wait for it there.
    void close(int rank) {
        const std::lock_guard lock(mutex_);
        ended_[static_cast<std::size_t>(rank)] = true;
        close_planes_of_ended();
    }

private:
    void close_planes_of_ended() {
        for (auto& hub : hubs_) {
            for (std::size_t rank = 0; rank < ended_.size(); ++rank) {
                if (ended_[rank]) {
                    hub[rank].reset();
                }
            }
        }
    }

    std::vector<bool> ended_;
    std::mutex mutex_;
    std::vector<std::vector<std::unique_ptr<collectives::ControlPlane>>> hubs_;
};

/// Ends the whole test at the deadline, because a single thread cannot be killed.
class Watchdog {
public:
    explicit Watchdog(const Board& board) : thread_([this, &board] { watch(board); }) {}
    ~Watchdog() {
        {
            const std::lock_guard lock(mutex_);
            done_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

private:
    void watch(const Board& board) {
        std::unique_lock lock(mutex_);
        if (!wake_.wait_until(lock, board.deadline(), [this] { return done_; })) {
            std::fputs(fmt::format("watchdog: the ranks did not end in time\n{}", board.describe()).c_str(), stderr);
            std::abort();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    std::thread thread_;
};

void play(const std::function<void(RankContext&)>& body, int rank, Board& board, Ways& ways, RankOutcome& outcome) {
    board.wait_for_start();
    board.enter_phase(rank, "started");
    RankContext context(rank, board, ways);
    try {
        body(context);
        board.enter_phase(rank, "returned");
    } catch (const std::exception& error) {
        outcome.end = RankEnd::threw;
        outcome.text = error.what();
    } catch (...) {
        outcome.end = RankEnd::threw;
        outcome.text = "something that is no std::exception";
    }
    board.set_ended(rank);
}

}  // namespace

std::vector<RankOutcome> run_as_threads(const std::function<void(RankContext&)>& body, const RanksOptions& options,
                                        Board& board) {
    std::vector<RankOutcome> outcomes(static_cast<std::size_t>(board.size()));
    ThreadPlanes planes(board.size());
    Ways ways;
    ways.as = RanksAs::threads;
    ways.report = [&](int rank, const std::string& key, const std::string& value) {
        outcomes[static_cast<std::size_t>(rank)].values[key] = value;
    };
    ways.open_control_plane = [&](int rank, int number) -> Result<std::unique_ptr<collectives::ControlPlane>> {
        return planes.take(rank, number);
    };
    std::exception_ptr thrown;
    {
        const Watchdog watchdog(board);
        std::vector<std::thread> threads;
        for (int rank = 0; rank < board.size(); ++rank) {
            threads.emplace_back([&, rank] {
                play(body, rank, board, ways, outcomes[static_cast<std::size_t>(rank)]);
                planes.close(rank);
            });
        }
        board.start();
        try {
            if (options.meanwhile) {
                RunningRanks running(board, RanksAs::threads);
                options.meanwhile(running);
            }
        } catch (...) {
            thrown = std::current_exception();
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
    if (thrown) {
        std::rethrow_exception(thrown);
    }
    for (int rank = 0; rank < board.size(); ++rank) {
        outcomes[static_cast<std::size_t>(rank)].last_phase = board.phase_of(rank);
    }
    return outcomes;
}

}  // namespace rueda::tests::detail
