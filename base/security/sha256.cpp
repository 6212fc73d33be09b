// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/security/sha256.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace rueda::base {

namespace {

/// The constants of FIPS 180-4, section 4.2.2.
constexpr std::array<std::uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian_word(const std::uint8_t* bytes) {
    return std::uint32_t{bytes[0]} << 24U | std::uint32_t{bytes[1]} << 16U | std::uint32_t{bytes[2]} << 8U | bytes[3];
}

}  // namespace

void Sha256::add_block(const std::uint8_t* block) {
    std::array<std::uint32_t, 64> words{};
    for (std::size_t i = 0; i < 16; ++i) {
        words[i] = big_endian_word(block + 4 * i);
    }
    for (std::size_t i = 16; i < 64; ++i) {
        const std::uint32_t early = words[i - 15];
        const std::uint32_t late = words[i - 2];
        words[i] = words[i - 16] + (std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3U) + words[i - 7] +
                   (std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10U);
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
        const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                                    kRoundConstants[i] + words[i];
        const std::uint32_t second =
            (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    const std::array<std::uint32_t, 8> added{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state_.size(); ++i) {
        state_[i] += added[i];
    }
}

void Sha256::add(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t filled = bytes_ % kBlockBytes;
        const std::size_t taken = std::min(bytes.size(), kBlockBytes - filled);
        std::copy_n(bytes.begin(), taken, block_.begin() + static_cast<std::ptrdiff_t>(filled));
        bytes_ += taken;
        bytes.remove_prefix(taken);
        if (filled + taken == kBlockBytes) {
            add_block(block_.data());
        }
    }
}

Digest Sha256::finish() {
    // Three things are added after the text: a one bit, zeros up to the last 8 bytes of a block, and the length of the
    // text in bits.
    const std::uint64_t bits = bytes_ * 8;
    const std::size_t filled = bytes_ % kBlockBytes;
    std::string padding(filled < kBlockBytes - 8 ? kBlockBytes - filled : 2 * kBlockBytes - filled, '\0');
    padding.front() = '\x80';
    for (std::size_t i = 0; i < 8; ++i) {
        padding[padding.size() - 1 - i] = static_cast<char>(bits >> 8 * i & 0xFFU);
    }
    add(padding);
    Digest digest{};
    for (std::size_t i = 0; i < digest.size(); ++i) {
        digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)) & 0xFFU);
    }
    return digest;
}

HmacSha256::HmacSha256(std::string_view key) {
    std::array<char, Sha256::kBlockBytes> block{};
    if (key.size() > block.size()) {
        Sha256 shortened;
        shortened.add(key);
        const Digest digest = shortened.finish();
        std::copy(digest.begin(), digest.end(), block.begin());
    } else {
        std::copy(key.begin(), key.end(), block.begin());
    }
    const auto add_masked = [&block](Sha256& hash, char mask) {
        std::array<char, Sha256::kBlockBytes> masked{};
        std::transform(block.begin(), block.end(), masked.begin(),
                       [mask](char byte) { return static_cast<char>(byte ^ mask); });
        hash.add({masked.data(), masked.size()});
    };
    add_masked(inner_, 0x36);
    add_masked(outer_, 0x5c);
}

Digest HmacSha256::finish() {
    outer_.add(bytes_of(inner_.finish()));
    return outer_.finish();
}

bool equal_in_constant_time(std::string_view left, std::string_view right) {
    if (left.size() != right.size()) {
        return false;
    }
    // The compiler must not end the loop at the first difference, so the result is volatile.
    volatile unsigned char difference = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
        difference = static_cast<unsigned char>(difference | (left[i] ^ right[i]));
    }
    return difference == 0;
}

}  // namespace rueda::base
