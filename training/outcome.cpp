// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/outcome.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/text.hpp"

namespace rueda::training {
namespace {

struct Outcome {
    std::int32_t code = 0;
    std::int32_t length = 0;
    std::array<char, 4000> text{};  ///< zeros after the first `length` bytes
};
static_assert(sizeof(Outcome) == kOutcomeBytes);

/// Returns the character to show for `c`. An error's text must not contain characters that a terminal executes as a
/// command.
char shown(char c) { return c == '\n' || c == '\t' ? c : base::printable(c); }

}  // namespace

OutcomeBytes encode_outcome(const Status& status) {
    Outcome outcome;
    outcome.code = static_cast<std::int32_t>(status.code());
    outcome.length = static_cast<std::int32_t>(base::copy_shortened(status.message(), outcome.text));
    OutcomeBytes bytes{};
    std::memcpy(bytes.data(), &outcome, sizeof outcome);
    return bytes;
}

Status decode_outcome(std::span<const std::uint8_t> bytes, int rank) {
    Outcome outcome;
    if (bytes.size() != sizeof outcome) {
        return failure(ErrorCode::internal, "rank {} sent {} bytes about how it ended; {} were expected", rank,
                       bytes.size(), sizeof outcome);
    }
    std::memcpy(&outcome, bytes.data(), sizeof outcome);
    const auto code = outcome.code;
    const auto length = outcome.length;
    const auto most = static_cast<std::int32_t>(outcome.text.size());
    if (code < 0 || code > static_cast<std::int32_t>(ErrorCode::internal) || length < 0 || length > most ||
        (code == 0 && length > 0)) {
        return failure(ErrorCode::internal,
                       "rank {} sent error code {} with {} bytes of text; expected a code from 0 to {} and up to {} "
                       "bytes, none with 0",
                       rank, code, length, static_cast<std::int32_t>(ErrorCode::internal), most);
    }
    const auto behind = outcome.text.begin() + length;
    if (std::any_of(behind, outcome.text.end(), [](char c) { return c != 0; })) {
        return failure(ErrorCode::internal, "rank {} sent bytes behind the {} of its error's text; expected zeros",
                       rank, length);
    }
    std::string text(outcome.text.begin(), behind);
    std::transform(text.begin(), text.end(), text.begin(), shown);
    return {static_cast<ErrorCode>(code), std::move(text)};
}

}  // namespace rueda::training
