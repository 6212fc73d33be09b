// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace rueda::core::test {

// The main thread runs one of these functions while its stack is captured. The tests look for the names of the
// functions.
// read_one_byte() returns the result of read(2).
[[gnu::noinline, gnu::visibility("default")]] long read_one_byte(int descriptor);
[[gnu::noinline, gnu::visibility("default")]] void sleep_until(const std::atomic<bool>& done);
[[gnu::noinline, gnu::visibility("default")]] void allocate_until(const std::atomic<bool>& done);

/// Installs the handler of the stack signal for the lifetime of this object. Only the main thread may create one.
class InstalledHandler {
public:
    InstalledHandler();
    ~InstalledHandler();
    InstalledHandler(const InstalledHandler&) = delete;
    InstalledHandler& operator=(const InstalledHandler&) = delete;
};

/// Runs `work` in the calling thread, which must be the main thread. Meanwhile another thread captures the main
/// thread's stack kCaptures times, and then calls `end`, which makes `work` return. Returns the text of each capture,
/// or its error.
[[nodiscard]] std::vector<std::string> stacks_during(const std::function<void()>& work,
                                                     const std::function<void()>& end);

[[nodiscard]] int count_with(const std::vector<std::string>& texts, const std::string& word);

inline constexpr int kCaptures = 20;

/// Whether libdw finds line numbers. For this, libdw needs the section .debug_aranges, which Clang writes only with
/// -gdwarf-aranges.
#if defined(__clang__)
inline constexpr bool kHasLines = false;
#else
inline constexpr bool kHasLines = true;
#endif

}  // namespace rueda::core::test
