// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/supervisor.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <vector>

#include "base/launcher_notification.hpp"
#include "base/network/poll_set.hpp"
#include "base/numbers.hpp"
#include "launcher/connection/connect_to_ruedarun.hpp"
#include "launcher/connection/control_address.hpp"
#include "launcher/connection/own_rendezvous.hpp"
#include "launcher/connection/reachability.hpp"
#include "launcher/gpus/rank_gpus.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/jobs/job_note.hpp"
#include "launcher/plan/host_settings.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/plan/surroundings.hpp"
#include "launcher/plan/torch_variables.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/processes/held_port.hpp"
#include "launcher/processes/signal_inbox.hpp"
#include "launcher/supervisor/frame_link.hpp"
#include "launcher/supervisor/output_pump.hpp"
#include "launcher/supervisor/supervisor_protocol.hpp"
#include "launcher/watch/job_ending.hpp"
#include "launcher/watch/rank_end.hpp"
#include "launcher/watch/rank_process.hpp"

namespace rueda::launcher {

namespace {

using Clock = std::chrono::steady_clock;

/// How long the program may take between SIGTERM and SIGKILL if the connection to ruedarun has ended. Without the
/// connection, the supervisor itself must send these signals.
constexpr std::chrono::seconds kOrphanTime{2};

/// How long this process (the parent of a rank) may take to send the rest of the rank's output to ruedarun.
constexpr std::chrono::seconds kFlushTime{5};

constexpr std::uint16_t kNoPort = 0;

/// Returns this process's rank, from the variables of the host's agent, of Open MPI, of a PMIx launcher, or of Hydra
/// (MPICH's launcher).
std::optional<int> rank_from_launcher(const Environment& environment) {
    for (const char* name : {kAgentRankVariable, "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
        if (const std::string text = text_of(environment, name); !text.empty()) {
            return base::parse_integer<int>(text);
        }
    }
    return std::nullopt;
}

void complain(const std::string& text) { fmt::print(stderr, "ruedarun: {}\n", text); }

class Supervisor {
public:
    Supervisor(std::vector<std::string> program, std::vector<std::string> left_variables, const RankGpus& gpus)
        : words_(std::move(program)), left_variables_(std::move(left_variables)), gpus_(gpus) {}

    int run() {
        if (const Status status = signals_.open({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2});
            !status.is_ok()) {
            complain(status.message());
            return 1;
        }
        // SIGPIPE is ignored. So if a process that reads the output has ended, a write fails with an error, and does
        // not end this process. The program gets the default action of the signal back.
        ::signal(SIGPIPE, SIG_IGN);
        adopt_orphans();
        // If mpirun is killed, its children continue to run. Therefore this process asks the kernel to send it a signal
        // when mpirun is killed.
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        connect();
        while (!done_) {
            turn();
        }
        end_leftover_children();
        send_rest();
        return exit_status_;
    }

private:
    void connect() {
        const Result<ControlAddress> address = parse_control_address(text_of(environment_, kControlVariable));
        if (!rank_ || !address.is_ok()) {
            run_alone(rank_ ? address.status().message() : "the launcher has not set the number of the rank");
            return;
        }
        // The GPUs are listed before the connection is made: ruedarun waits only a few seconds for the first frame of a
        // connection, and NVML can take longer on a host with many GPUs.
        const std::string gpus = gpus_.per_rank > 0 ? encode_gpus(gpus_here(environment_)) : "";
        Result<base::ProvenConnection> connection = connect_to_ruedarun(address.value());
        if (!connection.is_ok()) {  // ruedarun reports that this supervisor is missing; this line says why
            complain(fmt::format("rank {} cannot report to ruedarun: {}", *rank_, connection.status().message()));
            done_ = true;
            exit_status_ = 1;
            return;
        }
        link_ = FrameLink(std::move(connection).value());
        if (is_elastic_) {
            // If ruedarun does not answer, it has also stopped waiting for this host, and the job continues without
            // this program.
            static_cast<void>(link_.close_when_silent());
        }
        secret_ = address.value().secret;
        Greeting greeting{host_name(), kNoPort, host_key(environment_), gpus, "", ""};
        if (*rank_ == 0 && !is_elastic_) {
            greeting.master_port = hold(master_port_, "MASTER_PORT");
            greeting.endpoints = listen_for_reach_probes(address.value());
            greeting.rendezvous = environment_.contains(kAgentRankVariable) ? hold_rendezvous() : "";
        }
        link_.send(FrameKind::hello, *rank_, encode_greeting(greeting));
    }

    /// Tells ruedarun that the program of an elastic job waits for the next generation. Each time, new ports are
    /// reserved, because a process of the previous generation may still use the old ones. Every supervisor reserves
    /// ports, because its worker may become rank 0.
    void report_wait() {
        if (program_.take_wait()) {
            Greeting greeting{host_name(), hold(master_port_, "MASTER_PORT"), host_key(environment_), "", "", ""};
            greeting.rendezvous = hold_rendezvous();
            send(FrameKind::waits, 0, encode_greeting(greeting));
        }
    }

    /// In a job on several hosts, the supervisor of rank 0 lets the other supervisors find out which addresses of its
    /// host they can reach. If the host has only one address, no such test is needed. If the supervisor cannot listen,
    /// no test is possible.
    [[nodiscard]] std::string listen_for_reach_probes(const ControlAddress& ruedarun) {
        const bool is_one_host = ruedarun.endpoints.front().starts_with('@');
        if (is_one_host) {
            return "";
        }
        Result<ControlListener> listener = listen_on_network({});
        if (!listener.is_ok() || listener.value().sockets.size() < 2) {
            return "";
        }
        reach_listener_ = ReachListener(std::move(listener).value(), secret_,
                                        [](std::string_view line) { complain(std::string(line)); });
        return encode_endpoints(reach_listener_.endpoints());
    }

    /// Reserves a port for the program of rank 0. The other ranks get the port's number before they start. `what` is
    /// the port's name in messages.
    [[nodiscard]] static std::uint16_t hold(std::optional<HeldPort>& port, const char* what) {
        Result<HeldPort> held = hold_port();
        if (!held.is_ok()) {
            complain(fmt::format("the ranks get no {}: {}", what, held.status().message()));
            return kNoPort;
        }
        port = std::move(held).value();
        return port->port;
    }

    /// Reserves the port at which the ranks of a job without MPI meet. Returns the value of RUEDA_RENDEZVOUS.
    [[nodiscard]] std::string hold_rendezvous() {
        return rendezvous_of_this_host(hold(rendezvous_port_, "port for their rendezvous"));
    }

    void run_alone(const std::string& reason) {
        complain(fmt::format("this rank has no ruedarun that watches it ({}); it runs alone", reason));
        variables_ = torch_variables_of_mpirun(environment_);
        if (const Status divided = take_own_gpus(); !divided.is_ok()) {
            complain(divided.message());
            done_ = true;
            exit_status_ = 1;
            return;
        }
        remove_left_variables(variables_);
        start({kInherit, kInherit});
    }

    /// Removes the variables that the user does not want ruedarun to set.
    void remove_left_variables(std::vector<EnvironmentChange>& changes) const {
        std::erase_if(changes, [this](const EnvironmentChange& change) {
            return std::find(left_variables_.begin(), left_variables_.end(), change.name) != left_variables_.end();
        });
    }

    /// Without ruedarun, this process itself chooses the GPUs of its rank.
    [[nodiscard]] Status take_own_gpus() {
        if (gpus_.per_rank == 0) {
            return {};
        }
        const auto local_rank = std::find_if(variables_.begin(), variables_.end(), [](const EnvironmentChange& change) {
            return change.name == "LOCAL_RANK";
        });
        const std::optional<int> ranks = ranks_of_this_host(environment_);
        if (local_rank == variables_.end() || !ranks) {
            return failure(ErrorCode::invalid_argument,
                           "--gpus-per-rank: mpirun has not set the numbers of the ranks of this host");
        }
        const int number = base::parse_integer<int>(local_rank->value.value_or("")).value_or(0);
        Result<std::string> devices = devices_of_rank(gpus_, number, *ranks, host_name(), gpus_here(environment_));
        RUEDA_RETURN_IF_FAILED(devices.status());
        variables_.push_back({base::kVisibleDevices, std::move(devices).value()});
        return {};
    }

    void turn() {
        base::PollSet set;
        set.add(signals_.fd(), POLLIN, [this] { take_signals(); });
        if (link_.is_open()) {
            add_link_to(set);
        }
        reach_listener_.add_to(set);
        if (reach_probe_) {
            reach_probe_->add_to(set);
        }
        if (is_elastic_ && program_.line_fd() >= 0) {
            set.add(program_.line_fd(), POLLIN, [this] { report_wait(); });
        }
        set.wake_at(kill_at_);
        set.wait_and_dispatch();
        look_at_reach_probe();
        if (kill_at_ && Clock::now() >= *kill_at_) {
            kill_at_.reset();
            program_.signal(SIGKILL);
        }
    }

    /// If this supervisor tests rank 0's addresses: sends the result to ruedarun when the test is over. If this is rank
    /// 0's supervisor: stops listening for such tests when the programs start, because ruedarun has chosen the address.
    void look_at_reach_probe() {
        if (ranks_ > 0) {
            reach_listener_.close();
        }
        if (!reach_probe_) {
            return;
        }
        if (const auto reached = reach_probe_->advance(Clock::now())) {
            reach_probe_.reset();
            send(FrameKind::reached_addresses, 0, encode_endpoints(*reached));
        }
    }

    void add_link_to(base::PollSet& set) {
        set.add(link_.fd(), POLLIN, [this] { take_frames(); });
        if (link_.has_queue()) {
            set.add(link_.fd(), POLLOUT, [this] { link_.flush(); });
        }
        pump_.add_to(set, link_);
    }

    void take_frames() {
        for (const Frame& frame : link_.receive()) {
            take_order(frame);
        }
        if (!link_.is_open() && !done_) {
            lose_ruedarun();
        }
    }

    void take_order(const Frame& frame) {
        switch (frame.kind) {
            case FrameKind::descriptors:
                outputs_ = link_.take_descriptors();
                break;
            case FrameKind::probe_addresses:
                if (!reach_probe_) {  // a second probe is ignored, because callbacks may refer to the probe that is
                                      // running
                    reach_probe_.emplace(parse_endpoints(frame.payload), secret_, ReachProbe::Times());
                }
                break;
            case FrameKind::welcome:
                ranks_ = frame.value;
                variables_ = decode_variables(frame.payload);
                start_with_outputs();
                break;
            case FrameKind::deliver:
                is_being_ended_ = is_being_ended_ || (ends_programs(frame.value) && frame.value != SIGKILL);
                program_.signal(frame.value);
                break;
            case FrameKind::notification:
                // the notification is forwarded unchecked, because the program checks it
                program_.notify(frame.payload);
                break;
            case FrameKind::job_hosts:
                job_note_.write(frame.payload);
                break;
            case FrameKind::stop_output:
                pump_.close_stream(frame.value == kStandardError);
                break;
            case FrameKind::more_output:
                pump_.add_credit(frame.value);
                break;
            case FrameKind::leave:
                exit_status_ = 0;  // ruedarun prints the real status; because this process returns 0, mpirun prints no
                                   // error of its own
                done_ = true;
                break;
            default:
                break;
        }
    }

    /// The connection to ruedarun has ended. Without ruedarun there is no job, so this function ends the program.
    void lose_ruedarun() {
        pump_.close();
        if (program_.pid() == 0) {
            done_ = true;
            exit_status_ = ended_ ? exit_status_ : 1;
            return;
        }
        if (is_elastic_) {
            // The other ranks soon continue without this program. So the program must not write any more into the
            // memory that it shares with them.
            program_.signal(SIGKILL);
            return;
        }
        program_.signal(SIGTERM);
        kill_at_ = Clock::now() + kOrphanTime;
    }

    /// Starts the program. If ruedarun has sent descriptors, the program writes to them. Otherwise the program writes
    /// to pipes, whose content this process sends to ruedarun.
    void start_with_outputs() {
        if (program_.pid() != 0 || ended_) {
            return;
        }
        if (outputs_ && outputs_->size() == 2) {
            start({outputs_->front().value(), outputs_->back().value()});
            outputs_->clear();
            return;
        }
        const Status ready = outputs_ ? failure(ErrorCode::resource_exhausted,
                                                "the descriptors that ruedarun sent did not arrive; raise ulimit -n")
                                      : pump_.open();
        if (!ready.is_ok()) {
            complain(ready.message());
            report_failed_start(EMFILE);
            return;
        }
        start(pump_.write_ends());
        pump_.close_write_ends();
    }

    /// Sends the last output of the program's descendants, and all frames that are still in the queue.
    void send_rest() {
        const Clock::time_point deadline = Clock::now() + kFlushTime;
        if (link_.is_open()) {
            pump_.drain(link_);
        }
        while (link_.is_open() && link_.has_queue() && Clock::now() < deadline) {
            base::PollSet set;
            set.add(link_.fd(), POLLOUT, [this] { link_.flush(); });
            set.wake_at(deadline);
            set.wait_and_dispatch();
        }
    }

    void start(std::array<int, 2> outputs) {
        ChildSpec spec;
        spec.file = words_.front();
        spec.words = words_;
        spec.environment = changed_environment(environment_for_this_host(), variables_);
        // the program does not get this variable, because only the supervisor talks to ruedarun
        spec.environment.erase(kControlVariable);
        spec.environment.erase(kAgentRankVariable);
        spec.environment.erase(kAgentRanksVariable);
        spec.stdout_fd = outputs[0];
        spec.stderr_fd = outputs[1];
        spec.signal_mask = signals_.original_mask();
        if (!open_line()) {
            report_failed_start(EMFILE);
            return;
        }
        int error_number = 0;
        if (const Status started = program_.start(std::move(spec), error_number); started.is_ok()) {
            send(FrameKind::started, program_.pid());
        } else {
            if (!link_.is_open()) {
                complain(started.message());
            }
            report_failed_start(error_number);
        }
    }

    void report_failed_start(int error_number) {
        finish(kNotStartedStatus);
        send(FrameKind::start_failed, error_number);
    }

    /// Returns the environment with settings for this host. If the launcher does not say how many ranks this host has,
    /// the function assumes that all ranks of the job are on this host.
    [[nodiscard]] Environment environment_for_this_host() const {
        const std::optional<int> neighbours = ranks_of_this_host(environment_);
        if (!neighbours && ranks_ < 1) {
            return environment_;
        }
        std::vector<EnvironmentChange> changes =
            host_settings(environment_, find_rank_cores(environment_), neighbours.value_or(ranks_));
        remove_left_variables(changes);
        return changed_environment(environment_, changes);
    }

    /// Opens the socket (`rank_line`) over which the program gets notifications. Returns whether the program can start.
    /// A worker of an elastic job cannot start without this socket: it would not learn that it belongs to a job, and
    /// would train alone.
    [[nodiscard]] bool open_line() {
        if (!link_.is_open() || ranks_ < 1) {
            return true;
        }
        // In an elastic job, rank_ is the number of the worker and not a rank. The worker gets a rank when a generation
        // is formed.
        const Status opened = program_.open_line(is_elastic_ ? 0 : *rank_, ranks_);
        if (!opened.is_ok()) {
            complain(
                fmt::format("{} {} cannot be notified: {}", is_elastic_ ? "worker" : "rank", *rank_, opened.message()));
        } else if (is_elastic_) {
            program_.notify(base::encode({base::LauncherNotification::Kind::elastic, 0, ""}));
        }
        return opened.is_ok() || !is_elastic_;
    }

    void take_signals() {
        while (const std::optional<signalfd_siginfo> info = signals_.take()) {
            const int number = static_cast<int>(info->ssi_signo);
            const bool ends_program = number != SIGUSR1 && number != SIGUSR2;
            if (number == SIGCHLD) {
                reap();
            } else if (program_.pid() != 0) {
                launcher_ends_it_ = launcher_ends_it_ || ends_program;
                program_.signal(number);
            } else if (ends_program) {
                done_ = true;  // mpirun ends the job, and the program has not started yet or has already ended
                exit_status_ = ended_ ? exit_status_ : 128 + number;
            }
        }
    }

    void reap() {
        collect_ended_children(
            [this](pid_t pid, bool is_well) {
                if (pid == program_.pid() && is_elastic_) {
                    // The job continues without a worker that failed. So no process of this worker may still take part
                    // in the old generation.
                    program_.end_group(is_being_ended_ || is_well);
                }
            },
            [this](pid_t pid, int wait_status) {
                if (pid == program_.pid()) {
                    report_end(wait_status);
                }
            });
    }

    void report_end(int wait_status) {
        RankEnd end = program_.end(rank_.value_or(0), wait_status);
        end.by_launcher = launcher_ends_it_;
        if (link_.is_open()) {
            // sends the program's last output first, because it must be printed before the line about the program's end
            pump_.drain(link_);
        }
        finish(exit_status_of(end));
        send(FrameKind::ended, wait_status, encode_report(end));
        if (!end.abort_reason.empty()) {
            // the job was aborted, so this process must not wait long for a ruedarun that has become unreachable
            link_.close_when_silent();
        }
    }

    void finish(int exit_status) {
        ended_ = true;
        exit_status_ = exit_status;
        done_ = done_ || !link_.is_open();
    }

    void send(FrameKind kind, std::int32_t value, const std::string& text = {}) {
        if (link_.is_open()) {
            link_.send(kind, value, text);
        }
    }

    const std::vector<std::string> words_;           ///< the program and its arguments
    const std::vector<std::string> left_variables_;  ///< variables of torchrun that run_alone() must not set
    const RankGpus gpus_;
    const Environment environment_ = environment_of_this_process();
    const std::optional<int> rank_ = rank_from_launcher(environment_);
    /// Whether the program is a worker of an elastic job. Then rank_ is the number of the worker.
    const bool is_elastic_ = environment_.contains(kGenerationVariable);
    SignalInbox signals_;
    std::string secret_;                     ///< the secret of the job; empty if there is no ruedarun
    ReachListener reach_listener_;           ///< Accepts the tests of rank 0's addresses. Listens only on rank 0,
                                             ///< and only until the programs start.
    std::optional<ReachProbe> reach_probe_;  ///< has a value while this supervisor tests rank 0's addresses
    FrameLink link_;                         ///< the link to ruedarun; closed if there is no ruedarun
    std::optional<std::vector<base::UniqueFd>> outputs_;  ///< descriptors that ruedarun sent, if it is on the same host
    OutputPump pump_;
    RankProcess program_;
    JobNote job_note_;
    int ranks_ = 0;                             ///< number of ranks of the job; 0 until ruedarun reports it
    std::vector<EnvironmentChange> variables_;  ///< variables that ruedarun sent for the program
    std::optional<HeldPort> master_port_;       ///< the reserved port at which rank 0's program will listen
    std::optional<HeldPort> rendezvous_port_;   ///< the reserved port at which rank 0 will listen for the other ranks
    bool ended_ = false;
    bool done_ = false;
    bool launcher_ends_it_ = false;
    bool is_being_ended_ = false;  ///< ruedarun has asked the program to end
    int exit_status_ = 0;
    std::optional<Clock::time_point> kill_at_;
};

}  // namespace

int run_rank_supervisor(std::span<const std::string> arguments) {
    const auto end_of_options = std::find(arguments.begin(), arguments.end(), "--");
    if (arguments.end() - end_of_options < 2) {
        complain(fmt::format("{} is an option that only ruedarun itself uses", kSupervisorOption));
        return 2;
    }
    std::vector<std::string> left_variables(arguments.begin(), end_of_options);
    const RankGpus gpus = read_rank_gpus(left_variables);
    std::erase_if(left_variables, [](const std::string& word) { return is_word_about_gpus(word); });
    return Supervisor({end_of_options + 1, arguments.end()}, std::move(left_variables), gpus).run();
}

}  // namespace rueda::launcher
