// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stacks/stack_responder.hpp"

#include <pthread.h>

#include <chrono>
#include <exception>
#include <system_error>

#include "core/diagnostics/stacks/frame_names.hpp"
#include "core/diagnostics/stacks/stack_signal.hpp"
#include "core/diagnostics/stacks/stack_text.hpp"

namespace rueda::core {
namespace {

/// A running or sleeping thread handles a signal within milliseconds, on a loaded machine within tenths of a second.
constexpr std::chrono::seconds kPatience{1};

}  // namespace

std::string stack_of_main_thread() {
    const Result<RawStack> stack = capture_main_thread(kPatience);
    if (!stack.is_ok()) {
        return "stack: it could not be taken: " + stack.status().message();
    }
    FrameNames names;
    return format_stack(stack.value(), names);
}

void StackResponder::look() {
    if (thread_.joinable() && finished_.load(std::memory_order_acquire)) {
        thread_.join();
    }
    const std::uint32_t asked = block_.asked.load(std::memory_order_acquire);
    if (asked == answered_ || thread_.joinable()) {
        return;
    }
    answered_ = asked;
    finished_.store(false, std::memory_order_relaxed);
    try {
        thread_ = std::thread([this, asked] { answer(asked); });
        pthread_setname_np(thread_.native_handle(), "rueda-stack");
    } catch (const std::system_error&) {
        block_.text.write("stack: it could not be taken: no thread could be started for it (limit of processes)");
        block_.answered.store(asked, std::memory_order_release);
    }
}

void StackResponder::stop() {
    if (thread_.joinable()) {
        thread_.join();
    }
}

void StackResponder::answer(std::uint32_t question) noexcept {
    try {
        block_.text.write(stack_of_main_thread());
    } catch (const std::exception&) {
        block_.text.write("stack: it could not be taken: there was no memory for it");
    }
    block_.answered.store(question, std::memory_order_release);  // partner: base::StackQuestions
    finished_.store(true, std::memory_order_release);            // partner: look()
}

}  // namespace rueda::core
