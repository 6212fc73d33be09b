// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/wire.hpp"

#include <utility>

#include "base/text.hpp"

namespace rueda::collectives {
namespace {

constexpr std::size_t kMaxFailureText = 4096;

}  // namespace

Bytes encode_failure(const Status& status) {
    WireWriter writer;
    writer.number(static_cast<std::int32_t>(status.code()));
    writer.text(base::shortened(status.message(), kMaxFailureText));
    return std::move(writer).take();
}

Status parse_failure(std::span<const std::byte> bytes) {
    WireReader reader(bytes);
    const auto code = reader.number<std::int32_t>();
    const std::string text = reader.text(kMaxFailureText);
    if (!reader.complete() || code <= static_cast<std::int32_t>(ErrorCode::ok) ||
        code > static_cast<std::int32_t>(ErrorCode::internal)) {
        return failure(ErrorCode::internal, "a failure of another rank arrived damaged ({} bytes)", bytes.size());
    }
    return {static_cast<ErrorCode>(code), base::printable(text, kMaxFailureText)};
}

}  // namespace rueda::collectives
