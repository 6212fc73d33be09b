// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collectives/host/host_communicator.hpp"

namespace rueda::tests {

/// The communicator of one host. It tells the stand-in which pinned memory the CPU reads and writes, and when. The
/// stand-in then reports an access of the CPU that is not ordered with the device's copies.
///
/// Threads: as for Communicator.
class WatchedHost final : public collectives::Communicator {
public:
    /// `keeps_own_proposals` plants a defect. By an operation of this communicator, the members compute the
    /// highest of the numbers that they propose for a batch. With the defect, this member gets its own number as the
    /// result.
    explicit WatchedHost(std::shared_ptr<collectives::Arena> arena, bool keeps_own_proposals = false)
        : members_(arena->plan().members),
          member_(arena->rank()),
          keeps_own_proposals_(keeps_own_proposals),
          host_(std::move(arena)),
          task_(*this) {}

    collectives::Task& start(const collectives::Batch& batch) override;
    bool exchanges_splits() const override { return host_.exchanges_splits(); }
    collectives::Task& start_splits(std::span<const std::int64_t> to, std::span<std::int64_t> from) override {
        return host_.start_splits(to, from);
    }
    const Status& failed() const override { return host_.failed(); }
    void abandon() override { host_.abandon(); }

private:
    class WatchedTask final : public collectives::Task {
    public:
        explicit WatchedTask(WatchedHost& owner) : owner_(owner) {}
        collectives::StepResult step() override;
        std::optional<collectives::BatchChunks> chunks() const override { return owner_.inner_->chunks(); }

    private:
        WatchedHost& owner_;
    };
    struct Memory {
        const std::byte* address = nullptr;
        std::size_t bytes = 0;
        bool is_output = false;
    };

    void note(const collectives::Batch& batch, std::size_t segment);
    void access() const;
    void plant() const;

    const std::uint32_t members_;
    const std::uint32_t member_;
    const bool keeps_own_proposals_;
    collectives::HostCommunicator host_;
    WatchedTask task_;
    collectives::Task* inner_ = nullptr;
    std::vector<Memory> memory_;
    // Whether the members exchange one number in the current batch (OrderTask), and no tensor. Numbers and offers lie
    // in the plugin's own memory, which no device uses.
    bool exchanges_number_ = false;
    collectives::Segment first_;  // the first tensor of the batch in progress
};

}  // namespace rueda::tests
