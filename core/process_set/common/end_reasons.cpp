// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/common/end_reasons.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "core/diagnostics/pending_tensors.hpp"

namespace rueda::core {

EndReasons::EndReasons(const SetView& view)
    : view_(view), no_memory_(ErrorCode::aborted, "a rank has shut down, so no operation is possible any more") {}

Status EndReasons::about(std::string_view name, const Status& reason) {
    try {
        const std::string whose = name.empty() ? "" : fmt::format("tensor '{}'", name);
        return reason.message().starts_with(whose) ? reason : failure(reason.code(), "{}: {}", whose, reason.message());
    } catch (const std::bad_alloc&) {
        return reason;
    }
}

Status EndReasons::shut_down_here() const noexcept try {
    const SetIdentity& identity = view_.identity;
    return identity.is_world() ? Status(ErrorCode::not_initialized, "rueda::shutdown() has been called on this rank")
                               : failure(ErrorCode::invalid_argument, "{} has been removed, or this rank has shut down",
                                         identity.describe());
} catch (const std::bad_alloc&) {
    return no_memory_;
}

Status EndReasons::shut_down(std::string_view name) const noexcept try {
    // The error names the rank that shut down first, because the other ranks may have shut down only for that reason.
    // This acquire load pairs with the release store to `shut_down`, which publishes `first_shut_down`.
    static_cast<void>(view_.memory.header().shut_down.load(std::memory_order_acquire));
    const std::int32_t rank = view_.memory.header().first_shut_down.load(std::memory_order_relaxed);
    const SetIdentity& identity = view_.identity;
    return about(name, identity.is_world() ? failure(ErrorCode::aborted,
                                                     "rank {} has shut down, so no operation is possible any more; a "
                                                     "rank with fewer batches has to call join() before it shuts down",
                                                     rank)
                                           : failure(ErrorCode::aborted, "{}: rank {} has removed it, or has shut down",
                                                     identity.describe(), rank));
} catch (const std::bad_alloc&) {
    return no_memory_;
}

Status EndReasons::shut_down_unnamed(const TensorEntry& entry) const noexcept try {
    const Status reason = shut_down("");
    const std::string started =
        describe_started(started_by_rank(view_.memory, [this](auto member) { return view_.job_rank_of(member); }));
    return failure(reason.code(), "{}{}: {}", describe_unnamed(view_.call_of_unnamed(entry.slot, entry.generation)),
                   started, reason.message());
} catch (const std::bad_alloc&) {
    return no_memory_;
}

Status EndReasons::exhausted(std::string_view name, std::uint64_t slots) const {
    const NegotiationExtent& extent = view_.extent();
    const bool is_limit = slots >= extent.slots;
    return failure(ErrorCode::resource_exhausted,
                   "tensor '{}': all {} slots for tensor names are taken by pending tensors{}; wait for some of them "
                   "before starting new names, or {}",
                   name, extent.for_names(static_cast<std::uint32_t>(std::min<std::uint64_t>(slots, extent.slots))),
                   is_limit ? "" : ", and there is no memory for more",
                   is_limit ? "raise RUEDA_SLOTS_MAX" : "free memory");
}

}  // namespace rueda::core
