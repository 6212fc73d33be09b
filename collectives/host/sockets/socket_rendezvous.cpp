// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/socket_rendezvous.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/network/endpoint_list.hpp"
#include "base/network/proving_socket.hpp"
#include "collectives/host/sockets/frame_stream.hpp"
#include "collectives/host/sockets/random_name.hpp"
#include "collectives/host/sockets/tcp_rendezvous.hpp"
#include "collectives/wire.hpp"

namespace rueda::collectives {
namespace {

/// How long rank 0 may take between its calls of bind and listen. On a busy machine, rank 0 may lose its core between
/// the two calls.
constexpr std::chrono::seconds kListenGrace{2};

/// When its descriptors or memory are used up, rank 0 closes a connection whose other side has not proved the secret
/// yet. If there is no such connection, rank 0 accepts no new connection for this time.
constexpr std::chrono::milliseconds kShortagePause{50};

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

/// Raises the soft limit of descriptors, on rank 0 of a rendezvous over TCP. Rank 0 needs one descriptor for each rank,
/// and one for each connection whose other side has not proved yet that it knows the secret.
void raise_descriptor_limit(int size) {
    const rlim_t needed = static_cast<rlim_t>(size) * 2 + 128;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < needed) {
        limit.rlim_cur = std::min(needed, limit.rlim_max);
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

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

/// Returns the name at which rank 0 listens on this host.
Result<std::string> name_on_host(const std::string& rendezvous) {
    if (rendezvous.front() == '/') {
        RUEDA_RETURN_IF_FAILED(check_private_folder(rendezvous));
    }
    return has_random_part(rendezvous) ? make_random_name(rendezvous) : Result<std::string>(rendezvous);
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
    std::optional<base::ProvingSocket> proving;  ///< Runs the handshake over TCP. Empty within a host, and after the
                                                 ///< other side has proved the secret.
    /// The connection. Over TCP, it is not open until the other side has proved the secret.
    FrameSocket socket;
    std::array<std::byte, kHelloBytes + base::MessageCodes::kBytes> bytes{};
    std::size_t received = 0;

    [[nodiscard]] int fd() const { return proving ? proving->fd() : socket.fd(); }
    void close() {
        proving.reset();
        socket.close();
    }
};

/// The work of rank 0 in the rendezvous. Threads: only one thread may use an object.
class Reception {
public:
    Reception(const SocketControlPlaneOptions& options, std::vector<base::UniqueFd> listeners)
        : options_(options),
          uses_tcp_(base::is_tcp_rendezvous(options.rendezvous)),
          deadline_(deadline_in(options.start_timeout)),
          listeners_(std::move(listeners)),
          ranks_(static_cast<std::size_t>(options.size)) {}

    Status run() {
        while (missing_count() > 0) {
            if (has_passed(deadline_)) {
                return refuse_all(missing_ranks());
            }
            if (Status status = turn(); !status.is_ok()) {
                return refuse_all(status);
            }
            // The interruption is checked only after rank 0 has accepted all ranks that have arrived. If one of these
            // ranks has died, its closed connection has already shown this to rank 0.
            if (Status go_on = ask(options_.interruption, 0, options_.size); missing_count() > 0 && !go_on.is_ok()) {
                return refuse_all(go_on);
            }
        }
        listeners_.clear();
        return {};
    }

    [[nodiscard]] std::vector<FrameSocket> take() { return std::move(ranks_); }

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

    /// Tells all connected ranks why the start fails. The function does not wait: if a rank's socket does not accept
    /// the message at once, that rank gets no message.
    Status refuse_all(const Status& status) {
        for (FrameSocket& socket : ranks_) {
            if (socket.is_open()) {
                refuse(socket, status);
            }
        }
        return status;
    }

    static void refuse(FrameSocket& socket, const Status& status) {
        // This send does not wait. If the socket of the refused process accepts no data now, that process gets no
        // answer.
        static_cast<void>(
            send_frame(socket, {FrameKind::failure}, encode_failure(status), std::chrono::steady_clock::now(), false)
                .is_ok());
    }

    /// Waits for an event and handles it.
    Status turn() {
        std::vector<pollfd> entries;
        const bool accepts = has_passed(accepts_again_);
        for (const base::UniqueFd& listener : listeners_) {
            entries.push_back({accepts ? listener.value() : -1, POLLIN, 0});  // poll ignores the descriptor −1
        }
        for (const Comer& comer : comers_) {
            entries.push_back({comer.fd(), POLLIN, 0});
        }
        const std::size_t listeners = listeners_.size();
        const std::size_t comers = comers_.size();
        for (const FrameSocket& socket : ranks_) {
            entries.push_back({socket.fd(), POLLRDHUP, 0});
        }
        const Deadline wake = accepts ? deadline_ : std::min(deadline_, accepts_again_);
        const int longest = sliced(options_.interruption, milliseconds_until(wake));
        if (::poll(entries.data(), entries.size(), longest) < 0) {
            return errno == EINTR ? Status() : system_failure(ErrorCode::internal, "poll");
        }
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            if (entries[listeners + comers + r].revents != 0) {
                return failure(ErrorCode::aborted,
                               "rank {} has closed its connection before rank{} had come: it has ended, or given up", r,
                               rank_list(options_.size, [&](int rank) { return is_missing(rank); }));
            }
        }
        for (std::size_t c = 0; c < comers; ++c) {
            if (entries[listeners + c].revents != 0) {
                hear(comers_[c]);
            }
        }
        std::erase_if(comers_, [](const Comer& comer) { return comer.fd() < 0; });
        for (std::size_t l = 0; l < listeners; ++l) {
            if (entries[l].revents != 0) {
                RUEDA_RETURN_IF_FAILED(let_in(listeners_[l].value()));
            }
        }
        return {};
    }

    Status let_in(int listener) {
        while (true) {
            base::UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!socket.is_open() && is_shortage(errno)) {
                if (!close_oldest_unproven()) {
                    accepts_again_ = deadline_in(kShortagePause);
                    return {};
                }
                continue;
            }
            if (!socket.is_open()) {
                const bool is_transient = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
                return is_transient ? Status() : system_failure(ErrorCode::resource_exhausted, "accept");
            }
            Result<Comer> comer = uses_tcp_ ? comer_of_network(std::move(socket)) : comer_of_host(std::move(socket));
            if (!comer.is_ok()) {
                last_refusal_ = comer.status().message();
                continue;
            }
            if (comers_.size() >= comers_limit()) {
                if (!close_oldest_unproven()) {
                    comers_.erase(comers_.begin());
                }
            }
            comers_.push_back(std::move(comer).value());
        }
    }

    /// Closes the oldest connection whose other side has not proved yet that it knows the secret. If the other side is
    /// a rank, it tries again. Connections with a proof are kept, because their ranks would fail if the connections
    /// were closed. Returns false if there is no connection without a proof.
    bool close_oldest_unproven() {
        const auto unproven =
            std::find_if(comers_.begin(), comers_.end(), [](const Comer& one) { return one.proving.has_value(); });
        if (unproven == comers_.end()) {
            return false;
        }
        comers_.erase(unproven);
        return true;
    }

    static Result<Comer> comer_of_host(base::UniqueFd socket) {
        const auto peer = peer_of(socket.value());
        RUEDA_RETURN_IF_FAILED(peer.status());
        RUEDA_RETURN_IF_FAILED(check_same_user(peer.value()));
        Comer comer;
        comer.socket = FrameSocket(std::move(socket));
        return comer;
    }

    Result<Comer> comer_of_network(base::UniqueFd socket) {
        const Result<base::Nonce> nonce = base::random_nonce();
        RUEDA_RETURN_IF_FAILED(nonce.status());
        Comer comer;
        comer.proving.emplace(std::move(socket), base::HandshakeSide::accepting, options_.secret, kRendezvousPurpose,
                              nonce.value());
        return comer;
    }

    /// Continues the handshake of a TCP connection. Returns true if the other side has proved the secret.
    bool prove(Comer& comer) {
        if (const Status status = comer.proving->advance(); !status.is_ok()) {
            last_refusal_ = "a connection: " + status.message();
            comer.close();
            return false;
        }
        if (!comer.proving->is_proven()) {
            return false;
        }
        comer.socket = FrameSocket(comer.proving->take());
        comer.proving.reset();
        return true;
    }

    /// Reads those bytes of a connection's handshake and Hello that have arrived.
    void hear(Comer& comer) {
        if (comer.proving && !prove(comer)) {
            return;
        }
        const std::size_t wanted = kHelloBytes + comer.socket.code_bytes();
        const auto count =
            receive_some(comer.socket.fd(), std::span(comer.bytes).first(wanted).subspan(comer.received));
        if (!count.is_ok()) {
            comer.close();
            return;
        }
        comer.received += count.value();
        if (comer.received < wanted) {
            return;
        }
        const auto bytes = std::span(std::as_const(comer.bytes)).first(wanted);
        const auto hello = parse_hello(bytes.first(kHelloBytes), options_.size);
        Status verdict = comer.socket.check_code({}, bytes.first(kHelloBytes), bytes.subspan(kHelloBytes));
        verdict = verdict.is_ok() ? hello.status() : failure(verdict.code(), "a rank {}", verdict.message());
        if (verdict.is_ok() && !is_missing(hello.value().rank)) {
            verdict = failure(ErrorCode::invalid_argument,
                              "rank {} has come twice: give every process its own RUEDA_RANK, and every job its own "
                              "RUEDA_RENDEZVOUS",
                              hello.value().rank);
        }
        if (!verdict.is_ok()) {
            last_refusal_ = verdict.message();
            refuse(comer.socket, verdict);
            comer.close();
            return;
        }
        ranks_[static_cast<std::size_t>(hello.value().rank)] = std::move(comer.socket);
    }

    const SocketControlPlaneOptions& options_;
    const bool uses_tcp_;
    const Deadline deadline_;
    Deadline accepts_again_{};  ///< before this time, no connection is accepted
    std::vector<base::UniqueFd> listeners_;
    std::vector<Comer> comers_;
    std::vector<FrameSocket> ranks_;
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

/// Connects to rank 0 on this host, and checks that the process that listens there belongs to the same user.
Result<FrameSocket> connect_on_host(const SocketControlPlaneOptions& options) {
    auto connected = connect_until(options, deadline_in(options.start_timeout));
    RUEDA_RETURN_IF_FAILED(connected.status());
    base::UniqueFd socket = std::move(connected).value();
    const auto peer = peer_of(socket.value());
    RUEDA_RETURN_IF_FAILED(peer.status());
    if (const Status status = check_same_user(peer.value()); !status.is_ok()) {
        return failure(status.code(), "rendezvous '{}': {}", options.rendezvous, status.message());
    }
    return FrameSocket(std::move(socket));
}

/// Waits until rank 0 reports that all ranks have connected, or reports an error.
Status await_welcome(FrameSocket& socket, const SocketControlPlaneOptions& options) {
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
        auto ready = wait_for_answer(socket.fd(), deadline, options.interruption, options.rank, options.size);
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

Result<std::vector<FrameSocket>> receive_ranks(const SocketControlPlaneOptions& options) {
    std::vector<FrameSocket> ranks;
    {
        const bool uses_tcp = base::is_tcp_rendezvous(options.rendezvous);
        if (uses_tcp) {
            raise_descriptor_limit(options.size);
        }
        auto listeners = uses_tcp ? listen_at_rendezvous(options.rendezvous)
                                  : Result<std::vector<base::UniqueFd>>(std::vector<base::UniqueFd>());
        RUEDA_RETURN_IF_FAILED(listeners.status());
        std::optional<PathGuard> guard;
        if (listeners.value().empty()) {
            auto name = name_on_host(options.rendezvous);
            RUEDA_RETURN_IF_FAILED(name.status());
            auto listener = listen_unix(name.value(), std::max(options.size, 16));
            RUEDA_RETURN_IF_FAILED(listener.status());
            listeners.value().push_back(std::move(listener).value());
            guard.emplace(name.value());
        }
        Reception reception(options, std::move(listeners).value());
        RUEDA_RETURN_IF_FAILED(reception.run());
        ranks = reception.take();
    }
    // Rank 0 sends the welcome only after it has freed the name, because a welcomed rank may use the same name again at
    // once.
    for (std::size_t r = 1; r < ranks.size(); ++r) {
        auto end = send_frame(ranks[r], {FrameKind::welcome}, {}, deadline_in(options.operation_timeout), false);
        if (!end.is_ok() || end.value() != SendEnd::sent) {
            return failure(ErrorCode::aborted, "start: rank {} has ended, or left the job", r);
        }
    }
    return ranks;
}

Result<FrameSocket> come_to_rank_0(const SocketControlPlaneOptions& options) {
    auto connected =
        base::is_tcp_rendezvous(options.rendezvous) ? connect_to_rendezvous(options) : connect_on_host(options);
    RUEDA_RETURN_IF_FAILED(connected.status());
    FrameSocket socket = std::move(connected).value();
    // Normally the Hello is sent at once, because it fits into any socket's send buffer. But rank 0 may send something
    // or close the connection before that. In this case send_bytes() returns without an error, and await_welcome()
    // below reports what happened.
    Bytes hello = encode_hello({options.rank, options.size});
    const Bytes code = socket.code_to_send({}, hello);
    hello.insert(hello.end(), code.begin(), code.end());
    const auto sent = send_bytes(socket.fd(), hello, deadline_in(options.start_timeout), true);
    if (!sent.is_ok()) {
        return failure(sent.status().code(), "start: rank 0 {}", sent.status().message());
    }
    RUEDA_RETURN_IF_FAILED(await_welcome(socket, options));
    return socket;
}

}  // namespace rueda::collectives
