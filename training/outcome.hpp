// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/status.hpp"

namespace rueda::training {

/// How a body ended, in the form in which it travels: the same size whatever it says, so that its metadata never
/// change.
inline constexpr std::size_t kOutcomeBytes = 4008;
using OutcomeBytes = std::array<std::uint8_t, kOutcomeBytes>;

/// Of a long text the beginning, up to the end of a character.
[[nodiscard]] OutcomeBytes encode_outcome(const Status& status);

/// From another process, `rank`: Internal for what encode_outcome() does not make. Of control characters lines and tabs
/// stay, the others become '?'.
[[nodiscard]] Status decode_outcome(std::span<const std::uint8_t> bytes, int rank);

}  // namespace rueda::training
