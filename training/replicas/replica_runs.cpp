// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/replica_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/system/cores.hpp"
#include "rueda/error.hpp"
#include "training/log_warning.hpp"
#include "training/replicas/replica_agreement.hpp"

namespace rueda::training {
namespace {

/// Thrown in the function of a replica after another replica has failed, so that the function ends. Not derived from
/// std::exception, so that a function that catches its own errors does not catch this object.
struct ReplicaStopped {};

/// The number of bytes that are allocated in advance for the text of a failure, in case no memory is left later.
constexpr std::size_t kTextWithoutMemory = 200;

/// Warns if the replicas take turns on too few cores. This happens with Open MPI: if a job has one or two processes,
/// Open MPI binds each of them to one core. Mostly, all processes of a host have the same number of cores, so one
/// warning for each host is enough.
void warn_of_few_cores(int count) {
    const std::uint32_t cores = base::affinity_cores();
    if (cores < static_cast<std::uint32_t>(count) && local_rank() == 0) {
        warnings_to_the_log(rank())(
            fmt::format("{} replicas share {} core{} in this process. Use fewer replicas, or allow the process more "
                        "cores, for example with 'mpirun --bind-to none'",
                        count, cores, cores == 1 ? "" : "s"));
    }
}

}  // namespace

ReplicaRuns::ReplicaRuns(Plan plan)
    : plan_(std::move(plan)),
      count_(plan_.count),
      position_(plan_.process_set.rank()),
      processes_(plan_.process_set.size()),
      ready_(static_cast<std::size_t>(count_), std::vector<std::uint8_t>(plan_.names.size())),
      without_memory_(kTextWithoutMemory),
      threads_(count_) {
    warn_of_few_cores(count_);
}

void ReplicaRuns::check_idle() const {
    if (work_ != Work::none) {
        throw InvalidArgument(
            "replicas: the function of a replica must call gradient_ready() only; call the other functions of "
            "Replicas and DeviceReplicas, for example run(), on_each() and step(), between the runs");
    }
}

void ReplicaRuns::run(const Function& pass) {
    check_idle();
    if (runs_ == plan_.passes_per_step) {
        throw InvalidArgument(fmt::format(
            "replicas: this step already had {} runs (passes_per_step); call step() or skip() first", runs_));
    }
    const Work work = runs_ + 1 == plan_.passes_per_step ? Work::last_run : Work::early_run;
    run_all(pass, work);
    const Status failure = agree(work);
    if (!failure.is_ok()) {
        end_step();
        drop_gradients();
        failure.throw_if_failed();
    }
    ++runs_;
}

void ReplicaRuns::on_each(const Function& work) {
    run_all(work, Work::other);
    failure_.throw_if_failed();
}

/// Calls the function for all replicas, and leaves the first failure in failure_.
void ReplicaRuns::run_all(const Function& function, Work work) {
    check_idle();
    for (std::vector<std::uint8_t>& each : ready_) {
        std::fill(each.begin(), each.end(), std::uint8_t{0});
    }
    begin_run();
    if (!failure_.is_ok()) {
        failure_ = {};
        without_memory_ = PreparedFailure(kTextWithoutMemory);
    }
    // relaxed: no replica runs now, and the mutex of the threads orders this store before the run
    stopped_.store(false, std::memory_order_relaxed);
    work_ = work;
    threads_.run([&](int index) { run_one(function, index); });
    work_ = Work::none;
}

/// Calls the function for one replica, on the replica's thread. Does not throw.
void ReplicaRuns::run_one(const Function& function, int index) {
    try {
        Replica replica(*this, index);
        function(replica);
        const std::vector<std::uint8_t>& ready = ready_[static_cast<std::size_t>(index)];
        const auto missing = std::find(ready.begin(), ready.end(), std::uint8_t{0});
        if (work_ != Work::other && missing != ready.end()) {
            throw InvalidArgument(fmt::format(
                "the gradient of parameter '{}' was not ready in this run. Call gradient_ready() for it, with a "
                "gradient of 0 if the pass did not use the parameter",
                plan_.names[static_cast<std::size_t>(missing - ready.begin())]));
        }
        if (work_ == Work::last_run) {
            help(index);
        }
    } catch (const ReplicaStopped&) {
        return;  // another replica has failed, and has called fail()
    } catch (const Error& error) {
        fail(index, error.code(), error.what());
    } catch (const std::exception& error) {
        fail(index, ErrorCode::internal, error.what());
    } catch (...) {
        fail(index, ErrorCode::internal, "an exception that is no std::exception");
    }
}

void ReplicaRuns::fail(int index, ErrorCode code, std::string_view text) noexcept {
    {
        const std::lock_guard lock(failing_);
        try {
            if (failure_.is_ok()) {
                failure_ = count_ == 1 ? Status(code, std::string(text)) : failure(code, "replica {}: {}", index, text);
            }
        } catch (...) {  // no memory is left
            failure_ = without_memory_.make(code, {"a replica: ", text});
        }
    }
    stopped_.store(true, std::memory_order_relaxed);  // the other replicas load this flag in stopped()
    stop_help();
}

void ReplicaRuns::gradient_ready(int replica, std::size_t parameter) {
    if (work_ == Work::other) {
        throw InvalidArgument("gradient_ready() was called in on_each(); call it in run() only");
    }
    std::vector<std::uint8_t>& ready = ready_[static_cast<std::size_t>(replica)];
    if (parameter >= ready.size()) {
        throw InvalidArgument(
            fmt::format("parameter number {} does not exist; there are {} parameters", parameter, ready.size()));
    }
    if (stopped()) {
        throw ReplicaStopped();
    }
    if (ready[parameter] != 0) {
        throw InvalidArgument(
            fmt::format("the gradient of parameter '{}' was ready twice in this run", plan_.names[parameter]));
    }
    ready[parameter] = 1;
    if (work_ == Work::last_run) {
        arrive_or_fail(parameter, replica);
    }
}

/// Calls arrive(). If arrive() throws, the run must fail even if the function of the replica catches the error, because
/// the gradient of this replica would be missing in the reduction.
void ReplicaRuns::arrive_or_fail(std::size_t parameter, int replica) {
    try {
        arrive(parameter, replica);
    } catch (const Error& error) {
        fail(replica, error.code(), error.what());
        throw;
    } catch (const std::exception& error) {
        fail(replica, ErrorCode::internal, error.what());
        throw;
    }
}

/// Starts the reductions that a failed run did not start, because the other processes wait for them. The values do not
/// matter: all processes drop this step. If a reduction cannot be started, the other processes would wait forever, so
/// the job ends. Returns false if the job has ended.
bool ReplicaRuns::announce_the_rest() {
    for (std::size_t i = 0; i < plan_.names.size(); ++i) {
        try {
            announce_anyway(i);
        } catch (const Aborted&) {
            return false;
        } catch (const std::exception& error) {
            std::array<char, 500> text{};  // on the stack, because the other memory may be used up
            fmt::format_to_n(text.data(), text.size() - 1,
                             "replicas: the reduction of the gradient of '{}' could not be started: {}", plan_.names[i],
                             error.what());
            static_cast<void>(rueda_abort(text.data()));
            return false;
        }
    }
    return true;
}

/// Returns the failure with which the run ends on all processes, or success.
Status ReplicaRuns::agree(Work work) {
    if (processes_ == 1) {
        return failure_;
    }
    try {
        if (!failure_.is_ok() && work == Work::last_run && !announce_the_rest()) {
            return failure_;  // it came first
        }
        return agree_on_replicas(failure_, count_, plan_.process_set);
    } catch (const Error& error) {  // thrown, for example, if another process has died
        return failure_.is_ok() ? Status(error.code(), error.what()) : failure_;
    } catch (const std::exception& error) {
        return failure_.is_ok() ? Status(ErrorCode::internal, error.what()) : failure_;
    }
}

void ReplicaRuns::check_runs() const {
    check_idle();
    if (runs_ != plan_.passes_per_step) {
        throw InvalidArgument(
            fmt::format("replicas: this step had {} runs; expected {} (passes_per_step). Call run() "
                        "before step(), synchronize() or skip()",
                        runs_, plan_.passes_per_step));
    }
}

}  // namespace rueda::training
