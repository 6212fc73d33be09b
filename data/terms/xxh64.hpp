// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// With this macro, the functions of libxxhash are inline. A call would take about as long as the hash of a short text.
// Only .cpp files include this header, so other code needs no include path of libxxhash.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <string_view>

namespace rueda::data {

/// Does the same as hash_text(), but inline. Threads: any.
[[nodiscard]] inline std::uint64_t hash_inline(std::string_view text, std::uint64_t seed) noexcept {
    return XXH64(text.data(), text.size(), seed);
}

}  // namespace rueda::data
