// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The job of this process: how it begins and ends, and the number of this rank.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "base/gpus/local_device.hpp"
#include "base/settings/environment.hpp"
#include "base/shared_memory/lock_before.hpp"
#include "base/status.hpp"
#include "collectives/selection/select_control_plane.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/c_interface/initialise.hpp"
#include "core/c_interface/process.hpp"
#include "core/diagnostics/stacks/stack_signal.hpp"
#include "core/engine/deadline.hpp"
#include "core/operations/requests.hpp"
#include "core/runtime/runtime.hpp"
#include "core/termination/memory_guard.hpp"
#include "core/termination/termination.hpp"
#include "rueda/elastic.h"
#include "rueda/rueda.h"

using rueda::ErrorCode;
using rueda::Result;
using rueda::Status;
using rueda::collectives::Membership;
using rueda::core::Runtime;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::current_runtime;
using rueda::core::c_interface::end_job;
using rueda::core::c_interface::guarded;
using rueda::core::c_interface::guarded_wait;
using rueda::core::c_interface::initialise;
using rueda::core::c_interface::process;
using rueda::core::c_interface::SetsToMake;

namespace {

Status read_members(const rueda_init_options& options, Membership& members) {
    if (options.ranks != nullptr && options.communicator != nullptr) {
        return {ErrorCode::invalid_argument,
                "init: a list of ranks and a communicator are given; expected one of them"};
    }
    if ((options.ranks == nullptr && options.rank_count != 0) ||
        (options.communicator == nullptr) != (options.communicator_size == 0)) {
        return {ErrorCode::invalid_argument,
                "init: a list of ranks or a communicator is incomplete, because its address or its size is missing; "
                "expected both, or NULL and 0"};
    }
    if (options.ranks != nullptr) {
        members.has_list = true;
        members.ranks.assign(options.ranks, options.ranks + options.rank_count);
    }
    const auto* const bytes = static_cast<const std::byte*>(options.communicator);
    members.communicator.assign(bytes, bytes + options.communicator_size);
    return {};
}

Status read_sets(const rueda_init_options& options, SetsToMake& sets) {
    if (options.process_sets == nullptr && options.process_set_count != 0) {
        return rueda::failure(ErrorCode::invalid_argument,
                              "init: the list of {} process sets is NULL; expected their ranks",
                              options.process_set_count);
    }
    for (std::size_t i = 0; i < options.process_set_count; ++i) {
        const auto& [ranks, count] = options.process_sets[i];
        if (ranks == nullptr && count != 0) {
            return rueda::failure(ErrorCode::invalid_argument,
                                  "init: the list of {} ranks of a process set is NULL; expected their numbers", count);
        }
        sets.first.ranks.emplace_back(ranks, ranks + count);
    }
    sets.ids = options.process_set_ids;
    return {};
}

int number(int* value, int (*read)(const rueda::collectives::LocalGroup&)) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(value, "number"));
        *value = read(runtime.value()->group());
        return {};
    });
}

rueda::base::DeviceRequest device_request(const Runtime& runtime) {
    const rueda::collectives::LocalGroup& group = runtime.group();
    rueda::base::DeviceRequest request;
    request.local_rank = group.local_rank;
    request.local_size = group.local_size;
    request.gpus_per_rank = static_cast<int>(runtime.config().gpus_per_rank);
    request.share = runtime.config().share_gpu;
    request.host = group.host_names[static_cast<std::size_t>(group.host_index)];
    return request;
}

}  // namespace

extern "C" {

int rueda_init(void) {
    return guarded_wait([]() -> Status {
        const std::lock_guard lock(process().mutex);
        return initialise(process(), {});
    });
}

int rueda_init_ranks(const int32_t* ranks, size_t count) {
    return guarded_wait([&]() -> Status {
        if (ranks == nullptr && count != 0) {
            return rueda::failure(ErrorCode::invalid_argument, "init: the list of {} ranks is NULL", count);
        }
        Membership members;
        members.has_list = true;
        members.ranks.assign(ranks, ranks + count);
        const std::lock_guard lock(process().mutex);
        return initialise(process(), members);
    });
}

int rueda_init_communicator(const void* communicator, size_t communicator_size) {
    return guarded_wait([&]() -> Status {
        if (communicator == nullptr || communicator_size == 0) {
            return {ErrorCode::invalid_argument,
                    "init: the communicator is NULL; expected a pointer to an MPI_Comm, and its size"};
        }
        Membership members;
        const auto* const bytes = static_cast<const std::byte*>(communicator);
        members.communicator.assign(bytes, bytes + communicator_size);
        const std::lock_guard lock(process().mutex);
        return initialise(process(), members);
    });
}

int rueda_init_with(const rueda_init_options* given) {
    return guarded_wait([&]() -> Status {
        rueda_init_options options = RUEDA_INIT_OPTIONS_INIT;
        Membership members;
        SetsToMake sets;
        RUEDA_RETURN_IF_FAILED(rueda::core::effective_init_options(given, options));
        RUEDA_RETURN_IF_FAILED(read_members(options, members));
        RUEDA_RETURN_IF_FAILED(read_sets(options, sets));
        const std::lock_guard lock(process().mutex);
        return initialise(process(), members, std::move(sets));
    });
}

int rueda_shutdown(void) { return rueda_shutdown_within(-1); }

int rueda_shutdown_within(double timeout_seconds) {
    return guarded_wait([&]() -> Status {
        const auto deadline = rueda::core::deadline_in(timeout_seconds);
        const std::unique_lock lock = rueda::base::lock_before(process().mutex, deadline);
        if (!lock.owns_lock()) {
            return rueda::failure(ErrorCode::timeout,
                                  "shutdown: another thread of this process was in init or shutdown for {} s",
                                  timeout_seconds);
        }
        Runtime* runtime = process().current.load(std::memory_order_relaxed);
        Status left;
        if (runtime != nullptr) {
            left = runtime->shutdown_within(rueda::core::seconds_left(deadline));
            if (left.code() == ErrorCode::timeout) {
                return left;
            }
            process().next_set_id = runtime->process_sets().next_id();
            rueda::core::unwatch_memory();
            rueda::core::unwatch_termination();
            rueda::core::remove_stack_handler();
            process().current.store(nullptr, std::memory_order_release);
        }
        // If the job ended before all ranks had left it, the program must get an error. Otherwise it would believe that
        // its job is complete, and exit with success.
        if (left.is_ok() || process().knows_of_abort.load(std::memory_order_relaxed)) {
            return {};
        }
        return rueda::failure(left.code(), "shutdown: the job ended before all ranks had left it: {}", left.message());
    });
}

int rueda_initialized(void) { return process().current.load(std::memory_order_acquire) != nullptr ? 1 : 0; }

int rueda_rank(int* value) {
    return number(value, [](const rueda::collectives::LocalGroup& g) { return g.rank; });
}
int rueda_size(int* value) {
    return number(value, [](const rueda::collectives::LocalGroup& g) { return g.size; });
}
int rueda_local_rank(int* value) {
    return number(value, [](const rueda::collectives::LocalGroup& g) { return g.local_rank; });
}
int rueda_local_size(int* value) {
    return number(value, [](const rueda::collectives::LocalGroup& g) { return g.local_size; });
}
int rueda_cross_rank(int* value) {
    return number(value, [](const rueda::collectives::LocalGroup& g) { return g.cross_rank; });
}
int rueda_cross_size(int* value) {
    return number(value, [](const rueda::collectives::LocalGroup& g) { return g.cross_size; });
}

int rueda_is_homogeneous(int* value) {
    return number(value, [](const rueda::collectives::LocalGroup& g) { return g.is_homogeneous() ? 1 : 0; });
}

int rueda_threads_per_rank(int* value) {
    return guarded([&]() -> Status {
        const Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(value, "number"));
        *value = runtime.value()->threads_per_rank();
        return {};
    });
}

int rueda_blocked_seconds(double* seconds) {
    return guarded([&]() -> Status {
        const Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(seconds, "number"));
        const std::int64_t before = process().blocked_before_ns.load(std::memory_order_relaxed);
        *seconds = static_cast<double>(before + runtime.value()->blocked_ns()) / 1e9;
        return {};
    });
}

int rueda_local_device(int* index) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(index, "number"));
        const rueda::collectives::LocalGroup& group = runtime.value()->group();
        const Result<int> device =
            rueda::base::local_device(device_request(*runtime.value()), group.size, rueda::base::process_environment());
        if (!device.is_ok()) {
            return rueda::failure(device.status().code(), "local_device: {}", device.status().message());
        }
        *index = device.value();
        return {};
    });
}

int rueda_abort(const char* reason) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        end_job(*runtime.value(), reason == nullptr || *reason == '\0' ? "it gave no reason" : reason);
        return {};
    });
}

int rueda_begin_step(int64_t step) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        if (step < 0) {
            return failure(ErrorCode::invalid_argument, "the step is {}; expected 0 or more", step);
        }
        runtime.value()->begin_step(step);
        process().launcher.load(std::memory_order_acquire)->begin_step(step);
        return {};
    });
}

int rueda_is_elastic(void) {
    auto* const launcher = process().launcher.load(std::memory_order_acquire);
    return launcher != nullptr && launcher->is_elastic() ? 1 : 0;
}

int rueda_take_slot_changes(int32_t* changes) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(changes, "changes"));
        auto* const launcher = process().launcher.load(std::memory_order_acquire);
        *changes = launcher != nullptr ? launcher->take_slot_changes() : 0;
        return {};
    });
}

int rueda_busy_begin(const char* what) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        runtime.value()->begin_busy(what == nullptr ? "" : what);
        return {};
    });
}

int rueda_busy_end(void) {
    return guarded([]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        return runtime.value()->end_busy();
    });
}

int rueda_metrics(char* text, size_t capacity, size_t* bytes) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(bytes, "number of bytes"));
        if (capacity != 0) {
            RUEDA_RETURN_IF_FAILED(check_place(text, "text"));
        }
        const Result<std::string> metrics = runtime.value()->metrics();
        RUEDA_RETURN_IF_FAILED(metrics.status());
        *bytes = metrics.value().size() + 1;
        if (capacity != 0) {
            const bool fits = *bytes <= capacity;
            std::memcpy(text, fits ? metrics.value().c_str() : "", fits ? *bytes : 1);
        }
        return {};
    });
}

int rueda_stack_signal(int32_t* value) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(value, "number"));
        *value = rueda::core::stack_signal();
        return {};
    });
}

int rueda_adopt_traceback_handler(int32_t descriptor) {
    return guarded([&]() -> Status { return rueda::core::adopt_traceback_handler(descriptor); });
}

}  // extern "C"
