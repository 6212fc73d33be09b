// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/watch/rank_end.hpp"

namespace rueda::launcher {

/// Which ends of ranks the other ranks are told of, in whose words. Not of all: in a job of n ranks that ends, that
/// would be n × n messages, and the first few say everything. Threads: one.
class RankNotifications {
public:
    /// Of ends in order, and as many of all others. More than one, as several hosts may report at the same time, and
    /// the rank that is told first may be the one that has ended.
    static constexpr std::size_t kMostOfAKind = 8;

    struct Item {
        int rank = 0;
        std::string word;  ///< encoded: base/launcher_notification.hpp
    };

    /// In the order of their likely cause: those that were killed, other failures, those that ended well. Returns what
    /// is to be told of them.
    [[nodiscard]] std::vector<Item> note(const std::vector<RankEnd>& together);
    /// Everything so far: for ranks that come later.
    [[nodiscard]] const std::vector<Item>& told() const { return told_; }

private:
    std::vector<Item> told_;
    std::size_t well_ = 0;
    std::size_t failed_ = 0;
};

}  // namespace rueda::launcher
