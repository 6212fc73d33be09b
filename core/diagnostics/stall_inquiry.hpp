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

/// What one host knows about pending tensors, and what its ranks are doing.
struct HostAccount {
    std::uint32_t host = 0;
    std::vector<StallReport::Tensor> tensors;  ///< `ready`: its ranks that have announced it; `missing`: empty
    /// If set, the account was cut: tensors behind the last of `tensors`, by name and then by call, are not in it.
    bool cut = false;
    std::vector<StallReport::Rank> ranks;
};

/// A message between leaders about a tensor that stands still. A notice goes up to the root, which asks. A question
/// goes down to all leaders. Every host's account goes up.
enum class StallMessageKind : std::uint8_t { notice = 1, question = 2, account = 3 };
struct StallMessage {
    StallMessageKind kind = StallMessageKind::notice;
    std::uint32_t inquiry = 0;  ///< the number of the inquiry; for a question and an account
    HostAccount account;
    /// For a question: the ranks whose stacks the accounts are to contain.
    std::vector<std::int32_t> stacks_of = {};
};

/// The longest message. An account contains as much as fits.
inline constexpr std::size_t kMostStallMessageBytes = 64 * 1024;
[[nodiscard]] std::vector<std::byte> encode(const StallMessage& message);
/// Reads bytes of another process. Internal for bytes that no correct leader writes.
[[nodiscard]] Result<StallMessage> parse_stall_message(std::span<const std::byte> bytes, std::uint32_t ranks,
                                                       std::uint32_t hosts);

/// Makes one report of the accounts. A rank counts as missing if its host does not say that it is ready. Tensors for
/// which no rank is missing are left out, because they are under way; so are tensors for which a host had no room in
/// its account. `host_of` is by rank; -1: not in the set.
[[nodiscard]] StallReport merge(std::span<const HostAccount> accounts, std::span<const std::int32_t> host_of,
                                double warning_seconds);

/// One leader's part in finding tensors that some ranks of several hosts have announced and others have not, for a long
/// time. The root prints the report.
///
/// Threads: the thread that holds the leader's progress lock.
class StallInquiry {
public:
    /// Another leader in the tree.
    struct Neighbour {
        std::uint32_t host = 0;
        int rank = 0;
    };
    /// `parent` is empty on the root.
    StallInquiry(const StallSettings& settings, std::uint32_t hosts, std::vector<std::int32_t> host_of,
                 std::optional<Neighbour> parent, std::span<const Neighbour> children,
                 collectives::Transport& transport);

    /// Functions that tell what this host knows.
    struct Source {
        /// How long the oldest pending tensor has waited, in seconds; 0 if none is pending. Called about once per
        /// second.
        std::function<double(std::int64_t now_ns)> longest_wait;
        /// The whole account. For this, the state of every process of the host is read. Called only if an operation
        /// makes no progress.
        std::function<HostAccount(std::int64_t now_ns)> account;
        /// The stacks of those of the ranks that are on this host (`rank` and `stack` are set). Nothing: they are not
        /// there yet, ask again later. If it is empty, reports have no stacks.
        std::function<std::optional<std::vector<StallReport::Rank>>(std::span<const std::int32_t> ranks,
                                                                    std::int64_t now_ns)>
            stacks = {};
    };
    /// Call it a few times per second. A failure ends the job.
    Result<std::optional<StallMonitor::Finding>> turn(std::int64_t now_ns, const Source& source);
    /// After an abort: the transport is not used any more, and the memory of messages under way stays.
    void abandon() noexcept;
    /// For the end of a process set before the end of the job: no member of it asks any more.
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
    void ask_for_stacks(std::int64_t now_ns, const StallReport& report);
    void answer_with_stacks(std::int64_t now_ns, const Source& source);
    [[nodiscard]] bool has_to_wait(std::int64_t now_ns) const;
    [[nodiscard]] std::optional<StallMonitor::Finding> conclude(std::int64_t now_ns, const Source& source);
    [[nodiscard]] std::vector<PendingTensor> as_pending(const StallReport& report, std::int64_t now_ns);

    std::uint32_t hosts_;
    std::vector<std::int32_t> host_of_;  // by rank of the job; -1: not of the set
    bool has_parent_;
    StallSettings settings_;
    collectives::Transport& transport_;
    std::shared_ptr<std::vector<Link>>
        // the buffer for the parent comes first; after an abort MPI may still use them, so the memory is shared
        links_;

    std::int64_t next_look_ns_ = 0;
    StallSchedule schedule_;
    /// A question for stacks that this host has not answered yet.
    std::optional<StallMessage> unanswered_;
    // Only on the root:
    bool noticed_ = false;
    std::uint32_t inquiry_ = 0;
    std::int64_t asked_ns_ = 0;
    std::vector<HostAccount> accounts_;  // of the current inquiry
    /// While stacks are asked for: the accounts without them, for hosts that do not answer again.
    std::vector<HostAccount> earlier_accounts_;
    bool asking_ = false;
    bool asked_for_stacks_ = false;  // in the current inquiry
    std::int64_t ends_job_ns_ = 0;   // when the longest pending tensor of the last inquiry ends the job; 0: never
    std::map<std::pair<std::string, std::uint64_t>, std::uint32_t> numbers_;  // numbers of tensors, by name and call
};

}  // namespace rueda::core
