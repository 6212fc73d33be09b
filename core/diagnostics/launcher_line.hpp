// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/launcher_notification.hpp"
#include "base/settings/environment.hpp"
#include "base/shared_memory/step_page.hpp"
#include "base/unique_fd.hpp"

namespace rueda::core {

/// Where a rank stands when it hears that another one has ended.
enum class Standing : std::uint8_t {
    joining,        ///< in init: it waits for the others
    running,        ///< it has not announced its shutdown
    shutting_down,  ///< it has, and serves the others until all have
    closed,         ///< all have
};

struct HeardWord {
    base::LauncherNotification word;
    std::int64_t heard_ns = 0;  ///< CLOCK_MONOTONIC
};

/// Pure: the end of another rank that ends the job for one that stands so, if there is one; the first that was heard.
///
/// A shutdown is collective. So before this rank has announced its own nobody has left in order, whatever his exit
/// status; afterwards a good exit status is no cause, and a bad one only where the shutdown does not get through all
/// the same: a rank may fail after it has left.
[[nodiscard]] const base::LauncherNotification* cause_among(std::span<const HeardWord> heard, Standing standing,
                                                            std::int64_t now_ns);
/// The word as an error of a rank with this standing says it.
[[nodiscard]] std::string describe_cause(const base::LauncherNotification& word, Standing standing = Standing::running);

/// The launcher's word (docs/design/failure.md): over a socket that ruedarun, or its supervisor, has left open in this
/// process. Without a launcher there is nothing to hear, and every function says so at once.
///
/// It belongs to the process and outlives its Runtimes: what was heard in one holds for the next. A forked child has
/// the descriptor as well and must not ask: it would take the words away from its parent.
///
/// Threads: any. The mutex is held for a few system calls that do not block, and by nobody who waits.
class LauncherLine {
public:
    /// How long a failure that was seen otherwise waits for the launcher's word about it. ruedarun hears of an end
    /// within a millisecond on the same host, of another one within the time of a message; but where more wants to run
    /// than there are cores, 100 ms were too little now and then (once in some thirty deaths).
    static constexpr std::chrono::milliseconds kMoment{200};

    [[nodiscard]] static std::unique_ptr<LauncherLine> open(const base::EnvironmentLookup& environment);
    /// Of an open socket; tests. Not open: no launcher.
    LauncherLine(base::UniqueFd socket, std::int32_t rank, std::int32_t ranks);

    /// One line for the user where a launcher was named and cannot be heard; "" otherwise.
    [[nodiscard]] const std::string& notice() const { return notice_; }
    /// There is a launcher that can be heard.
    [[nodiscard]] bool is_open() {
        const std::lock_guard lock(mutex_);
        return socket_.is_open();
    }
    /// The launcher means this process by that rank of that many: the words are about its job.
    [[nodiscard]] bool is_about(int rank, int size) const { return rank_ == rank && ranks_ == size; }

    /// The job is made of some of the ranks that were launched: by rank of the job, their ranks there (−1: of those the
    /// launcher knows nothing). Empty: of all of them, in their order. What is heard of others is left aside.
    void set_members(std::vector<int> launch_ranks);

    /// What ends the job of a rank whose standing `standing` tells; it is asked after the words were read, as a word
    /// that has come may be the consequence of what this rank has done just before.
    template <class Ask>
    [[nodiscard]] std::optional<std::string> cause(Ask&& standing, std::int64_t now_ns) {
        const std::lock_guard lock(mutex_);
        read(now_ns);
        if (heard_.empty()) {
            return std::nullopt;
        }
        const Standing own = standing();
        const base::LauncherNotification* const word = cause_among(heard_of_members(), own, now_ns);
        return word != nullptr ? std::optional(of_launch(describe_cause(*word, own))) : std::nullopt;
    }
    /// What makes MPI_Init wait in vain: it waits for every rank that was launched, whoever is to be in the job.
    [[nodiscard]] std::optional<std::string> cause_in_mpi_init(std::int64_t now_ns);
    /// How that rank of the job has ended; waits for the word for a moment.
    [[nodiscard]] std::optional<std::string> word_about(int rank);
    /// How any rank has failed; the same.
    [[nodiscard]] std::optional<std::string> word_of_failure();

    /// Tells the launcher why the program was told that the job is aborted, so that its end is not taken for the cause.
    /// The last time counts; what only says the same of a tensor is not told again, and nothing after a few reasons.
    void report_abort(std::string_view reason);
    /// From now on report_abort() says nothing: this rank ends the job, so its end is the cause.
    void become_the_cause();

    /// Tells the launcher how far this program is, whatever comes then. No system call.
    void begin_step(std::int64_t step);

private:
    void read(std::int64_t now_ns);
    [[nodiscard]] ssize_t receive(std::span<char> buffer);
    [[nodiscard]] bool is_member(int launch_rank) const;
    [[nodiscard]] std::span<const HeardWord> heard_of_members();
    [[nodiscard]] std::string of_launch(const std::string& text) const;
    template <class Wanted>
    std::optional<std::string> wait_for(Wanted&& wanted);

    std::mutex mutex_;
    base::UniqueFd socket_;
    std::vector<HeardWord> heard_;
    std::vector<HeardWord> members_heard_;  // those of heard_ that are about members, when they were asked for
    std::vector<int> members_;
    std::int32_t rank_ = 0;
    std::int32_t ranks_ = 0;
    std::string notice_;
    std::vector<std::string> reported_;
    bool is_the_cause_ = false;
    base::StepPage steps_;
};

}  // namespace rueda::core
