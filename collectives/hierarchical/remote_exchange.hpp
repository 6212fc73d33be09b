// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>

#include "collectives/hierarchical/hierarchical_set.hpp"
#include "collectives/hierarchical/pair_parts.hpp"

namespace rueda::collectives {

/// The part of an alltoall between ranks of different hosts: from rank to rank, in chunks. Every rank sends to the ones
/// after it and receives from the ones before it, the nearest first: of all that is under way, the nearest pair with
/// something left can go on, as both have ended what comes before.
///
/// Threads: whoever drives the engine.
class RemoteExchange {
public:
    explicit RemoteExchange(HierarchicalSet& set);
    /// `parts` stay until it is done.
    void begin(const PairParts& parts);
    /// One action; false: nothing could be done. `work` grows by the bytes that were copied.
    bool act(std::uint64_t& work);
    [[nodiscard]] bool is_done();

private:
    enum class Way : std::uint8_t { out, in };
    /// A place in the order of one way.
    struct Cursor {
        Way way = Way::out;
        std::uint32_t distance = 0;  ///< of the ranks
        std::uint64_t offset = 0;    ///< in the part
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
    /// To where there is something, from where it is.
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
