// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/carried.hpp"

#include <array>
#include <bit>
#include <utility>

#include "ops/exact_sums.hpp"
#include "ops/reduce.hpp"

namespace rueda::core {

using collectives::Operation;

std::optional<collectives::PartialReduction> carried_reduction(const Metadata& metadata, std::uint32_t ranks) {
    if (static_cast<Operation>(metadata.operation) != Operation::allreduce || bytes_of(metadata) == 0 ||
        bytes_of(metadata) > kMostCarriedBytes || is_on_device(metadata) ||
        static_cast<Compression>(metadata.compression) != Compression::none) {
        return std::nullopt;
    }
    ops::Reduction reduction = reduction_of(metadata);
    reduction.divisor = static_cast<int>(ranks);
    if (!ops::is_defined(reduction) || reduction.op == ReduceOp::adasum || ops::needs_words(reduction)) {
        return std::nullopt;
    }
    return collectives::in_partials(reduction, Compression::none);
}

CarriedBytes combine_carried(const collectives::PartialReduction& reduction, std::vector<CarriedBytes> of_hosts) {
    const auto combine = [](const ops::Reduction& level, const CarriedBytes& lower, const CarriedBytes& higher) {
        CarriedBytes combined(lower.size());
        const std::array<const std::byte*, 2> sources{lower.data(), higher.data()};
        std::byte* const destination = combined.data();
        ops::reduce(level, sources, {&destination, 1}, combined.size() / size_of(level.dtype));
        return combined;
    };
    // If the number of hosts is not a power of two, the first pairs of hosts combine their partial results beforehand.
    const std::size_t folded = of_hosts.size() - std::bit_floor(of_hosts.size());
    for (std::size_t pair = 0; pair < folded; ++pair) {
        of_hosts[pair] = combine(reduction.between, of_hosts[2 * pair], of_hosts[2 * pair + 1]);
    }
    of_hosts.erase(of_hosts.begin() + static_cast<std::ptrdiff_t>(folded),
                   of_hosts.begin() + static_cast<std::ptrdiff_t>(2 * folded));
    while (of_hosts.size() > 1) {
        const ops::Reduction& level = of_hosts.size() == 2 ? reduction.last : reduction.between;
        for (std::size_t pair = 0; pair < of_hosts.size() / 2; ++pair) {
            of_hosts[pair] = combine(level, of_hosts[2 * pair], of_hosts[2 * pair + 1]);
        }
        of_hosts.resize(of_hosts.size() / 2);
    }
    return std::move(of_hosts.front());
}

}  // namespace rueda::core
