// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the messages with which leaders ask each other about stalled tensors. Encoding an accepted message again must
// give the same bytes, except that the list of a host's tensors may become shorter. It must be possible to make a
// report from every accepted message.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/diagnostics/stall_inquiry.hpp"
#include "core/diagnostics/stall_report.hpp"

namespace {

using namespace rueda;
using namespace rueda::core;

constexpr std::uint32_t kRanks = 6;
constexpr std::uint32_t kHosts = 3;

void expect(bool holds) {
    if (!holds) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto message = parse_stall_message(std::as_bytes(std::span(data, size)), kRanks, kHosts);
    if (!message.is_ok()) {
        expect(message.status().code() == ErrorCode::internal && !message.status().message().empty());
        return 0;
    }
    const std::vector<std::byte> again = encode(message.value());
    expect(again.size() <= kMostStallMessageBytes);
    const auto told = parse_stall_message(again, kRanks, kHosts);
    expect(told.is_ok() && encode(told.value()) == again);
    if (message.value().kind != StallMessageKind::account) {
        expect(again.size() == size);
        return 0;
    }
    const std::vector<std::int32_t> host_of = {0, 0, 1, -1, 2, 2};
    HostAccount other;
    other.host = (message.value().account.host + 1) % kHosts;
    const std::vector<HostAccount> accounts = {message.value().account, other, told.value().account};
    const StallReport report = merge(accounts, host_of, 1.0);
    for (const StallReport::Tensor& tensor : report.tensors) {
        for (const std::int32_t rank : tensor.missing) {
            expect(rank >= 0 && rank < static_cast<std::int32_t>(kRanks));
        }
    }
    return 0;
}
