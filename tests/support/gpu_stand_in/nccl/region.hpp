// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/cuda/nccl_api.hpp"

namespace rueda::tests::gpu {

using collectives::cuda::NcclUniqueId;

inline constexpr int kMostRanks = 64;

/// A rank's description of one operation. The descriptions of all ranks must be equal.
struct OperationHeader {
    std::int32_t kind = 0;
    std::int32_t type = 0;
    std::int32_t reduction = 0;
    std::int32_t root = 0;
    std::uint64_t count = 0;
    /// 0 if the input and the output of the operation are not in registered memory, and otherwise 1 or more. Some
    /// functions need the same offsets into registered memory on all ranks. For these functions, the value is computed
    /// from the offsets.
    std::uint64_t registered = 0;

    bool operator==(const OperationHeader&) const = default;
};

/// A queue of messages from one rank, in memory that all ranks map. A message's bytes lie in a file of the sender,
/// which the readers open. All fields are 0 at first.
class Box {
public:
    static constexpr std::uint64_t kSlots = 32;

    /// Adds message number `number`, counted from 1. Returns false if readers still need the earlier message in the
    /// same slot. The readers are the ranks in [first, end).
    [[nodiscard]] bool post(std::uint64_t number, const OperationHeader& header, const std::vector<std::byte>& bytes,
                            int first, int end);
    /// Whether the message has been posted.
    [[nodiscard]] bool has(std::uint64_t number) const;
    [[nodiscard]] OperationHeader header(std::uint64_t number) const;
    /// Returns the bytes of the message, or nothing if the sender's file does not exist any more.
    [[nodiscard]] std::optional<std::vector<std::byte>> read(std::uint64_t number) const;
    void consume(std::uint64_t number, int reader);
    /// Whether the reader has consumed the message.
    [[nodiscard]] bool is_consumed(std::uint64_t number, int reader) const;
    /// Whether the reader has consumed all messages.
    [[nodiscard]] bool is_empty(int reader) const;
    /// The sender closes its files.
    void close();

private:
    struct Slot {
        OperationHeader header;
        std::int32_t process;
        std::int32_t file;  ///< the sender's descriptor of the file, plus 1
        std::uint64_t inode;
        std::uint64_t bytes;
    };
    std::atomic<std::uint64_t> posted_;  ///< post() stores this number with release; has() loads it with acquire
    /// consume() stores these numbers with release; is_consumed() loads them with acquire
    std::atomic<std::uint64_t> consumed_[kMostRanks];
    Slot slots_[kSlots];
};

/// The memory that the ranks of one communicator share. The unique id names a memfd of the process that made the id. A
/// memfd has no path, so nothing remains when the processes end.
struct Region {
    enum class State : std::int32_t { absent, joined, finalized, aborted, lost };
    struct Member {
        std::atomic<State> state;  ///< the member stores its state with release; the other members load it with acquire
        std::int32_t process;
        std::int32_t device;
        std::uint64_t host;
        Box box;  ///< to all ranks
    };

    std::atomic<std::int32_t> ranks;
    std::array<Member, kMostRanks> members;
    std::array<std::array<Box, kMostRanks>, kMostRanks> pairs;  ///< [from][to]

    /// Makes the memory for a new communicator, and its id. The file stays open until the process ends.
    [[nodiscard]] static std::optional<NcclUniqueId> create();
    [[nodiscard]] static std::shared_ptr<Region> open(const NcclUniqueId& id);
};

}  // namespace rueda::tests::gpu
