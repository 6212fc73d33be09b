// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stall_schedule.hpp"

#include <algorithm>

namespace rueda::core {

StallSchedule::Due StallSchedule::look(std::span<const PendingTensor> pending, std::int64_t now_ns) {
    std::set<PendingTensor::Id> stalled;
    for (const PendingTensor& tensor : pending) {
        if (is_stalled(tensor, now_ns)) {
            stalled.insert(tensor.id);
        }
    }
    Due due;
    due.report = report_is_due(stalled, now_ns);
    if (!shut_down_ && shutdown_ns_ > 0 && !pending.empty() && now_ns - pending.front().since_ns >= shutdown_ns_) {
        shut_down_ = true;
        due.shut_down_for = pending.front();
    }
    return due;
}

std::int64_t StallSchedule::next_look_ns(std::span<const PendingTensor> pending, std::int64_t now_ns,
                                         std::int64_t interval_ns) const {
    const std::int64_t usual = now_ns + interval_ns;
    if (shut_down_ || shutdown_ns_ == 0 || pending.empty()) {
        return usual;
    }
    return std::min(usual, pending.front().since_ns + shutdown_ns_);
}

bool StallSchedule::report_is_due(const std::set<PendingTensor::Id>& stalled, std::int64_t now_ns) {
    std::erase_if(reported_, [&](const PendingTensor::Id& id) { return !stalled.contains(id); });
    if (stalled.empty()) {
        interval_ns_ = 0;
        return false;
    }
    const bool is_first = interval_ns_ == 0;
    const bool has_new = reported_.size() < stalled.size();
    if (!is_first && now_ns - last_report_ns_ < (has_new ? warning_ns_ : interval_ns_)) {
        return false;
    }
    interval_ns_ = has_new ? warning_ns_ : 2 * interval_ns_;
    last_report_ns_ = now_ns;
    reported_ = stalled;
    return true;
}

}  // namespace rueda::core
