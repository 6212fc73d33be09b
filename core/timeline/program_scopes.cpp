// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/timeline/program_scopes.hpp"

#include <thread>

#include "base/system/clock.hpp"

namespace rueda::core {

namespace {

/// The largest number of names that are remembered. Usual programs use few names for their scopes. The limit is for a
/// program that makes a new name for each scope: its names must not fill the memory.
constexpr std::size_t kMostNames = 256;
/// How often number_of() tries to write a name. An attempt fails while another thread of this rank writes a name, which
/// takes less than a microsecond.
constexpr int kAttempts = 1000;
/// A name is recorded with the id of a process set. The scopes of the program belong to no set, so their names have
/// this id.
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

/// Returns the name's number in the recorder. Returns 0 if the name could not be written; the timeline then shows the
/// scope without a name.
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
