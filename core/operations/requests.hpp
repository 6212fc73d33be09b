// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "collectives/operation.hpp"
#include "core/pending/tensor_table.hpp"
#include "rueda/rueda.h"

/// Converts a caller's arguments into a request. Before the operation starts, these functions find every mistake that
/// this rank can find without the other ranks.
///
/// Some requests are impossible on every rank. Such a request is announced like any other, with `is_refused`, because
/// all ranks must get the error. Pure functions; they compare pointers and never dereference them.
namespace rueda::core {

// Each of the functions make_…() fills `request`, which must be empty. `request` is passed by reference, because it is
// large and this code is on the fast path.
[[nodiscard]] Status make_allreduce(const rueda_tensor& in, const rueda_tensor& out, const rueda_options& options,
                                    Request& request);
/// `root` is a rank of the job. `ranks` are the members of the process set, by their numbers in the job, in ascending
/// order. `rank` is this rank's number in the set.
[[nodiscard]] Status make_broadcast(const rueda_tensor& in, const rueda_tensor& out, int root,
                                    std::span<const int> ranks, int rank, const rueda_options& options,
                                    Request& request);
/// Like make_broadcast(), but `out` is used only on the root, where it must not be null.
[[nodiscard]] Status make_reduce(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks,
                                 int rank, const rueda_options& options, Request& request);
/// Like make_reduce(), but if `out` is null, Rueda allocates the output.
[[nodiscard]] Status make_gather(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks,
                                 int rank, const rueda_options& options, Request& request);
/// On the root, `in` and `splits` are as in make_alltoall(). The other ranks need no splits, and of their `in`, only
/// the dtype and the row shape are used.
[[nodiscard]] Status make_scatter(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                                  const rueda_tensor* out, int root, std::span<const int> ranks, int rank,
                                  const rueda_options& options, Request& request);
// If `out` is null, Rueda allocates the output. In an allgather and an alltoall, the number of rows of `out` depends on
// the other ranks. So this rank alone cannot check it.
[[nodiscard]] Status make_allgather(const rueda_tensor& in, const rueda_tensor* out, const rueda_options& options,
                                    Request& request);
[[nodiscard]] Status make_reducescatter(const rueda_tensor& in, const rueda_tensor* out, int rank, int size,
                                        const rueda_options& options, Request& request);
/// If `splits` is null, every rank gets equally many rows.
[[nodiscard]] Status make_alltoall(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                                   const rueda_tensor* out, int size, const rueda_options& options, Request& request);
/// Checks that the output of the caller matches what all ranks announced, for an operation of variable size. `rows` is
/// the number of rows of the result. In an allgather, `rows_before` is the number of rows that come before the rows of
/// this rank.
[[nodiscard]] Status check_output_of_all(const Request& request, std::string_view name, std::int64_t rows,
                                         std::int64_t rows_before);
/// The dtype, the length and the memory type of a send or a receive. check_message() takes them from the arguments of
/// the caller. Its argument `ranks` contains the ranks of the job that are in the process set. `which` is "input" or
/// "output", for errors.
struct MessageShape {
    DType dtype = DType::uint8;
    std::uint64_t bytes = 0;
    bool is_on_device = false;
};
[[nodiscard]] Result<MessageShape> check_message(const rueda_tensor* tensor, const char* which, int peer,
                                                 bool may_be_anybody, std::span<const int> ranks,
                                                 const rueda_options& options);
[[nodiscard]] Status make_barrier(const rueda_options& options, Request& request);

/// The arguments of a call of an operation on one tensor, or of a barrier.
struct Arguments {
    collectives::Operation operation = collectives::Operation::barrier;
    const rueda_tensor* in = nullptr;
    const rueda_tensor* out = nullptr;  ///< null if Rueda allocates the output
    int root = 0;                       ///< a rank of the job
    const std::int64_t* splits = nullptr;
    std::size_t split_count = 0;
    /// False if the call returns no handle, so that a result which Rueda allocates would be lost. Only a gather needs
    /// this, because only its root has a result.
    bool keeps_result = true;
};
/// The process set of a call: the ranks of the job that are its members, in ascending order, and this rank's number in
/// the set.
struct Membership {
    std::span<const int> ranks;
    int rank = 0;
};
/// The error for a call of `function` that has a result on this rank, and gives neither an output nor a handle.
[[nodiscard]] Status no_place_for_result(const char* function);
/// Whether the caller gave the tensors that the operation requires. make_request() and repeats() need them.
[[nodiscard]] Status check_given(const Arguments& arguments);
/// Calls the function make_…() of the operation.
[[nodiscard]] Status make_request(const Arguments& arguments, const Membership& set, const rueda_options& options,
                                  Request& request);
/// Returns true only if make_request() would make the same request as `last` from these arguments, so that they need no
/// further check. `last` may come from any of the functions make_…(). Returns false for some requests that are the
/// same: those of tensors on a device, of outputs that Rueda allocates, and of operations with a result only on the
/// root.
[[nodiscard]] bool repeats(const Request& last, const Arguments& arguments, const Membership& set,
                           const rueda_options& options);

/// Adds the name of the tensor to an error of one of the functions above. If the operation has no name, `name` is
/// empty.
[[nodiscard]] Status naming_tensor(std::string_view name, const Status& made);

/// Makes `effective` point to the caller's options, or to the defaults if `given` is null. A caller that was compiled
/// with an older version has a shorter struct. In this case, `completed` gets the caller's options and the defaults of
/// the newer options. Returns InvalidArgument for a struct size that no version had.
[[nodiscard]] Status effective_options(const rueda_options* given, rueda_options& completed,
                                       const rueda_options*& effective);

/// Like effective_options(), for the options of init.
[[nodiscard]] Status effective_init_options(const rueda_init_options* given, rueda_init_options& effective);

/// Returns InvalidArgument if the name is too long.
[[nodiscard]] Status check_name(const char* name);

}  // namespace rueda::core
