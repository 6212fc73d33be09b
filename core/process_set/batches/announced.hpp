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

/// Reads what the members of this host announced about an operation that all of them have announced (AnnouncementWriter
/// wrote it). Other processes can change these data at any time. The functions therefore copy each value once, and
/// check and use only the copy.
///
/// Threads: the thread that drives progress, and any thread under the enqueue lock. The announcements of an operation
/// stay valid while the operation is pending on this rank.
class Announced {
public:
    explicit Announced(const SetView& view) : view_(view) {}

    /// Stores in `location` where the data of `member` for the operation are, and how large they are.
    [[nodiscard]] Status locate(const TensorEntry& entry, std::uint32_t slot, std::uint32_t member,
                                collectives::Location& location) const;
    /// For an alltoall or a scatter on one host: reads how many rows each member sends to each member. `of[m]` is what
    /// locate() found for member m. Returns the number of rows that this rank receives. Stores the number of rows from
    /// each member in the operation's completion.
    [[nodiscard]] Result<std::int64_t> read_splits(TensorEntry& entry, std::uint32_t slot,
                                                   std::span<const collectives::Location> of,
                                                   std::vector<std::int64_t>& splits) const;
    /// Checks that all members announced the same first dimension. This is always so if all ranks are correct, but a
    /// faulty rank may have overwritten the announcements.
    [[nodiscard]] Status check_rows(const TensorEntry& entry, std::span<const std::int64_t> rows) const;
    /// For a scatter: checks that all rows come from the root. Without this check, the caller could not notice such an
    /// error, because the result does not show where the rows come from.
    [[nodiscard]] Status check_source(TensorEntry& entry) const;
    /// Whether the member has joined, and has announced the operation only because other ranks announced it.
    [[nodiscard]] bool stood_in(std::uint32_t slot, std::uint32_t member, std::uint64_t generation) const;
    /// Returns a text with the source lines in which the ranks of this host called the operation. "" if call sites are
    /// not recorded.
    [[nodiscard]] std::string called_from(std::uint32_t slot, std::uint64_t generation) const;

private:
    [[nodiscard]] bool read_splits_of(const TensorEntry& entry, std::uint32_t slot, std::uint32_t member,
                                      std::int64_t rows, std::span<std::int64_t> splits) const;

    SetView view_;
};

}  // namespace rueda::core
