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

/// Broadcast and allgather on several hosts. A stream is the data that one rank sends to all ranks: its input. Every
/// rank writes each stream to its place in the output. A batch has one segment.
///
/// On each host, one rank is the *owner* of the stream. A stream crosses between hosts in chunks, from owner to owner.
/// The owner copies each chunk in pieces to its own cells (buffers in shared memory), where the other ranks of the host
/// read it.
///
/// All ranks process the chunks in the same order: first the first chunk of each stream, then the second chunk of each
/// stream, and so on. Every rank has buffers and cells for a few chunks in advance. The first unfinished chunk
/// therefore never waits for a later chunk, and no circular wait can arise. This holds for streams of any sizes.
///
///     open     the owner   takes a buffer for the next chunk, and receives the chunk into it (the source of the
///                          stream copies its own input into it, and sends it)
///     arrive   the owner   sends on what it has received
///     publish  the owner   copies a piece to its cells and to its own output
///     take     every rank  copies a piece to its output
///
/// If the source's tensor lies in the arena (the host's shared memory), the ranks of the same host read the tensor in
/// place.
class StreamTask final : public Task {
public:
    explicit StreamTask(HierarchicalSet& set);

    void begin(const Batch& batch);
    StepResult step() override;

private:
    /// A position in the order of all pieces.
    struct Cursor {
        std::uint64_t chunk = 0;  ///< the chunk's number within each stream
        std::size_t stream = 0;
        std::uint64_t offset = 0;  ///< the piece's offset in the chunk, in bytes
        std::uint64_t number = 0;  ///< the piece's number, counted within this batch
    };
    /// A chunk that is being received or sent.
    struct Buffer {
        std::byte* memory = nullptr;
        Message receive;
        std::vector<Message> sends;
    };
    static constexpr std::uint64_t kBuffers = 8;

    // The functions from here to go_to_crossing() compute the order of the pieces.
    [[nodiscard]] bool is_at_end(const Cursor& cursor) const { return cursor.chunk == chunk_count_; }
    [[nodiscard]] const Stream& stream_at(const Cursor& cursor) const { return streams_[cursor.stream]; }
    [[nodiscard]] std::uint64_t chunk_begin(const Cursor& cursor) const { return cursor.chunk * chunk_bytes_; }
    [[nodiscard]] std::uint64_t bytes_of_chunk(const Cursor& cursor) const;
    [[nodiscard]] std::uint64_t bytes_of_piece(const Cursor& cursor) const;
    void next_chunk(Cursor& cursor) const;
    void next_piece(Cursor& cursor) const;
    /// go_to_own() moves the cursor forward to the next piece whose stream this rank owns. go_to_crossing() moves it
    /// forward to the next such piece for which this rank also needs a buffer (crosses()). If the piece at the cursor
    /// is already such a piece, the cursor stays.
    void go_to_own(Cursor& cursor) const;
    void go_to_crossing(Cursor& cursor) const;
    [[nodiscard]] std::uint64_t number_of(const Cursor& cursor) const { return set_.chunks + cursor.number; }
    [[nodiscard]] bool is_own(const Stream& stream) const { return stream.owner == set_.rank; }
    [[nodiscard]] bool is_source(const Stream& stream) const { return stream.source == set_.hosts.my_rank(); }
    /// Whether the owner needs a buffer, because the stream comes from another host or goes to one.
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
    std::uint64_t chunk_count_ = 0;  // the number of chunks in the longest stream

    std::array<Buffer, kBuffers> buffers_;
    std::uint64_t opened_ = 0;     // the number of buffers opened in this batch
    std::uint64_t arrived_ = 0;    // the number of opened buffers whose chunk has arrived
    std::uint64_t published_ = 0;  // the number of opened buffers whose chunk has arrived and was copied to the cells
    Cursor opening_;
    Cursor arriving_;
    Cursor publishing_;
    Cursor taking_;

    // Indexed by owner: how many pieces this rank has taken from the owner's buffers in shared memory.
    std::array<std::uint64_t, base::kMaxLocalRanks> pieces_of_{};
    std::uint64_t own_pieces_ = 0;  // how many pieces this rank has put into its buffers in shared memory
    // Indexed by this rank's cells (buffers in shared memory). An element is the number of the piece in the cell, plus
    // 1, or it is 0 if the cell was not used in this run. Pieces are numbered over all batches.
    std::vector<std::uint64_t> held_;
    ops::Store store_ = ops::Store::cached;
    std::uint64_t work_ = 0;  // bytes moved in this step
};

}  // namespace rueda::collectives
