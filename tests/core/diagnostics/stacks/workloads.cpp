// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/core/diagnostics/stacks/workloads.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/system/thread_signals.hpp"
#include "core/diagnostics/stacks/frame_names.hpp"
#include "core/diagnostics/stacks/stack_signal.hpp"
#include "core/diagnostics/stacks/stack_text.hpp"

namespace rueda::core::test {

// Each function continues after its call, so that the compiler cannot turn the call into a jump that removes the
// function from the stack.

long read_one_byte(int descriptor) {
    char byte = 0;
    const long bytes = ::read(descriptor, &byte, 1);
    return bytes == 1 && byte == 'x' ? 1 : -1;
}

void sleep_until(const std::atomic<bool>& done) {
    while (!done.load(std::memory_order_acquire)) {
        ::usleep(100'000);  // a signal ends the sleep early
    }
}

void allocate_until(const std::atomic<bool>& done) {
    std::size_t bytes = 16;
    while (!done.load(std::memory_order_acquire)) {
        void* volatile memory = std::malloc(bytes);
        std::free(memory);
        bytes = bytes * 3 % 100'003 + 1;
    }
}

InstalledHandler::InstalledHandler() {
    REQUIRE(getpid() == gettid());
    REQUIRE(install_stack_handler(SIGUSR2));
}

InstalledHandler::~InstalledHandler() { remove_stack_handler(); }

std::vector<std::string> stacks_during(const std::function<void()>& work, const std::function<void()>& end) {
    // A thread may start late on a loaded machine in a build with sanitizers.
    constexpr std::chrono::seconds kPatience{20};
    std::vector<std::string> texts;
    std::thread capturing([&] {
        const sigset_t blocked = base::signals_of_the_program();
        pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
        FrameNames names;
        for (int i = 0; i < kCaptures; ++i) {
            const Result<RawStack> stack = capture_main_thread(kPatience);
            texts.push_back(stack.is_ok() ? format_stack(stack.value(), names) : "failed: " + stack.status().message());
        }
        end();
    });
    work();
    capturing.join();
    return texts;
}

int count_with(const std::vector<std::string>& texts, const std::string& word) {
    return static_cast<int>(std::count_if(
        texts.begin(), texts.end(), [&](const std::string& text) { return text.find(word) != std::string::npos; }));
}

}  // namespace rueda::core::test
