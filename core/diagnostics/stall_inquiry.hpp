// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/transport.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/diagnostics/stall_schedule.hpp"
#include "core/diagnostics/stall_settings.hpp"

namespace rueda::core {

/// What one host knows of tensors that are pending, and what its ranks are doing.
struct HostAccount {
    std::uint32_t host = 0;
    std::vector<StallReport::Tensor> tensors;  ///< `ready`: its ranks that have announced it; `missing`: nothing
    /// What comes behind the last of `tensors`, by name and then by call, is not told: there was no room for it.
    bool cut = false;
    std::vector<StallReport::Rank> ranks;
};

/// What leaders ask each other when a tensor stands still. Their messages: a notice goes up to the root, which asks; a
/// question goes down to all; every host's account goes up.
enum class StallMessageKind : std::uint8_t { notice = 1, question = 2, account = 3 };
struct StallMessage {
    StallMessageKind kind = StallMessageKind::notice;
    std::uint32_t inquiry = 0;  ///< its number; question, account
    HostAccount account;
};

/// The longest message; an account says what fits.
inline constexpr std::size_t kMostStallMessageBytes = 64 * 1024;
[[nodiscard]] std::vector<std::byte> encode(const StallMessage& message);
/// Bytes of another process. Internal, for bytes that no leader writes.
[[nodiscard]] Result<StallMessage> parse_stall_message(std::span<const std::byte> bytes, std::uint32_t ranks,
                                                       std::uint32_t hosts);

/// One report of what the hosts say: a rank whose host has said nothing of it is missing. Tensors that no rank misses
/// are left out, they are on their way; and those that a host had no room to tell of. `host_of`: by rank; -1: not of
/// the set.
[[nodiscard]] StallReport merge(std::span<const HostAccount> accounts, std::span<const std::int32_t> host_of,
                                double warning_seconds);

/// One leader's part in finding tensors that some ranks of several hosts have announced and others, for long, have not.
/// The root reports.
///
/// Threads: whoever holds the leader's progress lock.
class StallInquiry {
public:
    /// Another leader in the tree.
    struct Neighbour {
        std::uint32_t host = 0;
        int rank = 0;
    };
    /// `parent` empty on the root.
    StallInquiry(const StallSettings& settings, std::uint32_t hosts, std::vector<std::int32_t> host_of,
                 std::optional<Neighbour> parent, std::span<const Neighbour> children,
                 collectives::Transport& transport);

    /// What this host knows.
    struct Source {
        /// How long the oldest pending tensor has waited, in seconds; 0: none is pending. About once per second.
        std::function<double(std::int64_t now_ns)> longest_wait;
        /// All of it, which takes reading the state of every process of the host: only once something stands still.
        std::function<HostAccount(std::int64_t now_ns)> account;
    };
    /// To be called a few times per second. A failure ends the job.
    Result<std::optional<StallMonitor::Finding>> turn(std::int64_t now_ns, const Source& source);
    /// After an abort: nothing is asked of the transport any more, and the memory of messages under way stays.
    void abandon() noexcept;
    /// At the end of a process set before that of the job: nobody of it asks any more.
    Status leave();

private:
    struct Link {
        Neighbour neighbour;
        std::vector<std::byte> room;
        std::optional<collectives::Transport::Ticket> receiving;
        std::vector<std::byte> message;
        std::optional<collectives::Transport::Ticket> sending;
        std::deque<std::vector<std::byte>> waiting;
    };

    [[nodiscard]] bool is_root() const { return !has_parent_; }
    Status receive(Link& link, std::int64_t now_ns, const Source& source);
    Status take(const StallMessage& message, std::int64_t now_ns, const Source& source);
    Status send(Link& link);
    void look(std::int64_t now_ns, const Source& source);
    void ask(std::int64_t now_ns, HostAccount own);
    [[nodiscard]] std::optional<StallMonitor::Finding> conclude(std::int64_t now_ns);
    [[nodiscard]] std::vector<PendingTensor> as_pending(const StallReport& report, std::int64_t now_ns);

    std::uint32_t hosts_;
    std::vector<std::int32_t> host_of_;  // by rank of the job; -1: not of the set
    bool has_parent_;
    StallSettings settings_;
    collectives::Transport& transport_;
    std::shared_ptr<std::vector<Link>> links_;  // the parent's first; shared with MPI after an abort

    std::int64_t next_look_ns_ = 0;
    StallSchedule schedule_;
    // The root's.
    bool noticed_ = false;
    std::uint32_t inquiry_ = 0;
    std::int64_t asked_ns_ = 0;
    std::vector<HostAccount> accounts_;  // of the inquiry under way
    bool asking_ = false;
    std::int64_t ends_job_ns_ = 0;  // when the longest pending tensor of the last inquiry ends the job; 0: never
    std::map<std::pair<std::string, std::uint64_t>, std::uint32_t> numbers_;  // of tensors, by name and call
};

}  // namespace rueda::core
