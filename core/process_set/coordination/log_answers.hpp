// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "core/negotiation/log.hpp"
#include "core/negotiation/metadata.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/announcing/announcer.hpp"
#include "core/process_set/announcing/direct_announcements.hpp"
#include "core/process_set/batches/announced.hpp"
#include "core/process_set/common/end_reasons.hpp"
#include "core/process_set/common/log_cursor.hpp"
#include "core/process_set/common/operation_ends.hpp"
#include "core/process_set/common/set_view.hpp"
#include "core/process_set/common/waking.hpp"
#include "core/process_set/coordination/groups.hpp"
#include "core/process_set/coordination/join.hpp"

namespace rueda::core {

/// Handles the log entries that call no operation. In such an entry, an operation ends without a call, a slot is
/// retired, the join ends, or the set is closed.
///
/// Threads: take() runs in the thread that drives progress and takes the enqueue lock. is_closed() runs in any thread.
class LogAnswers {
public:
    using Atomics = base::StdAtomics;
    using Entry = Log<Atomics>::Entry;

    /// The parts of the set that this class uses. They must outlive the object.
    struct Parts {
        Announcer& announcer;
        DirectAnnouncements& direct;
        Groups& groups;
        Join& join;
        const Announced& announced;
        OperationEnds& ends;
        const EndReasons& reasons;
        const Waking& waking;
        LogCursor& cursor;
    };
    LogAnswers(const SetView& view, const Parts& parts)
        : view_(view),
          announcer_(parts.announcer),
          direct_(parts.direct),
          groups_(parts.groups),
          join_(parts.join),
          announced_(parts.announced),
          ends_(parts.ends),
          reasons_(parts.reasons),
          waking_(parts.waking),
          cursor_(parts.cursor) {}

    /// Handles `entry`, the next entry of the log, and moves the cursor past it. Returns false if this rank must wait
    /// before it can handle the entry. If no correct rank can have written the entry, ends the job.
    [[nodiscard]] bool take(const Entry& entry);
    /// Whether all members have shut down.
    [[nodiscard]] bool is_closed() const { return closed_.load(std::memory_order_acquire); }

private:
    [[nodiscard]] bool follow(const Entry& entry);
    [[nodiscard]] bool follow_retirement(std::uint32_t slot);
    void follow_mismatch(std::uint32_t slot);
    void follow_disagreement(std::uint32_t slot, std::uint32_t attachment, ErrorCode code);
    void follow_failure(std::uint32_t slot);
    void follow_lack_of_joined(std::uint32_t slot, std::uint32_t attachment);
    void follow_wanted(std::uint32_t slot, std::uint32_t attachment);
    void follow_refusal(const Entry& answer);

    [[nodiscard]] bool must_await_retirement(std::uint64_t position, std::uint32_t slot);
    void pass_and_tell(std::uint64_t position);
    [[nodiscard]] TensorEntry* pending_in(std::uint32_t slot, std::string_view what);
    [[nodiscard]] bool read_announced(std::uint32_t slot, std::uint64_t generation,
                                      std::vector<MetadataOfRanks>& by_rank);
    [[nodiscard]] Groups::RanksOfCount groups_among(std::uint32_t slot, std::uint64_t generation,
                                                    std::span<const MetadataOfRanks> by_rank) const;
    [[nodiscard]] Status refusal_or_mismatch(std::string_view name, std::uint64_t call,
                                             std::vector<MetadataOfRanks> by_rank) const;
    [[nodiscard]] std::string text_of(std::uint32_t attachment) const;
    [[nodiscard]] Groups::RanksOfCount groups_of(std::uint32_t attachment) const;
    void end_disagreed(TensorEntry& entry, std::uint32_t slot, const Status& status,
                       const Groups::RanksOfCount& groups = {});

    const SetView& view_;
    Announcer& announcer_;
    DirectAnnouncements& direct_;
    Groups& groups_;
    Join& join_;
    const Announced& announced_;
    OperationEnds& ends_;
    const EndReasons& reasons_;
    const Waking& waking_;
    LogCursor& cursor_;
    std::atomic<bool> closed_{false};
    std::uint64_t rung_for_retirement_ =
        ~std::uint64_t{0};  // the log position of the entry (of kind retire) for which this rank last woke the members
};

}  // namespace rueda::core
