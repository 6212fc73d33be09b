// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/refusals.hpp"

#include <xxhash.h>

namespace rueda::core {

RefusalKey refusal_key(std::string_view name) {
    const XXH128_hash_t hash = XXH3_128bits(name.data(), name.size());
    return {hash.low64, hash.high64};
}

}  // namespace rueda::core
