// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/announcing/input_inspection.hpp"

#include "collectives/operation.hpp"

namespace rueda::core {

using collectives::Operation;

namespace {

Operation inspected_operation(const Request& request) { return static_cast<Operation>(request.metadata.operation); }

std::uint64_t input_count(const Request& request) {
    const bool variable_rows = collectives::has_variable_rows(inspected_operation(request));
    return request.count * (variable_rows ? static_cast<std::uint64_t>(request.first_dimension) : 1);
}

std::uint64_t checksum_of_input(const Request& request) { return checksum_of(request.input, request.bytes()); }

}  // namespace

bool InputInspection::looks_for_nan(Operation operation) const {
    return check_nan_ && collectives::is_reduction(operation);
}

/// Whether this rank contributes an input to an operation whose result will be compared.
bool InputInspection::is_compared(const Request& request) const {
    const Operation operation = inspected_operation(request);
    return verify_ == 1 &&
           (operation == Operation::allreduce ||
            (operation == Operation::broadcast && request.metadata.root == static_cast<std::int32_t>(view_.set_rank)));
}

void InputInspection::inspect(TensorEntry& entry) const noexcept {
    const Request& request = entry.request;
    entry.finding = as_finding({});
    if (request.device != nullptr) {
        return;  // the CPU cannot read the input
    }
    if (looks_for_nan(inspected_operation(request))) {
        const auto found =
            find_not_finite(static_cast<DType>(request.metadata.dtype), request.input, input_count(request));
        if (found) {
            entry.finding = as_finding(*found);
            return;
        }
    }
    if (is_compared(request)) {
        entry.finding = as_finding({Verdict::Kind::checksum, checksum_of_input(request)});
    }
}

void InputInspection::inspect_again(TensorEntry& entry) const {
    if (!is_compared(entry.request) || entry.request.device != nullptr || entry.stands_in || is_found(entry.finding)) {
        return;
    }
    // A tensor in resident memory (memory that the ranks share) that is reduced in place is not checked, because other
    // ranks may already be writing the result into it.
    if (entry.request.input == entry.request.output && view_.arena.resident_offset(entry.request.input, 0)) {
        return;
    }
    if (entry.finding != as_finding({Verdict::Kind::checksum, checksum_of_input(entry.request)})) {
        entry.finding = as_finding({Verdict::Kind::changed, 0});
    }
}

bool InputInspection::is_found(std::uint64_t finding) {
    const auto verdict = decode_verdict(static_cast<std::int64_t>(finding));
    return verdict && verdict->kind != Verdict::Kind::checksum;
}

}  // namespace rueda::core
