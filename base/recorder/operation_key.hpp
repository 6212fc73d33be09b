// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/recorder/recorder_reader.hpp"

namespace rueda::base {

/// Identifies all operations with the same name, by the process set, the kind, and the hash of the name. For an
/// operation without a name, the key identifies one call. If two names have the same hash, their operations may be
/// matched wrongly.
struct NameKey {
    std::int32_t set_id = 0;
    std::uint8_t kind = 0;
    std::uint32_t name_hash = 0;
    std::uint32_t call = 0;  ///< the number of the call, for an operation without a name; otherwise 0
    [[nodiscard]] bool operator==(const NameKey&) const = default;
};

[[nodiscard]] inline NameKey name_key_of(const RecordedOperation& record) {
    return {.set_id = record.set_id,
            .kind = record.kind,
            .name_hash = record.name_hash,
            .call = record.name.empty() ? record.generation : 0};
}

/// Identifies one operation on all its ranks. A program may use a name many times, so the key also has a number that
/// tells these uses apart. The key may contain one of three kinds of numbers (see `By`). No kind is enough alone: each
/// kind is unknown at some time, or may differ between the ranks.
struct OperationKey {
    enum class By : std::uint8_t {
        /// the position of the operation's batch in the log (the process set's list of batches). It is the same on all
        /// ranks, but is known only after the batch was added to the log.
        batch,
        /// the generation: the number that the operation has among the operations of its slot. A slot is a number that
        /// stands for a name. A rank that uses a name for the first time does not know the name's slot yet.
        generation,
        /// the operation's number among the operations that its rank has started in the process set. It differs
        /// between ranks that start their operations in different orders.
        ordinal,
    };

    NameKey name;
    By by = By::batch;
    std::uint64_t number = 0;
    [[nodiscard]] bool operator==(const OperationKey&) const = default;
};

/// Call key_by_batch() only if `record.batch` has a value.
[[nodiscard]] inline OperationKey key_by_batch(const RecordedOperation& record) {
    return {name_key_of(record), OperationKey::By::batch, *record.batch};
}
[[nodiscard]] inline OperationKey key_by_generation(const RecordedOperation& record) {
    return {name_key_of(record), OperationKey::By::generation, record.generation};
}
[[nodiscard]] inline OperationKey key_by_ordinal(const RecordedOperation& record) {
    return {name_key_of(record), OperationKey::By::ordinal, record.ordinal};
}
/// Returns the key of an operation that has ended. If the operation was in a batch, the key contains the position of
/// the batch. The position identifies the operation, because a name occurs at most once in a batch. Otherwise the key
/// contains the generation. If the operation has no name, its generation is the number of the call.
[[nodiscard]] inline OperationKey key_of(const RecordedOperation& record) {
    return record.batch ? key_by_batch(record) : key_by_generation(record);
}

/// Whether the operation has a key: only collective operations whose names are known have keys. Sends and receives have
/// no key, because only two ranks take part in them.
[[nodiscard]] inline bool has_key(const RecordedOperation& record) {
    return RecordKind::is_collective(record.kind) && record.has_name_record;
}

namespace key_hash {

[[nodiscard]] inline std::size_t mixed(std::initializer_list<std::uint64_t> parts) {
    std::uint64_t sum = 0;
    for (const std::uint64_t part : parts) {
        sum = (sum ^ part) * 0x9e3779b97f4a7c15U;  // the factor is 2^64 divided by the golden ratio; it mixes the bits
        sum ^= sum >> 32U;
    }
    return static_cast<std::size_t>(sum);
}

}  // namespace key_hash

struct NameKeyHash {
    [[nodiscard]] std::size_t operator()(const NameKey& key) const {
        return key_hash::mixed({key.name_hash | std::uint64_t{key.call} << 32U,
                                static_cast<std::uint32_t>(key.set_id) | std::uint64_t{key.kind} << 32U});
    }
};

struct OperationKeyHash {
    [[nodiscard]] std::size_t operator()(const OperationKey& key) const {
        return key_hash::mixed(
            {NameKeyHash()(key.name), key.number ^ std::uint64_t{static_cast<std::uint8_t>(key.by)} << 60U});
    }
};

}  // namespace rueda::base
