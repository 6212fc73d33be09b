// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/terms/term_table.hpp"

#include "data/terms/xxh64.hpp"

namespace rueda::data {

std::uint64_t TermTable::hash(std::string_view text) const noexcept { return hash_inline(text, seed_); }

void TermTable::find_block(std::span<const std::string_view> texts, std::span<std::int64_t> ids,
                           std::array<std::uint64_t, kTermBlock>& hashes) const noexcept {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        hashes[i] = hash_inline(texts[i], seed_);
        __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    std::array<std::size_t, kTermBlock> found;  // NOLINT(cppcoreguidelines-pro-type-member-init): the loop fills it
    for (std::size_t i = 0; i < texts.size(); ++i) {
        found[i] = candidate(hashes[i], hashes[i]);
        __builtin_prefetch(bytes_.data() + (slots_[found[i]].place >> 16));
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
        ids[i] = find_from(found[i], texts[i], hashes[i]);
    }
}

void TermTable::add(std::string_view text) {
    if ((places_.size() + 1) * 2 > slots_.size()) {
        grow();
    }
    places_.push_back((bytes_.size() << 16) | text.size());
    bytes_.append(text);
    digest_ = hash_inline(text, digest_);
    put(static_cast<std::int32_t>(places_.size() - 1));
}

void TermTable::put(std::int32_t id) {
    const std::uint64_t term_hash = hash(term(id));
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = term_hash & mask;
    while (slots_[at].id != kUnknown) {
        at = (at + 1) & mask;
    }
    slots_[at] = {tag_of(term_hash), id, places_[static_cast<std::size_t>(id)]};
}

void TermTable::grow() {
    slots_ = std::vector<Slot>(slots_.size() * 2);
    for (std::size_t id = 0; id < places_.size(); ++id) {
        put(static_cast<std::int32_t>(id));
    }
}

}  // namespace rueda::data
