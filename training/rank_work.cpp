// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/rank_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/agreement.hpp"
#include "training/log_warning.hpp"

namespace rueda::training {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// The tags of the messages. python/rueda/training/_rank_work.py uses the same.
constexpr std::int32_t kEnded = 0x7275'6564;
constexpr std::int32_t kWaited = 0x7275'6565;
/// How long rank 0 waits for the answers. A thread of Rueda answers, so an answer takes milliseconds.
constexpr Seconds kAnswerTime{1.0};

/// A message that stays in memory until it was sent or received.
template <class Number>
using Message = std::shared_ptr<std::array<Number, 1>>;

template <class Number>
Message<Number> message_of(Number value) {
    return std::make_shared<std::array<Number, 1>>(std::array<Number, 1>{value});
}

template <class Number>
void send_and_forget(Number value, int peer, std::int32_t tag) {
    const Message<Number> message = message_of(value);
    send_async(*message, peer, tag).on_completion([message](const std::exception_ptr& /*failed*/) {});
}

/// Makes a thread of Rueda tell rank 0, when its work has ended, how long an operation of this rank has waited.
void answer_at_the_end() {
    const Message<std::uint8_t> wants_answer = message_of<std::uint8_t>(0);
    receive_async(*wants_answer, 0, kEnded).on_completion([wants_answer](const std::exception_ptr& failed) {
        if (failed != nullptr || (*wants_answer)[0] == 0) {
            return;  // after a failure the job has ended, so rank 0 needs no answer
        }
        try {
            const auto counts = nlohmann::json::parse(metrics());
            send_and_forget(counts.at("rueda_oldest_pending_operation_seconds").get<double>(), 0, kWaited);
        } catch (const std::exception&) {
            return;  // without an answer, rank 0 assumes that this rank has not waited
        }
    });
}

/// A rank that has waited, and for how long.
struct Wait {
    int rank = 0;
    double seconds = 0.0;
};

/// Asks the other ranks how long they have waited. Ranks that have not called on_rank_zero() yet do not answer.
std::vector<Wait> ask_for_waits(double most) {
    std::vector<Message<double>> answers;
    std::vector<Handle> handles;
    for (int each = 1; each < size(); ++each) {
        answers.push_back(message_of(0.0));
        handles.push_back(receive_async(*answers.back(), each, kWaited));
        // A late answer still goes to this message. Later answers come later, because messages arrive in order.
        handles.back().on_completion([message = answers.back()](const std::exception_ptr& /*failed*/) {});
    }
    const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(kAnswerTime);
    std::vector<Wait> waits;
    for (std::size_t i = 0; i < handles.size(); ++i) {
        try {
            handles[i].wait_for(std::max(Seconds(deadline - Clock::now()), Seconds(0)));
            waits.push_back({static_cast<int>(i) + 1, std::min((*answers[i])[0], most)});
        } catch (const Timeout&) {
            continue;
        }
    }
    return waits;
}

void report_waits(const std::string& what, double seconds, const RankZeroOptions& options) {
    const double least = Seconds(options.warn_after).count();
    const bool wants_answers = seconds >= least;  // otherwise no rank can have waited that long
    for (int each = 1; each < size(); ++each) {
        send_and_forget<std::uint8_t>(wants_answers ? 1 : 0, each, kEnded);
    }
    if (!wants_answers) {
        return;
    }
    std::vector<Wait> waits = ask_for_waits(seconds);
    std::erase_if(waits, [&](const Wait& each) { return each.seconds < least; });
    if (waits.empty()) {
        return;
    }
    const Wait longest = *std::max_element(waits.begin(), waits.end(),
                                           [](const Wait& a, const Wait& b) { return a.seconds < b.seconds; });
    const std::string line = fmt::format(
        "Rank 0 worked on '{}' for {:.1f} s, and {} of {} other rank{} waited for it; rank {} waited for {:.1f} s. "
        "Divide "
        "the work with on_all_ranks(), do it less often, or do it in another program",
        what, seconds, waits.size(), size() - 1, size() == 2 ? "" : "s", longest.rank, longest.seconds);
    if (options.warn) {
        options.warn(line);
    } else {
        warnings_to_the_log(0)(line);
    }
}

}  // namespace

void on_rank_zero(const std::string& what, const std::function<void()>& body, const RankZeroOptions& options) {
    if (rank() != 0) {
        answer_at_the_end();
        return;
    }
    const Clock::time_point began = Clock::now();
    {
        const Busy busy(what);
        body();
    }
    report_waits(what, Seconds(Clock::now() - began).count(), options);
}

void on_all_ranks(const std::string& what, const std::function<void()>& body) {
    run_on_every_rank([&] {
        const Busy busy(what);
        body();
    });
}

}  // namespace rueda::training
