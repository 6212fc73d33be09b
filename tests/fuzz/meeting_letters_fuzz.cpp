// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The messages of the rendezvous over MPI, as the lowest rank and as a guest receive them. Whatever arrives, and
// whenever: each side ends when its time is over, gives an error of one line, and continues to answer ranks that come
// later.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "collectives/mpi/meeting_letters.hpp"

namespace {

using namespace rueda;
using namespace rueda::collectives;

void expect(bool holds) {
    if (!holds) {
        std::abort();
    }
}

/// Reads the input as messages: a byte for the time that passes, a byte for the sender, a byte for the number of
/// integers, and these integers.
class Letters {
public:
    explicit Letters(std::span<const std::uint8_t> input) : rest_(input) {}

    [[nodiscard]] bool empty() const { return rest_.size() < 3; }
    struct Letter {
        std::chrono::milliseconds pause{0};
        int from = 0;
        LetterNumbers numbers;
    };
    Letter take(std::size_t longest) {
        Letter letter{std::chrono::milliseconds(rest_[0] * 40), rest_[1] % 6, {}};
        const std::size_t wanted = std::min<std::size_t>(rest_[2] % 16, longest);
        rest_ = rest_.subspan(3);
        const std::size_t count = std::min(wanted, rest_.size() / sizeof(std::int32_t));
        letter.numbers.resize(count);
        if (count > 0) {
            std::memcpy(letter.numbers.data(), rest_.data(), count * sizeof(std::int32_t));
        }
        rest_ = rest_.subspan(count * sizeof(std::int32_t));
        return letter;
    }

private:
    std::span<const std::uint8_t> rest_;
};

void check_verdict(const Status& verdict) {
    const std::string& text = verdict.message();
    expect(verdict.is_ok() == text.empty());
    expect(std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }));
}

void be_the_lowest(std::span<const std::uint8_t> input, const MeetingPlan& plan) {
    Letters letters(input);
    MeetingTime now{};
    LowestOfMeeting lowest(plan, now);
    const auto check_letters = [&] {
        for (const MeetingLetter& letter : lowest.take_letters()) {
            expect(letter.to != plan.lowest() &&
                   std::find(plan.members.begin(), plan.members.end(), letter.to) != plan.members.end());
            expect(letter.numbers.size() >= 2);
        }
    };
    while (!letters.empty()) {
        const Letters::Letter letter = letters.take(plan.longest());
        now += letter.pause;
        const bool had_ended = lowest.verdict().has_value();
        lowest.hear(letter.from, letter.numbers, now);
        lowest.look(now);
        expect(!had_ended || lowest.verdict());
        check_letters();
    }
    // The time of the rendezvous passes, and then the time for the answer to the last question.
    lowest.look(now + plan.timeout);
    lowest.look(now + plan.timeout + 2 * kConfirming);
    lowest.look(now + plan.timeout + 4 * kConfirming);
    expect(lowest.verdict().has_value());
    check_verdict(*lowest.verdict());
    check_letters();
}

void be_a_guest(std::span<const std::uint8_t> input, const MeetingPlan& plan) {
    Letters letters(input);
    MeetingTime now{};
    GuestOfMeeting guest(plan, 7, now);
    expect(guest.take_letters().size() == 1);
    while (!letters.empty()) {
        const Letters::Letter letter = letters.take(plan.longest());
        now += letter.pause;
        guest.hear(letter.numbers, now);
        guest.look(now);
        for (const MeetingLetter& answer : guest.take_letters()) {
            expect(answer.to == plan.lowest() && answer.numbers.size() <= 3 && answer.numbers[1] == 7);
        }
    }
    guest.look(now + plan.timeout + kMeetingGrace + kCommitted);
    expect(guest.verdict().has_value());
    check_verdict(*guest.verdict());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span input(data, size);
    for (const bool all : {false, true}) {
        MeetingPlan plan;
        plan.size = all ? 3 : 6;
        plan.members = all ? std::vector<int>{0, 1, 2} : std::vector<int>{1, 2, 4};
        plan.is_by_list = all;
        plan.timeout = std::chrono::milliseconds(1500);
        be_the_lowest(input, plan);
        be_a_guest(input, plan);
    }
    return 0;
}
