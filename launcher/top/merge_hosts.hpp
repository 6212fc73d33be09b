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

/// Puts the answers of `rueda top --json` on several hosts into one view. Each row gets the name of its host. Pure.
[[nodiscard]] TopView merge_hosts(std::span<const HostAnswer> answers);

/// What a live screen knows about one host.
struct HostPicture {
    std::string host;
    std::optional<TopView> view;  ///< the newest
    std::int64_t arrived_ns = 0;  ///< when the view arrived, by this host's CLOCK_MONOTONIC; before the first view:
                                  ///< when the host was first asked
    bool is_over = false;         ///< nothing more comes
    std::string problem;          ///< why nothing more comes, or what is wrong with the host's last line; otherwise ""
};

/// Puts the newest views of the hosts into one view. The rows of a host that does not answer stay, and say how old they
/// are. A host from which nothing more comes has no rows. Pure.
[[nodiscard]] TopView merge_pictures(std::span<const HostPicture> pictures, std::int64_t now_ns,
                                     std::int64_t interval_ns);

/// Says why nothing more comes from a host: "Host b is not shown any more: job j17 has ended". Pure.
[[nodiscard]] std::string describe_end(const HostPicture& picture);

}  // namespace rueda::launcher
