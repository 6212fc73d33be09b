// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/captured_run.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/unique_fd.hpp"
#include "launcher/child_process.hpp"
#include "launcher/poll_set.hpp"

namespace rueda::launcher {

Result<CapturedRun> run_captured(const std::vector<std::string>& words,
                                 const std::map<std::string, std::string>& environment,
                                 std::chrono::milliseconds time) {
    constexpr std::size_t kLongestText = 65536;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return system_failure(ErrorCode::resource_exhausted, "pipe2");
    }
    const base::UniqueFd read_end(ends[0]);
    base::UniqueFd write_end(ends[1]);
    const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ChildSpec spec;
    spec.file = words.front();
    spec.words = words;
    spec.environment = environment;
    spec.stdin_fd = null.value();
    spec.stdout_fd = write_end.value();
    spec.stderr_fd = write_end.value();
    ::pthread_sigmask(SIG_SETMASK, nullptr, &spec.signal_mask);
    const Result<pid_t> child = start_child(spec);
    RUEDA_RETURN_IF_FAILED(child.status());
    write_end.reset();
    CapturedRun run;
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (!run.in_time && run.text.size() < kLongestText && std::chrono::steady_clock::now() < deadline) {
        PollSet set;
        set.wake_at(deadline);
        set.add(read_end.value(), POLLIN, [&] {
            std::array<char, 4096> buffer;
            const ssize_t got = ::read(read_end.value(), buffer.data(), buffer.size());
            run.in_time = got <= 0;
            run.text.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
        });
        set.wait_and_dispatch();
    }
    if (!run.in_time) {
        ::kill(-child.value(), SIGKILL);  // its whole group: an mpirun has children
    }
    ::waitpid(child.value(), &run.wait_status, 0);
    return run;
}

}  // namespace rueda::launcher
