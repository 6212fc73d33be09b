// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/runtime/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "base/shared_memory/lock_before.hpp"
#include "base/system/clock.hpp"
#include "base/system/cores.hpp"
#include "base/system/process_status.hpp"
#include "base/system/thread_signals.hpp"
#include "base/text.hpp"
#include "core/diagnostics/liveness.hpp"
#include "core/diagnostics/stacks/stack_signal.hpp"
#include "core/engine/deadline.hpp"
#include "core/hosts/bulk_connections.hpp"
#include "core/hosts/leader_connections.hpp"
#include "core/metrics/metric_families.hpp"
#include "core/metrics/metrics_endpoint.hpp"
#include "core/runtime/devices.hpp"
#include "core/setup/host_cores.hpp"
#include "core/setup/set_up_group.hpp"
#include "core/setup/shared_settings.hpp"

namespace rueda::core {
namespace {

/// Whether the setting RUEDA_GPU_PATH lets tensors on GPUs move through NCCL.
bool allows_nccl(base::GpuPath path) { return path == base::GpuPath::automatic || path == base::GpuPath::nccl; }

/// The host's name for texts; "" in a job on one host.
std::string name_of_host(const collectives::LocalGroup& group) {
    return group.host_count > 1 ? group.host_names[static_cast<std::size_t>(group.host_index)] : "";
}

Status check_reach(const collectives::ControlPlane& control_plane, const collectives::LocalGroup& group) {
    if (group.host_count == 1 || control_plane.reaches_other_hosts()) {
        return {};
    }
    std::string names;
    for (const std::string& name : group.host_names) {
        names += (names.empty() ? "" : ", ") + name;
    }
    return failure(
        ErrorCode::unsupported,
        "the {} ranks run on {} hosts ({}), and meet by {}, which joins ranks of one host: start them by ruedarun "
        "with -H, or by mpirun; ranks of one host run as the same user and in the same container",
        group.size, group.host_count, names, control_plane.description());
}

base::TimelineHeader timeline_header(const collectives::LocalGroup& group, const HostClock& clock) {
    return {.host = group.host_names[static_cast<std::size_t>(group.host_index)],
            .host_index = group.host_index,
            .host_count = group.host_count,
            .size = group.size,
            .began_realtime_ns = clock.began_realtime_ns,
            .clock_offset_ns = clock.offset_ns,
            .clock_uncertainty_ns = clock.uncertainty_ns};
}

void fill_rank_block(collectives::Arena& arena, int global_rank) {
    base::RankBlock& block = arena.control().ranks[arena.rank()];
    block.pid.store(getpid(), std::memory_order_relaxed);
    block.global_rank.store(global_rank, std::memory_order_relaxed);
    block.process_start.store(base::process_start_time(getpid()), std::memory_order_relaxed);
    block.heartbeat_ns.store(base::monotonic_ns(), std::memory_order_relaxed);
    block.state.store(static_cast<std::uint32_t>(base::RankState::running), std::memory_order_release);
}

}  // namespace

Runtime::Runtime(const base::Config& config, std::unique_ptr<collectives::ControlPlane> control_plane,
                 std::unique_ptr<collectives::BulkTransport> bulk,
                 std::unique_ptr<collectives::LeaderTransport> leaders, RankGroup ranks, double cores,
                 const HostClock& clock, LauncherLine* launcher, std::int32_t first_set_id)
    : config_(config),
      control_plane_(std::move(control_plane)),
      bulk_(std::move(bulk)),
      leaders_(std::move(leaders)),
      group_(std::move(ranks.group)),
      logger_(config, group_.rank),
      arena_(std::move(ranks.attached.arena)),
      recorder_(arena_->recorder(arena_->rank())),
      heap_(arena_, config.resident_limit_bytes),
      world_(std::make_shared<ProcessSet>(config, SetIdentity{0, group_.job_ranks}, arena_, ranks.attached.extent,
                                          other_hosts(config, group_, transport()), pending_)),
      messenger_(group_, arena_, group_.host_count > 1 ? transport() : nullptr, pending_, logger_),
      engine_(
          config, arena_, world_, messenger_, pending_, logger_, cores, name_of_host(group_),
          /*calls_mpi=*/group_.host_count > 1 && bulk_ == nullptr && control_plane_->transport() != nullptr, launcher,
          [this] { heap_.quarantine(); }, leaders_ != nullptr ? leaders_->wakeups() : nullptr),
      process_sets_({config_, group_, arena_, transport(), leaders_.get(), *world_, engine_, pending_, first_set_id}),
      timeline_(arena_, timeline_header(group_, clock), logger_),
      scopes_(recorder_),
      launcher_(launcher),
      pid_(getpid()),
      threads_(threads_of_rank(cores, base::affinity_cores(), group_.local_size)) {}

Runtime::~Runtime() { static_cast<void>(shutdown()); }

Result<std::unique_ptr<Runtime>> Runtime::create(const base::Config& config,
                                                 std::unique_ptr<collectives::ControlPlane> control_plane,
                                                 LauncherLine* launcher, const FirstSets& first_sets,
                                                 collectives::AddressReserve* addresses) {
    collectives::ControlPlane& plane = *control_plane;
    Result<std::unique_ptr<Runtime>> runtime =
        set_up(config, std::move(control_plane), launcher, first_sets, addresses);
    if (!runtime.is_ok()) {
        return runtime;
    }
    Status status = plane.barrier();  // after this barrier, every rank has filled its block in the arena
    if (status.is_ok() && runtime.value()->bulk_ != nullptr) {
        // MPI may still hold the last messages of the control plane, and after this point this rank does not call MPI
        // for the control plane any more. So pass_last_messages() waits until these messages have arrived.
        status = pass_last_messages(config, plane, *runtime.value()->bulk_, {&runtime.value()->control(), launcher});
    }
    if (status.is_ok()) {
        status = runtime.value()->start_threads();
    }
    if (!status.is_ok()) {
        // Other ranks may have started already, and would wait for this rank for ever. The abort ends their waits.
        runtime.value()->engine_.raise(ErrorCode::aborted, fmt::format("rank {} could not start: {}",
                                                                       runtime.value()->group_.rank, status.message()));
        runtime.value()->abandon();
        return status;
    }
    runtime.value()->say_if_bound_to_one_core();
    runtime.value()->begin_timeline();
    return runtime;
}

collectives::Transport* Runtime::transport() const {
    if (leaders_ != nullptr) {
        return leaders_.get();
    }
    return bulk_ != nullptr ? bulk_.get() : control_plane_->transport();
}

Status Runtime::start_threads() {
    if (leaders_ != nullptr) {
        RUEDA_RETURN_IF_FAILED(leaders_->start([this] { ring(); }));
    }
    return engine_.start();
}

/// Wakes the thread of this rank that must look for messages of other hosts. If a caller drives progress, this is the
/// caller, and otherwise it is the background thread.
void Runtime::ring() {
    base::Attention<base::StdAtomics>& attention = control().ranks[arena_->rank()].attention;
    attention.ring(attention.state());
}

/// Does all steps of the start before the first thread is started: finds the group, sets up the arena, creates the
/// object. Closes the control plane on failure.
Result<std::unique_ptr<Runtime>> Runtime::set_up(const base::Config& settings,
                                                 std::unique_ptr<collectives::ControlPlane> control_plane,
                                                 LauncherLine* launcher, const FirstSets& first_sets,
                                                 collectives::AddressReserve* addresses) {
    base::Config config = settings;
    const auto refuse = [&](const Status& status) {
        // If one of the steps of set_up() fails, it fails on all ranks. All of them close the control plane, so a
        // normal close works, unless a connection is broken.
        control_plane->close(/*after_failure=*/status.code() == ErrorCode::aborted);
        return status;
    };
    Result<collectives::LocalGroup> group = collectives::find_local_group(*control_plane, config.hostname);
    if (!group.is_ok()) {
        return refuse(group.status());
    }
    if (Status reachable = check_reach(*control_plane, group.value()); !reachable.is_ok()) {
        return refuse(reachable);
    }
    const Result<std::string> unused = share_settings(*control_plane, config);
    if (!unused.is_ok()) {
        return refuse(unused.status());
    }
    // The host name for reports. Hosts with equal names have been given different names.
    config.hostname = group.value().host_names[static_cast<std::size_t>(group.value().host_index)];
    const Result<std::int32_t> first_set_id = agree_on_first_sets(*control_plane, first_sets);
    if (!first_set_id.is_ok()) {
        return refuse(first_set_id.status());
    }
    Result<BulkConnections> bulk = connect_bulk(config, *control_plane, group.value(), launcher);
    if (!bulk.is_ok()) {
        return refuse(bulk.status());
    }
    collectives::Transport* const inner =
        bulk.value().transport != nullptr ? bulk.value().transport.get() : control_plane->transport();
    Result<LeaderConnections> connections = connect_leaders(config, *control_plane, group.value(), inner);
    if (!connections.is_ok()) {
        return refuse(connections.status());
    }
    Result<RankGroup> ranks =
        set_up_group(config, *control_plane, std::move(group).value(), ResidentRoom::yes, addresses);
    if (!ranks.is_ok()) {
        return refuse(ranks.status());
    }
    Result<double> cores = cores_of_host(*control_plane, ranks.value().group);
    if (!cores.is_ok()) {
        return refuse(cores.status());
    }
    const Result<HostClock> clock = measure_host_clock(*control_plane, ranks.value().group);
    if (!clock.is_ok()) {
        return refuse(clock.status());
    }
    std::unique_ptr<Runtime> runtime(new Runtime(config, std::move(control_plane), std::move(bulk.value().transport),
                                                 std::move(connections.value().transport), std::move(ranks).value(),
                                                 cores.value(), clock.value(), launcher, first_set_id.value()));
    fill_rank_block(*runtime->arena_, runtime->group_.rank);
    runtime->recorder_.begin();
    runtime->logger_.info("rank {} of {}: {}{}, cells of {}, {} for resident tensors", runtime->group_.rank,
                          runtime->group_.size, runtime->control_plane_->description(),
                          runtime->bulk_ == nullptr ? "" : ", data over " + runtime->bulk_->description(),
                          base::format_bytes(runtime->arena_->plan().cell_bytes),
                          base::format_bytes(runtime->arena_->plan().resident_bytes));
    if (!unused.value().empty()) {
        runtime->logger_.warning("{}", unused.value());
    }
    if (!bulk.value().why_not.empty() && runtime->group_.rank == 0) {
        runtime->logger_.warning(
            "data between hosts goes over MPI (RUEDA_TRANSPORT=auto), because UCX cannot be used: {}",
            bulk.value().why_not);
    }
    if (!connections.value().why_not.empty() && runtime->group_.rank == 0) {
        runtime->logger_.warning(
            "the first ranks of the hosts exchange their messages over {}, and poll for them, because they could not "
            "connect to each other: {}; RUEDA_LEADER_SOCKETS=0 saves the attempt",
            runtime->bulk_ == nullptr ? "MPI" : "UCX", connections.value().why_not);
    }
    return runtime;
}

/// Warns if this rank is bound to one core, because the trainer and the background thread then share this core. By
/// default, mpirun binds each rank of a job of two ranks to one core.
void Runtime::say_if_bound_to_one_core() const {
    if (group_.rank == 0 && base::affinity_cores() == 1 && sysconf(_SC_NPROCESSORS_ONLN) > group_.local_size) {
        logger_.warning(
            "this rank is bound to one core, where communication and computation take turns; the machine has {} cores "
            "for {}: start with mpirun --bind-to none, or with ruedarun",
            sysconf(_SC_NPROCESSORS_ONLN),
            group_.local_size == 1 ? "1 rank" : fmt::format("{} ranks", group_.local_size));
    }
}

/// Starts the timeline that the settings ask for. In Horovod, DYNAMIC means that the program will start a timeline
/// later. If the timeline cannot be written, the job continues without it.
void Runtime::begin_timeline() {
    if (config_.timeline.empty() || config_.timeline == "DYNAMIC") {
        return;
    }
    if (const Status started =
            timeline_.start(config_.timeline, config_.timeline_mark_cycles, TimelineRecording::From::beginning);
        !started.is_ok()) {
        logger_.warning("there will be no timeline (RUEDA_TIMELINE): {}", started.message());
    }
}

void Runtime::abandon() {
    shut_down_ = true;
    if (bulk_ != nullptr) {
        bulk_->close();
    }
    control_plane_->close(/*after_failure=*/true);
    if (leaders_ != nullptr) {
        leaders_->close();  // ends the thread of `leaders_`, which uses the arena
    }
}

/// If the tensors are in a GPU's memory, tells `completion` how many operations will be launched (given to the device).
/// All tensors of a call are on the same device, or all are in the CPU's memory.
void Runtime::expect_launches(Completion& completion, std::span<const Request> requests) {
    if (is_on_device(requests.front().metadata)) {
        completion.expect_launches(static_cast<std::uint32_t>(requests.size()));
    }
}

Result<std::shared_ptr<const DeviceUse>> Runtime::use_device(ProcessSet& set, const rueda_device_stream& given) {
    const auto devices = open_devices(config_, logger_);
    RUEDA_RETURN_IF_FAILED(devices.status());
    const collectives::DeviceStream stream{given.index, given.stream};
    auto ready = devices.value()->record(stream);  // also checks the device
    RUEDA_RETURN_IF_FAILED(ready.status());
    const auto is_first = set.claim_device(given.index);
    RUEDA_RETURN_IF_FAILED(is_first.status());
    if (allows_nccl(config_.gpu_path)) {
        devices.value()->open_nccl();
        // The first member of the set gets the identifier from NCCL, because this member's offer will contain it.
        if (is_first.value() && set.identity().ranks.front() == group_.rank) {
            devices.value()->prepare_nccl_id();
        }
    }
    return std::make_shared<const DeviceUse>(DeviceUse{.runtime = devices.value(),
                                                       .stream = stream,
                                                       .ready = std::move(ready).value(),
                                                       .is_in_several_sets = is_in_sets_besides(set),
                                                       .heap = &heap_});
}

/// Whether this rank is also in other process sets that use a device or may use one later. Every rank is in the world,
/// so the world counts only if it has used a device.
bool Runtime::is_in_sets_besides(const ProcessSet& set) const {
    if (set.identity().is_world()) {
        return process_sets_.shared_count() > 0;
    }
    return process_sets_.shared_count() > 1 || world_->has_claimed_device();
}

Status Runtime::use_device(const rueda_device_stream& given, MessageRequest& request) {
    const auto devices = open_devices(config_, logger_);
    RUEDA_RETURN_IF_FAILED(devices.status());
    const collectives::DeviceStream stream{given.index, given.stream};
    auto ready = devices.value()->record(stream);  // also checks the device
    RUEDA_RETURN_IF_FAILED(ready.status());
    auto use = std::make_shared<const DeviceUse>(DeviceUse{.runtime = devices.value(),
                                                           .stream = stream,
                                                           .ready = std::move(ready).value(),
                                                           .input_memory = devices.value()->memory_of(request.memory)});
    auto copy = DeviceCopy::make(request.sends ? DeviceCopy::Direction::to_host : DeviceCopy::Direction::to_device,
                                 std::move(use), request.memory, request.bytes);
    RUEDA_RETURN_IF_FAILED(copy.status());
    request.device = std::move(copy).value();
    request.memory = request.device->memory();
    return {};
}

Status Runtime::wait_on_stream(const Completion& completion, const rueda_device_stream& stream,
                               double timeout_seconds) {
    if (!completion.is_on_device()) {
        return engine_.wait(completion, timeout_seconds);
    }
    RUEDA_RETURN_IF_FAILED(engine_.wait_until_launched(completion, timeout_seconds));
    if (completion.has_failed()) {
        // wait() returns the failure, but only when all members of the group have ended
        return engine_.wait(completion, timeout_seconds);
    }
    return completion.device_end()->make_wait({stream.index, stream.stream});
}

Status Runtime::start(ProcessSet& set, TensorEntry* known, std::string_view name, const Request& request,
                      Completion& completion, double wait_seconds) {
    expect_launches(completion, {&request, 1});
    return engine_.start(
        set, [&](Urgency urgency) { return set.submit(known, name, request, completion, urgency); }, completion,
        wait_seconds);
}

Status Runtime::start(ProcessSet& set, TensorEntry* known, std::string_view name, const Arguments& arguments,
                      const rueda_options& options, Completion& completion) {
    return engine_.start(
        set, [&](Urgency urgency) { return set.submit(known, name, arguments, options, completion, urgency); },
        completion, options.wait_seconds);
}

Status Runtime::start_group(ProcessSet& set, std::string_view group, std::span<const std::string> names,
                            std::span<const Request> requests, Completion& completion) {
    expect_launches(completion, requests);
    RUEDA_RETURN_IF_FAILED(set.submit_group(group, names, requests, completion, Urgency::background));
    engine_.attend();
    return {};
}

Status Runtime::run(ProcessSet& set, TensorEntry* known, std::string_view name, const Request& request,
                    Completion& completion) {
    expect_launches(completion, {&request, 1});
    return engine_.run(
        set, [&](Urgency urgency) { return set.submit(known, name, request, completion, urgency); }, completion);
}

Status Runtime::run(ProcessSet& set, TensorEntry* known, std::string_view name, const Arguments& arguments,
                    const rueda_options& options, Completion& completion) {
    return engine_.run(
        set, [&](Urgency urgency) { return set.submit(known, name, arguments, options, completion, urgency); },
        completion);
}

Status Runtime::start_join(Completion& completion, bool counted, const char* source_file, std::int32_t source_line) {
    const std::unique_lock changing(process_sets_.changing(), std::try_to_lock);
    if (!changing.owns_lock()) {
        return {ErrorCode::invalid_argument,
                "join: another thread of this rank adds or removes a process set, or shuts down; wait for that "
                "thread first"};
    }
    RUEDA_RETURN_IF_FAILED(process_sets_.check_going());
    const std::vector<std::shared_ptr<ProcessSet>> sets = process_sets_.joined();
    const auto more = static_cast<std::uint32_t>(sets.size());
    completion.is_join = true;
    completion.add_members(more);
    world_->note_join_site(source_file, source_line);
    if (Status joined = world_->announce_join(completion, counted); !joined.is_ok()) {
        completion.add_members(~more + 1);  // subtracts `more`
        return joined;
    }
    // Another rank may already have begun to leave a set or the job. In this case, this join fails as soon as this rank
    // reads the log entry about the other rank.
    for (const std::shared_ptr<ProcessSet>& set : sets) {
        set->note_join_site(source_file, source_line);
        if (Status joined = set->announce_join(completion, counted); !joined.is_ok()) {
            completion.complete_one(joined);
        }
    }
    engine_.attend();
    return {};
}

bool Runtime::poll(const Completion& completion) {
    if (!completion.done()) {
        engine_.poll();
    }
    return completion.done();
}

void Runtime::offer_stacks() {
    const int number = number_of(config_.stack_signal);
    if (number == 0) {
        return;
    }
    if (install_stack_handler(number)) {
        engine_.offer_stacks();
        return;
    }
    const std::string reason = fmt::format("the program handles {} itself; RUEDA_STACK_SIGNAL can name another signal",
                                           name_of(config_.stack_signal));
    logger_.info("stall reports will not show the stack of this rank, because {}", reason);
    engine_.refuse_stacks("stack: it could not be taken: " + reason);
}

void Runtime::serve_metrics() {
    if (config_.metrics_port == 0 || group_.local_rank != 0) {
        return;
    }
    const auto collect = [this] {
        const std::lock_guard lock(metrics_mutex_);
        return families_of(has_metrics_ ? read_host_metrics(*arena_, group_.size) : HostMetrics{});
    };
    Result<std::unique_ptr<MetricsEndpoint>> endpoint =
        open_metrics_endpoint({config_.metrics_address, config_.metrics_port}, collect);
    if (!endpoint.is_ok()) {
        logger_.warning("RUEDA_METRICS_PORT: this host has no endpoint for Prometheus: {}; the job goes on without it",
                        endpoint.status().message());
        return;
    }
    metrics_endpoint_ = std::move(endpoint).value();
}

Result<std::string> Runtime::metrics() {
    const std::lock_guard lock(metrics_mutex_);
    if (!has_metrics_) {
        return failure(ErrorCode::not_initialized, "metrics: this rank has left the job");
    }
    return json_of({group_.size, aborted(), {read_rank_metrics(*arena_, arena_->rank())}});
}

Result<void*> Runtime::allocate(std::uint64_t bytes) {
    Result<void*> memory = heap_.allocate(bytes);
    note_resident_memory();
    return memory;
}

Status Runtime::deallocate(void* memory) {
    Status status = heap_.deallocate(memory);
    note_resident_memory();
    return status;
}

Result<void*> Runtime::allocate_on_device(std::int32_t device, std::uint64_t bytes) {
    const auto devices = open_devices(config_, logger_);
    RUEDA_RETURN_IF_FAILED(devices.status());
    const auto path =
        allows_nccl(config_.gpu_path) ? collectives::DevicePath::automatic : collectives::DevicePath::host;
    const Result<std::byte*> memory = devices.value()->allocate(device, bytes, path);
    RUEDA_RETURN_IF_FAILED(memory.status());
    return static_cast<void*>(memory.value());
}

void Runtime::note_resident_memory() {
    const std::lock_guard lock(recorder_mutex_);
    recorder_.note_resident_bytes(heap_.used_bytes());
}

void Runtime::begin_step(std::int64_t step) {
    control().ranks[arena_->rank()].step.store(step, std::memory_order_relaxed);
    const std::lock_guard lock(recorder_mutex_);
    recorder_.begin_step(step);
}

void Runtime::begin_busy(std::string_view what) {
    const std::lock_guard lock(busy_mutex_);
    busy_.push_back({std::string(what), base::monotonic_ns()});
    publish_busy();
}

/// Publishes what the program says it is busy with: the innermost scope. The caller holds `busy_mutex_`. A report that
/// is made between the two stores shows the new time with the old text. This does no harm.
void Runtime::publish_busy() {
    base::RankBlock& block = control().ranks[arena_->rank()];
    block.busy_since_ns.store(busy_.empty() ? 0 : busy_.back().since_ns, std::memory_order_relaxed);
    block.busy.write(busy_.empty() ? std::string_view() : std::string_view(busy_.back().what));
}

Status Runtime::end_busy() {
    const std::lock_guard lock(busy_mutex_);
    if (busy_.empty()) {
        return failure(ErrorCode::invalid_argument, "rueda_busy_end was called without a rueda_busy_begin before it");
    }
    add_timeline_scope(busy_.back().what, busy_.back().since_ns);
    busy_.pop_back();
    publish_busy();
    return {};
}

void Runtime::set_end_reason(std::string_view text) { control().ranks[arena_->rank()].end_reason.write(text); }

void Runtime::abort(std::string_view reason) {
    // The store to `ended_job` comes before raise(), which tells the other ranks of the abort. It is a release store;
    // let_the_cause_end_first() reads the value with acquire.
    control().ranks[arena_->rank()].ended_job.store(1, std::memory_order_release);
    engine_.raise(ErrorCode::aborted, fmt::format("rank {} has ended the job: {}", group_.rank, reason));
}

void Runtime::let_the_cause_end_first() const {
    constexpr std::chrono::milliseconds kPatience{2000};
    // Launchers look every 100 ms for processes that have ended. With a head start of more than 100 ms, they see the
    // cause first.
    constexpr std::chrono::milliseconds kHeadStart{300};
    constexpr std::chrono::milliseconds kPause{5};
    const base::ControlBlock& block = arena_->control();
    const auto has_ended_job = [](const base::RankBlock& rank) {
        return rank.ended_job.load(std::memory_order_acquire) != 0;
    };
    const std::span ranks = std::span(block.ranks).first(arena_->plan().members);
    if (!aborted() || has_ended_job(ranks[arena_->rank()])) {
        return;
    }
    const auto cause = std::find_if(ranks.begin(), ranks.end(), has_ended_job);
    if (cause == ranks.end() || cause->pid.load(std::memory_order_acquire) == getpid()) {
        return;
    }
    const auto patient_until = std::chrono::steady_clock::now() + kPatience;
    while (!process_has_ended(*cause)) {
        if (std::chrono::steady_clock::now() >= patient_until) {
            return;
        }
        std::this_thread::sleep_for(kPause);
    }
    std::this_thread::sleep_for(kHeadStart);
}

/// Does the remaining steps of a shutdown. After a timeout or a lack of memory, the next call continues with the steps
/// that are left.
Status Runtime::shutdown_within(double timeout_seconds) {
    const Deadline deadline = deadline_in(timeout_seconds);
    const std::unique_lock lock = base::lock_before(shutdown_mutex_, deadline);
    if (lock.owns_lock() && shut_down_) {
        return {};
    }
    Status waited = lock.owns_lock() ? announce_shutdown(deadline) : Status(ErrorCode::timeout, "");
    if (waited.is_ok()) {
        waited = engine_.wait_until_closed(seconds_left(deadline));
    }
    if (waited.code() == ErrorCode::timeout) {
        return failure(ErrorCode::timeout,
                       "shutdown: not all ranks have shut down within {} s; this rank has announced it, and can start "
                       "nothing any more: call shutdown again to go on waiting, or abort to end the job",
                       timeout_seconds);
    }
    return leave_job();
}

Status Runtime::announce_shutdown(Deadline deadline) {
    control().ranks[arena_->rank()].state.store(static_cast<std::uint32_t>(base::RankState::shutting_down),
                                                std::memory_order_release);
    if (!messages_ended_) {
        engine_.end_messages();
        messages_ended_ = true;
    }
    // This rank announces its shutdown before it takes the lock `no_new_sets`. Another thread may hold this lock while
    // it adds or removes a set and waits for other ranks. The announcement ends that wait.
    RUEDA_RETURN_IF_FAILED(engine_.announce_shutdown(*world_, EndCall::shutdown, seconds_left(deadline)));
    const std::unique_lock no_new_sets = base::lock_before(process_sets_.changing(), deadline);
    if (!no_new_sets.owns_lock()) {
        return {ErrorCode::timeout, ""};
    }
    // No set can be added any more: to add a set, the ranks need an operation or messages, which are no longer
    // possible.
    for (const std::shared_ptr<ProcessSet>& set : process_sets_.joined()) {
        RUEDA_RETURN_IF_FAILED(engine_.announce_shutdown(*set, EndCall::shutdown, seconds_left(deadline)));
        // `set` needs no stall report of its own: the world's report names all missing ranks.
        set->end_to_await_end();
    }
    return {};
}

/// Leaves the job. All ranks must have announced their shutdown, or the job must have been aborted. Returns the reason
/// of the abort.
Status Runtime::leave_job() {
    const base::SigpipeBlocked without_sigpipe;  // MPI writes to connections without MSG_NOSIGNAL, so a broken
                                                 // connection could raise SIGPIPE
    base::RankBlock& block = control().ranks[arena_->rank()];
    const Status over(ErrorCode::not_initialized, "rueda::shutdown() has been called on this rank");
    const std::lock_guard no_new_sets(process_sets_.changing());
    const bool after_failure = engine_.aborted();
    Status reason = after_failure ? engine_.abort_reason() : over;  // the later steps must not need memory
    shut_down_ = true;
    engine_.stop();
    if (after_failure) {
        engine_.end_pending(reason);
    } else {
        engine_.end_for_good(reason);
        process_sets_.end();
    }
    const bool has_timeline_ended = timeline_.end();
    block.state.store(static_cast<std::uint32_t>(base::RankState::left), std::memory_order_release);
    heap_.end();
    bool has_ended_cleanly = !after_failure;
    if (bulk_ != nullptr) {
        has_ended_cleanly =
            end_bulk_transport(config_, logger_, *control_plane_, *bulk_, after_failure, {&control(), launcher_});
    }
    // If the job has not ended cleanly, another rank may have died while it left the job. MPI is then not called any
    // more.
    control_plane_->close(/*after_failure=*/!has_ended_cleanly);
    if (leaders_ != nullptr) {
        // the connections are closed so late because another host may have needed an answer of this rank until now
        leaders_->close(/*says_farewell=*/!after_failure);
    }
    metrics_endpoint_.reset();
    {
        const std::lock_guard lock(metrics_mutex_);
        has_metrics_ = false;
    }
    // After an abort the memory is not released here, because another rank may still use this rank's memory in a batch.
    keeps_or_has_released_ = !has_timeline_ended || has_ended_cleanly;
    if (has_ended_cleanly && has_timeline_ended) {
        release_memory();
    }
    // The last steps may take long: callbacks of the program, and on rank 0 the merge of a timeline. The other ranks
    // need not wait for them.
    callbacks_.stop();
    if (has_timeline_ended) {
        timeline_.merge_hosts(after_failure);
    }
    return after_failure ? std::move(reason) : Status();
}

void Runtime::release_memory() {
    engine_.release_memory();
    {
        const std::lock_guard lock(recorder_mutex_);
        recorder_ = base::RecorderWriter();  // the recorder's memory is in the arena, which is released next
    }
    scopes_.end();
    heap_.release();
}

void Runtime::release_after_abort() {
    const std::lock_guard lock(shutdown_mutex_);
    if (!shut_down_ || std::exchange(keeps_or_has_released_, true)) {
        return;
    }
    const std::lock_guard no_new_sets(process_sets_.changing());
    // After end_for_good(), no thread of this process can enter the engine. So its memory can be released below.
    engine_.end_for_good(engine_.abort_reason());
    process_sets_.end();
    heap_.end_quarantine();
    release_memory();
}

}  // namespace rueda::core
