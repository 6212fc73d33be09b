// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/show/stream_views.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

#include "launcher/top/interval.hpp"
#include "launcher/top/screen.hpp"

namespace rueda::launcher {

namespace {

/// Waits for `time`, and returns true. If the reader of the standard output goes away earlier, returns false at once.
/// Otherwise the process would run until the end of the interval, which may be long.
bool wait_while_read(std::chrono::nanoseconds time) {
    // A reader that goes away causes POLLERR for a pipe or socket, and POLLHUP for a terminal. poll() reports both
    // events without being asked.
    pollfd output{STDOUT_FILENO, 0, 0};
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(time).count();  // at most an hour
    return ::poll(&output, 1, static_cast<int>(milliseconds)) <= 0;
}

bool print_line(const std::string& line) {
    return std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0;
}

}  // namespace

int stream_views(Job& job, std::chrono::nanoseconds interval) {
    JobWatch watch(job, interval);
    while (const std::optional<TopView> view = watch.next(wait_while_read)) {
        if (!view->job.has_processes()) {
            fmt::print(stderr, "rueda: job {} has ended\n", job.id);
            return 0;
        }
        if (!print_line(view_as_json_line(*view))) {
            return 0;
        }
    }
    return 0;
}

}  // namespace rueda::launcher
