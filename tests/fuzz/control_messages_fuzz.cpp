// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes all functions of a control plane that parse another process's messages. Encoding an accepted message again
// must give the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/text.hpp"
#include "collectives/host/sockets/socket_messages.hpp"
#include "collectives/local_group.hpp"

namespace {

using namespace rueda::collectives;

void expect(bool holds) {
    if (!holds) {
        std::abort();
    }
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void take_hello(std::span<const std::byte> bytes) {
    const auto hello = parse_hello(bytes, 8);
    if (hello.is_ok()) {
        expect(hello.value().rank > 0 && hello.value().rank < 8);
        expect(same(encode_hello(hello.value()), bytes));
    }
}

void take_header(std::span<const std::byte> bytes) {
    const auto header = parse_header(bytes);
    if (header.is_ok()) {
        expect(header.value().length <= kMaxControlMessage);
        expect(same(encode_header(header.value()), bytes));
    }
}

void take_parts(std::span<const std::byte> bytes) {
    for (const int count : {1, 3}) {
        const auto parts = parse_parts(bytes, count);
        if (parts.is_ok()) {
            expect(same(encode_parts(parts.value()), bytes));
        }
    }
}

void take_failure(std::span<const std::byte> bytes) {
    const rueda::Status status = parse_failure(bytes);
    expect(!status.is_ok());
    for (const char c : status.message()) {
        expect(static_cast<unsigned char>(c) >= 0x20);
    }
}

void take_facts(std::span<const std::byte> bytes) {
    const auto facts = parse_facts(bytes);
    if (facts.is_ok()) {
        expect(facts.value().pid > 0 && !facts.value().hostname.empty());
        expect(facts.value().hostname == rueda::base::printable(facts.value().hostname));
        const LocalGroup group = group_by_host(1, {own_facts(), facts.value()});
        expect(group.size == 2 && group.host_count >= 1 && group.host_count <= 2);
    }
}

}  // namespace

/// The first byte chooses the parsing function.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
    switch (data[0] % 5) {
        case 0:
            take_hello(bytes);
            break;
        case 1:
            take_header(bytes);
            break;
        case 2:
            take_parts(bytes);
            break;
        case 3:
            take_failure(bytes);
            break;
        default:
            take_facts(bytes);
            break;
    }
    return 0;
}
