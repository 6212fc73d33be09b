// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The C interface over one Runtime per process: the only mutable state of the library that belongs to the process.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/environment.hpp"
#include "collectives/host/address_reserve.hpp"
#include "collectives/select_control_plane.hpp"
#include "core/diagnostics/launcher_line.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/operations/group_memory.hpp"
#include "core/operations/groups.hpp"
#include "core/operations/requests.hpp"
#include "core/operations/sparse.hpp"
#include "core/runtime/completion_call.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/termination.hpp"
#include "rueda/rueda.h"

using rueda::ErrorCode;
using rueda::Result;
using rueda::Status;
using rueda::collectives::Membership;
using rueda::core::Completion;
using rueda::core::CompletionCall;
using rueda::core::LauncherLine;
using rueda::core::ProcessSet;
using rueda::core::Request;
using rueda::core::Runtime;
using rueda::core::SparseAllreduce;
using rueda::core::Standing;

namespace {

/// Runtimes are never destroyed: handles, slots and resident memory may outlive a shutdown.
struct Process {
    std::mutex mutex;  // init and shutdown, as long as they take; taken before anything else
    /// Held for a look or an addition only: memory is given back while a shutdown waits for the other ranks.
    std::mutex runtimes_mutex;
    std::vector<std::unique_ptr<Runtime>> runtimes;  // written under both
    std::vector<int> launch_ranks;                   // of the current job, by rank; under `mutex`
    std::int32_t next_set_id = 1;                    // no job that has ended here has had it; under `mutex`
    std::atomic<Runtime*> current{nullptr};          // release by init; acquire by everybody
    /// Of the first init on. Release by it; acquire by everybody. Never destroyed either.
    std::atomic<rueda::core::LauncherLine*> launcher{nullptr};
    std::atomic<bool> forked{false};  // this process is a child of one that had a Runtime
    rueda::collectives::AddressReserve addresses;
    /// Of the process that has begun a job last. Relaxed: it means something to that process and to its children.
    std::atomic<pid_t> pid{0};
};

Process& process() {
    static auto* instance = new Process;  // on purpose never destroyed: used until the last atexit handler
    return *instance;
}

/// Which of the tensors that an operation cannot do without were given: its input, and its output where it makes none.
struct Needed {
    Needed() = default;
    explicit Needed(const rueda_tensor* in) : has_input(in != nullptr) {}
    Needed(const rueda_tensor* in, const rueda_tensor* out) : has_input(in != nullptr), has_output(out != nullptr) {}

    [[nodiscard]] Status check() const {
        return has_input && has_output ? Status()
                                       : rueda::failure(ErrorCode::invalid_argument,
                                                        "the {} tensor is NULL; expected a pointer to a rueda_tensor",
                                                        has_input ? "output" : "input");
    }

    bool has_input = true;
    bool has_output = true;
};

/// Where a call writes what it finds, or what it starts.
Status check_place(const void* place, const char* what) {
    return place != nullptr ? Status()
                            : rueda::failure(ErrorCode::invalid_argument,
                                             "the pointer to where the {} goes is NULL; expected memory for it", what);
}

// Where the next call without options stands; the function that such a call is takes it.
thread_local const char* next_file = nullptr;
thread_local std::int32_t next_line = 0;

thread_local std::string last_error;  // NOLINT(runtime/string): per thread, and destroyed with it

/// Whether this thread is in a completion callback. Every blocking call looks at it, so it has to be found without a
/// function call, as in a library that is loaded at the start; the byte has room where it was loaded later, too.
constinit thread_local bool in_callback __attribute__((tls_model("initial-exec"))) = false;

int report(const Status& status) {
    if (!status.is_ok()) [[unlikely]] {
        last_error = status.message();
        auto* const launcher = process().launcher.load(std::memory_order_acquire);
        if (status.code() == ErrorCode::aborted && launcher != nullptr &&
            !process().forked.load(std::memory_order_relaxed)) {
            launcher->report_abort(status.message());
        }
    }
    return static_cast<int>(status.code());
}

/// Runs `body`, which returns a Status; nothing else leaves the C interface.
template <class Body>
int guarded(Body&& body) noexcept {
    try {
        return report(body());
    } catch (const std::bad_alloc&) {
        return report({ErrorCode::resource_exhausted, "out of memory"});
    } catch (const rueda::Error& error) {
        return report({error.code(), error.what()});
    } catch (const std::exception& error) {
        return report({ErrorCode::internal, error.what()});
    }
}

/// A callback that waits holds up all others, and maybe the one that it waits for: it is refused, wherever it runs.
Status refused_in_callback() {
    return {ErrorCode::invalid_argument,
            "a completion callback called something that waits; it may start operations and look at results: wait "
            "elsewhere, or give what it starts a callback of its own"};
}

/// guarded() for what may wait for other ranks.
template <class Body>
int guarded_wait(Body&& body) noexcept {
    return guarded([&]() -> Status {
        if (in_callback) [[unlikely]] {
            return refused_in_callback();
        }
        return body();
    });
}

/// With where the call stands, unless the text has it: that of a disagreement has all ranks'.
Status with_site(const Status& status, const char* file, std::int32_t line) {
    const std::string site = rueda::core::describe_site(file, line);
    return site.empty() || status.message().find(rueda::core::kCalledFrom) != std::string::npos
               ? status
               : Status(status.code(), fmt::format("{}{} {}", status.message(), rueda::core::kCalledFrom, site));
}

bool wants_call_sites() {
    const Runtime* runtime = process().current.load(std::memory_order_acquire);
    return runtime != nullptr && runtime->wants_call_sites();
}

/// As guarded(), of an operation's call.
template <class Body>
int called(const rueda_options* given, Body&& body) noexcept {
    return guarded([&]() -> Status {
        Status status = body();
        if (!status.is_ok() && wants_call_sites()) [[unlikely]] {
            rueda_options completed;
            const rueda_options* options = nullptr;
            RUEDA_RETURN_IF_FAILED(rueda::core::effective_options(given, completed, options));
            return with_site(status, options->source_file, options->source_line);
        }
        return status;
    });
}

/// The same of one that may wait for other ranks.
template <class Body>
int called_wait(const rueda_options* given, Body&& body) noexcept {
    return called(given, [&]() -> Status {
        if (in_callback) [[unlikely]] {
            return refused_in_callback();
        }
        return body();
    });
}

/// Of a call without options: where it stands, which is said once.
rueda_options options_of_next() {
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.source_file = std::exchange(next_file, nullptr);
    options.source_line = next_line;
    return options;
}

Status not_initialized() {
    if (process().forked.load(std::memory_order_relaxed)) {
        return {ErrorCode::not_initialized,
                "this process was forked from one that uses Rueda, and cannot use it itself: call Rueda in the parent "
                "only"};
    }
    return {ErrorCode::not_initialized, "Rueda is not initialised: call rueda::init() first"};
}

Result<Runtime*> current_runtime() {
    Runtime* runtime = process().current.load(std::memory_order_acquire);
    if (runtime == nullptr) [[unlikely]] {
        return not_initialized();
    }
    return runtime;
}

/// Null: memory of no job of this process.
Runtime* owner_of(const void* memory) {
    const std::lock_guard lock(process().runtimes_mutex);
    const auto& runtimes = process().runtimes;
    const auto owner =
        std::find_if(runtimes.rbegin(), runtimes.rend(), [memory](const auto& one) { return one->owns(memory); });
    return owner != runtimes.rend() ? owner->get() : nullptr;
}

/// In this process, that is: what the launcher hears of its end is what the job failed of.
void end_job(Runtime& runtime, const std::string& reason) {
    if (!runtime.aborted()) {
        process().launcher.load(std::memory_order_acquire)->become_the_cause();
        runtime.abort(reason);
    }
}

/// ruedarun knows of each failure what it comes of; others take the first end for the cause.
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

/// A process that ends in good order serves the others until they do; one that failed holds up nobody.
void shut_down_at_exit(int exit_status, void* /*unused*/) {
    if (process().pid.load(std::memory_order_relaxed) != getpid()) {
        return;  // a forked child has no job, and may never get a lock that a thread of its parent held
    }
    if (Runtime* runtime = process().current.load(std::memory_order_acquire)) {
        runtime->set_last_words("the process ended without calling rueda::shutdown()");
        if (exit_status != 0) {
            static_cast<void>(guarded([&]() -> Status {
                end_job(*runtime,
                        fmt::format("it ended with exit status {}, without calling rueda::shutdown()", exit_status));
                return {};
            }));
        }
    }
    rueda_shutdown();
    if (exit_status != 0) {
        let_the_cause_end_first();
    }
}

/// A forked child has neither the arena nor the background thread.
void forget_in_child() {
    if (process().current.exchange(nullptr, std::memory_order_relaxed) != nullptr) {
        process().forked.store(true, std::memory_order_relaxed);
    }
}

/// Opened by the first init: what was heard before a shutdown holds after it.
LauncherLine& launcher_of(Process& state, const rueda::base::EnvironmentLookup& environment) {
    if (state.launcher.load(std::memory_order_relaxed) == nullptr) {
        state.launcher.store(LauncherLine::open(environment).release(), std::memory_order_release);
    }
    return *state.launcher.load(std::memory_order_relaxed);
}

/// What the control plane asks while ranks meet: a rank that has ended will not come.
Status still_worth_waiting(LauncherLine& launcher, int rank, int size) {
    if (!launcher.is_about(rank, size)) {
        return {};
    }
    const auto cause = launcher.cause([] { return Standing::joining; }, rueda::base::monotonic_ns());
    return cause ? Status(ErrorCode::aborted, *cause) : Status();
}

/// A start that failed since a connection had ended: the launcher knows of the first rank that has.
Status explain_start(LauncherLine& launcher, const rueda::base::Config& config, const Status& failure) {
    const bool is_another_job = config.rank && config.size && !launcher.is_about(*config.rank, *config.size);
    if (failure.code() != ErrorCode::aborted || is_another_job) {
        return failure;
    }
    std::optional<std::string> cause = launcher.word_of_failure();
    if (!cause) {
        cause = launcher.cause([] { return Standing::running; }, rueda::base::monotonic_ns());
    }
    return cause ? Status(ErrorCode::aborted, *cause) : failure;
}

/// The ranks of the job are those of the launch.
bool is_everybody_in_order(const std::vector<int>& launch_ranks, int launch_size) {
    std::vector<int> all(static_cast<std::size_t>(launch_size));
    std::iota(all.begin(), all.end(), 0);
    return launch_ranks == all;
}

/// What is given beside who is in the job.
struct SetsToMake {
    rueda::core::FirstSets first;
    std::int32_t* ids = nullptr;  // null: nobody asks for them

    /// Of the job that has begun: the same on all ranks, as the lists are.
    Status make(Runtime& runtime) const {
        return for_each([&](const std::vector<int>& ranks) { return runtime.process_sets().add(ranks); });
    }
    /// Of the job that this process is in already.
    Status find(Runtime& runtime) const {
        return for_each([&](const std::vector<int>& ranks) { return runtime.process_sets().id_of(ranks); });
    }

private:
    template <class Number>
    Status for_each(Number&& number) const {
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
};

/// A second init of the same job does nothing.
Status check_same_job(const Process& state, const Membership& membership) {
    if (membership.is_everybody()) {
        return {};
    }
    if (!membership.communicator.empty()) {
        Runtime& joined = *state.current.load(std::memory_order_relaxed);
        if (joined.aborted()) {  // and from then on nothing is asked of MPI, which may not come back
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
    return rueda::failure(ErrorCode::invalid_argument,
                          "init: this process is in a job already, of the ranks {} of those that were launched: call "
                          "rueda::shutdown() before it joins another one",
                          rueda::collectives::describe_ranks(state.launch_ranks));
}

/// Of a job that is up: makes its process sets, and lets this process' threads see it. Where that fails, here or on all
/// ranks, this rank shuts down, so that nobody waits for it.
Status begin_in(Process& state, Runtime& started, const SetsToMake& sets) {
    const auto leave = [&] {
        started.shutdown();
        state.next_set_id = started.process_sets().next_id();
    };
    try {
        if (Status made = sets.make(started); !made.is_ok()) {
            leave();
            return made;
        }
        rueda::core::watch_termination(started.control(), static_cast<std::uint32_t>(started.group().local_size),
                                       static_cast<std::uint32_t>(started.group().local_rank), started.logger());
    } catch (...) {
        leave();
        throw;
    }
    state.current.store(&started, std::memory_order_release);
    return {};
}

Status initialise(Process& state, const Membership& membership, SetsToMake sets = {}) {
    if (Runtime* const joined = state.current.load(std::memory_order_relaxed)) {
        RUEDA_RETURN_IF_FAILED(check_same_job(state, membership));
        return sets.find(*joined);
    }
    if (state.forked.load(std::memory_order_relaxed)) {
        return not_initialized();
    }
    if (!state.runtimes.empty() && state.runtimes.back()->aborted()) {
        return {ErrorCode::aborted, "the job was aborted; start it again (a process cannot join it twice)"};
    }
    const rueda::base::EnvironmentLookup environment = rueda::base::process_environment();
    const bool first_time = state.launcher.load(std::memory_order_relaxed) == nullptr;
    Result<rueda::base::Config> config = rueda::base::read_config(environment);
    RUEDA_RETURN_IF_FAILED(config.status());
    LauncherLine& launcher = launcher_of(state, environment);
    launcher.set_members(membership.ranks);
    // The plane keeps the question, but from the start on the engine looks after the others; and before the members of
    // a communicator are known, whoever ends may be none of them. Relaxed: asked by this thread, and by who calls
    // shutdown later, after another lock of the process' mutex.
    const auto starting = std::make_shared<std::atomic<bool>>(membership.communicator.empty());
    const auto question = [&launcher, starting](int rank, int size) {
        return starting->load(std::memory_order_relaxed) ? still_worth_waiting(launcher, rank, size) : Status();
    };
    Result<rueda::collectives::SelectedControlPlane> selected =
        rueda::collectives::select_control_plane(config.value(), environment, question, membership);
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
        // The job, once it is up, is kept without memory. Others may be looking for the owner of theirs.
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
    if (first_rank) {  // the settings are the same everywhere: say it once
        for (const std::string& note : config.value().notes) {
            runtime.value()->logger().warning("{}", note);
        }
        if (!selected.value().notice.empty()) {
            runtime.value()->logger().warning("{}", selected.value().notice);
        }
        if (first_time && !launcher.notice().empty()) {
            runtime.value()->logger().warning("{}", launcher.notice());
        }
    }
    if (state.runtimes.empty()) {
        ::on_exit(shut_down_at_exit, nullptr);
        pthread_atfork(nullptr, nullptr, forget_in_child);
    }
    state.pid.store(getpid(), std::memory_order_relaxed);
    {
        const std::lock_guard lock(state.runtimes_mutex);
        state.runtimes.push_back(std::move(runtime).value());
    }
    state.launch_ranks = std::move(ranks_of_job);
    return begin_in(state, *state.runtimes.back(), sets);
}

Status read_members(const rueda_init_options& options, Membership& members) {
    if (options.ranks != nullptr && options.communicator != nullptr) {
        return {ErrorCode::invalid_argument,
                "init: a list of ranks and a communicator are given; expected one of them"};
    }
    if ((options.ranks == nullptr && options.rank_count != 0) ||
        (options.communicator == nullptr) != (options.communicator_size == 0)) {
        return {ErrorCode::invalid_argument,
                "init: of a list of ranks, or of a communicator, its address or its size is missing; expected both, or "
                "NULL and 0"};
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

}  // namespace

struct rueda_slot {
    std::string name;
    std::int32_t process_set = 0;
    std::mutex mutex;
    std::atomic<Runtime*> runtime{nullptr};  // release after the rest; acquire by who uses the slot
    std::shared_ptr<ProcessSet> set;
    rueda::core::TensorEntry* entry = nullptr;
};

/// Two references: the caller's, and the engine's until the operation is done, and its callback called.
struct rueda_handle final : Completion, CompletionCall {
    rueda_handle(Runtime* r, std::uint32_t members) : Completion(members, &end), runtime(r) {}

    static void end(Completion& completion) {
        auto& handle = static_cast<rueda_handle&>(completion);
        if (handle.take_at_end()) [[unlikely]] {
            handle.runtime->callbacks().hand_over(handle);
        } else {
            handle.drop();
        }
    }
    void call() noexcept override {
        call_back();
        drop();
    }
    /// What a callback throws is its own affair; it must not end the thread of all others.
    void call_back() noexcept {
        const bool nested = std::exchange(in_callback, true);
        try {
            Status placed;
            const Status& told = with_own_site(placed);
            callback(static_cast<int>(told.code()), told.message().c_str(), data);
        } catch (const std::exception& error) {
            runtime->logger().error("a completion callback has thrown, and was left: {}", error.what());
        } catch (...) {
            runtime->logger().error("a completion callback has thrown, and was left");
        }
        in_callback = nested;
    }
    void keep() { references.fetch_add(1, std::memory_order_relaxed); }  // by who has a reference
    void drop() {
        if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete this;
        }
    }

    /// Only where the job wants to know.
    void note_site(const char* file, std::int32_t line) {
        if (runtime->wants_call_sites()) [[unlikely]] {
            source_file = file;
            source_line = line;
        }
    }
    /// Of one that is done: also whether what was done together is what each rank asked for.
    [[nodiscard]] const Status& outcome() noexcept {
        return sparse != nullptr && status().is_ok() ? sparse->agreed(*this) : status();
    }
    /// Of a failure, as rueda_wait() says it; a callback comes also where there is no memory to say it.
    [[nodiscard]] const Status& with_own_site(Status& placed) noexcept try {
        const Status& ended = outcome();
        if (ended.is_ok() || source_file == nullptr) {
            return ended;
        }
        placed = with_site(ended, source_file, source_line);
        return placed;
    } catch (const std::bad_alloc&) {
        return outcome();
    }

    Runtime* runtime;
    bool is_receive = false;
    std::atomic<int> references{2};
    std::unique_ptr<SparseAllreduce> sparse;  // what it is made of, and made to; null: another operation
    rueda_callback callback = nullptr;        // by who has claimed the call, before it is armed
    void* data = nullptr;
    const char* source_file = nullptr;
    std::int32_t source_line = 0;
};

namespace {

rueda::core::TensorEntry& entry_of(rueda_slot& slot, Runtime& runtime, const std::shared_ptr<ProcessSet>& set) {
    if (slot.runtime.load(std::memory_order_acquire) != &runtime) [[unlikely]] {
        const std::lock_guard lock(slot.mutex);
        if (slot.runtime.load(std::memory_order_relaxed) != &runtime) {
            slot.set = set;
            slot.entry = &set->pin(slot.name);
            slot.runtime.store(&runtime, std::memory_order_release);
        }
    }
    return *slot.entry;
}

/// What an operation's call begins with: the Runtime, the process set and the options that hold.
struct Call {
    Runtime* runtime = nullptr;
    ProcessSet* set = nullptr;
    std::shared_ptr<ProcessSet> kept;  // a set that is not the world may be removed meanwhile
    rueda_options completed;
    const rueda_options* options = nullptr;

    Status begin(const char* name, const rueda_options* given) {
        runtime = process().current.load(std::memory_order_acquire);
        if (runtime == nullptr) [[unlikely]] {
            return not_initialized();
        }
        RUEDA_RETURN_IF_FAILED(rueda::core::effective_options(given, completed, options));
        set = &runtime->world();
        if (options->process_set != 0) [[unlikely]] {
            Result<std::shared_ptr<ProcessSet>> found = runtime->process_sets().find(options->process_set);
            RUEDA_RETURN_IF_FAILED(found.status());
            kept = std::move(found).value();
            set = kept.get();
        }
        return options->slot != nullptr ? check_slot() : rueda::core::check_name(name);
    }
    /// Lets `make` fill in the request from the process set and the options; after a begin() that went well.
    template <class Make>
    Status fill(const char* name, Request& request, Make&& make) const {
        RUEDA_ASSERT(set != nullptr && options != nullptr);
        if (Status made = make(*set, *options, request); !made.is_ok()) [[unlikely]] {
            return rueda::core::naming_tensor(tensor_name(name), made);
        }
        note_site(request);
        return {};
    }
    void note_site(Request& request) const {
        if (runtime->wants_call_sites()) [[unlikely]] {
            request.source_file = options->source_file;
            request.source_line = options->source_line;
        }
    }
    [[nodiscard]] std::unique_ptr<rueda_handle> make_handle(std::uint32_t members = 1) const {
        RUEDA_ASSERT(options != nullptr);
        auto handle = std::make_unique<rueda_handle>(runtime, members);
        handle->note_site(options->source_file, options->source_line);
        return handle;
    }
    [[nodiscard]] bool is_unnamed(const char* name) const {
        return options->slot == nullptr && (name == nullptr || *name == '\0');
    }
    /// Of the slot that the options name; null without one.
    [[nodiscard]] rueda::core::TensorEntry* entry() const {
        return options->slot != nullptr
                   ? &entry_of(*options->slot, *runtime, kept != nullptr ? kept : runtime->shared_world())
                   : nullptr;
    }
    Status run(const char* name, const Request& request, Completion& completion) const {
        rueda::core::TensorEntry* const known = entry();
        return known != nullptr ? runtime->run(*set, *known, request, completion)
                                : runtime->run(*set, name == nullptr ? "" : name, request, completion);
    }

private:
    [[nodiscard]] std::string_view tensor_name(const char* name) const {
        return options->slot != nullptr ? std::string_view(options->slot->name) : name != nullptr ? name : "";
    }
    [[nodiscard]] Status check_slot() const {
        return options->slot->process_set == options->process_set
                   ? Status()
                   : rueda::failure(ErrorCode::invalid_argument,
                                    "the slot of '{}' belongs to process set {}, and the operation is one of process "
                                    "set {}: make a slot for each",
                                    options->slot->name, options->slot->process_set, options->process_set);
    }
};

/// Starts what `make` fills in from the process set and the options.
template <class Make>
Status start(const char* name, const Needed& needed, const rueda_options* given, rueda_handle** handle, Make&& make) {
    Call call;
    Request request;
    RUEDA_RETURN_IF_FAILED(needed.check());
    RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
    RUEDA_RETURN_IF_FAILED(call.begin(name, given));
    RUEDA_RETURN_IF_FAILED(call.fill(name, request, make));
    auto started = call.make_handle();
    if (rueda::core::TensorEntry* const known = call.entry()) {
        RUEDA_RETURN_IF_FAILED(call.runtime->start(*call.set, *known, request, *started));
    } else {
        RUEDA_RETURN_IF_FAILED(call.runtime->start(*call.set, name == nullptr ? "" : name, request, *started));
    }
    *handle = started.release();
    return {};
}

/// The same, and waits for it.
template <class Make>
Status run(const char* name, const Needed& needed, const rueda_options* given, Make&& make) {
    Call call;
    Request request;
    RUEDA_RETURN_IF_FAILED(needed.check());
    RUEDA_RETURN_IF_FAILED(call.begin(name, given));
    RUEDA_RETURN_IF_FAILED(call.fill(name, request, make));
    Completion completion;
    return call.run(name, request, completion);
}

/// Waits for it as run() does, and gives a handle for its result where all went well.
template <class Make>
Status run_for_result(const char* name, const Needed& needed, const rueda_options* given, rueda_handle** handle,
                      Make&& make) {
    Call call;
    Request request;
    RUEDA_RETURN_IF_FAILED(needed.check());
    RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
    RUEDA_RETURN_IF_FAILED(call.begin(name, given));
    RUEDA_RETURN_IF_FAILED(call.fill(name, request, make));
    auto made = call.make_handle();
    Status status = call.run(name, request, *made);
    if (!made->done()) {
        return status;  // it was refused, and the engine does not know the handle
    }
    rueda_handle* const ended = made.release();  // the engine may still be about to let go of it
    if (!status.is_ok()) {
        ended->drop();
        return status;
    }
    *handle = ended;
    return {};
}

/// The same; `handle` may be null, where nobody asks for the result.
template <class Make>
Status run_for_some_result(const char* name, const Needed& needed, const rueda_options* given, rueda_handle** handle,
                           Make&& make) {
    rueda_handle* made = nullptr;
    RUEDA_RETURN_IF_FAILED(run_for_result(name, needed, given, &made, make));
    RUEDA_ASSERT(made != nullptr);
    if (handle != nullptr) {
        *handle = made;
    } else {
        made->drop();
    }
    return {};
}

/// What a send or a receive is from its arguments.
Status make_message(const Call& call, bool sends, const rueda_tensor* tensor, int peer, std::int32_t tag,
                    rueda::core::MessageRequest& request) {
    RUEDA_ASSERT(call.set != nullptr && call.options != nullptr);
    const auto& set = call.kept != nullptr ? call.kept : call.runtime->shared_world();
    const Result<rueda::core::MessageShape> shape = rueda::core::check_message(
        tensor, sends ? "input" : "output", peer, !sends, set->identity().ranks, *call.options);
    RUEDA_RETURN_IF_FAILED(shape.status());
    request.sends = sends;
    request.peer = peer;
    request.tag = tag;
    request.set = {set, &set->identity()};
    request.dtype = shape.value().dtype;
    request.bytes = shape.value().bytes;
    request.memory = static_cast<std::byte*>(tensor->data);
    return {};
}

int start_message(bool sends, const rueda_tensor* tensor, int peer, std::int32_t tag, const rueda_options* options,
                  rueda_handle** handle) {
    return called(options, [&]() -> Status {
        Call call;
        rueda::core::MessageRequest request;
        RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
        RUEDA_RETURN_IF_FAILED(call.begin("", options));
        RUEDA_RETURN_IF_FAILED(make_message(call, sends, tensor, peer, tag, request));
        auto started = call.make_handle();
        started->is_receive = !sends;
        RUEDA_RETURN_IF_FAILED(call.runtime->start(std::move(request), *started));
        *handle = started.release();
        return {};
    });
}

int run_message(bool sends, const rueda_tensor* tensor, int peer, std::int32_t tag, const rueda_options* options,
                std::int32_t* sender) {
    return called_wait(options, [&]() -> Status {
        Call call;
        rueda::core::MessageRequest request;
        RUEDA_RETURN_IF_FAILED(call.begin("", options));
        RUEDA_RETURN_IF_FAILED(make_message(call, sends, tensor, peer, tag, request));
        Completion completion;
        RUEDA_RETURN_IF_FAILED(call.runtime->run(std::move(request), completion));
        if (sender != nullptr) {
            *sender = completion.sender;
        }
        return {};
    });
}

Status no_place_for_result(const char* function) {
    return rueda::failure(ErrorCode::invalid_argument,
                          "the output and the handle of {} are both NULL, and there is a result on this rank: give one "
                          "of them",
                          function);
}

Status check_new_set(const std::int32_t* ranks, std::size_t count, const std::int32_t* process_set) {
    if (ranks == nullptr && count != 0) {
        return rueda::failure(ErrorCode::invalid_argument,
                              "the list of {} ranks of a process set is NULL; expected their numbers", count);
    }
    return check_place(process_set, "process set");
}

/// Asks `read` about a set of the job, and which rank of it this is.
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

/// As many as there is room for; returns how many there are.
std::size_t copy_some(const std::vector<std::int32_t>& numbers, std::int32_t* to, std::size_t capacity) {
    std::copy_n(numbers.begin(), std::min(numbers.size(), capacity), to);
    return numbers.size();
}

Status check_output_given(const rueda_tensor* out) {
    return out != nullptr ? Status()
                          : Status(ErrorCode::invalid_argument,
                                   "the output is NULL; give its memory, or call the form without _into, whose handle "
                                   "holds the result");
}

Status no_handle() {
    return {ErrorCode::invalid_argument,
            "the handle is NULL; expected one that an _async form gave: was that operation refused?"};
}

/// Now, if it has ended.
Status call_at_end(rueda_handle& handle, rueda_callback callback, void* data) {
    if (callback == nullptr) {
        return {ErrorCode::invalid_argument, "the callback is NULL; expected a function"};
    }
    if (!handle.claim()) {
        return {ErrorCode::invalid_argument,
                "this handle has a completion callback already; expected one for each handle: call several from it"};
    }
    const bool ended = handle.done();
    Status started = ended ? Status() : handle.runtime->callbacks().start();
    // A job that was left meanwhile has ended all its operations, and has no thread any more.
    if (!started.is_ok() && !handle.done()) {
        handle.give_up_claim();
        return started;
    }
    handle.callback = callback;
    handle.data = data;
    const bool is_now = ended || !started.is_ok() || !handle.arm(handle);
    if (is_now) {
        handle.keep();  // the callback may release the handle, and goes on using what it was told
        handle.call();
    }
    return {};
}

/// For who asks for a result.
Status check_completed(rueda_handle* handle) {
    if (handle == nullptr || !handle->done()) {
        return {ErrorCode::invalid_argument,
                "the operation has not completed: wait for it before asking for its output"};
    }
    return handle->outcome();
}

/// What a group reads and writes. `out` may be null: Rueda makes it.
struct GroupTensors {
    const rueda_tensor* in;
    const rueda_tensor* out;
};

Status check_apart(const GroupTensors& tensors, std::span<const std::string> names) {
    const auto conflict = rueda::core::find_members_in_conflict(tensors.in, tensors.out, names.size());
    return conflict ? rueda::failure(ErrorCode::invalid_argument,
                                     "'{}' and '{}' overlap in memory, and one of them is written to; the members of a "
                                     "group need memory of their own: give a tensor that is shared only once",
                                     names[conflict->first], names[conflict->second])
                    : Status();
}

/// Starts `count` operations with one handle: what `make` fills in for each. `sparse`, where given, is the handle's.
template <class Make>
Status start_group(const char* name, std::size_t count, const Needed& needed, const GroupTensors& tensors,
                   const rueda_options* given, rueda_handle** handle, Make&& make,
                   std::unique_ptr<SparseAllreduce>* sparse = nullptr) {
    Call call;
    if (count > 0) {
        RUEDA_RETURN_IF_FAILED(needed.check());
    }
    RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
    RUEDA_RETURN_IF_FAILED(call.begin(name, given));
    RUEDA_ASSERT(call.set != nullptr && call.options != nullptr);  // begin() has set them
    if (name == nullptr || *name == '\0' || call.options->slot != nullptr) {
        return {ErrorCode::invalid_argument, "a group needs a name (and no slot): its members are named after it"};
    }
    if (count == 0 || count > rueda::core::kMostGroupMembers) {
        return rueda::failure(ErrorCode::invalid_argument, "group '{}' has {} tensors; expected 1 to {}", name, count,
                              rueda::core::kMostGroupMembers);
    }
    std::vector<std::string> names;
    std::vector<Request> requests;
    for (std::size_t i = 0; i < count; ++i) {
        names.push_back(rueda::core::name_of_member(name, i, count));
        RUEDA_RETURN_IF_FAILED(rueda::core::check_name(names.back().c_str()));
        requests.emplace_back().member = static_cast<std::uint32_t>(i);
        const Status made = make(i, *call.set, *call.options, requests.back());
        if (!made.is_ok()) {
            return rueda::core::naming_tensor(names.back(), made);
        }
        call.note_site(requests.back());
    }
    RUEDA_RETURN_IF_FAILED(check_apart(tensors, names));
    auto started = call.make_handle(static_cast<std::uint32_t>(count));
    started->make_room(count);
    if (sparse != nullptr) {
        started->sparse = std::move(*sparse);
    }
    RUEDA_RETURN_IF_FAILED(call.runtime->start_group(*call.set, name, names, requests, *started));
    *handle = started.release();
    return {};
}

/// The blocking form of what `start` starts. `handle`, null before, is the caller's to release, however it ends.
template <class Start>
int start_and_wait(const rueda_options* given, rueda_handle*& handle, Start&& start) {
    if (in_callback) {
        return called(given, refused_in_callback);
    }
    const int started = start(&handle);
    return started != RUEDA_OK ? started : rueda_wait(handle, -1);
}

Result<std::unique_ptr<SparseAllreduce>> make_sparse(const rueda_tensor* indices, const rueda_tensor* values,
                                                     const std::int64_t* shape, std::int32_t ndim,
                                                     const rueda_options& options) {
    if (indices == nullptr || values == nullptr) {
        return rueda::failure(ErrorCode::invalid_argument, "the {} are NULL; expected a pointer to a rueda_tensor",
                              indices == nullptr ? "indices" : "values");
    }
    if (ndim < 1 || ndim > RUEDA_MAX_DIMENSIONS || shape == nullptr) {
        return rueda::failure(ErrorCode::invalid_argument,
                              "the shape of the whole has {} dimensions{}; expected 1 to {}, and their extents", ndim,
                              shape == nullptr ? " and is NULL" : "", RUEDA_MAX_DIMENSIONS);
    }
    return SparseAllreduce::make(*indices, *values, {shape, static_cast<std::size_t>(ndim)}, options);
}

int start_join(int32_t average, const rueda_options& options, rueda_handle** handle) {
    return called(&options, [&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
        if (average != RUEDA_JOIN_AVERAGE_ALL && average != RUEDA_JOIN_AVERAGE_ACTIVE) {
            return rueda::failure(ErrorCode::invalid_argument,
                                  "join: average is {}; expected 0 or 1 (rueda_join_average)", average);
        }
        auto started = std::make_unique<rueda_handle>(runtime.value(), 1);
        started->note_site(options.source_file, options.source_line);
        RUEDA_RETURN_IF_FAILED(runtime.value()->start_join(*started, average == RUEDA_JOIN_AVERAGE_ALL,
                                                           options.source_file, options.source_line));
        *handle = started.release();
        return {};
    });
}

}  // namespace

extern "C" {

const char* rueda_last_error(void) { return last_error.c_str(); }
const char* rueda_version(void) { return RUEDA_VERSION; }

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

int rueda_shutdown(void) {
    return guarded_wait([]() -> Status {
        const std::lock_guard lock(process().mutex);
        Runtime* runtime = process().current.load(std::memory_order_relaxed);
        if (runtime != nullptr) {
            runtime->shutdown();
            process().next_set_id = runtime->process_sets().next_id();
            rueda::core::unwatch_termination();
            process().current.store(nullptr, std::memory_order_release);
        }
        return {};
    });
}

int rueda_wants_call_sites(void) { return wants_call_sites() ? 1 : 0; }
void rueda_set_call_site(const char* source_file, int32_t source_line) {
    next_file = source_file;
    next_line = source_line;
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
        return runtime.value()->process_sets().remove(process_set);
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

int rueda_slot_create(const char* name, rueda_slot** slot) { return rueda_slot_create_in(name, 0, slot); }

int rueda_slot_create_in(const char* name, int32_t process_set, rueda_slot** slot) {
    return guarded([&]() -> Status {
        if (name == nullptr || *name == '\0') {
            return {ErrorCode::invalid_argument, "a TensorSlot needs a name"};
        }
        RUEDA_RETURN_IF_FAILED(rueda::core::check_name(name));
        RUEDA_RETURN_IF_FAILED(check_place(slot, "slot"));
        auto created = std::make_unique<rueda_slot>();
        created->name = name;
        created->process_set = process_set;
        *slot = created.release();
        return {};
    });
}

void rueda_slot_destroy(rueda_slot* slot) {
    if (slot == nullptr) {
        return;
    }
    // In a forked child the lock may be held by a thread that is not there.
    const bool forked = process().forked.load(std::memory_order_relaxed);
    if (!forked && slot->runtime.load(std::memory_order_acquire) != nullptr) {
        slot->set->unpin(*slot->entry);
    }
    delete slot;
}

int rueda_allreduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                          const rueda_options* options, rueda_handle** handle) {
    return called(options, [&]() -> Status {
        Call call;
        RUEDA_RETURN_IF_FAILED(Needed(in, out).check());
        RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
        RUEDA_RETURN_IF_FAILED(call.begin(name, options));
        if (call.is_unnamed(name)) {
            return start(name, Needed(in, out), options, handle,
                         [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                             return rueda::core::make_allreduce(*in, *out, o, request);
                         });
        }
        auto started = call.make_handle();
        RUEDA_RETURN_IF_FAILED(call.runtime->start_allreduce(*call.set, call.entry(),
                                                             call.options->slot != nullptr ? std::string_view() : name,
                                                             *in, *out, *call.options, *started));
        *handle = started.release();
        return {};
    });
}

int rueda_allreduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, const rueda_options* options) {
    return called_wait(options, [&]() -> Status {
        Call call;
        if (in == nullptr || out == nullptr) [[unlikely]] {
            return Needed(in, out).check();
        }
        RUEDA_RETURN_IF_FAILED(call.begin(name, options));
        if (call.is_unnamed(name)) {
            return run(name, Needed(in, out), options,
                       [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                           return rueda::core::make_allreduce(*in, *out, o, request);
                       });
        }
        Completion completion;
        return call.runtime->run_allreduce(*call.set, call.entry(),
                                           call.options->slot != nullptr ? std::string_view() : name, *in, *out,
                                           *call.options, completion);
    });
}

int rueda_grouped_allreduce_async(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                  const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start_group(name, count, Needed(in, out), {in, out}, options, handle,
                           [&](std::size_t i, ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                               return rueda::core::make_allreduce(in[i], out[i], o, request);
                           });
    });
}

int rueda_grouped_allreduce(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                            const rueda_options* options) {
    rueda_handle* handle = nullptr;
    const int status = start_and_wait(options, handle, [&](rueda_handle** started) {
        return rueda_grouped_allreduce_async(name, count, in, out, options, started);
    });
    rueda_handle_release(handle);
    return status;
}

int rueda_grouped_allgather_async(const char* name, size_t count, const rueda_tensor* in, const rueda_options* options,
                                  rueda_handle** handle) {
    return called(options, [&] {
        return start_group(name, count, Needed(in), {in, nullptr}, options, handle,
                           [&](std::size_t i, ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                               return rueda::core::make_allgather(in[i], nullptr, o, request);
                           });
    });
}

int rueda_grouped_allgather(const char* name, size_t count, const rueda_tensor* in, const rueda_options* options,
                            rueda_handle** handle) {
    rueda_handle* result = nullptr;
    const int status = start_and_wait(options, result, [&](rueda_handle** started) {
        return handle == nullptr ? called(options, [] { return check_place(nullptr, "handle"); })
                                 : rueda_grouped_allgather_async(name, count, in, options, started);
    });
    if (status != RUEDA_OK) {
        rueda_handle_release(result);
        return status;
    }
    *handle = result;
    return RUEDA_OK;
}

int rueda_grouped_reducescatter_async(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                      const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start_group(name, count, Needed(in), {in, out}, options, handle,
                           [&](std::size_t i, ProcessSet& set, const rueda_options& o, Request& request) {
                               return rueda::core::make_reducescatter(in[i], out != nullptr ? &out[i] : nullptr,
                                                                      set.set_rank(), set.set_size(), o, request);
                           });
    });
}

int rueda_grouped_reducescatter(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                const rueda_options* options) {
    rueda_handle* handle = nullptr;
    const int status = start_and_wait(options, handle, [&](rueda_handle** started) {
        if (out != nullptr) {
            return rueda_grouped_reducescatter_async(name, count, in, out, options, started);
        }
        return called(options, [] {
            return Status(ErrorCode::invalid_argument,
                          "the outputs of rueda_grouped_reducescatter are NULL, and there is no handle to hold them: "
                          "give their memory, or call rueda_grouped_reducescatter_async");
        });
    });
    rueda_handle_release(handle);
    return status;
}

int rueda_broadcast_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                          const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(
            name, Needed(in, out), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
                return rueda::core::make_broadcast(*in, *out, root, set.identity().ranks, set.set_rank(), o, request);
            });
    });
}

int rueda_broadcast(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                    const rueda_options* options) {
    return called_wait(options, [&] {
        return run(name, Needed(in, out), options, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_broadcast(*in, *out, root, set.identity().ranks, set.set_rank(), o, request);
        });
    });
}

int rueda_allgather_async(const char* name, const rueda_tensor* in, const rueda_options* options,
                          rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle,
                     [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                         return rueda::core::make_allgather(*in, nullptr, o, request);
                     });
    });
}

int rueda_allgather(const char* name, const rueda_tensor* in, const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&] {
        return run_for_result(name, Needed(in), options, handle,
                              [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                                  return rueda::core::make_allgather(*in, nullptr, o, request);
                              });
    });
}

int rueda_allgather_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                               const rueda_options* options, rueda_handle** handle) {
    return called(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return start(name, Needed(in), options, handle,
                     [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                         return rueda::core::make_allgather(*in, out, o, request);
                     });
    });
}

int rueda_allgather_into(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                         const rueda_options* options) {
    return called_wait(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return run(name, Needed(in), options, [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
            return rueda::core::make_allgather(*in, out, o, request);
        });
    });
}

int rueda_reducescatter_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                              const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_reducescatter(*in, out, set.set_rank(), set.set_size(), o, request);
        });
    });
}

int rueda_reducescatter(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                        const rueda_options* options) {
    return called_wait(options, [&]() -> Status {
        if (out == nullptr) {
            return {ErrorCode::invalid_argument,
                    "the output of rueda_reducescatter is NULL, and there is no handle to hold one: give the output's "
                    "memory, or call rueda_reducescatter_async"};
        }
        return run(name, Needed(in), options, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_reducescatter(*in, out, set.set_rank(), set.set_size(), o, request);
        });
    });
}

int rueda_alltoall_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                         const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_alltoall(*in, splits, split_count, nullptr, set.set_size(), o, request);
        });
    });
}

int rueda_alltoall(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                   const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&] {
        return run_for_result(
            name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
                return rueda::core::make_alltoall(*in, splits, split_count, nullptr, set.set_size(), o, request);
            });
    });
}

int rueda_alltoall_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, const int64_t* splits,
                              size_t split_count, const rueda_options* options, rueda_handle** handle) {
    return called(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_alltoall(*in, splits, split_count, out, set.set_size(), o, request);
        });
    });
}

int rueda_alltoall_into(const char* name, const rueda_tensor* in, const rueda_tensor* out, const int64_t* splits,
                        size_t split_count, const rueda_options* options) {
    return called_wait(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return run(name, Needed(in), options, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_alltoall(*in, splits, split_count, out, set.set_size(), o, request);
        });
    });
}

int rueda_gather_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                       const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_gather(*in, out, root, set.identity().ranks, set.set_rank(), o, request);
        });
    });
}

int rueda_gather(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                 const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&] {
        return run_for_some_result(name, Needed(in), options, handle,
                                   [&](ProcessSet& set, const rueda_options& o, Request& request) -> Status {
                                       RUEDA_RETURN_IF_FAILED(rueda::core::make_gather(
                                           *in, out, root, set.identity().ranks, set.set_rank(), o, request));
                                       const bool has_result = set.set_rank() == request.metadata.root;
                                       return has_result && out == nullptr && handle == nullptr
                                                  ? no_place_for_result("rueda_gather")
                                                  : Status();
                                   });
    });
}

int rueda_scatter_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                        const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_scatter(*in, splits, split_count, out, root, set.identity().ranks, set.set_rank(),
                                             o, request);
        });
    });
}

int rueda_scatter(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                  const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&]() -> Status {
        if (out == nullptr && handle == nullptr) {
            return no_place_for_result("rueda_scatter");
        }
        return run_for_some_result(
            name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
                return rueda::core::make_scatter(*in, splits, split_count, out, root, set.identity().ranks,
                                                 set.set_rank(), o, request);
            });
    });
}

int rueda_reduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                       const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_reduce(*in, out, root, set.identity().ranks, set.set_rank(), o, request);
        });
    });
}

int rueda_reduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                 const rueda_options* options) {
    return called_wait(options, [&] {
        return run(name, Needed(in), options, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_reduce(*in, out, root, set.identity().ranks, set.set_rank(), o, request);
        });
    });
}

int rueda_sparse_allreduce_async(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                                 const int64_t* shape, int32_t ndim, const rueda_options* options,
                                 rueda_handle** handle) {
    return called(options, [&]() -> Status {
        rueda_options completed;
        const rueda_options* effective = nullptr;
        RUEDA_RETURN_IF_FAILED(rueda::core::effective_options(options, completed, effective));
        auto made = make_sparse(indices, values, shape, ndim, *effective);
        if (!made.is_ok()) {
            return {made.status().code(),
                    fmt::format("sparse allreduce '{}': {}", name != nullptr ? name : "", made.status().message())};
        }
        const SparseAllreduce& sparse = *made.value();
        const auto members = sparse.members();
        return start_group(
            name, members.size(), Needed(), {members.data(), nullptr}, options, handle,
            [&](std::size_t i, ProcessSet& set, const rueda_options& o, Request& request) {
                if (i == 0) {
                    made.value()->belongs_to(name, set.identity().ranks);
                }
                return rueda::core::make_allgather(members[i], nullptr, o, request);
            },
            &made.value());
    });
}

int rueda_sparse_allreduce(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                           const int64_t* shape, int32_t ndim, const rueda_options* options, rueda_handle** handle) {
    rueda_handle* result = nullptr;
    const int status = start_and_wait(options, result, [&](rueda_handle** started) {
        return handle == nullptr ? called(options, [] { return check_place(nullptr, "handle"); })
                                 : rueda_sparse_allreduce_async(name, indices, values, shape, ndim, options, started);
    });
    if (status != RUEDA_OK) {
        rueda_handle_release(result);
        return status;
    }
    *handle = result;
    return RUEDA_OK;
}

int rueda_send_async(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options,
                     rueda_handle** handle) {
    return start_message(/*sends=*/true, in, peer, tag, options, handle);
}

int rueda_send(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options) {
    return run_message(/*sends=*/true, in, peer, tag, options, nullptr);
}

int rueda_receive_async(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options,
                        rueda_handle** handle) {
    return start_message(/*sends=*/false, out, peer, tag, options, handle);
}

int rueda_receive(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options, int32_t* sender) {
    return run_message(/*sends=*/false, out, peer, tag, options, sender);
}

int rueda_handle_sender(rueda_handle* handle, int32_t* sender) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_completed(handle));
        RUEDA_RETURN_IF_FAILED(check_place(sender, "rank"));
        if (!handle->is_receive) {
            return {ErrorCode::invalid_argument, "this operation is no receive"};
        }
        *sender = handle->sender;
        return {};
    });
}

int rueda_barrier_async(const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start("", Needed(), options, handle, [](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
            return rueda::core::make_barrier(o, request);
        });
    });
}

int rueda_barrier(const rueda_options* options) {
    return called_wait(options, [&] {
        return run("", Needed(), options, [](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
            return rueda::core::make_barrier(o, request);
        });
    });
}

int rueda_join_async(int32_t average, rueda_handle** handle) { return start_join(average, options_of_next(), handle); }

int rueda_join(int32_t average, int32_t* last_rank) {
    const rueda_options options = options_of_next();
    rueda_handle* handle = nullptr;
    const int status =
        start_and_wait(&options, handle, [&](rueda_handle** started) { return start_join(average, options, started); });
    if (status == RUEDA_OK && last_rank != nullptr) {
        *last_rank = handle->joined_last;
    }
    rueda_handle_release(handle);
    return status;
}

int rueda_handle_joined_last(rueda_handle* handle, int32_t* last_rank) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_completed(handle));
        RUEDA_RETURN_IF_FAILED(check_place(last_rank, "rank"));
        if (handle->joined_last < 0) {
            return {ErrorCode::invalid_argument, "this operation is no join"};
        }
        *last_rank = handle->joined_last;
        return {};
    });
}

int rueda_wait(rueda_handle* handle, double timeout_seconds) {
    return guarded([&]() -> Status {
        if (process().forked.load(std::memory_order_relaxed)) {
            return not_initialized();
        }
        if (handle == nullptr) {
            return no_handle();
        }
        Status status =
            in_callback && !handle->done() ? refused_in_callback() : handle->runtime->wait(*handle, timeout_seconds);
        if (status.is_ok() && handle->sparse != nullptr) {
            status = handle->outcome();
        }
        return status.is_ok() ? status : with_site(status, handle->source_file, handle->source_line);
    });
}

int rueda_poll(rueda_handle* handle, int* completed) {
    return guarded([&]() -> Status {
        if (process().forked.load(std::memory_order_relaxed)) {
            return not_initialized();
        }
        if (handle == nullptr) {
            return no_handle();
        }
        RUEDA_RETURN_IF_FAILED(check_place(completed, "answer"));
        *completed = handle->runtime->poll(*handle) ? 1 : 0;
        return {};
    });
}

int rueda_handle_output(rueda_handle* handle, rueda_tensor* output) {
    return rueda_handle_output_of(handle, 0, output);
}

int rueda_handle_output_of(rueda_handle* handle, size_t index, rueda_tensor* output) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_completed(handle));
        RUEDA_RETURN_IF_FAILED(check_place(output, "output"));
        const std::size_t outputs = handle->sparse != nullptr ? SparseAllreduce::kResults : handle->outputs();
        if (index >= outputs) {
            return rueda::failure(ErrorCode::invalid_argument, "this handle has no output {}; expected 0 to {}", index,
                                  outputs - 1);
        }
        const Completion::Output* ready = nullptr;
        if (handle->sparse != nullptr) {
            const auto combined = handle->sparse->result(*handle, index);
            RUEDA_RETURN_IF_FAILED(combined.status());
            ready = combined.value();
        } else {
            ready = &handle->output(static_cast<std::uint32_t>(index));
        }
        const Completion::Output& found = *ready;
        if (found.memory == nullptr) {
            return {ErrorCode::invalid_argument,
                    "this operation has no output of its own; an allgather, an alltoall, a reducescatter, a scatter, "
                    "and a gather on its root have one where no output was given"};
        }
        *output = {found.memory.get(), found.shape.data(), static_cast<std::int32_t>(found.shape.size()),
                   static_cast<std::int32_t>(found.dtype)};
        return {};
    });
}

int rueda_handle_received_splits(rueda_handle* handle, const int64_t** splits, size_t* count) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_completed(handle));
        RUEDA_RETURN_IF_FAILED(check_place(splits, "splits"));
        RUEDA_RETURN_IF_FAILED(check_place(count, "number"));
        if (handle->received_splits.empty()) {
            return {ErrorCode::invalid_argument,
                    "this operation received no splits; only an alltoall does, and a gather on its root"};
        }
        *splits = handle->received_splits.data();
        *count = handle->received_splits.size();
        return {};
    });
}

int rueda_handle_on_completion(rueda_handle* handle, rueda_callback callback, void* data) {
    return guarded([&]() -> Status {
        if (process().forked.load(std::memory_order_relaxed)) {
            return not_initialized();
        }
        if (handle == nullptr) {
            return no_handle();
        }
        return call_at_end(*handle, callback, data);
    });
}

void rueda_handle_release(rueda_handle* handle) {
    if (handle != nullptr) {
        handle->drop();
    }
}

int rueda_allocate(size_t bytes, void** memory) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(memory, "memory's address"));
        Result<void*> allocated = runtime.value()->allocate(bytes);
        RUEDA_RETURN_IF_FAILED(allocated.status());
        *memory = allocated.value();
        return {};
    });
}

int rueda_deallocate(void* memory) {
    return guarded([&]() -> Status {
        if (memory == nullptr || process().forked.load(std::memory_order_relaxed)) {
            return {};
        }
        if (Runtime* owner = owner_of(memory)) {
            // A child that was forked after the job's end does not have the memory, but something of its own there.
            return owner->pid() == getpid() ? owner->deallocate(memory) : Status();
        }
        return rueda::failure(ErrorCode::invalid_argument, "{} is not memory that rueda::allocate gave out", memory);
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
        RUEDA_RETURN_IF_FAILED(current_runtime().status());
        if (step < 0) {
            return failure(ErrorCode::invalid_argument, "the step is {}; expected 0 or more", step);
        }
        process().launcher.load(std::memory_order_acquire)->begin_step(step);
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

}  // extern "C"
