// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>

#include "ops/compression.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// How a reduction over ranks of several hosts is divided into steps. Each host computes a partial result in the
/// tensor's dtype, and the hosts combine these partials.
///
/// Prescale is applied to the inputs. Postscale and the divisor of an average are applied once, to the result. Float16
/// and the 8-bit floats are exceptions, because their largest values are small (65504 for float16): in their sums and
/// averages, postscale and the divisor are applied to the partials (ops::levels_of).
///
/// An average of integers divides the exact sum, which can be larger than the dtype allows. Its elements are therefore
/// sent as *words*: int64 values that are added (ops/exact_sums.hpp).
///
/// If a tensor is compressed, a host rounds its partial to 16 bits per element. To combine partials, the reductions
/// `between` and `last` expand them to the tensor's own dtype, and round the result to 16 bits again. The final result
/// is expanded when it is written to the outputs, and postscale is applied then (`expanded_by`). The divisor of an
/// average is applied to the partials, so that the partials fit into the 16-bit range whenever the average fits. A user
/// can therefore move small values into the range of float16 by prescale, and back by postscale.
struct PartialReduction {
    ops::Reduction within;   ///< combines the inputs of one host's ranks, in rank order
    ops::Reduction between;  ///< combines partials into another partial
    ops::Reduction last;     ///< combines partials into the result
    bool in_words = false;
    std::optional<ops::Compressed> compressed;
    double expanded_by = 1.0;         ///< the factor that is applied when a compressed result is expanded
    std::uint64_t carried_bytes = 0;  ///< the size of an element between hosts and in results, in bytes

    /// The size of an element in the host's shared memory, before compression, divided by its size on the network.
    [[nodiscard]] std::uint64_t staged_ratio() const {
        return compressed ? size_of(compressed->dtype) / carried_bytes : 1;
    }
};

[[nodiscard]] PartialReduction in_partials(const ops::Reduction& reduction, Compression compression);

}  // namespace rueda::collectives
