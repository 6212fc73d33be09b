// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/mpi/mpi_meeting.hpp"

#include <sched.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/interruption.hpp"

namespace rueda::collectives {
namespace {

using Clock = std::chrono::steady_clock;

/// For letters to leave, and for receives to be taken back.
constexpr std::chrono::milliseconds kMeetingCloses{2000};

/// A message under way. MPI uses its memory until it is complete.
struct Letter {
    int rank = 0;
    LetterNumbers numbers;
    MPI_Request request = MPI_REQUEST_NULL;
    bool complete = false;
    bool cancelled = false;
};
using Letters = std::vector<std::unique_ptr<Letter>>;

std::span<std::byte> bytes_of(LetterNumbers& numbers) { return std::as_writable_bytes(std::span(numbers)); }

/// Carries the letters of one side: `Side` is LowestOfMeeting or GuestOfMeeting. Threads: one.
template <class Side>
class Post {
public:
    Post(MpiApi& mpi, MPI_Comm communicator, const MeetingPlan& plan, Side& side)
        : mpi_(mpi), communicator_(communicator), plan_(plan), side_(side) {}

    /// `others`: whose letters it hears.
    Status run(std::span<const int> others, const std::function<Status()>& go_on) {
        Status failed = exchange(others, go_on);
        if (!failed.is_ok()) {
            side_.give_up(failed);
            static_cast<void>(send_letters().is_ok());  // the failure is said already
        }
        take_back();
        return *side_.verdict();
    }

private:
    /// Until the side knows how it ends. As in the control plane, whoever is late is usually so by milliseconds.
    Status exchange(std::span<const int> others, const std::function<Status()>& go_on) {
        for (const int rank : others) {
            RUEDA_RETURN_IF_FAILED(receive(rank));
        }
        RUEDA_RETURN_IF_FAILED(send_letters());
        Clock::time_point next_question = Clock::now() + kInterruptionInterval;
        std::chrono::microseconds pause(0);
        for (int turn = 0; !side_.verdict(); ++turn) {
            bool moved = false;
            RUEDA_RETURN_IF_FAILED(hear(moved));
            const Clock::time_point now = Clock::now();
            side_.look(now);
            RUEDA_RETURN_IF_FAILED(send_letters());
            if (side_.verdict()) {
                break;
            }
            if (now >= next_question) {
                next_question = now + kInterruptionInterval;
                RUEDA_RETURN_IF_FAILED(go_on());
            }
            if (moved || turn < 100) {
                turn = moved ? 0 : turn;
                pause = moved ? std::chrono::microseconds(0) : pause;
                ::sched_yield();
            } else {
                pause = std::min(pause + std::chrono::microseconds(20), std::chrono::microseconds(1000));
                std::this_thread::sleep_for(pause);
            }
        }
        return {};
    }

    Status receive(int rank) {
        auto letter = std::make_unique<Letter>();
        letter->rank = rank;
        letter->numbers.resize(plan_.longest());
        auto started = mpi_.irecv(bytes_of(letter->numbers), rank, kMeetingTag, communicator_);
        RUEDA_RETURN_IF_FAILED(started.status());
        letter->request = started.value();
        receives_.push_back(std::move(letter));
        return {};
    }
    Status send_letters() {
        for (MeetingLetter& written : side_.take_letters()) {
            auto letter = std::make_unique<Letter>();
            letter->rank = written.to;
            letter->numbers = std::move(written.numbers);
            auto started = mpi_.isend(bytes_of(letter->numbers), letter->rank, kMeetingTag, communicator_);
            RUEDA_RETURN_IF_FAILED(started.status());
            letter->request = started.value();
            sends_.push_back(std::move(letter));
        }
        return {};
    }

    Status test_sends() {
        for (const auto& letter : sends_) {
            auto message = mpi_.test_message(letter->request);
            RUEDA_RETURN_IF_FAILED(message.status());
            letter->complete = message.value().complete;
        }
        std::erase_if(sends_, [](const auto& letter) { return letter->complete; });
        return {};
    }
    Status test_receive(Letter& letter) {
        auto message = mpi_.test_message(letter.request);
        RUEDA_RETURN_IF_FAILED(message.status());
        if (message.value().complete) {
            letter.complete = true;
            letter.cancelled = message.value().cancelled;
            const bool is_whole = !message.value().truncated && !letter.cancelled;
            const std::size_t bytes = is_whole ? message.value().bytes : 0;
            const bool is_numbers = bytes % sizeof(std::int32_t) == 0;  // else it is an empty letter, which is damaged
            letter.numbers.resize(is_numbers ? std::min(bytes / sizeof(std::int32_t), letter.numbers.size()) : 0);
        }
        return {};
    }
    /// One letter of each, at the most: the next receive is posted when the last one has ended.
    Status hear(bool& moved) {
        RUEDA_RETURN_IF_FAILED(test_sends());
        for (auto& place : receives_) {
            RUEDA_RETURN_IF_FAILED(test_receive(*place));
        }
        std::vector<std::unique_ptr<Letter>> heard;
        for (auto& place : receives_) {
            if (place->complete) {
                heard.push_back(std::move(place));
            }
        }
        std::erase(receives_, nullptr);
        for (const auto& letter : heard) {
            moved = true;
            tell(*letter);
            RUEDA_RETURN_IF_FAILED(receive(letter->rank));
        }
        return {};
    }
    void tell(const Letter& letter) {
        if constexpr (std::is_same_v<Side, LowestOfMeeting>) {
            side_.hear(letter.rank, letter.numbers, Clock::now());
        } else {
            side_.hear(letter.numbers, Clock::now());
        }
    }

    /// What is still under way must not take the letters of another meeting; what comes nevertheless is answered, and
    /// what does not end is MPI's for good.
    void take_back() {
        for (const auto& letter : receives_) {
            static_cast<void>(mpi_.cancel(letter->request).is_ok());
        }
        const Clock::time_point deadline = Clock::now() + kMeetingCloses;
        while (!(sends_.empty() && receives_.empty()) && Clock::now() < deadline && close_some().is_ok()) {
            ::sched_yield();
        }
        for (Letters* letters : {&sends_, &receives_}) {
            for (auto& letter : *letters) {
                static_cast<void>(letter.release());
            }
        }
    }
    Status close_some() {
        RUEDA_RETURN_IF_FAILED(test_sends());
        for (auto& letter : receives_) {
            RUEDA_RETURN_IF_FAILED(test_receive(*letter));
            if (letter->complete && !letter->cancelled) {
                tell(*letter);
            }
        }
        std::erase_if(receives_, [](const auto& letter) { return letter->complete; });
        return send_letters();
    }

    MpiApi& mpi_;
    const MPI_Comm communicator_;
    const MeetingPlan& plan_;
    Side& side_;
    Letters sends_;
    Letters receives_;
};

}  // namespace

Status meet_members(MpiApi& mpi, MPI_Comm communicator, const MeetingPlan& plan, int own, std::int32_t attempt,
                    const std::function<Status()>& go_on) {
    if (own == plan.lowest()) {
        LowestOfMeeting lowest(plan, Clock::now());
        return Post(mpi, communicator, plan, lowest).run(std::span(plan.members).subspan(1), go_on);
    }
    GuestOfMeeting guest(plan, attempt, Clock::now());
    return Post(mpi, communicator, plan, guest).run(std::span(plan.members).first(1), go_on);
}

}  // namespace rueda::collectives
