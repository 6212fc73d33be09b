// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/diagnostics/pending_tensors.hpp"
#include "core/negotiation/call_sites.hpp"

namespace rueda::core {

/// All data of a stall report.
struct StallReport {
    /// A send or a receive, beside its description in Tensor::name.
    struct Message {
        bool sends = false;
        bool receives_too = false;  ///< of a send: its rank also has a receive pending that this peer can complete
        std::int32_t peer = -1;     ///< rank of the job; -1: any
    };
    struct Tensor {
        std::string name;        ///< empty: unnamed
        std::uint64_t call = 0;  ///< of an unnamed one
        double seconds = 0;      ///< since the first announcement
        std::vector<std::int32_t> ready;
        std::vector<std::int32_t> missing;
        std::vector<SiteOfRanks> sites = {};        ///< where the ready ranks have called it, if that is known
        std::vector<std::int32_t> unfinished = {};  ///< ranks that have begun the next step of the negotiation
        std::vector<std::int32_t> unread = {};      ///< ranks that must read the log before there is room for the
                                                    ///< announcement
        /// Ranks that may have announced it and are not among `missing`, because they have announcements that wait for
        /// room.
        std::vector<std::int32_t> unseen = {};
        std::optional<Message> message = {};  ///< if it is no tensor of a collective

        /// All ranks for which this tensor waits.
        [[nodiscard]] std::vector<std::int32_t> awaited() const;
    };
    /// What a missing rank is doing. Unknown values are empty and are not printed.
    struct Rank {
        std::int32_t rank = 0;
        std::int32_t pid = 0;
        std::string process_state;
        std::string busy;              ///< the scope that it declared
        std::vector<Tensor> waits_in;  ///< oldest first
        std::string stack;             ///< of its main thread; not captured in this version
        double silent_seconds = 0;     ///< seconds since its background thread last ran, if that is long ago
        std::uint64_t unnamed = 0;     ///< the number of unnamed operations that it has started
        std::string host = {};
        std::int64_t step = -1;  ///< the training step that the rank began last; -1: the rank has not reported any
        /// The last operation of this process set that the rank has finished. It ended `seconds` ago, and its lists of
        /// ranks are empty.
        std::optional<Tensor> finished = {};
        double busy_seconds = -1;  ///< how long it has been in the scope `busy`; negative: not known
        /// Of an operation that is being executed: how many steps (of moving a chunk) it is behind the rank that has
        /// done most.
        std::uint64_t steps_behind = 0;
    };

    double warning_seconds = 60;
    std::vector<Tensor> tensors;  ///< oldest first
    std::vector<Rank> missing_ranks;
    std::vector<std::int32_t> unheard = {};  ///< ranks of hosts that have not sent their accounts
    StartedByRank started = {};              ///< unnamed operations, if one of `tensors` is unnamed
    std::map<std::int64_t, std::vector<std::int32_t>> steps = {};  ///< ranks by the training step that they began last
    /// The tensors were called and are being executed; `missing` are the ranks that have not finished them.
    bool executing = false;
    /// If `executing`: the members on other hosts. This rank does not know what they do.
    std::vector<std::int32_t> elsewhere = {};
};
/// For example "tensor 'w'", "shutdown()", "the 17th unnamed operation of this process set", "send to rank 1, tag 7".
[[nodiscard]] std::string name_of(const StallReport::Tensor& tensor);
/// For example 60 → "60", 0.5 → "0.5", 73.4 → "73".
[[nodiscard]] std::string seconds_text(double seconds);

/// A tensor by which an operation of this rank is pending.
struct AwaitedTensor {
    std::string name = {};           ///< empty: unnamed
    std::uint64_t call = 0;          ///< of an unnamed one
    std::uint64_t waits_behind = 0;  ///< this rank has not announced it, because this earlier unnamed call is pending
    bool is_group = false;           ///< this part is the number of a group's members, which is announced under the
                                     ///< group's name
    bool waits_for_room = false;     ///< this rank has not announced it, because its mailbox is full
    std::uint32_t slot = kNoSlot;    ///< the tensor's state, as far as this rank knows it
    std::uint64_t generation = 0;    ///< in `slot`
};

/// What an operation waits for, as the error of a wait with a timeout describes it.
struct WaitReport {
    enum class Kind : std::uint8_t { collective, send, receive };
    struct Part {
        AwaitedTensor tensor;
        std::vector<std::int32_t> ready = {};    ///< ranks of this host
        std::vector<std::int32_t> missing = {};  ///< ranks of this host; for a message, the ranks of its other side
        // As in StallReport::Tensor. If tensor.waits_for_room: what the mailbox of this rank waits for.
        std::vector<std::int32_t> unfinished = {};
        std::vector<std::int32_t> unread = {};
        std::vector<std::int32_t> unseen = {};
        bool known = true;  ///< false if it is not known who has announced it
    };
    Kind kind = Kind::collective;
    std::vector<Part> parts = {};               ///< empty: nothing is known
    std::vector<StallReport::Rank> ranks = {};  ///< the missing ranks, the ranks without progress, and what each of
                                                ///< them is doing
    std::vector<std::int32_t> elsewhere = {};   ///< members on other hosts
};
/// For example "tensor 'w'", "tensor 'a' and 3 more", "receive from rank 1, tag 7"; "" if nothing is known.
[[nodiscard]] std::string format_awaited(const WaitReport& report);
/// For example "rank 1 has not announced it, ranks 0, 2 have; rank 1 (pid 17): stopped by a signal; …"; "" if nothing
/// is known.
[[nodiscard]] std::string format_wait(const WaitReport& report);

/// Several lines, without a newline at the end. The first line is the sentence that users search for.
[[nodiscard]] std::string format_stall_report(const StallReport& report);

/// Why the job is ended, in one line. `started` is as in a report.
[[nodiscard]] std::string format_stall_shutdown(const StallReport::Tensor& tensor, double shutdown_seconds,
                                                const StartedByRank& started = {});

}  // namespace rueda::core
