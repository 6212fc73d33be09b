// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/shared_memory/atomics.hpp"
#include "base/status.hpp"

/// A ring in shared memory with one writer and one reader. It carries records of bytes from one rank to another rank of
/// the same host, in the order in which they were written (docs/design/0010-send-receive.md). Memory full of zeros is
/// an empty ring.
namespace rueda::collectives {

/// The state that writer and reader share, apart from the bytes.
template <class Atomics>
struct MessageRingState {
    /// The numbers of bytes that were written and read since the beginning. The numbers only grow. Each is on its own
    /// cache line.
    alignas(base::kCacheLine) typename Atomics::template Atomic<std::uint64_t> written{0};
    alignas(base::kCacheLine) typename Atomics::template Atomic<std::uint64_t> read{0};
    /// 1 if the writer waits for space. This word is on the reader's cache line, because the reader checks it after
    /// each read and the writer rarely writes it.
    typename Atomics::template Atomic<std::uint32_t> starved{0};
};

/// The layout of a record in the ring. First come its length and a mark, then its bytes, which are contiguous and
/// padded to whole cache lines. A record that does not fit before the end of the ring is written at the beginning of
/// the ring. A filler, which is a record without content, then covers the rest.
struct MessageRingRecord {
    static constexpr std::uint64_t kHeaderBytes = 8;
    static constexpr std::uint32_t kMessage = 1;
    static constexpr std::uint32_t kFiller = 2;

    [[nodiscard]] static constexpr std::uint64_t lines_of(std::uint64_t bytes) {
        return (kHeaderBytes + bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
    }
    /// The longest record: a quarter of the ring. Three records of this length fit into the ring even if fillers are
    /// needed.
    [[nodiscard]] static constexpr std::uint64_t largest(std::uint64_t ring_bytes) {
        return ring_bytes / 4 - kHeaderBytes;
    }
};

/// Threads: one, the writer.
template <class Atomics>
class MessageRingWriter {
public:
    /// `bytes` must be a power of two, and at least four cache lines.
    MessageRingWriter(MessageRingState<Atomics>& state, std::byte* memory, std::uint64_t bytes)
        : state_(&state), memory_(memory), bytes_(bytes) {}

    [[nodiscard]] std::uint64_t largest() const { return MessageRingRecord::largest(bytes_); }
    /// Reserves space for a record of at most largest() bytes. publish() then shows the record to the reader. Returns
    /// null if there is not enough space. In this case the reader tells the writer when space is free again
    /// (MessageRingReader::pop). Fails with Internal if the reader has written a value that a correct reader never
    /// writes.
    [[nodiscard]] Result<std::byte*> reserve(std::uint64_t bytes) {
        const std::uint64_t needed = MessageRingRecord::lines_of(bytes);
        const std::uint64_t rest = bytes_ - position_ % bytes_;
        const std::uint64_t filler = needed <= rest ? 0 : rest;
        if (bytes_ - (position_ - read_) < filler + needed) {
            RUEDA_RETURN_IF_FAILED(look());
            if (bytes_ - (position_ - read_) < filler + needed) {
                // This is Dekker's pattern, with seq_cst accesses only. The writer announces that it waits, then checks
                // for space. The reader frees space, then checks whether the writer waits.
                state_->starved.store(1, std::memory_order_seq_cst);
                RUEDA_RETURN_IF_FAILED(look());
                if (bytes_ - (position_ - read_) < filler + needed) {
                    return static_cast<std::byte*>(nullptr);
                }
                // in the worst case, the reader wakes the writer although it does not wait
                state_->starved.store(0, std::memory_order_relaxed);
            }
        }
        if (filler != 0) {
            mark(position_, filler, MessageRingRecord::kFiller);
        }
        reserved_ = position_ + filler;
        mark(reserved_, bytes, MessageRingRecord::kMessage);
        end_ = reserved_ + needed;
        return memory_ + reserved_ % bytes_ + MessageRingRecord::kHeaderBytes;
    }
    /// Shows the reader the record that was reserved last.
    void publish() {
        position_ = end_;
        // Pairs with MessageRingReader::front(). It is seq_cst because a rank that is about to sleep first announces
        // this and then checks this value (base::Attention).
        state_->written.store(position_, std::memory_order_seq_cst);
    }

private:
    Status look() {
        // Acquire is needed because the bytes that the reader has read may now be overwritten. For seq_cst see
        // reserve().
        const std::uint64_t read = state_->read.load(std::memory_order_seq_cst);
        if (read < read_ || read > position_ || read % base::kCacheLine != 0) {
            return failure(ErrorCode::internal, "a ring of messages was read up to {}, of {} that were written", read,
                           position_);
        }
        read_ = read;
        return {};
    }
    void mark(std::uint64_t position, std::uint64_t bytes, std::uint32_t what) {
        const std::uint32_t header[2] = {static_cast<std::uint32_t>(bytes), what};
        std::memcpy(memory_ + position % bytes_, header, sizeof(header));
    }

    MessageRingState<Atomics>* state_;
    std::byte* memory_;
    std::uint64_t bytes_;
    std::uint64_t position_ = 0;
    std::uint64_t reserved_ = 0;
    std::uint64_t end_ = 0;
    std::uint64_t read_ = 0;  ///< as last seen
};

/// Threads: one, the reader.
template <class Atomics>
class MessageRingReader {
public:
    MessageRingReader(MessageRingState<Atomics>& state, const std::byte* memory, std::uint64_t bytes)
        : state_(&state), memory_(memory), bytes_(bytes) {}

    /// Returns the next record, which lies in shared memory and stays valid until pop(). Returns nothing if there is no
    /// record. Fails with Internal if the writer has written a value that a correct writer never writes.
    [[nodiscard]] Result<std::optional<std::span<const std::byte>>> front() {
        for (;;) {
            if (position_ == written_) {
                written_ = state_->written.load(std::memory_order_seq_cst);
                if (written_ == position_) {
                    return std::optional<std::span<const std::byte>>();
                }
            }
            const std::uint64_t at = position_ % bytes_;
            std::uint32_t header[2];
            std::memcpy(header, memory_ + at, sizeof(header));
            // the compiler must use the value that was checked, and must not read it again
            std::atomic_signal_fence(std::memory_order_seq_cst);
            const std::uint64_t room = bytes_ - at;
            const bool filler = header[1] == MessageRingRecord::kFiller;
            const std::uint64_t taken = filler ? header[0] : MessageRingRecord::lines_of(header[0]);
            const std::uint64_t there = written_ - position_;
            if ((filler ? taken != room : header[1] != MessageRingRecord::kMessage) || taken > room || taken > there ||
                there > bytes_ || written_ % base::kCacheLine != 0) {
                return failure(ErrorCode::internal,
                               "a ring of messages has a record of {} bytes, of kind {}, at {} of {}", header[0],
                               header[1], position_, written_);
            }
            if (!filler) {
                end_ = position_ + taken;
                return std::optional(std::span(memory_ + at + MessageRingRecord::kHeaderBytes, header[0]));
            }
            position_ += taken;
        }
    }
    /// Frees the space of the front record. If it returns true, the writer waits for space and the caller must wake it.
    [[nodiscard]] bool pop() {
        position_ = end_;
        state_->read.store(position_, std::memory_order_seq_cst);  // pairs with MessageRingWriter::look()
        return state_->starved.load(std::memory_order_seq_cst) != 0 &&
               state_->starved.exchange(0, std::memory_order_seq_cst) != 0;
    }

private:
    MessageRingState<Atomics>* state_;
    const std::byte* memory_;
    std::uint64_t bytes_;
    std::uint64_t position_ = 0;
    std::uint64_t end_ = 0;
    std::uint64_t written_ = 0;  ///< as last seen
};

/// Shows a rank which members of its host have written to its rings since it last checked: one bit for each member.
/// Memory full of zeros means that no member has written.
template <class Atomics>
struct alignas(base::kCacheLine) Doorstep {
    typename Atomics::template Atomic<std::uint64_t> knocks{0};

    /// A member calls this after it published a message. If it returns true, the rank may be asleep and the caller must
    /// wake it. If it returns false, an earlier call has set the bit of this member and wakes the rank, and the rank
    /// has not cleared the bit yet.
    [[nodiscard]] bool knock(std::uint32_t member) {
        const std::uint64_t bit = std::uint64_t{1} << member;
        // seq_cst orders this load after the publication. So if a member finds its bit set, the rank has not yet
        // cleared it, and will check the rings later.
        if ((knocks.load(std::memory_order_seq_cst) & bit) != 0) {
            return false;
        }
        knocks.fetch_or(bit, std::memory_order_seq_cst);
        return true;
    }
    [[nodiscard]] bool anybody() const { return knocks.load(std::memory_order_seq_cst) != 0; }
    /// Returns the bits and clears them. Each bit stands for a member that has written to its ring. The rank calls this
    /// first, and then checks the rings of these members.
    [[nodiscard]] std::uint64_t take() { return knocks.exchange(0, std::memory_order_seq_cst); }
};

}  // namespace rueda::collectives
