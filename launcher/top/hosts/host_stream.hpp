// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/network/poll_set.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/top/hosts/bounded_lines.hpp"

namespace rueda::launcher {

/// A process that prints lines of JSON on a host, for as long as the user watches. Only the newest line is kept.
/// Threads: one.
class HostStream {
public:
    /// The maximum length of a line in bytes. Each rank adds less than 1 KiB to a line, and a little more for each
    /// other rank that it waits for.
    static constexpr std::size_t kLongestLine = std::size_t{4} << 20;

    explicit HostStream(std::string host) : host_(std::move(host)) {}

    /// Starts the process. When the calling process ends, the started process also ends, even if the calling process
    /// was killed.
    [[nodiscard]] Status start(const std::vector<std::string>& words, const Environment& environment,
                               const sigset_t& signal_mask);
    void add_to(base::PollSet& set);
    /// Asks the process to end. The caller must collect the exit status of the process.
    void end() noexcept;

    [[nodiscard]] const std::string& host() const { return host_; }
    /// Returns the newest line that begins as a JSON object, unless an earlier call has returned it. Only the line's
    /// beginning is checked.
    [[nodiscard]] std::optional<std::string> take_line();
    /// Whether nothing more comes.
    [[nodiscard]] bool is_over() const { return !output_.is_open() && !errors_.is_open(); }
    /// Returns the line that says why the stream has ended, without control characters; "" if there is no such line.
    [[nodiscard]] const std::string& problem() const;

private:
    void read(base::UniqueFd& from, BoundedLines& lines, bool may_be_json);
    void note_line(std::string_view line, bool may_be_json);

    std::string host_;
    pid_t pid_ = 0;
    base::UniqueFd output_;
    base::UniqueFd errors_;
    BoundedLines output_lines_{kLongestLine};
    BoundedLines error_lines_{kLongestLine};
    std::optional<std::string> newest_;
    std::string of_rueda_;    ///< the last error that rueda itself has printed
    std::string first_line_;  ///< the first line that ssh or mpirun itself has printed
};

}  // namespace rueda::launcher
