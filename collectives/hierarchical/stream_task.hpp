// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_set.hpp"
#include "collectives/hierarchical/streams.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// Broadcast and allgather: streams, each to its place in everybody's output. One segment per batch.
///
/// A stream crosses between hosts in chunks, and goes to the ranks of a host in pieces, through its owner's cells. The
/// chunks of all streams have one order: the first of each stream, then the second of each, and so on. Everybody does
/// everything in this order, with room for some chunks and cells ahead; so of all that is under way the first is never
/// waited for in a circle, whatever the streams' sizes are.
///
///     open     the owner   a buffer for the next chunk: receives it, or copies its own there and sends it
///     arrive   the owner   sends on what has been received
///     publish  the owner   a piece → its cells, and its own output
///     take     every rank  a piece → its output
///
/// What lies in the arena is read there by the ranks of its host.
class StreamTask final : public Task {
public:
    explicit StreamTask(HierarchicalSet& set);

    void begin(const Batch& batch);
    StepResult step() override;

private:
    /// A place in the order of all pieces.
    struct Cursor {
        std::uint64_t chunk = 0;  ///< of each stream
        std::size_t stream = 0;
        std::uint64_t offset = 0;  ///< in the chunk
        std::uint64_t number = 0;  ///< of the piece, in this batch
    };
    /// A chunk that is received or sent.
    struct Buffer {
        std::byte* memory = nullptr;
        Message receive;
        std::vector<Message> sends;
    };
    static constexpr std::uint64_t kBuffers = 8;

    // The order.
    [[nodiscard]] bool is_at_end(const Cursor& cursor) const { return cursor.chunk == chunk_count_; }
    [[nodiscard]] const Stream& stream_at(const Cursor& cursor) const { return streams_[cursor.stream]; }
    [[nodiscard]] std::uint64_t chunk_begin(const Cursor& cursor) const { return cursor.chunk * chunk_bytes_; }
    [[nodiscard]] std::uint64_t bytes_of_chunk(const Cursor& cursor) const;
    [[nodiscard]] std::uint64_t bytes_of_piece(const Cursor& cursor) const;
    void next_chunk(Cursor& cursor) const;
    void next_piece(Cursor& cursor) const;
    /// To the next piece of a stream that I own; of one for which I need a buffer. From where it is, if it is there.
    void go_to_own(Cursor& cursor) const;
    void go_to_crossing(Cursor& cursor) const;
    [[nodiscard]] std::uint64_t number_of(const Cursor& cursor) const { return set_.chunks + cursor.number; }
    [[nodiscard]] bool is_own(const Stream& stream) const { return stream.owner == set_.rank; }
    [[nodiscard]] bool is_source(const Stream& stream) const { return stream.source == set_.hosts.my_rank(); }
    /// Does the owner need a buffer?
    [[nodiscard]] bool crosses(const Stream& stream) const { return !is_source(stream) || !stream.to.empty(); }
    [[nodiscard]] bool needs_cells(const Stream& stream) const {
        return set_.members > 1 && stream.resident == nullptr;
    }

    bool act();
    [[nodiscard]] bool end();
    bool open();
    bool arrive();
    bool publish();
    bool take();
    void send(Buffer& buffer, const Stream& stream, std::uint64_t bytes);
    [[nodiscard]] bool has_sent(Buffer& buffer);
    [[nodiscard]] bool all_sent();
    [[nodiscard]] Buffer& buffer(std::uint64_t number) { return buffers_[number % kBuffers]; }
    [[nodiscard]] std::byte* cell(std::uint32_t member, std::uint64_t piece) const;
    [[nodiscard]] bool cell_is_free(std::uint64_t piece) const;
    void write_output(const Cursor& cursor, const std::byte* piece, std::uint64_t bytes);
    [[nodiscard]] bool others_read_my_input() const;

    HierarchicalSet& set_;
    Batch batch_;
    std::vector<Stream> streams_;
    std::uint64_t chunk_bytes_ = 0;
    std::uint64_t piece_bytes_ = 0;
    std::uint64_t chunk_count_ = 0;  // of the longest stream

    std::array<Buffer, kBuffers> buffers_;
    std::uint64_t opened_ = 0;     // buffers, in this batch
    std::uint64_t arrived_ = 0;    // what they are for is there
    std::uint64_t published_ = 0;  // and in the cells
    Cursor opening_;
    Cursor arriving_;
    Cursor publishing_;
    Cursor taking_;

    std::array<std::uint64_t, base::kMaxLocalRanks> pieces_of_{};  // by owner: pieces in cells that I have taken
    std::uint64_t own_pieces_ = 0;                                 // that I have put there
    std::vector<std::uint64_t> held_;  // by cell of mine: behind the piece that lies there, over all batches of the run
    ops::Store store_ = ops::Store::cached;
    std::uint64_t work_ = 0;  // bytes, in this step
};

}  // namespace rueda::collectives
