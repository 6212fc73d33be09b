// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "core/pending/completion.hpp"
#include "rueda/rueda.h"

namespace rueda::core {

/// An allreduce of tensors of which each rank has some rows or elements: a group of three allgathers, of the places, of
/// what is there, and of a row that says what this rank asked for (its reduction, factors and the shape of the whole),
/// which has to be the same everywhere. What comes twice is added when somebody asks for the result.
///
/// Threads: made by one; agreed() and result() by any, once the group's Completion is done.
class SparseAllreduce {
public:
    static constexpr std::size_t kMembers = 3;
    static constexpr std::size_t kResults = 2;  ///< places, values

    /// What only this rank can find wrong is found here.
    [[nodiscard]] static Result<std::unique_ptr<SparseAllreduce>> make(const rueda_tensor& indices,
                                                                       const rueda_tensor& values,
                                                                       std::span<const std::int64_t> shape,
                                                                       const rueda_options& options);
    /// What is gathered, for as long as this lives and `values` does.
    [[nodiscard]] std::array<rueda_tensor, kMembers> members() const;
    /// Before the start: for errors, and for what averages divide by. `ranks` are those of the job.
    void belongs_to(std::string group, std::vector<int> ranks);

    /// Whether all ranks asked for the same (Mismatch), and for what can be done; the same on all ranks. Of a group
    /// that has ended well.
    [[nodiscard]] const Status& agreed(Completion& gathered) noexcept;
    /// Likewise, and what was asked for: 0 the places, 1 the values. It stays as long as this.
    [[nodiscard]] Result<const Completion::Output*> result(Completion& gathered, std::size_t index);

private:
    SparseAllreduce() = default;
    Status number_places(const rueda_tensor& indices);
    [[nodiscard]] Status compare_rows(Completion& gathered) const;
    [[nodiscard]] Status check_possible() const;
    [[nodiscard]] Status combine(Completion& gathered);
    [[nodiscard]] Status check_gathered(const Completion::Output& places, const Completion::Output& values) const;
    [[nodiscard]] Status write_places(std::span<const std::int64_t> places);

    std::vector<std::int64_t> shape_;  // of the whole
    std::size_t along_ = 1;            // the places are numbers in so many of its first dimensions
    std::int32_t indices_ndim_ = 1;
    ReduceOp op_ = ReduceOp::average;
    double prescale_ = 1.0;
    double postscale_ = 1.0;
    rueda_tensor values_{};
    std::vector<std::int64_t> values_shape_;
    std::vector<std::int64_t> places_;  // of this rank, as numbers of one dimension
    std::int64_t places_shape_ = 0;
    std::vector<std::int64_t> row_;  // what this rank asked for
    std::array<std::int64_t, 2> row_shape_{};
    std::string group_;
    std::vector<int> ranks_;

    std::mutex mutex_;                // what follows
    std::optional<Status> agreed_;    // not set: nobody has asked
    std::optional<Status> combined_;  // likewise
    std::array<Completion::Output, kResults> results_;
};

}  // namespace rueda::core
