// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/stacks/stack_questions.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"

namespace rueda::base {
namespace {

/// How long to wait for an answer. The asked rank checks for questions every 0.2 s (its liveness interval), waits for
/// its main thread for up to a second, and then looks up the names of functions.
constexpr std::int64_t kPatienceNs = 2'500'000'000;

/// Returns the first word of a small file of /proc, or an empty text if the file cannot be read.
std::string first_word(const std::string& path) {
    const std::optional<std::string> text = read_small_file(path);
    return text ? printable(std::string_view(*text).substr(0, text->find_first_of(" \n")), 80) : "";
}

}  // namespace

std::string describe_from_outside(std::int32_t pid) {
    std::string text;
    // The file wchan contains "0" if the thread is in no kernel function, or if this user may not read the function's
    // name.
    if (const std::string function = first_word(fmt::format("/proc/{}/wchan", pid));
        !function.empty() && function != "0") {
        text += "in the kernel function " + function;
    }
    // The first word of the file syscall is the number of a system call, or "running", or -1 if the thread is in the
    // kernel for another reason.
    if (const auto call = parse_integer<std::int32_t>(first_word(fmt::format("/proc/{}/syscall", pid)));
        call && *call >= 0) {
        text += fmt::format("{}in system call {}", text.empty() ? "" : ", ", *call);
    }
    return text.empty() ? "" : "its main thread is " + text;
}

bool has_stack(std::string_view text) { return !text.empty() && !text.starts_with("stack: "); }

bool StackQuestions::responds(std::uint32_t member, std::int64_t now_ns) const {
    return now_ns - blocks_.of(member).heartbeat_ns.load(std::memory_order_relaxed) <= silence_limit_ns_;
}

/// Whether the newest question was answered. The numbers of questions and answers only grow, and start again at 0 after
/// 2^32 - 1. Therefore the sign of their difference shows which number is newer.
bool StackQuestions::has_answered(std::uint32_t member) const {
    const std::uint32_t answered = blocks_.stack_of(member).answered.load(std::memory_order_acquire);
    return static_cast<std::int32_t>(answered - asked_[member].number) >= 0;
}

bool StackQuestions::ask(std::uint64_t members, std::int64_t now_ns) {
    bool complete = true;
    for (std::uint32_t member = 0; member < asked_.size(); ++member) {
        if ((members >> member & 1) == 0) {
            continue;
        }
        StackBlock& block = blocks_.stack_of(member);
        const auto offer = static_cast<StackOffer>(block.offer.load(std::memory_order_acquire));
        if (offer != StackOffer::offered || !responds(member, now_ns)) {
            continue;
        }
        Question& question = asked_[member];
        if (question.asked_ns == 0) {
            question = {block.asked.fetch_add(1, std::memory_order_acq_rel) + 1, now_ns};
        }
        complete = complete && (has_answered(member) || now_ns - question.asked_ns >= kPatienceNs);
    }
    return complete;
}

std::string StackQuestions::text_of(std::uint32_t member, std::int32_t pid, std::int64_t now_ns) const {
    StackBlock& block = blocks_.stack_of(member);
    const auto offer = static_cast<StackOffer>(block.offer.load(std::memory_order_acquire));
    if (offer == StackOffer::none) {
        return {};
    }
    const bool was_asked = asked_[member].asked_ns != 0;
    if (offer == StackOffer::refused || (was_asked && has_answered(member))) {
        return printable_lines(block.text.read());
    }
    const std::string outside = describe_from_outside(pid);
    return fmt::format(
        "stack: it could not be read: {}{}{}",
        responds(member, now_ns) ? "the rank has not answered in time" : "the rank's background thread does not run",
        outside.empty() ? "" : "; ", outside);
}

}  // namespace rueda::base
