// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/stream_task.hpp"

#include <algorithm>

#include "collectives/host/tasks/copying.hpp"

namespace rueda::collectives {
namespace {

/// The size in bytes of a chunk, which crosses between hosts at one time. A link of 1 Gbit/s carries a chunk in a
/// millisecond. If hosts pass a tensor on in a chain, each host of the chain adds this time to the delay of the first
/// chunk. With larger chunks, the delay would be longer.
constexpr std::uint64_t kChosenChunk = 128 * 1024;

}  // namespace

StreamTask::StreamTask(HierarchicalSet& set)
    : set_(set),
      chunk_bytes_(set.options.network_chunk_bytes != 0
                       ? std::clamp<std::uint64_t>(set.options.network_chunk_bytes, 1, Transport::kMostBytes)
                       : kChosenChunk),
      piece_bytes_(set.members > 1 ? set.arena->plan().cell_bytes : kChosenChunk) {}

void StreamTask::begin(const Batch& batch) {
    batch_ = batch;
    streams_ = streams_of(batch, set_, chunk_bytes_);
    chunk_count_ = 0;
    std::uint64_t bytes = 0;
    for (const Stream& stream : streams_) {
        chunk_count_ = std::max(chunk_count_, (stream.bytes + chunk_bytes_ - 1) / chunk_bytes_);
        bytes += stream.bytes;
    }
    store_ = batch.operation == Operation::broadcast ? store_in_place(bytes)
                                                     : store_of_output(bytes, set_.arena->plan().stream_from);
    opened_ = arrived_ = published_ = 0;
    opening_ = arriving_ = publishing_ = taking_ = {};
    go_to_crossing(opening_);
    go_to_crossing(arriving_);
    go_to_own(publishing_);
    pieces_of_.fill(0);
    own_pieces_ = 0;
    const bool is_new_run = set_.use != HierarchicalSet::CellUse::streams;
    set_.begin_batch(HierarchicalSet::CellUse::streams);
    if (is_new_run) {
        held_.assign(set_.arena->plan().cells_per_rank, 0);
    }
}

// ---- the order ------------------------------------------------------------------------------------------------------

std::uint64_t StreamTask::bytes_of_chunk(const Cursor& cursor) const {
    return std::min(chunk_bytes_, stream_at(cursor).bytes - chunk_begin(cursor));
}

std::uint64_t StreamTask::bytes_of_piece(const Cursor& cursor) const {
    return std::min(piece_bytes_, bytes_of_chunk(cursor) - cursor.offset);
}

void StreamTask::next_chunk(Cursor& cursor) const {
    cursor.number += (bytes_of_chunk(cursor) - cursor.offset + piece_bytes_ - 1) / piece_bytes_;
    cursor.offset = 0;
    do {
        if (++cursor.stream == streams_.size()) {
            cursor.stream = 0;
            ++cursor.chunk;
        }
    } while (!is_at_end(cursor) && chunk_begin(cursor) >= stream_at(cursor).bytes);
}

void StreamTask::next_piece(Cursor& cursor) const {
    if (cursor.offset + piece_bytes_ < bytes_of_chunk(cursor)) {
        cursor.offset += piece_bytes_;
        ++cursor.number;
    } else {
        next_chunk(cursor);
    }
}

void StreamTask::go_to_own(Cursor& cursor) const {
    while (!is_at_end(cursor) && !is_own(stream_at(cursor))) {
        next_chunk(cursor);
    }
}

void StreamTask::go_to_crossing(Cursor& cursor) const {
    while (!is_at_end(cursor) && !(is_own(stream_at(cursor)) && crosses(stream_at(cursor)))) {
        next_chunk(cursor);
    }
}

// ---- steps ----------------------------------------------------------------------------------------------------------

StepResult StreamTask::step() {
    last_work_ = StepWork::none;
    return set_.step(
        work_, [this] { return act(); }, [this] { return end(); });
}

bool StreamTask::end() {
    if (!is_at_end(taking_) || !is_at_end(arriving_) || !all_sent() ||
        (others_read_my_input() && !set_.all_reached(&Progress::fetched, number_of(taking_)))) {
        return false;
    }
    set_.end_batch(taking_.number);
    return true;
}

bool StreamTask::act() {
    if (open() || arrive()) {
        last_work_ = StepWork::network;
        return true;
    }
    if (publish()) {
        last_work_ = StepWork::copy_in;
        return true;
    }
    if (take()) {
        last_work_ = StepWork::copy_out;
        return true;
    }
    return false;
}

bool StreamTask::open() {
    if (is_at_end(opening_) || opened_ == published_ + kBuffers || !has_sent(buffer(opened_))) {
        return false;
    }
    const Stream& stream = stream_at(opening_);
    const std::uint64_t bytes = bytes_of_chunk(opening_);
    Buffer& next = buffer(opened_);
    if (next.memory == nullptr) {
        next.memory = set_.messages.allocate(chunk_bytes_);
    }
    if (is_source(stream)) {
        ops::copy(next.memory, batch_.segments[0].input + chunk_begin(opening_), bytes);
        work_ += bytes;
        send(next, stream, bytes);
    } else {
        next.receive = set_.messages.receive(stream.from, {next.memory, bytes});
    }
    ++opened_;
    next_chunk(opening_);
    go_to_crossing(opening_);
    return true;
}

bool StreamTask::arrive() {
    if (arrived_ == opened_) {
        return false;
    }
    Buffer& next = buffer(arrived_);
    const Stream& stream = stream_at(arriving_);
    if (!is_source(stream)) {
        if (!set_.messages.has_ended(next.receive)) {
            return false;
        }
        send(next, stream, bytes_of_chunk(arriving_));
    }
    ++arrived_;
    next_chunk(arriving_);
    go_to_crossing(arriving_);
    return true;
}

void StreamTask::send(Buffer& buffer, const Stream& stream, std::uint64_t bytes) {
    buffer.sends.clear();
    for (const std::uint32_t rank : stream.to) {
        buffer.sends.push_back(set_.messages.send(rank, {buffer.memory, bytes}));
    }
}

bool StreamTask::has_sent(Buffer& buffer) {
    while (!buffer.sends.empty() && set_.messages.has_ended(buffer.sends.back())) {
        buffer.sends.pop_back();
    }
    return buffer.sends.empty();
}

bool StreamTask::all_sent() {
    bool all = true;
    for (Buffer& buffer : buffers_) {
        all = has_sent(buffer) && all;
    }
    return all;
}

std::byte* StreamTask::cell(std::uint32_t member, std::uint64_t piece) const { return set_.arena->cell(member, piece); }

/// A cell (a buffer in shared memory) may be reused when all ranks have taken the piece that it held before.
bool StreamTask::cell_is_free(std::uint64_t piece) const {
    const std::uint64_t held = held_[piece % held_.size()];
    return held == 0 ? set_.run_may_begin() : set_.all_reached(&Progress::fetched, held);
}

bool StreamTask::publish() {
    if (is_at_end(publishing_)) {
        return false;
    }
    const Stream& stream = stream_at(publishing_);
    const bool has_buffer = crosses(stream);
    if ((has_buffer && arrived_ == published_) || (needs_cells(stream) && !cell_is_free(own_pieces_))) {
        return false;
    }
    const std::uint64_t bytes = bytes_of_piece(publishing_);
    const std::byte* const piece = is_source(stream)
                                       ? batch_.segments[0].input + chunk_begin(publishing_) + publishing_.offset
                                       : buffer(published_).memory + publishing_.offset;
    if (needs_cells(stream)) {
        ops::copy(cell(set_.rank, own_pieces_), piece, bytes);
        held_[own_pieces_ % held_.size()] = number_of(publishing_) + 1;
        ++own_pieces_;
        work_ += bytes;
        set_.publish(set_.mine().staged, number_of(publishing_) + 1);
    }
    write_output(publishing_, piece, bytes);
    if (publishing_.offset + bytes == bytes_of_chunk(publishing_) && has_buffer) {
        ++published_;
    }
    next_piece(publishing_);
    go_to_own(publishing_);
    return true;
}

bool StreamTask::take() {
    if (is_at_end(taking_)) {
        return false;
    }
    const Stream& stream = stream_at(taking_);
    const std::uint64_t bytes = bytes_of_piece(taking_);
    if (is_own(stream)) {
        if (publishing_.number <= taking_.number && !is_at_end(publishing_)) {
            return false;
        }
    } else if (needs_cells(stream)) {
        if (!set_.reached(stream.owner, &Progress::staged, number_of(taking_) + 1)) {
            return false;
        }
        write_output(taking_, cell(stream.owner, pieces_of_[stream.owner]++), bytes);
    } else {
        write_output(taking_, stream.resident + chunk_begin(taking_) + taking_.offset, bytes);
    }
    const std::uint64_t number = number_of(taking_);
    next_piece(taking_);
    if (set_.members > 1) {
        set_.publish(set_.mine().fetched, number + 1);
    }
    return true;
}

void StreamTask::write_output(const Cursor& cursor, const std::byte* piece, std::uint64_t bytes) {
    const Stream& stream = stream_at(cursor);
    std::byte* const output = batch_.segments[0].output;
    // If input and output are the same memory, there is nothing to copy.
    if (output == nullptr || (is_source(stream) && output + stream.output_offset == batch_.segments[0].input)) {
        return;
    }
    ops::copy(output + stream.output_offset + chunk_begin(cursor) + cursor.offset, piece, bytes, store_);
    work_ += bytes;
}

bool StreamTask::others_read_my_input() const {
    return set_.members > 1 && std::any_of(streams_.begin(), streams_.end(), [this](const Stream& stream) {
               return is_source(stream) && stream.resident != nullptr;
           });
}

}  // namespace rueda::collectives
