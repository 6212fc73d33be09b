// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes cards: the messages that ranks exchange before they connect over UCX. An accepted card contains an address, or
// the reason why there is none. It must not change when it is encoded and parsed again.
#include "collectives/ucx/ucx_card.hpp"
#include "tests/fuzz/input.hpp"

using namespace rueda;
using fuzz::expect;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto card = collectives::parse_ucx_card(std::as_bytes(std::span(data, size)));
    if (!card.is_ok()) {
        return 0;
    }
    expect(card.value().cannot.empty() != card.value().address.empty());
    expect(card.value().address.size() <= collectives::kMostUcxAddressBytes);
    const auto again = collectives::parse_ucx_card(collectives::encode(card.value()));
    expect(again.is_ok() && again.value().address == card.value().address);
    return 0;
}
