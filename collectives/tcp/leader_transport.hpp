// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/tcp/leader_link.hpp"
#include "collectives/tcp/socket_watch.hpp"
#include "collectives/transport.hpp"
#include "collectives/wakeups.hpp"

namespace rueda::collectives {

/// A connection to the leader `rank`, counted in the job.
struct ConnectedLeader {
    int rank = 0;
    std::unique_ptr<LeaderLink> link;
};

/// The transport of a job whose leaders have TCP connections to each other. The messages of the leaders (the channels
/// `control` and `diagnostics`) go over these connections. These messages can therefore wake this rank. All other
/// messages go over `inner`, the transport of the bulk data.
///
/// A process set uses the connections after all its ranks have called add() for it. Until then, all messages of the set
/// go over `inner`.
///
/// If a connection ends, the messages that came before can still be received. After these messages, test() and
/// receive() fail for this connection alone. The reason can then be sent to the other leaders over the remaining
/// connections.
///
/// Threads: the rules of Transport and Wakeups apply. Any thread may call add() and has_link(). Only the owner of the
/// object may call start() and close().
class LeaderTransport final : public Transport, public Wakeups {
public:
    /// `inner` must outlive this object. A connection ends if the other host acknowledges nothing for the time
    /// `silence`. `most_bytes` is the maximum length of a message between leaders of the job. LeaderRendezvousOptions
    /// describes `job_secret`.
    [[nodiscard]] static Result<std::unique_ptr<LeaderTransport>> create(Transport& inner,
                                                                         std::chrono::milliseconds silence,
                                                                         std::size_t most_bytes,
                                                                         std::string job_secret = {});
    ~LeaderTransport() override;

    /// Lets the leaders of the set `number` (Port::set) use the connections. Adds the connections in `leaders`, which
    /// may be empty.
    [[nodiscard]] Status add(std::uint32_t number, std::vector<ConnectedLeader> leaders);
    [[nodiscard]] bool has_link(int rank) const;
    [[nodiscard]] std::size_t most_bytes() const { return most_bytes_; }
    /// The secret that was passed to create(). The leaders of a process set need it when they connect.
    [[nodiscard]] const std::string& job_secret() const { return job_secret_; }
    /// After this call, a message that arrives can wake this rank: the object's thread calls `ring`. This function must
    /// wake the threads of this rank, and must not block. If this rank has no connection yet, the object's thread
    /// starts when add() brings the first connection.
    [[nodiscard]] Status start(std::function<void()> ring);
    /// Ends the thread, and closes the connections. No other function may be called during this call. Call it when no
    /// leader needs this rank any more, or after a failure. The other leaders may still be leaving the job at that
    /// time. If `says_farewell` is true, they do not treat the end of this rank as a failure.
    void close(bool says_farewell = false);

    Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) override;
    Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) override;
    Result<std::optional<std::size_t>> test(Ticket ticket) override;
    Result<bool> cancel(Ticket ticket) override;
    Result<std::optional<Arrival>> probe() override { return inner_.probe(); }
    Status progress() override { return inner_.progress(); }
    void abandon() override;
    [[nodiscard]] bool wakes(Port port) const override;
    [[nodiscard]] Wakeups* wakeups() override { return this; }

    [[nodiscard]] bool take_in() override;
    [[nodiscard]] bool has_arrived() const noexcept override { return untested_ > 0 && failed_.is_ok(); }
    void arm() noexcept override;
    void arm_soon() noexcept override;
    void disarm() noexcept override;

private:
    struct Line {
        std::unique_ptr<LeaderLink> link;
        bool watches_output = false;
        bool is_watched = true;
        bool has_left = false;  ///< whether the other leader has sent its last message (the farewell)
    };
    /// The messages of one port of one leader. At most one of the two lists has elements.
    struct Box {
        std::deque<std::string> arrived;  ///< messages for which no receive was started
        std::deque<Ticket> posted;
        bool closed = false;
    };
    struct UnderWay {
        bool is_send = false;
        int rank = 0;
        Port port{Channel::control};
        std::uint64_t position = 0;       ///< for a send: the position that LeaderLink::send() returned
        std::size_t bytes = 0;            ///< for a send: the length of the message
        std::span<std::byte> room = {};   ///< for a receive: the memory for the message
        std::optional<std::size_t> came;  ///< for a receive: the length of the message, once it has arrived
    };
    using BoxKey = std::pair<int, Port>;

    [[nodiscard]] Status start_watch();
    LeaderTransport(Transport& inner, std::unique_ptr<SocketWatch> watch, std::chrono::milliseconds silence,
                    std::size_t most_bytes, std::string job_secret);
    [[nodiscard]] bool goes_over_tcp(Port port) const;
    [[nodiscard]] Line& line_to(int rank);
    [[nodiscard]] Status check_open() const;
    [[nodiscard]] Ticket keep(const UnderWay& message);
    [[nodiscard]] bool read(int rank, Line& line);
    void deliver(int rank, LeaderLink::Message message);
    void put(UnderWay& receive, const std::string& content);
    void forget(std::unordered_map<Ticket, UnderWay>::iterator message);
    [[nodiscard]] Status end_of(int rank, const Line& line) const;
    void flush(Line& line);

    Transport& inner_;
    const std::unique_ptr<SocketWatch> watch_;
    const std::chrono::milliseconds silence_;
    const std::size_t most_bytes_;
    const std::string job_secret_;
    /// Protects `lines_` and `sets_`, because any thread may call add(). A thread that holds this mutex makes no call
    /// that blocks.
    mutable std::mutex mutex_;
    std::map<int, Line> lines_;
    std::set<std::uint32_t> sets_;
    std::function<void()> ring_;  ///< The function that start() got. Protected by mutex_, like is_watching_.
    bool is_watching_ = false;
    /// Whether there are connections. add() stores it with release. The thread that holds the progress lock loads it
    /// with acquire, and need not look at the connections while there are none.
    std::atomic<bool> has_lines_{false};
    std::map<BoxKey, Box> boxes_;
    std::unordered_map<Ticket, UnderWay> under_way_;
    std::uint64_t next_ticket_ = 0;
    std::size_t waiting_bytes_ = 0;  ///< how many bytes all messages in `Box::arrived` have together
    /// The number of receives on the channel `control` whose message has arrived, but which test() has not returned
    /// yet. There can be such receives, because a test() for one port reads the messages of all ports of its
    /// connection. Receives on the channel `diagnostics` are not counted, because they are tested only from time to
    /// time.
    std::size_t untested_ = 0;
    Status failed_;     ///< the first failure that concerns all connections
    Status abandoned_;  ///< The failure for abandon(). It is created in advance, because later no memory may be left.
};

}  // namespace rueda::collectives
