// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The messages of a rendezvous, in every order that arises from a late rank, a rank that leaves, and an old message.
// The tests use no MPI, and set the clock themselves.
#include "collectives/mpi/meeting_letters.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/collectives/plane_checks.hpp"

namespace rueda::collectives {
namespace {

using tests::outcome;
using namespace std::chrono_literals;
using Numbers = LetterNumbers;

MeetingPlan plan_of(Numbers members, std::chrono::milliseconds timeout = 10s) {
    return {std::move(members), 5, true, timeout};
}
const MeetingTime kStart{};

std::string end_of(const LowestOfMeeting& lowest) { return lowest.verdict() ? outcome(*lowest.verdict()) : "none"; }

std::vector<std::pair<int, Numbers>> letters_of(LowestOfMeeting& lowest) {
    std::vector<std::pair<int, Numbers>> all;
    for (MeetingLetter& letter : lowest.take_letters()) {
        all.emplace_back(letter.to, std::move(letter.numbers));
    }
    return all;
}

TEST_CASE("a guest that has withdrawn is not waited for in the call that cannot be left", "[unit]") {
    const MeetingPlan plan = plan_of({0, 1}, 2s);
    LowestOfMeeting lowest(plan, kStart);
    lowest.hear(1, Numbers{1, 5, 0, 1}, kStart);  // it wrote this before its own time was over
    CHECK(letters_of(lowest) == std::vector<std::pair<int, Numbers>>{{1, {4, 5, 1}}});
    lowest.hear(1, Numbers{2, 5}, kStart);
    lowest.look(kStart + 1999ms);
    CHECK(end_of(lowest) == "none");
    lowest.look(kStart + 2s);
    CHECK(end_of(lowest) ==
          "Timeout: start: of the ranks 0, 1 that are to be a job, 1 did not come within 2 s (RUEDA_START_TIMEOUT)");
    CHECK(letters_of(lowest).empty());  // no rank is there
}

TEST_CASE("a guest that comes again is heard, whatever it wrote before", "[unit]") {
    const MeetingPlan plan = plan_of({0, 1, 2});
    LowestOfMeeting lowest(plan, kStart);
    lowest.hear(1, Numbers{1, 5, 0, 1}, kStart);  // about another list
    lowest.hear(2, Numbers{1, 9, 0, 1, 2}, kStart);
    static_cast<void>(lowest.take_letters());
    lowest.hear(1, Numbers{2, 5}, kStart);
    lowest.hear(1, Numbers{1, 6, 0, 1, 2}, kStart);
    CHECK(letters_of(lowest) == std::vector<std::pair<int, Numbers>>{{1, {4, 6, 2}}, {2, {4, 9, 2}}});
    lowest.hear(2, Numbers{3, 9, 1}, kStart);  // answers the previous question
    lowest.hear(1, Numbers{3, 5, 2}, kStart);  // from the previous attempt
    lowest.hear(1, Numbers{3, 6, 2}, kStart);
    CHECK(end_of(lowest) == "none");
    lowest.hear(2, Numbers{3, 9, 2}, kStart);
    CHECK(end_of(lowest) == "ok");
    CHECK(letters_of(lowest) == std::vector<std::pair<int, Numbers>>{{1, {0, 6}}, {2, {0, 9}}});
}

TEST_CASE("late answers are asked for again, and after the time their ranks are missing", "[unit]") {
    const MeetingPlan plan = plan_of({0, 1, 2}, 3s);
    LowestOfMeeting lowest(plan, kStart);
    lowest.hear(1, Numbers{1, 5, 0, 1, 2}, kStart);
    lowest.hear(2, Numbers{1, 9, 0, 1, 2}, kStart);
    lowest.hear(1, Numbers{3, 5, 1}, kStart);
    static_cast<void>(lowest.take_letters());
    lowest.look(kStart + kConfirming + 1ms);
    CHECK(letters_of(lowest) == std::vector<std::pair<int, Numbers>>{{1, {4, 5, 2}}, {2, {4, 9, 2}}});
    lowest.hear(2, Numbers{3, 9, 1}, kStart + kConfirming + 2ms);  // now it answers the first question
    CHECK(end_of(lowest) == "none");
    lowest.look(kStart + 4s);
    CHECK(letters_of(lowest) == std::vector<std::pair<int, Numbers>>{{1, {4, 5, 3}}, {2, {4, 9, 3}}});
    lowest.hear(1, Numbers{3, 5, 3}, kStart + 4s);
    lowest.look(kStart + 4s + kConfirming + 1ms);
    CHECK(end_of(lowest).find(" 0, 1, 2 that are to be a job, 2 did not come within 3 s") != std::string::npos);
    CHECK(letters_of(lowest) == std::vector<std::pair<int, Numbers>>{{1, {2, 5, 2}}, {2, {2, 9, 2}}});
    lowest.hear(2, Numbers{1, 10, 0, 1, 2}, kStart + 6s);  // after the end
    CHECK(letters_of(lowest) == std::vector<std::pair<int, Numbers>>{{2, {2, 10, 2}}});
}

TEST_CASE("a letter that has not the form of what it says ends the meeting", "[unit]") {
    const MeetingPlan plan = plan_of({0, 1});
    for (const Numbers& damaged : {Numbers{}, Numbers{1}, Numbers{0, 5}, Numbers{4, 5}, Numbers{-1, 5},
                                   Numbers{2, 5, 1}, Numbers{3, 5}, Numbers{3, 5, 1, 1}}) {
        LowestOfMeeting lowest(plan, kStart);
        lowest.hear(1, Numbers{1, 5, 0, 1}, kStart);
        CHECK(end_of(lowest) == "none");
        lowest.hear(1, damaged, kStart);
        CHECK(end_of(lowest).starts_with("Internal: start: rank 1 of those that were launched has answered what"));
    }
}

TEST_CASE("a guest that has said that it is there waits for more", "[unit]") {
    const MeetingPlan plan = plan_of({0, 1}, 2s);
    GuestOfMeeting guest(plan, 5, kStart);
    CHECK(guest.take_letters().front().numbers == Numbers{1, 5, 0, 1});
    guest.hear(Numbers{4, 5, 3}, kStart + 3900ms);
    CHECK(guest.take_letters().front().numbers == Numbers{3, 5, 3});
    guest.look(kStart + 3900ms + kCommitted - 1ms);
    CHECK(!guest.verdict());
    guest.look(kStart + 3900ms + kCommitted);
    REQUIRE(guest.verdict());
    CHECK(outcome(*guest.verdict()).starts_with("Timeout: start: rank 0 of those that were launched did not answer"));
    CHECK(guest.take_letters().front().numbers == Numbers{2, 5});
    guest.hear(Numbers{0, 5}, kStart + 20s);
    CHECK(!guest.verdict()->is_ok());  // the verdict does not change any more
}

/// Three ranks that try again and again, at independent times. Messages between two ranks keep their order, and wait
/// until their receiver is in a rendezvous and reads them.
class Ranks {
public:
    explicit Ranks(unsigned seed) : random_(seed) {}

    void run() {
        for (int step = 0; step < 5000 && gone_.size() < 3; ++step) {
            now_ += std::chrono::milliseconds(random_() % 200);
            const int rank = static_cast<int>(random_() % 3);
            if (!is_in(rank) && gone_.count(rank) == 0 && random_() % 8 == 0) {
                begin(rank);
            }
            deliver_some();
            turn(rank);
        }
    }
    [[nodiscard]] const std::set<int>& gone() const { return gone_; }
    [[nodiscard]] int attempts() const { return attempts_; }

private:
    [[nodiscard]] bool is_in(int rank) const { return rank == 0 ? lowest_ != nullptr : guests_.count(rank) == 1; }
    void begin(int rank) {
        ++attempts_;
        if (rank == 0) {
            lowest_ = std::make_unique<LowestOfMeeting>(plan_, now_);
        } else {
            guests_.emplace(rank, GuestOfMeeting(plan_, attempts_, now_));
        }
    }
    void deliver_some() {
        for (auto& [way, queue] : mail_) {
            const auto [from, to] = way;
            while (is_in(to) && !queue.empty() && random_() % 3 != 0) {
                if (to == 0) {
                    lowest_->hear(from, queue.front(), now_);
                } else {
                    guests_.at(to).hear(queue.front(), now_);
                }
                queue.pop_front();
            }
        }
    }
    void turn(int rank) {
        if (is_in(rank) && rank == 0) {
            lowest_->look(now_);
            take(0, lowest_->take_letters(), lowest_->verdict());
        } else if (is_in(rank)) {
            GuestOfMeeting& guest = guests_.at(rank);
            guest.look(now_);
            take(rank, guest.take_letters(), guest.verdict());
        }
    }
    void take(int rank, const std::vector<MeetingLetter>& letters, std::optional<Status> verdict) {
        for (const MeetingLetter& letter : letters) {
            mail_[{rank, letter.to}].push_back(letter.numbers);
        }
        if (!verdict) {
            return;
        }
        INFO("rank " << rank << ": " << outcome(*verdict));
        // No rank leaves with success before the lowest one, and after the lowest one has left, no rank stays behind.
        CHECK((verdict->is_ok() ? rank == 0 || gone_.count(0) == 1 : gone_.count(0) == 0));
        CHECK((verdict->is_ok() || verdict->code() == ErrorCode::timeout));
        if (verdict->is_ok()) {
            gone_.insert(rank);
        }
        if (rank == 0) {
            lowest_.reset();
        } else {
            guests_.erase(rank);
        }
    }

    std::mt19937 random_;
    const MeetingPlan plan_ = plan_of({0, 1, 2}, 2s);
    MeetingTime now_{};
    std::unique_ptr<LowestOfMeeting> lowest_;
    std::map<int, GuestOfMeeting> guests_;
    std::map<std::pair<int, int>, std::deque<Numbers>> mail_;
    std::set<int> gone_;
    int attempts_ = 0;
};

TEST_CASE("ranks that come and give up at any time go together or not at all", "[unit]") {
    int attempts = 0;
    for (unsigned seed = 0; seed < 500; ++seed) {
        INFO("seed " << seed);
        Ranks ranks(seed);
        ranks.run();
        CHECK(ranks.gone().size() == 3);  // all ranks meet in the end
        attempts += ranks.attempts();
    }
    CHECK(attempts > 2000);  // most attempts were given up
}

}  // namespace
}  // namespace rueda::collectives
