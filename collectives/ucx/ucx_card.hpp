// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// What each rank tells the others before they connect over UCX.
struct UcxCard {
    std::string cannot;       ///< the reason why this rank cannot use UCX; "" if it can
    std::string description;  ///< describes the transport, with UCX's version
    Bytes address;            ///< this rank's address in UCX; empty if the rank cannot use UCX
};

inline constexpr std::size_t kMostUcxReason = 1024;  ///< the longest text of UcxCard::cannot
/// The longest address that is accepted. An address has about 50 bytes for each network interface and transport of UCX.
inline constexpr std::size_t kMostUcxAddressBytes = std::size_t{64} << 10;

[[nodiscard]] Bytes encode(const UcxCard& card);
/// Parses and checks the bytes that another process sent.
[[nodiscard]] Result<UcxCard> parse_ucx_card(std::span<const std::byte> bytes);

}  // namespace rueda::collectives
