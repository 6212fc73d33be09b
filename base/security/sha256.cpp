// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/security/sha256.hpp"

#include <algorithm>
#include <string>

namespace rueda::base {

void Sha256::add_block(const std::uint8_t* block) {
    has_sha256_instructions() ? add_block_by_instructions(state_, block) : add_block_portably(state_, block);
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
