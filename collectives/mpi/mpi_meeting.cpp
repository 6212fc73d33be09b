// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/mpi/mpi_meeting.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/interruption.hpp"
#include "collectives/membership.hpp"

namespace rueda::collectives {
namespace {

using Clock = std::chrono::steady_clock;
using Numbers = std::vector<std::int32_t>;

/// What the lowest answers: the first number.
enum class Answer : std::int32_t {
    all_are_here = 0,
    lists_differ = 1,  ///< a rank, how many the lowest's list has, that list, the rank's list
    missing = 2,       ///< who has not come
    given_up = 3,      ///< it was told that the job is over, or MPI has failed
};

/// How long the others wait for the lowest's answer after their own time is over: it knows who is missing.
constexpr std::chrono::milliseconds kGrace{2000};
/// For answers to leave, and for receives to be taken back.
constexpr std::chrono::milliseconds kClosing{2000};

/// A message under way. MPI uses its memory until it is complete.
struct Letter {
    int rank = 0;
    Numbers numbers;
    MPI_Request request = MPI_REQUEST_NULL;
    bool complete = false;
    bool truncated = false;
};
using Letters = std::vector<std::unique_ptr<Letter>>;

std::span<std::byte> bytes_of(Numbers& numbers) { return std::as_writable_bytes(std::span(numbers)); }

bool are_complete(const Letters& letters) {
    return std::all_of(letters.begin(), letters.end(), [](const auto& letter) { return letter->complete; });
}

/// Threads: one.
class Meeting {
public:
    Meeting(MpiApi& mpi, std::span<const int> members, int own, int launch_size, std::chrono::milliseconds timeout,
            const std::function<Status()>& go_on)
        : mpi_(mpi), members_(members), own_(own), launch_size_(launch_size), timeout_(timeout), go_on_(go_on) {}

    Status run() {
        Status met = own_ == members_.front() ? receive_all() : come();
        take_back();
        return met;
    }

private:
    Result<Letter*> receive(int rank, std::size_t most) {
        auto letter = std::make_unique<Letter>();
        letter->rank = rank;
        letter->numbers.resize(most);
        auto started = mpi_.irecv(bytes_of(letter->numbers), rank, kMeetingTag, MPI_COMM_WORLD);
        RUEDA_RETURN_IF_FAILED(started.status());
        letter->request = started.value();
        receives_.push_back(std::move(letter));
        return receives_.back().get();
    }
    Status send(int rank, Numbers numbers) {
        auto letter = std::make_unique<Letter>();
        letter->rank = rank;
        letter->numbers = std::move(numbers);
        auto started = mpi_.isend(bytes_of(letter->numbers), rank, kMeetingTag, MPI_COMM_WORLD);
        RUEDA_RETURN_IF_FAILED(started.status());
        letter->request = started.value();
        sends_.push_back(std::move(letter));
        return {};
    }

    Status test_send(Letter& letter) {
        auto message = mpi_.test_message(letter.request);
        RUEDA_RETURN_IF_FAILED(message.status());
        letter.complete = message.value().complete;
        return {};
    }
    Status test_receive(Letter& letter) {
        auto message = mpi_.test_message(letter.request);
        RUEDA_RETURN_IF_FAILED(message.status());
        if (message.value().complete) {
            letter.complete = true;
            letter.truncated = message.value().truncated;
            const std::size_t got = message.value().cancelled ? 0 : message.value().bytes / sizeof(std::int32_t);
            letter.numbers.resize(std::min(got, letter.numbers.size()));
        }
        return {};
    }
    /// One look at everything that is under way.
    Status look() {
        for (const auto& letter : sends_) {
            RUEDA_RETURN_IF_FAILED(letter->complete ? Status() : test_send(*letter));
        }
        for (const auto& letter : receives_) {
            RUEDA_RETURN_IF_FAILED(letter->complete ? Status() : test_receive(*letter));
        }
        return {};
    }

    /// Until all letters are complete; Timeout after `time`. As in the control plane, whoever is late is usually so by
    /// milliseconds.
    Status wait_for(std::chrono::milliseconds time) {
        const Clock::time_point deadline = Clock::now() + time;
        Clock::time_point next_question = Clock::now() + kInterruptionInterval;
        std::chrono::microseconds pause(0);
        for (int turn = 0;; ++turn) {
            RUEDA_RETURN_IF_FAILED(look());
            if (are_complete(sends_) && are_complete(receives_)) {
                return {};
            }
            const Clock::time_point now = Clock::now();
            if (now >= next_question) {
                next_question = now + kInterruptionInterval;
                RUEDA_RETURN_IF_FAILED(go_on_());
            }
            if (now >= deadline) {
                return {ErrorCode::timeout, ""};
            }
            if (turn < 100) {
                ::sched_yield();
            } else {
                pause = std::min(pause + std::chrono::microseconds(20), std::chrono::microseconds(1000));
                std::this_thread::sleep_for(pause);
            }
        }
    }

    // The lowest.

    Status receive_all() {
        for (const int member : members_.subspan(1)) {
            RUEDA_RETURN_IF_FAILED(receive(member, static_cast<std::size_t>(launch_size_)).status());
        }
        const Status waited = wait_for(timeout_);
        Numbers answer;
        Status verdict = judge(waited, answer);
        for (const auto& letter : receives_) {
            if (letter->complete) {
                RUEDA_RETURN_IF_FAILED(send(letter->rank, answer));
            }
        }
        return verdict;
    }

    Status judge(const Status& waited, Numbers& answer) const {
        const Numbers own(members_.begin(), members_.end());
        for (const auto& letter : receives_) {
            if (letter->complete && letter->numbers != own) {
                answer = {static_cast<std::int32_t>(Answer::lists_differ), letter->rank,
                          static_cast<std::int32_t>(own.size())};
                answer.insert(answer.end(), own.begin(), own.end());
                answer.insert(answer.end(), letter->numbers.begin(), letter->numbers.end());
                return lists_differ(own_, own, letter->rank, letter->numbers);
            }
        }
        if (waited.is_ok()) {
            answer = {static_cast<std::int32_t>(Answer::all_are_here)};
            return {};
        }
        if (waited.code() != ErrorCode::timeout) {
            answer = {static_cast<std::int32_t>(Answer::given_up)};
            return waited;
        }
        answer = {static_cast<std::int32_t>(Answer::missing)};
        for (const auto& letter : receives_) {
            if (!letter->complete) {
                answer.push_back(letter->rank);
            }
        }
        return missing(std::span(answer).subspan(1));
    }

    Status missing(std::span<const int> ranks) const {
        return failure(ErrorCode::timeout,
                       "start: of the ranks {} that are to be a job, {} did not come within {} s (RUEDA_START_TIMEOUT)",
                       describe_ranks(members_), describe_ranks(ranks),
                       std::chrono::duration<double>(timeout_).count());
    }

    // The others.

    Status come() {
        const int lowest = members_.front();
        const auto most = 2 * static_cast<std::size_t>(launch_size_) + 3;
        Result<Letter*> answer = receive(lowest, most);
        RUEDA_RETURN_IF_FAILED(answer.status());
        RUEDA_RETURN_IF_FAILED(send(lowest, Numbers(members_.begin(), members_.end())));
        const Status waited = wait_for(timeout_ + kGrace);
        if (waited.code() == ErrorCode::timeout) {
            return failure(ErrorCode::timeout,
                           "start: rank {} of those that were launched did not answer within {} s "
                           "(RUEDA_START_TIMEOUT): it has not called init, or with a list that this rank is not in",
                           lowest, std::chrono::duration<double>(timeout_).count());
        }
        RUEDA_RETURN_IF_FAILED(waited);
        return understand(*answer.value());
    }

    /// Numbers of another process.
    Status understand(const Letter& letter) const {
        const std::span<const std::int32_t> numbers = letter.numbers;
        if (numbers.empty() || letter.truncated) {
            return damaged(letter);
        }
        switch (static_cast<Answer>(numbers[0])) {
            case Answer::all_are_here:
                return {};
            case Answer::missing:
                return missing(numbers.subspan(1));
            case Answer::given_up:
                return failure(ErrorCode::aborted, "start: rank {} of those that were launched has given up",
                               letter.rank);
            case Answer::lists_differ:
                if (numbers.size() >= 3 && numbers[2] >= 0 &&
                    static_cast<std::size_t>(numbers[2]) <= numbers.size() - 3) {
                    const auto length = static_cast<std::size_t>(numbers[2]);
                    return lists_differ(letter.rank, numbers.subspan(3, length), numbers[1],
                                        numbers.subspan(3 + length));
                }
                break;
        }
        return damaged(letter);
    }
    static Status damaged(const Letter& letter) {
        return failure(ErrorCode::internal,
                       "start: rank {} of those that were launched has answered what no Rueda answers: do all ranks "
                       "run the same build of Rueda?",
                       letter.rank);
    }

    /// What is still under way must not take the messages of another meeting; what does not end is MPI's for good.
    void take_back() {
        for (const auto& letter : receives_) {
            if (!letter->complete) {
                static_cast<void>(mpi_.cancel(letter->request).is_ok());
            }
        }
        const Clock::time_point deadline = Clock::now() + kClosing;
        while (!(are_complete(sends_) && are_complete(receives_)) && Clock::now() < deadline && look().is_ok()) {
            ::sched_yield();
        }
        for (Letters* letters : {&sends_, &receives_}) {
            for (auto& letter : *letters) {
                if (!letter->complete) {
                    static_cast<void>(letter.release());
                }
            }
        }
    }

    MpiApi& mpi_;
    const std::span<const int> members_;
    const int own_;
    const int launch_size_;
    const std::chrono::milliseconds timeout_;
    const std::function<Status()>& go_on_;
    Letters sends_;
    Letters receives_;
};

}  // namespace

Status meet_members(MpiApi& mpi, std::span<const int> members, int own, int launch_size,
                    std::chrono::milliseconds timeout, const std::function<Status()>& go_on) {
    return Meeting(mpi, members, own, launch_size, timeout, go_on).run();
}

}  // namespace rueda::collectives
