// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/watch/rank_end.hpp"

namespace rueda::launcher {

/// Decides which ends of ranks the other ranks are notified of, and writes the notifications. Not every end becomes
/// one: if n ranks end, that would be n × n messages, and the first few say everything. Threads: one.
class RankNotifications {
public:
    /// The most notifications about ranks that ended well, and the most about all other ranks. One would not be enough:
    /// several hosts may report at the same time, and a rank may be notified of its own end first.
    static constexpr std::size_t kMostOfAKind = 8;

    struct Item {
        int rank = 0;
        std::string notification;  ///< encoded (base/launcher_notification.hpp)
    };

    /// Takes ends that were seen at the same moment, and returns the notifications about them. Killed ranks come first,
    /// then other failures, then ranks that ended well, because the cause is most likely in this order.
    [[nodiscard]] std::vector<Item> note(const std::vector<RankEnd>& together);
    /// All notifications so far, for ranks that start later.
    [[nodiscard]] const std::vector<Item>& so_far() const { return so_far_; }

private:
    std::vector<Item> so_far_;
    std::size_t well_ = 0;
    std::size_t failed_ = 0;
};

}  // namespace rueda::launcher
