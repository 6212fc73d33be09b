// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/status.hpp"

namespace rueda::training {

/// The size in bytes of an encoded outcome. An outcome says how a function ended on one rank, and is sent to the other
/// ranks as a tensor. The size is always the same, because the shape of a tensor with one name must not change.
inline constexpr std::size_t kOutcomeBytes = 4008;
using OutcomeBytes = std::array<std::uint8_t, kOutcomeBytes>;

/// Encodes an outcome. A text that is too long is cut, but not inside a UTF-8 character.
[[nodiscard]] OutcomeBytes encode_outcome(const Status& status);

/// Decodes the outcome that rank `rank` sent. The result is Internal if the bytes are not a valid outcome. Newlines and
/// tabs are kept; other control characters become '?'.
[[nodiscard]] Status decode_outcome(std::span<const std::uint8_t> bytes, int rank);

}  // namespace rueda::training
