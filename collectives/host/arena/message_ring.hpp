// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/shared_memory/atomics.hpp"
#include "base/shared_memory/prefetch.hpp"
#include "base/status.hpp"

/// A ring buffer in shared memory with one writer and one reader. It carries records of bytes from one rank to another
/// rank of the same host, in the order of writing (docs/design/0010-send-receive.md). Memory full of zeros is an empty
/// ring.
namespace rueda::collectives {

/// The state that the writer and the reader of a ring share, without the bytes of the records.
template <class Atomics>
struct MessageRingState {
    /// The longest record that lies in the cache line of `written`.
    static constexpr std::size_t kNearInOneLine = base::kCacheLine - 2 * sizeof(std::uint64_t);
    /// How many bytes of a longer record lie in the cache line of `written`. The rest begins with the next cache line,
    /// so that no part of the record that is written by itself spans both lines. A store that spans two lines waits
    /// until the core owns both of them at the same time, while the reader fetches them again and again.
    static constexpr std::size_t kNearInFirstLine = 40;
    /// The longest record in `near_bytes`.
    static constexpr std::size_t kNearBytes = kNearInFirstLine + base::kCacheLine;
    static_assert(kNearInFirstLine <= kNearInOneLine);
    static_assert(kNearBytes <= 0xff);  // MessageRingRecord::near_of() has 8 bits for the length

    /// How many bytes were written and read since the ring was created. Both numbers only grow. They are in different
    /// cache lines.
    alignas(base::kCacheLine) typename Atomics::template Atomic<std::uint64_t> written{0};
    /// Where the last record in `near_bytes` belongs: the number of its first cache line since the ring was created,
    /// times 256, plus the record's length in bytes; 0 if there was no such record. Accesses are relaxed, because
    /// `written` orders them.
    typename Atomics::template Atomic<std::uint64_t> near{0};
    /// A record that is here (see near_place()), and not in the ring. It takes the same space in the ring, which stays
    /// unused. A record of up to 48 bytes is in the cache line of `written`, which the reader loads anyway. A longer
    /// record is in this cache line and the next one, so the reader loads one cache line less than from the ring.
    std::byte near_bytes[kNearInOneLine + base::kCacheLine]{};
    /// Besides the count of the bytes that were read (a multiple of the cache line), this word has the flag kTaken.
    alignas(base::kCacheLine) typename Atomics::template Atomic<std::uint64_t> read{0};
    /// 1 if the writer waits for space. The reader checks this word after each read, so the word shares a cache line
    /// with `read`. The writer rarely changes it.
    typename Atomics::template Atomic<std::uint32_t> starved{0};

    /// A flag in `read`. It says that the reader took the last *awaited* record that it has read at once. (The writer's
    /// rank waits until such a record is read, see Frame::kAwaited.) So the reader need not send a frame back. The flag
    /// is in the word `read`, because a second store to this cache line would often have to fetch the line once more
    /// from the writer, which loads the line all the time.
    static constexpr std::uint64_t kTaken = 1;

    /// Where a record of this length begins in `near_bytes`.
    [[nodiscard]] std::byte* near_place(std::uint64_t bytes) {
        return near_bytes + (bytes <= kNearInOneLine ? 0 : kNearInOneLine - kNearInFirstLine);
    }
};

/// The layout of a record in the ring: its length, its kind (message or filler), and its bytes. The bytes are
/// contiguous, and padded to whole cache lines. If a record does not fit before the end of the ring, it is written at
/// the beginning of the ring. The filler, a record without content, then covers the rest of the ring.
struct MessageRingRecord {
    static constexpr std::uint64_t kHeaderBytes = 8;
    static constexpr std::uint32_t kMessage = 1;
    static constexpr std::uint32_t kFiller = 2;

    [[nodiscard]] static constexpr std::uint64_t lines_of(std::uint64_t bytes) {
        return (kHeaderBytes + bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
    }
    /// The value of MessageRingState::near for a record that begins at `position`.
    [[nodiscard]] static constexpr std::uint64_t near_of(std::uint64_t position, std::uint64_t bytes) {
        return position / base::kCacheLine << 8U | bytes;
    }
    /// The longest record is a quarter of the ring and one cache line. Two such records then fit into the ring even if
    /// fillers are needed.
    [[nodiscard]] static constexpr std::uint64_t largest(std::uint64_t ring_bytes) {
        return ring_bytes / 4 + base::kCacheLine - kHeaderBytes;
    }
};

/// Threads: only the one thread that writes to this ring.
template <class Atomics>
class MessageRingWriter {
public:
    /// `bytes` must be a power of two, and at least four cache lines.
    MessageRingWriter(MessageRingState<Atomics>& state, std::byte* memory, std::uint64_t bytes)
        : state_(&state), memory_(memory), bytes_(bytes) {}

    [[nodiscard]] std::uint64_t largest() const { return MessageRingRecord::largest(bytes_); }
    /// Reserves space for a record of at most largest() bytes. The reader sees the record after publish(). Returns null
    /// if there is not enough space. In this case, a later call of MessageRingReader::pop() returns true, and the
    /// reader's rank then wakes the writer's rank. Fails with Internal if the reader's position in shared memory is
    /// impossible.
    [[nodiscard]] Result<std::byte*> reserve(std::uint64_t bytes) {
        const std::uint64_t needed = MessageRingRecord::lines_of(bytes);
        const std::uint64_t rest = bytes_ - position_ % bytes_;
        const std::uint64_t filler = needed <= rest ? 0 : rest;
        if (bytes_ - (position_ - read_) < filler + needed) {
            RUEDA_RETURN_IF_FAILED(look());
            if (bytes_ - (position_ - read_) < filler + needed) {
                // This is Dekker's pattern: both sides first write, then read, and all these accesses are seq_cst. The
                // writer first sets `starved`, then checks for space. The reader first frees space, then checks
                // `starved`. At least one of them therefore sees the other's write.
                state_->starved.store(1, std::memory_order_seq_cst);
                RUEDA_RETURN_IF_FAILED(look());
                if (bytes_ - (position_ - read_) < filler + needed) {
                    return static_cast<std::byte*>(nullptr);
                }
                // A relaxed store is enough. If the reader still sees the 1, it only wakes the writer's rank in vain.
                state_->starved.store(0, std::memory_order_relaxed);
            }
        }
        near_ = 0;
        if (filler != 0) {
            mark(position_, filler, MessageRingRecord::kFiller);
        }
        reserved_ = position_ + filler;
        mark(reserved_, bytes, MessageRingRecord::kMessage);
        end_ = reserved_ + needed;
        return memory_ + reserved_ % bytes_ + MessageRingRecord::kHeaderBytes;
    }
    /// Like reserve(), but reserves MessageRingState::near_bytes. Returns null if the record is empty or does not fit
    /// there, if it would pass the end of the ring, or if the reader has not read everything that was written before.
    /// The caller then calls reserve(). Fails like reserve().
    [[nodiscard]] Result<std::byte*> reserve_near(std::uint64_t bytes) {
        const std::uint64_t needed = MessageRingRecord::lines_of(bytes);
        if (bytes == 0 || bytes > MessageRingState<Atomics>::kNearBytes || needed > bytes_ - position_ % bytes_) {
            return static_cast<std::byte*>(nullptr);
        }
        RUEDA_RETURN_IF_FAILED(look());
        if (read_ != position_) {
            return static_cast<std::byte*>(nullptr);
        }
        near_ = MessageRingRecord::near_of(position_, bytes);
        end_ = position_ + needed;
        return state_->near_place(bytes);
    }
    /// How many bytes were written so far. After publish(), the new record ends here.
    [[nodiscard]] std::uint64_t position() const { return position_; }
    /// Whether the reader took the awaited record that ends at `end` at once. There must be no later awaited record.
    /// The load is seq_cst, because the writer's rank calls this function before it sleeps.
    [[nodiscard]] bool is_taken(std::uint64_t end) const {
        const std::uint64_t read = state_->read.load(std::memory_order_seq_cst);
        return (read & MessageRingState<Atomics>::kTaken) != 0 && read > end;
    }
    /// Starts to load the cache lines that the writer writes first for a record that follows soon.
    void prefetch() const {
        base::prefetch_to_write(&state_->written);
        base::prefetch_to_write(state_->near_bytes + MessageRingState<Atomics>::kNearInOneLine);
    }
    /// Starts to load the cache lines of the ring that the next record is written to, if it has `bytes` bytes.
    void prefetch_record(std::uint64_t bytes) const {
        const std::uint64_t at = position_ % bytes_;
        const std::uint64_t end = std::min(at + MessageRingRecord::lines_of(bytes), bytes_);
        for (std::uint64_t line = at; line < end; line += base::kCacheLine) {
            base::prefetch_to_write(memory_ + line);
        }
    }
    /// Shows the reader the first `bytes` bytes of the record that the last reserve() returned, in whole cache lines,
    /// while the writer still writes the others. The reader is not notified. The writer must call publish() later.
    void publish_begin(std::uint64_t bytes) {
        // release: paired with the loads in MessageRingReader::begun() and written_bytes()
        state_->written.store(
            reserved_ + (MessageRingRecord::kHeaderBytes + bytes) / base::kCacheLine * base::kCacheLine,
            std::memory_order_release);
    }
    /// Shows the reader the record that the last reserve() or reserve_near() returned.
    void publish() {
        position_ = end_;
        if (near_ != 0) {
            // relaxed: a reader that loads the new value of `written` below sees this value, too
            state_->near.store(near_, std::memory_order_relaxed);
        }
        // MessageRingReader::front() loads this value and then sees the record's bytes. The store is seq_cst, so that
        // no reader misses the record: a reader that is about to sleep first announces its sleep, then loads this value
        // once more (base::Attention).
        state_->written.store(position_, std::memory_order_seq_cst);
    }

private:
    Status look() {
        // After this load, the writer overwrites bytes that the reader has read. The load must therefore at least
        // acquire what the store in MessageRingReader::pop() releases. It is even seq_cst, because reserve() uses it in
        // Dekker's pattern.
        const std::uint64_t read = state_->read.load(std::memory_order_seq_cst) & ~MessageRingState<Atomics>::kTaken;
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
    std::uint64_t near_ = 0;  ///< MessageRingState::near for the reserved record; 0 if this record is in the ring
    std::uint64_t read_ = 0;  ///< the reader's position when the writer last loaded it
};

/// Threads: only the one thread that reads from this ring.
template <class Atomics>
class MessageRingReader {
public:
    MessageRingReader(MessageRingState<Atomics>& state, const std::byte* memory, std::uint64_t bytes)
        : state_(&state), memory_(memory), bytes_(bytes) {}

    /// Returns the next record, which lies in shared memory and stays valid until pop(). Returns nothing if there is no
    /// record, or if the writer still writes it. Fails with Internal if the shared memory contains a record that is
    /// impossible.
    [[nodiscard]] Result<std::optional<std::span<const std::byte>>> front() {
        auto record = begun();
        if (written_ < end_) {
            // The writer may have completed the record since the last load. A reader that is about to sleep must not
            // miss it.
            record = begun();
            if (record.is_ok() && written_ < end_) {
                return std::optional<std::span<const std::byte>>();
            }
        }
        return record;
    }
    /// Like front(), but also returns a record that the writer still writes. Only its first written_bytes() bytes can
    /// be read, and pop() must not be called before front() has returned it, or before all its bytes can be read.
    [[nodiscard]] Result<std::optional<std::span<const std::byte>>> begun() {
        for (;;) {
            if (position_ == written_ || written_ < end_) {
                written_ = state_->written.load(std::memory_order_seq_cst);
                if (written_ == position_) {
                    return std::optional<std::span<const std::byte>>();
                }
                // A record is beside the state only if the ring was empty before it. So it can only be the first record
                // after a load of `written`. The load above, which synchronizes with publish(), comes before this one.
                near_ = state_->near.load(std::memory_order_relaxed);
            }
            const std::uint64_t there = written_ - position_;
            if (there > bytes_ || written_ % base::kCacheLine != 0) {
                return failure(ErrorCode::internal,
                               "a ring of messages of {} bytes was written up to {}, and read up to {}", bytes_,
                               written_, position_);
            }
            const std::uint64_t at = position_ % bytes_;
            const std::uint64_t near_length = near_ & 0xff;
            if (near_length != 0 && MessageRingRecord::near_of(position_, near_length) == near_) {
                return front_near(near_length, std::min(there, bytes_ - at));
            }
            std::uint32_t header[2];
            std::memcpy(header, memory_ + at, sizeof(header));
            // The other process could change the header in shared memory after the check below. The fence keeps the
            // compiler from loading the header again, so the checked copy is used.
            std::atomic_signal_fence(std::memory_order_seq_cst);
            const std::uint64_t room = bytes_ - at;
            const bool filler = header[1] == MessageRingRecord::kFiller;
            const std::uint64_t taken = filler ? header[0] : MessageRingRecord::lines_of(header[0]);
            if ((filler ? taken != room || taken > there : header[1] != MessageRingRecord::kMessage) || taken > room) {
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
    /// How many of the first bytes of the record that begun() returned can be read. If the count in shared memory is
    /// impossible, returns 0, and front() then fails.
    [[nodiscard]] std::uint64_t written_bytes() {
        if (written_ < end_) {
            written_ = state_->written.load(std::memory_order_acquire);  // paired with the writer's publish_begin()
        }
        const std::uint64_t there = written_ - position_;
        return there > bytes_ || there < MessageRingRecord::kHeaderBytes ? 0 : there - MessageRingRecord::kHeaderBytes;
    }
    /// Whether begun() would find a record. A thread that waits for a record calls this function repeatedly, because it
    /// is faster than front(). The load is paired with the store in MessageRingWriter::publish(): what the writer
    /// stored before it published the record is visible afterwards.
    [[nodiscard]] bool has_record() const {
        return position_ != written_ || state_->written.load(std::memory_order_acquire) != position_;
    }
    /// Starts to load the second cache line of a record beside the state. A reader that waits for such a record calls
    /// this function before each call of has_record(). So when the writer has written both lines, the reader fetches
    /// them at the same time.
    void prefetch_near() const { __builtin_prefetch(state_->near_bytes + MessageRingState<Atomics>::kNearInOneLine); }
    /// Frees the space of the record that front() returned. If this function returns true, the writer waits for space,
    /// and the caller must wake the writer's rank.
    [[nodiscard]] bool pop() {
        position_ = end_;
        // paired with the loads in MessageRingWriter::look() and is_taken()
        state_->read.store(position_ | taken_, std::memory_order_seq_cst);
        return state_->starved.load(std::memory_order_seq_cst) != 0 &&
               state_->starved.exchange(0, std::memory_order_seq_cst) != 0;
    }

    /// Like pop(), for an awaited record. `at_once` says whether the reader took it at once. If so, the caller must
    /// also notify the writer's rank.
    [[nodiscard]] bool pop_awaited(bool at_once) {
        taken_ = at_once ? MessageRingState<Atomics>::kTaken : 0;
        return pop();
    }

private:
    /// `room` is the number of published bytes up to the end of the ring.
    Result<std::optional<std::span<const std::byte>>> front_near(std::uint64_t length, std::uint64_t room) {
        const std::uint64_t taken = MessageRingRecord::lines_of(length);
        if (length > MessageRingState<Atomics>::kNearBytes || taken > room) {
            return failure(ErrorCode::internal,
                           "a ring of messages has a record of {} bytes beside its state, at {} of {}", length,
                           position_, written_);
        }
        end_ = position_ + taken;
        return std::optional(std::span<const std::byte>(state_->near_place(length), length));
    }

    MessageRingState<Atomics>* state_;
    const std::byte* memory_;
    std::uint64_t bytes_;
    std::uint64_t position_ = 0;
    std::uint64_t end_ = 0;
    std::uint64_t written_ = 0;  ///< the writer's position when the reader last loaded it
    std::uint64_t near_ = 0;     ///< MessageRingState::near when the reader last loaded it
    std::uint64_t taken_ = 0;    ///< MessageRingState::kTaken if the reader took the last awaited record at once
};

/// Shows a rank which members of its host have written messages to it since it last checked. Each member has one bit.
/// Memory full of zeros means that no member has written.
template <class Atomics>
struct alignas(base::kCacheLine) Doorstep {
    typename Atomics::template Atomic<std::uint64_t> knocks{0};

    /// A member calls this function after it published a message for the rank. If this function returns true, the rank
    /// may be asleep, and the caller must wake the rank. If this function returns false, the member's bit was already
    /// set, and the rank has not cleared it yet. The caller of the knock() that set the bit wakes the rank.
    [[nodiscard]] bool knock(std::uint32_t member) {
        const std::uint64_t bit = std::uint64_t{1} << member;
        // The load is seq_cst, so it comes after the store that published the message. If the bit is set, the rank has
        // not cleared it yet. The rank checks the rings after it has cleared the bit, so it will find the message.
        if ((knocks.load(std::memory_order_seq_cst) & bit) != 0) {
            return false;
        }
        knocks.fetch_or(bit, std::memory_order_seq_cst);
        return true;
    }
    [[nodiscard]] bool anybody() const { return knocks.load(std::memory_order_seq_cst) != 0; }
    [[nodiscard]] bool anybody_but(std::uint32_t member) const {
        return (knocks.load(std::memory_order_seq_cst) & ~(std::uint64_t{1} << member)) != 0;
    }
    /// Returns the bits and clears them. A set bit means that this member has written to its ring. The rank calls this
    /// function before it checks the rings of these members.
    [[nodiscard]] std::uint64_t take() { return knocks.exchange(0, std::memory_order_seq_cst); }
};

}  // namespace rueda::collectives
