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

/// Converts the arguments of a caller into the request that is announced. The functions find every mistake that this
/// rank can find alone, before anything starts. What the ranks must agree on goes into Metadata, even if no rank can do
/// it: then `is_refused` is set, and the request is announced so that all ranks get the error. Pure; pointers are
/// compared and never dereferenced.
namespace rueda::core {

// Each function fills `request`, which must be empty. It is passed by reference, because it is large and this is on the
// fast path.
[[nodiscard]] Status make_allreduce(const rueda_tensor& in, const rueda_tensor& out, const rueda_options& options,
                                    Request& request);
/// Whether make_allreduce() would make the request `last` again from these arguments. `last` may be the result of any
/// function here. If this returns true, the arguments need not be checked again.
[[nodiscard]] bool repeats_allreduce(const Request& last, const rueda_tensor& in, const rueda_tensor& out,
                                     const rueda_options& options);
/// `root` is a rank of the job. `ranks` are the ranks of the process set, in ascending order. `rank` is this rank's
/// position in the set.
[[nodiscard]] Status make_broadcast(const rueda_tensor& in, const rueda_tensor& out, int root,
                                    std::span<const int> ranks, int rank, const rueda_options& options,
                                    Request& request);
/// `root` is as in make_broadcast(). `out` is used only on the root, where it must not be null.
[[nodiscard]] Status make_reduce(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks,
                                 int rank, const rueda_options& options, Request& request);
/// Like make_reduce(); but if `out` is null, Rueda allocates the output.
[[nodiscard]] Status make_gather(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks,
                                 int rank, const rueda_options& options, Request& request);
/// `in` and `splits` are used only on the root; both are as in make_alltoall().
[[nodiscard]] Status make_scatter(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                                  const rueda_tensor* out, int root, std::span<const int> ranks, int rank,
                                  const rueda_options& options, Request& request);
// If `out` is null, Rueda allocates the output. For an allgather and an alltoall, this rank cannot check alone whether
// a given output has the right number of rows: that depends on the announcements of the other ranks.
[[nodiscard]] Status make_allgather(const rueda_tensor& in, const rueda_tensor* out, const rueda_options& options,
                                    Request& request);
[[nodiscard]] Status make_reducescatter(const rueda_tensor& in, const rueda_tensor* out, int rank, int size,
                                        const rueda_options& options, Request& request);
/// If `splits` is null, every rank gets equally many rows.
[[nodiscard]] Status make_alltoall(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                                   const rueda_tensor* out, int size, const rueda_options& options, Request& request);
/// For an operation of variable size with an output from the caller: checks that the output fits what all ranks
/// announced. For an allgather, `rows_before` is the number of rows that come before this rank's rows in the result.
[[nodiscard]] Status check_output_of_all(const Request& request, std::string_view name, std::int64_t rows,
                                         std::int64_t rows_before);
/// The dtype and the length of a send or a receive. check_message() checks the arguments and returns them. `ranks` are
/// the ranks of the process set. `which` is "input" or "output", for errors.
struct MessageShape {
    DType dtype = DType::uint8;
    std::uint64_t bytes = 0;
};
[[nodiscard]] Result<MessageShape> check_message(const rueda_tensor* tensor, const char* which, int peer,
                                                 bool may_be_anybody, std::span<const int> ranks,
                                                 const rueda_options& options);
[[nodiscard]] Status make_barrier(const rueda_options& options, Request& request);

/// Adds the tensor's name to an error of one of the functions above; `name` is empty for an unnamed tensor.
[[nodiscard]] Status naming_tensor(std::string_view name, const Status& made);

/// Sets `effective` to the options that apply: the given options, or the defaults if none are given. The struct of an
/// older caller is shorter; then the options are completed in `completed`. Returns InvalidArgument for a size that no
/// version had.
[[nodiscard]] Status effective_options(const rueda_options* given, rueda_options& completed,
                                       const rueda_options*& effective);

/// Like effective_options(), for the options of init.
[[nodiscard]] Status effective_init_options(const rueda_init_options* given, rueda_init_options& effective);

/// Returns InvalidArgument if the name is too long.
[[nodiscard]] Status check_name(const char* name);

}  // namespace rueda::core
