// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/mpi_ranks.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/launcher_notification.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

MpiRanks::MpiRanks(const LaunchPlan& plan, StartContext context)
    : plan_(plan), context_(std::move(context)), ranks_(static_cast<std::size_t>(plan.ranks)) {}

Status MpiRanks::start(JobOutput& output) {
    output_ = &output;
    Result<base::UniqueFd> listener = listen_for_supervisors(plan_.supervisor_socket);
    RUEDA_RETURN_IF_FAILED(listener.status());
    std::vector<base::UniqueFd> listeners;
    listeners.push_back(std::move(listener).value());
    acceptor_ = Acceptor(
        std::move(listeners), SOCK_CLOEXEC, [this](base::UniqueFd socket) { meet_newcomer(std::move(socket)); },
        [this](std::string_view line) { output_->say(line); });
    mpirun_.on_error_text = [this](std::string_view text) {
        // Once all ranks have ended, ruedarun has said how; mpirun's pages about the same would only bury it.
        if (!running().empty()) {
            output_->pass_on_error(text);
        }
    };
    return mpirun_.start(plan_, context_);
}

void MpiRanks::add_to(PollSet& set) {
    std::erase_if(newcomers_, [](const base::UniqueFd& socket) { return !socket.is_open(); });
    acceptor_.add_to(set);
    for (std::size_t i = 0; i < newcomers_.size(); ++i) {
        set.add(newcomers_[i].value(), POLLIN, [this, i] { take_hello(i); });
    }
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (const Rank& peer = ranks_[static_cast<std::size_t>(rank)]; peer.socket.is_open()) {
            set.add(peer.socket.value(), POLLIN, [this, rank] { take_report(rank); });
        }
    }
    mpirun_.add_to(set);
}

void MpiRanks::meet_newcomer(base::UniqueFd socket) {
    if (peer_is_same_user(socket.value())) {
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
    const Status sent = send_message(socket.value(), SupervisorWord::welcome, plan_.ranks, fds,
                                     encode_variables(torch_environment(plan_, rank)));
    if (!sent.is_ok()) {
        end_rank(not_started(rank, sent.message()));
        return;
    }
    ranks_[static_cast<std::size_t>(rank)].socket = std::move(socket);
    for (const RankNotifications::Item& item : context_.notifications->told()) {
        tell_rank(rank, item);
    }
}

void MpiRanks::tell_ranks(const RankNotifications::Item& item) {
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        tell_rank(rank, item);
    }
}

void MpiRanks::tell_rank(int rank, const RankNotifications::Item& item) {
    const Rank& peer = ranks_[static_cast<std::size_t>(rank)];
    if (peer.socket.is_open() && !peer.ended) {
        // A supervisor that takes no more is stuck or gone; the connection tells that.
        static_cast<void>(
            send_message(peer.socket.value(), SupervisorWord::rank_ended, item.rank, {}, item.word).is_ok());
    }
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
    } else if (received.message.word == SupervisorWord::aborted) {
        peer.abort_reason = base::printable(received.text, base::kMostLauncherText);
    } else if (received.message.word == SupervisorWord::steps) {
        peer.steps = told_steps(received.text);
    } else if (received.message.word == SupervisorWord::oom_kills) {
        peer.oom_kills = told_oom_kills(value, received.text);
    } else if (received.message.word == SupervisorWord::started) {
        peer.pid = value;
    } else if (received.message.word == SupervisorWord::start_failed) {
        end_rank(not_started(rank, plan_.program.front(), value));
    } else if (received.message.word == SupervisorWord::ended ||
               received.message.word == SupervisorWord::ended_by_launcher) {
        RankEnd end{rank, peer.pid, value, "", received.message.word == SupervisorWord::ended_by_launcher};
        end.abort_reason = peer.abort_reason;
        end.oom_kills = peer.oom_kills;
        end.steps = peer.steps;
        end_rank(std::move(end));
    }
}

void MpiRanks::end_rank(RankEnd end) {
    if (!std::exchange(ranks_[static_cast<std::size_t>(end.rank)].ended, true)) {
        ends_.push_back(std::move(end));
    }
}

void MpiRanks::child_ended(pid_t pid, int wait_status) {
    if (!mpirun_.ended(pid)) {
        return;
    }
    if (!mpirun_.is_released()) {  // the supervisors wait for us, so mpirun had no reason to go
        ends_.push_back({kLauncherRank, pid, wait_status, "", false});
    }
    for (Rank& rank : ranks_) {
        rank.ended = rank.ended || !rank.socket.is_open();  // nobody will start them now
    }
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
    if (ends_ranks && !all_connected()) {
        mpirun_.signal(signal_number == SIGKILL ? SIGKILL : SIGTERM);
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

bool MpiRanks::has_started() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.pid != 0; });
}

void MpiRanks::release(TimePoint now) {
    mpirun_.release(now);
    for (Rank& rank : ranks_) {
        rank.ended = true;
        if (rank.socket.is_open()) {
            // A supervisor that cannot be told sees the connection close when ruedarun ends.
            [[maybe_unused]] const Status told = send_message(rank.socket.value(), SupervisorWord::leave, 0);
        }
    }
}

void MpiRanks::advance(TimePoint now) { mpirun_.advance(now); }

}  // namespace rueda::launcher
