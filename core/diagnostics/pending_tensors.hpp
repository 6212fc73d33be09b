// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/atomics.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// A tensor that some members have announced and others have not.
struct PendingTensor {
    /// Tells this pending operation from earlier and later ones of the same slot.
    struct Id {
        std::uint32_t slot = 0;
        std::uint32_t use = 0;  ///< how often the slot was given a name
        std::uint64_t generation = 0;

        // NOLINTNEXTLINE(modernize-use-nullptr): takes the 0 that the compiler compares with for a pointer
        [[nodiscard]] auto operator<=>(const Id&) const = default;
    };

    Id id;
    std::string name;              ///< empty: unnamed
    std::uint64_t call = 0;        ///< of an unnamed one: the how-manieth unnamed call of the process set, from 1 on
    std::int64_t since_ns = 0;     ///< the first announcement; CLOCK_MONOTONIC
    std::uint64_t ready_mask = 0;  ///< bit per member
};

/// What is pending in a process set, the longest pending first; ranks that wait in join() with nothing announced since
/// are one of them, "join()". Reads only what may be read at any time, so a slot that
/// changes meanwhile is left out: it is not stalled.
///
/// Costs a cache line per slot that was ever given out, and more only for pending ones.
/// Threads: any.
[[nodiscard]] std::vector<PendingTensor> pending_tensors(const NegotiationMemory<base::StdAtomics>& memory);

}  // namespace rueda::core
