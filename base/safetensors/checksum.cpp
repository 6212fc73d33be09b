// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/safetensors/checksum.hpp"

#include <xxhash.h>

#include <bit>
#include <new>

namespace rueda::training {

static_assert(std::endian::native == std::endian::little, "numbers are added as they lie in memory");

Checksum::Checksum() : state_(XXH3_createState()) {
    if (state_ == nullptr) {
        throw std::bad_alloc();
    }
    XXH3_64bits_reset(state_.get());
}

// The xxHash functions can fail only for null pointers, so their results are not checked.
void Checksum::add(std::span<const std::byte> bytes) {
    if (!bytes.empty()) {
        XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
    }
}

void Checksum::add_number(std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }

void Checksum::add_text(std::string_view text) {
    add_number(text.size());
    add(std::as_bytes(std::span(text)));
}

std::uint64_t Checksum::value() const { return XXH3_64bits_digest(state_.get()); }

void Checksum::Free::operator()(XXH3_state_s* state) const noexcept { XXH3_freeState(state); }

}  // namespace rueda::training
