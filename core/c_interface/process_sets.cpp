// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_sets/process_sets.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/c_interface/process.hpp"
#include "core/pending/set_identity.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"

using rueda::ErrorCode;
using rueda::Result;
using rueda::Status;
using rueda::core::Runtime;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::current_runtime;
using rueda::core::c_interface::guarded;
using rueda::core::c_interface::guarded_wait;

namespace {

Status check_new_set(const std::int32_t* ranks, std::size_t count, const std::int32_t* process_set) {
    if (ranks == nullptr && count != 0) {
        return rueda::failure(ErrorCode::invalid_argument,
                              "the list of {} ranks of a process set is NULL; expected their numbers", count);
    }
    return check_place(process_set, "process set");
}

/// Calls the function `read` with the set's identity and this rank's number in the job.
template <class Read>
int of_set(std::int32_t id, const void* place, Read&& read) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(place, "number"));
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        const Result<rueda::core::SetIdentity> identity = runtime.value()->process_sets().identity(id);
        RUEDA_RETURN_IF_FAILED(identity.status());
        return read(identity.value(), runtime.value()->group().rank);
    });
}

Status check_room(const std::int32_t* numbers, std::size_t capacity) {
    return numbers != nullptr || capacity == 0
               ? Status()
               : rueda::failure(ErrorCode::invalid_argument,
                                "the array for {} numbers is NULL; expected memory for them, or the capacity 0",
                                capacity);
}

/// Writes as many numbers as fit into the caller's array. Returns how many numbers there are in total.
std::size_t copy_some(const std::vector<std::int32_t>& numbers, std::int32_t* to, std::size_t capacity) {
    std::copy_n(numbers.begin(), std::min(numbers.size(), capacity), to);
    return numbers.size();
}

}  // namespace

extern "C" {

int rueda_process_set_add(const int32_t* ranks, size_t count, int32_t* process_set) {
    return guarded_wait([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_new_set(ranks, count, process_set));
        const Result<std::int32_t> added = runtime.value()->process_sets().add({ranks, count});
        RUEDA_RETURN_IF_FAILED(added.status());
        *process_set = added.value();
        return {};
    });
}

int rueda_process_set_remove(int32_t process_set) {
    return guarded_wait([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        const auto set = runtime.value()->process_sets().find(process_set);  // remove() reports an unknown set.
        RUEDA_RETURN_IF_FAILED(runtime.value()->process_sets().remove(process_set));
        if (set.is_ok()) {
            set.value()->disconnect_devices();
        }
        return {};
    });
}

int rueda_process_set_add_among(const int32_t* ranks, size_t count, int32_t* process_set) {
    return guarded_wait([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_new_set(ranks, count, process_set));
        const Result<std::int32_t> added = runtime.value()->process_sets().add_among({ranks, count});
        RUEDA_RETURN_IF_FAILED(added.status());
        *process_set = added.value();
        return {};
    });
}

int rueda_process_set_leave(int32_t process_set) {
    return guarded_wait([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        return runtime.value()->process_sets().leave(process_set);
    });
}

int rueda_process_set_rank(int32_t process_set, int* value) {
    return of_set(process_set, value, [&](const rueda::core::SetIdentity& identity, int job_rank) -> Status {
        const std::optional<int> member = identity.member_of(job_rank);
        if (!member) {
            return rueda::failure(ErrorCode::invalid_argument, "rank {} is not a member of {}", job_rank,
                                  identity.describe());
        }
        *value = *member;
        return {};
    });
}

int rueda_process_set_size(int32_t process_set, int* value) {
    return of_set(process_set, value, [&](const rueda::core::SetIdentity& identity, int /*job_rank*/) -> Status {
        *value = static_cast<int>(identity.ranks.size());
        return {};
    });
}

int rueda_process_set_included(int32_t process_set, int* value) {
    return of_set(process_set, value, [&](const rueda::core::SetIdentity& identity, int job_rank) -> Status {
        *value = identity.member_of(job_rank).has_value() ? 1 : 0;
        return {};
    });
}

int rueda_process_set_ranks(int32_t process_set, int32_t* ranks, size_t capacity, size_t* count) {
    return of_set(process_set, count, [&](const rueda::core::SetIdentity& identity, int /*job_rank*/) -> Status {
        RUEDA_RETURN_IF_FAILED(check_room(ranks, capacity));
        *count = copy_some(identity.ranks, ranks, capacity);
        return {};
    });
}

int rueda_process_set_ids(int32_t* ids, size_t capacity, size_t* count) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(count, "number"));
        RUEDA_RETURN_IF_FAILED(check_room(ids, capacity));
        *count = copy_some(runtime.value()->process_sets().ids(), ids, capacity);
        return {};
    });
}

}  // extern "C"
