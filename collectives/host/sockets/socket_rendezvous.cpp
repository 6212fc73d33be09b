// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/socket_rendezvous.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "collectives/host/sockets/frame_stream.hpp"
#include "collectives/host/sockets/random_name.hpp"
#include "collectives/wire.hpp"

namespace rueda::collectives {
namespace {

/// How long rank 0 may take between its calls of bind and listen. On a busy machine, rank 0 may lose its core between
/// the two calls.
constexpr std::chrono::seconds kListenGrace{2};

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

/// A path socket is only as private as its folder: a user who can write to the folder can replace the socket.
Status check_private_folder(const std::string& path) {
    const std::string folder = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
    struct stat facts {};
    if (::stat(folder.c_str(), &facts) != 0) {
        return system_failure(ErrorCode::invalid_argument, fmt::format("rendezvous '{}': stat of its folder", path));
    }
    if (!S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid() || (facts.st_mode & 077U) != 0) {
        return failure(
            ErrorCode::invalid_argument,
            "rendezvous '{}': its folder belongs to user {} and has mode {:o}, expected user {} and mode 700: "
            "put it into a private folder",
            path, facts.st_uid, facts.st_mode & 07777U, ::geteuid());
    }
    return {};
}

/// The destructor of this object removes the name of a path socket, if the name still exists.
class PathGuard {
public:
    explicit PathGuard(std::string path) : path_(std::move(path)) {}
    PathGuard(const PathGuard&) = delete;
    PathGuard& operator=(const PathGuard&) = delete;
    ~PathGuard() {
        if (path_.front() == '/') {
            ::unlink(path_.c_str());
        }
    }

private:
    const std::string path_;
};

/// A connection that rank 0 accepted, on which the complete Hello (with the rank's number) has not arrived yet.
struct Comer {
    base::UniqueFd socket;
    std::array<std::byte, kHelloBytes> hello{};
    std::size_t received = 0;
};

/// The work of rank 0 in the rendezvous. Threads: only one thread may use an object.
class Reception {
public:
    Reception(const SocketControlPlaneOptions& options, base::UniqueFd listener)
        : options_(options),
          deadline_(deadline_in(options.start_timeout)),
          listener_(std::move(listener)),
          ranks_(static_cast<std::size_t>(options.size)) {}

    Status run() {
        while (missing_count() > 0) {
            if (has_passed(deadline_)) {
                return refuse_all(missing_ranks());
            }
            if (Status status = turn(); !status.is_ok()) {
                return refuse_all(status);
            }
            // Before rank 0 checks the interruption, it accepts all ranks that have arrived. If such a rank has died,
            // its connection shows this.
            if (Status go_on = ask(options_.interruption, 0, options_.size); missing_count() > 0 && !go_on.is_ok()) {
                return refuse_all(go_on);
            }
        }
        listener_.reset();
        return {};
    }

    [[nodiscard]] std::vector<base::UniqueFd> take() { return std::move(ranks_); }

private:
    /// The limit for connections without a complete Hello. If there are more, the oldest one is closed, so that
    /// connections that send nothing cannot use up the descriptors.
    [[nodiscard]] std::size_t comers_limit() const { return ranks_.size() + 64; }

    [[nodiscard]] bool is_missing(int rank) const {
        return rank > 0 && !ranks_[static_cast<std::size_t>(rank)].is_open();
    }
    [[nodiscard]] int missing_count() const {
        int count = 0;
        for (int r = 1; r < options_.size; ++r) {
            count += is_missing(r) ? 1 : 0;
        }
        return count;
    }

    Status missing_ranks() const {
        return failure(ErrorCode::timeout, "rank{} did not come to '{}' within {} s (RUEDA_START_TIMEOUT){}{}",
                       rank_list(options_.size, [&](int r) { return is_missing(r); }), options_.rendezvous,
                       seconds(options_.start_timeout), last_refusal_.empty() ? "" : "; last refused: ", last_refusal_);
    }

    /// Tells all ranks that have connected why the start fails. It does not wait: if a rank's socket does not accept
    /// the message at once, this rank gets no message.
    Status refuse_all(const Status& status) {
        for (const base::UniqueFd& socket : ranks_) {
            if (socket.is_open()) {
                refuse(socket.value(), status);
            }
        }
        return status;
    }

    static void refuse(int socket, const Status& status) {
        // This call does not wait. So a process whose socket accepts no data gets no answer.
        static_cast<void>(
            send_frame(socket, {FrameKind::failure}, encode_failure(status), std::chrono::steady_clock::now(), false)
                .is_ok());
    }

    /// Waits for an event and handles it.
    Status turn() {
        std::vector<pollfd> entries{{listener_.value(), POLLIN, 0}};
        for (const Comer& comer : comers_) {
            entries.push_back({comer.socket.value(), POLLIN, 0});
        }
        const std::size_t comers = comers_.size();
        for (const base::UniqueFd& socket : ranks_) {
            entries.push_back({socket.value(), POLLRDHUP, 0});  // poll ignores the descriptor −1
        }
        const int longest = sliced(options_.interruption, milliseconds_until(deadline_));
        if (::poll(entries.data(), entries.size(), longest) < 0) {
            return errno == EINTR ? Status() : system_failure(ErrorCode::internal, "poll");
        }
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            if (entries[1 + comers + r].revents != 0) {
                return failure(ErrorCode::aborted,
                               "rank {} has closed its connection before rank{} had come: it has ended, or given up", r,
                               rank_list(options_.size, [&](int rank) { return is_missing(rank); }));
            }
        }
        for (std::size_t c = 0; c < comers; ++c) {
            if (entries[1 + c].revents != 0) {
                hear(comers_[c]);
            }
        }
        std::erase_if(comers_, [](const Comer& comer) { return !comer.socket.is_open(); });
        return entries[0].revents != 0 ? let_in() : Status();
    }

    Status let_in() {
        while (true) {
            base::UniqueFd socket(::accept4(listener_.value(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!socket.is_open()) {
                const bool is_transient = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
                return is_transient ? Status() : system_failure(ErrorCode::resource_exhausted, "accept");
            }
            const auto peer = peer_of(socket.value());
            const Status same_user = peer.is_ok() ? check_same_user(peer.value()) : peer.status();
            if (!same_user.is_ok()) {
                last_refusal_ = same_user.message();
                continue;
            }
            if (comers_.size() >= comers_limit()) {
                comers_.erase(comers_.begin());
            }
            comers_.push_back(Comer{std::move(socket), {}, 0});
        }
    }

    /// Reads those bytes of a connection's Hello that have arrived.
    void hear(Comer& comer) {
        const auto count = receive_some(comer.socket.value(), std::span(comer.hello).subspan(comer.received));
        if (!count.is_ok()) {
            comer.socket.reset();
            return;
        }
        comer.received += count.value();
        if (comer.received < kHelloBytes) {
            return;
        }
        const auto hello = parse_hello(comer.hello, options_.size);
        Status verdict = hello.status();
        if (hello.is_ok() && !is_missing(hello.value().rank)) {
            verdict = failure(ErrorCode::invalid_argument,
                              "rank {} has come twice: give every process its own RUEDA_RANK, and every job its own "
                              "RUEDA_RENDEZVOUS",
                              hello.value().rank);
        }
        if (!verdict.is_ok()) {
            last_refusal_ = verdict.message();
            refuse(comer.socket.value(), verdict);
            comer.socket.reset();
            return;
        }
        ranks_[static_cast<std::size_t>(hello.value().rank)] = std::move(comer.socket);
    }

    const SocketControlPlaneOptions& options_;
    const Deadline deadline_;
    base::UniqueFd listener_;
    std::vector<Comer> comers_;
    std::vector<base::UniqueFd> ranks_;
    std::string last_refusal_;
};

Result<base::UniqueFd> connect_until(const SocketControlPlaneOptions& options, Deadline deadline) {
    // Rank 0 may start later than this rank, so this rank tries again. The first pause is 1 ms, because a process takes
    // milliseconds to start.
    std::chrono::milliseconds pause(1);
    std::optional<Deadline> silent_since;
    while (true) {
        ConnectAttempt attempt = has_random_part(options.rendezvous) ? connect_to_random_name(options.rendezvous)
                                                                     : connect_unix(options.rendezvous);
        if (attempt.error == 0) {
            return std::move(attempt.socket);
        }
        if (!is_worth_retrying(attempt.error)) {
            return system_failure(ErrorCode::unsupported, fmt::format("connect to '{}'", options.rendezvous),
                                  attempt.error);
        }
        // Rank 0 listens as soon as it has bound the name. If the name is bound but nobody listens, another process may
        // have taken the name to prevent the job from starting.
        const bool is_silent = attempt.error == ECONNREFUSED && is_taken(options.rendezvous);
        silent_since = !is_silent ? std::nullopt : silent_since ? silent_since : std::optional(deadline_in({}));
        if (is_silent && has_passed(*silent_since + kListenGrace)) {
            return failure(
                ErrorCode::unsupported,
                "rendezvous '{}' is taken by a process that does not listen there, so it is not rank 0 of this "
                "job: end that process (/proc/net/unix lists its socket), or give the job another "
                "RUEDA_RENDEZVOUS",
                options.rendezvous);
        }
        if (has_passed(deadline)) {
            return failure(ErrorCode::timeout, "rank 0 did not come to '{}' within {} s (RUEDA_START_TIMEOUT): {}",
                           options.rendezvous, seconds(options.start_timeout),
                           std::generic_category().message(attempt.error));
        }
        RUEDA_RETURN_IF_FAILED(ask(options.interruption, options.rank, options.size));
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::milliseconds(50));
    }
}

/// Waits until rank 0 reports that all ranks have connected, or reports an error.
Status await_welcome(int socket, const SocketControlPlaneOptions& options) {
    const Deadline deadline = deadline_in(options.start_timeout + kAnswerGrace);
    FrameReceiver receiver;
    while (true) {
        auto complete = receiver.advance(socket);
        if (!complete.is_ok()) {
            return failure(complete.status().code(), "start: rank 0 {}", complete.status().message());
        }
        if (complete.value()) {
            const Frame frame = receiver.take();
            if (frame.header.kind == FrameKind::welcome) {
                return {};
            }
            return frame.header.kind == FrameKind::failure
                       ? parse_failure(frame.body)
                       : failure(ErrorCode::internal, "start: rank 0 has sent '{}', expected 'start'",
                                 name_of(frame.header.kind));
        }
        auto ready = wait_for_answer(socket, deadline, options.interruption, options.rank, options.size);
        if (!ready.is_ok()) {
            return ready.status();
        }
        if (!ready.value()) {
            return failure(ErrorCode::timeout,
                           "start: rank 0 is there but has not said within {} s that all ranks have come",
                           seconds(options.start_timeout + kAnswerGrace));
        }
    }
}

}  // namespace

Result<std::vector<base::UniqueFd>> receive_ranks(const SocketControlPlaneOptions& options) {
    if (options.rendezvous.front() == '/') {
        RUEDA_RETURN_IF_FAILED(check_private_folder(options.rendezvous));
    }
    std::string name = options.rendezvous;
    if (has_random_part(name)) {
        auto made = make_random_name(name);
        RUEDA_RETURN_IF_FAILED(made.status());
        name = std::move(made).value();
    }
    auto listener = listen_unix(name, std::max(options.size, 16));
    if (!listener.is_ok()) {
        return listener.status();
    }
    std::vector<base::UniqueFd> ranks;
    {
        const PathGuard guard(name);
        Reception reception(options, std::move(listener).value());
        RUEDA_RETURN_IF_FAILED(reception.run());
        ranks = reception.take();
    }
    // Rank 0 sends the welcome only after it has freed the name, because a welcomed rank may use the same name again at
    // once.
    for (std::size_t r = 1; r < ranks.size(); ++r) {
        auto end =
            send_frame(ranks[r].value(), {FrameKind::welcome}, {}, deadline_in(options.operation_timeout), false);
        if (!end.is_ok() || end.value() != SendEnd::sent) {
            return failure(ErrorCode::aborted, "start: rank {} has ended, or left the job", r);
        }
    }
    return ranks;
}

Result<base::UniqueFd> come_to_rank_0(const SocketControlPlaneOptions& options) {
    auto connected = connect_until(options, deadline_in(options.start_timeout));
    if (!connected.is_ok()) {
        return connected.status();
    }
    base::UniqueFd socket = std::move(connected).value();
    const auto peer = peer_of(socket.value());
    if (!peer.is_ok()) {
        return peer.status();
    }
    if (const Status status = check_same_user(peer.value()); !status.is_ok()) {
        return failure(status.code(), "rendezvous '{}': {}", options.rendezvous, status.message());
    }
    // Normally the Hello is sent at once, because it fits into any socket's send buffer. If rank 0 sends something or
    // closes the connection before the Hello was sent, send_bytes() returns without an error, and await_welcome() below
    // reports what happened.
    const auto sent = send_bytes(socket.value(), encode_hello({options.rank, options.size}),
                                 deadline_in(options.start_timeout), true);
    if (!sent.is_ok()) {
        return failure(sent.status().code(), "start: rank 0 {}", sent.status().message());
    }
    RUEDA_RETURN_IF_FAILED(await_welcome(socket.value(), options));
    return socket;
}

}  // namespace rueda::collectives
