// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

/// XXH64 by Yann Collet, written from its specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md). The
/// specification leaves no choice, so every implementation gives the same hashes. libxxhash is not used, because a
/// build without it would have no hash. For texts of about ten bytes, the call of a library function would take as long
/// as the hash. Threads: any.
namespace rueda::data::xxh64 {

inline constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
inline constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
inline constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
inline constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
inline constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;

/// The specification reads numbers with the lowest byte first.
template <class Number>
[[nodiscard]] Number read(const char* place) noexcept {
    static_assert(std::endian::native == std::endian::little, "add the swap of bytes for a big-endian machine");
    Number number = 0;
    std::memcpy(&number, place, sizeof number);
    return number;
}

[[nodiscard]] inline std::uint64_t round(std::uint64_t sum, std::uint64_t lane) noexcept {
    return std::rotl(sum + lane * kPrime2, 31) * kPrime1;
}

/// Processes the whole stripes of 32 bytes, and moves `place` behind them.
[[nodiscard]] inline std::uint64_t hash_stripes(const char*& place, const char* end, std::uint64_t seed) noexcept {
    std::uint64_t sums[4] = {seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1};
    for (; end - place >= 32; place += 32) {
        for (int lane = 0; lane < 4; ++lane) {
            sums[lane] = round(sums[lane], read<std::uint64_t>(place + 8 * lane));
        }
    }
    std::uint64_t hash =
        std::rotl(sums[0], 1) + std::rotl(sums[1], 7) + std::rotl(sums[2], 12) + std::rotl(sums[3], 18);
    for (const std::uint64_t sum : sums) {
        hash = (hash ^ round(0, sum)) * kPrime1 + kPrime4;
    }
    return hash;
}

[[nodiscard]] inline std::uint64_t hash(std::string_view text, std::uint64_t seed) noexcept {
    const char* place = text.data();
    const char* const end = place + text.size();
    std::uint64_t hash = text.size() >= 32 ? hash_stripes(place, end, seed) : seed + kPrime5;
    hash += text.size();
    for (; end - place >= 8; place += 8) {
        hash = std::rotl(hash ^ round(0, read<std::uint64_t>(place)), 27) * kPrime1 + kPrime4;
    }
    if (end - place >= 4) {
        hash = std::rotl(hash ^ (read<std::uint32_t>(place) * kPrime1), 23) * kPrime2 + kPrime3;
        place += 4;
    }
    for (; place < end; ++place) {
        hash = std::rotl(hash ^ (static_cast<unsigned char>(*place) * kPrime5), 11) * kPrime1;
    }
    hash = (hash ^ (hash >> 33)) * kPrime2;
    hash = (hash ^ (hash >> 29)) * kPrime3;
    return hash ^ (hash >> 32);
}

}  // namespace rueda::data::xxh64
