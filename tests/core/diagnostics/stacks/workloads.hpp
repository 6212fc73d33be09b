// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace rueda::core::test {

// What the main thread does while its stack is taken. The names of these functions are expected in the stacks.
/// Returns the result of read(2).
[[gnu::noinline, gnu::visibility("default")]] long read_one_byte(int descriptor);
[[gnu::noinline, gnu::visibility("default")]] void sleep_until(const std::atomic<bool>& done);
[[gnu::noinline, gnu::visibility("default")]] void allocate_until(const std::atomic<bool>& done);

/// A handler of the stack signal for the lifetime of this object. It needs the main thread to be the calling one.
class InstalledHandler {
public:
    InstalledHandler();
    ~InstalledHandler();
    InstalledHandler(const InstalledHandler&) = delete;
    InstalledHandler& operator=(const InstalledHandler&) = delete;
};

/// Runs `work` in this thread, which is the main thread. Meanwhile another thread takes its stack 20 times, and then
/// calls `end`, so that `work` returns. Returns the texts; a capture that failed gives its error.
[[nodiscard]] std::vector<std::string> stacks_during(const std::function<void()>& work,
                                                     const std::function<void()>& end);

/// How many of the texts contain the word.
[[nodiscard]] int count_with(const std::vector<std::string>& texts, const std::string& word);

inline constexpr int kCaptures = 20;

/// libdw finds the lines of a module by its section .debug_aranges, which clang writes only with -gdwarf-aranges.
#if defined(__clang__)
inline constexpr bool kHasLines = false;
#else
inline constexpr bool kHasLines = true;
#endif

}  // namespace rueda::core::test
