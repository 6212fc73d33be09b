// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/mpi_ranks.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "launcher/child_process.hpp"

namespace rueda::launcher {

namespace {

/// Open MPI 4 leaves within 0.1 s, or about 1 s after it had to clean up.
constexpr std::chrono::seconds kMpirunLeaves{5};
constexpr std::chrono::seconds kMpirunAfterSignal{2};

}  // namespace

MpiRanks::MpiRanks(const LaunchPlan& plan, StartContext context)
    : plan_(plan), context_(std::move(context)), ranks_(static_cast<std::size_t>(plan.ranks)) {}

Status MpiRanks::start(JobOutput& output) {
    output_ = &output;
    Result<base::UniqueFd> listener = listen_for_supervisors(plan_.supervisor_socket);
    RUEDA_RETURN_IF_FAILED(listener.status());
    listener_ = std::move(listener).value();
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return system_failure(ErrorCode::resource_exhausted, "pipe2");
    }
    mpirun_errors_.reset(ends[0]);
    const base::UniqueFd write_end(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ChildSpec spec;
    spec.file = plan_.mpirun.front();
    spec.words = plan_.mpirun;
    spec.environment = changed_environment(context_.environment, plan_.environment);
    spec.stderr_fd = write_end.value();
    spec.death_signal = SIGTERM;  // on which mpirun ends its ranks
    spec.signal_mask = context_.signal_mask;
    const Result<pid_t> child = start_child(spec);
    RUEDA_RETURN_IF_FAILED(child.status());
    mpirun_ = child.value();
    return {};
}

void MpiRanks::add_to(PollSet& set) {
    std::erase_if(newcomers_, [](const base::UniqueFd& socket) { return !socket.is_open(); });
    set.add(listener_.value(), POLLIN, [this] { accept_connection(); });
    for (std::size_t i = 0; i < newcomers_.size(); ++i) {
        set.add(newcomers_[i].value(), POLLIN, [this, i] { take_hello(i); });
    }
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (const Rank& peer = ranks_[static_cast<std::size_t>(rank)]; peer.socket.is_open()) {
            set.add(peer.socket.value(), POLLIN, [this, rank] { take_report(rank); });
        }
    }
    if (mpirun_errors_.is_open()) {
        set.add(mpirun_errors_.value(), POLLIN, [this] { read_mpirun_errors(); });
    }
    if (released_ && mpirun_ != 0) {
        set.wake_at(mpirun_deadline_);
    }
}

void MpiRanks::accept_connection() {
    base::UniqueFd socket(::accept4(listener_.value(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.is_open() && peer_is_same_user(socket.value())) {
        newcomers_.push_back(std::move(socket));
    }
}

void MpiRanks::take_hello(std::size_t newcomer) {
    ReceivedMessage received;
    const Reception reception = receive_message(newcomers_[newcomer].value(), received);
    if (reception == Reception::nothing_yet) {
        return;
    }
    base::UniqueFd socket = std::move(newcomers_[newcomer]);
    const int rank = received.message.value;
    const bool is_hello = reception == Reception::message && received.message.word == SupervisorWord::hello;
    if (!is_hello || rank < 0 || rank >= plan_.ranks) {
        return;  // closes it
    }
    const Rank& known = ranks_[static_cast<std::size_t>(rank)];
    if (!known.socket.is_open() && !known.ended) {
        welcome(rank, std::move(socket));
    }
}

void MpiRanks::welcome(int rank, base::UniqueFd socket) {
    const Result<RankDescriptors> descriptors = output_->open_rank(rank);
    if (!descriptors.is_ok()) {
        end_rank(not_started(rank, descriptors.status().message()));
        return;
    }
    const std::array<int, 2> fds = {descriptors.value().standard_output.value(),
                                    descriptors.value().standard_error.value()};
    const Status sent = send_message(socket.value(), SupervisorWord::welcome, rank, fds);
    if (!sent.is_ok()) {
        end_rank(not_started(rank, sent.message()));
        return;
    }
    ranks_[static_cast<std::size_t>(rank)].socket = std::move(socket);
}

void MpiRanks::take_report(int rank) {
    Rank& peer = ranks_[static_cast<std::size_t>(rank)];
    ReceivedMessage received;
    const Reception reception = receive_message(peer.socket.value(), received);
    if (reception == Reception::nothing_yet) {
        return;
    }
    const std::int32_t value = received.message.value;
    if (reception == Reception::closed) {
        peer.socket.reset();
        end_rank({rank, peer.pid, SIGKILL,
                  ""});  // the wait status of a killed process: so its supervisor was, and with it the program
    } else if (received.message.word == SupervisorWord::started) {
        peer.pid = value;
    } else if (received.message.word == SupervisorWord::start_failed) {
        end_rank(not_started(rank, plan_.program.front(), value));
    } else if (received.message.word == SupervisorWord::ended ||
               received.message.word == SupervisorWord::ended_by_launcher) {
        end_rank({rank, peer.pid, value, "", received.message.word == SupervisorWord::ended_by_launcher});
    }
}

void MpiRanks::end_rank(RankEnd end) {
    if (!std::exchange(ranks_[static_cast<std::size_t>(end.rank)].ended, true)) {
        ends_.push_back(std::move(end));
    }
}

void MpiRanks::read_mpirun_errors() {
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(mpirun_errors_.value(), buffer.data(), buffer.size());
    if (got > 0) {
        // Once all ranks have ended, ruedarun has said how; mpirun's pages about the same would only bury it.
        if (!running().empty()) {
            output_->pass_on_error({buffer.data(), static_cast<std::size_t>(got)});
        }
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        mpirun_errors_.reset();
    }
}

void MpiRanks::child_ended(pid_t pid, int wait_status) {
    if (pid != mpirun_ || pid == 0) {
        return;
    }
    while (mpirun_errors_.is_open()) {  // its last words, before ours about its end
        pollfd ready{mpirun_errors_.value(), POLLIN, 0};
        if (::poll(&ready, 1, 0) != 1) {
            break;
        }
        read_mpirun_errors();
    }
    if (!released_) {  // the supervisors wait for us, so mpirun had no reason to go
        ends_.push_back({kLauncherRank, pid, wait_status, "", false});
    }
    for (Rank& rank : ranks_) {
        rank.ended = rank.ended || !rank.socket.is_open();  // nobody will start them now
    }
    mpirun_ = 0;
}

bool MpiRanks::all_connected() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.ended || rank.socket.is_open(); });
}

void MpiRanks::signal_ranks(int signal_number) {
    for (Rank& rank : ranks_) {
        if (rank.socket.is_open() && !rank.ended &&
            !send_message(rank.socket.value(), SupervisorWord::deliver, signal_number).is_ok() && rank.pid != 0) {
            ::kill(-rank.pid, signal_number);  // the supervisor is stuck, and with it the pid cannot have been reaped
        }
    }
    const bool ends_ranks = signal_number == SIGTERM || signal_number == SIGINT || signal_number == SIGHUP ||
                            signal_number == SIGQUIT || signal_number == SIGKILL;
    if (ends_ranks && mpirun_ != 0 && !all_connected()) {
        ::kill(mpirun_, signal_number == SIGKILL ? SIGKILL : SIGTERM);
    }
}

std::vector<std::int32_t> MpiRanks::running() const {
    std::vector<std::int32_t> running;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (!ranks_[static_cast<std::size_t>(rank)].ended) {
            running.push_back(rank);
        }
    }
    return running;
}

void MpiRanks::release(TimePoint now) {
    released_ = true;
    mpirun_deadline_ = now + kMpirunLeaves;
    for (Rank& rank : ranks_) {
        rank.ended = true;
        if (rank.socket.is_open()) {
            // A supervisor that cannot be told sees the connection close when ruedarun ends.
            [[maybe_unused]] const Status told = send_message(rank.socket.value(), SupervisorWord::leave, 0);
        }
    }
}

void MpiRanks::advance(TimePoint now) {
    if (released_ && mpirun_ != 0 && now >= mpirun_deadline_) {
        ::kill(mpirun_, std::exchange(mpirun_signal_, SIGKILL));
        mpirun_deadline_ = now + kMpirunAfterSignal;
    }
}

}  // namespace rueda::launcher
