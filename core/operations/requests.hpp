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

/// Converts a caller's arguments into a request. The functions find every mistake that this rank can find without the
/// other ranks, before the operation starts.
///
/// Some requests are impossible on every rank. Such a request is announced nevertheless, with `is_refused`, because all
/// ranks must get the error. Pure functions; they compare pointers and never dereference them.
namespace rueda::core {

// Each make_ function fills `request`, which must be empty. The request is passed by reference because it is large, and
// this code is on the fast path.
[[nodiscard]] Status make_allreduce(const rueda_tensor& in, const rueda_tensor& out, const rueda_options& options,
                                    Request& request);
/// Whether make_allreduce() would make the request `last` from these arguments. `last` may come from any make_
/// function. If the result is true, the arguments need no further check.
[[nodiscard]] bool repeats_allreduce(const Request& last, const rueda_tensor& in, const rueda_tensor& out,
                                     const rueda_options& options);
/// `root` is a rank of the job. `ranks` are the job's ranks in the process set, in ascending order. `rank` is this
/// rank's number in the set.
[[nodiscard]] Status make_broadcast(const rueda_tensor& in, const rueda_tensor& out, int root,
                                    std::span<const int> ranks, int rank, const rueda_options& options,
                                    Request& request);
/// Like make_broadcast(), but `out` is used only on the root, where it must not be null.
[[nodiscard]] Status make_reduce(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks,
                                 int rank, const rueda_options& options, Request& request);
/// Like make_reduce(), but if `out` is null, Rueda allocates the output.
[[nodiscard]] Status make_gather(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks,
                                 int rank, const rueda_options& options, Request& request);
/// On the root, `in` and `splits` are as in make_alltoall(). The other ranks need no splits. Only the dtype and the row
/// shape of their `in` are used.
[[nodiscard]] Status make_scatter(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                                  const rueda_tensor* out, int root, std::span<const int> ranks, int rank,
                                  const rueda_options& options, Request& request);
// If `out` is null, Rueda allocates the output. For an allgather and an alltoall, this rank alone cannot check the
// number of rows of `out`, which depends on the other ranks.
[[nodiscard]] Status make_allgather(const rueda_tensor& in, const rueda_tensor* out, const rueda_options& options,
                                    Request& request);
[[nodiscard]] Status make_reducescatter(const rueda_tensor& in, const rueda_tensor* out, int rank, int size,
                                        const rueda_options& options, Request& request);
/// If `splits` is null, every rank gets equally many rows.
[[nodiscard]] Status make_alltoall(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                                   const rueda_tensor* out, int size, const rueda_options& options, Request& request);
/// Checks that the caller's output of an operation of variable size matches what all ranks announced. `rows` is the
/// number of rows of the result. For an allgather, `rows_before` of them come before this rank's rows.
[[nodiscard]] Status check_output_of_all(const Request& request, std::string_view name, std::int64_t rows,
                                         std::int64_t rows_before);
/// The dtype, the length and the memory of a send or a receive. check_message() takes them from the caller's arguments.
/// `ranks` are the job's ranks in the process set. `which` is "input" or "output", for errors.
struct MessageShape {
    DType dtype = DType::uint8;
    std::uint64_t bytes = 0;
    bool is_on_device = false;
};
[[nodiscard]] Result<MessageShape> check_message(const rueda_tensor* tensor, const char* which, int peer,
                                                 bool may_be_anybody, std::span<const int> ranks,
                                                 const rueda_options& options);
[[nodiscard]] Status make_barrier(const rueda_options& options, Request& request);

/// Adds the tensor's name to an error of one of these functions. `name` is empty for an operation without a name.
[[nodiscard]] Status naming_tensor(std::string_view name, const Status& made);

/// Sets `effective` to the caller's options, or to the defaults if `given` is null. A caller that was compiled with an
/// older version has a shorter struct; its options are completed in `completed`. Returns InvalidArgument for a struct
/// size that no version had.
[[nodiscard]] Status effective_options(const rueda_options* given, rueda_options& completed,
                                       const rueda_options*& effective);

/// Like effective_options(), for the options of init.
[[nodiscard]] Status effective_init_options(const rueda_init_options* given, rueda_init_options& effective);

/// Returns InvalidArgument if the name is too long.
[[nodiscard]] Status check_name(const char* name);

}  // namespace rueda::core
