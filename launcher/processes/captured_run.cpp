// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/processes/captured_run.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>

#include "base/network/poll_set.hpp"
#include "base/unique_fd.hpp"
#include "launcher/processes/child_process.hpp"

namespace rueda::launcher {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestText = 65536;

/// A program that is running. Threads: only one thread may use an object.
class Running {
public:
    Status start(const std::vector<std::string>& words, const Environment& environment, Clock::time_point deadline) {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
            return system_failure(ErrorCode::resource_exhausted, "pipe2");
        }
        read_end_.reset(ends[0]);
        const base::UniqueFd write_end(ends[1]);
        const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        ChildSpec spec;
        spec.file = words.front();
        spec.words = words;
        spec.environment = environment;
        spec.stdin_fd = null.value();
        spec.stdout_fd = write_end.value();
        spec.stderr_fd = write_end.value();
        ::pthread_sigmask(SIG_SETMASK, nullptr, &spec.signal_mask);
        run_.begin = std::chrono::system_clock::now();
        deadline_ = deadline;
        const Result<pid_t> child = start_child(spec);
        RUEDA_RETURN_IF_FAILED(child.status());
        pid_ = child.value();
        run_.was_started = true;
        return {};
    }

    void add_to(base::PollSet& set) {
        set.add(read_end_.value(), POLLIN, [this] { read_some(); });
        set.wake_at(deadline_);
    }

    /// Whether the program must be ended: its output has ended, its time limit has passed, or it has written too much.
    [[nodiscard]] bool is_over() const {
        return run_.in_time || Clock::now() >= deadline_ || run_.text.size() >= kLongestText;
    }

    CapturedRun finish() && {
        run_.end = std::chrono::system_clock::now();
        if (!run_.in_time) {
            ::kill(-pid_, SIGKILL);  // this call signals the whole process group, because mpirun has child processes
        }
        ::waitpid(pid_, &run_.wait_status, 0);
        return std::move(run_);
    }

private:
    void read_some() {
        std::array<char, 4096> buffer;
        const ssize_t got = ::read(read_end_.value(), buffer.data(), buffer.size());
        run_.in_time = got <= 0;
        run_.text.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    }

    base::UniqueFd read_end_;
    pid_t pid_ = 0;
    Clock::time_point deadline_;
    CapturedRun run_;
};

}  // namespace

Result<std::vector<CapturedRun>> run_all_captured(const std::vector<std::vector<std::string>>& commands,
                                                  const Environment& environment, CaptureTimes times,
                                                  std::size_t at_once) {
    const Clock::time_point end_of_all = Clock::now() + times.all;
    std::vector<CapturedRun> results(commands.size());
    std::map<std::size_t, std::unique_ptr<Running>> running;  // the running programs, indexed by the number of the
                                                              // command
    std::size_t next = 0;
    Status status;
    const auto may_start = [&] { return next < commands.size() && status.is_ok() && Clock::now() < end_of_all; };
    while (!running.empty() || may_start()) {
        if (running.size() < at_once && may_start()) {
            auto one = std::make_unique<Running>();
            status = one->start(commands[next], environment, std::min(Clock::now() + times.each, end_of_all));
            if (status.is_ok()) {
                running.emplace(next++, std::move(one));
            }
            continue;
        }
        base::PollSet set;
        for (auto& [number, one] : running) {
            one->add_to(set);
        }
        set.wait_and_dispatch();
        for (auto one = running.begin(); one != running.end();) {
            if (one->second->is_over()) {
                results[one->first] = std::move(*one->second).finish();
                one = running.erase(one);
            } else {
                ++one;
            }
        }
    }
    RUEDA_RETURN_IF_FAILED(status);
    return results;
}

Result<CapturedRun> run_captured(const std::vector<std::string>& words, const Environment& environment,
                                 std::chrono::milliseconds time) {
    Result<std::vector<CapturedRun>> runs = run_all_captured({words}, environment, {time, time}, 1);
    RUEDA_RETURN_IF_FAILED(runs.status());
    return std::move(runs.value().front());
}

}  // namespace rueda::launcher
