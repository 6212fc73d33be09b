// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>

#include "base/status.hpp"
#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::collectives::cuda {

/// The ready events of a batch. The host checks them without waiting. An event that was reached is not checked again.
///
/// Threads: one at a time.
class ReadyEvents {
public:
    /// The events must stay valid until all_done() has returned true. Null events count as reached: a member that has
    /// called join() has no events.
    void begin(std::span<const DeviceEventPtr> events) {
        events_ = events;
        done_ = 0;
    }
    /// Whether the device has reached all events. The program's work that precedes the operations of the batch has then
    /// ended.
    [[nodiscard]] Result<bool> all_done() {
        for (; done_ < events_.size(); ++done_) {
            if (events_[done_] == nullptr) {
                continue;
            }
            auto done = events_[done_]->is_done();
            if (!done.is_ok() || !done.value()) {
                return done;
            }
        }
        return true;
    }
    /// Returns what the last all_done() found, without asking the driver. True if there are no events.
    [[nodiscard]] bool were_done() const { return done_ >= events_.size(); }

private:
    std::span<const DeviceEventPtr> events_;
    std::size_t done_ = 0;
};

}  // namespace rueda::collectives::cuda
