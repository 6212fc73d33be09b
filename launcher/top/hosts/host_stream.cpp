// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/hosts/host_stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "launcher/processes/child_process.hpp"
#include "launcher/top/hosts/ask_hosts.hpp"

namespace rueda::launcher {

Status HostStream::start(const std::vector<std::string>& words, const Environment& environment,
                         const sigset_t& signal_mask) {
    Result<OutputPipe> output = open_output_pipe();
    RUEDA_RETURN_IF_FAILED(output.status());
    Result<OutputPipe> errors = open_output_pipe();
    RUEDA_RETURN_IF_FAILED(errors.status());
    const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ChildSpec spec;
    spec.file = words.front();
    spec.words = words;
    spec.environment = environment;
    spec.stdin_fd = null.value();
    spec.stdout_fd = output.value().write_end.value();
    spec.stderr_fd = errors.value().write_end.value();
    spec.death_signal = SIGTERM;  // on SIGTERM, mpirun ends the process on the other host
    spec.signal_mask = signal_mask;
    const Result<pid_t> child = start_child(spec);
    RUEDA_RETURN_IF_FAILED(child.status());
    pid_ = child.value();
    output_ = std::move(output.value().read_end);
    errors_ = std::move(errors.value().read_end);
    return {};
}

void HostStream::add_to(base::PollSet& set) {
    if (output_.is_open()) {
        set.add(output_.value(), POLLIN, [this] { read(output_, output_lines_, /*may_be_json=*/true); });
    }
    if (errors_.is_open()) {
        set.add(errors_.value(), POLLIN, [this] { read(errors_, error_lines_, /*may_be_json=*/false); });
    }
}

void HostStream::end() noexcept {
    output_.reset();
    errors_.reset();
    if (pid_ != 0) {
        ::kill(pid_, SIGTERM);
        pid_ = 0;
    }
}

std::optional<std::string> HostStream::take_line() { return std::exchange(newest_, std::nullopt); }

const std::string& HostStream::problem() const { return of_rueda_.empty() ? first_line_ : of_rueda_; }

void HostStream::read(base::UniqueFd& from, BoundedLines& lines, bool may_be_json) {
    std::array<char, 65536> buffer;
    const ssize_t got = ::read(from.value(), buffer.data(), buffer.size());
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            from.reset();
        }
        return;
    }
    const bool is_short = lines.feed({buffer.data(), static_cast<std::size_t>(got)},
                                     [this, may_be_json](std::string_view line) { note_line(line, may_be_json); });
    if (!is_short) {
        of_rueda_ = fmt::format("it printed a line of more than {} MiB", kLongestLine >> 20);
        newest_.reset();
        end();
    }
}

void HostStream::note_line(std::string_view line, bool may_be_json) {
    if (may_be_json && line.starts_with('{')) {
        newest_ = line;
    } else if (line.starts_with(kErrorMark)) {
        of_rueda_ = printable_answer(line.substr(kErrorMark.size()));
    } else if (first_line_.empty() && has_words(line)) {
        first_line_ = printable_answer(line);
    }
}

}  // namespace rueda::launcher
