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
    /// Facts about a send or a receive. Tensor::name does not contain these facts.
    struct Message {
        bool sends = false;
        /// Only for a send. True if the sending rank also has a pending receive that the send's peer can complete.
        bool receives_too = false;
        std::int32_t peer = -1;  ///< rank of the job; -1: any
        /// True if this is a receive from any rank, and every other rank of the job may send the message.
        bool from_all = false;
        bool is_late = false;  ///< whether the call has waited longer than the warning time
        /// Whether the message waits for the GPU of its own rank, and not for another rank. Tensor::name says for which
        /// GPU.
        bool waits_for_gpu = false;
    };
    struct Tensor {
        std::string name;        ///< empty for an unnamed operation
        std::uint64_t call = 0;  ///< number of an unnamed operation
        double seconds = 0;      ///< time since the first announcement
        std::vector<std::int32_t> ready;
        std::vector<std::int32_t> missing;
        std::vector<SiteOfRanks> sites = {};  ///< where the ready ranks made the call, if known
        /// ranks that have begun the next step of the negotiation and not finished it
        std::vector<std::int32_t> unfinished = {};
        /// ranks that must read more of the log before the tensor can be announced
        std::vector<std::int32_t> unread = {};
        /// Ranks that may have announced the tensor, and are not among `missing`. These ranks have a full mailbox, so
        /// some of their announcements are not visible yet.
        std::vector<std::int32_t> unseen = {};
        std::optional<Message> message = {};  ///< facts about the message; empty if the entry is not a send or a
                                              ///< receive

        /// All ranks for which this tensor waits.
        [[nodiscard]] std::vector<std::int32_t> awaited() const;
    };
    /// The part of an operation that one rank has not delivered, although other ranks have delivered their parts. Only
    /// for an operation that is being executed.
    struct Part {
        enum class Kind : std::uint8_t {
            input,           ///< the rank's input of a chunk, for the ranks that combine the chunk
            share,           ///< the share of a chunk that this rank combines for all ranks
            resident_share,  ///< the part of the tensors in resident memory that this rank combines for all ranks
        };
        Kind kind = Kind::input;
        std::uint64_t chunk = 0;   ///< counted from 1; 0 if the part belongs to no chunk
        std::uint64_t chunks = 0;  ///< number of chunks in the batch
    };
    /// The activity of a missing rank. If a value is unknown, it is empty and is not printed.
    struct Rank {
        std::int32_t rank = 0;
        std::int32_t pid = 0;
        std::string process_state;
        std::string busy;              ///< the scope that the rank's program declared
        std::vector<Tensor> waits_in;  ///< oldest first
        std::string stack;             ///< the stack of the rank's main thread, or why there is none; several lines
        double silent_seconds = 0;     ///< seconds since the rank's background thread last ran; 0 if it ran recently
        std::uint64_t unnamed = 0;     ///< the number of unnamed operations that the rank has started
        std::string host = {};
        std::int64_t step = -1;  ///< the training step that the rank began last; -1 if the rank has reported none
        /// The last operation of this process set that the rank has finished. The field `seconds` of this entry says
        /// how long ago it ended. The entry's lists of ranks are empty.
        std::optional<Tensor> finished = {};
        double busy_seconds = -1;  ///< how long the rank has been in the scope `busy`; negative if this is not known
        /// How many steps this rank is behind the rank that has done most. Each chunk is moved in a few steps. Only for
        /// an operation that is being executed.
        std::uint64_t steps_behind = 0;
        std::optional<Part> part = {};
        /// Only for tensors in GPUs' memory. Says how far the rank and its GPU have come with the operation, for
        /// example "launched it on GPU 1 12 s ago, and the GPU has not done it".
        std::string on_gpu = {};
        /// True if the rank's GPU has not reached the operation, because the program's own work before it has not
        /// ended.
        bool waits_for_program = false;
        /// True if the tensors are in GPUs' memory, but the rank uses the CPU's memory. The rank uses the CPU's memory
        /// either to exchange the tensors' data, or to tell the other ranks its progress.
        bool is_on_cpu = false;
        /// Whether the rank's thread that drives progress still takes turns (TurnQuestions). Only for an operation that
        /// is being executed in the CPU's memory. Empty if this is not known.
        std::optional<bool> takes_turns = {};
    };

    double warning_seconds = 60;
    std::vector<Tensor> tensors;  ///< oldest first
    std::vector<Rank> missing_ranks;
    std::vector<std::int32_t> unheard = {};  ///< ranks of hosts that have not sent their accounts
    /// how many unnamed operations the ranks have started, if one of `tensors` is unnamed
    StartedByRank started = {};
    /// the keys are training steps; the values are the ranks that began this step last
    std::map<std::int64_t, std::vector<std::int32_t>> steps = {};
    /// If true, the report is about operations that are being executed. `missing` of each tensor then lists the ranks
    /// that have not finished the tensor's operation.
    bool executing = false;
    /// Used only if `executing` is true and the tensors are in GPUs' memory. There are two cases. If some ranks have
    /// not launched the operation, `ready` are the ranks that have launched it. If all ranks have launched the
    /// operation and some GPUs do not end it, `ready` are the ranks whose GPUs have ended it.
    enum class OnGpus : std::uint8_t { no, launching, launched };
    OnGpus on_gpus = OnGpus::no;
    /// `operation` is the operation, for example "allreduce", and `others` is the number of other operations in its
    /// batch. Only if `on_gpus` is `launched`.
    std::string operation = {};
    std::uint64_t others = 0;
    /// The members on other hosts. This rank does not know what they do. Only if `executing` is true.
    std::vector<std::int32_t> elsewhere = {};
};
/// Returns a text such as "tensor 'w'", "shutdown()", "the 17th unnamed operation of this process set", "send to rank
/// 1, tag 7".
[[nodiscard]] std::string name_of(const StallReport::Tensor& tensor);
/// Returns a text such as "its input of chunk 21 of 64" or "its share of the tensors in resident memory".
[[nodiscard]] std::string name_of(const StallReport::Part& part);
/// For a report about an operation that GPUs do not end. Returns "all ranks of this host" if the operation also has
/// ranks on other hosts, because this rank does not know what those ranks have launched. Otherwise returns "all ranks".
[[nodiscard]] std::string_view known_to_have_launched(const StallReport& report);
/// Returns a text such as "ranks 4-7 are on other hosts, and may not have done their part". `elsewhere` must not be
/// empty.
[[nodiscard]] std::string text_about_elsewhere(const StallReport& report);
/// For example 60 → "60", 0.5 → "0.5", 73.4 → "73".
[[nodiscard]] std::string seconds_text(double seconds);

/// One of the tensors for which an operation of this rank still waits.
struct AwaitedTensor {
    std::string name = {};   ///< empty for an unnamed operation
    std::uint64_t call = 0;  ///< number of an unnamed operation
    /// the number of the pending unnamed call that must end before this rank announces the tensor; 0 if there is no
    /// such call
    std::uint64_t waits_behind = 0;
    /// True if this entry is not a tensor, but the operation in which the ranks compare the number of tensors of a
    /// group. `name` is then the group's name.
    bool is_group = false;
    bool waits_for_room = false;  ///< whether this rank has not announced the tensor because its mailbox is full
    /// the slot that has the state of the tensor; kNoSlot if this rank does not know the slot
    std::uint32_t slot = kNoSlot;
    std::uint64_t generation = 0;  ///< the generation in `slot`
};

/// Data for the timeout error of a wait: what the operation is waiting for.
struct WaitReport {
    enum class Kind : std::uint8_t { collective, send, receive };
    struct Part {
        AwaitedTensor tensor;
        std::vector<std::int32_t> ready = {};    ///< ranks of this host
        std::vector<std::int32_t> missing = {};  ///< ranks of this host; for a message, the ranks of the other side
        // The next three lists mean the same as in StallReport::Tensor, with one exception: if tensor.waits_for_room is
        // true, they list the ranks that keep this rank's mailbox full.
        std::vector<std::int32_t> unfinished = {};
        std::vector<std::int32_t> unread = {};
        std::vector<std::int32_t> unseen = {};
        bool known = true;  ///< whether this rank can know which ranks have announced the tensor
        /// the GPU of this rank whose work the message waits for; negative if it waits for no GPU
        std::int32_t gpu = -1;
    };
    Kind kind = Kind::collective;
    std::vector<Part> parts = {};               ///< empty if nothing is known
    std::vector<StallReport::Rank> ranks = {};  ///< the missing ranks and the ranks that make no progress, each with
                                                ///< what it is doing
    std::vector<std::int32_t> elsewhere = {};   ///< members on other hosts
};
/// Returns a text such as "tensor 'w'", "tensor 'a' and 3 more" or "receive from rank 1, tag 7"; "" if nothing is
/// known.
[[nodiscard]] std::string format_awaited(const WaitReport& report);
/// Returns a text such as "rank 1 has not announced it, ranks 0, 2 have; rank 1 (pid 17): stopped by a signal; …"; ""
/// if nothing is known.
[[nodiscard]] std::string format_wait(const WaitReport& report);

/// Formats the report in several lines, without a newline at the end. The first line is the sentence that users search
/// for.
[[nodiscard]] std::string format_stall_report(const StallReport& report);
/// Formats what matters most in one line: the probable cause, or the tensor that has waited longest.
[[nodiscard]] std::string summarize_stall(const StallReport& report);

/// Says in one line why the job is ended. For `started`, see StallReport::started.
[[nodiscard]] std::string format_stall_shutdown(const StallReport::Tensor& tensor, double shutdown_seconds,
                                                const StartedByRank& started = {});

}  // namespace rueda::core
