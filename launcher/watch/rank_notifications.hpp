// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/watch/rank_end.hpp"

namespace rueda::launcher {

/// Writes the notifications by which the other ranks learn how a rank ended. Only the first few ends are sent. If n
/// ranks end, and each end were sent to all ranks, there would be n × n messages. The first few ends are enough to find
/// the cause. Threads: only one thread may use an object.
class RankNotifications {
public:
    /// The maximum number of notifications about ranks that ended with exit status 0. The number of notifications about
    /// other ends has the same maximum, but is counted separately. One notification would be too few: several hosts may
    /// report at the same time, and the first notification that a rank gets may be about its own end.
    static constexpr std::size_t kMostOfAKind = 8;

    struct Item {
        int rank = 0;
        std::string notification;  ///< a notification about the rank, encoded as in base/launcher_notification.hpp
    };

    /// Adds ends that were noticed at the same moment, and returns the notifications about them. The notifications are
    /// ordered by how likely the end is the cause: killed ranks come first, other failures second, and ranks with exit
    /// status 0 last.
    [[nodiscard]] std::vector<Item> note(const std::vector<RankEnd>& together);
    /// Returns all notifications until now, for ranks that start later.
    [[nodiscard]] const std::vector<Item>& so_far() const { return so_far_; }

private:
    std::vector<Item> so_far_;
    std::size_t well_ = 0;
    std::size_t failed_ = 0;
};

}  // namespace rueda::launcher
