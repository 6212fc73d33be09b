// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/watch/rank_notifications.hpp"

#include <sys/wait.h>

#include <algorithm>

#include "base/launcher_notification.hpp"

namespace rueda::launcher {

namespace {

using Kind = base::LauncherNotification::Kind;

/// Returns a number by which ends can be sorted. An end with a lower number is more likely to be the cause of the other
/// ends.
int distance_to_cause(const RankEnd& end) {
    if (end.abort_reason.empty() && ended_well(end)) {
        return 3;
    }
    if (end.by_launcher || !end.abort_reason.empty()) {
        return 2;
    }
    return WIFSIGNALED(end.wait_status) ? 0 : 1;
}

}  // namespace

std::vector<RankNotifications::Item> RankNotifications::note(const std::vector<RankEnd>& together) {
    std::vector<RankEnd> ends = together;
    std::stable_sort(ends.begin(), ends.end(), [](const RankEnd& left, const RankEnd& right) {
        return distance_to_cause(left) < distance_to_cause(right);
    });
    std::vector<Item> notifications;
    for (const RankEnd& end : ends) {
        // If a rank reported an abort, its end is a failure even with exit status 0, because an abort concerns all
        // ranks.
        const bool well = ended_well(end) && end.abort_reason.empty();
        std::size_t& count = well ? well_ : failed_;
        if (end.rank == kLauncherRank || count == kMostOfAKind) {
            continue;
        }
        ++count;
        // If this rank ended because the job was aborted, the other ranks get the reason of the abort and not this end.
        const std::string text = end.abort_reason.empty() ? describe(end) : end.abort_reason;
        notifications.push_back({end.rank, base::encode({well ? Kind::ended_well : Kind::failed, end.rank, text})});
    }
    so_far_.insert(so_far_.end(), notifications.begin(), notifications.end());
    return notifications;
}

}  // namespace rueda::launcher
