// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/ucx/ucx_card.hpp"

#include <cstdint>
#include <utility>

#include "base/text.hpp"
#include "collectives/wire.hpp"

namespace rueda::collectives {
namespace {

constexpr std::uint32_t kUcxCardMagic = 0x52554331;  // "RUC1"
constexpr std::size_t kMostUcxDescription = 64;

}  // namespace

Bytes encode(const UcxCard& card) {
    WireWriter writer;
    writer.number(kUcxCardMagic);
    writer.text(base::shortened(card.cannot, kMostUcxReason));
    writer.text(base::shortened(card.description, kMostUcxDescription));
    writer.number(static_cast<std::uint32_t>(card.address.size()));
    writer.append(card.address);
    return std::move(writer).take();
}

Result<UcxCard> parse_ucx_card(std::span<const std::byte> bytes) {
    WireReader reader(bytes);
    UcxCard card;
    const auto magic = reader.number<std::uint32_t>();
    card.cannot = base::printable(reader.text(kMostUcxReason), kMostUcxReason);
    card.description = base::printable(reader.text(kMostUcxDescription), kMostUcxDescription);
    const std::size_t length = reader.number<std::uint32_t>();
    const auto address = reader.take(length);
    const bool fits = reader.complete() && magic == kUcxCardMagic && length <= kMostUcxAddressBytes;
    if (!fits || card.cannot.empty() == address.empty()) {
        return failure(ErrorCode::internal, "the UCX address of a rank arrived damaged ({} bytes)", bytes.size());
    }
    card.address.assign(address.begin(), address.end());
    return card;
}

}  // namespace rueda::collectives
