// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "collectives/cuda/ready_events.hpp"
#include "collectives/cuda/staged/shared_area.hpp"
#include "collectives/cuda/staged/staging_device.hpp"
#include "collectives/cuda/staged/staging_plan.hpp"

namespace rueda::collectives::cuda {

/// Moves one batch of device tensors through pinned memory of the host. Each piece of the batch goes through four
/// states:
///
/// - "copied in": the device copies the piece's inputs to the piece's block of pinned memory.
/// - "on the CPU": the set's communicator for the CPU executes the piece's operation. Only one piece at a time is in
///   this state.
/// - "copied out": the device copies the outputs from the block.
/// - "returned": the device has done these copies, and another piece can use the block.
///
/// While the CPU works on one piece, the device copies the next pieces in and earlier pieces out. The task is done when
/// the last copy out is in its stream, with an event behind it. The GPU never waits for another member. Batches of
/// several process sets therefore cannot block each other, whatever their order on each rank is.
///
/// The host asks the driver whether events were reached, and never waits for them. The copies begin only when the
/// tensors' ready events are reached. After an abort, the device therefore has at most a few copies to do, and no work
/// that waits for other members.
///
/// Threads: one at a time.
class StagedTask final : public Task {
public:
    /// The largest number of pieces in progress: one is being copied in, one is on the CPU, and two are being copied
    /// out. A piece that is larger than the task's `piece_bytes` is in progress only while no other piece is.
    static constexpr std::size_t kBlocks = 4;
    /// The size of a piece. At this size, copies between an H200 and pinned memory reach 80 % of their bandwidth, and
    /// the CPU's work on a piece still begins early. A measured copy of 16 MiB took 313 µs, and one of 1 MiB took 28
    /// µs.
    static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
    /// How long the destructor of a task waits for copies that the device has not done.
    static constexpr std::chrono::milliseconds kEndLimit{1000};

    /// The maximum number of bytes that the gaps between a piece's tensors take in shared memory, in addition to the
    /// maximum size of the piece's data.
    static constexpr std::size_t kGapBytes = std::size_t{64} << 10;

    /// `host` must outlive the task. `shared` is null if the members are on several hosts. If it is not null, and if
    /// all members can pin shared memory, allreduces go through memory that all members share.
    StagedTask(std::shared_ptr<StagingDevice> device, Communicator& host, std::uint32_t member, std::uint32_t members,
               std::size_t piece_bytes, std::shared_ptr<SharedMemory> shared = nullptr);
    /// Waits until the device has done the task's copies, at most for kEndLimit. If the copies or the CPU's operation
    /// have not ended by then, the pinned memory stays allocated until the process ends.
    ~StagedTask() override;
    StagedTask(const StagedTask&) = delete;
    StagedTask& operator=(const StagedTask&) = delete;

    /// The spans in `batch` must stay valid until the task is done. `batch.host` has the same tensors as
    /// `batch.segments`.
    void begin(const DeviceBatch& batch);
    /// Takes all blocks of the batch now, so that no step allocates pinned memory. Call this before the first step if
    /// the device will have work of this batch that waits for other members. The driver may let an allocation wait for
    /// such work. If a member died meanwhile, the waiting thread would not notice its death.
    void reserve();
    StepResult step() override;
    /// The chunks of the piece that is on the CPU.
    [[nodiscard]] std::optional<BatchChunks> chunks() const override {
        return inner_ == nullptr ? std::nullopt : inner_->chunks();
    }
    /// Returns the phase that the task is in. The phase says what the task waits for.
    [[nodiscard]] LaunchPhase phase() const;

    [[nodiscard]] const Status& failed() const { return failure_; }
    [[nodiscard]] const DeviceEventPtr& end() const { return end_; }

private:
    using Direction = StagingDevice::Stream;  // this class uses only the values to_host and to_device
    /// A piece that is being copied in, or that is on the CPU.
    struct Stage {
        PinnedBlock block{};
        DeviceEventPtr copied_in{};  // null if the piece has no input on this member
        std::uint64_t number = 0;    // the piece's number in the shared area; 0 if the block is not there
    };
    /// A block whose piece is being copied out.
    struct Leaving {
        PinnedBlock block{};
        DeviceEventPtr copied_out{};
        std::uint64_t number = 0;  // see Stage::number
    };

    [[nodiscard]] Result<StepResult> advance();
    [[nodiscard]] Status return_blocks();
    void return_block(const PinnedBlock& block, std::uint64_t number);
    [[nodiscard]] Result<StepResult> connect_area();
    [[nodiscard]] bool uses_area(const StagedPiece& piece) const;
    [[nodiscard]] StepResult step_inner();
    [[nodiscard]] bool may_take_block() const;
    [[nodiscard]] Status take_all_blocks();
    [[nodiscard]] Result<PinnedBlock> take_block(std::size_t bytes);
    void end_reservation() noexcept;
    [[nodiscard]] Status copy_in();
    [[nodiscard]] Result<StepResult> work_on_cpu();
    [[nodiscard]] bool are_members_ready();
    void start_on_cpu();
    void use_area_of_members(const StagedPart& part, std::uint64_t number, std::span<Location> locations) const;
    [[nodiscard]] Status copy_out();
    [[nodiscard]] Status finish();
    [[nodiscard]] Status copy(Direction direction, const StagedPiece& piece, const PinnedBlock& block,
                              DeviceEventPtr& event);
    [[nodiscard]] bool wait_for_copies() noexcept;
    [[nodiscard]] std::span<const StagedPart> parts_of(const StagedPiece& piece) const;

    const std::shared_ptr<StagingDevice> device_;
    Communicator& host_;
    const std::uint32_t member_;
    const std::uint32_t members_;
    const std::size_t piece_bytes_;
    std::unique_ptr<SharedArea> area_;  // null if the members share no memory

    DeviceBatch batch_;
    StagingPlan plan_;
    Status failure_;
    DeviceEventPtr end_;
    ReadyEvents ready_;
    std::size_t copied_in_ = 0;  // the number of pieces whose copies to the host are in their stream
    std::size_t on_cpu_ = 0;     // the number of pieces that the CPU has done
    std::deque<Stage> stages_;   // the pieces `on_cpu_` to `copied_in_ - 1`
    std::deque<Leaving> leaving_;
    std::vector<PinnedBlock> reserved_;  // the blocks that the batch reserved and that are not in use
    bool is_reserved_ = false;           // whether reserve() was called for the batch
    Task* inner_ = nullptr;              // the task of `host_` in progress, or null
    bool is_done_ = true;
    // the batch that is given to `host_`, the communicator for the CPU
    std::vector<Segment> segments_;
    std::vector<Location> locations_;
    // the exchange in which the members tell each other where their areas are; vectors are indexed by member
    std::uint64_t own_place_ = 0;
    std::vector<std::uint64_t> places_;
    std::vector<std::int64_t> ones_;
    bool waits_for_members_ = false;  // whether the first piece in `stages_` has this member's input already, but still
                                      // waits for inputs of other members
    std::uint64_t area_pieces_ = 0;   // the number of the last piece in the area
};

}  // namespace rueda::collectives::cuda
