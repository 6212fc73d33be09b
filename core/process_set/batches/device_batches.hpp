// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "core/diagnostics/launched_batch.hpp"
#include "core/negotiation/device_state.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/batches/called_batch.hpp"
#include "core/process_set/common/operation_ends.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Executes the batches of a process set whose tensors are in device memory (docs/design/0020-gpu.md).
///
/// For the set, a batch is done when its work has been given to the device (it is launched). The set does not wait for
/// the end of this work, so the next batch can follow at once. The operations of the batch end when the device has done
/// the work; turn() checks for this.
///
/// Before its first batch, the set connects a communicator. All members connect at the same position of the log, so
/// they need not agree on a time to connect. They exchange their offers (what each of them needs to connect) by an
/// allgather of the communicator for the CPU.
///
/// Threads: the thread that drives progress. Any thread may call has_launched() and oldest().
class DeviceBatches {
public:
    /// All references must outlive this object.
    DeviceBatches(const SetView& view, OperationEnds& ends, collectives::DevicePath path)
        : view_(view), ends_(ends), path_(path), task_(*this) {}

    /// Starts the batch. The task is done when the batch is launched or refused. When the task is done, the caller must
    /// call finish(). If a step of the task fails, failed() has the reason. `host` is the set's communicator for
    /// tensors in the memory of the host; it must outlive this object. If `after_splits` is true, the members have
    /// already exchanged the splits of the operation, and execute it as an alltoall.
    [[nodiscard]] collectives::Task& start(const CalledBatch& batch, collectives::Communicator& host,
                                           bool after_splits);
    /// Takes over the operations of the batch that start() has launched. The names of the operations may then be
    /// submitted again. If the members have refused the batch, the operations end with the reason, which is the same on
    /// all members.
    void finish(std::span<TensorEntry* const> entries);

    /// Ends the operations whose work the device has done. Returns whether any operation ended.
    bool turn();
    /// Whether there are operations that were launched but have not ended.
    [[nodiscard]] bool has_launched() const {
        // This acquire load pairs with the release in end_first(). A thread that sees a lower count also sees that the
        // operations which are no longer counted have ended.
        return launched_count_.load(std::memory_order_acquire) != 0;
    }
    /// Returns the oldest batch whose work the device has not done. Returns nothing if there is no such batch.
    [[nodiscard]] std::optional<LaunchedBatch> oldest() const {
        const std::lock_guard lock(oldest_mutex_);
        return oldest_;
    }
    /// Returns the reason why no batch can continue, or success. The reason ends the job.
    [[nodiscard]] const Status& failed() const { return failed_; }
    /// Ends the launched operations with `reason`. If the job was aborted, also ends the work on the device.
    void abandon(const Status& reason) noexcept;
    /// Disconnects. Call this when no further batch will run.
    void release() { communicator_ = nullptr; }

private:
    /// The task that takes a batch through its phases.
    class LaunchTask final : public collectives::Task {
    public:
        explicit LaunchTask(DeviceBatches& batches) : batches_(batches) {}
        collectives::StepResult step() override;
        [[nodiscard]] std::optional<collectives::BatchChunks> chunks() const override;

    private:
        DeviceBatches& batches_;
    };
    enum class Phase : std::uint8_t {
        exchanging,  ///< the members exchange their offers
        connecting,  ///< the communicator connects
        launching,   ///< the batch is being given to the device
        launched,
        refused,  ///< the members cannot execute batches in device memory; `refusal_` says why
    };
    /// The operations of one launched batch. The device has got their work and has not finished it.
    struct Launched {
        LaunchedBatch about{};
        collectives::DeviceEventPtr end{};
        std::vector<collectives::DeviceEventPtr> inputs{};  // events of earlier work of the program, for which this
                                                            // batch waits
        std::vector<collectives::TensorMemory> memory{};    // the memory that the device uses until the event `end`
        std::int64_t looked_ns = 0;            // when this rank last checked `inputs`, or when the batch was launched
        std::vector<std::uint64_t> records{};  // the numbers that the flight recorder gave the operations
        // The completions of the operations. An operation for which no caller waits has no completion.
        std::vector<Completion*> completions{};
    };

    [[nodiscard]] Status begin_exchange(collectives::Communicator& host);
    [[nodiscard]] const DeviceUse* own_use() const;
    [[nodiscard]] std::shared_ptr<collectives::SharedMemory> shared_memory(const DeviceUse& use) const;
    [[nodiscard]] collectives::StepResult step();
    [[nodiscard]] collectives::StepResult step_inner();
    [[nodiscard]] collectives::StepResult exchange();
    [[nodiscard]] collectives::StepResult connect();
    [[nodiscard]] collectives::StepResult launch();
    [[nodiscard]] collectives::StepResult fail(const Status& reason);
    void start_on_device();
    void take_possible(const collectives::Batch& batch);
    [[nodiscard]] collectives::TensorMemory memory_of(const DeviceUse* use,
                                                      std::span<const collectives::Location> locations) const;
    void end_first(const Status& status);
    void launch_operations(Launched& batch, std::span<TensorEntry* const> entries);
    [[nodiscard]] LaunchedBatch describe(std::span<TensorEntry* const> entries, std::uint64_t position) const;
    void look_at_inputs(Launched& batch);
    void note_times(const Launched& batch);
    void publish(DeviceState::Phase phase);
    void publish_oldest();

    SetView view_;
    OperationEnds& ends_;
    const collectives::DevicePath path_;
    LaunchTask task_;
    Phase phase_ = Phase::exchanging;
    const CalledBatch* batch_ = nullptr;
    bool after_splits_ = false;
    collectives::Task* inner_ = nullptr;  // the task in progress, of the communicator for the CPU or for the device
    collectives::StepWork work_ = collectives::StepWork::none;  // what the last step did
    std::unique_ptr<collectives::DeviceCommunicator> communicator_;
    std::int32_t device_ = -1;  // the device of `communicator_`
    Status refusal_;
    Status failed_;
    // for the exchange of the offers: this member's offer, the offers of all members, and the batch that moves them
    std::vector<collectives::DeviceCommunicator::Offer> own_offer_;
    std::vector<collectives::DeviceCommunicator::Offer> offers_;
    std::vector<collectives::Segment> exchange_segments_;
    std::vector<collectives::Location> exchange_locations_;
    std::vector<std::int64_t> exchange_rows_;
    // the batch in the form of the device communicator, without the tensors that the communicator refuses
    std::vector<Status> refusals_;  // for each tensor of the batch: success, or why it is left out
    std::vector<collectives::Segment> segments_;
    std::vector<collectives::Location> locations_;
    std::vector<collectives::DeviceEventPtr> ready_;
    std::vector<collectives::TensorMemory> memory_;
    std::vector<std::int64_t> splits_;
    std::list<Launched> launched_;                // a list, because an empty list needs no memory
    std::atomic<std::size_t> launched_count_{0};  // the size of launched_, for other threads
    DeviceState state_;                           // what the other ranks see in their stall reports
    mutable std::mutex oldest_mutex_;             // guards oldest_; a thread that holds it takes no other lock
    std::optional<LaunchedBatch> oldest_;         // describes the oldest batch in launched_, for stall reports
    // the members cannot execute batches on devices together, and all members know this
    bool is_refused_for_good_ = false;
};

}  // namespace rueda::core
