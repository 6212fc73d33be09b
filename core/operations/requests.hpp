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

/// Converts what a caller passes to what is announced. Everything that this rank alone can find wrong is found here,
/// before anything starts. What the ranks must agree on goes into Metadata, even if no rank can do it: such a request
/// is_refused, and is announced so that all ranks get the error. Pure; pointers are compared and never dereferenced.
namespace rueda::core {

// Each function fills `request`, which is empty before. It is passed by reference, because it is large and this is on
// the fast path.
[[nodiscard]] Status make_allreduce(const rueda_tensor& in, const rueda_tensor& out, const rueda_options& options,
                                    Request& request);
/// Whether make_allreduce() would make the same request from these arguments as `last`, which it or another function
/// here has made. Then they need not be checked again.
[[nodiscard]] bool repeats_allreduce(const Request& last, const rueda_tensor& in, const rueda_tensor& out,
                                     const rueda_options& options);
/// `root` is a rank of the job. `ranks` are those of the process set, ascending, and `rank` is this rank's position in
/// it.
[[nodiscard]] Status make_broadcast(const rueda_tensor& in, const rueda_tensor& out, int root,
                                    std::span<const int> ranks, int rank, const rueda_options& options,
                                    Request& request);
/// `root` is as in a broadcast. `out` is used on the root only, and must not be null there.
[[nodiscard]] Status make_reduce(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks,
                                 int rank, const rueda_options& options, Request& request);
/// The same; with `out` null, Rueda allocates the output.
[[nodiscard]] Status make_gather(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks,
                                 int rank, const rueda_options& options, Request& request);
/// `in` and `splits` are used on the root only; both are as in an alltoall.
[[nodiscard]] Status make_scatter(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                                  const rueda_tensor* out, int root, std::span<const int> ranks, int rank,
                                  const rueda_options& options, Request& request);
// With `out` null, Rueda allocates the output. For an allgather and an alltoall, only the announcements of the other
// ranks show whether a given output has the right number of rows.
[[nodiscard]] Status make_allgather(const rueda_tensor& in, const rueda_tensor* out, const rueda_options& options,
                                    Request& request);
[[nodiscard]] Status make_reducescatter(const rueda_tensor& in, const rueda_tensor* out, int rank, int size,
                                        const rueda_options& options, Request& request);
/// `splits` null means equally many rows for every rank.
[[nodiscard]] Status make_alltoall(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                                   const rueda_tensor* out, int size, const rueda_options& options, Request& request);
/// For an operation of variable size with an output of the caller: checks that the output fits what all ranks
/// announced. For an allgather, `rows_before` is the number of rows in the result before this rank's.
[[nodiscard]] Status check_output_of_all(const Request& request, std::string_view name, std::int64_t rows,
                                         std::int64_t rows_before);
/// Makes a send or a receive, except for its process set, whose ranks are given. `does` is "input" or "output", for
/// errors.
struct MessageShape {
    DType dtype = DType::uint8;
    std::uint64_t bytes = 0;
};
[[nodiscard]] Result<MessageShape> check_message(const rueda_tensor* tensor, const char* which, int peer,
                                                 bool may_be_anybody, std::span<const int> ranks,
                                                 const rueda_options& options);
[[nodiscard]] Status make_barrier(const rueda_options& options, Request& request);

/// Completes an error of one of the functions above with the tensor's name; `name` is empty for an unnamed tensor.
[[nodiscard]] Status naming_tensor(std::string_view name, const Status& made);

/// The options that apply: the given ones, or the defaults if none are given. For an older caller's shorter struct,
/// they are completed in `completed`. InvalidArgument for a size that no version had.
[[nodiscard]] Status effective_options(const rueda_options* given, rueda_options& completed,
                                       const rueda_options*& effective);

/// The same for the options of init.
[[nodiscard]] Status effective_init_options(const rueda_init_options* given, rueda_init_options& effective);

/// InvalidArgument for a name that is too long.
[[nodiscard]] Status check_name(const char* name);

}  // namespace rueda::core
