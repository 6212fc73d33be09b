// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// What the members of this host announced about an operation that is complete. Other processes can change the data, so
/// it is copied once, and only the copy is checked and used. AnnouncementWriter writes the data.
///
/// Threads: the thread that drives progress, and any thread under the enqueue lock. The announcements of an operation
/// stay valid as long as the operation is pending on this rank.
class Announced {
public:
    explicit Announced(const SetView& view) : view_(view) {}

    /// Finds where in memory a member's share of an operation is, and how large it is.
    [[nodiscard]] Status locate(const TensorEntry& entry, std::uint32_t slot, std::uint32_t member,
                                collectives::Location& location) const;
    /// For an alltoall or a scatter on one host: reads how many rows each member has for each other member. `of` has
    /// the members' announcements. Returns the number of rows for this rank. The operation's completion stores how many
    /// rows come from each member.
    [[nodiscard]] Result<std::int64_t> read_splits(TensorEntry& entry, std::uint32_t slot,
                                                   std::span<const collectives::Location> of,
                                                   std::vector<std::int64_t>& splits) const;
    /// Checks that all members announced the same first dimension. They had agreed on it, but other ranks can change
    /// the memory with the announcements.
    [[nodiscard]] Status check_rows(const TensorEntry& entry, std::span<const std::int64_t> rows) const;
    /// For a scatter: checks that all rows come from the root. The result of a scatter does not contain this
    /// information.
    [[nodiscard]] Status check_source(TensorEntry& entry) const;
    /// Whether the member has joined, and announced the operation only to stand in for it.
    [[nodiscard]] bool stood_in(std::uint32_t slot, std::uint32_t member, std::uint64_t generation) const;
    /// Returns as text where in the source the ranks of this host called the operation; "" if call sites are not
    /// recorded.
    [[nodiscard]] std::string called_from(std::uint32_t slot, std::uint64_t generation) const;

private:
    SetView view_;
};

}  // namespace rueda::core
