// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/status.hpp"

namespace rueda::training {

/// How a body ended, in the form in which it travels between ranks. The size is always the same, so that the tensor's
/// metadata never change.
inline constexpr std::size_t kOutcomeBytes = 4008;
using OutcomeBytes = std::array<std::uint8_t, kOutcomeBytes>;

/// A long text is cut at the end of a character.
[[nodiscard]] OutcomeBytes encode_outcome(const Status& status);

/// Reads an outcome that rank `rank`, another process, has sent. Internal for bytes that encode_outcome() does not
/// make. Lines and tabs stay; other control characters become '?'.
[[nodiscard]] Status decode_outcome(std::span<const std::uint8_t> bytes, int rank);

}  // namespace rueda::training
