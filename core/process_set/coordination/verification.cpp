// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/coordination/verification.hpp"

#include <utility>
#include <vector>

#include "core/operations/groups.hpp"
#include "core/operations/verdicts.hpp"

namespace rueda::core {

using collectives::Operation;

namespace {

Operation operation_of(const TensorEntry& entry) { return static_cast<Operation>(entry.request.metadata.operation); }

}  // namespace

/// The completion of an operation that compares findings. When this operation ends, the checked operation ends too.
struct Verification::Check final : Completion {
    Check(Verification& v, TensorEntry& b, TensorEntry& o) : Completion(1, &on_done), verification(v), by(b), of(o) {}
    static void on_done(Completion& completion) {
        auto& check = static_cast<Check&>(completion);
        check.verification.end(check);
    }

    Verification& verification;
    TensorEntry& by;
    TensorEntry& of;
    // true once settle() has compared the findings of all ranks
    bool compared = false;
};

/// Whether the ranks compare their findings about this operation. This function counts the allreduces. All ranks call
/// it for every called operation in the order of the log, so all ranks get the same result.
bool Verification::is_compared(Operation operation) {
    const std::uint32_t every = inspection_.every();
    if (every == 0) {
        return false;
    }
    return operation == Operation::broadcast ||
           (operation == Operation::allreduce && ++allreduces_called_ % every == 0);
}

bool Verification::begin(TensorEntry& entry) {
    const Operation operation = operation_of(entry);
    const Metadata& metadata = entry.request.metadata;
    const bool compares = is_compared(operation);
    const bool looks = inspection_.looks_for_nan(operation) && has_not_finite(static_cast<DType>(metadata.dtype));
    if (!(compares || looks) || entry.stands_in) {
        return false;
    }
    if (entry.request.output != entry.request.input) {
        inspection_.inspect_again(entry);
    }
    if (!InputInspection::is_found(entry.finding)) {
        const std::uint64_t sum = compares ? checksum_of(entry.request.output, entry.request.bytes()) : 0;
        entry.finding = InputInspection::as_finding({Verdict::Kind::checksum, sum});
    }
    const auto verdict = static_cast<std::int64_t>(entry.finding);
    if (view_.set_size == 1) {
        const VerdictOfRank own{view_.own_job_rank(), *decode_verdict(verdict)};
        if (const Status judged = judge(name_for_people(entry), metadata, {&own, 1}); !judged.is_ok()) {
            entry.completion->fail(judged);
        }
        return false;
    }
    const std::lock_guard lock(announcer_.enqueue_mutex());
    return announce(entry, verdict);
}

/// For an operation without a name, the name contains the slot, because only one operation is pending in such a slot.
std::string Verification::name_of_check_of(const TensorEntry& entry) {
    return name_of_check(entry.name.empty() ? fmt::format("unnamed {}", entry.slot) : entry.name);
}

/// Announces the operation that compares the findings about `entry`. Rueda itself does this on every rank that executed
/// `entry`, whatever the program does. Therefore no rank waits for the comparison for ever. The caller holds the
/// enqueue lock.
bool Verification::announce(TensorEntry& entry, std::int64_t verdict) {
    if (!announcer_.is_open()) {
        return false;  // other members have left, so their findings would never come
    }
    TensorEntry& check = announcer_.table().entry(name_of_check_of(entry));
    if (check.pending.load(std::memory_order_acquire)) {
        return false;  // a caller of this rank uses the name, so the comparison cannot be announced
    }
    check.checks = &entry;
    check.checked = std::make_unique<Check>(*this, check, entry);
    Request request;
    make_count(static_cast<std::size_t>(verdict), view_.identity.id, request);
    // With one dimension, is_size_of_group() would take this tensor for the number of members of a group.
    request.metadata.ndim = 2;
    check.ask_for(request);
    announcer_.start(check, *check.checked, Urgency::background);
    return true;
}

Status Verification::settle(TensorEntry& entry, const CalledBatch& batch) {
    std::vector<VerdictOfRank> verdicts;
    for (std::size_t member = 0; member < batch.members(); ++member) {
        const std::optional<std::int64_t> announced = batch.rows_of(member);
        if (!announced) {
            continue;
        }
        const auto verdict = decode_verdict(*announced);
        if (!verdict) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced {} as a checksum", entry.name,
                           view_.identity.ranks[member], *announced);
        }
        verdicts.push_back({view_.identity.ranks[member], *verdict});
    }
    auto& check = static_cast<Check&>(*entry.checked);
    const std::string tensor = name_for_people(check.of);
    Status judged = judge(tensor, check.of.request.metadata, verdicts);
    if (!judged.is_ok() && first_difference_.empty()) {
        first_difference_ = tensor;
    } else if (!judged.is_ok() && first_difference_ != tensor) {
        judged = failure(judged.code(), "{}; the first one was {}", judged.message(), first_difference_);
    }
    check.compared = true;
    const std::lock_guard lock(announcer_.enqueue_mutex());
    if (check.of.pending.load(std::memory_order_relaxed)) {
        announcer_.complete_and_forget(check.of, judged);
    }
    return {};
}

/// Ends the checked operation, unless settle() has ended it. If the comparison failed with Mismatch or
/// ResourceExhausted, it failed on all ranks, and the checked operation fails too. If it failed with another error,
/// other ranks left or the job ended before the findings were compared. The result of the checked operation is complete
/// on this rank, so the checked operation then succeeds. The caller holds the enqueue lock.
void Verification::end(Check& check) {
    check.by.checks = nullptr;
    if (check.compared || !check.of.pending.load(std::memory_order_relaxed)) {
        return;
    }
    const ErrorCode code = check.status().code();
    ends_.complete(check.of,
                   code == ErrorCode::mismatch || code == ErrorCode::resource_exhausted ? check.status() : Status());
}

std::string Verification::name_for_people(const TensorEntry& entry) const {
    return entry.name.empty() ? describe_unnamed(view_.call_of_unnamed(entry.slot, entry.generation))
                              : fmt::format("tensor '{}'", entry.name);
}

}  // namespace rueda::core
