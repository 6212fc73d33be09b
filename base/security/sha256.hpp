// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/security/sha256_block.hpp"

namespace rueda::base {

inline constexpr std::size_t kDigestBytes = 32;
using Digest = std::array<std::uint8_t, kDigestBytes>;

/// Computes SHA-256 (FIPS 180-4). The time depends only on the number of bytes, not on their values. Threads: only one
/// thread may use an object.
class Sha256 {
public:
    static constexpr std::size_t kBlockBytes = kSha256BlockBytes;

    void add(std::string_view bytes);
    /// Returns the digest of all bytes. The object must not be used afterwards.
    [[nodiscard]] Digest finish();

private:
    void add_block(const std::uint8_t* block);

    Sha256State state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<std::uint8_t, kBlockBytes> block_{};
    std::uint64_t bytes_ = 0;
};

/// Computes HMAC-SHA-256 (RFC 2104, FIPS 198-1). To save time if many texts have the same key, make one object and copy
/// it for each text. Then the two blocks that depend only on the key are computed only once. Threads: only one thread
/// may use an object.
class HmacSha256 {
public:
    explicit HmacSha256(std::string_view key);
    void add(std::string_view bytes) { inner_.add(bytes); }
    /// Returns the code of all bytes. The object must not be used afterwards.
    [[nodiscard]] Digest finish();

private:
    Sha256 inner_;
    Sha256 outer_;
};

/// Compares two texts of equal length. The time does not depend on the position of the first difference, so it reveals
/// nothing about the expected text. Texts of different lengths are not equal.
[[nodiscard]] bool equal_in_constant_time(std::string_view left, std::string_view right);

[[nodiscard]] inline std::string_view bytes_of(const Digest& digest) {
    return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace rueda::base
