// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/host_agent.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <set>
#include <system_error>

#include "base/network/poll_set.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/plan/surroundings.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/processes/signal_inbox.hpp"
#include "launcher/supervisor/agent_order.hpp"

namespace rueda::launcher {

namespace {

constexpr int kAgentFailed = 1;

void complain_as_agent(const std::string& text) { fmt::print(stderr, "ruedarun on {}: {}\n", host_name(), text); }

/// Reads until the end of the file. Returns nothing if reading fails.
std::optional<std::string> read_to_end(int fd) {
    std::string text;
    std::array<char, 16384> buffer{};
    for (;;) {
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got > 0) {
            text.append(buffer.data(), static_cast<std::size_t>(got));
        } else if (got == 0) {
            return text;
        } else if (errno != EINTR) {
            return std::nullopt;
        }
    }
}

/// The agent of a host. Threads: one.
class HostAgent {
public:
    HostAgent(AgentOrder order, bool has_input) : order_(std::move(order)), has_input_(has_input) {}

    int run() {
        if (const Status status = signals_.open({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2});
            !status.is_ok()) {
            complain_as_agent(status.message());
            return kAgentFailed;
        }
        ::signal(SIGPIPE, SIG_IGN);
        if (::chdir(order_.folder.c_str()) != 0) {
            // The agent cannot enter the folder. The ranks then run in another folder, as with mpirun. This does no
            // harm to programs that are found through PATH and use no files of the folder.
            complain_as_agent(
                fmt::format("the folder {} cannot be entered ({}); the ranks of this host run in the "
                            "folder of the login",
                            base::quote(order_.folder), std::generic_category().message(errno)));
        } else {
            order_.variables.push_back(
                {"PWD", order_.folder});  // a shell also sets PWD to its folder; programs read this variable
        }
        if (const Status started = start_supervisors(); !started.is_ok()) {
            complain_as_agent(started.message());
            signal_supervisors(SIGTERM);
            exit_status_ = kAgentFailed;
        }
        // This thread waits for signals. The kernel sends SIGCHLD when a supervisor ends.
        while (!supervisors_.empty()) {
            base::PollSet set;
            set.add(signals_.fd(), POLLIN, [this] { take_signals(); });
            set.wait_and_dispatch();
        }
        return exit_status_;
    }

private:
    [[nodiscard]] Status start_supervisors() {
        const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        if (!null.is_open()) {
            return system_failure(ErrorCode::internal, "open(/dev/null)");
        }
        const Environment environment = changed_environment(environment_of_this_process(), order_.variables);
        for (int local = 0; local < order_.ranks; ++local) {
            const int rank = order_.first_rank + local;
            ChildSpec spec;
            spec.file = "/proc/self/exe";
            spec.words = {"ruedarun", kSupervisorOption};
            spec.words.insert(spec.words.end(), order_.arguments.begin(), order_.arguments.end());
            spec.environment =
                changed_environment(environment, {{kAgentRankVariable, std::to_string(rank)},
                                                  {kAgentRanksVariable, std::to_string(order_.local_ranks)}});
            spec.stdin_fd = rank == 0 && has_input_ ? kInherit : null.value();
            spec.death_signal = SIGTERM;  // when the supervisor gets SIGTERM, it ends its program
            spec.signal_mask = signals_.original_mask();
            const Result<pid_t> child = start_child(spec);
            RUEDA_RETURN_IF_FAILED(child.status());
            supervisors_.insert(child.value());
        }
        return {};
    }

    void take_signals() {
        while (const std::optional<signalfd_siginfo> info = signals_.take()) {
            const int number = static_cast<int>(info->ssi_signo);
            if (number == SIGCHLD) {
                reap();
            } else {
                signal_supervisors(number);
            }
        }
    }

    void reap() {
        pid_t pid = 0;
        while ((pid = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
            supervisors_.erase(pid);
        }
    }

    void signal_supervisors(int number) const {
        for (const pid_t supervisor : supervisors_) {
            ::kill(supervisor, number);
        }
    }

    AgentOrder order_;
    const bool has_input_;  ///< whether rank 0 gets the standard input of this process
    SignalInbox signals_;
    std::set<pid_t> supervisors_;
    int exit_status_ = 0;
};

}  // namespace

int run_host_agent(std::span<const std::string> arguments) {
    const std::optional<int> fd = arguments.size() == 1 ? base::parse_integer<int>(arguments.front()) : std::nullopt;
    if (!fd || *fd < 0) {
        complain_as_agent(fmt::format("{} is an option that only ruedarun itself uses", kAgentOption));
        return 2;
    }
    const std::optional<std::string> text = read_to_end(*fd);
    if (*fd > STDERR_FILENO) {
        ::close(*fd);  // the ranks must not inherit the file, because it contains the secrets of the job
    }
    std::optional<AgentOrder> order = text ? parse_order(*text) : std::nullopt;
    if (!order) {
        complain_as_agent(
            "the order of the ruedarun that started the job cannot be read; expected the same version of Rueda on all "
            "hosts: install it there");
        return kAgentFailed;
    }
    return HostAgent(std::move(*order), *fd != STDIN_FILENO).run();
}

}  // namespace rueda::launcher
