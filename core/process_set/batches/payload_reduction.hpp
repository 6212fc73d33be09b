// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/negotiation/layout.hpp"
#include "core/pending/tensor_table.hpp"
#include "ops/reduce.hpp"

namespace rueda::core {

/// The inputs of the members of a small process set.
using Payloads = std::array<const std::byte*, kInlineMembers>;

/// Combines inputs that were sent with the announcements, in the order of the members.
///
/// Threads: any.
class PayloadReduction {
public:
    explicit PayloadReduction(std::uint32_t members) : members_(members) {}

    void reduce(const Request& request, const Payloads& payloads, std::byte* output, std::uint64_t count) const {
        ops::Reduction reduction = reduction_of(request.metadata);
        reduction.divisor = static_cast<int>(members_);
        ops::reduce(reduction, {payloads.data(), members_}, {&output, 1}, count);
    }

private:
    std::uint32_t members_;
};

}  // namespace rueda::core
