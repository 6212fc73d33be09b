// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "core/runtime/set_view.hpp"
#include "core/runtime/tensor_table.hpp"

namespace rueda::core {

/// What the members of this host announced of an operation that is complete. It comes from other processes: it is read
/// once, checked, and used from the copy. AnnouncementWriter is the other side.
///
/// Threads: who holds the rank's crank, and under the enqueue lock: an operation that is pending here keeps what was
/// announced of it.
class Announced {
public:
    explicit Announced(const SetView& view) : view_(view) {}

    /// Where a member's share of an operation lies, and how large it is.
    [[nodiscard]] Status locate(const TensorEntry& entry, std::uint32_t slot, std::uint32_t member,
                                collectives::Location& location) const;
    /// Of an alltoall or a scatter on one host, whose members are `of`: how many rows each has for each. Gives the rows
    /// for this rank; from whom they come is in its completion.
    [[nodiscard]] Result<std::int64_t> read_splits(TensorEntry& entry, std::uint32_t slot,
                                                   std::span<const collectives::Location> of,
                                                   std::vector<std::int64_t>& splits) const;
    /// All members have agreed on the first dimension, but what they announced is in memory that others can write to.
    [[nodiscard]] Status check_rows(const TensorEntry& entry, std::span<const std::int64_t> rows) const;
    /// Of a scatter: everything comes from the root. Who the rows came from is no part of its result.
    [[nodiscard]] Status check_source(TensorEntry& entry) const;
    /// That member has joined, and announced it for the others' sake.
    [[nodiscard]] bool stood_in(std::uint32_t slot, std::uint32_t member, std::uint64_t generation) const;
    /// Where the ranks of this host have called it. "" where nobody wants to know.
    [[nodiscard]] std::string called_from(std::uint32_t slot, std::uint64_t generation) const;

private:
    SetView view_;
};

}  // namespace rueda::core
