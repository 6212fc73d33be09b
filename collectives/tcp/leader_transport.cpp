// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/tcp/leader_transport.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"

namespace rueda::collectives {

namespace {

/// Tickets with this bit belong to this transport. In the tickets of transports that wrap no other transport, this bit
/// is 0.
constexpr Transport::Ticket kOverTcp = Transport::kTicketOfWrapper;

/// Returns `ticket`, which the inner transport returned for a send or a receive. Asserts that the ticket does not have
/// the bit kOverTcp.
Result<Transport::Ticket> checked_inner(Result<Transport::Ticket> ticket) {
    RUEDA_ASSERT(!ticket.is_ok() || (ticket.value() & kOverTcp) == 0);
    return ticket;
}

/// The maximum number of bytes of arrived messages that wait for a receive. A correct job stays far below this: for
/// each set, a leader has at most one message to its parent in flight, and always has a receive posted.
constexpr std::size_t kMostWaitingBytes = std::size_t{256} << 20;

}  // namespace

Result<std::unique_ptr<LeaderTransport>> LeaderTransport::create(Transport& inner, std::chrono::milliseconds silence,
                                                                 std::size_t most_bytes, std::string job_secret) {
    Result<std::unique_ptr<SocketWatch>> watch = SocketWatch::create();
    RUEDA_RETURN_IF_FAILED(watch.status());
    return std::unique_ptr<LeaderTransport>(
        new LeaderTransport(inner, std::move(watch).value(), silence, most_bytes, std::move(job_secret)));
}

LeaderTransport::LeaderTransport(Transport& inner, std::unique_ptr<SocketWatch> watch,
                                 std::chrono::milliseconds silence, std::size_t most_bytes, std::string job_secret)
    : inner_(inner),
      watch_(std::move(watch)),
      silence_(silence),
      most_bytes_(most_bytes),
      job_secret_(std::move(job_secret)),
      abandoned_(ErrorCode::aborted, "the job has ended: this rank sends and receives no more messages") {}

LeaderTransport::~LeaderTransport() { close(); }

Status LeaderTransport::add(std::uint32_t number, std::vector<ConnectedLeader> leaders) {
    const std::lock_guard lock(mutex_);
    for (ConnectedLeader& leader : leaders) {
        leader.link->limit_silence(silence_);
        if (const Status watched = watch_->add(leader.link->fd()); !watched.is_ok()) {
            // The code `aborted` ends the job. The job must end, because the other leaders do not know of this failure.
            return {ErrorCode::aborted, watched.message()};
        }
        lines_[leader.rank].link = std::move(leader.link);
    }
    sets_.insert(number);
    has_lines_.store(!lines_.empty(), std::memory_order_release);
    return start_watch();
}

Status LeaderTransport::start(std::function<void()> ring) {
    const std::lock_guard lock(mutex_);
    ring_ = std::move(ring);
    return start_watch();
}

/// Starts the thread as soon as there are connections and a function to call. The caller holds the mutex.
Status LeaderTransport::start_watch() {
    if (is_watching_ || lines_.empty() || !ring_) {
        return {};
    }
    is_watching_ = true;
    return watch_->start(ring_);
}

bool LeaderTransport::has_link(int rank) const {
    const std::lock_guard lock(mutex_);
    return lines_.contains(rank);
}

void LeaderTransport::close(bool says_farewell) {
    watch_->stop();
    const std::lock_guard lock(mutex_);
    for (auto& [rank, line] : lines_) {
        if (says_farewell) {
            static_cast<void>(line.link->send({LinkHeader::Kind::farewell, Channel::control}, {}));
        }
        line.link->close();
    }
    if (failed_.is_ok()) {
        failed_ = abandoned_;
    }
}

bool LeaderTransport::wakes(Port port) const { return goes_over_tcp(port); }

bool LeaderTransport::goes_over_tcp(Port port) const {
    if (port.channel != Channel::control && port.channel != Channel::diagnostics) {
        return false;
    }
    const std::lock_guard lock(mutex_);
    return sets_.contains(port.set);
}

LeaderTransport::Line& LeaderTransport::line_to(int rank) {
    const std::lock_guard lock(mutex_);
    const auto line = lines_.find(rank);
    RUEDA_ASSERT(line !=
                 lines_.end());  // leaders exchange messages only with their neighbours in the tree of their set
    return line->second;
}

Status LeaderTransport::check_open() const { return failed_; }

Transport::Ticket LeaderTransport::keep(const UnderWay& message) {
    const Ticket ticket = kOverTcp | next_ticket_++;
    under_way_.emplace(ticket, message);
    return ticket;
}

Result<Transport::Ticket> LeaderTransport::send(int rank, Port port, std::span<const std::byte> bytes) {
    if (!goes_over_tcp(port)) {
        return checked_inner(inner_.send(rank, port, bytes));
    }
    RUEDA_RETURN_IF_FAILED(check_open());
    Line& line = line_to(rank);
    UnderWay message;
    message.is_send = true;
    message.rank = rank;
    message.port = port;
    message.bytes = bytes.size();
    message.position =
        line.link->send({LinkHeader::Kind::message, port}, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    flush(line);
    return keep(message);
}

Result<Transport::Ticket> LeaderTransport::receive(int rank, Port port, std::span<std::byte> room) {
    if (!goes_over_tcp(port)) {
        return checked_inner(inner_.receive(rank, port, room));
    }
    RUEDA_RETURN_IF_FAILED(check_open());
    UnderWay message;
    message.rank = rank;
    message.port = port;
    message.room = room;
    Box& box = boxes_[{rank, port}];
    if (!box.arrived.empty()) {
        waiting_bytes_ -= box.arrived.front().size();
        put(message, box.arrived.front());
        box.arrived.pop_front();
        return keep(message);
    }
    const Ticket ticket = keep(message);
    box.posted.push_back(ticket);
    return ticket;
}

Result<std::optional<std::size_t>> LeaderTransport::test(Ticket ticket) {
    if ((ticket & kOverTcp) == 0) {
        return inner_.test(ticket);
    }
    RUEDA_RETURN_IF_FAILED(check_open());
    const auto found = under_way_.find(ticket);
    RUEDA_ASSERT(found != under_way_.end());
    UnderWay& message = found->second;
    Line& line = line_to(message.rank);
    std::optional<std::size_t> done;
    if (message.is_send) {
        flush(line);
        done = line.link->has_sent(message.position) ? std::optional(message.bytes) : std::nullopt;
    } else {
        static_cast<void>(!message.came && read(message.rank, line));
        RUEDA_RETURN_IF_FAILED(failed_);
        done = message.came;
        if (!done && !line.link->ended().is_ok() && !line.has_left) {
            return end_of(message.rank, line);
        }
    }
    if (done) {
        forget(found);
    }
    return done;
}

Result<bool> LeaderTransport::cancel(Ticket ticket) {
    if ((ticket & kOverTcp) == 0) {
        return inner_.cancel(ticket);
    }
    const auto found = under_way_.find(ticket);
    RUEDA_ASSERT(found != under_way_.end() && !found->second.is_send);
    Box& box = boxes_[{found->second.rank, found->second.port}];
    std::erase(box.posted, ticket);
    box.closed = true;
    forget(found);
    return true;
}

void LeaderTransport::abandon() {
    if (failed_.is_ok()) {
        failed_ = abandoned_;
    }
    watch_->disarm();
    inner_.abandon();
}

bool LeaderTransport::take_in() {
    if (!has_lines_.load(std::memory_order_acquire) || !failed_.is_ok()) {
        return false;
    }
    bool has_read = false;
    const std::lock_guard lock(mutex_);
    for (auto& [rank, line] : lines_) {
        flush(line);
        has_read = read(rank, line) || has_read;
    }
    return has_read || has_arrived();
}

void LeaderTransport::arm() noexcept {
    if (has_lines_.load(std::memory_order_acquire) && failed_.is_ok()) {
        watch_->arm();
    }
}

void LeaderTransport::arm_soon() noexcept {
    if (has_lines_.load(std::memory_order_acquire) && failed_.is_ok()) {
        watch_->arm_soon();
    }
}

void LeaderTransport::disarm() noexcept {
    if (has_lines_.load(std::memory_order_acquire)) {
        watch_->disarm();
    }
}

/// Reads what has arrived from one leader. Returns true if there was a message, or if the connection has ended.
bool LeaderTransport::read(int rank, Line& line) {
    if (!line.is_watched) {
        return false;
    }
    std::vector<LeaderLink::Message> messages = line.link->receive();
    const bool has_ended = !line.link->ended().is_ok();
    if (has_ended) {
        // The watch must forget an ended connection, because its socket stays readable for ever and would wake this
        // rank again and again.
        watch_->remove(line.link->fd());
        line.is_watched = false;
    }
    const bool has_read = has_ended || !messages.empty();
    for (LeaderLink::Message& message : messages) {
        if (message.header.kind == LinkHeader::Kind::farewell) {
            line.has_left = true;
        } else if (message.header.kind == LinkHeader::Kind::message) {
            deliver(rank, std::move(message));
        }
    }
    return has_read;
}

void LeaderTransport::deliver(int rank, LeaderLink::Message message) {
    Box& box = boxes_[{rank, message.header.port}];
    if (box.closed) {
        return;  // the set has ended
    }
    if (!box.posted.empty()) {
        put(under_way_.at(box.posted.front()), message.content);
        box.posted.pop_front();
        return;
    }
    waiting_bytes_ += message.content.size();
    box.arrived.push_back(std::move(message.content));
    if (waiting_bytes_ > kMostWaitingBytes && failed_.is_ok()) {
        failed_ = failure(ErrorCode::aborted,
                          "{} bytes of messages from other leaders wait for this rank; the last ones "
                          "came from rank {}",
                          waiting_bytes_, rank);
    }
}

void LeaderTransport::put(UnderWay& receive, const std::string& content) {
    if (content.size() > receive.room.size()) {
        failed_ = failure(ErrorCode::aborted, "rank {} sent {} bytes where this rank has room for {}", receive.rank,
                          content.size(), receive.room.size());
        return;
    }
    if (!content.empty()) {
        std::memcpy(receive.room.data(), content.data(), content.size());
    }
    receive.came = content.size();
    untested_ += receive.port.channel == Channel::control ? 1U : 0U;
}

/// Removes a message that was sent or received, or whose receive was cancelled.
void LeaderTransport::forget(std::unordered_map<Ticket, UnderWay>::iterator message) {
    const UnderWay& ended = message->second;
    untested_ -= ended.came && ended.port.channel == Channel::control ? 1U : 0U;
    under_way_.erase(message);
}

Status LeaderTransport::end_of(int rank, const Line& line) const {
    return failure(ErrorCode::aborted, "the connection to rank {} (the first rank of another host) has ended: {}", rank,
                   line.link->ended().message());
}

/// Gives the kernel as many bytes as it takes now. If bytes are left, the watch also wakes this rank when the socket's
/// buffer has room again.
void LeaderTransport::flush(Line& line) {
    line.link->flush();
    if (line.is_watched && line.watches_output != line.link->has_output()) {
        line.watches_output = line.link->has_output();
        watch_->watch_output(line.link->fd(), line.watches_output);
    }
}

}  // namespace rueda::collectives
