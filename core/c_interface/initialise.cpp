// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/c_interface/initialise.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/numbers.hpp"
#include "base/settings/environment.hpp"
#include "base/system/clock.hpp"
#include "base/system/thread_signals.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/diagnostics/launcher_line.hpp"
#include "core/runtime/runtime.hpp"
#include "core/termination/memory_guard.hpp"
#include "core/termination/termination.hpp"
#include "rueda/rueda.h"

namespace rueda::core::c_interface {
namespace {

/// Delays the exit of this process if another rank has ended the job and no ruedarun watches the ranks. Other launchers
/// report the process that ends first as the cause. So a process that is not the cause should not end first.
void let_the_cause_end_first() {
    LauncherLine* const launcher = process().launcher.load(std::memory_order_acquire);
    const Runtime* last = nullptr;
    {
        const std::lock_guard lock(process().runtimes_mutex);
        last = process().runtimes.empty() ? nullptr : process().runtimes.back().get();
    }
    if (last != nullptr && !launcher->is_open()) {
        last->let_the_cause_end_first();
    }
}

/// Leaves the job when the process exits. If the process exits with success, it first serves the other ranks until they
/// shut down, too. If the process failed, it ends the job instead.
void shut_down_at_exit(int exit_status, void* /*unused*/) {
    if (process().pid.load(std::memory_order_relaxed) != getpid()) {
        return;  // A forked child has no job. It could wait for ever for a lock that a thread of its parent held.
    }
    Runtime* const runtime = process().current.load(std::memory_order_acquire);
    if (runtime != nullptr) {
        runtime->set_end_reason("the process ended without calling rueda::shutdown()");
        if (exit_status != 0) {
            static_cast<void>(guarded([&]() -> Status {
                end_job(*runtime,
                        fmt::format("it ended with exit status {}, without calling rueda::shutdown()", exit_status));
                return {};
            }));
        }
    }
    // Without a job there is nothing to leave. rueda_shutdown() is then not called, because it would fail if a
    // completion callback has called exit().
    const bool has_failed = runtime != nullptr && rueda_shutdown() != RUEDA_OK;
    if (exit_status != 0 || has_failed) {
        let_the_cause_end_first();
    }
    if (exit_status == 0 && has_failed) {
        constexpr int kExitStatus = 1;
        static_cast<void>(guarded([&]() -> Status {
            runtime->logger().error("{}; this process ends with exit status {}", rueda_last_error(), kExitStatus);
            return {};
        }));
        // The C library now calls the remaining exit handlers, and uses the exit status of this second call of exit().
        // The standards leave this undefined, but a comment in the C library's source allows it.
        std::exit(kExitStatus);  // NOLINT(concurrency-mt-unsafe): this process is in exit() already
    }
}

/// Forked children use this object in place of the connection to the launcher. It never receives anything. It is
/// created before a fork, because a forked child must not allocate memory.
LauncherLine& deaf_line() {
    static auto* const line = new LauncherLine(base::UniqueFd(), -1, 0);
    return *line;
}

/// A forked child calls this function. The child has no arena and no background thread. The launcher's notifications
/// are not for the child.
void forget_in_child() {
    Process& state = process();
    // If a thread of the parent was in init or shutdown, that thread held `state.mutex`. The thread does not exist in
    // the child, so nobody would unlock the mutex. The child therefore gets a new mutex.
    const bool was_held = !state.mutex.try_lock();
    if (state.current.exchange(nullptr, std::memory_order_relaxed) != nullptr || was_held) {
        state.forked.store(true, std::memory_order_relaxed);
    }
    new (&state.mutex) std::mutex;
    new (&state.runtimes_mutex) std::mutex;
    // A thread of the parent may also hold the mutex of the memory guard. The child has no pending operations, so it
    // needs no guard.
    unwatch_memory();
    if (state.launcher.load(std::memory_order_relaxed) != nullptr) {
        state.launcher.store(&deaf_line(), std::memory_order_relaxed);
    }
}

void watch_forks() {
    static const int registered = [] {
        deaf_line();
        return pthread_atfork(nullptr, nullptr, forget_in_child);
    }();
    if (registered != 0) {
        throw std::bad_alloc();
    }
}

/// Returns the connection to the launcher, which the first init opens. The connection stays open after a shutdown,
/// because earlier notifications remain valid.
LauncherLine& launcher_of(Process& state, const base::EnvironmentLookup& environment) {
    if (state.launcher.load(std::memory_order_relaxed) == nullptr) {
        state.launcher.store(LauncherLine::open(environment).release(), std::memory_order_release);
    }
    return *state.launcher.load(std::memory_order_relaxed);
}

/// The control plane calls this function while the ranks connect. Fails if another rank has ended, because that rank
/// will never connect.
Status still_worth_waiting(LauncherLine& launcher, int rank, int size) {
    if (!launcher.is_about(rank, size)) {
        return {};
    }
    const auto cause = launcher.cause([] { return Standing::joining; }, base::monotonic_ns());
    return cause ? Status(ErrorCode::aborted, *cause) : Status();
}

/// Ends the process at once. The start cannot succeed, and another thread is in a call of MPI that cannot be
/// interrupted. Handlers of exit() are skipped, because they would call MPI at the same time.
[[noreturn]] void end_in_mpi_call(LauncherLine& launcher, const base::Config& config, const char* call, int rank,
                                  const Status& reason) {
    constexpr int kExitStatus = 1;
    launcher.report_abort(reason.message());
    base::Logger(config, rank < 0 ? std::nullopt : std::optional(rank))
        .error("{}; {} cannot be interrupted, so this process ends with exit status {}", reason.message(), call,
               kExitStatus);
    ::_exit(kExitStatus);
}

/// The rules for ending the process while another thread is in MPI_Init. Both arguments must outlive that call.
collectives::MpiCallRules mpi_init_rules(LauncherLine& launcher, const base::Config& config) {
    collectives::MpiCallRules rules;
    if (launcher.is_open()) {
        rules.interruption = [&launcher](int rank, int size) -> Status {
            if (!launcher.is_about(rank, size)) {
                return {};
            }
            const auto cause = launcher.cause_in_mpi_init(base::monotonic_ns());
            return cause ? Status(ErrorCode::aborted, *cause) : Status();
        };
    }
    rules.end_process = [&launcher, &config](const char* call, int rank, const Status& reason) {
        end_in_mpi_call(launcher, config, call, rank, reason);
    };
    return rules;
}

/// Returns the error of a failed start. If the start failed because a connection broke, the error says what the
/// launcher knows about the rank that ended first.
Status explain_start(LauncherLine& launcher, const base::Config& config, const Status& failure) {
    const bool is_another_job = config.rank && config.size && !launcher.is_about(*config.rank, *config.size);
    if (failure.code() != ErrorCode::aborted || is_another_job) {
        return failure;
    }
    std::optional<std::string> cause = launcher.notification_of_failure();
    if (!cause) {
        cause = launcher.cause([] { return Standing::running; }, base::monotonic_ns());
    }
    return cause ? Status(ErrorCode::aborted, *cause) : failure;
}

/// Whether the ranks of the job are all ranks of the launch, in the same order.
bool is_everybody_in_order(const std::vector<int>& launch_ranks, int launch_size) {
    std::vector<int> all(static_cast<std::size_t>(launch_size));
    std::iota(all.begin(), all.end(), 0);
    return launch_ranks == all;
}

/// Returns a warning if WORLD_SIZE differs from Rueda's number of ranks; otherwise "". Libraries for PyTorch take the
/// number of ranks from WORLD_SIZE. If this number is wrong, such a library trains with other ranks than Rueda does,
/// and reports no error.
std::string notice_of_world_size(const base::EnvironmentLookup& environment, int launch_size) {
    const std::optional<std::string> text = environment.value("WORLD_SIZE");
    if (!text || text->empty()) {
        return "";
    }
    const std::optional<std::int64_t> number = base::parse_integer<std::int64_t>(*text);
    if (number == launch_size) {
        return "";
    }
    if (launch_size == 1) {
        // The warning must not advise the user to unset WORLD_SIZE: without this variable, each process under torchrun
        // would train alone.
        return fmt::format(
            "init: WORLD_SIZE is {} in the environment, but this process is alone in Rueda's job: Rueda does not join "
            "processes that torchrun started; start the program with ruedarun or mpirun, or use the backend \"rueda\" "
            "of torch.distributed",
            base::quote(*text));
    }
    const std::string ranks = number ? fmt::format("{} {}", *number, *number == 1 ? "rank" : "ranks")
                                     : fmt::format("{} ranks", base::quote(*text));
    return fmt::format(
        "init: WORLD_SIZE is {} in the environment, but Rueda's job has {} ranks; PyTorch, accelerate and Lightning "
        "read WORLD_SIZE and would train with {} instead of {}; unset WORLD_SIZE, or start the program with ruedarun, "
        "which sets it",
        base::quote(*text), launch_size, ranks, launch_size);
}

/// Checks a second init: it succeeds without effect if it asks for the same job.
Status check_same_job(const Process& state, const collectives::Membership& membership) {
    if (membership.is_everybody()) {
        return {};
    }
    if (!membership.communicator.empty()) {
        Runtime& joined = *state.current.load(std::memory_order_relaxed);
        if (joined.aborted()) {  // After an abort Rueda does not call MPI, because the call may not return.
            return {ErrorCode::aborted,
                    "init: the job that this process is in was aborted; start it again (a process cannot join it "
                    "twice)"};
        }
        const Result<bool> same = joined.is_of_same_ranks(membership.communicator);
        if (same.status().code() == ErrorCode::unsupported) {
            return same.status();
        }
        if (same.is_ok() && same.value()) {
            return {};
        }
    }
    std::vector<int> asked = membership.ranks;
    std::sort(asked.begin(), asked.end());
    if (membership.has_list && asked == state.launch_ranks) {
        return {};
    }
    return failure(ErrorCode::invalid_argument,
                   "init: this process is in a job already, of the ranks {} of those that were launched: call "
                   "rueda::shutdown() before it joins another one",
                   collectives::describe_ranks(state.launch_ranks));
}

#if defined(NDEBUG)
constexpr bool kIsDebugBuild = false;
#else
constexpr bool kIsDebugBuild = true;
#endif

/// Completes the start of a job whose ranks are connected: creates its process sets, and makes the job visible to all
/// threads of this process. On failure this rank shuts down, so that no other rank waits for it.
Status begin_in(Process& state, Runtime& started, const SetsToMake& sets) {
    const auto leave = [&] {
        static_cast<void>(started.shutdown());
        state.next_set_id = started.process_sets().next_id();
    };
    try {
        if (Status made = sets.make(started); !made.is_ok()) {
            leave();
            return made;
        }
        const auto members = static_cast<std::uint32_t>(started.group().local_size);
        const auto own = static_cast<std::uint32_t>(started.group().local_rank);
        watch_termination(started.control(), members, own, started.logger());
        started.offer_stacks();
        started.serve_metrics();
        if (started.verifies() || kIsDebugBuild) {
            watch_memory(started.control(), members, own, started.logger());
        }
    } catch (...) {
        leave();
        throw;
    }
    state.current.store(&started, std::memory_order_release);
    return {};
}

}  // namespace

template <class Number>
Status SetsToMake::for_each(Number&& number) const {
    std::vector<std::int32_t> found;
    found.reserve(first.ranks.size());
    for (const std::vector<int>& ranks : first.ranks) {
        const Result<std::int32_t> id = number(ranks);
        RUEDA_RETURN_IF_FAILED(id.status());
        found.push_back(id.value());
    }
    if (ids != nullptr) {
        std::copy(found.begin(), found.end(), ids);
    }
    return {};
}

Status SetsToMake::make(Runtime& runtime) const {
    return for_each([&](const std::vector<int>& ranks) { return runtime.process_sets().add(ranks); });
}

Status SetsToMake::find(Runtime& runtime) const {
    return for_each([&](const std::vector<int>& ranks) { return runtime.process_sets().id_of(ranks); });
}

namespace {

/// Joins the other ranks, and begins the job. This process must be in no job.
Status join_ranks(Process& state, LauncherLine& launcher, const base::EnvironmentLookup& environment,
                  const collectives::Membership& membership, SetsToMake sets, bool is_first_time) {
    // MPI writes to connections without MSG_NOSIGNAL, in this thread and in threads that MPI_Init starts. The failure
    // of another rank must not end this process by SIGPIPE.
    const base::SigpipeBlocked without_sigpipe;
    Result<base::Config> config = base::read_config(environment);
    RUEDA_RETURN_IF_FAILED(config.status());
    launcher.set_members(membership.ranks);
    // `question` acts only while `starting` is true. At the end of the start, `starting` is set to false: the engine
    // then watches the other ranks, but the control plane may still call `question`. If the job consists of the
    // processes of a communicator, `starting` is also false until the members of the job are known. A rank that ends
    // before that time may not be a member. memory_order_relaxed is enough, because every thread that reads the flag
    // holds the process mutex.
    const auto starting = std::make_shared<std::atomic<bool>>(membership.communicator.empty());
    const auto question = [&launcher, starting](int rank, int size) {
        return starting->load(std::memory_order_relaxed) ? still_worth_waiting(launcher, rank, size) : Status();
    };
    Result<collectives::SelectedControlPlane> selected = collectives::select_control_plane(
        config.value(), environment, question, membership, mpi_init_rules(launcher, config.value()));
    if (!selected.is_ok()) {
        return explain_start(launcher, config.value(), selected.status());
    }
    const std::vector<int>& launch_ranks = selected.value().launch_ranks;
    const int launch_size = selected.value().launch_size;
    const int launch_rank = launch_ranks[static_cast<std::size_t>(selected.value().control_plane->rank())];
    const bool is_of_all = is_everybody_in_order(launch_ranks, launch_size);
    launcher.set_members(is_of_all ? std::vector<int>() : launch_ranks);
    starting->store(true, std::memory_order_relaxed);
    sets.first.next_id = state.next_set_id;
    std::vector<int> ranks_of_job = launch_ranks;
    {
        // Memory for the list's new element is allocated before the job starts, so that storing the Runtime cannot fail
        // later. The lock is needed because other threads may be searching the list for the owner of their memory.
        const std::lock_guard lock(state.runtimes_mutex);
        state.runtimes.reserve(state.runtimes.size() + 1);
    }
    const bool first_rank = selected.value().control_plane->rank() == 0;
    Result<std::unique_ptr<Runtime>> runtime = Runtime::create(
        config.value(), std::move(selected.value().control_plane),
        launcher.is_about(launch_rank, launch_size) ? &launcher : nullptr, sets.first, &state.addresses);
    if (!runtime.is_ok()) {
        return explain_start(launcher, config.value(), runtime.status());
    }
    starting->store(false, std::memory_order_relaxed);
    if (first_rank) {  // all ranks have the same settings, so one rank prints the warnings
        for (const std::string& note : config.value().notes) {
            runtime.value()->logger().warning("{}", note);
        }
        if (!selected.value().notice.empty()) {
            runtime.value()->logger().warning("{}", selected.value().notice);
        }
        if (!selected.value().note.empty()) {
            runtime.value()->logger().info("{}", selected.value().note);
        }
        if (const std::string notice = notice_of_world_size(environment, launch_size); !notice.empty()) {
            runtime.value()->logger().warning("{}", notice);
        }
        if (is_first_time && !launcher.notice().empty()) {
            runtime.value()->logger().warning("{}", launcher.notice());
        }
    }
    if (state.runtimes.empty()) {
        ::on_exit(shut_down_at_exit, nullptr);
    } else {
        state.blocked_before_ns.fetch_add(state.runtimes.back()->blocked_ns(), std::memory_order_relaxed);
    }
    state.pid.store(getpid(), std::memory_order_relaxed);
    {
        const std::lock_guard lock(state.runtimes_mutex);
        state.runtimes.push_back(std::move(runtime).value());
    }
    state.launch_ranks = std::move(ranks_of_job);
    return begin_in(state, *state.runtimes.back(), sets);
}

/// Stores the variables of a place (this process's rank in a generation of an elastic job) in the environment. Init and
/// libraries for PyTorch look for these variables there. With the GNU C library, other threads may read the environment
/// at the same time, for two reasons. ruedarun starts each worker with all these variables, so setenv() only replaces
/// pointers to values. The C library never frees the old values.
Status take_place(const base::LauncherPlace& place) {
    for (const base::PlaceVariable& variable : place.variables) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): see above
        if (::setenv(variable.name.c_str(), variable.value.c_str(), 1) != 0) {
            return system_failure(ErrorCode::resource_exhausted, "setenv");
        }
    }
    return {};
}

/// Joins the next generation of an elastic job. If a rank of this generation ends before all ranks are connected, waits
/// for the generation after it.
Status join_generations(Process& state, LauncherLine& launcher, const collectives::Membership& membership,
                        const SetsToMake& sets, bool is_first_time) {
    if (!membership.is_everybody()) {
        return failure(ErrorCode::unsupported,
                       "init: in an elastic job the launcher chooses the ranks; call init without a list of ranks and "
                       "without a communicator");
    }
    for (;;) {
        const Result<base::LauncherPlace> place = launcher.wait_for_place();
        RUEDA_RETURN_IF_FAILED(place.status());
        RUEDA_RETURN_IF_FAILED(take_place(place.value()));
        if (!state.runtimes.empty()) {
            // A place is a rank in the next generation. The launcher gives this process a place only when it knows that
            // all ranks of the last generation have left that generation or are dead. So no process uses the memory of
            // the last generation any more.
            state.runtimes.back()->release_after_abort();
        }
        // process_environment() makes a copy. It is called here and not earlier, because take_place() has changed the
        // environment.
        Status joined = join_ranks(state, launcher, base::process_environment(), membership, sets, is_first_time);
        if (joined.code() != ErrorCode::aborted || !launcher.is_elastic()) {
            return joined;
        }
    }
}

}  // namespace

Status initialise(Process& state, const collectives::Membership& membership, SetsToMake sets) {
    if (Runtime* const joined = state.current.load(std::memory_order_relaxed)) {
        if (joined->is_leaving()) {
            return {ErrorCode::invalid_argument,
                    "init: this process has begun to leave its job, and its shutdown, which had a time limit or "
                    "was interrupted, is not complete; call shutdown again before init"};
        }
        RUEDA_RETURN_IF_FAILED(check_same_job(state, membership));
        return sets.find(*joined);
    }
    state.knows_of_abort.store(false, std::memory_order_relaxed);  // An earlier job may have set `knows_of_abort`.
    if (state.forked.load(std::memory_order_relaxed)) {
        return not_initialized();
    }
    watch_forks();
    const base::EnvironmentLookup environment = base::process_environment();
    const bool is_first_time = state.launcher.load(std::memory_order_relaxed) == nullptr;
    LauncherLine& launcher = launcher_of(state, environment);
    if (launcher.is_elastic()) {
        return join_generations(state, launcher, membership, sets, is_first_time);
    }
    if (!state.runtimes.empty() && state.runtimes.back()->aborted()) {
        return {ErrorCode::aborted, "the job was aborted; start it again (a process cannot join it twice)"};
    }
    return join_ranks(state, launcher, environment, membership, std::move(sets), is_first_time);
}

}  // namespace rueda::core::c_interface
