// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stacks/stack_responder.hpp"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/system/clock.hpp"
#include "core/diagnostics/stacks/frame_names.hpp"
#include "core/diagnostics/stacks/stack_text.hpp"

namespace rueda::core {
namespace {

/// How long to wait until the main thread has handled the signal. It usually does this within milliseconds, and on a
/// loaded machine within some tenths of a second.
constexpr std::chrono::seconds kPatienceOfCapture{1};
constexpr std::string_view kNoMemory = "stack: it could not be taken: there was no memory for it";

/// Returns a random delay, which passes before a stack is taken. The background thread often notices the request for a
/// stack because a call of Rueda has just woken it. Without the delay, the stack would therefore often show only this
/// call, and not where a slow rank spends its time. The longest delay is the time that a fast trainer needs for a few
/// steps.
std::chrono::microseconds random_delay() {
    constexpr std::int64_t kLongestUs = 50'000;
    // the nanoseconds of the clock serve as a random number
    return std::chrono::microseconds(base::monotonic_ns() % kLongestUs);
}

}  // namespace

std::string describe_stack(const Result<RawStack>& stack) {
    if (!stack.is_ok()) {
        return "stack: it could not be taken: " + stack.status().message();
    }
    FrameNames names;
    return format_stack(stack.value(), names);
}

/// The data that the background thread shares with the thread that takes the stack. `mutex` protects all fields, and is
/// not held while a stack is taken or described.
struct StackResponder::Shared {
    std::mutex mutex;
    std::condition_variable changed;    // the thread notifies this variable; stop() waits on it
    base::StackBlock* block = nullptr;  // Null after stop() has given up waiting for the thread: the memory of the
                                        // block may then be freed while the thread still runs.
    bool has_captured = false;          // true after the capture, when the thread does not use the signal any more
    bool has_ended = false;

    void set(bool Shared::*what) {
        const std::lock_guard lock(mutex);
        this->*what = true;
        changed.notify_all();
    }
    void answer(std::uint32_t question, std::string_view text) {
        const std::lock_guard lock(mutex);
        if (block != nullptr) {
            block->text.write(text);
            block->answered.store(question, std::memory_order_release);  // partner: base::StackQuestions
        }
    }
    void run(std::uint32_t question, const std::function<std::string(const Result<RawStack>&)>& describe) noexcept {
        try {
            std::this_thread::sleep_for(random_delay());
            const Result<RawStack> stack = capture_main_thread(kPatienceOfCapture);
            set(&Shared::has_captured);
            answer(question, describe(stack));
        } catch (const std::exception&) {
            answer(question, kNoMemory);
        }
        set(&Shared::has_captured);
        set(&Shared::has_ended);
    }
    [[nodiscard]] bool is_over() {
        const std::lock_guard lock(mutex);
        return has_ended;
    }
};

void StackResponder::look() {
    if (thread_.joinable() && shared_->is_over()) {
        thread_.join();
    }
    const std::uint32_t asked = block_.asked.load(std::memory_order_acquire);
    if (asked == answered_ || thread_.joinable()) {
        return;
    }
    answered_ = asked;
    try {
        shared_ = std::make_shared<Shared>();
        shared_->block = &block_;
        thread_ = std::thread([shared = shared_, describe = describe_, asked] { shared->run(asked, describe); });
        pthread_setname_np(thread_.native_handle(), "rueda-stack");
    } catch (const std::system_error&) {
        refuse(asked, "stack: it could not be taken: no thread could be started for it (limit of processes)");
    } catch (const std::exception&) {
        refuse(asked, kNoMemory);
    }
}

void StackResponder::refuse(std::uint32_t question, std::string_view text) {
    block_.text.write(text);
    block_.answered.store(question, std::memory_order_release);  // partner: base::StackQuestions
}

/// The wait for the capture has no limit, because the capture itself has one. The wait for the names uses the system's
/// clock, because ThreadSanitizer of clang 14 does not know waits with the monotonic clock.
void StackResponder::stop() {
    if (!thread_.joinable()) {
        return;
    }
    bool has_ended = false;
    {
        std::unique_lock lock(shared_->mutex);
        shared_->changed.wait(lock, [this] { return shared_->has_captured; });
        has_ended = shared_->changed.wait_until(lock, std::chrono::system_clock::now() + kPatience,
                                                [this] { return shared_->has_ended; });
        shared_->block = nullptr;
    }
    if (has_ended) {
        thread_.join();
    } else {
        thread_.detach();
    }
}

}  // namespace rueda::core
