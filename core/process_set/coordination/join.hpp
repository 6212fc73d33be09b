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

/// This rank's join of a set (docs/design/0005-join.md). While the join lasts, the rank stands in for operations: it
/// announces what the other ranks announce, but contributes nothing.
///
/// Threads: announce(): any thread. turn(): the thread that drives progress. Both take the enqueue lock. The other
/// functions run under the lock, unless a comment says otherwise.
class Join {
public:
    /// All references must outlive this object. `inspects`: operations are compared; see Verification.
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
    /// Whether this rank has joined but has not yet looked for announcements of others. Any thread.
    [[nodiscard]] bool has_to_look() const { return joins_soon_.load(std::memory_order_seq_cst); }
    /// Announces what the others have announced since the last turn. Returns true if an operation made progress.
    bool turn();
    /// Whether `completion` is the completion of the join in progress.
    [[nodiscard]] bool is_awaited_by(const Completion& completion) const { return completion_ == &completion; }

    // Each of the next functions handles an entry of the log. If no correct rank can have written the entry, the job
    // ends. stand_in_for_name(): other hosts have announced a name, while all ranks of this host have joined. Every
    // rank of the host reads the entry at the same position of the log. If the operation is already pending on this
    // rank, this rank has announced it: either before it joined, or because another rank of its host did.
    void stand_in_for_name(std::string_view name);
    /// Like stand_in_for_name(), for all operations without a name up to number `last`: the rank that made call number
    /// `last` has also made all earlier calls.
    void stand_in_for_calls(std::uint64_t last);
    [[nodiscard]] bool has_joined() const { return has_joined_; }
    /// Called when all members have joined; `last` was the last one.
    void end_of_all(std::uint32_t last);
    /// Ends the join in progress. Does nothing if no join is in progress.
    void end(const Status& status);

    /// Takes the metadata of an operation that this rank stands in for, when the operation is called. May run without
    /// the lock.
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

    // The following members are used under the enqueue lock.
    Completion* completion_ = nullptr;  // of the join in progress
    bool is_counted_ = true;            // averages count this rank
    bool has_joined_ = false;           // the other members know it
    bool has_settled_ = false;
    // the value of SetHeader::announced at the last look for new announcements
    std::uint64_t announced_seen_ = 0;
    std::uint64_t looked_at_ = kNeverLooked;  // the log position at that look

    std::atomic<bool> joins_{false};  // whether a join is in progress; read by the thread that drives progress
    // whether a join is in progress and this rank has not yet looked for new announcements
    std::atomic<bool> joins_soon_{false};
};

}  // namespace rueda::core
