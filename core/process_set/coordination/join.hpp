// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/status.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/announcing/announcer.hpp"
#include "core/process_set/announcing/direct_announcements.hpp"
#include "core/process_set/batches/announced.hpp"
#include "core/process_set/common/joined_members.hpp"
#include "core/process_set/common/log_cursor.hpp"
#include "core/process_set/common/operation_ends.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Keeps the state of this rank's join of a process set (docs/design/0005-join.md). After its join, this rank stands in
/// until all members have joined: it announces the operations that other ranks announce, but contributes no data.
///
/// Threads: announce() runs in any thread, turn() in the thread that drives progress; both take the enqueue lock. The
/// other functions run under the lock, unless a comment says otherwise.
class Join {
public:
    /// All references must outlive this object. `inspects` is true if inputs or results are checked; see Verification.
    Join(const SetView& view, bool inspects, Announcer& announcer, const DirectAnnouncements& direct,
         const JoinedMembers& joined, const Announced& announced, OperationEnds& ends, const Waking& waking,
         const LogCursor& cursor)
        : view_(view),
          inspects_(inspects),
          announcer_(announcer),
          direct_(direct),
          joined_members_(joined),
          announced_(announced),
          ends_(ends),
          waking_(waking),
          cursor_(cursor) {}

    /// See ProcessSet::announce_join() and ProcessSet::note_join_site().
    Status announce(Completion& completion, bool counted);
    void note_site(const char* file, std::int32_t line) const;

    /// Whether this rank is in a join. Any thread.
    [[nodiscard]] bool is_on() const { return joins_.load(std::memory_order_acquire); }
    /// Whether this rank has called join() but has not yet looked for announcements of other ranks. Any thread.
    [[nodiscard]] bool has_to_look() const { return joins_soon_.load(std::memory_order_seq_cst); }
    /// Looks for operations that other ranks have announced since the last turn, and announces them for this rank.
    /// Returns true if an operation made progress.
    bool turn();
    /// Whether `completion` is the completion of the join in progress.
    [[nodiscard]] bool is_awaited_by(const Completion& completion) const { return completion_ == &completion; }

    // stand_in_for_name(), stand_in_for_calls() and end_of_all() handle log entries. They end the job if the log entry
    // is one that no correct rank can have written.
    //
    // Announces the operation `name` for this rank. Other hosts have announced it, and all ranks of this host have
    // joined. Does nothing if the operation is already pending on this rank. All ranks of this host call this function
    // for the same log entry.
    void stand_in_for_name(std::string_view name);
    /// Like stand_in_for_name(), for the operations without a name. Announces all of them up to number `last`, because
    /// a rank that has started operation `last` has started all earlier ones.
    void stand_in_for_calls(std::uint64_t last);
    [[nodiscard]] bool has_joined() const { return has_joined_; }
    /// Call this when all members have joined. `last` is the member that joined last.
    void end_of_all(std::uint32_t last);
    /// Ends the join in progress. Does nothing if no join is in progress.
    void end(const Status& status);

    /// Call this when the log has called an operation that this rank announced only because it has joined. Copies the
    /// operation's metadata into `entry`; this rank did not know them before. May run without the lock.
    [[nodiscard]] Status take_called(TensorEntry& entry, std::uint32_t slot, std::uint64_t generation) const;

private:
    static constexpr std::uint64_t kNeverLooked = ~std::uint64_t{0};

    [[nodiscard]] bool may_join() const;
    void become_joined();
    [[nodiscard]] bool is_away() const;
    bool stand_in_for_new(bool look_at_places);
    bool stand_in_for_unnamed();
    bool stand_in_for_slot(std::uint32_t slot, bool look_at_places);
    bool stand_in_for_new_name(std::uint32_t slot);
    bool stand_in_for_direct();
    [[nodiscard]] bool was_announced(const TensorEntry& entry, bool look_at_places) const;
    [[nodiscard]] bool was_announced_by(const TensorEntry& entry, std::uint32_t member) const;
    [[nodiscard]] bool will_announce(std::string_view name);
    void stand_in(TensorEntry& entry, bool asked_for = false);
    [[nodiscard]] bool has_nothing_pending();
    bool settle();

    const SetView& view_;
    bool inspects_;
    Announcer& announcer_;
    const DirectAnnouncements& direct_;
    const JoinedMembers& joined_members_;
    const Announced& announced_;
    OperationEnds& ends_;
    const Waking& waking_;
    const LogCursor& cursor_;

    // The fields below are used under the enqueue lock, except the atomic fields.
    Completion* completion_ = nullptr;  // the completion of the join in progress
    bool is_counted_ = true;            // whether averages count this rank
    bool has_joined_ = false;           // true if this rank's bit in SetHeader::joined is set
    bool has_settled_ = false;
    // the value of SetHeader::announced when this rank last looked for announcements
    std::uint64_t announced_seen_ = 0;
    std::uint64_t looked_at_ = kNeverLooked;  // the log position when this rank last looked for announcements

    std::atomic<bool> joins_{false};  // true if a join is in progress; the thread that drives progress reads this flag
    // true if a join is in progress and this rank has not yet looked for announcements
    std::atomic<bool> joins_soon_{false};
};

}  // namespace rueda::core
