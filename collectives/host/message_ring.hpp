// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/atomics.hpp"
#include "base/status.hpp"

/// Records of bytes from one rank to another of its host, in the order in which they were written: a ring in shared
/// memory with one writer and one reader (docs/design/0010-send-receive.md). Memory full of zeros is an empty ring.
namespace rueda::collectives {

/// What both sides share, beside the bytes.
template <class Atomics>
struct MessageRingState {
    /// Bytes since the beginning; only grow. Each on a line of its own.
    alignas(base::kCacheLine) typename Atomics::template Atomic<std::uint64_t> written{0};
    alignas(base::kCacheLine) typename Atomics::template Atomic<std::uint64_t> read{0};
    /// 1: the writer waits for room. On the reader's line: it looks there after each read, the writer writes it rarely.
    typename Atomics::template Atomic<std::uint32_t> starved{0};
};

/// How a record lies in the ring: its length and a mark, then its bytes, in whole cache lines and in one piece. What
/// does not fit before the end of the ring goes to its beginning, and a record that is only a mark fills the rest.
struct MessageRingRecord {
    static constexpr std::uint64_t kHeaderBytes = 8;
    static constexpr std::uint32_t kMessage = 1;
    static constexpr std::uint32_t kFiller = 2;

    [[nodiscard]] static constexpr std::uint64_t lines_of(std::uint64_t bytes) {
        return (kHeaderBytes + bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
    }
    /// A quarter of the ring, so that fillers leave room for three such records.
    [[nodiscard]] static constexpr std::uint64_t largest(std::uint64_t ring_bytes) {
        return ring_bytes / 4 - kHeaderBytes;
    }
};

/// Threads: one, the writer.
template <class Atomics>
class MessageRingWriter {
public:
    /// `bytes`: a power of two, of at least four lines.
    MessageRingWriter(MessageRingState<Atomics>& state, std::byte* memory, std::uint64_t bytes)
        : state_(&state), memory_(memory), bytes_(bytes) {}

    [[nodiscard]] std::uint64_t largest() const { return MessageRingRecord::largest(bytes_); }
    /// Room for a record of at most largest() bytes, which publish() shows the reader; null: there is none, and the
    /// reader tells when there is more (MessageRingReader::pop). Internal: the reader has written what no working one
    /// does.
    [[nodiscard]] Result<std::byte*> reserve(std::uint64_t bytes) {
        const std::uint64_t needed = MessageRingRecord::lines_of(bytes);
        const std::uint64_t rest = bytes_ - position_ % bytes_;
        const std::uint64_t filler = needed <= rest ? 0 : rest;
        if (bytes_ - (position_ - read_) < filler + needed) {
            RUEDA_RETURN_IF_FAILED(look());
            if (bytes_ - (position_ - read_) < filler + needed) {
                // Dekker: says that it waits, then looks; the reader reads, then looks for who waits. All seq_cst.
                state_->starved.store(1, std::memory_order_seq_cst);
                RUEDA_RETURN_IF_FAILED(look());
                if (bytes_ - (position_ - read_) < filler + needed) {
                    return static_cast<std::byte*>(nullptr);
                }
                state_->starved.store(0, std::memory_order_relaxed);  // a ring too many costs nothing else
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
        // Partner: MessageRingReader::front(). seq_cst: who sleeps looks after he said so (base::Attention).
        state_->written.store(position_, std::memory_order_seq_cst);
    }

private:
    Status look() {
        // acquire: what was read there may be written over. seq_cst: see reserve().
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

    /// The next record, in shared memory, until pop(); empty: there is none. Internal: the writer has written what no
    /// working one does.
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
            std::atomic_signal_fence(std::memory_order_seq_cst);  // what is checked is what is used
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
    /// Gives the room of the front record back. True: the writer waits for it, and has to be woken.
    [[nodiscard]] bool pop() {
        position_ = end_;
        state_->read.store(position_, std::memory_order_seq_cst);  // partner: MessageRingWriter::look()
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

/// Who has written to a rank's rings since it last looked: a bit for each member of the host. Memory full of zeros is
/// that of nobody.
template <class Atomics>
struct alignas(base::kCacheLine) Doorstep {
    typename Atomics::template Atomic<std::uint64_t> knocks{0};

    /// After a publication. True: the rank may sleep, and has to be woken; false: somebody who does that has knocked
    /// there before, and the rank has not looked since.
    [[nodiscard]] bool knock(std::uint32_t member) {
        const std::uint64_t bit = std::uint64_t{1} << member;
        // seq_cst, with the publication before: who finds his bit set comes before the look that takes it.
        if ((knocks.load(std::memory_order_seq_cst) & bit) != 0) {
            return false;
        }
        knocks.fetch_or(bit, std::memory_order_seq_cst);
        return true;
    }
    [[nodiscard]] bool anybody() const { return knocks.load(std::memory_order_seq_cst) != 0; }
    /// Before the look into the rings of those.
    [[nodiscard]] std::uint64_t take() { return knocks.exchange(0, std::memory_order_seq_cst); }
};

}  // namespace rueda::collectives
