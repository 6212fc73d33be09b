// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rueda::base {

/// A rendezvous (RUEDA_RENDEZVOUS) whose text begins with this prefix is a list of TCP addresses of rank 0's host, for
/// example "tcp:10.0.0.1:4711,[fd00::1]:4711". Ranks on several hosts use such a rendezvous if they do not use MPI.
inline constexpr std::string_view kTcpPrefix = "tcp:";

/// The largest number of addresses in such a list.
inline constexpr std::size_t kMostEndpoints = 16;

[[nodiscard]] inline bool is_tcp_rendezvous(std::string_view text) { return text.starts_with(kTcpPrefix); }
/// Returns the addresses, each with its port. Returns nothing if the text does not have this form, contains no address,
/// contains more than kMostEndpoints addresses, or contains an address that is not numeric.
[[nodiscard]] std::optional<std::vector<std::string>> tcp_endpoints(std::string_view text);
/// The inverse of tcp_endpoints(): returns the text of the rendezvous that has these addresses.
[[nodiscard]] std::string tcp_rendezvous(std::span<const std::string> endpoints);
/// Returns "10.0.0.1:4711" or "[fd00::1]:4711".
[[nodiscard]] std::string endpoint_text(const std::string& address, bool is_ipv6, unsigned port);

}  // namespace rueda::base
