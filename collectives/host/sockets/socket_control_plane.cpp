// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/socket_control_plane.hpp"

#include <poll.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/network/endpoint_list.hpp"
#include "collectives/host/sockets/frame_stream.hpp"
#include "collectives/host/sockets/random_name.hpp"
#include "collectives/host/sockets/socket_rendezvous.hpp"

namespace rueda::collectives {
namespace {

/// A control plane over sockets, with rank 0 in the centre of a star. Every operation uses the same exchange: each rank
/// sends one frame to rank 0, and rank 0 sends one answer to each rank. Operations differ only in the content of the
/// answer.
class SocketControlPlane final : public ControlPlane {
public:
    SocketControlPlane(const SocketControlPlaneOptions& options, std::vector<FrameSocket> sockets)
        : rank_(options.rank),
          size_(options.size),
          reaches_other_hosts_(base::is_tcp_rendezvous(options.rendezvous)),
          secret_(reaches_other_hosts_ ? options.secret : std::string()),
          timeout_(options.operation_timeout),
          interruption_(options.interruption),
          sockets_(std::move(sockets)) {}

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] std::string description() const override { return reaches_other_hosts_ ? "socket (TCP)" : "socket"; }
    [[nodiscard]] bool reaches_other_hosts() const override { return reaches_other_hosts_; }
    [[nodiscard]] std::string shared_secret() const override { return secret_; }

    Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override {
        auto answer = exchange(FrameKind::allgather, 0, mine);
        return answer.is_ok() ? parse_parts(answer.value(), size_) : Result<std::vector<Bytes>>(answer.status());
    }
    Result<Bytes> broadcast(std::span<const std::byte> mine, int root) override {
        return exchange(FrameKind::broadcast, root, rank_ == root ? mine : std::span<const std::byte>());
    }
    Status barrier() override { return exchange(FrameKind::barrier, 0, {}).status(); }
    Status barrier_within(std::chrono::milliseconds limit) override {
        // This function is called at the end of the job. By then, another rank may have left the job, and its process
        // may have ended. The end of this process is no failure, but the interruption would report a failure. The
        // interruption is therefore switched off during the barrier.
        const std::chrono::milliseconds usual = std::exchange(timeout_, limit);
        Interruption interruption = std::exchange(interruption_, Interruption());
        Status status = barrier();
        timeout_ = usual;
        interruption_ = std::move(interruption);
        return status;
    }
    void close(bool /*after_failure*/) override { sockets_.clear(); }

private:
    Result<Bytes> exchange(FrameKind kind, int root, std::span<const std::byte> mine) {
        if (!failed_.is_ok()) {
            return failed_;
        }
        ++sequence_;
        const Status valid = check_call(kind, root, mine.size());
        auto answer =
            rank_ == 0 ? exchange_as_centre(kind, root, mine, valid) : exchange_with_0(kind, root, mine, valid);
        failed_ = answer.status();
        return answer;
    }

    /// Checks the arguments of a call. If they are invalid, this rank still sends a message (with the failure), because
    /// the other ranks wait for a message.
    Status check_call(FrameKind kind, int root, std::size_t length) const {
        if (root < 0 || root >= size_) {
            return failure(ErrorCode::invalid_argument, "{}: root {} does not exist, expected 0 to {}", name_of(kind),
                           root, size_ - 1);
        }
        if (length > kMaxControlMessage) {
            return failure(ErrorCode::invalid_argument, "{}: rank {} gave {} bytes, expected at most {}", name_of(kind),
                           rank_, length, kMaxControlMessage);
        }
        return {};
    }

    // The exchange on all ranks except rank 0: sends a frame to rank 0 and waits for the answer.

    Result<Bytes> exchange_with_0(FrameKind kind, int root, std::span<const std::byte> mine, const Status& valid) {
        const Deadline deadline = deadline_in(timeout_ + kAnswerGrace);
        const FrameHeader header{valid.is_ok() ? kind : FrameKind::failure, root, sequence_, 0};
        const Bytes complaint = valid.is_ok() ? Bytes() : encode_failure(valid);
        auto sent = send_frame(sockets_[0], header, valid.is_ok() ? mine : complaint, deadline, true);
        if (!sent.is_ok()) {
            return about_rank(kind, 0, sent.status());
        }
        FrameReceiver receiver;
        while (sent.value() != SendEnd::timed_out) {
            auto complete = receiver.advance(sockets_[0]);
            if (!complete.is_ok()) {
                return about_rank(kind, 0, complete.status());
            }
            if (complete.value()) {
                return check_answer(header, receiver.take());
            }
            auto ready = wait_for_answer(sockets_[0].fd(), deadline, interruption_, rank_, size_);
            if (!ready.is_ok()) {
                return ready.status();
            }
            if (!ready.value()) {
                break;
            }
        }
        return failure(ErrorCode::timeout, "{}: rank 0 did not answer within {} s", name_of(kind),
                       std::chrono::duration<double>(timeout_ + kAnswerGrace).count());
    }

    static Result<Bytes> check_answer(const FrameHeader& asked, Frame frame) {
        if (frame.header.kind == FrameKind::failure) {
            return parse_failure(frame.body);
        }
        if (frame.header.kind != asked.kind || frame.header.sequence != asked.sequence) {
            return failure(ErrorCode::internal, "rank 0 answers {} {}, expected {} {}", name_of(frame.header.kind),
                           frame.header.sequence, name_of(asked.kind), asked.sequence);
        }
        return std::move(frame.body);
    }

    // The exchange on rank 0: collects the frames of all ranks, and answers them.

    Result<Bytes> exchange_as_centre(FrameKind kind, int root, std::span<const std::byte> mine, const Status& valid) {
        const Deadline deadline = deadline_in(timeout_);
        std::vector<Bytes> parts(static_cast<std::size_t>(size_));
        Status status = valid;
        if (status.is_ok()) {
            parts[0].assign(mine.begin(), mine.end());
            status = collect({kind, root, sequence_, 0}, parts, deadline);
        }
        Bytes answer;
        if (status.is_ok()) {
            auto made = make_answer(kind, root, std::move(parts));
            status = made.status();
            if (made.is_ok()) {
                answer = std::move(made).value();
                // All frames have arrived. A new deadline begins for sending the answers.
                status = hand_out({kind, root, sequence_, 0}, answer, deadline_in(timeout_));
            }
        }
        if (!status.is_ok()) {
            tell_all(status);
            return status;
        }
        return answer;
    }

    static Result<Bytes> make_answer(FrameKind kind, int root, std::vector<Bytes> parts) {
        if (kind == FrameKind::broadcast) {
            return std::move(parts[static_cast<std::size_t>(root)]);
        }
        if (kind == FrameKind::barrier) {
            return Bytes();
        }
        std::size_t total = parts.size() * sizeof(std::uint64_t);
        for (const Bytes& part : parts) {
            total += part.size();
        }
        if (total > kMaxControlMessage) {
            return failure(ErrorCode::invalid_argument, "{}: the {} ranks together gave {} bytes, expected at most {}",
                           name_of(kind), parts.size(), total, kMaxControlMessage);
        }
        return encode_parts(parts);
    }

    /// Receives one frame of every rank. Rank 0 accepts the frames in any order. While it waits for a slow rank, it
    /// therefore still notices that another rank has died.
    Status collect(const FrameHeader& expected, std::vector<Bytes>& parts, Deadline deadline) {
        std::vector<FrameReceiver> receivers(parts.size());
        std::vector<bool> waiting(parts.size(), true);
        waiting[0] = false;
        int remaining = size_ - 1;
        while (remaining > 0) {
            std::vector<pollfd> entries;
            for (std::size_t r = 0; r < parts.size(); ++r) {
                const short events = waiting[r] ? POLLIN : POLLRDHUP;
                entries.push_back({r == 0 ? -1 : sockets_[r].fd(), events, 0});
            }
            const int longest = sliced(interruption_, milliseconds_until(deadline));
            const int ready = ::poll(entries.data(), entries.size(), longest);
            if (ready < 0 && errno != EINTR) {
                return system_failure(ErrorCode::internal, "poll");
            }
            if (ready == 0) {
                RUEDA_RETURN_IF_FAILED(ask(interruption_, rank_, size_));
            }
            for (std::size_t r = 1; r < parts.size(); ++r) {
                const int rank = static_cast<int>(r);
                if (entries[r].revents == 0) {
                    continue;
                }
                if (!waiting[r]) {
                    return about_rank(
                        expected.kind, rank,
                        Status(ErrorCode::aborted, "has closed its connection: it has ended, or left the job"));
                }
                auto complete = receivers[r].advance(sockets_[r]);
                if (!complete.is_ok()) {
                    return about_rank(expected.kind, rank, complete.status());
                }
                if (complete.value()) {
                    Frame frame = receivers[r].take();
                    RUEDA_RETURN_IF_FAILED(check_request(expected, frame, rank));
                    parts[r] = std::move(frame.body);
                    waiting[r] = false;
                    --remaining;
                }
            }
            if (remaining > 0 && has_passed(deadline)) {
                return failure(ErrorCode::timeout, "{}: rank{} did not come within {} s", name_of(expected.kind),
                               rank_list(size_, [&](int r) { return waiting[static_cast<std::size_t>(r)]; }),
                               std::chrono::duration<double>(timeout_).count());
            }
        }
        return {};
    }

    static Status check_request(const FrameHeader& expected, const Frame& frame, int rank) {
        const FrameHeader& header = frame.header;
        if (header.kind == FrameKind::failure) {
            return parse_failure(frame.body);
        }
        if (header.kind != expected.kind || header.sequence != expected.sequence || header.root != expected.root) {
            return failure(ErrorCode::internal,
                           "rank {} is in operation {} ({}, root {}) where rank 0 is in operation {} ({}, root {})",
                           rank, header.sequence, name_of(header.kind), header.root, expected.sequence,
                           name_of(expected.kind), expected.root);
        }
        return {};
    }

    Status hand_out(const FrameHeader& header, std::span<const std::byte> answer, Deadline deadline) {
        for (int r = 1; r < size_; ++r) {
            auto end = send_frame(sockets_[static_cast<std::size_t>(r)], header, answer, deadline, false);
            if (!end.is_ok()) {
                return about_rank(header.kind, r, end.status());
            }
            if (end.value() != SendEnd::sent) {
                const bool timed_out = end.value() == SendEnd::timed_out;
                return about_rank(
                    header.kind, r,
                    timed_out ? Status(ErrorCode::timeout, "does not read its answer")
                              : Status(ErrorCode::aborted, "has closed its connection: it has ended, or left the job"));
            }
        }
        return {};
    }

    /// Sends a failure to all ranks. After a failure rank 0 does not wait for other ranks, so it sends only as much as
    /// the sockets accept at once.
    void tell_all(const Status& status) {
        const Bytes body = encode_failure(status);
        for (std::size_t r = 1; r < sockets_.size(); ++r) {
            static_cast<void>(send_frame(sockets_[r], {FrameKind::failure, 0, sequence_, 0}, body,
                                         std::chrono::steady_clock::now(), false)
                                  .is_ok());
        }
    }

    static Status about_rank(FrameKind kind, int rank, const Status& status) {
        return failure(status.code(), "{}: rank {} {}", name_of(kind), rank, status.message());
    }

    const int rank_;
    const int size_;
    const bool reaches_other_hosts_;
    const std::string secret_;  ///< the secret of the job; empty within a host
    std::chrono::milliseconds timeout_;
    Interruption interruption_;
    /// Rank 0 has one socket for each rank, indexed by rank; the entry of rank 0 itself is not open. Every other rank
    /// has one socket, which is connected to rank 0.
    std::vector<FrameSocket> sockets_;
    std::uint64_t sequence_ = 0;
    Status failed_;
};

Status check_rendezvous(const SocketControlPlaneOptions& options) {
    if (base::is_tcp_rendezvous(options.rendezvous)) {
        if (!base::tcp_endpoints(options.rendezvous)) {
            return failure(ErrorCode::invalid_argument,
                           "rendezvous '{}' is no list of addresses, expected for example 'tcp:10.0.0.1:4711' with at "
                           "most {} numeric addresses",
                           options.rendezvous, base::kMostEndpoints);
        }
        return options.secret.empty()
                   ? failure(ErrorCode::invalid_argument,
                             "rendezvous '{}' needs a secret by which the ranks recognise each other: set "
                             "RUEDA_RENDEZVOUS_SECRET to the same random text on all ranks, or start the program by "
                             "ruedarun",
                             options.rendezvous)
                   : Status();
    }
    RUEDA_RETURN_IF_FAILED(check_socket_name(options.rendezvous));
    if (has_random_part(options.rendezvous)) {
        RUEDA_RETURN_IF_FAILED(check_socket_name(options.rendezvous + std::string(kRandomPartGrowth, '0')));
    }
    return {};
}

Status check_options(const SocketControlPlaneOptions& options) {
    RUEDA_RETURN_IF_FAILED(check_rendezvous(options));
    if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
        return failure(ErrorCode::invalid_argument,
                       "rank {} is not possible in a job of {} ranks, expected 0 to size − 1", options.rank,
                       options.size);
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<ControlPlane>> open_socket_control_plane(const SocketControlPlaneOptions& options) {
    RUEDA_RETURN_IF_FAILED(check_options(options));
    std::vector<FrameSocket> sockets;
    if (options.rank == 0) {
        auto ranks = receive_ranks(options);
        if (!ranks.is_ok()) {
            return ranks.status();
        }
        sockets = std::move(ranks).value();
    } else {
        auto socket = come_to_rank_0(options);
        if (!socket.is_ok()) {
            return socket.status();
        }
        sockets.push_back(std::move(socket).value());
    }
    return std::unique_ptr<ControlPlane>(std::make_unique<SocketControlPlane>(options, std::move(sockets)));
}

}  // namespace rueda::collectives
