// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// The inner function of SHA-256 (FIPS 180-4, section 6.2.2): it adds one block of 64 bytes to the state. The
/// processor's instructions for SHA-256 do this about six times as fast as portable code. Both versions compute the
/// same bits. Threads: any.
namespace rueda::base {

inline constexpr std::size_t kSha256BlockBytes = 64;
using Sha256State = std::array<std::uint32_t, 8>;

/// Whether the processor has the instructions that add_block_by_instructions() needs.
[[nodiscard]] bool has_sha256_instructions();

void add_block_portably(Sha256State& state, const std::uint8_t* block);
/// Call this only if has_sha256_instructions() returns true.
void add_block_by_instructions(Sha256State& state, const std::uint8_t* block);

}  // namespace rueda::base
