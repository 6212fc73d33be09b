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

/// An allreduce in which each rank has only some rows or elements of the tensor. It is a group of three allgathers,
/// which gather the positions, the values, and a description of the request. The description (the reduction, the
/// factors and the shape of the whole tensor) must be equal on all ranks. result() adds the values that have the same
/// position.
///
/// Threads: one thread creates the object. Any thread may call agreed() and result() after the group's Completion is
/// done.
class SparseAllreduce {
public:
    static constexpr std::size_t kMembers = 3;
    static constexpr std::size_t kResults = 2;  ///< the positions and the values

    /// Creates the object from the arguments of the caller. Finds every mistake in them that can be found without the
    /// other ranks.
    [[nodiscard]] static Result<std::unique_ptr<SparseAllreduce>> make(const rueda_tensor& indices,
                                                                       const rueda_tensor& values,
                                                                       std::span<const std::int64_t> shape,
                                                                       const rueda_options& options);
    /// Returns the three tensors that the operations gather. They are valid as long as this object and the caller's
    /// `values` exist.
    [[nodiscard]] std::array<rueda_tensor, kMembers> members() const;
    /// Call this before the operations are started. `group` is the name of the group, for errors. `ranks` are the ranks
    /// of the job that take part. An average divides by their number.
    void belongs_to(std::string group, std::vector<int> ranks);

    /// Returns success if all ranks made the same request, and the request is possible. Otherwise returns Mismatch or
    /// another error. All ranks get the same result. Call this only for a group that has ended with success.
    [[nodiscard]] const Status& agreed(Completion& gathered) noexcept;
    /// If agreed() fails, returns the failure. Otherwise returns one of the outputs: `index` 0 means the positions, 1
    /// means the values. The output is valid as long as this object exists.
    [[nodiscard]] Result<const Completion::Output*> result(Completion& gathered, std::size_t index);

private:
    SparseAllreduce() = default;
    Status number_places(const rueda_tensor& indices);
    [[nodiscard]] Status compare_rows(Completion& gathered) const;
    [[nodiscard]] Status check_possible() const;
    [[nodiscard]] Status combine(Completion& gathered);
    [[nodiscard]] Status check_gathered(const Completion::Output& places, const Completion::Output& values) const;
    [[nodiscard]] Status write_places(std::span<const std::int64_t> places);

    std::vector<std::int64_t> shape_;  // the shape of the whole tensor
    std::size_t along_ = 1;  // the number of indices that make a position; they are indices into the first dimensions
    std::int32_t indices_ndim_ = 1;
    ReduceOp op_ = ReduceOp::average;
    double prescale_ = 1.0;
    double postscale_ = 1.0;
    rueda_tensor values_{};
    std::vector<std::int64_t> values_shape_;
    std::vector<std::int64_t> places_;  // this rank's positions, each converted to one number
    std::int64_t places_shape_ = 0;
    std::vector<std::int64_t> row_;  // the description of this rank's request
    std::array<std::int64_t, 2> row_shape_{};
    std::string group_;
    std::vector<int> ranks_;

    std::mutex mutex_;                // protects the following members
    std::optional<Status> agreed_;    // the result of agreed(); empty before the first call of agreed()
    std::optional<Status> combined_;  // the status of result(); empty before the first call of result()
    std::array<Completion::Output, kResults> results_;
};

}  // namespace rueda::core
