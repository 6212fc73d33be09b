// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/cuda/order/launch_order.hpp"
#include "collectives/cuda/order/nccl_sets.hpp"
#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::collectives::cuda {

/// Waits until the device may launch a batch of a process set. The task goes through these phases:
///
///     asking     the set has no order of batches yet: its members tell each other whether one of them needs an
///                order. If none does, the task is done
///     barrier    the members wait for each other; only if begin() asks for it
///     proposing  the batch is in the list of batches, and the members exchange proposals (by the CPU's communicator)
///     waiting    batches of other sets in the list go first
///     entered    the task is done, and the batch keeps its place in the list until leave()
///
/// When a member has entered a batch, this batch can hold back the batches of other sets on the member's device, until
/// the members have exchanged their proposals. Until then, no other member may be blocked in a wait for a device. No
/// member can be blocked if the set's last batch was done as soon as its work was launched. After any other batch, the
/// members therefore wait for each other ("meet") before they enter the next one.
///
/// Threads: one at a time.
class OrderTask final : public Task {
public:
    /// `host` is the set's communicator for the CPU, and must outlive the task. `use` is the field `owner` of this
    /// rank's entry in `sets` (NcclSets::Use).
    OrderTask(std::shared_ptr<LaunchOrder> order, std::shared_ptr<NcclSets> sets, const void* use, Communicator& host,
              int device, std::int32_t set)
        : order_(std::move(order)), sets_(std::move(sets)), use_(use), host_(host), device_(device), set_(set) {}
    ~OrderTask() override { leave(); }
    OrderTask(const OrderTask&) = delete;
    OrderTask& operator=(const OrderTask&) = delete;

    enum class First : std::uint8_t { ask, meet, propose };
    /// `local_members` is the number of members on this host. All members must pass the same value of `first`.
    void begin(std::size_t local_members, First first);
    StepResult step() override;
    /// Whether the batches of the set have a place in the order. A set without an order gets one if the members ask
    /// each other (First::ask) and one of them needs an order.
    [[nodiscard]] bool has_order() const { return has_order_; }
    void set_order(bool has_order) { has_order_ = has_order; }
    /// Gives up the batch's place in the order, because the batch was launched or will never be launched.
    void leave() noexcept;

    /// Returns the phase that the task is in. The phase says what the task waits for.
    [[nodiscard]] LaunchPhase phase() const {
        return phase_ == Phase::waiting ? LaunchPhase::waits_for_set : LaunchPhase::agrees_on_order;
    }
    /// The process set whose batch goes first. Valid if phase() is LaunchPhase::waits_for_set.
    [[nodiscard]] std::int32_t awaited_set() const { return awaited_set_; }

private:
    enum class Phase : std::uint8_t { asking, barrier, proposing, waiting, entered, idle };

    void exchange(std::uint64_t own);
    void propose();
    [[nodiscard]] StepResult step_exchange();
    [[nodiscard]] StepResult look();

    const std::shared_ptr<LaunchOrder> order_;
    const std::shared_ptr<NcclSets> sets_;
    const void* const use_;
    Communicator& host_;
    const int device_;
    const std::int32_t set_;
    bool has_order_ = false;
    Phase phase_ = Phase::idle;
    std::int32_t awaited_set_ = -1;
    // input and output of the exchange: this member's number, and the highest number of all members
    std::uint64_t own_ = 0;
    std::uint64_t highest_ = 0;
    Segment segment_;
    std::vector<Location> locations_;
    Task* inner_ = nullptr;
};

}  // namespace rueda::collectives::cuda
