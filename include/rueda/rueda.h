/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/**
 * @file
 * The C interface of Rueda, to which every other language binds.
 *
 * Every function returns a status code (0 is success) unless its comment says otherwise. rueda_last_error() returns the
 * message of the last failure on the calling thread. Structs that callers fill begin with their own size. So a library
 * of the same major version understands callers that were built with an older header.
 *
 * Threads: every function may be called from any thread at any time. Names have at most RUEDA_MAX_NAME bytes of UTF-8.
 * On a rank, one operation per name may be pending; a second one is refused with RUEDA_DUPLICATE_NAME.
 *
 * Memory: the input and the output of an operation belong to Rueda from the call until the operation has completed:
 * until rueda_wait or a blocking function returns, or until rueda_poll reports it. If an operation fails after its
 * execution began, the contents of the output are undefined.
 */
#ifndef RUEDA_RUEDA_H
#define RUEDA_RUEDA_H

#include <stddef.h>
#include <stdint.h>

#include "rueda/version.h"

#define RUEDA_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

#define RUEDA_MAX_NAME 511
#define RUEDA_MAX_DIMENSIONS 16

/** The same numbers as rueda::ErrorCode. */
enum rueda_status {
    RUEDA_OK = 0,
    RUEDA_INVALID_ARGUMENT = 1,
    RUEDA_DUPLICATE_NAME = 2,
    RUEDA_NOT_INITIALIZED = 3,
    RUEDA_MISMATCH = 4,
    RUEDA_ABORTED = 5,
    RUEDA_TIMEOUT = 6,
    RUEDA_RESOURCE_EXHAUSTED = 7,
    RUEDA_UNSUPPORTED = 8,
    RUEDA_INTERNAL = 9
};

/** The same numbers as rueda::DType. */
enum rueda_dtype {
    RUEDA_UINT8 = 0,
    RUEDA_INT8 = 1,
    RUEDA_INT32 = 2,
    RUEDA_INT64 = 3,
    RUEDA_FLOAT16 = 4,
    RUEDA_BFLOAT16 = 5,
    RUEDA_FLOAT32 = 6,
    RUEDA_FLOAT64 = 7,
    RUEDA_BOOL = 8, /* one byte, 0 is false; has min, max and product without factors, whose results are 0 and 1 */
    RUEDA_INT16 = 9,
    RUEDA_UINT16 = 10,
    RUEDA_UINT32 = 11,
    RUEDA_UINT64 = 12
};

/** The same numbers as rueda::ReduceOp and as Horovod's constants. */
enum rueda_reduce_op {
    RUEDA_AVERAGE = 0,
    RUEDA_SUM = 1,
    RUEDA_ADASUM = 2, /* for floating-point tensors, in an allreduce */
    RUEDA_MIN = 3,
    RUEDA_MAX = 4,
    RUEDA_PRODUCT = 5
};

/** What values become while they travel between hosts; the same numbers as rueda::Compression. docs/compression.md. */
enum rueda_compression {
    RUEDA_COMPRESSION_NONE = 0,
    /* as the environment variable RUEDA_COMPRESSION says; without it, values are not
changed */
    RUEDA_COMPRESSION_FP16 = 1,
    /* float32 and float64 as float16 */ RUEDA_COMPRESSION_BF16 = 2 /* float32
and float64 as bfloat16 */
};

/** A typed, shaped view of the caller's memory: dense, row-major. Never owned by Rueda. */
typedef struct rueda_tensor {
    void* data;           /**< may be NULL if the shape has no elements */
    const int64_t* shape; /**< `ndim` extents; read during the call only */
    int32_t ndim;         /**< 0 … RUEDA_MAX_DIMENSIONS; 0 is a scalar */
    int32_t dtype;        /**< enum rueda_dtype */
} rueda_tensor;

/** Keeps the result of looking up a name, so that repeated operations on the name need not hash it again. */
typedef struct rueda_slot rueda_slot;

/** The caller's reference to a pending operation. */
typedef struct rueda_handle rueda_handle;

/** Options of an operation. Start from RUEDA_OPTIONS_INIT. */
typedef struct rueda_options {
    size_t struct_size;
    double prescale;         /**< each rank's input is multiplied by this first; allreduce, reducescatter, reduce */
    double postscale;        /**< the result is multiplied by this last; allreduce, reducescatter, reduce */
    rueda_slot* slot;        /**< if set, it replaces the name, and the `name` argument is ignored */
    int32_t reduce_op;       /**< enum rueda_reduce_op; allreduce, reducescatter and reduce */
    int32_t process_set;     /**< a number that rueda_process_set_add gave; 0 is the world */
    int32_t compression;     /**< enum rueda_compression; for an allreduce of float32 or float64, also grouped; else
                                RUEDA_UNSUPPORTED */
    const char* source_file; /**< where the caller stands, for errors and stall reports with RUEDA_CALL_SITES=1; NULL:
                                not known. Kept and not copied: a literal, or memory that is never freed */
    int32_t source_line;     /**< the line in source_file; 0: not known */
    int32_t reserved;        /**< 0 */
} rueda_options;

#define RUEDA_OPTIONS_INIT \
    { sizeof(rueda_options), 1.0, 1.0, NULL, RUEDA_AVERAGE, 0, RUEDA_COMPRESSION_NONE, NULL, 0, 0 }

/**
 * Returns 1 if this job asked for call sites (RUEDA_CALL_SITES=1), else 0; also 0 if Rueda is not initialised. It is
 * for callers to whom finding out source_file and source_line is expensive. Without the setting Rueda does not look at
 * them.
 */
RUEDA_API int rueda_wants_call_sites(void);
/**
 * Says where the caller stands, for the next call on this thread of a function without rueda_options: rueda_join or
 * rueda_join_async. The arguments are those of rueda_options::source_file and source_line.
 */
RUEDA_API void rueda_set_call_site(const char* source_file, int32_t source_line);

/** The message of the last failure on this thread; "" if there was none. Valid until the thread's next call. */
RUEDA_API const char* rueda_last_error(void);
/** The version, for example "0.1.0". */
RUEDA_API const char* rueda_version(void);

/**
 * Joins the other processes of the job. Collective. Without a launcher, the job is this one process. A call while Rueda
 * is initialised does nothing. After rueda_shutdown it may be called again, unless the job was aborted.
 */
RUEDA_API int rueda_init(void);
/**
 * Joins the processes that call it with the same list: a job of `count` of the launched ranks. The list may have any
 * order; in the new job, the ranks are numbered in ascending order. Collective among the listed ranks. The other ranks
 * do not call it, or make a job of their own. Returns RUEDA_INVALID_ARGUMENT if this process is not in the list, or if
 * the list names a rank twice or a rank that does not exist.
 */
RUEDA_API int rueda_init_ranks(const int32_t* ranks, size_t count);
/**
 * Joins the processes of an MPI communicator, which Rueda duplicates. Rank and size are those of the communicator. MPI
 * must be initialised, and stays the caller's. `communicator` points to the MPI_Comm (whatever type that is in this
 * MPI), whose size in bytes is `communicator_size`. Returns RUEDA_UNSUPPORTED if this process has no MPI. A second call
 * while Rueda is initialised does nothing if its communicator has the same processes in the same order; it returns
 * RUEDA_INVALID_ARGUMENT for another communicator. Only MPI can compare communicators. So the second call returns
 * RUEDA_UNSUPPORTED if MPI gives less than MPI_THREAD_MULTIPLE, because Rueda's own thread may be inside MPI at this
 * moment. It returns RUEDA_ABORTED if the job was aborted.
 */
RUEDA_API int rueda_init_communicator(const void* communicator, size_t communicator_size);

/** The ranks of a job, as a list. */
typedef struct rueda_rank_list {
    const int32_t* ranks;
    size_t count;
} rueda_rank_list;

/** The options of rueda_init_with. Start from RUEDA_INIT_OPTIONS_INIT. */
typedef struct rueda_init_options {
    size_t struct_size;
    const int32_t* ranks; /**< the ranks of the job, as for rueda_init_ranks; NULL: all that were launched */
    size_t rank_count;
    const void* communicator; /**< as for rueda_init_communicator; NULL: none. Not together with `ranks` */
    size_t communicator_size;
    const rueda_rank_list* process_sets; /**< made at once, in this order, as rueda_process_set_add makes them */
    size_t process_set_count;
    int32_t* process_set_ids; /**< receives their numbers, one per set; NULL: the caller does not need them */
} rueda_init_options;

#define RUEDA_INIT_OPTIONS_INIT \
    { sizeof(rueda_init_options), NULL, 0, NULL, 0, NULL, 0, NULL }

/**
 * Joins the job as the functions above do, and makes process sets at the same time. With `options` NULL it does the
 * same as rueda_init. All ranks must give the same sets in the same order. Otherwise all of them return RUEDA_MISMATCH,
 * also if only some give sets. Sets that cannot be made return RUEDA_INVALID_ARGUMENT. In both cases nothing is
 * initialised. A call while Rueda is initialised makes no sets: it writes the numbers of sets that exist, and refuses
 * others with RUEDA_INVALID_ARGUMENT.
 */
RUEDA_API int rueda_init_with(const rueda_init_options* options);
/**
 * Leaves the job. Operations that are pending on this rank fail. On other ranks, operations that need this rank fail
 * with a message that says so. Returns when every rank has called it, or when a rank has died. Without rueda_init it
 * does nothing. Ranks that do not call it are reported like stalled tensors, and RUEDA_STALL_SHUTDOWN_TIME_SECONDS ends
 * the wait. If the job was aborted before every rank had called it, it returns RUEDA_ABORTED (or the code with which
 * the job was aborted) and the reason, unless an earlier call on this rank has reported it. In this case too, the rank
 * has left the job.
 */
RUEDA_API int rueda_shutdown(void);
/**
 * The same, but waits at most `timeout_seconds` for the other ranks (negative: without a limit). RUEDA_TIMEOUT means
 * that some rank has not called it in this time. Then this rank can start no more operations, but it still serves the
 * others and stays initialised. Another call of rueda_shutdown or of this function continues the wait; rueda_abort ends
 * the job.
 */
RUEDA_API int rueda_shutdown_within(double timeout_seconds);
/** Returns 1 between rueda_init and rueda_shutdown, else 0. */
RUEDA_API int rueda_initialized(void);

/** Each function writes its number. Returns RUEDA_NOT_INITIALIZED before rueda_init. */
RUEDA_API int rueda_rank(int* value);
RUEDA_API int rueda_size(int* value);
RUEDA_API int rueda_local_rank(int* value);
RUEDA_API int rueda_local_size(int* value);
RUEDA_API int rueda_cross_rank(int* value);
RUEDA_API int rueda_cross_size(int* value);
/** Writes 1 if all hosts have equally many ranks, else 0. Does not communicate. */
RUEDA_API int rueda_is_homogeneous(int* value);

/*
 * Process sets are subsets of the ranks that run operations among their members. Each set has an order of its own, so
 * no set waits for another. In an operation of a set, "the ranks" are its members in ascending order. Everything that
 * is "by rank" is by position among them. A root, however, is named by its rank in the job.
 */

/**
 * Makes a process set of `count` ranks, in any order, and writes its number, which is the same on all ranks.
 * Collective: every rank of the job calls it with the same ranks, members or not. Returns RUEDA_MISMATCH if the ranks
 * give different lists. Returns RUEDA_INVALID_ARGUMENT if a rank does not exist or is named twice, if the list is
 * empty, and if a set of these ranks exists already. All ranks get the same error, and nothing has changed.
 */
RUEDA_API int rueda_process_set_add(const int32_t* ranks, size_t count, int32_t* process_set);
/**
 * Removes a set. Collective, like rueda_process_set_add. Operations that are pending in it fail. Its number is not used
 * again, also not in a later job of these processes.
 */
RUEDA_API int rueda_process_set_remove(int32_t process_set);
/**
 * Makes a process set that concerns only its members: they call it with the same ranks, in any order, and other ranks
 * do not call it. There may be several such sets of the same ranks, also of all ranks; each has an order of its own.
 * The number is the same on the members and means nothing on other ranks. Returns RUEDA_MISMATCH if members that meet
 * give different lists. Returns RUEDA_INVALID_ARGUMENT at once if a rank does not exist or is named twice, or if this
 * rank is not in the list.
 */
RUEDA_API int rueda_process_set_add_among(const int32_t* ranks, size_t count, int32_t* process_set);
/**
 * This rank leaves a set that rueda_process_set_add_among made. It does not wait for other ranks. Operations that are
 * pending here fail, except messages: those that the other side still accepts are delivered, and the others fail some
 * time after all members have left. On members that are still in the set, operations that need this rank fail. The
 * memory is given back when all members have left: at the next call of this function or of rueda_process_set_add_among,
 * or when the job ends.
 */
RUEDA_API int rueda_process_set_leave(int32_t process_set);
/** The position of this rank in the set. Returns RUEDA_INVALID_ARGUMENT if this rank is not a member. */
RUEDA_API int rueda_process_set_rank(int32_t process_set, int* value);
RUEDA_API int rueda_process_set_size(int32_t process_set, int* value);
/** Writes 1 if this rank is a member, else 0. */
RUEDA_API int rueda_process_set_included(int32_t process_set, int* value);
/** Writes up to `capacity` of the set's ranks, ascending, and writes the number of all members to `count`. */
RUEDA_API int rueda_process_set_ranks(int32_t process_set, int32_t* ranks, size_t capacity, size_t* count);
/** The same for the numbers of all sets that this rank knows; the first one is the world's, 0. */
RUEDA_API int rueda_process_set_ids(int32_t* ids, size_t capacity, size_t* count);

RUEDA_API int rueda_slot_create(const char* name, rueda_slot** slot);
/** Makes a slot for operations of a process set; rueda_slot_create makes slots for the world. */
RUEDA_API int rueda_slot_create_in(const char* name, int32_t process_set, rueda_slot** slot);
/** The slot must not be in use by a pending operation of another thread. NULL is allowed. */
RUEDA_API void rueda_slot_destroy(rueda_slot* slot);

/*
 * Operations. A `name` that is NULL or "" means an unnamed operation; unnamed operations match between ranks by the
 * order of the calls. `options` NULL means RUEDA_OPTIONS_INIT. `out` may be the same memory as `in`; otherwise the two
 * must not overlap. The _async functions return at once with a handle. The caller must give the handle to
 * rueda_handle_release, with or without a wait before. The other functions block.
 */

/**
 * Element i of `out` becomes the reduction, in rank order, of element i of `in` over all ranks. Shape and dtype must be
 * the same on every rank. Integer sums and products wrap. Integer averages divide the exact sum and truncate toward
 * zero. 16-bit floats are accumulated in float32 and rounded once. For bool there are min, max and product, without
 * factors; other reductions are refused with RUEDA_UNSUPPORTED.
 */
RUEDA_API int rueda_allreduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                    const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_allreduce(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                              const rueda_options* options);

/*
 * Groups: `count` operations with one handle. Their names are `<name>_<i>of<count>`, with i from 1. Either all are
 * started or none. The handle's error is the error of the first member that failed. If the ranks have different numbers
 * of members, all ranks return RUEDA_MISMATCH. The name belongs to the group until its last member has ended. Until
 * then another group or operation with this name returns RUEDA_DUPLICATE_NAME, and nothing is started. A group whose
 * name a pending operation has is refused in the same way.
 */

/** Starts one allreduce per tensor. `in` and `out` are arrays of `count` tensors. */
RUEDA_API int rueda_grouped_allreduce_async(const char* name, size_t count, const rueda_tensor* in,
                                            const rueda_tensor* out, const rueda_options* options,
                                            rueda_handle** handle);
RUEDA_API int rueda_grouped_allreduce(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                      const rueda_options* options);

/** Starts one allgather per tensor. The results belong to the handle: see rueda_handle_output_of. */
RUEDA_API int rueda_grouped_allgather_async(const char* name, size_t count, const rueda_tensor* in,
                                            const rueda_options* options, rueda_handle** handle);
/** Blocks. Writes `handle` only if everything succeeded; the caller must release it then. */
RUEDA_API int rueda_grouped_allgather(const char* name, size_t count, const rueda_tensor* in,
                                      const rueda_options* options, rueda_handle** handle);

/**
 * Starts one reducescatter per tensor. With `out` NULL the results belong to the handle: see rueda_handle_output_of.
 */
RUEDA_API int rueda_grouped_reducescatter_async(const char* name, size_t count, const rueda_tensor* in,
                                                const rueda_tensor* out, const rueda_options* options,
                                                rueda_handle** handle);
/** `out` must not be NULL here. */
RUEDA_API int rueda_grouped_reducescatter(const char* name, size_t count, const rueda_tensor* in,
                                          const rueda_tensor* out, const rueda_options* options);

/**
 * `out` on every rank becomes `in` of rank `root`. Only the root's `in` is read, but its shape and dtype count on every
 * rank.
 */
RUEDA_API int rueda_broadcast_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                                    const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_broadcast(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                              const rueda_options* options);

/**
 * Concatenates the ranks' tensors along the first dimension, which may differ between ranks and be 0. The other
 * dimensions must agree. The result belongs to the handle: see rueda_handle_output.
 */
RUEDA_API int rueda_allgather_async(const char* name, const rueda_tensor* in, const rueda_options* options,
                                    rueda_handle** handle);
/** Blocks. Writes `handle` only if everything succeeded; the caller must release it then. */
RUEDA_API int rueda_allgather(const char* name, const rueda_tensor* in, const rueda_options* options,
                              rueda_handle** handle);
/**
 * The same into memory of the caller, which saves the allocation of the result. `out` has the dtype and the shape of
 * `in`, except for the first dimension, which is the sum over all ranks. `in` is the place of this rank's rows in
 * `out`, or does not overlap `out`. Some ranks may give an output while others leave it to Rueda. Some mistakes show
 * only in the other ranks' rows: another sum, or another place. Then this rank alone fails with RUEDA_INVALID_ARGUMENT
 * when all ranks have announced the operation. The other ranks get their results, and `out` is unchanged.
 */
RUEDA_API int rueda_allgather_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                         const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_allgather_into(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                   const rueda_options* options);

/**
 * The reduction of the ranks' tensors, as in rueda_allreduce, divided along the first dimension: every rank gets its
 * share of the rows. Shape and dtype must be the same on every rank. If the rows cannot be shared evenly, the first
 * ranks get one row more; a share may be empty. `out` has the shape of this rank's rows. It is their place in `in`, or
 * does not overlap `in`. With `out` NULL the result belongs to the handle: see rueda_handle_output.
 */
RUEDA_API int rueda_reducescatter_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                        const rueda_options* options, rueda_handle** handle);
/** `out` must not be NULL here. */
RUEDA_API int rueda_reducescatter(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                  const rueda_options* options);

/**
 * The first splits[0] rows of `in` go to rank 0, the next splits[1] rows to rank 1, and so on. The result has the rows
 * from all ranks, in rank order. `splits` has `split_count` numbers, one for each rank. None may be negative, and their
 * sum is at most the first dimension; rows behind it are not sent. They are read during the call only, and may differ
 * between ranks and steps.
 *
 * If `splits` is NULL, all ranks get equally many rows, and the first dimension must be divisible by the number of
 * ranks. The other dimensions and the dtype must agree. The result belongs to the handle: see rueda_handle_output and
 * rueda_handle_received_splits.
 */
RUEDA_API int rueda_alltoall_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                                   const rueda_options* options, rueda_handle** handle);
/** Blocks. Writes `handle` only if everything succeeded; the caller must release it then. */
RUEDA_API int rueda_alltoall(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                             const rueda_options* options, rueda_handle** handle);
/**
 * The same into memory of the caller, which saves the allocation of the result. `out` has the dtype and the shape of
 * `in`, except for the first dimension, which is the number of rows that come from all ranks. It does not overlap `in`.
 * A wrong number of rows fails as in rueda_allgather_into. rueda_handle_received_splits works with the handle of the
 * _async function.
 */
RUEDA_API int rueda_alltoall_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                        const int64_t* splits, size_t split_count, const rueda_options* options,
                                        rueda_handle** handle);
RUEDA_API int rueda_alltoall_into(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                  const int64_t* splits, size_t split_count, const rueda_options* options);

/**
 * The sum or the average over the ranks of tensors of which each rank has only some rows or elements.
 *
 * `indices` says which; its dtype is an integer type. With shape [n] they are positions along the first dimension of
 * the whole tensor; with shape [n, k], positions along its first k dimensions. They may be in any order and may repeat.
 * n may differ between ranks and be 0. `values` are the rows or elements at these positions. Their shape is [n, …],
 * where the rest is `shape` after the indexed dimensions, the same on every rank; bool is not possible. `shape`, with
 * `ndim` extents, is the shape of the whole tensor, which is never made.
 *
 * `options` has RUEDA_SUM or RUEDA_AVERAGE, without factors. The name is that of a group. The results belong to the
 * handle (rueda_handle_output_of). Result 0 has the indices (int64, with k as given): each position that some rank has,
 * once, ascending. Result 1 has the values. Values of several ranks are added in rank order, 16-bit floats in float32.
 * Averages of integers divide the exact sum and truncate toward zero. The sums are computed when an output is asked for
 * the first time. If shape or reduction differ between ranks, all ranks return RUEDA_MISMATCH.
 */
RUEDA_API int rueda_sparse_allreduce_async(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                                           const int64_t* shape, int32_t ndim, const rueda_options* options,
                                           rueda_handle** handle);
/** Blocks. Writes `handle` only if everything succeeded; the caller must release it then. */
RUEDA_API int rueda_sparse_allreduce(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                                     const int64_t* shape, int32_t ndim, const rueda_options* options,
                                     rueda_handle** handle);

/*
 * Operations with a root. The root is named by its rank in the job and must be a member of the set. If it is not, the
 * operation fails with RUEDA_INVALID_ARGUMENT on all ranks, when all have called it: a blocking call returns the error;
 * an _async call starts, and its handle has the error. These operations are not barriers: a rank may be done before
 * other ranks have called.
 */

/**
 * On the root: concatenates the ranks' tensors along the first dimension, which may differ between ranks and be 0. The
 * other dimensions must agree. `out` is used on the root only. It is memory for all rows that does not overlap `in`, or
 * NULL; then the result belongs to the root's handle: rueda_handle_output. rueda_handle_received_splits works in both
 * cases. A wrong number of rows fails as in rueda_allgather_into.
 */
RUEDA_API int rueda_gather_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                                 const rueda_options* options, rueda_handle** handle);
/**
 * Blocks. Writes `handle` only if everything succeeded; the caller must release it then. `handle` may be NULL if `out`
 * is given, and on ranks that are not the root.
 */
RUEDA_API int rueda_gather(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                           const rueda_options* options, rueda_handle** handle);

/**
 * The first splits[0] rows of the root's `in` go to rank 0, the next splits[1] rows to rank 1, and so on. `splits` is
 * as in rueda_alltoall_async. On other ranks, `in` gives only the dtype and the shape of a row. Its first dimension may
 * have any value there, its data may be NULL, and `splits` is ignored. `out` is memory for this rank's rows that does
 * not overlap `in`, or NULL. Then the result belongs to the handle (rueda_handle_output), and its shape gives the
 * number of rows.
 */
RUEDA_API int rueda_scatter_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                                  const rueda_tensor* out, int root, const rueda_options* options,
                                  rueda_handle** handle);
/**
 * Blocks. Writes `handle` only if everything succeeded; the caller must release it then. May be NULL if `out` is given.
 */
RUEDA_API int rueda_scatter(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                            const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle);

/**
 * `out` on the root becomes what rueda_allreduce would make of the ranks' `in`, bit for bit. On other ranks `out` is
 * ignored and may be NULL.
 */
RUEDA_API int rueda_reduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                                 const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_reduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                           const rueda_options* options);

/*
 * Messages from one rank to another. They are outside the order of all other operations: nothing is negotiated, and no
 * other rank takes part. A message goes to a receive of the other side with the same tag and process set. Messages with
 * the same sender, receiver, tag and set arrive in the order of the calls. Peers are named by their ranks in the job; a
 * rank may send to itself. Dtype and number of bytes must be the same on both sides, otherwise both sides return
 * RUEDA_MISMATCH. RUEDA_ABORTED means that the peer has died or shut down. A message has no name and needs no slot.
 *
 * A send ends when its message has been received. A send of up to 8 KiB may end earlier: when the message has arrived
 * and the receiver is blocked in Rueda, or polls, for something else. So both sides may send first. (If the later
 * receive does not fit such a message, the sender gets a line in its log instead of RUEDA_MISMATCH.)
 * docs/design/0010-send-receive.md explains this.
 */
#define RUEDA_ANY_PEER (-1)
RUEDA_API int rueda_send_async(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options,
                               rueda_handle** handle);
RUEDA_API int rueda_send(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options);
/**
 * `peer` may be RUEDA_ANY_PEER, which takes the first message with this tag. rueda_handle_sender returns its sender.
 */
RUEDA_API int rueda_receive_async(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options,
                                  rueda_handle** handle);
/** Blocks. `sender` may be NULL. */
RUEDA_API int rueda_receive(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options,
                            int32_t* sender);
/** Writes the sender of a completed rueda_receive_async. */
RUEDA_API int rueda_handle_sender(rueda_handle* handle, int32_t* sender);

/** Completes when every rank has called this function, or rueda_barrier. */
RUEDA_API int rueda_barrier_async(const rueda_options* options, rueda_handle** handle);
/** Returns when every rank has called it, or rueda_barrier_async. */
RUEDA_API int rueda_barrier(const rueda_options* options);

/** What averages divide by while a rank is in rueda_join. The joining rank chooses. */
enum rueda_join_average {
    RUEDA_JOIN_AVERAGE_ALL = 0,   /**< by all ranks, as if the joined rank gave zeros */
    RUEDA_JOIN_AVERAGE_ACTIVE = 1 /**< only by the ranks that gave something */
};

/**
 * For ranks that have fewer batches than others. This rank says that it has nothing more to announce, and blocks until
 * every rank of the job has said so. `last_rank` (may be NULL) receives the rank that joined last, the same on all
 * ranks. Meanwhile allreduces and barriers of the other ranks go on without this rank, in the world and in all process
 * sets of which it is a member. Operations that need data of every rank (broadcast, allgather, alltoall, reducescatter,
 * gather, scatter, reduce) fail with RUEDA_INVALID_ARGUMENT on all ranks. Operations that this rank announced before
 * are executed as usual. Operations that it starts meanwhile are refused. Returns RUEDA_ABORTED if a rank ends or shuts
 * down instead of joining. It works on one host and on several.
 */
RUEDA_API int rueda_join(int32_t average, int32_t* last_rank);
RUEDA_API int rueda_join_async(int32_t average, rueda_handle** handle);
/** Writes the rank that joined last, of a completed rueda_join_async. */
RUEDA_API int rueda_handle_joined_last(rueda_handle* handle, int32_t* last_rank);

/**
 * Blocks until the operation has completed, and returns how it ended. Returns RUEDA_TIMEOUT after `timeout_seconds`
 * (negative: never). The operation goes on then, and still uses its tensors. If the timeout is at least 0.2 seconds,
 * the error says which ranks have announced the operation and which have not. Several threads may call it, also
 * repeatedly.
 */
RUEDA_API int rueda_wait(rueda_handle* handle, double timeout_seconds);
/**
 * Writes what a pending operation waits for, in the words of rueda_wait's error: "rank 1 has not announced it, rank 0
 * has; …". The text ends with a zero byte and is cut to `size` bytes. It is empty if the operation has completed or
 * nothing is known. Does not block, and takes ten microseconds or more.
 */
RUEDA_API int rueda_handle_waits_for(rueda_handle* handle, char* text, size_t size);
/** Writes 1 if the operation has completed, with or without success, else 0. Does not block. */
RUEDA_API int rueda_poll(rueda_handle* handle, int* completed);
/**
 * The result of a completed operation that allocates its own: an allgather, an alltoall, a reducescatter, a scatter, or
 * on its root a gather, without an output. Data and shape are valid until the handle is released.
 */
RUEDA_API int rueda_handle_output(rueda_handle* handle, rueda_tensor* output);
/** The same for member `index` of a group, counted from 0. */
RUEDA_API int rueda_handle_output_of(rueda_handle* handle, size_t index, rueda_tensor* output);
/**
 * For a completed alltoall, and on the root of a gather: the number of rows that came from each rank. Valid until the
 * handle is released.
 */
RUEDA_API int rueda_handle_received_splits(rueda_handle* handle, const int64_t** splits, size_t* count);
/**
 * The function that rueda_handle_on_completion calls. It gets how the operation ended (enum rueda_status), the text of
 * the error ("" after success, valid during the call only), and the caller's pointer.
 */
typedef void (*rueda_callback)(int status, const char* message, void* data);
/**
 * Calls `callback` once, when the operation has completed. If it has completed already, the call happens on the calling
 * thread before this function returns. Otherwise it happens on a thread of Rueda. The callback must not delay this
 * thread: it may start operations but must not wait for any. A handle has at most one callback; a second one is refused
 * with RUEDA_INVALID_ARGUMENT. The handle may be released before the callback is called.
 */
RUEDA_API int rueda_handle_on_completion(rueda_handle* handle, rueda_callback callback, void* data);
/** Gives the handle back. A pending operation goes on, and still owns its input and output. NULL is allowed. */
RUEDA_API void rueda_handle_release(rueda_handle* handle);

/**
 * Allocates resident memory, zeroed and aligned to 64 bytes (from 64 KiB on, to a page). All ranks of the host reduce
 * tensors in it in place, without staging. Returns RUEDA_RESOURCE_EXHAUSTED, with the size asked for and the memory
 * available, before any memory limit is reached. The memory outlives rueda_shutdown.
 */
RUEDA_API int rueda_allocate(size_t bytes, void** memory);
/** Frees memory of rueda_allocate, which no pending operation may use any more. NULL is allowed. */
RUEDA_API int rueda_deallocate(void* memory);

/**
 * Ends the job because this rank cannot go on. Operations that are pending on any rank fail with RUEDA_ABORTED and
 * `reason`, and so does every later call. The process goes on; it should end with an exit status other than 0. (A
 * process that ends with such a status without rueda_shutdown does the same by itself.) Does not wait. May be called on
 * any thread, also in a completion callback. After an abort it changes nothing.
 */
RUEDA_API int rueda_abort(const char* reason);

/**
 * Says that this rank begins training step `step`, counted from 0 through all restarts. ruedarun --max-restarts then
 * reports how many steps were repeated. Takes a few nanoseconds; without ruedarun it does nothing. Every rank may call
 * it, or only one. Returns RUEDA_INVALID_ARGUMENT for a negative number.
 */
RUEDA_API int rueda_begin_step(int64_t step);

/**
 * Says what this rank is doing while it runs no collectives ("saving checkpoint"). Stall reports show it. Calls nest.
 * At most 127 bytes are kept.
 */
RUEDA_API int rueda_busy_begin(const char* what);
RUEDA_API int rueda_busy_end(void);

/**
 * The signal with which Rueda takes the stack of this process's main thread for stall reports (RUEDA_STACK_SIGNAL).
 * 0: stacks are switched off, the program handles that signal itself, or this process is not in a job. Does not wait.
 */
RUEDA_API int rueda_stack_signal(int32_t* number);
/**
 * For the binding of an interpreter, so that stall reports also show the interpreter's frames. Call it right after
 * rueda_init and after installing a handler for rueda_stack_signal() without SA_SIGINFO, as Python's
 * faulthandler.register does. That handler writes the traceback of the interrupted thread to the file `descriptor`.
 * Rueda then installs its own handler again, which calls that one, and reads the file and empties it for each stack.
 * The file allows ftruncate and pread; the descriptor and the handler stay valid until this function is called with -1,
 * which ends the calls. Later calls, in later jobs, need no new handler. Does not wait. Returns RUEDA_UNSUPPORTED if
 * there is no stack signal, or no such handler.
 */
RUEDA_API int rueda_adopt_traceback_handler(int32_t descriptor);

#ifdef __cplusplus
}
#endif

#endif /* RUEDA_RUEDA_H */
