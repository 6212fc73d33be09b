// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/supervisor.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "base/launcher_notification.hpp"
#include "base/numbers.hpp"
#include "base/system/cores.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/plan/host_settings.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/plan/surroundings.hpp"
#include "launcher/plan/torch_variables.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/processes/held_port.hpp"
#include "launcher/processes/oom_kills.hpp"
#include "launcher/processes/poll_set.hpp"
#include "launcher/processes/signal_inbox.hpp"
#include "launcher/supervisor/frame_link.hpp"
#include "launcher/supervisor/output_pump.hpp"
#include "launcher/supervisor/supervisor_protocol.hpp"
#include "launcher/watch/rank_end.hpp"
#include "launcher/watch/rank_line.hpp"

namespace rueda::launcher {

namespace {

using Clock = std::chrono::steady_clock;

/// Between SIGTERM and SIGKILL, where ruedarun has gone and cannot decide.
constexpr std::chrono::seconds kOrphanTime{2};

/// For the last words of a rank on their way to ruedarun.
constexpr std::chrono::seconds kFlushTime{5};

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
    Supervisor(std::vector<std::string> program, std::vector<std::string> left_variables)
        : program_(std::move(program)), left_variables_(std::move(left_variables)) {}

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
        send_end_reason();
        return exit_status_;
    }

private:
    void meet(const std::string& socket_name) {
        const std::optional<int> rank = rank_from_launcher();
        if (socket_name == kSupervisorsByNetwork) {
            meet_over_network(rank);
            return;
        }
        Result<base::UniqueFd> socket = connect_to_ruedarun(socket_name);
        if (!rank || !socket.is_ok()) {
            run_alone(rank ? socket.status().message() : "mpirun tells no rank");
            return;
        }
        socket_ = std::move(socket).value();
        tell(SupervisorWord::hello, *rank);
    }

    void meet_over_network(std::optional<int> rank) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
        const char* const text = std::getenv(kControlVariable);
        const Result<ControlAddress> address = parse_control_address(text == nullptr ? "" : text);
        if (!rank || !address.is_ok()) {
            run_alone(rank ? address.status().message() : "mpirun tells no rank");
            return;
        }
        Result<base::UniqueFd> socket = connect_over_network(address.value().endpoints);
        if (!socket.is_ok()) {  // ruedarun waits for us in vain and says so; this line has the reason
            complain(
                fmt::format("rank {} cannot report to ruedarun: {}; check the network between the hosts, or name "
                            "the right one with --network-interfaces",
                            *rank, socket.status().message()));
            done_ = true;
            exit_status_ = 1;
            return;
        }
        link_ = FrameLink(std::move(socket).value());
        link_.send(SupervisorWord::hello, *rank,
                   fmt::format("{}\n{}\n{}\n{}", address.value().secret, host_name(),
                               *rank == 0 ? hold_master_port() : 0, host_key(environment_of_this_process())));
    }

    /// The other ranks are told it before they start. 0 where this host has none.
    [[nodiscard]] std::uint16_t hold_master_port() {
        Result<HeldPort> held = hold_port();
        if (!held.is_ok()) {
            complain(fmt::format("the ranks get no MASTER_PORT: {}", held.status().message()));
            return 0;
        }
        master_port_ = std::move(held).value();
        return master_port_->port;
    }

    void run_alone(const std::string& reason) {
        complain(fmt::format("no ruedarun is there to watch this rank ({}); it runs on its own", reason));
        variables_ = torch_variables_of_mpirun(environment_of_this_process());
        std::erase_if(variables_, [this](const EnvironmentChange& change) {
            return std::find(left_variables_.begin(), left_variables_.end(), change.name) != left_variables_.end();
        });
        start({kInherit, kInherit});
    }

    [[nodiscard]] bool is_connected() const { return socket_.is_open() || link_.is_open(); }

    void turn() {
        PollSet set;
        set.add(signals_.fd(), POLLIN, [this] { take_signals(); });
        if (socket_.is_open()) {
            set.add(socket_.value(), POLLIN, [this] { take_message(); });
        }
        if (link_.is_open()) {
            add_link_to(set);
        }
        set.wake_at(kill_at_);
        set.wait_and_dispatch();
        if (kill_at_ && Clock::now() >= *kill_at_) {
            kill_at_.reset();
            deliver(SIGKILL);
        }
    }

    void add_link_to(PollSet& set) {
        set.add(link_.fd(), POLLIN, [this] { take_frames(); });
        if (link_.has_queue()) {
            set.add(link_.fd(), POLLOUT, [this] {
                link_.flush();
                notice_lost_link();
            });
        }
        pump_.add_to(set, link_);
    }

    void take_frames() {
        for (const Frame& frame : link_.receive()) {
            if (frame.word == SupervisorWord::welcome) {
                ranks_ = frame.value;
                variables_ = decode_variables(frame.payload);
                start_with_pump();
            } else {
                take_order(frame.word, frame.value, frame.payload);
            }
        }
        notice_lost_link();
    }

    void notice_lost_link() {
        if (!link_.is_open() && !done_) {
            pump_.close();
            lose_ruedarun();
        }
    }

    void start_with_pump() {
        if (program_pid_ != 0 || ended_) {
            return;
        }
        if (const Status status = pump_.open(); !status.is_ok()) {
            complain(status.message());
            finish_program(exit_status_of(not_started(0, "")), SupervisorWord::start_failed, EMFILE);
            return;
        }
        start(pump_.write_ends());
        pump_.close_write_ends();
    }

    /// What descendants of the program have written until they were ended, and what is still queued.
    void send_end_reason() {
        const Clock::time_point deadline = Clock::now() + kFlushTime;
        if (link_.is_open()) {
            pump_.drain(link_);
        }
        while (link_.is_open() && link_.has_queue() && Clock::now() < deadline) {
            PollSet set;
            set.add(link_.fd(), POLLOUT, [this] { link_.flush(); });
            set.wake_at(deadline);
            set.wait_and_dispatch();
        }
    }

    void start(std::array<int, 2> outputs) {
        ChildSpec spec;
        spec.file = program_.front();
        spec.words = program_;
        spec.environment = changed_environment(environment_for_this_host(), variables_);
        spec.environment.erase(kControlVariable);  // the program has no business with ruedarun
        spec.kept_fd = open_line(spec.environment);
        spec.stdout_fd = outputs[0];
        spec.stderr_fd = outputs[1];
        spec.signal_mask = signals_.original_mask();
        oom_watch_.begin();
        int error_number = 0;
        const Result<pid_t> child = start_child(spec, &error_number);
        line_.close_child_end();
        if (child.is_ok()) {
            program_pid_ = child.value();
            tell(SupervisorWord::started, program_pid_);
            return;
        }
        if (!is_connected()) {
            complain(child.status().message());
        }
        finish_program(exit_status_of(not_started(0, "")), SupervisorWord::start_failed, error_number);
    }

    /// A launcher that does not tell the ranks of this host may have put all of the job here.
    [[nodiscard]] std::map<std::string, std::string> environment_for_this_host() const {
        std::map<std::string, std::string> found = environment_of_this_process();
        const std::optional<int> neighbours = ranks_of_this_host(found);
        if (!neighbours && ranks_ < 1) {
            return found;
        }
        return changed_environment(found, host_settings(found, base::usable_cores(), neighbours.value_or(ranks_)));
    }

    /// Over which the program hears of other ranks' ends; −1 where it will not.
    [[nodiscard]] int open_line(std::map<std::string, std::string>& environment) {
        const std::optional<int> rank = rank_from_launcher();
        environment.erase(base::kLauncherVariable);  // of a job around this one
        if (!is_connected() || !rank || ranks_ < 1) {
            return -1;
        }
        if (const Status status = line_.open(); !status.is_ok()) {
            complain(fmt::format("rank {} will not hear how other ranks end: {}", *rank, status.message()));
            return -1;
        }
        environment[base::kLauncherVariable] = line_.address(*rank, ranks_);
        return line_.child_fd();
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
        if (received.message.word != SupervisorWord::welcome) {
            take_order(received.message.word, received.message.value, received.text);
        } else if (program_pid_ == 0 && !ended_ && received.fds.size() == 2) {
            ranks_ = received.message.value;
            variables_ = decode_variables(received.text);
            start({received.fds[0].value(), received.fds[1].value()});
        }
    }

    void take_order(SupervisorWord word, std::int32_t value, const std::string& text) {
        if (word == SupervisorWord::deliver) {
            deliver(value);
        } else if (word == SupervisorWord::rank_ended) {
            line_.tell(text);  // the program checks what it reads
        } else if (word == SupervisorWord::stop_output) {
            pump_.close_stream(value == kStandardError);
        } else if (word == SupervisorWord::more_output) {
            pump_.add_credit(value);
        } else if (word == SupervisorWord::leave) {
            exit_status_ = 0;  // ruedarun knows the real one and tells it; mpirun has nothing to complain about
            done_ = true;
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
                tell_oom_kills(status);
                finish_program(exit_status_of(end),
                               launcher_ends_it_ ? SupervisorWord::ended_by_launcher : SupervisorWord::ended, status);
            }
        }
    }

    /// Before the report of the end, which it belongs to.
    void tell_oom_kills(int wait_status) {
        const OomKills kills = oom_watch_.look(wait_status, kill_sent_);
        if (kills.processes != 0) {
            constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
            tell(SupervisorWord::oom_kills, static_cast<std::int32_t>(std::min(kills.processes, kMost)),
                 kills.counted_in);
        }
    }

    void finish_program(int exit_status, SupervisorWord word, std::int32_t value) {
        ended_ = true;
        exit_status_ = exit_status;
        if (link_.is_open()) {
            pump_.drain(link_);  // its last words, before the line about its end
        }
        if (const std::string reason = line_.take_abort_reason(); !reason.empty()) {
            tell(SupervisorWord::aborted, 0, reason);
            link_.expect_answers();  // the job is over: where ruedarun was cut off, this host is to be free soon
        }
        if (const base::StepSpan steps = line_.steps(); steps.is_known()) {
            tell(SupervisorWord::steps, 0, fmt::format("{} {}", steps.first, steps.last));
        }
        tell(word, value);
        if (!is_connected()) {
            done_ = true;
        }
    }

    /// To its whole group: the program may be a script that runs the trainer.
    void deliver(int signal_number) {
        kill_sent_ = kill_sent_ || signal_number == SIGKILL;
        if (program_pid_ != 0) {
            ::kill(-program_pid_, signal_number);
        }
    }

    void tell(SupervisorWord word, std::int32_t value, const std::string& text = {}) {
        if (link_.is_open()) {
            link_.send(word, value, text);
            notice_lost_link();
            return;
        }
        // A connection that takes no message is closed; the next turn reads that.
        if (socket_.is_open() && !send_message(socket_.value(), word, value, {}, text).is_ok()) {
            lose_ruedarun();
        }
    }

    std::vector<std::string> program_;
    std::vector<std::string> left_variables_;  ///< of torchrun: a rank without ruedarun sets the others itself
    SignalInbox signals_;
    base::UniqueFd socket_;  ///< to ruedarun on this host
    FrameLink link_;         ///< to ruedarun on another host
    OutputPump pump_;
    RankLine line_;                             ///< to the program
    int ranks_ = 0;                             ///< of the job, as ruedarun has told
    std::vector<EnvironmentChange> variables_;  ///< for the program, likewise
    std::optional<HeldPort> master_port_;       ///< of rank 0, for its program to listen at
    pid_t program_pid_ = 0;                     ///< 0: not yet started, or reaped
    bool ended_ = false;
    bool done_ = false;
    bool launcher_ends_it_ = false;
    bool kill_sent_ = false;  ///< SIGKILL, by us
    OomWatch oom_watch_;
    int exit_status_ = 0;
    std::optional<Clock::time_point> kill_at_;
};

}  // namespace

int run_rank_supervisor(std::span<const std::string> arguments) {
    const auto end_of_options = std::find(arguments.begin(), arguments.end(), "--");
    const auto options = end_of_options - arguments.begin();
    if (arguments.end() - end_of_options < 2 || options < 1) {
        complain(fmt::format("{} is for ruedarun's own use", kSupervisorOption));
        return 2;
    }
    return Supervisor({end_of_options + 1, arguments.end()}, {arguments.begin() + 1, end_of_options}).run(arguments[0]);
}

}  // namespace rueda::launcher
