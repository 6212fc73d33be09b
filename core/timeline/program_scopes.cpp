// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/timeline/program_scopes.hpp"

#include <thread>

#include "base/system/clock.hpp"

namespace rueda::core {

namespace {

/// Scopes of a program have few names. One that makes a new name each time does not fill the memory.
constexpr std::size_t kMostNames = 256;
/// How often it tries to write a name while another thread of this rank writes one, which takes less than a
/// microsecond.
constexpr int kAttempts = 1000;
/// Names of scopes belong to no process set.
constexpr std::int32_t kNoSet = -1;

}  // namespace

void ProgramScopes::add(std::string_view name, std::int64_t began_ns) {
    const std::int64_t now = base::monotonic_ns();
    const std::lock_guard lock(mutex_);
    writer_.note_scope(number_of(name), began_ns, now);
}

void ProgramScopes::end() {
    const std::lock_guard lock(mutex_);
    writer_ = base::RecorderWriter();
}

/// 0 if it could not be written; the scope then has no name.
std::uint64_t ProgramScopes::number_of(std::string_view name) {
    if (names_.size() >= kMostNames) {
        names_.clear();
    }
    std::uint64_t& number = names_[std::string(name)];
    for (int attempt = 0; !writer_.knows(number) && attempt < kAttempts; ++attempt) {
        number = writer_.note_name(kNoSet, name);
        if (number == 0) {
            std::this_thread::yield();
        }
    }
    return number;
}

}  // namespace rueda::core
