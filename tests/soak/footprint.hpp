// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>

namespace rueda::tests {

/// The resources that this process uses.
struct Footprint {
    std::uint64_t private_bytes = 0;  ///< resident memory that is not shared with other processes
    std::uint64_t shared_bytes = 0;   ///< resident pages of the arena and other shared memory
    std::uint64_t threads = 0;
    std::uint64_t files = 0;  ///< open descriptors

    [[nodiscard]] static Footprint now();
    [[nodiscard]] std::string text() const;
};

}  // namespace rueda::tests
