// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "base/shared_memory/atomics.hpp"
#include "base/shared_memory/control_block.hpp"
#include "core/negotiation/foreign.hpp"
#include "core/negotiation/metadata.hpp"
#include "rueda/rueda.h"

/// The data of the negotiation in the arena: one such memory for each process set (docs/design/0001-negotiation.md).
/// All fields have a fixed width, and all tables are at fixed offsets. The type of the atomics is a template parameter,
/// so the interleaving tests can run the same code.
namespace rueda::core {

inline constexpr std::uint32_t kNoSlot = 0xFFFFFFFF;

/// In process sets of up to kInlineMembers ranks, tensors up to this size are sent inside the announcement, in its
/// cache lines. Every rank reads the cache lines of all other ranks, so the cost grows with the square of the number of
/// ranks. NegotiationExtent::payload_bytes allows larger tensors, which are sent in a separate buffer.
inline constexpr std::size_t kInlineBytes = 80;
inline constexpr std::uint32_t kInlineMembers = 8;

/// The sizes of a process set's tables.
struct NegotiationExtent {
    std::uint32_t members = 1;
    std::uint32_t unnamed_slots = 64;  ///< the first slots are for operations without a name, which the members match
                                       ///< by the order of their calls
    /// the number of slots that are used before idle slots are reclaimed; includes the unnamed slots
    std::uint32_t initial_slots = 1024;
    std::uint32_t slots = 4096;          ///< the number of slots for which addresses are reserved
    std::uint32_t mailbox_records = 64;  ///< the number of records in the mailbox of each member; a power of two
    /// The number of refused names that can be remembered for each slot. A name is refused only if all slots are taken,
    /// and only then the table of refused names uses memory.
    std::uint32_t refusals_per_slot = 4;
    /// The number of slots that have a buffer for tensors larger than kInlineBytes (a payload buffer). These are the
    /// first slots.
    std::uint32_t payload_slots = 0;
    std::uint32_t payload_bytes = 0;  ///< the size of a payload buffer, in bytes; a multiple of the cache line
    /// The number of buffers for data that log entries refer to (attachments); 0 in a set on one host.
    std::uint32_t attachments = 0;
    std::uint32_t attachment_bytes = 0;
    std::uint32_t call_sites = 0;  ///< 1 if each announcement carries the source line of its call (SiteLine), else 0

    /// Whether member 0, the leader, is the only registrar and the only member that appends to the log. This holds in a
    /// set on several hosts (docs/design/0002-several-hosts.md). Use this only to choose which classes to create
    /// (core/process_set/hosts.hpp).
    [[nodiscard]] bool has_leader() const { return attachments != 0; }
    /// Whether small inputs are sent inside the announcement. This is so only in small sets on one host.
    [[nodiscard]] bool inputs_travel() const { return members <= kInlineMembers && attachments == 0; }
    /// Whether small inputs are copied into the announcement so that the leader can send them to the root of the tree
    /// (core/negotiation/carried.hpp). This is so only in sets on several hosts, on hosts with few members.
    [[nodiscard]] bool leader_carries_inputs() const { return members <= kInlineMembers && attachments != 0; }
    /// Whether the arena holds a table of splits: the numbers of rows that the ranks send to each other in an alltoall
    /// or a scatter. In a set on several hosts there is no table, because the ranks send their splits to each other.
    [[nodiscard]] bool has_splits() const { return attachments == 0; }
    [[nodiscard]] std::uint32_t log_entries() const {
        // on several hosts, the log also needs space for the entries of the kinds `wanted` and `all_joined`
        const std::uint32_t of_joins = has_leader() ? attachments + 1 : 0;
        return std::bit_ceil(2 * slots + mailbox_records * members + 2 + of_joins);
    }
    /// Returns how many slots are for operations with names, if `all` slots are in use. Settings and error messages
    /// state this number.
    [[nodiscard]] std::uint32_t for_names(std::uint32_t all) const { return all - std::min(all, unnamed_slots); }
    [[nodiscard]] std::uint32_t name_buckets() const { return std::bit_ceil(2 * slots); }
    [[nodiscard]] std::uint32_t refusals() const { return slots * refusals_per_slot; }
    [[nodiscard]] std::uint32_t refusal_buckets() const { return std::bit_ceil(2 * refusals() + 1); }
};

/// Counts the announcements in a slot, in one 64-bit word. The word never gets smaller until the slot is retired
/// (SlotState::retired). Direct announcements are not counted.
struct ArrivalCount {
    static constexpr std::uint64_t kOne = 1;
    /// A rank adds kChangedOne together with kOne if its metadata differs from the metadata to which the slot is bound.
    static constexpr std::uint64_t kChangedOne = std::uint64_t{1} << 48;
    static constexpr std::uint64_t kRetired = std::uint64_t{1} << 63;

    [[nodiscard]] static constexpr std::uint64_t arrivals(std::uint64_t word) { return word & (kChangedOne - 1); }
    [[nodiscard]] static constexpr bool any_changed(std::uint64_t word) { return ((word & ~kRetired) >> 48) != 0; }
    [[nodiscard]] static constexpr bool is_retired(std::uint64_t word) { return (word & kRetired) != 0; }
};

/// A copy, outside of shared memory, of a Place (the data of an announcement). If the rank does not know the tensor's
/// slot yet, it sends this copy in a record of its mailbox.
struct PlaceContent {
    std::uint32_t flags = 0;
    std::uint32_t payload_bytes = 0;
    std::uint64_t input = 0;
    std::uint64_t output = 0;
    std::int64_t first_dimension = 0;
    std::array<std::byte, kInlineBytes> payload{};
    Metadata metadata;
    std::uint64_t signature = 0;
    std::int64_t announced_ns = 0;
    std::uint64_t stamp = 0;
};

/// The data of one rank's announcement. The rank writes it before it counts the announcement. Members read it after
/// they have read the call in the log. If the announcement is direct, members read it as soon as they see `stamp`. The
/// stall monitor reads `stamp` and `announced_ns` at any time.
template <class Atomics>
struct alignas(base::kCacheLine) Place {
    enum Flags : std::uint32_t {
        kResidentInput = 1,
        kResidentOutput = 2,
        kPayload = 4,     ///< the announcement contains the whole input (NegotiationMemory::payload)
        kMetadata = 8,    ///< `metadata` holds this rank's own metadata. Without this flag, the rank agrees with the
                          ///< metadata to which the slot is bound.
        kDirect = 16,     ///< announced directly: neither the slot's counter nor the log is used (look_at_direct())
        kJoined = 32,     ///< the rank has joined: it contributes nothing to this operation and gets no result
        kUncounted = 64,  ///< an average does not count this rank; this flag is set only together with kJoined
        /// The announcement contains the whole input for the leader (NegotiationMemory::payload). The other members
        /// must not use it: without a result from the root, they read the input as if this flag was not set.
        kCarried = 128,
        /// The rank has equally many rows for each member. Then NegotiationMemory::splits is neither written nor read,
        /// so fewer cache lines move. Only for an announcement in a slot.
        kEvenSplits = 256,
    };

    /// 1 + the generation of the last announcement in this place. A generation is the number of a use of the slot.
    typename Atomics::template Atomic<std::uint64_t> stamp{0};
    typename Atomics::template Atomic<std::int64_t> announced_ns{0};
    std::uint32_t flags = 0;
    std::uint32_t payload_bytes = 0;
    /// for an input in resident memory: its offset in the arena; for an input in device memory: DeviceUse::place
    std::uint64_t input = 0;
    std::uint64_t output = 0;  ///< the arena offset of an output in resident memory
    /// the first dimension of this rank's input; only for operations of variable size
    std::int64_t first_dimension = 0;
    std::array<std::byte, kInlineBytes> payload{};
    Metadata metadata;
    std::uint64_t signature = 0;  ///< the result of signature_of(metadata); only for unnamed operations

    /// Reads each field once.
    [[nodiscard]] PlaceContent content() const {
        return {.flags = copy_once(flags),
                .payload_bytes = copy_once(payload_bytes),
                .input = copy_once(input),
                .output = copy_once(output),
                .first_dimension = copy_once(first_dimension),
                .payload = copy_once(payload),
                .metadata = copy_once(metadata),
                .signature = copy_once(signature),
                .announced_ns = announced_ns.load(std::memory_order_relaxed),
                .stamp = stamp.load(std::memory_order_relaxed)};
    }
    void write(const PlaceContent& content) {
        flags = content.flags;
        payload_bytes = content.payload_bytes;
        input = content.input;
        output = content.output;
        first_dimension = content.first_dimension;
        payload = content.payload;
        metadata = content.metadata;
        signature = content.signature;
        announced_ns.store(content.announced_ns, std::memory_order_relaxed);
        // The store is a release, and the stall monitor loads the stamp with acquire. So a monitor that sees the new
        // stamp also sees the time that belongs to it.
        stamp.store(content.stamp, std::memory_order_release);
    }
};

/// The size of a call site's text (a source line), in bytes.
inline constexpr std::size_t kSiteBytes = 128;
/// A call site (the source line of the call that made an announcement), as text for people. The call site lies beside
/// the announcement's Place, and is written and read at the same times as the Place. The text is stored in atomic
/// words, because the stall monitor may read it at any time. The monitor discards the text if the announcement has
/// changed during the read.
template <class Atomics>
class alignas(base::kCacheLine) SiteLine {
public:
    using Text = std::array<char, kSiteBytes>;  ///< the text ends with a zero byte, or fills the array

    void write(const Text& text) {
        for (std::size_t i = 0; i < kWords; ++i) {
            std::uint64_t word = 0;
            std::memcpy(&word, text.data() + i * sizeof(word), sizeof(word));
            words_[i].store(word,
                            // The store is relaxed, because a later store publishes the word. The later store writes
                            // the place's stamp, or hands the role of the registrar to the next rank.
                            std::memory_order_relaxed);
        }
    }
    [[nodiscard]] Text read() const {
        Text text;
        for (std::size_t i = 0; i < kWords; ++i) {
            const std::uint64_t word = words_[i].load(std::memory_order_relaxed);
            std::memcpy(text.data() + i * sizeof(word), &word, sizeof(word));
        }
        return text;
    }

private:
    static constexpr std::size_t kWords = kSiteBytes / sizeof(std::uint64_t);
    typename Atomics::template Atomic<std::uint64_t> words_[kWords] = {};
};

template <class Atomics>
struct alignas(base::kCacheLine) ArrivalWord {
    typename Atomics::template Atomic<std::uint64_t> count{0};
    /// The log position of the slot's last call. It only helps to choose an idle slot to reclaim, so relaxed accesses
    /// are enough.
    typename Atomics::template Atomic<std::uint64_t> last_called{0};
    /// The number of announcements in `count` that belong to calls in the log. If `called` is less than `count`, there
    /// are two cases. Either some members have not announced the operation yet, or the last member has not appended the
    /// call yet. In both cases, the slot must not be retired. The rank that appends a call stores this number after the
    /// append. The store is a release, and pairs with Registrar::close_to_arrivals().
    typename Atomics::template Atomic<std::uint64_t> called{0};
};

enum class EntryKind : std::uint32_t {
    call = 1,  ///< all members have announced the tensor of `slot`: execute the operation
    /// like an entry of kind `call`; in addition, `slot` is now bound to the name in the slot's record
    first_call = 2,
    /// Like an entry of kind `call`, but with new metadata: the operation has the metadata that the members announced
    /// this time. The slot is then retired.
    changed_call = 3,
    /// The members' metadata differ, or no member can do the operation. If the slot has a name, it is retired.
    mismatch = 4,
    failed = 5,   ///< the operation of `slot` is never called, because a rank has shut down
    retire = 6,   ///< `slot` no longer belongs to its name
    refused = 7,  ///< `rank` announced a name after a shutdown, which is refused; `ticket` identifies the announcement
    closed = 8,   ///< all members have shut down; the last entry
    /// No slot was free for a name that `rank` announced. `ticket` identifies the announcement, and `bytes` holds the
    /// number of slots.
    exhausted = 9,
    closing = 10,    ///< a rank has shut down: a member that has read this entry announces nothing more
    disagreed = 11,  ///< like `mismatch`, for a set on several hosts: the attachment holds the reason, and `rank` holds
                     ///< the ErrorCode
    /// All members have announced the operation of `slot`, but it needs data of a rank that has joined. The operation
    /// fails as it does after an entry of kind `mismatch`. In a set on several hosts, it fails as after `disagreed`.
    lacks_joined = 12,
    all_joined = 13,  ///< all ranks of the set have joined; `rank` was the last one; the join ends here
    /// Only in a set on several hosts: other hosts have announced the operation that the attachment names. All members
    /// on this host have joined, and must announce the operation too. `slot` is the slot of an unnamed operation, or
    /// kNoSlot for a named one.
    wanted = 14,
};

template <class Atomics>
struct alignas(base::kCacheLine) LogEntry {
    /// The entry's position + 1. While a member has claimed the entry but not published it yet, the word also contains
    /// the bit kClaimed and the number of this member (see Log).
    typename Atomics::template Atomic<std::uint64_t> sequence{0};
    /// the end of the batch that begins at this entry; valid only if it is greater than the entry's position
    typename Atomics::template Atomic<std::uint64_t> end{0};
    std::uint32_t kind = 0;
    std::uint32_t slot = kNoSlot;
    std::uint32_t rank = 0;
    std::uint32_t ticket = 0;
    std::uint32_t fusion = 0;      ///< only for a call: the Fusion, which says which calls may share a batch
    std::uint32_t attachment = 0;  ///< number + 1; 0: none
    std::uint64_t bytes = 0;       ///< the size of the tensor, which limits the size of a batch
    std::uint32_t uncounted = 0;   ///< how many ranks an average does not count; only in a set on several hosts
};

enum class SlotState : std::uint32_t {
    unused = 0,
    first_sight = 1,  ///< some members have announced the name, but not all
    bound = 2,
    retired = 3,  ///< the slot has lost its name; it may be reused when all members have read the entry that retires it
    /// This state occurs only in a SlotLabel: all members have announced the name, and the registrar is about to append
    /// the answer to the log.
    answering = 4,
};

/// The step of the protocol that a member has begun and not finished. The stall monitor needs it, because a process can
/// be stopped at any instruction. A value that is not listed here is a slot + 1: the member is announcing in this slot.
/// For the member that announces last, the step of announcing also includes the append of the log entry.
struct ProtocolStep {
    static constexpr std::uint32_t kNone = 0;
    static constexpr std::uint32_t kPosting = 0xFFFFFFFE;    ///< the member is posting a request to the registrar
    static constexpr std::uint32_t kRegistrar = 0xFFFFFFFF;  ///< the member holds the role of the registrar
};

/// The registrar's data about a slot. Other ranks read `name` and `metadata` only after a log entry refers to the slot.
struct SlotRecord {
    std::uint32_t state = 0;  ///< SlotState
    std::uint32_t name_bytes = 0;
    std::uint64_t name_hash = 0;
    std::uint64_t arrived = 0;  ///< one bit per member that has announced; used in state first_sight
    std::uint64_t retired_at = 0;
    Metadata metadata;  ///< the metadata to which the slot is bound
    char name[RUEDA_MAX_NAME + 1] = {};
};

/// The state and the name of a slot, which the registrar publishes for diagnostics. Any rank may read them at any time.
/// The state word also serves as the version of a sequence lock: it counts how often the slot was given a name, and
/// readers compare it before and after they read the name.
template <class Atomics>
class alignas(base::kCacheLine) SlotLabel {
public:
    struct State {
        std::uint32_t use = 0;  ///< how often the slot was given a name
        std::uint32_t name_bytes = 0;
        SlotState state = SlotState::unused;

        [[nodiscard]] bool operator==(const State&) const = default;
    };

    [[nodiscard]] State state() const { return unpack(state_.load(std::memory_order_acquire)); }
    /// Returns the slot's name at the time of `state`. Returns "" if the slot has changed since then, or if `state` is
    /// invalid.
    [[nodiscard]] std::string name(const State& state) const {
        std::string text(std::size_t{kWords} * kWordBytes, '\0');
        if (state.name_bytes > RUEDA_MAX_NAME) {
            return {};
        }
        for (std::uint32_t i = 0; i * kWordBytes < state.name_bytes; ++i) {
            const std::uint64_t word = name_[i].load(std::memory_order_acquire);
            std::memcpy(text.data() + i * kWordBytes, &word, kWordBytes);
        }
        const State after = unpack(state_.load(std::memory_order_relaxed));
        text.resize(state.name_bytes);
        return after.use == state.use && after.name_bytes == state.name_bytes ? text : std::string();
    }

    // Only the registrar calls open() and set().
    void open(std::string_view name) {
        const std::uint32_t use = unpack(state_.load(std::memory_order_relaxed)).use + 1;
        state_.store(pack({use, 0, SlotState::unused}), std::memory_order_relaxed);
        for (std::uint32_t i = 0; i * kWordBytes < name.size(); ++i) {
            std::uint64_t word = 0;
            const std::string_view part = name.substr(i * kWordBytes, kWordBytes);
            std::memcpy(&word, part.data(), part.size());
            // The store is a release, so a reader in name() that sees this word also sees the new `use` in the state
            // word.
            name_[i].store(word, std::memory_order_release);
        }
        state_.store(pack({use, static_cast<std::uint32_t>(name.size()), SlotState::first_sight}),
                     std::memory_order_release);
    }
    void set(SlotState state) {
        State now = unpack(state_.load(std::memory_order_relaxed));
        now.state = state;
        state_.store(pack(now), std::memory_order_release);
    }

private:
    static constexpr std::uint32_t kWordBytes = sizeof(std::uint64_t);
    static constexpr std::uint32_t kWords = (RUEDA_MAX_NAME + kWordBytes - 1) / kWordBytes;

    [[nodiscard]] static constexpr std::uint64_t pack(const State& s) {
        return std::uint64_t{s.use} << 32 | std::uint64_t{s.name_bytes} << 16 | static_cast<std::uint64_t>(s.state);
    }
    [[nodiscard]] static constexpr State unpack(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word >> 16 & 0xFFFF),
                static_cast<SlotState>(word & 0xFFFF)};
    }

    typename Atomics::template Atomic<std::uint64_t> state_{0};
    typename Atomics::template Atomic<std::uint64_t> name_[kWords] = {};
};

/// The mask with the bits of all members.
[[nodiscard]] constexpr std::uint64_t all_members(std::uint32_t members) {
    constexpr std::uint32_t kBits = 64;
    return members >= kBits ? ~std::uint64_t{0} : (std::uint64_t{1} << members) - 1;
}

/// The call in which a member waits until all members end the process set.
enum class EndCall : std::uint32_t { shutdown = 0, remove = 1, leave = 2 };

enum class RequestKind : std::uint32_t { announce = 1, resolve = 2, shut_down = 3, settle = 4 };

/// A request of a rank to the registrar, the role that assigns slots and compares metadata.
template <class Atomics>
struct alignas(base::kCacheLine) MailboxRecord {
    std::uint32_t kind = 0;  ///< RequestKind
    std::uint32_t ticket = 0;
    std::uint32_t slot = kNoSlot;  ///< only in a resolve request
    std::uint32_t name_bytes = 0;
    std::uint64_t generation = 0;  ///< only in a resolve request
    /// how many uses of the slot were counted, including this use; only in a resolve request
    std::uint64_t counted = 0;
    std::uint64_t name_hash = 0;
    /// The log position directly after the entry that answers this record; 0 if no entry answers it. The registrar
    /// writes this field when it has handled the record.
    std::uint64_t answered_before = 0;
    alignas(std::uint64_t) char name[RUEDA_MAX_NAME + 1] = {};
    Place<Atomics> place;
    /// the number of rows for each member; only for an alltoall or a scatter
    std::int64_t splits[base::kMaxLocalRanks] = {};
    std::array<char, kSiteBytes> site{};  ///< the call site; only in an announce request of a set with call
                                          ///< sites

    /// The member that posts the record calls this. The stall monitor may read the record at the same time in
    /// pending_name(), so this function stores `kind` atomically. The store is a release, so a monitor that sees the
    /// new kind also sees that the registrar has handled the record's previous content.
    void set_kind(RequestKind request) {
        std::atomic_ref(kind).store(static_cast<std::uint32_t>(request), std::memory_order_release);
    }
    /// Stores the name. The stores are releases, because the stall monitor may read the name at the same time (see
    /// set_kind()).
    void set_name(std::string_view text) {
        std::atomic_ref(name_bytes).store(static_cast<std::uint32_t>(text.size()), std::memory_order_release);
        for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            const std::string_view part = text.substr(at, sizeof(word));
            std::memcpy(&word, part.data(), part.size());
            std::atomic_ref(reinterpret_cast<std::uint64_t&>(name[at])).store(word, std::memory_order_release);
        }
    }
    /// Returns the announced name; "" if this record is not an announcement. Only the stall monitor calls this
    /// function. Afterwards the monitor checks whether the registrar has handled the record during the read. If so, the
    /// monitor discards the name.
    [[nodiscard]] std::string pending_name() {
        const std::uint32_t bytes = std::atomic_ref(name_bytes).load(std::memory_order_acquire);
        const std::uint32_t request = std::atomic_ref(kind).load(std::memory_order_acquire);
        if (request != static_cast<std::uint32_t>(RequestKind::announce) || bytes > RUEDA_MAX_NAME) {
            return {};
        }
        std::string text((bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t) * sizeof(std::uint64_t), '\0');
        for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
            const std::uint64_t word =
                std::atomic_ref(reinterpret_cast<std::uint64_t&>(name[at])).load(std::memory_order_acquire);
            std::memcpy(text.data() + at, &word, sizeof(word));
        }
        text.resize(bytes);
        return text;
    }
};

/// A name for which no slot was free. The announcements of some members were refused, and the announcements of the
/// other members must still be refused. NegotiationMemory::refused() counts the refusals of each member.
struct Refusal {
    std::uint64_t key[2] = {};  ///< a hash of the name
    std::uint32_t slots = 0;    ///< the number of slots at the first refusal; 0 marks a free bucket
    std::uint32_t most = 0;     ///< how many refusals the member with the most refusals has received
};

/// A member's mailbox: a ring with one producer (the member, under its enqueue lock) and one consumer (the registrar).
template <class Atomics>
struct MailboxHeader {
    alignas(base::kCacheLine) typename Atomics::template Atomic<std::uint64_t> posted{0};
    alignas(base::kCacheLine) typename Atomics::template Atomic<std::uint64_t> taken{0};

    // The member writes the following fields for the stall monitor. If the mailbox is full, the member keeps further
    // announcements in its own memory (deferred announcements).

    /// The member waits until all members have read the log up to this position, because only then one of its records
    /// becomes free. The value is 0 if the member does not wait. The interleaving tests do not explore this field,
    /// because only the stall monitor reads it. So it is a plain number that is accessed by atomic_ref.
    alignas(base::kCacheLine) std::uint64_t reads_awaited = 0;
    /// the time of the first of the announcements that wait in the member's own memory
    typename Atomics::template Atomic<std::int64_t> deferred_ns{0};
    /// The name of the first announcement that waits in the member's own memory. Valid if this label has the state
    /// first_sight.
    SlotLabel<Atomics> deferred;
    /// The number of announcements that wait in the member's own memory. Other members can see only the name of the
    /// first of them.
    typename Atomics::template Atomic<std::uint64_t> deferred_count{0};
};

template <class Atomics>
struct alignas(base::kCacheLine) Cursor {
    typename Atomics::template Atomic<std::uint64_t> position{0};
    /// The slot + 1 of the member's last direct announcement; 0: none. The stall monitor needs this word, because no
    /// counter shows direct announcements.
    typename Atomics::template Atomic<std::uint32_t> direct{0};
    /// The member's present ProtocolStep, for the stall monitor. Like MailboxHeader::reads_awaited, this is a plain
    /// number. Only set_step() and step_of() access it.
    std::uint32_t step = ProtocolStep::kNone;

    // The operation that the member finished last, for the stall monitor. The lower 32 bits hold the slot + 1, the
    // upper 32 bits hold the generation. The value is 0 if there is no such operation, or if the name of the operation
    // no longer has a slot.
    typename Atomics::template Atomic<std::uint64_t> finished{0};
    /// `finished_seen`: the value of `finished` when the background thread of the member last saw it change.
    /// `finished_ns`: the time at which the thread saw this change.
    typename Atomics::template Atomic<std::uint64_t> finished_seen{0};
    typename Atomics::template Atomic<std::int64_t> finished_ns{0};

    // The following fields are for stall reports about tensors on GPUs. Accesses are relaxed, because the background
    // threads read the values only seconds after they were written.
    typename Atomics::template Atomic<std::uint64_t> device{0};  ///< a DeviceState
    /// The oldest batch that the member's GPU still works on: the batch's position in the log + 1; 0: none.
    typename Atomics::template Atomic<std::uint64_t> launched{0};
    /// When the batch in `launched` was launched (CLOCK_MONOTONIC).
    typename Atomics::template Atomic<std::int64_t> launched_ns{0};
};
inline constexpr int kFinishedSlotBits = 32;

template <class Atomics>
struct SetHeader {
    // All members often read the following fields, and rarely write them.
    alignas(base::kCacheLine) NegotiationExtent extent;
    typename Atomics::template Atomic<std::uint64_t> shut_down{0};       ///< not 0 if a member has shut down
    typename Atomics::template Atomic<std::int32_t> first_shut_down{0};  ///< the job's rank that began the shutdown
    /// the lowest number of a slot that was never used
    typename Atomics::template Atomic<std::uint32_t> high_slot{0};

    /// One bit per member, which is 1 if the member has joined (docs/design/0005-join.md). The member sets its bit; the
    /// registrar clears it.
    typename Atomics::template Atomic<std::uint64_t> joined{0};
    /// 1 + the number of the member that joined last; 0: not all members have joined
    typename Atomics::template Atomic<std::uint32_t> last_joined{0};

    /// For the report about a process set whose end is delayed (core/diagnostics/pending_end.hpp). Each member sets and
    /// clears its own bits.
    /// - `end_announced`: the members that have posted their shutdown.
    /// - `end_awaited`: the members that wait for the shutdown of all.
    /// - `end_awaited_ns`, `end_call`: the time since which the first of these members waits, and the call in which it
    ///   waits.
    typename Atomics::template Atomic<std::uint64_t> end_announced{0};
    typename Atomics::template Atomic<std::uint64_t> end_awaited{0};
    typename Atomics::template Atomic<std::int64_t> end_awaited_ns{0};
    typename Atomics::template Atomic<std::uint32_t> end_call{0};  ///< EndCall

    /// Counts the announcements that are made while any member has joined. Joined members read this counter to notice
    /// new announcements.
    alignas(base::kCacheLine) typename Atomics::template Atomic<std::uint64_t> announced{0};
    /// the time of the last counted announcement, or of the last join
    typename Atomics::template Atomic<std::int64_t> announced_ns{0};

    alignas(base::kCacheLine) typename Atomics::template Atomic<std::uint64_t> requests{0};

    // Only the current registrar accesses the following fields. Each registrar sees what the previous registrar wrote,
    // because they hand over the role by a release and an acquire of `requests`.
    alignas(base::kCacheLine) std::uint32_t slot_limit = 0;
    std::uint32_t free_count = 0;
    std::uint32_t retired_first = 0;  ///< ring of retired slots, oldest first
    std::uint32_t retired_count = 0;
    std::uint32_t clock_hand = 0;
    std::uint32_t tombstones = 0;
    std::uint32_t closing = 0;  ///< not 0 if the log has a *closing* entry; no more calls are appended after it
    std::uint32_t closed = 0;
    std::uint32_t refusals = 0;  ///< number of refused names; at most extent.refusals()
    /// The log position at which the last search found no idle slot. Until the log grows, no slot can become idle.
    std::uint64_t nothing_idle_at = ~std::uint64_t{0};
    std::uint64_t shut_down_members = 0;
    std::uint64_t settled_members = 0;  ///< joined members without a pending operation; accessed by atomic_ref
    /// These two fields are about announcements that wait for a slot number. The announcements wait until all members
    /// have read the log up to `numbers_wait_for`, which is 0 if no announcement waits. Then the announcements are
    /// handled by the member whose number is one less than `numbers_wait_with`, unless another member becomes the
    /// registrar earlier. Both fields are accessed by atomic_ref, because the stall monitor reads them.
    std::uint64_t numbers_wait_for = 0;
    std::uint32_t numbers_wait_with = 0;
};

/// Records the member's current step for the stall monitor, which reads the step about once per second. The store is a
/// release, so a monitor that sees an announcement also sees that the step of this announcement had begun. A monitor
/// that sees the end of the step also sees everything that the member stored in this step.
template <class Memory>
void set_step(const Memory& memory, std::uint32_t member, std::uint32_t step) {
    std::atomic_ref(memory.cursor(member).step).store(step, std::memory_order_release);
}
template <class Memory>
[[nodiscard]] std::uint32_t step_of(const Memory& memory, std::uint32_t member) {
    // acquire: pairs with set_step()
    return std::atomic_ref(memory.cursor(member).step).load(std::memory_order_acquire);
}

/// Computes the addresses of the tables in a process set's memory. Objects of this class are cheap to copy; the arena
/// owns the memory.
template <class Atomics>
class NegotiationMemory {
public:
    [[nodiscard]] static std::size_t bytes(const NegotiationExtent& extent) { return offsets(extent).end; }
    /// The size of the table of splits, which is a part of bytes().
    [[nodiscard]] static std::size_t splits_bytes(const NegotiationExtent& extent) {
        return extent.has_splits() ? splits_row_bytes(extent) * extent.slots * extent.members * 2 : 0;
    }

    /// Initialises memory that contains only zeros. Call this once, before any other rank uses the memory.
    static void initialise(std::byte* memory, const NegotiationExtent& extent);

    NegotiationMemory(std::byte* memory, const NegotiationExtent& extent)
        : extent_(extent), offsets_(offsets(extent)), changes_places_(extent.members == 2 ? 1 : 0), memory_(memory) {}

    [[nodiscard]] const NegotiationExtent& extent() const { return extent_; }
    [[nodiscard]] SetHeader<Atomics>& header() const { return *at<SetHeader<Atomics>>(0, 0); }
    [[nodiscard]] LogEntry<Atomics>& entry(std::uint64_t position) const {
        return *at<LogEntry<Atomics>>(offsets_.log, position & (extent_.log_entries() - 1));
    }
    [[nodiscard]] ArrivalWord<Atomics>& arrivals(std::uint32_t slot) const {
        return *at<ArrivalWord<Atomics>>(offsets_.arrivals, slot);
    }
    [[nodiscard]] Place<Atomics>& place(std::uint32_t slot, std::uint32_t rank, std::uint64_t generation) const {
        return *at<Place<Atomics>>(offsets_.places, place_index(slot, rank, generation));
    }
    /// Returns the buffer for an input of `bytes` bytes that is sent with an announcement; null if the input is too
    /// large. Like the places, the buffers differ for even and odd generations (see place_index()).
    [[nodiscard]] std::byte* payload(std::uint32_t slot, std::uint32_t rank, std::uint64_t generation,
                                     std::uint64_t bytes) const {
        if (bytes <= kInlineBytes) {
            return place(slot, rank, generation).payload.data();
        }
        if (slot >= extent_.payload_slots || bytes > extent_.payload_bytes) {
            return nullptr;
        }
        return memory_ + offsets_.payloads + place_index(slot, rank, generation) * extent_.payload_bytes;
    }
    /// The splits of an alltoall or a scatter: one number per member. The rank writes them before it counts its
    /// announcement, and all members read them after they have read the call. Even and odd generations have different
    /// arrays. Nobody reads them if the announcement has the flag kEvenSplits.
    [[nodiscard]] std::int64_t* splits(std::uint32_t slot, std::uint32_t rank, std::uint64_t generation) const {
        return at<std::int64_t>(offsets_.splits,
                                place_index(slot, rank, generation) * splits_row_bytes(extent_) / sizeof(std::int64_t));
    }
    [[nodiscard]] SlotRecord& record(std::uint32_t slot) const { return *at<SlotRecord>(offsets_.records, slot); }
    [[nodiscard]] SlotLabel<Atomics>& label(std::uint32_t slot) const {
        return *at<SlotLabel<Atomics>>(offsets_.labels, slot);
    }
    [[nodiscard]] std::uint32_t& name_bucket(std::uint32_t index) const {
        return *at<std::uint32_t>(offsets_.names, index);
    }
    [[nodiscard]] std::uint32_t& free_slot(std::uint32_t index) const {
        return *at<std::uint32_t>(offsets_.free, index);
    }
    [[nodiscard]] std::uint32_t& retired_slot(std::uint32_t index) const {
        return *at<std::uint32_t>(offsets_.retired, index);
    }
    [[nodiscard]] Refusal& refusal(std::uint32_t bucket) const { return *at<Refusal>(offsets_.refusals, bucket); }
    [[nodiscard]] std::uint32_t& refused(std::uint32_t bucket, std::uint32_t rank) const {
        return *at<std::uint32_t>(offsets_.refused, std::uint64_t{bucket} * extent_.members + rank);
    }
    [[nodiscard]] MailboxHeader<Atomics>& mailbox(std::uint32_t rank) const {
        return *at<MailboxHeader<Atomics>>(offsets_.mailboxes, rank);
    }
    [[nodiscard]] MailboxRecord<Atomics>& mailbox_record(std::uint32_t rank, std::uint64_t index) const {
        return *at<MailboxRecord<Atomics>>(offsets_.mailbox_records, std::uint64_t{rank} * extent_.mailbox_records +
                                                                         (index & (extent_.mailbox_records - 1)));
    }
    [[nodiscard]] Cursor<Atomics>& cursor(std::uint32_t rank) const {
        return *at<Cursor<Atomics>>(offsets_.cursors, rank);
    }
    /// The call site of an announcement. Only in a set with call sites.
    [[nodiscard]] SiteLine<Atomics>& site(std::uint32_t slot, std::uint32_t rank, std::uint64_t generation) const {
        return *at<SiteLine<Atomics>>(offsets_.sites, extent_.members + place_index(slot, rank, generation));
    }
    /// The call site of a member's join. Only in a set with call sites.
    [[nodiscard]] SiteLine<Atomics>& join_site(std::uint32_t rank) const {
        return *at<SiteLine<Atomics>>(offsets_.sites, rank);
    }
    /// Returns the attachment, the data that a log entry refers to. The leader writes the attachment before the entry;
    /// members read it after the entry.
    [[nodiscard]] std::byte* attachment(std::uint32_t number) const {
        return memory_ + offsets_.attachments + std::size_t{number} * extent_.attachment_bytes;
    }

private:
    /// Each member has two places per slot: one for even and one for odd generations. Two are enough, because nobody
    /// reads the place of generation g any more when a rank announces generation g + 2. This rank has completed
    /// generation g + 1, so all members have announced g + 1. And each member announced g + 1 only after it had read
    /// the places of g.
    ///
    /// In a set of two members, the members also swap their places every other generation. A rank then writes to cache
    /// lines that it has just read itself, so these lines are in its own core's cache. Without the swap, the rank would
    /// write to lines that the other member has just read. Those lines would first have to be invalidated in the other
    /// core's cache.
    [[nodiscard]] std::uint64_t place_index(std::uint32_t slot, std::uint32_t rank, std::uint64_t generation) const {
        const std::uint64_t owner = rank ^ (generation >> 1 & changes_places_);
        return (std::uint64_t{slot} * extent_.members + owner) * 2 + (generation & 1);
    }

    struct Offsets {
        std::size_t log, arrivals, places, payloads, records, labels, names, free, retired, mailboxes, mailbox_records,
            cursors, refusals, refused, splits, attachments, sites, end;
    };
    /// Each rank's splits start at a cache line, so that ranks do not share lines.
    [[nodiscard]] static std::size_t splits_row_bytes(const NegotiationExtent& extent) {
        return (extent.members * sizeof(std::int64_t) + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
    }
    [[nodiscard]] static Offsets offsets(const NegotiationExtent& extent);

    template <class T>
    [[nodiscard]] T* at(std::size_t offset, std::uint64_t index) const {
        return reinterpret_cast<T*>(memory_ + offset) + index;
    }

    NegotiationExtent extent_;
    Offsets offsets_;
    std::uint64_t changes_places_;
    std::byte* memory_;
};

template <class Atomics>
typename NegotiationMemory<Atomics>::Offsets NegotiationMemory<Atomics>::offsets(const NegotiationExtent& extent) {
    constexpr std::size_t kPage = 4096;
    std::size_t next = 0;
    const auto table = [&next](std::size_t element, std::size_t count) {
        const std::size_t begin = (next + kPage - 1) / kPage * kPage;
        next = begin + element * count;
        return begin;
    };
    Offsets o{};
    table(sizeof(SetHeader<Atomics>), 1);
    o.cursors = table(sizeof(Cursor<Atomics>), extent.members);
    o.log = table(sizeof(LogEntry<Atomics>), extent.log_entries());
    o.arrivals = table(sizeof(ArrivalWord<Atomics>), extent.slots);
    o.places = table(sizeof(Place<Atomics>), std::size_t{extent.slots} * extent.members * 2);
    o.payloads = table(extent.payload_bytes, std::size_t{extent.payload_slots} * extent.members * 2);
    o.records = table(sizeof(SlotRecord), extent.slots);
    o.labels = table(sizeof(SlotLabel<Atomics>), extent.slots);
    o.names = table(sizeof(std::uint32_t), extent.name_buckets());
    o.free = table(sizeof(std::uint32_t), extent.slots);
    o.retired = table(sizeof(std::uint32_t), extent.slots);
    o.mailboxes = table(sizeof(MailboxHeader<Atomics>), extent.members);
    o.mailbox_records = table(sizeof(MailboxRecord<Atomics>), std::size_t{extent.mailbox_records} * extent.members);
    o.refusals = table(sizeof(Refusal), extent.refusal_buckets());
    o.refused = table(sizeof(std::uint32_t), std::size_t{extent.refusal_buckets()} * extent.members);
    o.splits = table(1, splits_bytes(extent));
    o.attachments = table(extent.attachment_bytes, extent.attachments);
    o.sites = table(sizeof(SiteLine<Atomics>),
                    extent.call_sites * std::size_t{extent.members} * (1 + 2 * std::size_t{extent.slots}));
    o.end = (next + kPage - 1) / kPage * kPage;
    return o;
}

template <class Atomics>
void NegotiationMemory<Atomics>::initialise(std::byte* memory, const NegotiationExtent& extent) {
    // All tables start as zeros, and the memory is zero already. Writing the zeros again would allocate memory for
    // every page of the tables, also for slots that are never used.
    auto* header = new (memory) SetHeader<Atomics>;
    header->extent = extent;
    header->slot_limit = std::clamp(extent.initial_slots, extent.unnamed_slots + 1, extent.slots);
    header->high_slot.store(extent.unnamed_slots, std::memory_order_relaxed);
    const NegotiationMemory tables(memory, extent);
    for (std::uint32_t slot = 0; slot < extent.unnamed_slots; ++slot) {
        tables.record(slot).state = static_cast<std::uint32_t>(SlotState::bound);
    }
}

static_assert(sizeof(Place<base::StdAtomics>) == 5 * base::kCacheLine);
static_assert(offsetof(Place<base::StdAtomics>, payload) + 16 == base::kCacheLine);
static_assert(sizeof(LogEntry<base::StdAtomics>) == base::kCacheLine);
static_assert(sizeof(ArrivalWord<base::StdAtomics>) == base::kCacheLine);
static_assert(sizeof(Cursor<base::StdAtomics>) == base::kCacheLine);

}  // namespace rueda::core
