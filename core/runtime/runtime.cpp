// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/runtime/runtime.hpp"

#include <unistd.h>

#include <cstring>
#include <span>

#include "base/clock.hpp"
#include "base/cores.hpp"
#include "base/text.hpp"
#include "base/topology.hpp"
#include "core/diagnostics/process_status.hpp"
#include "core/runtime/agreement.hpp"
#include "core/runtime/arena_setup.hpp"
#include "core/runtime/host_cores.hpp"
#include "core/runtime/host_nodes.hpp"

namespace rueda::core {
namespace {

std::optional<OtherHosts> others_of(const base::Config& config, const collectives::LocalGroup& group,
                                    collectives::ControlPlane& control_plane) {
    if (group.host_count == 1) {
        return std::nullopt;
    }
    return OtherHosts{group,
                      *control_plane.transport(),
                      {.small_bytes = config.doubling_limit_bytes,
                       .ring = config.ring,
                       .network_chunk_bytes = config.network_chunk_bytes}};
}

/// Ranks of other hosts meet over MPI only.
Status check_transport(collectives::ControlPlane& control_plane, const collectives::LocalGroup& group) {
    if (group.host_count == 1 || control_plane.transport() != nullptr) {
        return {};
    }
    std::string names;
    for (const std::string& name : group.host_names) {
        names += (names.empty() ? "" : ", ") + name;
    }
    return failure(
        ErrorCode::unsupported,
        "the {} ranks run on {} hosts ({}), and meet by {}, which joins ranks of one host: start them by "
        "ruedarun or mpirun, which need MPI for several hosts; ranks of one host run as the same user and in "
        "the same container",
        group.size, group.host_count, names, control_plane.description());
}

/// What all ranks of several hosts must have alike comes from rank 0.
Status agree_on_crossing(collectives::ControlPlane& control_plane, base::Config& config) {
    if (control_plane.transport() == nullptr) {
        return {};
    }
    struct Crossing {
        std::uint64_t doubling_limit_bytes;
        std::uint64_t network_chunk_bytes;
        std::uint64_t ring;
        double host_timeout_seconds;
    };
    const Crossing mine{config.doubling_limit_bytes, config.network_chunk_bytes, config.ring ? 1U : 0U,
                        config.host_timeout_seconds};
    const Result<collectives::Bytes> bytes = control_plane.broadcast(std::as_bytes(std::span(&mine, 1)), 0);
    RUEDA_RETURN_IF_FAILED(bytes.status());
    Crossing agreed{};
    if (bytes.value().size() != sizeof(agreed)) {
        return failure(ErrorCode::internal, "rank 0 announced its settings with {} bytes instead of {}",
                       bytes.value().size(), sizeof(agreed));
    }
    std::memcpy(&agreed, bytes.value().data(), sizeof(agreed));
    config.doubling_limit_bytes = agreed.doubling_limit_bytes;
    config.network_chunk_bytes = agreed.network_chunk_bytes;
    config.ring = agreed.ring != 0;
    config.host_timeout_seconds = agreed.host_timeout_seconds;
    return {};
}

void fill_rank_block(collectives::Arena& arena, int global_rank) {
    base::RankBlock& block = arena.control().ranks[arena.rank()];
    block.pid.store(getpid(), std::memory_order_relaxed);
    block.global_rank.store(global_rank, std::memory_order_relaxed);
    block.process_start.store(process_start_time(getpid()), std::memory_order_relaxed);
    block.heartbeat_ns.store(base::monotonic_ns(), std::memory_order_relaxed);
    block.state.store(static_cast<std::uint32_t>(base::RankState::running), std::memory_order_release);
}

}  // namespace

Runtime::Runtime(const base::Config& config, std::unique_ptr<collectives::ControlPlane> control_plane,
                 collectives::LocalGroup group, std::shared_ptr<collectives::Arena> arena,
                 const NegotiationExtent& extent, double cores, const collectives::NumaNodes& nodes)
    : config_(config),
      control_plane_(std::move(control_plane)),
      group_(std::move(group)),
      logger_(config, group_.rank),
      arena_(std::move(arena)),
      heap_(arena_, config.resident_limit_bytes),
      set_(config, arena_, extent, nodes, others_of(config, group_, *control_plane_)),
      engine_(config, arena_, set_, logger_, cores, [this] { heap_.quarantine(); }),
      pid_(getpid()) {}

Runtime::~Runtime() { shutdown(); }

Result<std::unique_ptr<Runtime>> Runtime::create(const base::Config& config,
                                                 std::unique_ptr<collectives::ControlPlane> control_plane) {
    collectives::ControlPlane& plane = *control_plane;
    Result<std::unique_ptr<Runtime>> runtime = meet(config, std::move(control_plane));
    if (!runtime.is_ok()) {
        return runtime;
    }
    Status status = plane.barrier();  // all rank blocks are filled
    if (status.is_ok()) {
        status = runtime.value()->engine_.start();
    }
    if (!status.is_ok()) {
        // The others are past the last point where all agree, and would wait for this rank for ever.
        runtime.value()->engine_.raise(ErrorCode::aborted, fmt::format("rank {} could not start: {}",
                                                                       runtime.value()->group_.rank, status.message()));
        runtime.value()->abandon();
        return status;
    }
    runtime.value()->say_if_bound_to_one_core();
    return runtime;
}

/// Everything before the first thread: the group, the arena, the object. Closes the control plane if it fails.
Result<std::unique_ptr<Runtime>> Runtime::meet(const base::Config& settings,
                                               std::unique_ptr<collectives::ControlPlane> control_plane) {
    base::Config config = settings;
    const auto refuse = [&](const Status& status) {
        // What all ranks refuse together ends orderly; a broken connection cannot.
        control_plane->close(/*after_failure=*/status.code() == ErrorCode::aborted);
        return status;
    };
    Result<collectives::LocalGroup> group = collectives::find_local_group(*control_plane, config.hostname);
    if (!group.is_ok()) {
        return refuse(group.status());
    }
    if (Status reachable = check_transport(*control_plane, group.value()); !reachable.is_ok()) {
        return refuse(reachable);
    }
    Status fits;  // on this host; others may have fewer
    if (group.value().local_size > base::kMaxLocalRanks) {
        fits = failure(ErrorCode::unsupported, "{} ranks on one host; this version works with up to {}",
                       group.value().local_size, base::kMaxLocalRanks);
    }
    if (Status all_fit = agree_on(*control_plane, fits); !all_fit.is_ok()) {
        return refuse(all_fit);
    }
    if (Status agreed = agree_on_crossing(*control_plane, config); !agreed.is_ok()) {
        return refuse(agreed);
    }
    const Result<base::Topology> topology = base::read_topology(config.topology);
    if (Status read = agree_on(*control_plane, topology.status()); !read.is_ok()) {
        return refuse(read);
    }
    const Result<HostNodes> nodes = nodes_of_host(config, topology.value(), *control_plane, group.value());
    if (!nodes.is_ok()) {
        return refuse(nodes.status());
    }
    Result<AttachedArena> attached =
        set_up_arena(config, *control_plane, group.value(), std::uint64_t{topology.value().l2_bytes});
    if (!attached.is_ok()) {
        return refuse(attached.status());
    }
    Result<double> cores = cores_of_host(*control_plane, group.value());
    if (!cores.is_ok()) {
        return refuse(cores.status());
    }
    std::unique_ptr<Runtime> runtime(new Runtime(config, std::move(control_plane), std::move(group).value(),
                                                 attached.value().arena, attached.value().extent, cores.value(),
                                                 nodes.value().nodes));
    fill_rank_block(*runtime->arena_, runtime->group_.rank);
    runtime->logger_.info("rank {} of {}: {}, cells of {}, {} for resident tensors", runtime->group_.rank,
                          runtime->group_.size, runtime->control_plane_->description(),
                          base::format_bytes(runtime->arena_->plan().cell_bytes),
                          base::format_bytes(runtime->arena_->plan().resident_bytes));
    if (runtime->group_.is_leader() && !nodes.value().warning.empty()) {
        runtime->logger_.warning("{}", nodes.value().warning);
    }
    return runtime;
}

/// mpirun binds two ranks to a core each by default: the trainer and the background thread take turns then.
void Runtime::say_if_bound_to_one_core() const {
    if (group_.rank == 0 && base::affinity_cores() == 1 && sysconf(_SC_NPROCESSORS_ONLN) > group_.local_size) {
        logger_.warning(
            "this rank is bound to one core, where communication and computation take turns; the machine has {} cores "
            "for {} "
            "ranks: start with mpirun --bind-to none, or with ruedarun",
            sysconf(_SC_NPROCESSORS_ONLN), group_.local_size);
    }
}

void Runtime::abandon() {
    shut_down_ = true;
    control_plane_->close(/*after_failure=*/true);
}

Status Runtime::start(std::string_view name, const Request& request, Completion& completion) {
    RUEDA_RETURN_IF_FAILED(set_.submit(name, request, completion, Urgency::background));
    engine_.attend();
    return {};
}

Status Runtime::start(TensorEntry& entry, const Request& request, Completion& completion) {
    RUEDA_RETURN_IF_FAILED(set_.submit(entry, request, completion, Urgency::background));
    engine_.attend();
    return {};
}

Status Runtime::start_allreduce(TensorEntry* entry, std::string_view name, const rueda_tensor& in,
                                const rueda_tensor& out, const rueda_options& options, Completion& completion) {
    RUEDA_RETURN_IF_FAILED(set_.submit_allreduce(entry, name, in, out, options, completion, Urgency::background));
    engine_.attend();
    return {};
}

Status Runtime::run_allreduce(TensorEntry* entry, std::string_view name, const rueda_tensor& in,
                              const rueda_tensor& out, const rueda_options& options, Completion& completion) {
    return engine_.run(
        [&](Urgency urgency) { return set_.submit_allreduce(entry, name, in, out, options, completion, urgency); },
        completion);
}

Status Runtime::start_group(std::span<const std::string> names, std::span<const Request> requests,
                            Completion& completion) {
    RUEDA_RETURN_IF_FAILED(set_.submit_group(names, requests, completion, Urgency::background));
    engine_.attend();
    return {};
}

Status Runtime::run(std::string_view name, const Request& request, Completion& completion) {
    return engine_.run([&](Urgency urgency) { return set_.submit(name, request, completion, urgency); }, completion);
}

Status Runtime::run(TensorEntry& entry, const Request& request, Completion& completion) {
    return engine_.run([&](Urgency urgency) { return set_.submit(entry, request, completion, urgency); }, completion);
}

bool Runtime::poll(const Completion& completion) {
    if (!completion.done()) {
        engine_.poll();
    }
    return completion.done();
}

void Runtime::begin_busy(std::string_view what) {
    const std::lock_guard lock(busy_mutex_);
    busy_.emplace_back(what);
    control().ranks[arena_->rank()].busy.write(what);
}

Status Runtime::end_busy() {
    const std::lock_guard lock(busy_mutex_);
    if (busy_.empty()) {
        return failure(ErrorCode::invalid_argument, "rueda_busy_end without a rueda_busy_begin before it");
    }
    busy_.pop_back();
    control().ranks[arena_->rank()].busy.write(busy_.empty() ? std::string_view() : std::string_view(busy_.back()));
    return {};
}

void Runtime::set_last_words(std::string_view text) { control().ranks[arena_->rank()].last_words.write(text); }

void Runtime::shutdown() {
    const std::lock_guard lock(shutdown_mutex_);
    if (shut_down_) {
        return;
    }
    shut_down_ = true;
    base::RankBlock& block = control().ranks[arena_->rank()];
    block.state.store(static_cast<std::uint32_t>(base::RankState::shutting_down), std::memory_order_release);
    while (!engine_.aborted() && !set_.announce_shutdown()) {
        engine_.poll();  // the mailbox is full: the log has to move
    }
    static_cast<void>(engine_.wait_until_closed());
    const bool after_failure = engine_.aborted();
    engine_.stop();
    engine_.end_pending(after_failure
                            ? engine_.abort_reason()
                            : failure(ErrorCode::not_initialized, "rueda::shutdown() has been called on this rank"));
    block.state.store(static_cast<std::uint32_t>(base::RankState::left), std::memory_order_release);
    control_plane_->close(after_failure);
}

}  // namespace rueda::core
