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

/// The knowledge of one host about pending tensors, and about what the ranks of this host are doing.
struct HostAccount {
    std::uint32_t host = 0;
    /// The pending tensors. In each element, `ready` lists the host's ranks that have announced the tensor, and
    /// `missing` is empty.
    std::vector<StallReport::Tensor> tensors;
    /// If true, the end of the account was cut off: tensors that come after the last element of `tensors` (in the order
    /// by name and call) are not in the account.
    bool cut = false;
    std::vector<StallReport::Rank> ranks;
};

/// A message between leaders about tensors that make no progress. With a notice, a leader tells the root that an
/// operation has been pending for long. With a question, the root asks all leaders for their accounts. With an account,
/// a leader answers the question. With a record message, the root tells the leaders of the other hosts that it has made
/// a report. Their ranks then write the flight recorders of their hosts to files.
enum class StallMessageKind : std::uint8_t { notice = 1, question = 2, account = 3, record = 4 };
struct StallMessage {
    StallMessageKind kind = StallMessageKind::notice;
    std::uint32_t inquiry = 0;  ///< the number of the inquiry; only in a question and in an account
    HostAccount account = {};
    /// The ranks whose stacks the accounts must contain. Only in a question.
    std::vector<std::int32_t> stacks_of = {};
    std::string reason = {};  ///< why the flight recorders are written to files; only in a record message
};

/// The length of the longest message, in bytes. An account contains as much as fits into it.
inline constexpr std::size_t kMostStallMessageBytes = 64 * 1024;
[[nodiscard]] std::vector<std::byte> encode(const StallMessage& message);
/// Reads bytes that another process wrote. Returns ErrorCode::internal for bytes that no correct leader writes.
[[nodiscard]] Result<StallMessage> parse_stall_message(std::span<const std::byte> bytes, std::uint32_t ranks,
                                                       std::uint32_t hosts);

/// Makes one report from the accounts. The report also contains the sends and receives that have been pending for a
/// long time. A rank counts as missing if its host's account does not say that the rank is ready. A tensor without a
/// missing rank is left out, because it makes progress. A tensor is also left out if it did not fit into the account of
/// some host. `host_of` has the host of each rank of the job, or -1 if the rank is not in the set.
[[nodiscard]] StallReport merge(std::span<const HostAccount> accounts, std::span<const std::int32_t> host_of,
                                double warning_seconds);

/// One leader's part in the search for stalled tensors of a set on several hosts. Some ranks announced such a tensor a
/// long time ago, and other ranks have not announced it. The root prints the report.
///
/// Threads: only the thread that holds the leader's progress lock.
class StallInquiry {
public:
    /// A leader that is the parent or a child of this leader in the tree.
    struct Neighbour {
        std::uint32_t host = 0;
        int rank = 0;
    };
    /// `parent` is empty on the root.
    StallInquiry(const StallSettings& settings, std::uint32_t hosts, std::vector<std::int32_t> host_of,
                 std::optional<Neighbour> parent, std::span<const Neighbour> children,
                 collectives::Transport& transport);

    /// Functions that return what this host knows.
    struct Source {
        /// Returns how long the oldest pending tensor has waited, in seconds; 0 if none is pending. The search calls
        /// this about once per second.
        std::function<double(std::int64_t now_ns)> longest_wait;
        /// Returns the whole account. It reads the state of every process of the host. The search calls this only if an
        /// operation makes no progress.
        std::function<HostAccount(std::int64_t now_ns)> account;
        /// Returns the stacks of those ranks in `ranks` that are on this host. In each element of the result, only
        /// `rank` and `stack` are set. Returns nothing if the stacks are not there yet; the caller must then ask again
        /// later. If this function object is empty, reports have no stacks.
        std::function<std::optional<std::vector<StallReport::Rank>>(std::span<const std::int32_t> ranks,
                                                                    std::int64_t now_ns)>
            stacks = {};
    };
    /// Call this a few times per second. A returned failure must end the job. On the root, the returned finding is a
    /// report. On another leader, the finding says that the ranks of its host must write their flight recorders.
    Result<std::optional<StallMonitor::Finding>> turn(std::int64_t now_ns, const Source& source);
    /// Call this after an abort. The object then stops using the transport, but keeps the memory of messages that are
    /// still being transferred.
    void abandon() noexcept;
    /// Call this when a process set ends before the job, and no member of the set asks questions any more.
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
    void ask_for_records(const StallReport& report);
    void answer_with_stacks(std::int64_t now_ns, const Source& source);
    [[nodiscard]] bool has_to_wait(std::int64_t now_ns) const;
    [[nodiscard]] std::optional<StallMonitor::Finding> conclude(std::int64_t now_ns, const Source& source);
    [[nodiscard]] std::vector<PendingTensor> as_pending(const StallReport& report, std::int64_t now_ns);

    std::uint32_t hosts_;
    std::vector<std::int32_t> host_of_;  // the host of each rank of the job; -1 if the rank is not in the set
    bool has_parent_;
    StallSettings settings_;
    collectives::Transport& transport_;
    std::shared_ptr<std::vector<Link>>
        // The links to the parent (which comes first) and to the children. They are owned by a shared_ptr, because MPI
        // may still use their buffers after an abort.
        links_;

    std::int64_t next_look_ns_ = 0;
    StallSchedule schedule_;
    /// A question of the root for stacks that this host has not answered yet.
    std::optional<StallMessage> unanswered_;
    // the reason in the last record message, or "" if there was none; not used on the root's host
    std::string record_because_;
    // The following fields are used only on the root.
    bool noticed_ = false;
    std::uint32_t inquiry_ = 0;
    std::int64_t asked_ns_ = 0;
    std::vector<HostAccount> accounts_;  // the accounts of the current inquiry
    /// The accounts of the first inquiry, which have no stacks. The root keeps them while it asks for stacks, and uses
    /// them for hosts that do not answer the second inquiry.
    std::vector<HostAccount> earlier_accounts_;
    bool asking_ = false;
    bool asked_for_stacks_ = false;  // whether the current inquiry asks for stacks
    // The time at which the oldest tensor of the last inquiry must end the job, if this time comes before the next
    // regular inquiry. Otherwise 0.
    std::int64_t ends_job_ns_ = 0;
    // maps each tensor (by name and call) and each message (by name and rank) to its number
    std::map<std::pair<std::string, std::uint64_t>, std::uint32_t> numbers_;
};

}  // namespace rueda::core
