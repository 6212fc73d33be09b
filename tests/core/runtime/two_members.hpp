// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <memory>

#include "core/operations/requests.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/announcing/announcement_writer.hpp"
#include "core/process_set/batches/announced.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::tests {

/// Two members of a process set on one host, with the memory that the parts of a process set need. The members are
/// ranks 3 and 5 of the job. One thread plays both.
class TwoMembers {
public:
    using Memory = core::NegotiationMemory<base::StdAtomics>;
    static constexpr std::uint32_t kSlot = 2;  ///< the first slot for names

    /// If `attachments` is not 0, the set has a third member on another host: rank 8 of the job.
    explicit TwoMembers(std::uint32_t attachments = 0) {
        extent_.members = 2;
        extent_.unnamed_slots = kSlot;
        extent_.initial_slots = 8;
        extent_.slots = 8;
        extent_.attachments = attachments;
        extent_.attachment_bytes = attachments != 0 ? 64 : 0;
        extent_.call_sites = 1;
        if (attachments != 0) {
            identity_.ranks.push_back(8);
        }
        collectives::ArenaPlan plan;
        plan.members = 2;
        plan.negotiation_bytes = Memory::bytes(extent_);
        plan.cell_bytes = 1024;
        plan.resident_bytes = 1U << 16U;
        const base::UniqueFd fd = collectives::Arena::create_memory(plan).value();
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
            arenas_[rank] = collectives::Arena::map(base::UniqueFd(::dup(fd.value())), plan, rank).value();
            if (rank == 0) {
                arenas_[rank]->initialise();
                Memory::initialise(arenas_[rank]->negotiation(), extent_);
            }
            arenas_[rank]->control().ranks[rank].global_rank.store(identity_.ranks[rank]);
            memories_[rank] = std::make_unique<Memory>(arenas_[rank]->negotiation(), extent_);
        }
    }

    [[nodiscard]] core::SetView view(std::uint32_t rank) const {
        return {identity_, *arenas_[rank], *memories_[rank],
                rank,      rank,           static_cast<std::uint32_t>(identity_.ranks.size())};
    }
    [[nodiscard]] const core::SetIdentity& identity() const { return identity_; }
    [[nodiscard]] collectives::Arena& arena(std::uint32_t rank) const { return *arenas_[rank]; }
    [[nodiscard]] const Memory& memory() const { return *memories_[0]; }
    [[nodiscard]] core::Place<base::StdAtomics>& place(std::uint32_t rank, const core::TensorEntry& entry) const {
        return memory().place(entry.slot, rank, entry.generation);
    }

    /// Writes a member's announcement of the operation that `entry` describes.
    void announce(std::uint32_t rank, const core::TensorEntry& entry) const {
        const core::AnnouncementWriter writer(view(rank));
        auto& place = memories_[rank]->place(entry.slot, rank, entry.generation);
        static_cast<void>(writer.fill(place, entry, entry.generation, /*with_metadata=*/true));
        writer.fill_splits(place, entry);
        writer.write_site(entry);
        core::AnnouncementWriter::publish(place, entry, entry.generation, std::memory_order_release);
    }

private:
    core::NegotiationExtent extent_;
    core::SetIdentity identity_{7, {3, 5}};
    std::array<std::shared_ptr<collectives::Arena>, 2> arenas_;
    std::array<std::unique_ptr<Memory>, 2> memories_;
};

/// One member's pending operation in a slot. Its tensor has `rows` rows of four floats. If it is an allreduce, it uses
/// only the first four floats.
struct Pending {
    explicit Pending(float first = 1, std::int64_t rows = 1) : values(static_cast<std::size_t>(4 * rows)) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = first + static_cast<float>(i);
        }
        shape = {rows, 4};
        entry.name = "pending";
        entry.slot = TwoMembers::kSlot;
        entry.generation = 1;
        entry.completion = &completion;
        entry.pending = true;
        entry.request.source_file = "train.py";
        entry.request.source_line = 17;
    }
    [[nodiscard]] rueda_tensor tensor() { return {values.data(), shape.data(), 2, RUEDA_FLOAT32}; }
    [[nodiscard]] rueda_tensor flat() { return {values.data(), &shape[1], 1, RUEDA_FLOAT32}; }

    Pending& allreduce() {
        REQUIRE(core::make_allreduce(flat(), flat(), options, entry.request).is_ok());
        return *this;
    }
    Pending& allgather() {
        REQUIRE(core::make_allgather(tensor(), nullptr, options, entry.request).is_ok());
        return *this;
    }
    Pending& reducescatter(int rank, int size) {
        REQUIRE(core::make_reducescatter(tensor(), nullptr, rank, size, options, entry.request).is_ok());
        return *this;
    }
    Pending& alltoall(std::array<std::int64_t, 2> splits) {
        REQUIRE(core::make_alltoall(tensor(), splits.data(), 2, nullptr, 2, options, entry.request).is_ok());
        return *this;
    }
    Pending& alltoall(std::array<std::int64_t, 3> splits) {
        REQUIRE(core::make_alltoall(tensor(), splits.data(), 3, nullptr, 3, options, entry.request).is_ok());
        return *this;
    }
    /// Makes this operation a gather to rank 5.
    Pending& gather(int rank) {
        REQUIRE(core::make_gather(tensor(), nullptr, 5, std::array{3, 5}, rank, options, entry.request).is_ok());
        return *this;
    }

    std::vector<float> values;
    std::array<std::int64_t, 2> shape{};
    rueda_options options = RUEDA_OPTIONS_INIT;
    core::Completion completion;
    core::TensorEntry entry;
};

}  // namespace rueda::tests
