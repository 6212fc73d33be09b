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

/// An allreduce of tensors where each rank has only some rows or elements. It is a group of three allgathers: the
/// positions, the values, and a row that describes the request (the reduction, the factors and the shape of the whole
/// tensor). This row must be the same on all ranks. Values of the same position are added when result() is called.
///
/// Threads: one thread makes the object; any thread may call agreed() and result() once the group's Completion is done.
class SparseAllreduce {
public:
    static constexpr std::size_t kMembers = 3;
    static constexpr std::size_t kResults = 2;  ///< positions, values

    /// Makes the object. Finds every mistake that this rank can find alone.
    [[nodiscard]] static Result<std::unique_ptr<SparseAllreduce>> make(const rueda_tensor& indices,
                                                                       const rueda_tensor& values,
                                                                       std::span<const std::int64_t> shape,
                                                                       const rueda_options& options);
    /// The tensors to gather. They are valid as long as this object and `values` exist.
    [[nodiscard]] std::array<rueda_tensor, kMembers> members() const;
    /// Call this before the start. `group` is for errors; an average divides by the number of ranks. `ranks` are ranks
    /// of the job.
    void belongs_to(std::string group, std::vector<int> ranks);

    /// Success if all ranks made the same request (otherwise Mismatch) and the request is possible. All ranks get the
    /// same result. Call this for a group that has ended with success.
    [[nodiscard]] const Status& agreed(Completion& gathered) noexcept;
    /// Like agreed(), and returns the result: index 0 is the positions, 1 the values. The result is valid as long as
    /// this object exists.
    [[nodiscard]] Result<const Completion::Output*> result(Completion& gathered, std::size_t index);

private:
    SparseAllreduce() = default;
    Status number_places(const rueda_tensor& indices);
    [[nodiscard]] Status compare_rows(Completion& gathered) const;
    [[nodiscard]] Status check_possible() const;
    [[nodiscard]] Status combine(Completion& gathered);
    [[nodiscard]] Status check_gathered(const Completion::Output& places, const Completion::Output& values) const;
    [[nodiscard]] Status write_places(std::span<const std::int64_t> places);

    std::vector<std::int64_t> shape_;  // of the whole tensor
    std::size_t along_ = 1;            // a position has indices in this many of the first dimensions
    std::int32_t indices_ndim_ = 1;
    ReduceOp op_ = ReduceOp::average;
    double prescale_ = 1.0;
    double postscale_ = 1.0;
    rueda_tensor values_{};
    std::vector<std::int64_t> values_shape_;
    std::vector<std::int64_t> places_;  // the positions of this rank, each as one number
    std::int64_t places_shape_ = 0;
    std::vector<std::int64_t> row_;  // what this rank asked for
    std::array<std::int64_t, 2> row_shape_{};
    std::string group_;
    std::vector<int> ranks_;

    std::mutex mutex_;                // protects the following members
    std::optional<Status> agreed_;    // not set before the first call
    std::optional<Status> combined_;  // the same
    std::array<Completion::Output, kResults> results_;
};

}  // namespace rueda::core
