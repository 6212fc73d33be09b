// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// Returns a text that names a job on several hosts, for example "3f0c…@a,[::1]": a token that no other job has, and
/// the hosts.
[[nodiscard]] std::string describe_job(const std::string& token, const std::vector<std::string>& hosts);

/// A note that a parent of ranks keeps for `rueda top`: on which hosts the job is now. The hosts of an elastic job
/// change, so they cannot be in the environment of its ranks. The note is a file in memory, which disappears with this
/// process. Threads: one.
class JobNote {
public:
    /// The longest note in bytes.
    static constexpr std::size_t kLongest = std::size_t{60} << 10;

    /// Replaces the note by `text`. If `text` is "" or too long, or if there is no free descriptor, there is no note
    /// afterwards.
    void write(std::string_view text);

private:
    base::UniqueFd file_;
};

/// Returns the note that the process keeps; nothing if there is none, or if this user may not see it.
[[nodiscard]] std::optional<std::string> read_note_of(pid_t pid);

/// Returns the note of the ruedarun or the supervisor that has started the process, perhaps through a script. Returns
/// nothing if there is none. Any process of this user can have written the text.
[[nodiscard]] std::optional<std::string> read_job_note(pid_t pid);

}  // namespace rueda::launcher
