// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>

#include "collectives/hierarchical/hierarchical_set.hpp"
#include "collectives/hierarchical/pair_parts.hpp"

namespace rueda::collectives {

/// Exchanges the parts of an alltoall between ranks of different hosts, directly from rank to rank, in chunks. Every
/// rank sends to the ranks after it and receives from the ranks before it, the nearest first. No circular wait can
/// arise. Of all pairs of ranks that still exchange data, the nearest pair can always continue, because both ranks of
/// this pair have finished all nearer pairs.
///
/// Threads: only the thread that steps this rank's tasks ("drives progress") may call these functions.
class RemoteExchange {
public:
    explicit RemoteExchange(HierarchicalSet& set);
    /// `parts` must stay valid until the exchange is done.
    void begin(const PairParts& parts);
    /// Does one action, and adds the number of bytes that it copied to `work`. Returns false if there was nothing to
    /// do.
    bool act(std::uint64_t& work);
    [[nodiscard]] bool is_done();

private:
    enum class Way : std::uint8_t { out, in };
    /// A position in the order of the chunks of one direction (sending or receiving).
    struct Cursor {
        Way way = Way::out;
        std::uint32_t distance = 0;  ///< distance between the numbers of the two ranks
        std::uint64_t offset = 0;    ///< offset in the part, in bytes
    };
    struct Buffer {
        std::byte* memory = nullptr;
        Message message;
    };
    static constexpr std::uint64_t kBuffers = 4;

    [[nodiscard]] bool is_at_end(const Cursor& cursor) const { return cursor.distance >= set_.hosts.size(); }
    [[nodiscard]] std::uint32_t peer(const Cursor& cursor) const;
    [[nodiscard]] Range part(const Cursor& cursor) const;
    [[nodiscard]] Range chunk(const Cursor& cursor) const;
    void advance(Cursor& cursor) const;
    /// Moves the cursor forward to the next rank that has bytes left to exchange. The cursor stays if its rank has
    /// bytes left.
    void settle(Cursor& cursor) const;
    [[nodiscard]] std::byte* memory_of(Buffer& buffer);
    bool open();
    bool send(std::uint64_t& work);
    bool take(std::uint64_t& work);

    HierarchicalSet& set_;
    const PairParts* parts_ = nullptr;
    std::uint64_t chunk_bytes_ = 0;
    std::array<Buffer, kBuffers> outgoing_;
    std::array<Buffer, kBuffers> incoming_;
    std::uint64_t sent_ = 0;
    std::uint64_t opened_ = 0;
    std::uint64_t taken_ = 0;
    Cursor sending_;
    Cursor opening_;
    Cursor taking_;
};

}  // namespace rueda::collectives
