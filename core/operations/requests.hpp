// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "core/pending/tensor_table.hpp"
#include "rueda/rueda.h"

/// From what a caller passes to what is announced: everything that only this rank can find wrong is found here, before
/// anything is started. What the ranks must agree on goes into Metadata, also where no rank can do it: such a request
/// is_refused, and is announced so that all ranks hear why.
/// Pure; pointers are compared and never followed.
namespace rueda::core {

// Each fills `request`, which is fresh; by reference, because it is large and this is on the fast path.
[[nodiscard]] Status make_allreduce(const rueda_tensor& in, const rueda_tensor& out, const rueda_options& options,
                                    Request& request);
/// Whether make_allreduce() would make the same request of these arguments as `last`, which it (or another function
/// here) made: then they need not be checked again.
[[nodiscard]] bool repeats_allreduce(const Request& last, const rueda_tensor& in, const rueda_tensor& out,
                                     const rueda_options& options);
/// `root`: a rank of the job; `ranks`: those of the process set, ascending, of which `rank` is this rank's number.
[[nodiscard]] Status make_broadcast(const rueda_tensor& in, const rueda_tensor& out, int root,
                                    std::span<const int> ranks, int rank, const rueda_options& options,
                                    Request& request);
/// `root` as of a broadcast. `out` is looked at on the root only, and must not be null there.
[[nodiscard]] Status make_reduce(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks,
                                 int rank, const rueda_options& options, Request& request);
/// Likewise; `out` null: Rueda makes the output.
[[nodiscard]] Status make_gather(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks,
                                 int rank, const rueda_options& options, Request& request);
/// `in` is read on the root only, and `splits` too; both as of an alltoall.
[[nodiscard]] Status make_scatter(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                                  const rueda_tensor* out, int root, std::span<const int> ranks, int rank,
                                  const rueda_options& options, Request& request);
// `out` null: Rueda makes the output. Of an allgather and an alltoall, only the others' announcements show whether a
// given one has the right number of rows.
[[nodiscard]] Status make_allgather(const rueda_tensor& in, const rueda_tensor* out, const rueda_options& options,
                                    Request& request);
[[nodiscard]] Status make_reducescatter(const rueda_tensor& in, const rueda_tensor* out, int rank, int size,
                                        const rueda_options& options, Request& request);
/// `splits` null: the same number of rows for every rank.
[[nodiscard]] Status make_alltoall(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                                   const rueda_tensor* out, int size, const rueda_options& options, Request& request);
/// Of an operation by rows whose output the caller gave, and whose rows may differ between ranks: does it fit what all
/// ranks announced? `rows_before`: of an allgather, rows of the result before those of this rank.
[[nodiscard]] Status check_output_of_all(const Request& request, std::string_view name, std::int64_t rows,
                                         std::int64_t rows_before);
/// A send or a receive but for its process set, whose ranks those are. `does`: "input" or "output", for errors.
struct MessageShape {
    DType dtype = DType::uint8;
    std::uint64_t bytes = 0;
};
[[nodiscard]] Result<MessageShape> check_message(const rueda_tensor* tensor, const char* which, int peer,
                                                 bool may_be_anybody, std::span<const int> ranks,
                                                 const rueda_options& options);
[[nodiscard]] Status make_barrier(const rueda_options& options, Request& request);

/// The error of one of the functions above, for the caller: with the tensor's name; empty for one that has none.
[[nodiscard]] Status naming_tensor(std::string_view name, const Status& made);

/// The options that hold: those given, the defaults for none, and for an older caller's shorter struct what it has,
/// completed in `completed`. InvalidArgument for a size that no version had.
[[nodiscard]] Status effective_options(const rueda_options* given, rueda_options& completed,
                                       const rueda_options*& effective);

/// The same of what init is given.
[[nodiscard]] Status effective_init_options(const rueda_init_options* given, rueda_init_options& effective);

/// InvalidArgument for a name that is too long.
[[nodiscard]] Status check_name(const char* name);

}  // namespace rueda::core
