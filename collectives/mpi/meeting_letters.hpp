// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"

/// Who says what at a meeting (docs/design/0011-jobs-of-some-ranks.md), without the messages and without the clock:
/// the lowest of the members hears the others, the guests, and answers them. Letters are numbers.
/// Threads: each object one.
namespace rueda::collectives {

using LetterNumbers = std::vector<std::int32_t>;
using MeetingTime = std::chrono::steady_clock::time_point;

/// How long the lowest waits for its guests to say that they are still there, before it asks again.
inline constexpr std::chrono::milliseconds kConfirming{1000};
/// How long a guest that has said so waits for more, whatever its own time is: the lowest says "go" within kConfirming
/// of its question or asks again, so only one that is stopped for the difference could be left alone by it.
inline constexpr std::chrono::milliseconds kCommitted{10000};
/// How long guests wait for the lowest's answer after their own time is over: it knows who is missing.
inline constexpr std::chrono::milliseconds kMeetingGrace{2000};

/// What a guest writes: the first number; the second is its attempt, which the answers repeat.
enum class GuestSays : std::int32_t {
    come = 1,       ///< its list; none stands for all ranks of the communicator
    withdrawn = 2,  ///< it has given up: what it wrote in this attempt does not hold any more
    ready = 3,      ///< it is there; the round of the question
};
/// What the lowest answers: the first number; the second is the guest's attempt.
enum class LowestSays : std::int32_t {
    go = 0,
    lists_differ = 1,  ///< the lowest, a guest, how many the lowest's list has, that list, the guest's list
    missing = 2,       ///< who has not come
    given_up = 3,      ///< it was told that the job is over, or MPI has failed
    still_there = 4,   ///< the round
};

/// Who meets.
struct MeetingPlan {
    std::vector<int> members;  ///< ranks of the communicator, ascending
    int size = 0;              ///< of the communicator
    bool is_by_list = false;   ///< the ranks are those of the launch, which callers know; or those of a communicator
    std::chrono::milliseconds timeout{0};

    [[nodiscard]] int lowest() const { return members.front(); }
    /// As a letter says it.
    [[nodiscard]] LetterNumbers list() const;
    /// What a letter said, in full.
    [[nodiscard]] LetterNumbers in_full(std::span<const std::int32_t> list) const;
    /// The longest letter either side writes, in numbers.
    [[nodiscard]] std::size_t longest() const { return 2 * static_cast<std::size_t>(size) + 5; }
    [[nodiscard]] Status missing(std::span<const std::int32_t> ranks) const;
    /// "rank 3 of those that were launched"
    [[nodiscard]] std::string name_of(int rank) const;
    /// A letter that no Rueda writes.
    [[nodiscard]] Status damaged(int rank) const;
};

struct MeetingLetter {
    int to = 0;
    LetterNumbers numbers;
};

class LowestOfMeeting {
public:
    LowestOfMeeting(const MeetingPlan& plan, MeetingTime now);

    /// `numbers` of another process; empty for what had no room.
    void hear(int rank, std::span<const std::int32_t> numbers, MeetingTime now);
    void look(MeetingTime now);
    /// Ends it, where it has not ended.
    void give_up(const Status& reason);

    [[nodiscard]] const std::optional<Status>& verdict() const { return verdict_; }
    [[nodiscard]] std::vector<MeetingLetter> take_letters();

private:
    struct Guest {
        int rank = 0;
        bool is_here = false;
        std::int32_t attempt = 0;
        LetterNumbers list;
        std::int32_t ready_in = 0;  ///< the last round in which it said so; they count from 1
    };

    void answer(const Guest& guest, LowestSays what, std::span<const std::int32_t> more = {});
    void ask(MeetingTime now);
    void decide(MeetingTime now);
    void conclude(bool asked);
    void end(Status verdict, LowestSays what, LetterNumbers more = {});
    [[nodiscard]] bool all_are_here() const;

    const MeetingPlan& plan_;
    const LetterNumbers own_list_;
    const MeetingTime deadline_;
    std::vector<Guest> guests_;
    std::int32_t round_ = 0;
    bool is_asking_ = false;      ///< the round is under way
    bool is_last_round_ = false;  ///< the time is over
    MeetingTime asked_at_{};
    std::optional<Status> verdict_;
    LowestSays said_ = LowestSays::go;  ///< to all that were here, and to who writes after the end
    LetterNumbers said_more_;
    std::vector<MeetingLetter> letters_;
};

class GuestOfMeeting {
public:
    /// `attempt`: no other of this process has it.
    GuestOfMeeting(const MeetingPlan& plan, std::int32_t attempt, MeetingTime now);

    void hear(std::span<const std::int32_t> numbers, MeetingTime now);
    void look(MeetingTime now);
    void give_up(const Status& reason);

    [[nodiscard]] const std::optional<Status>& verdict() const { return verdict_; }
    [[nodiscard]] std::vector<MeetingLetter> take_letters();

private:
    [[nodiscard]] Status understand(LowestSays what, std::span<const std::int32_t> more) const;
    void write(GuestSays what, std::span<const std::int32_t> more = {});

    const MeetingPlan& plan_;
    const std::int32_t attempt_;
    MeetingTime deadline_;
    std::optional<Status> verdict_;
    std::vector<MeetingLetter> letters_;
};

}  // namespace rueda::collectives
