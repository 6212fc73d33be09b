// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// One turn of the engine on a process set: does what this rank can do now, and what the next entry of the log asks it
// to do.
#include <exception>
#include <new>

#include "core/negotiation/batch_end.hpp"
#include "core/process_set/process_set.hpp"

namespace rueda::core {

using collectives::StepResult;

/// What fails here ends the job: the others count on this rank's share of what is called.
Turn ProcessSet::step(bool urgent, bool asks_others) noexcept {
    try {
        return take_turn(urgent, asks_others);
    } catch (const std::bad_alloc&) {
        // The job must end, because the other ranks count on this rank's part in what is called.
        raise(ErrorCode::resource_exhausted, no_memory_to_go_on_);
    } catch (const std::exception& error) {
        raise(ErrorCode::internal, error.what());
    } catch (...) {
        raise(ErrorCode::internal, "an exception of an unknown type came in the middle of an operation");
    }
    return Turn::idle;
}

Turn ProcessSet::take_turn(bool urgent, bool asks_others) {
    const bool ended = deferred_.load(std::memory_order_relaxed) && retry_deferred();
    const bool joined = joins_.load(std::memory_order_acquire) && turn_join();
    const bool led = leader_ != nullptr && (asks_others || leader_->has_work()) && turn_leader();
    if (asks_others && transport_ != nullptr && leader_ == nullptr && task_ == nullptr) {
        turn_transport();
    }
    const bool moved =
        (direct_.load(std::memory_order_seq_cst) != nullptr && turn_direct() != DirectState::waiting) || led || joined;
    // The log is read even after a direct operation advanced. Otherwise a rank that does one direct operation after the
    // other would never read the log.
    const Turn turn = take_log_turn(urgent);
    return moved || ended ? Turn::advanced : turn;
}

Turn ProcessSet::turn_task() {
    const StepResult result = task_->step();
    switch (result) {
        case StepResult::advanced:
            return Turn::advanced;
        case StepResult::done:
            if (task_is_splits_) {
                take_splits();
            } else {
                finish_batch();
            }
            return Turn::advanced;
        case StepResult::waiting:
        case StepResult::polling:
            break;
    }
    if (hierarchical_communicator_ != nullptr && !hierarchical_communicator_->failed().is_ok()) {
        raise_network_failure(hierarchical_communicator_->failed());
    }
    return result == StepResult::polling ? Turn::polling : Turn::waiting;
}

Turn ProcessSet::take_log_turn(bool urgent) {
    if (task_ != nullptr) {
        return turn_task();
    }
    const std::uint64_t position = next_.load(std::memory_order_relaxed);
    if (closed() || !log_.is_published(position)) {
        return Turn::idle;
    }
    const EntryKind kind = log_.read(position).kind;
    return is_call(kind) ? start_batch(position, urgent) : handle_entry(position);
}

Turn ProcessSet::handle_entry(std::uint64_t position) {
    const auto entry = log_.read(position);
    if (entry.kind == EntryKind::mismatch || entry.kind == EntryKind::disagreed || entry.kind == EntryKind::failed ||
        entry.kind == EntryKind::lacks_joined || entry.kind == EntryKind::all_joined ||
        entry.kind == EntryKind::wanted) {
        waking_.wake_others();  // this entry also ends an operation of the other ranks
    }
    if (entry.kind == EntryKind::retire && direct_holds_retirement(position, entry.slot)) {
        return Turn::idle;
    }
    if (entry.kind == EntryKind::closed && direct_.load(std::memory_order_acquire) != nullptr) {
        turn_direct();  // the rank that shut down may have announced directly before
    }
    {
        const std::lock_guard lock(enqueue_mutex_);
        switch (entry.kind) {
            case EntryKind::mismatch:
                handle_mismatch(entry.slot);
                break;
            case EntryKind::disagreed:
                handle_disagreement(entry.slot, entry.attachment, static_cast<ErrorCode>(entry.rank));
                break;
            case EntryKind::failed:
                handle_failed(entry.slot);
                break;
            case EntryKind::retire:
                if (const TensorEntry* direct = direct_.load(std::memory_order_relaxed);
                    direct != nullptr && direct->slot == entry.slot) {
                    return Turn::idle;  // another thread announced it after the look above
                }
                handle_retire(entry.slot);
                pass_and_tell(position);
                return Turn::advanced;
            case EntryKind::lacks_joined:
                handle_lacks_joined(entry.slot, entry.attachment);
                break;
            case EntryKind::wanted:
                handle_wanted(entry.slot, entry.attachment);
                break;
            case EntryKind::all_joined:
                handle_all_joined(entry.rank);
                break;
            case EntryKind::closing:
                end_join(shut_down_status(""));
                closing_at_ = position;
                pass_and_tell(position);
                return Turn::advanced;
            case EntryKind::refused:
            case EntryKind::exhausted:
                if (entry.rank == rank_) {
                    handle_refused(entry);
                } else if (entry.rank < extent_.members) {
                    waking_.wake(entry.rank);  // this entry is for that member, which may be asleep
                }
                break;
            case EntryKind::closed:
                fail_pending(shut_down_status(""));  // ends what could not be posted before; everything else has ended
                closed_.store(true, std::memory_order_release);
                break;
            default:
                raise(ErrorCode::internal, fmt::format("the log has an entry of unknown kind {} at {}",
                                                       static_cast<std::uint32_t>(entry.kind), position));
                return Turn::idle;
        }
    }
    advance_to(position + 1);
    return Turn::advanced;
}

void ProcessSet::advance_to(std::uint64_t position) {
    next_.store(position, std::memory_order_relaxed);
    advance_cursor(memory_, rank_, position);
}

}  // namespace rueda::core
