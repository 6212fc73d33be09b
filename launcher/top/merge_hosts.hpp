// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "launcher/top/hosts/ask_hosts.hpp"
#include "launcher/top/top_view.hpp"

namespace rueda::launcher {

/// The answers of `rueda top --json` on several hosts in one view, with the name of the host in each row. Pure.
[[nodiscard]] TopView merge_hosts(std::span<const HostAnswer> answers);

/// What a live screen knows about one host.
struct HostPicture {
    std::string host;
    std::optional<TopView> view;  ///< the newest
    std::int64_t arrived_ns = 0;  ///< CLOCK_MONOTONIC here: when the view arrived, or when the host was first asked
    bool is_over = false;         ///< nothing more comes
    std::string problem;          ///< the reason, or what is wrong with the host's last line; "" if nothing is wrong
};

/// The newest views of the hosts in one view. A host that does not answer keeps its rows, which say how old they are. A
/// host from which nothing more comes has no rows. Pure.
[[nodiscard]] TopView merge_pictures(std::span<const HostPicture> pictures, std::int64_t now_ns,
                                     std::int64_t interval_ns);

/// Says why nothing more comes from a host: "Host b is not shown any more: job j17 has ended". Pure.
[[nodiscard]] std::string describe_end(const HostPicture& picture);

}  // namespace rueda::launcher
