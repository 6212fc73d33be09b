// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "collectives/hierarchical/hierarchical_set.hpp"
#include "collectives/hierarchical/pair_parts.hpp"

namespace rueda::collectives {

/// Exchanges the parts of an alltoall between the ranks of one host, in rounds. Each round exchanges one piece of every
/// part, and all pieces have the same length. The pieces go through the *cells*, the ranks' buffers in shared memory. A
/// cell holds one piece for each other member. The longest part determines the number of rounds. Every rank therefore
/// first tells the others the lengths of its parts.
///
/// Threads: only the thread that steps this rank's tasks ("drives progress") may call these functions.
class LocalExchange {
public:
    explicit LocalExchange(HierarchicalSet& set);
    /// Begins the exchange. The cells (buffers in shared memory) must not hold data that another rank still needs. The
    /// batch must therefore begin a new run (see HierarchicalSet). `parts` must stay valid until the exchange is done.
    void begin(const PairParts& parts);
    /// Does one action, and adds the number of bytes that it copied to `work`. Returns false if there was nothing to
    /// do.
    bool act(std::uint64_t& work);
    [[nodiscard]] bool is_done() const;
    /// How many pieces of data went through shared memory. The number is the same on all ranks of the host.
    [[nodiscard]] std::uint64_t pieces() const { return set_.members > 1 ? 1 + rounds_ : 0; }

private:
    enum class Phase : std::uint8_t { tell, learn, exchange };

    void tell();
    void learn();
    [[nodiscard]] bool can_be(std::uint32_t from, std::uint32_t to, std::uint64_t bytes);
    [[nodiscard]] bool may_stage() const;
    void stage(std::uint64_t& work);
    [[nodiscard]] bool may_take() const;
    void take(std::uint64_t& work);
    /// Where the piece that `from` sends to `to` lies, in the shared memory of `from`. Both arguments are numbers of
    /// members on this host.
    [[nodiscard]] std::byte* place(std::uint32_t from, std::uint32_t to, std::uint64_t round) const;
    [[nodiscard]] Range piece(Range part, std::uint64_t round) const;
    [[nodiscard]] std::uint32_t rank_of(std::uint32_t member) const {
        return set_.hosts.ranks_of(set_.hosts.my_host())[member];
    }

    HierarchicalSet& set_;
    const PairParts* parts_ = nullptr;
    std::uint64_t piece_bytes_ = 0;
    Phase phase_ = Phase::tell;
    std::uint64_t rounds_ = 0;
    std::uint64_t staged_ = 0;
    std::uint64_t taken_ = 0;
};

}  // namespace rueda::collectives
