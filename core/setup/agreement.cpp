// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/setup/agreement.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers.hpp"
#include "base/text.hpp"

namespace rueda::core {
namespace {

using collectives::Bytes;

/// The maximum length of another rank's reason, in bytes. The texts that Rueda itself writes are not longer than this.
constexpr std::size_t kMostText = 8192;

/// Reads another rank's error code. Unknown codes become Internal.
ErrorCode error_code_of(const std::string& digits) {
    const auto number = base::parse_integer<std::int32_t>(digits);
    const bool known = number && *number > static_cast<std::int32_t>(ErrorCode::ok) &&
                       *number <= static_cast<std::int32_t>(ErrorCode::internal);
    return known ? static_cast<ErrorCode>(*number) : ErrorCode::internal;
}

}  // namespace

Status agree_on(collectives::ControlPlane& control_plane, const Status& mine) {
    const std::string text =
        mine.is_ok() ? std::string() : fmt::format("{}:{}", static_cast<int>(mine.code()), mine.message());
    Result<std::vector<Bytes>> all = control_plane.allgather(std::as_bytes(std::span(text.data(), text.size())));
    RUEDA_RETURN_IF_FAILED(mine);
    RUEDA_RETURN_IF_FAILED(all.status());
    for (std::size_t rank = 0; rank < all.value().size(); ++rank) {
        const Bytes& other = all.value()[rank];
        if (!other.empty()) {
            const std::string words(reinterpret_cast<const char*>(other.data()), other.size());
            const std::size_t colon = words.find(':');
            if (colon == std::string::npos) {
                return failure(ErrorCode::internal,
                               "rank {} sent {} bytes that are no reason to fail; expected a code, a colon and a text: "
                               "do all ranks run the same build of Rueda?",
                               control_plane.job_rank(static_cast<int>(rank)), other.size());
            }
            return failure(error_code_of(words.substr(0, colon)), "rank {}: {}",
                           control_plane.job_rank(static_cast<int>(rank)),
                           base::printable(std::string_view(words).substr(colon + 1), kMostText));
        }
    }
    return {};
}

}  // namespace rueda::core
