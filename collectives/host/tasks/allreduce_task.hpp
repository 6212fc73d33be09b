// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/host/arena/segment_map.hpp"
#include "collectives/host/tasks/host_set.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// An allreduce of all segments (tensors) of a batch on one host. Each segment is processed in one of three ways. All
/// members choose the same way:
///
/// - *inline*: every announcement contains the member's input, and each rank combines all inputs by itself.
/// - *resident*: input and output of every member lie in the arena, the host's shared memory. The segments form one
///   range of bytes. Each member combines its share of this range directly from all inputs, and writes the result to
///   all outputs. Cost per rank for S bytes: reads S, writes S.
/// - *staged*: all other segments, in chunks, through *cells* (each rank's buffers in the arena). A rank copies to its
///   own cell the parts of its input that other ranks combine. It combines its own share from its own memory and the
///   other ranks' cells, and writes the result to the same places in these cells. At the end it copies the results of
///   the other ranks from its own cell to its output. Inputs and outputs in the arena are used directly, without cells.
///   Cells are used in turn, so a rank can stage the next chunk while other ranks combine. Cost per rank, with m
///   members: copies S(m−1)/m to its cell, reads S, writes S, copies S(m−1)/m from its cell.
///
/// If the staged part of a batch is small, every rank may stage and combine all of it. The ranks then wait for each
/// other once instead of twice.
///
/// A member that has called join() (Location::absent) has neither input nor output. It still combines its share of the
/// resident and staged segments, because the other members wait for this share.
///
/// In all three ways the inputs are combined in rank order.
class AllreduceTask final : public Task {
public:
    explicit AllreduceTask(HostSet& set) : set_(set) {}

    void begin(const Batch& batch);
    StepResult step() override;
    [[nodiscard]] std::optional<BatchChunks> chunks() const override;

private:
    /// A range of bytes of one segment (tensor). For a staged segment, `chunk` is the chunk that contains the range,
    /// and `in_cell` is the offset in this chunk's buffer in shared memory.
    struct Piece {
        std::uint32_t segment = 0;
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
        std::uint64_t chunk = 0;
        std::uint64_t in_cell = 0;
    };
    [[nodiscard]] bool is_resident(std::span<const Location> locations) const;
    void combine(const Piece& piece, bool for_all) const;

    void prefetch_payloads(std::uint32_t segment) const;
    void step_inline();
    StepResult step_resident();
    void reduce_resident(Range range) const;

    StepResult step_staged();
    [[nodiscard]] Range chunk(std::uint64_t index) const;
    [[nodiscard]] bool may_stage() const;
    void stage(std::uint64_t index);
    void reduce_chunk(std::uint64_t index) const;
    void fetch(std::uint64_t index);

    HostSet& set_;
    Batch batch_;

    std::vector<std::uint32_t> inline_;  // the segments (tensors) that are combined inline
    std::size_t inline_done_ = 0;        // how many segments of inline_ were combined

    SegmentMap resident_;
    Range my_resident_share_;
    std::uint64_t resident_done_ = 0;  // How far this rank has combined its share of the resident segments. The value
                                       // is an offset in the range that all resident segments form together.
    bool resident_published_ = false;

    SegmentMap staged_;
    std::uint64_t chunk_bytes_ = 0;
    std::uint64_t chunk_count_ = 0;
    std::uint64_t staged_chunks_ = 0;
    std::uint64_t reduced_chunks_ = 0;
    std::uint64_t fetched_chunks_ = 0;
    bool whole_ = false;
};

}  // namespace rueda::collectives
