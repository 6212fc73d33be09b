// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/numbers.hpp"
#include "launcher/child_process.hpp"
#include "launcher/poll_set.hpp"
#include "launcher/rank_end.hpp"
#include "launcher/signal_inbox.hpp"
#include "launcher/supervisor_protocol.hpp"
#include "launcher/surroundings.hpp"

namespace rueda::launcher {

namespace {

using Clock = std::chrono::steady_clock;

/// Between SIGTERM and SIGKILL, where ruedarun has gone and cannot decide.
constexpr std::chrono::seconds kOrphanTime{2};

/// Open MPI, any PMIx launcher, Hydra.
std::optional<int> rank_from_launcher() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
        if (const char* text = std::getenv(name); text != nullptr) {
            return base::parse_integer<int>(text);
        }
    }
    return std::nullopt;
}

void complain(const std::string& text) { fmt::print(stderr, "ruedarun: {}\n", text); }

class Supervisor {
public:
    explicit Supervisor(std::vector<std::string> program) : program_(std::move(program)) {}

    int run(const std::string& socket_name) {
        if (const Status status = signals_.open({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2});
            !status.is_ok()) {
            complain(status.message());
            return 1;
        }
        adopt_orphans();
        // An mpirun that is killed leaves its children behind.
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        meet(socket_name);
        while (!done_) {
            turn();
        }
        end_leftover_children();
        return exit_status_;
    }

private:
    void meet(const std::string& socket_name) {
        const std::optional<int> rank = rank_from_launcher();
        Result<base::UniqueFd> socket = connect_to_ruedarun(socket_name);
        if (!rank || !socket.is_ok()) {
            complain(fmt::format("no ruedarun is there to watch this rank ({}); it runs on its own",
                                 rank ? socket.status().message() : "mpirun tells no rank"));
            start({kInherit, kInherit});
            return;
        }
        socket_ = std::move(socket).value();
        tell(SupervisorWord::hello, *rank);
    }

    void turn() {
        PollSet set;
        set.add(signals_.fd(), POLLIN, [this] { take_signals(); });
        if (socket_.is_open()) {
            set.add(socket_.value(), POLLIN, [this] { take_message(); });
        }
        set.wake_at(kill_at_);
        set.wait_and_dispatch();
        if (kill_at_ && Clock::now() >= *kill_at_) {
            kill_at_.reset();
            deliver(SIGKILL);
        }
    }

    void start(std::array<int, 2> outputs) {
        ChildSpec spec;
        spec.file = program_.front();
        spec.words = program_;
        spec.environment = environment_of_this_process();
        spec.stdout_fd = outputs[0];
        spec.stderr_fd = outputs[1];
        spec.signal_mask = signals_.original_mask();
        int error_number = 0;
        const Result<pid_t> child = start_child(spec, &error_number);
        if (child.is_ok()) {
            program_pid_ = child.value();
            tell(SupervisorWord::started, program_pid_);
            return;
        }
        if (!socket_.is_open()) {
            complain(child.status().message());
        }
        finish_program(exit_status_of(not_started(0, "")), SupervisorWord::start_failed, error_number);
    }

    void take_message() {
        ReceivedMessage received;
        const Reception reception = receive_message(socket_.value(), received);
        if (reception == Reception::nothing_yet) {
            return;
        }
        if (reception == Reception::closed) {
            lose_ruedarun();
            return;
        }
        switch (received.message.word) {
            case SupervisorWord::welcome:
                if (program_pid_ == 0 && !ended_ && received.fds.size() == 2) {
                    start({received.fds[0].value(), received.fds[1].value()});
                }
                break;
            case SupervisorWord::deliver:
                deliver(received.message.value);
                break;
            case SupervisorWord::leave:
                exit_status_ = 0;  // ruedarun knows the real one and tells it; mpirun has nothing to complain about
                done_ = true;
                break;
            default:
                break;
        }
    }

    /// Without ruedarun there is no job any more.
    void lose_ruedarun() {
        socket_.reset();
        if (program_pid_ == 0) {
            done_ = true;
            exit_status_ = ended_ ? exit_status_ : 1;
            return;
        }
        deliver(SIGTERM);
        kill_at_ = Clock::now() + kOrphanTime;
    }

    void take_signals() {
        while (const std::optional<signalfd_siginfo> info = signals_.take()) {
            const int number = static_cast<int>(info->ssi_signo);
            if (number == SIGCHLD) {
                reap();
            } else if (program_pid_ != 0) {
                launcher_ends_it_ = launcher_ends_it_ || (number != SIGUSR1 && number != SIGUSR2);
                deliver(number);
            } else if (number != SIGUSR1 && number != SIGUSR2) {
                done_ = true;  // mpirun ends the job while there is no program to end
                exit_status_ = ended_ ? exit_status_ : 128 + number;
            }
        }
    }

    void reap() {
        int status = 0;
        pid_t pid = 0;
        while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == program_pid_) {
                program_pid_ = 0;
                RankEnd end;
                end.wait_status = status;
                finish_program(exit_status_of(end),
                               launcher_ends_it_ ? SupervisorWord::ended_by_launcher : SupervisorWord::ended, status);
            }
        }
    }

    void finish_program(int exit_status, SupervisorWord word, std::int32_t value) {
        ended_ = true;
        exit_status_ = exit_status;
        tell(word, value);
        if (!socket_.is_open()) {
            done_ = true;
        }
    }

    /// To its whole group: the program may be a script that runs the trainer.
    void deliver(int signal_number) const {
        if (program_pid_ != 0) {
            ::kill(-program_pid_, signal_number);
        }
    }

    void tell(SupervisorWord word, std::int32_t value) {
        // A connection that takes no message is closed; the next turn reads that.
        if (socket_.is_open() && !send_message(socket_.value(), word, value).is_ok()) {
            lose_ruedarun();
        }
    }

    std::vector<std::string> program_;
    SignalInbox signals_;
    base::UniqueFd socket_;
    pid_t program_pid_ = 0;  ///< 0: not yet started, or reaped
    bool ended_ = false;
    bool done_ = false;
    bool launcher_ends_it_ = false;
    int exit_status_ = 0;
    std::optional<Clock::time_point> kill_at_;
};

}  // namespace

int run_rank_supervisor(std::span<const std::string> arguments) {
    if (arguments.size() < 3 || arguments[1] != "--") {
        complain(fmt::format("{} is for ruedarun's own use", kSupervisorOption));
        return 2;
    }
    return Supervisor({arguments.begin() + 2, arguments.end()}).run(arguments[0]);
}

}  // namespace rueda::launcher
