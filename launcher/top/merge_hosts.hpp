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
    /// why the host sends nothing more, or what is wrong with its last line; otherwise ""
    std::string problem;
};

/// Puts the newest views of the hosts into one view. The rows of a host that does not answer stay, and say how old they
/// are. A host that sends nothing more has no rows. Pure.
[[nodiscard]] TopView merge_pictures(std::span<const HostPicture> pictures, std::int64_t now_ns,
                                     std::int64_t interval_ns);

/// Returns a text that says why a host sends nothing more, for example "Host b is not shown any more: job j17 has
/// ended". Pure.
[[nodiscard]] std::string describe_end(const HostPicture& picture);

}  // namespace rueda::launcher
