// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Comparing what the ranks have (docs/design/0009-verify.md). After an operation that is checked, the ranks tell each
// other what they found. They do so by another operation, which runs before the caller learns that the checked one has
// ended.
#include <utility>
#include <vector>

#include "core/operations/groups.hpp"
#include "core/operations/verdicts.hpp"
#include "core/process_set/process_set.hpp"

namespace rueda::core {

using collectives::Operation;

namespace {

Operation operation_of(const TensorEntry& entry) { return static_cast<Operation>(entry.request.metadata.operation); }

/// The number of elements of this rank's input.
std::uint64_t input_count(const Request& request) {
    const bool variable_rows = collectives::has_variable_rows(static_cast<Operation>(request.metadata.operation));
    return request.count * (variable_rows ? static_cast<std::uint64_t>(request.first_dimension) : 1);
}

std::uint64_t checksum_of_input(const Request& request) { return checksum_of(request.input, request.bytes()); }

/// Whether this rank gives an input to an operation whose result is compared.
bool has_input_compared(const Request& request, int set_rank) {
    const auto operation = static_cast<Operation>(request.metadata.operation);
    return operation == Operation::allreduce ||
           (operation == Operation::broadcast && request.metadata.root == set_rank);
}

bool is_found(std::uint64_t finding) {
    const auto verdict = decode_verdict(static_cast<std::int64_t>(finding));
    return verdict && verdict->kind != Verdict::Kind::checksum;
}

std::uint64_t as_finding(const Verdict& verdict) { return static_cast<std::uint64_t>(encode(verdict)); }

}  // namespace

/// The completion of the comparing operation; when it ends, the operation that it compares ends too.
struct ProcessSet::Check final : Completion {
    Check(ProcessSet& s, TensorEntry& b, TensorEntry& o) : Completion(1, &on_done), set(s), by(b), of(o) {}
    static void on_done(Completion& completion) {
        auto& check = static_cast<Check&>(completion);
        check.set.end_check(check);
    }

    ProcessSet& set;
    TensorEntry& by;
    TensorEntry& of;
    bool compared = false;  // false if the comparison failed, so this rank does not know what the others have
};

/// Looks at the input as the caller gave it, before the announcement and under the enqueue lock. If only some results
/// are compared, it is not known yet whether this is one of them, and inputs are not compared.
void ProcessSet::inspect_input(TensorEntry& entry) noexcept {
    const Request& request = entry.request;
    const Operation operation = operation_of(entry);
    entry.finding = as_finding({});
    if (check_nan_ && collectives::is_reduction(operation)) {
        const auto found =
            find_not_finite(static_cast<DType>(request.metadata.dtype), request.input, input_count(request));
        if (found) {
            entry.finding = as_finding(*found);
            return;
        }
    }
    if (verify_ == 1 && has_input_compared(request, set_rank())) {
        entry.finding = as_finding({Verdict::Kind::checksum, checksum_of_input(request)});
    }
}

/// Looks again before the operation is executed, and also afterwards if the output lies elsewhere.
void ProcessSet::inspect_again(TensorEntry& entry) const {
    if (verify_ != 1 || !has_input_compared(entry.request, set_rank()) || entry.stands_in || is_found(entry.finding)) {
        return;
    }
    // If the tensor is resident and in place, other ranks may have begun to write the result.
    if (entry.request.input == entry.request.output && arena_->resident_offset(entry.request.input, 0)) {
        return;
    }
    if (entry.finding != as_finding({Verdict::Kind::checksum, checksum_of_input(entry.request)})) {
        entry.finding = as_finding({Verdict::Kind::changed, 0});
    }
}

/// Called once for each operation that the log calls, in the order of the log, so all ranks get the same answers.
bool ProcessSet::is_compared(Operation operation) {
    if (verify_ == 0) {
        return false;
    }
    return operation == Operation::broadcast ||
           (operation == Operation::allreduce && ++allreduces_called_ % verify_ == 0);
}

/// An operation was executed. Returns true if it ends only when the ranks have compared it. Called by the thread that
/// drives progress.
bool ProcessSet::begin_check(TensorEntry& entry) {
    const Operation operation = operation_of(entry);
    const Metadata& metadata = entry.request.metadata;
    const bool compares = is_compared(operation);
    const bool looks =
        check_nan_ && collectives::is_reduction(operation) && has_not_finite(static_cast<DType>(metadata.dtype));
    if (!(compares || looks) || entry.stands_in) {
        return false;
    }
    if (entry.request.output != entry.request.input) {
        inspect_again(entry);
    }
    if (!is_found(entry.finding)) {
        const std::uint64_t sum = compares ? checksum_of(entry.request.output, entry.request.bytes()) : 0;
        entry.finding = as_finding({Verdict::Kind::checksum, sum});
    }
    const auto verdict = static_cast<std::int64_t>(entry.finding);
    if (set_size_ == 1) {
        const VerdictOfRank own{own_job_rank(), *decode_verdict(verdict)};
        if (const Status judged = judge(name_for_people(entry), metadata, {&own, 1}); !judged.is_ok()) {
            entry.completion->fail(judged);
        }
        return false;
    }
    const std::lock_guard lock(enqueue_mutex_);
    return announce_check(entry, verdict);
}

/// An unnamed slot has only one operation pending, so its number is enough.
std::string ProcessSet::name_of_check_of(const TensorEntry& entry) {
    return name_of_check(entry.name.empty() ? fmt::format("unnamed {}", entry.slot) : entry.name);
}

/// Whether `name` is the comparison that this rank will announce after one of its own operations, which was pending
/// when it joined. This rank has a finding to announce, so no rank may stand in for that comparison. Under the enqueue
/// lock.
bool ProcessSet::will_announce(std::string_view name) {
    bool found = false;
    table_.for_each([&](const TensorEntry& entry) {
        found = found ||
                (entry.pending.load(std::memory_order_acquire) && !entry.stands_in && name_of_check_of(entry) == name);
    });
    return found;
}

/// Announces the comparison. Every rank that has executed the operation does so, whatever its callers do, so no rank
/// waits in vain. Under the enqueue lock.
bool ProcessSet::announce_check(TensorEntry& entry, std::int64_t verdict) {
    const bool closing = memory_.header().shut_down.load(std::memory_order_acquire) != 0;
    if (failed_.has_value() || shut_down_posted_ || closing) {
        return false;  // the other members are not asked any more
    }
    TensorEntry& check = table_.entry(name_of_check_of(entry));
    if (check.pending.load(std::memory_order_acquire)) {
        return false;  // a caller has taken the name
    }
    check.checks = &entry;
    check.checked = std::make_unique<Check>(*this, check, entry);
    Request request;
    make_count(static_cast<std::size_t>(verdict), identity_.id, request);
    request.metadata.ndim = 2;  // two dimensions, so that it is not taken for a group's size (is_size_of_group())
    check.ask_for(request);
    start(check, *check.checked, Urgency::background);
    return true;
}

/// All ranks have announced their findings, as first dimensions, like the numbers in settle_group().
Status ProcessSet::settle_check(TensorEntry& entry) {
    std::vector<VerdictOfRank> verdicts;
    for (std::size_t member = 0; member < batch_.members(); ++member) {
        const std::optional<std::int64_t> announced = batch_.rows_of(member);
        if (!announced) {
            continue;
        }
        const auto verdict = decode_verdict(*announced);
        if (!verdict) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced {} as a checksum", entry.name,
                           identity_.ranks[member], *announced);
        }
        verdicts.push_back({identity_.ranks[member], *verdict});
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
    const std::lock_guard lock(enqueue_mutex_);
    if (check.of.pending.load(std::memory_order_relaxed)) {
        complete_and_forget(check.of, judged);
    }
    return {};
}

/// Ends the compared operation. If the ranks have compared, settle_check() has already done so. Else the operation
/// itself is done, and the other ranks have left, or the job has ended, before they could tell their findings. All
/// other failures are the same on all ranks. Under the enqueue lock.
void ProcessSet::end_check(Check& check) {
    check.by.checks = nullptr;
    if (check.compared || !check.of.pending.load(std::memory_order_relaxed)) {
        return;
    }
    const ErrorCode code = check.status().code();
    complete(check.of,
             code == ErrorCode::mismatch || code == ErrorCode::resource_exhausted ? check.status() : Status());
}

/// The operation's name in errors.
std::string ProcessSet::name_for_people(const TensorEntry& entry) const {
    return entry.name.empty() ? describe_unnamed(call_of_unnamed(entry.slot, entry.generation))
                              : fmt::format("tensor '{}'", entry.name);
}

}  // namespace rueda::core
