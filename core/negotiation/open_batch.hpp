// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>

namespace rueda::core {

/// Decides whether a rank leaves a batch open, so that more operations can join it. Each function is told where the
/// batch begins in the log. All times are in ns of the monotonic clock.
///
/// Threads: the thread that drives progress.
class OpenBatch {
public:
    /// A rank leaves a batch open for at most `hold_ns`, beginning when it first looks at the batch.
    explicit OpenBatch(std::int64_t hold_ns) : hold_ns_(hold_ns) {}

    /// Whether the batch stays open while no caller of this rank waits.
    [[nodiscard]] bool is_held(std::uint64_t position, std::int64_t now_ns) {
        if (held_position_ != position) {
            held_position_ = position;
            held_until_ns_ = now_ns + hold_ns_;
        }
        return now_ns < held_until_ns_;
    }
    /// The time until which the batch of the last call of is_held() stays open.
    [[nodiscard]] std::int64_t held_until_ns() const { return held_until_ns_; }

    /// Whether the batch stays open although a caller of this rank waits. `end` is where the batch would end now. Ranks
    /// that announce many tensors at once finish at slightly different times. If the first of them closed the batch at
    /// once, the last tensors would need a second batch.
    [[nodiscard]] bool is_growing(std::uint64_t position, std::uint64_t end, std::int64_t now_ns) {
        if (growing_position_ != position) {
            growing_position_ = position;
            grows_until_ns_ = now_ns + hold_ns_;
            grown_to_ = position;
        }
        if (end > grown_to_) {
            grown_to_ = end;
            grown_ns_ = now_ns;
        }
        return now_ns < std::min(grows_until_ns_, grown_ns_ + kStillNs);
    }

    /// Between two announcements of a rank that announces many tensors at once, less than this time passes. So a caller
    /// waits in vain for at most this time.
    static constexpr std::int64_t kStillNs = 1000;

private:
    static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

    std::int64_t hold_ns_;
    std::uint64_t held_position_ = kNowhere;
    std::int64_t held_until_ns_ = 0;
    // Only for is_growing(): where the batch begins, until when it stays open at most, where it would have ended at the
    // last look, and when it last grew.
    std::uint64_t growing_position_ = kNowhere;
    std::int64_t grows_until_ns_ = 0;
    std::uint64_t grown_to_ = 0;
    std::int64_t grown_ns_ = 0;
};

}  // namespace rueda::core
