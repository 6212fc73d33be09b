// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/mpi/meeting_letters.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/membership.hpp"

namespace rueda::collectives {

// ---- the plan -------------------------------------------------------------------------------------------------------

LetterNumbers MeetingPlan::list() const {
    return members.size() == static_cast<std::size_t>(size) ? LetterNumbers() : LetterNumbers(members);
}

LetterNumbers MeetingPlan::in_full(std::span<const std::int32_t> list) const {
    LetterNumbers all(list.begin(), list.end());
    if (all.empty()) {
        all.resize(static_cast<std::size_t>(size));
        std::iota(all.begin(), all.end(), 0);
    }
    return all;
}

Status MeetingPlan::missing(std::span<const std::int32_t> ranks) const {
    return failure(ErrorCode::timeout, "start: of the ranks {} {}, {} did not come within {} s (RUEDA_START_TIMEOUT)",
                   describe_ranks(members), is_by_list ? "that are to be a job" : "of the communicator",
                   describe_ranks(ranks), std::chrono::duration<double>(timeout).count());
}

std::string MeetingPlan::name_of(int rank) const {
    return fmt::format("rank {} of {}", rank, is_by_list ? "those that were launched" : "the communicator");
}

Status MeetingPlan::damaged(int rank) const {
    return failure(ErrorCode::internal,
                   "start: {} has answered what no Rueda answers: do all ranks run the same build of Rueda?",
                   name_of(rank));
}

namespace {

/// Nothing, where the numbers have not the form that it has: the attempt, and behind it a list of any length, nothing,
/// or the round that is answered.
GuestSays said_by_guest(std::span<const std::int32_t> numbers) {
    if (numbers.size() < 2) {
        return {};
    }
    const auto what = static_cast<GuestSays>(numbers[0]);
    const std::size_t behind = numbers.size() - 2;
    const bool is_form = what == GuestSays::come || behind == (what == GuestSays::ready ? 1U : 0U);
    return is_form ? what : GuestSays{};
}

}  // namespace

// ---- the lowest -----------------------------------------------------------------------------------------------------

LowestOfMeeting::LowestOfMeeting(const MeetingPlan& plan, MeetingTime now)
    : plan_(plan), own_list_(plan.list()), deadline_(now + plan.timeout) {
    for (const int rank : std::span(plan.members).subspan(1)) {
        guests_.emplace_back().rank = rank;
    }
    decide(now);
}

void LowestOfMeeting::hear(int rank, std::span<const std::int32_t> numbers, MeetingTime now) {
    const auto guest = std::find_if(guests_.begin(), guests_.end(), [rank](const Guest& g) { return g.rank == rank; });
    if (guest == guests_.end()) {
        return;
    }
    switch (said_by_guest(numbers)) {
        case GuestSays::come: {
            const auto list = numbers.subspan(2);
            *guest = {rank, true, numbers[1], LetterNumbers(list.begin(), list.end()), 0};
            is_asking_ = false;  // a round is of those who were here when it began
            if (verdict_) {
                answer(*guest, said_, said_more_);
            }
            break;
        }
        case GuestSays::withdrawn:
            if (guest->attempt == numbers[1] && guest->is_here) {
                guest->is_here = false;
                is_asking_ = false;
            }
            break;
        case GuestSays::ready:
            if (guest->attempt == numbers[1]) {
                guest->ready_in = numbers[2];
            }
            break;
        default:
            if (!verdict_) {
                end(plan_.damaged(rank), LowestSays::given_up);
            }
            return;
    }
    decide(now);
}

void LowestOfMeeting::look(MeetingTime now) { decide(now); }

void LowestOfMeeting::give_up(const Status& reason) {
    if (!verdict_) {
        end(reason, LowestSays::given_up);
    }
}

std::vector<MeetingLetter> LowestOfMeeting::take_letters() { return std::exchange(letters_, {}); }

bool LowestOfMeeting::all_are_here() const {
    return std::all_of(guests_.begin(), guests_.end(), [](const Guest& guest) { return guest.is_here; });
}

void LowestOfMeeting::answer(const Guest& guest, LowestSays what, std::span<const std::int32_t> more) {
    LetterNumbers numbers{static_cast<std::int32_t>(what), guest.attempt};
    numbers.insert(numbers.end(), more.begin(), more.end());
    letters_.push_back({guest.rank, std::move(numbers)});
}

void LowestOfMeeting::ask(MeetingTime now) {
    ++round_;
    is_asking_ = true;
    asked_at_ = now;
    for (const Guest& guest : guests_) {
        if (guest.is_here) {
            answer(guest, LowestSays::still_there, std::span(&round_, 1));
        }
    }
}

/// What a guest wrote may be of an attempt that it has given up since; so nothing is concluded from a list before the
/// guest has answered a question.
void LowestOfMeeting::decide(MeetingTime now) {
    if (verdict_) {
        return;
    }
    if (guests_.empty()) {
        end({}, LowestSays::go);
        return;
    }
    const bool is_over = now >= deadline_;
    if (is_asking_) {
        const bool all_said = std::all_of(guests_.begin(), guests_.end(), [this](const Guest& guest) {
            return !guest.is_here || guest.ready_in == round_;
        });
        if (now - asked_at_ <= kConfirming) {
            if (all_said) {
                conclude(/*asked=*/true);
            }
            return;
        }
        is_asking_ = false;
        if (is_last_round_ && !all_said) {
            conclude(/*asked=*/true);
            return;
        }
    }
    const bool lists_may_differ = std::any_of(guests_.begin(), guests_.end(), [this](const Guest& guest) {
        return guest.is_here && guest.list != own_list_;
    });
    if (all_are_here() || (is_over && lists_may_differ)) {
        is_last_round_ = is_over;
        ask(now);
    } else if (is_over) {
        conclude(/*asked=*/false);
    }
}

/// `asked`: who has not answered counts as missing.
void LowestOfMeeting::conclude(bool asked) {
    LetterNumbers absent;
    for (const Guest& guest : guests_) {
        if (!guest.is_here || (asked && guest.ready_in != round_)) {
            absent.push_back(guest.rank);
        } else if (asked && guest.list != own_list_) {
            const LetterNumbers own = plan_.in_full(own_list_);
            const LetterNumbers others = plan_.in_full(guest.list);
            LetterNumbers more{plan_.lowest(), guest.rank, static_cast<std::int32_t>(own.size())};
            more.insert(more.end(), own.begin(), own.end());
            more.insert(more.end(), others.begin(), others.end());
            end(lists_differ(plan_.lowest(), own, guest.rank, others), LowestSays::lists_differ, std::move(more));
            return;
        }
    }
    if (absent.empty()) {
        end({}, LowestSays::go);
    } else {
        end(plan_.missing(absent), LowestSays::missing, absent);
    }
}

void LowestOfMeeting::end(Status verdict, LowestSays what, LetterNumbers more) {
    verdict_ = std::move(verdict);
    said_ = what;
    said_more_ = std::move(more);
    for (const Guest& guest : guests_) {
        if (guest.is_here) {
            answer(guest, said_, said_more_);
        }
    }
}

// ---- a guest --------------------------------------------------------------------------------------------------------

GuestOfMeeting::GuestOfMeeting(const MeetingPlan& plan, std::int32_t attempt, MeetingTime now)
    : plan_(plan), attempt_(attempt), deadline_(now + plan.timeout + kMeetingGrace) {
    write(GuestSays::come, plan.list());
}

void GuestOfMeeting::write(GuestSays what, std::span<const std::int32_t> more) {
    LetterNumbers numbers{static_cast<std::int32_t>(what), attempt_};
    numbers.insert(numbers.end(), more.begin(), more.end());
    letters_.push_back({plan_.lowest(), std::move(numbers)});
}

void GuestOfMeeting::hear(std::span<const std::int32_t> numbers, MeetingTime now) {
    if (verdict_) {
        return;
    }
    if (numbers.size() < 2) {
        give_up(plan_.damaged(plan_.lowest()));
        return;
    }
    if (numbers[1] != attempt_) {
        return;  // to an attempt that was given up
    }
    const auto what = static_cast<LowestSays>(numbers[0]);
    if (what == LowestSays::still_there && numbers.size() == 3) {
        deadline_ = std::max(deadline_, now + kCommitted);
        write(GuestSays::ready, numbers.subspan(2));
        return;
    }
    verdict_ = understand(what, numbers.subspan(2));
}

void GuestOfMeeting::look(MeetingTime now) {
    if (now >= deadline_) {
        give_up(failure(ErrorCode::timeout,
                        "start: {} did not answer within {} s (RUEDA_START_TIMEOUT): it has not called init{}",
                        plan_.name_of(plan_.lowest()), std::chrono::duration<double>(plan_.timeout).count(),
                        plan_.is_by_list ? ", or with a list that this rank is not in" : ""));
    }
}

void GuestOfMeeting::give_up(const Status& reason) {
    if (!verdict_) {
        verdict_ = reason;
        write(GuestSays::withdrawn);
    }
}

std::vector<MeetingLetter> GuestOfMeeting::take_letters() { return std::exchange(letters_, {}); }

/// Numbers of another process.
Status GuestOfMeeting::understand(LowestSays what, std::span<const std::int32_t> more) const {
    switch (what) {
        case LowestSays::go:
            if (more.empty()) {
                return {};
            }
            break;
        case LowestSays::missing:
            return plan_.missing(more);
        case LowestSays::given_up:
            if (more.empty()) {
                return failure(ErrorCode::aborted, "start: {} has given up", plan_.name_of(plan_.lowest()));
            }
            break;
        case LowestSays::lists_differ:
            if (more.size() >= 3 && more[2] >= 0 && static_cast<std::size_t>(more[2]) <= more.size() - 3) {
                const auto length = static_cast<std::size_t>(more[2]);
                return lists_differ(more[0], more.subspan(3, length), more[1], more.subspan(3 + length));
            }
            break;
        case LowestSays::still_there:
            break;
    }
    return plan_.damaged(plan_.lowest());
}

}  // namespace rueda::collectives
