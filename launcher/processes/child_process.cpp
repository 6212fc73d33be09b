// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/processes/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

/// Everything that the child process needs. It is prepared before the fork, because after the fork only
/// async-signal-safe calls are allowed.
struct PreparedChild {
    const ChildSpec& spec;
    std::vector<std::string> words;
    std::vector<std::string> variables;
    std::vector<char*> argv;
    std::vector<char*> envp;
    pid_t parent;
    int report_fd;

    PreparedChild(const ChildSpec& child, int report)
        : spec(child), words(child.words), parent(::getpid()), report_fd(report) {
        for (const auto& [name, value] : child.environment) {
            variables.push_back(fmt::format("{}={}", name, value));
        }
        argv = pointers_to(words);
        envp = pointers_to(variables);
    }
};

[[noreturn]] void report_and_exit(const PreparedChild& child) {
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(child.report_fd, &error, sizeof error);
    ::_exit(127);
}

void place_descriptor(const PreparedChild& child, int from, int to) {
    if (from != kInherit && ::dup2(from, to) < 0) {
        report_and_exit(child);
    }
}

/// Restores the default action of signals that ruedarun ignores. Otherwise the program would ignore these signals too.
void restore_signals() {
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGXFSZ, SIG_DFL);
}

[[noreturn]] void become_program(const PreparedChild& child) {
    if (child.spec.own_group) {
        ::setpgid(0, 0);
    }
    ::prctl(PR_SET_PDEATHSIG, child.spec.death_signal);
    // if the parent died before the prctl() call, no signal will come, so the child ends itself
    if (::getppid() != child.parent) {
        ::_exit(127);
    }
    place_descriptor(child, child.spec.stdin_fd, STDIN_FILENO);
    place_descriptor(child, child.spec.stdout_fd, STDOUT_FILENO);
    place_descriptor(child, child.spec.stderr_fd, STDERR_FILENO);
    if (child.spec.kept_fd >= 0 && ::fcntl(child.spec.kept_fd, F_SETFD, 0) != 0) {
        report_and_exit(child);
    }
    restore_signals();
    ::pthread_sigmask(SIG_SETMASK, &child.spec.signal_mask, nullptr);
    ::execvpe(child.spec.file.c_str(), child.argv.data(), child.envp.data());
    report_and_exit(child);
}

/// Collects the exit status of all children that have ended. Returns false if no child is left.
bool reap_all() {
    pid_t pid = 0;
    do {
        pid = ::waitpid(-1, nullptr, WNOHANG);
    } while (pid > 0 || (pid < 0 && errno == EINTR));
    return pid == 0;
}

}  // namespace

/// The parent is the fourth field of /proc/<pid>/stat. The second field, the name in parentheses, may itself contain
/// parentheses.
std::optional<pid_t> parent_of(pid_t pid) {
    const std::optional<std::string> text = base::read_small_file("/proc/" + std::to_string(pid) + "/stat");
    const std::size_t name_end = text ? text->rfind(") ") : std::string::npos;
    if (name_end == std::string::npos || text->size() < name_end + 5) {
        return std::nullopt;
    }
    const std::size_t begin = name_end + 4;  // after ") S ", where S is the state
    return base::parse_integer<pid_t>(text->substr(begin, text->find(' ', begin) - begin));
}

Result<OutputPipe> open_output_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return system_failure(ErrorCode::resource_exhausted, "pipe2");
    }
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return OutputPipe{base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

Result<pid_t> start_child(const ChildSpec& spec, int* error_number) {
    std::array<int, 2> report{};
    if (::pipe2(report.data(), O_CLOEXEC) != 0) {
        return system_failure(ErrorCode::resource_exhausted, "pipe2");
    }
    const base::UniqueFd read_end(report[0]);
    base::UniqueFd write_end(report[1]);
    const PreparedChild child(spec, write_end.value());
    const pid_t pid = ::fork();
    if (pid < 0) {
        return system_failure(ErrorCode::resource_exhausted, "fork");
    }
    if (pid == 0) {
        become_program(child);
    }
    write_end.reset();
    int error = 0;
    ssize_t got = 0;
    do {
        got = ::read(read_end.value(), &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    if (got == static_cast<ssize_t>(sizeof error)) {
        ::waitpid(pid, nullptr, 0);
        if (error_number != nullptr) {
            *error_number = error;
        }
        return system_failure(ErrorCode::invalid_argument, "starting " + base::quote(spec.file), error);
    }
    return pid;
}

int exec_program(const std::string& file, const std::vector<std::string>& words, const Environment& environment) {
    ChildSpec spec;
    spec.words = words;
    spec.environment = environment;
    const PreparedChild program(spec, -1);
    restore_signals();
    ::execvpe(file.c_str(), program.argv.data(), program.envp.data());
    const int error = errno;
    fmt::print(stderr, "ruedarun: {}: {} (errno {})\n", base::quote(file), std::generic_category().message(error),
               error);
    return error == ENOENT ? 127 : 126;
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<pid_t> children_of_this_process() {
    std::vector<pid_t> children;
    // The parents of all processes are read. The file /proc/<pid>/task/<tid>/children would be simpler, but not every
    // kernel has it.
    std::error_code error;
    std::filesystem::directory_iterator entry("/proc", error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const std::optional<pid_t> pid = base::parse_integer<pid_t>(entry->path().filename().string());
        if (pid && parent_of(*pid) == ::getpid()) {
            children.push_back(*pid);
        }
    }
    return children;
}

void collect_ended_children(const std::function<void(pid_t pid, bool is_well)>& ends,
                            const std::function<void(pid_t pid, int wait_status)>& ended) {
    for (;;) {
        siginfo_t info{};  // waitid() leaves `info` unchanged if no child has ended
        if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
            return;
        }
        ends(info.si_pid, info.si_code == CLD_EXITED && info.si_status == 0);
        int status = 0;
        if (::waitpid(info.si_pid, &status, WNOHANG) <= 0) {
            return;
        }
        ended(info.si_pid, status);
    }
}

void end_leftover_children() {
    // If a host is cut off, its ranks notice this after 3 s, and the job must have ended after 5 s. So children must
    // get SIGKILL less than 2 s after SIGTERM.
    constexpr std::chrono::milliseconds kPolite{1500};
    constexpr std::chrono::milliseconds kLongest{3500};
    constexpr std::chrono::milliseconds kPause{5};
    const auto begin = std::chrono::steady_clock::now();
    const auto passed = [&] { return std::chrono::steady_clock::now() - begin; };
    std::set<pid_t> asked;
    // A number in the result of children_of_this_process() cannot belong to another process. The kernel does not reuse
    // the number of a child before the child's exit status is collected.
    while (reap_all() && passed() < kLongest) {
        const bool polite = passed() < kPolite;
        for (const pid_t pid : children_of_this_process()) {
            if (!polite) {
                ::kill(pid, SIGKILL);
            } else if (asked.insert(pid).second) {
                ::kill(pid, SIGTERM);
                ::kill(pid, SIGCONT);
            }
        }
        std::this_thread::sleep_for(kPause);
    }
}

}  // namespace rueda::launcher
