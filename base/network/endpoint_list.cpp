// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/network/endpoint_list.hpp"

#include <fmt/format.h>

#include "base/network/socket_address.hpp"

namespace rueda::base {

std::optional<std::vector<std::string>> tcp_endpoints(std::string_view text) {
    if (!is_tcp_rendezvous(text)) {
        return std::nullopt;
    }
    text.remove_prefix(kTcpPrefix.size());
    std::vector<std::string> endpoints;
    for (bool has_more = true; has_more;) {
        const std::size_t comma = text.find(',');
        has_more = comma != std::string_view::npos;
        endpoints.emplace_back(text.substr(0, comma));
        text.remove_prefix(has_more ? comma + 1 : text.size());
        const bool is_network = !endpoints.back().starts_with('@');
        if (endpoints.size() > kMostEndpoints || !is_network || !parse_endpoint(endpoints.back())) {
            return std::nullopt;
        }
    }
    return endpoints;
}

std::string tcp_rendezvous(std::span<const std::string> endpoints) {
    return fmt::format("{}{}", kTcpPrefix, fmt::join(endpoints, ","));
}

std::string endpoint_text(const std::string& address, bool is_ipv6, unsigned port) {
    return is_ipv6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

}  // namespace rueda::base
