// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/process_set.hpp"

#include <mutex>

namespace rueda::core {

namespace {

SetView view_of(const SetIdentity& identity, const collectives::Arena& arena,
                const NegotiationMemory<base::StdAtomics>& memory, const std::optional<OtherHosts>& others) {
    const std::uint32_t rank = arena.rank();
    return {.identity = identity,
            .arena = arena,
            .memory = memory,
            .rank = rank,
            .set_rank = others ? static_cast<std::uint32_t>(others->group.rank) : rank,
            .set_size = others ? static_cast<std::uint32_t>(others->group.size) : memory.extent().members};
}

}  // namespace

ProcessSet::ProcessSet(const base::Config& config, SetIdentity identity, std::shared_ptr<collectives::Arena> arena,
                       const NegotiationExtent& extent, const std::optional<OtherHosts>& others,
                       std::atomic<std::uint32_t>& pending)
    : identity_(std::move(identity)),
      arena_(std::move(arena)),
      memory_(arena_->negotiation(), extent),
      view_(view_of(identity_, *arena_, memory_, others)),
      cursor_(view_),
      waking_(view_),
      joined_(view_, waking_),
      reasons_(view_),
      recording_(view_),
      ends_(view_, waking_, recording_, pending),
      announced_(view_),
      outputs_(identity_, view_.set_rank),
      reduction_(extent.members),
      inspection_(config, view_),
      direct_execution_(view_, reduction_, announced_, outputs_),
      // If operations are checked, no operation is announced directly. To compare the results of every n-th allreduce,
      // all ranks must count the same allreduces. They count those in the log, and the log does not contain directly
      // announced operations.
      direct_(view_, /*is_allowed=*/!inspection_.is_on(), direct_execution_, recording_, ends_, joined_, waking_,
              cursor_),
      announcer_(config, view_, others ? Announcer::Caller::leader : Announcer::Caller::last_rank,
                 {inspection_, direct_, joined_, recording_, ends_, reasons_, waking_, cursor_}),
      groups_(view_, announcer_),
      verification_(view_, inspection_, announcer_, ends_),
      join_(view_, inspection_.is_on(), announcer_, direct_, joined_, announced_, ends_, waking_, cursor_),
      hosts_(config, arena_, others, view_, {announcer_, joined_, ends_, waking_}),
      answers_(view_, {announcer_, direct_, groups_, join_, announced_, ends_, reasons_, waking_, cursor_}),
      runner_(config, view_,
              {announcer_, direct_, groups_, inspection_, verification_, join_, answers_, hosts_, reduction_,
               announced_, outputs_, recording_, ends_, waking_, cursor_}) {}

void ProcessSet::fail_all(const Status& reason) noexcept {
    const std::lock_guard lock(announcer_.enqueue_mutex());
    runner_.abandon(reason);
    join_.end(reason);
    announcer_.fail_all(reason);
}

Result<bool> ProcessSet::claim_device(std::int32_t device) {
    std::int32_t claimed = -1;
    const bool is_first = device_.compare_exchange_strong(claimed, device, std::memory_order_relaxed);
    if (is_first || claimed == device) {
        return is_first;
    }
    return failure(ErrorCode::invalid_argument,
                   "{}the tensor is on device {}, and this rank has used device {} in this process set; use one device "
                   "for all operations of a process set, and another set for another device",
                   identity_.title(), device, claimed);
}

void ProcessSet::release_memory() {
    const std::lock_guard lock(announcer_.enqueue_mutex());
    runner_.release_memory();
    hosts_.release_memory();
    announcer_.table().release();
}

std::vector<AwaitedTensor> ProcessSet::awaited_by(const Completion& completion) {
    const std::lock_guard lock(announcer_.enqueue_mutex());
    std::vector<AwaitedTensor> awaited;
    if (join_.is_awaited_by(completion)) {
        awaited.push_back({.name = "join()"});
    }
    announcer_.add_awaited(completion, awaited);
    return awaited;
}

}  // namespace rueda::core
