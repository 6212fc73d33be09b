/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/**
 * @file
 * The C interface of Rueda: what every other language binds to.
 *
 * Every function returns a status code (0 is success) unless said otherwise; the message of the last failure on the
 * calling thread is rueda_last_error(). Structs that callers fill begin with their own size, so that a library of the
 * same major version understands callers built against an older header.
 *
 * Threads: every function may be called from any thread at any time. Names: at most RUEDA_MAX_NAME bytes of UTF-8. One
 * operation per name may be pending on a rank; a second one is refused with RUEDA_DUPLICATE_NAME.
 *
 * Memory: the input and output of an operation belong to Rueda from the call until the operation has completed
 * (rueda_wait or a blocking form returns, or rueda_poll says so); the output's contents are undefined after a failure
 * that came once execution had begun.
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
    RUEDA_ADASUM = 2, /* of floating-point tensors, by allreduce */
    RUEDA_MIN = 3,
    RUEDA_MAX = 4,
    RUEDA_PRODUCT = 5
};

/** What values become while they travel between hosts; the same numbers as rueda::Compression. docs/compression.md. */
enum rueda_compression {
    RUEDA_COMPRESSION_NONE = 0, /* as RUEDA_COMPRESSION of the environment says; without it, as they are */
    RUEDA_COMPRESSION_FP16 = 1, /* float32 and float64 as float16 */
    RUEDA_COMPRESSION_BF16 = 2  /* float32 and float64 as bfloat16 */
};

/** A typed, shaped view of the caller's memory: dense, row-major. Never owned by Rueda. */
typedef struct rueda_tensor {
    void* data;           /**< may be NULL where the shape has no element */
    const int64_t* shape; /**< `ndim` extents; read during the call only */
    int32_t ndim;         /**< 0 … RUEDA_MAX_DIMENSIONS; 0 is a scalar */
    int32_t dtype;        /**< enum rueda_dtype */
} rueda_tensor;

/** Keeps the look-up of a name, so that repeated operations on it cost no hash of the name. */
typedef struct rueda_slot rueda_slot;

/** The caller's end of an operation under way. */
typedef struct rueda_handle rueda_handle;

/** Options of an operation. Start from RUEDA_OPTIONS_INIT. */
typedef struct rueda_options {
    size_t struct_size;
    double prescale;         /**< each rank's input is multiplied by this first; likewise */
    double postscale;        /**< the result is multiplied by this last; likewise */
    rueda_slot* slot;        /**< where set, it stands for the name, and the `name` argument is ignored */
    int32_t reduce_op;       /**< enum rueda_reduce_op; allreduce, reducescatter and reduce */
    int32_t process_set;     /**< a number that rueda_process_set_add gave; 0 is the world */
    int32_t compression;     /**< enum rueda_compression; allreduce of float32 and float64, also grouped; where
                                  there is none, RUEDA_UNSUPPORTED */
    const char* source_file; /**< where the caller stands, for errors and stall reports with RUEDA_CALL_SITES=1; NULL:
                                  not known. Kept, not copied: a literal, or memory that is never freed */
    int32_t source_line;     /**< likewise; 0 where not known */
    int32_t reserved;        /**< 0 */
} rueda_options;

#define RUEDA_OPTIONS_INIT \
    { sizeof(rueda_options), 1.0, 1.0, NULL, RUEDA_AVERAGE, 0, RUEDA_COMPRESSION_NONE, NULL, 0, 0 }

/**
 * Whether this job asked for call sites (RUEDA_CALL_SITES=1): 1, or 0, also where Rueda is not initialised. For callers
 * to whom finding out source_file and source_line is dear; given without it, they are not looked at.
 */
RUEDA_API int rueda_wants_call_sites(void);
/**
 * Where the caller stands, for the next function of this thread that has no rueda_options to say it with, which is
 * rueda_join or rueda_join_async. As rueda_options::source_file and source_line.
 */
RUEDA_API void rueda_set_call_site(const char* source_file, int32_t source_line);

/** The message of the last failure on this thread; "" when there was none. Valid until the thread's next call. */
RUEDA_API const char* rueda_last_error(void);
/** "0.1.0" */
RUEDA_API const char* rueda_version(void);

/**
 * Joins the other processes of the job. Collective. With no launcher around, the job is this one process. Calling it
 * again while initialised does nothing. After rueda_shutdown it may be called again, unless the job was aborted.
 */
RUEDA_API int rueda_init(void);
/**
 * Joins the processes that call it with the same list: a job of `count` ranks of the job that was launched, in any
 * order; afterwards rank and size are those among them, in ascending order. Collective among them; the others do not
 * call it, or make a job of their own. RUEDA_INVALID_ARGUMENT where this process is not in the list, or the list names
 * a rank twice or one that does not exist.
 */
RUEDA_API int rueda_init_ranks(const int32_t* ranks, size_t count);
/**
 * Joins the processes of an MPI communicator, which is duplicated; rank and size are its own. MPI must be initialised
 * and stays the caller's. `communicator` points to the MPI_Comm (whatever type that is in this MPI), whose size in
 * bytes is `communicator_size`. RUEDA_UNSUPPORTED where this process has no MPI. Calling it again while initialised,
 * with a communicator of the same processes in the same order, does nothing; RUEDA_INVALID_ARGUMENT for another one.
 * Only MPI can compare communicators, so the second call is RUEDA_UNSUPPORTED where MPI gives less than
 * MPI_THREAD_MULTIPLE, as Rueda's own thread may be in MPI just then; and RUEDA_ABORTED where the job was aborted.
 */
RUEDA_API int rueda_init_communicator(const void* communicator, size_t communicator_size);

/** Ranks of a job. */
typedef struct rueda_rank_list {
    const int32_t* ranks;
    size_t count;
} rueda_rank_list;

/** What rueda_init_with takes. Start from RUEDA_INIT_OPTIONS_INIT. */
typedef struct rueda_init_options {
    size_t struct_size;
    const int32_t* ranks; /**< the job's, as of rueda_init_ranks; NULL: all that were launched */
    size_t rank_count;
    const void* communicator; /**< as of rueda_init_communicator; NULL: none. Not together with `ranks` */
    size_t communicator_size;
    const rueda_rank_list* process_sets; /**< made at once, in this order; likewise by rueda_process_set_add */
    size_t process_set_count;
    int32_t* process_set_ids; /**< where their numbers go, as many as sets; NULL: they are not asked for */
} rueda_init_options;

#define RUEDA_INIT_OPTIONS_INIT \
    { sizeof(rueda_init_options), NULL, 0, NULL, 0, NULL, 0, NULL }

/**
 * Joins the job as the functions above do (`options` NULL: as rueda_init), and makes process sets at once. All ranks
 * give the same sets in the same order: RUEDA_MISMATCH on all of them otherwise, also where some give none, and
 * RUEDA_INVALID_ARGUMENT for sets that cannot be made; nothing is initialised then. Called again while initialised it
 * makes nothing: it finds the numbers of sets that there are, and refuses others with RUEDA_INVALID_ARGUMENT.
 */
RUEDA_API int rueda_init_with(const rueda_init_options* options);
/**
 * Leaves the job. What is still pending on this rank fails; on other ranks, whatever needs this rank fails with a
 * message that says so. Returns when every rank has called it (or a rank has died). Without rueda_init, does nothing.
 * Ranks that do not call it are reported as stalled tensors are, and RUEDA_STALL_SHUTDOWN_TIME_SECONDS ends the wait.
 * If the job was aborted before every rank had called it, and no call on this rank has told the program so, it returns
 * RUEDA_ABORTED (or the code that the job was aborted with) and the reason. This rank has left the job then, too.
 */
RUEDA_API int rueda_shutdown(void);
/**
 * The same, waiting for other ranks for at most `timeout_seconds` (negative: without end). RUEDA_TIMEOUT: not all of
 * them have called it in that time. Then this rank can start nothing any more, but it still serves the others and is
 * initialised. Calling rueda_shutdown or this function again goes on waiting; rueda_abort ends the job.
 */
RUEDA_API int rueda_shutdown_within(double timeout_seconds);
/** 1 between rueda_init and rueda_shutdown. */
RUEDA_API int rueda_initialized(void);

/** Each writes its number; RUEDA_NOT_INITIALIZED before rueda_init. */
RUEDA_API int rueda_rank(int* value);
RUEDA_API int rueda_size(int* value);
RUEDA_API int rueda_local_rank(int* value);
RUEDA_API int rueda_local_size(int* value);
RUEDA_API int rueda_cross_rank(int* value);
RUEDA_API int rueda_cross_size(int* value);
/** 1 where every host has as many ranks, 0 where some have more than others. Asks nobody. */
RUEDA_API int rueda_is_homogeneous(int* value);

/*
 * Process sets: subsets of the ranks that do operations among themselves, each with its own order, so that none waits
 * for another. In an operation of a set, "the ranks" are its members in ascending order, everything that is "by rank"
 * is by position among them, and a root is still named by its rank in the job.
 */

/**
 * Makes a process set of `count` ranks, in any order, and writes its number, which is the same on all ranks.
 * Collective: every rank of the job calls it, members or not, with the same ranks. RUEDA_MISMATCH where they differ;
 * RUEDA_INVALID_ARGUMENT for a rank that does not exist or is named twice, for no ranks, and where these ranks are a
 * set already: on all ranks alike, and nothing has changed then.
 */
RUEDA_API int rueda_process_set_add(const int32_t* ranks, size_t count, int32_t* process_set);
/**
 * Removes a set. Collective, like its making. What is pending in it fails. The number is not given again, nor in a
 * later job of these processes.
 */
RUEDA_API int rueda_process_set_remove(int32_t process_set);
/**
 * Makes a process set that concerns its members alone: they call it with the same ranks, in any order, and other ranks
 * do not. There may be several such sets of the same ranks, of all ranks as well: each has its own order. Its number is
 * the same on its members, and means nothing on other ranks. RUEDA_MISMATCH where the members' ranks differ, as far as
 * they meet; RUEDA_INVALID_ARGUMENT, at once, for a rank that does not exist, is named twice, or where this rank is
 * none of them.
 */
RUEDA_API int rueda_process_set_add_among(const int32_t* ranks, size_t count, int32_t* process_set);
/**
 * This rank leaves a set that rueda_process_set_add_among made. Waits for nobody. What is pending here fails, but for
 * messages: those that the other side still takes up are delivered, the others fail some time after all have left. What
 * needs this rank fails on the members that are still in the set. The memory is given back when all have left, at the
 * next call of this function or of rueda_process_set_add_among, or when the job ends.
 */
RUEDA_API int rueda_process_set_leave(int32_t process_set);
/** Position of this rank in the set; RUEDA_INVALID_ARGUMENT where it is not a member. */
RUEDA_API int rueda_process_set_rank(int32_t process_set, int* value);
RUEDA_API int rueda_process_set_size(int32_t process_set, int* value);
/** 1 if this rank is a member. */
RUEDA_API int rueda_process_set_included(int32_t process_set, int* value);
/** Writes up to `capacity` of the set's ranks, ascending, and to `count` how many there are. */
RUEDA_API int rueda_process_set_ranks(int32_t process_set, int32_t* ranks, size_t capacity, size_t* count);
/** Likewise the numbers of all sets that this rank knows of, the world's 0 first. */
RUEDA_API int rueda_process_set_ids(int32_t* ids, size_t capacity, size_t* count);

RUEDA_API int rueda_slot_create(const char* name, rueda_slot** slot);
/** A slot for operations of a process set; rueda_slot_create makes those of the world. */
RUEDA_API int rueda_slot_create_in(const char* name, int32_t process_set, rueda_slot** slot);
/** The slot must not be in use by a pending operation of another thread. NULL is allowed. */
RUEDA_API void rueda_slot_destroy(rueda_slot* slot);

/*
 * Operations. `name` NULL or "" is an unnamed operation: those match between ranks by the order of the calls.
 * `options` NULL means RUEDA_OPTIONS_INIT. `out` may be the same memory as `in`, or not overlap it.
 * The _async forms return at once with a handle that must be given to rueda_handle_release, after or without a wait;
 * the other forms block.
 */

/** Element i of `out` becomes the reduction, in rank order, of element i of `in` over the ranks. Same shape and dtype
 * on every rank. Integer sums and products wrap; integer averages divide the exact sum and truncate toward zero. 16-bit
 * floats are accumulated in float32 and rounded once. Of bool there is min, max and product, without factors: the
 * others are refused with RUEDA_UNSUPPORTED. */
RUEDA_API int rueda_allreduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                    const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_allreduce(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                              const rueda_options* options);

/*
 * Groups: `count` operations with one handle, named `<name>_<i>of<count>`, i from 1. Either all are started or none.
 * The handle's error is that of the first member that failed. RUEDA_MISMATCH, on all ranks, where the ranks have
 * different numbers of members. The name is the group's until its last member has ended: RUEDA_DUPLICATE_NAME, with
 * nothing started, for another group or operation by it, and for a group while an operation of its name is pending.
 */

/** An allreduce of each. `in` and `out` are `count` tensors. */
RUEDA_API int rueda_grouped_allreduce_async(const char* name, size_t count, const rueda_tensor* in,
                                            const rueda_tensor* out, const rueda_options* options,
                                            rueda_handle** handle);
RUEDA_API int rueda_grouped_allreduce(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                      const rueda_options* options);

/** An allgather of each. The results belong to the handle: rueda_handle_output_of. */
RUEDA_API int rueda_grouped_allgather_async(const char* name, size_t count, const rueda_tensor* in,
                                            const rueda_options* options, rueda_handle** handle);
/** Blocks. `handle` is written only where all went well, and must be released. */
RUEDA_API int rueda_grouped_allgather(const char* name, size_t count, const rueda_tensor* in,
                                      const rueda_options* options, rueda_handle** handle);

/** A reducescatter of each. With `out` NULL the results belong to the handle: rueda_handle_output_of. */
RUEDA_API int rueda_grouped_reducescatter_async(const char* name, size_t count, const rueda_tensor* in,
                                                const rueda_tensor* out, const rueda_options* options,
                                                rueda_handle** handle);
/** `out` must not be NULL here. */
RUEDA_API int rueda_grouped_reducescatter(const char* name, size_t count, const rueda_tensor* in,
                                          const rueda_tensor* out, const rueda_options* options);

/** `out` on every rank becomes `in` of rank `root`. `in` is read on the root only, but its shape and dtype everywhere.
 */
RUEDA_API int rueda_broadcast_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                                    const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_broadcast(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                              const rueda_options* options);

/** The ranks' tensors one after the other along the first dimension, which may differ between ranks and be 0; the
 * others must agree. The result belongs to the handle: rueda_handle_output. */
RUEDA_API int rueda_allgather_async(const char* name, const rueda_tensor* in, const rueda_options* options,
                                    rueda_handle** handle);
/** Blocks. `handle` is written only where all went well, and must be released. */
RUEDA_API int rueda_allgather(const char* name, const rueda_tensor* in, const rueda_options* options,
                              rueda_handle** handle);
/** The same into memory of the caller, which saves the allocation of the result. `out` has the dtype of `in` and, but
 * for the first dimension, its shape; its first dimension is the sum of all ranks'. `in` is the place of this rank's
 * rows in `out` or does not overlap it. Some ranks may give an output where others leave it to Rueda. What only the
 * other ranks' rows show (another sum, another place) fails with RUEDA_INVALID_ARGUMENT when all ranks have come, on
 * this rank alone: the others get their results, and `out` is as it was. */
RUEDA_API int rueda_allgather_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                         const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_allgather_into(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                   const rueda_options* options);

/** The reduction of the ranks' tensors, as rueda_allreduce makes it, divided along the first dimension: every rank gets
 * its rows. Same shape and dtype on every rank. Where the rows cannot be shared evenly, the first ranks get one more;
 * there may be none. `out` has the shape of this rank's rows, and is their place in `in` or does not overlap it. With
 * `out` NULL the result belongs to the handle: rueda_handle_output. */
RUEDA_API int rueda_reducescatter_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                        const rueda_options* options, rueda_handle** handle);
/** `out` must not be NULL here. */
RUEDA_API int rueda_reducescatter(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                  const rueda_options* options);

/** The first splits[0] rows of `in` go to rank 0, the next splits[1] rows to rank 1, and so on; what comes from the
 * ranks lies in the result in their order. `splits` are `split_count` numbers, one for each rank, none negative, whose
 * sum is at most the first dimension: rows behind it go to nobody. They are read during the call only, and may be
 * others on every rank and at every step.
 * NULL: all ranks get the same number of rows, and the first dimension must be divisible by the number of ranks. The
 * other dimensions and the dtype must agree. The result belongs to the handle: rueda_handle_output, and
 * rueda_handle_received_splits. */
RUEDA_API int rueda_alltoall_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                                   const rueda_options* options, rueda_handle** handle);
/** Blocks. `handle` is written only where all went well, and must be released. */
RUEDA_API int rueda_alltoall(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                             const rueda_options* options, rueda_handle** handle);
/** The same into memory of the caller, which saves the allocation of the result. `out` has the dtype of `in` and, but
 * for the first dimension, its shape; its first dimension is the number of rows that come from all ranks; it does not
 * overlap `in`. Another number of rows fails as that of rueda_allgather_into does. rueda_handle_received_splits works
 * with the _async form's handle. */
RUEDA_API int rueda_alltoall_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                        const int64_t* splits, size_t split_count, const rueda_options* options,
                                        rueda_handle** handle);
RUEDA_API int rueda_alltoall_into(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                  const int64_t* splits, size_t split_count, const rueda_options* options);

/** The sum or the average over the ranks of tensors of which each rank has some rows, or elements. `indices`, of a
 * dtype of integers, says which: of shape [n], places along the first dimension of the whole; of shape [n, k], places
 * along its first k; in any order, also repeatedly; n may differ between ranks and be 0. `values` are what is there: of
 * shape [n, …], the rest being `shape` after those dimensions, the same on every rank; not of bool. `shape`, of `ndim`
 * extents, is that of the whole, which nobody makes. `options` say RUEDA_SUM or RUEDA_AVERAGE, without factors; the
 * name is that of a group. The results belong to the handle: rueda_handle_output_of, 0 for the indices (int64, of k as
 * given), each place that some rank has once, ascending, and 1 for the values. What several ranks have is added in the
 * order of the ranks, 16-bit floats in float32; averages of integers are those of the exact sum, truncated toward zero.
 * Whoever asks for an output first makes the sums. RUEDA_MISMATCH, on all ranks, where shape or reduction differ. */
RUEDA_API int rueda_sparse_allreduce_async(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                                           const int64_t* shape, int32_t ndim, const rueda_options* options,
                                           rueda_handle** handle);
/** Blocks. `handle` is written only where all went well, and must be released. */
RUEDA_API int rueda_sparse_allreduce(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                                     const int64_t* shape, int32_t ndim, const rueda_options* options,
                                     rueda_handle** handle);

/*
 * Operations with a root, which is named by its rank in the job and is a member of the set. One that is no member fails
 * with RUEDA_INVALID_ARGUMENT on all ranks, when all have called it: a call that waits returns it, one that does not
 * (_async) starts, and its handle has it. They are no barriers: a rank may be done before others have come.
 */

/** On the root, the ranks' tensors one after the other along the first dimension, which may differ between ranks and be
 * 0; the others must agree. `out` is looked at on the root only: memory for all rows, which does not overlap `in`, or
 * NULL, and the result belongs to the handle there: rueda_handle_output, and rueda_handle_received_splits in both
 * cases. Another number of rows fails as that of rueda_allgather_into does. */
RUEDA_API int rueda_gather_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                                 const rueda_options* options, rueda_handle** handle);
/** Blocks. `handle` is written only where all went well, and must be released. It may be NULL where `out` is given, and
 * on ranks that are not the root. */
RUEDA_API int rueda_gather(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                           const rueda_options* options, rueda_handle** handle);

/** The first splits[0] rows of the root's `in` go to rank 0, the next splits[1] rows to rank 1, and so on; `splits` as
 * of rueda_alltoall_async. On other ranks `in` says the dtype and the shape of a row only, its first dimension may be
 * any, its data NULL, and `splits` is not looked at. `out` is memory for this rank's rows, which does not overlap `in`,
 * or NULL, and the result, whose shape says how many rows there are, belongs to the handle: rueda_handle_output. */
RUEDA_API int rueda_scatter_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                                  const rueda_tensor* out, int root, const rueda_options* options,
                                  rueda_handle** handle);
/** Blocks. `handle` is written only where all went well, and must be released. It may be NULL where `out` is given. */
RUEDA_API int rueda_scatter(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                            const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle);

/** `out` on the root becomes what rueda_allreduce would make of the ranks' `in`, bit for bit. It is not looked at on
 * other ranks, and may be NULL there. */
RUEDA_API int rueda_reduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                                 const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_reduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                           const rueda_options* options);

/*
 * From one rank to another, outside the order of everything else: nothing is negotiated, and no other rank takes part.
 * A message goes to the receive of the other side with the same tag and process set; those with the same sender,
 * receiver, tag and set go in the order of the calls. Peers are named by their ranks in the job, the calling rank among
 * them. The receiver's dtype and number of bytes must be the sender's: RUEDA_MISMATCH on both sides where they are not.
 * RUEDA_ABORTED where the peer has died or shut down. No slot: a message has no name.
 *
 * A send ends when its message has been received; one of up to 8 KiB also when it lies with the receiver, and that one
 * is blocked in Rueda, or polls, for something else: so both sides may send first. (Should it not fit the receive that
 * comes later, the sender gets a line in its log instead of RUEDA_MISMATCH.) docs/design/0010-send-receive.md.
 */
#define RUEDA_ANY_PEER (-1)
RUEDA_API int rueda_send_async(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options,
                               rueda_handle** handle);
RUEDA_API int rueda_send(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options);
/** `peer` may be RUEDA_ANY_PEER: the first message with that tag. rueda_handle_sender says whose it was. */
RUEDA_API int rueda_receive_async(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options,
                                  rueda_handle** handle);
/** Blocks. `sender` may be NULL. */
RUEDA_API int rueda_receive(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options,
                            int32_t* sender);
/** Of a completed rueda_receive_async. */
RUEDA_API int rueda_handle_sender(rueda_handle* handle, int32_t* sender);

/** Completes when every rank has called it, or the blocking form. */
RUEDA_API int rueda_barrier_async(const rueda_options* options, rueda_handle** handle);
/** Returns when every rank has called it. */
RUEDA_API int rueda_barrier(const rueda_options* options);

/** What averages divide by while the rank that says it is in rueda_join. */
enum rueda_join_average {
    RUEDA_JOIN_AVERAGE_ALL = 0,   /**< by all ranks, as if it gave zeros */
    RUEDA_JOIN_AVERAGE_ACTIVE = 1 /**< not by it: only by those who gave something */
};

/**
 * For ranks that have fewer batches than others: says that this rank has nothing more to announce, and blocks until
 * every rank of the job has said so; writes the rank that did so last, the same on all, to `last_rank` (may be NULL).
 * Meanwhile the others' allreduces and barriers go on without it, in the world and in all process sets that it is in;
 * what needs something of every rank (broadcast, allgather, alltoall, reducescatter, gather, scatter, reduce) fails
 * with RUEDA_INVALID_ARGUMENT on all. What this rank has announced before is done as ever; what it starts meanwhile is
 * refused. RUEDA_ABORTED where a rank ends or shuts down instead of joining. On one host and on several.
 */
RUEDA_API int rueda_join(int32_t average, int32_t* last_rank);
RUEDA_API int rueda_join_async(int32_t average, rueda_handle** handle);
/** Of a completed rueda_join_async. */
RUEDA_API int rueda_handle_joined_last(rueda_handle* handle, int32_t* last_rank);

/** Blocks until the operation has completed, and returns how it ended. RUEDA_TIMEOUT after `timeout_seconds` (negative:
 *  never); the operation goes on then, and still uses its tensors. From 0.2 seconds on the error says which ranks have
 *  announced the operation and which have not. May be called by several threads and repeatedly. */
RUEDA_API int rueda_wait(rueda_handle* handle, double timeout_seconds);
/** Writes what a pending operation waits for, as the error of rueda_wait says it: "rank 1 has not announced it, rank 0
 * has; …". The text ends with a zero byte, and is cut where `size` bytes have no room for all of it; it is empty where
 * the operation has completed or nothing is known. Does not block; it takes some ten microseconds and more. */
RUEDA_API int rueda_handle_waits_for(rueda_handle* handle, char* text, size_t size);
/** Writes 1 if the operation has completed (well or not), else 0. Does not block. */
RUEDA_API int rueda_poll(rueda_handle* handle, int* completed);
/** The result of a completed operation that makes its own: an allgather, an alltoall, a reducescatter, a scatter, and
 * on its root a gather, without an output. Data and shape are valid until the handle is released. */
RUEDA_API int rueda_handle_output(rueda_handle* handle, rueda_tensor* output);
/** The same of a group's member `index`, from 0. */
RUEDA_API int rueda_handle_output_of(rueda_handle* handle, size_t index, rueda_tensor* output);
/** Of a completed alltoall, and on its root of a gather: how many rows came from each rank. Valid until the handle is
 * released. */
RUEDA_API int rueda_handle_received_splits(rueda_handle* handle, const int64_t** splits, size_t* count);
/** What rueda_handle_on_completion calls: how the operation ended (enum rueda_status), the error's text ("" after
 * success, valid during the call only), and what the caller gave with it. */
typedef void (*rueda_callback)(int status, const char* message, void* data);
/**
 * Calls `callback` once, when the operation has completed: on the calling thread before this returns where it has
 * completed already, otherwise on a thread of Rueda, which must not be held up: it may start other operations, and must
 * not wait for any. One callback a handle; a second is refused with RUEDA_INVALID_ARGUMENT. The handle may be released
 * before the callback comes.
 */
RUEDA_API int rueda_handle_on_completion(rueda_handle* handle, rueda_callback callback, void* data);
/** Gives the handle back. A pending operation goes on, and still owns its input and output. NULL is allowed. */
RUEDA_API void rueda_handle_release(rueda_handle* handle);

/** Resident memory: tensors that lie in it are reduced in place by all ranks of the host, without staging. Aligned to
 * 64 bytes (to a page from 64 KiB on), zeroed. RUEDA_RESOURCE_EXHAUSTED, with what was asked and what there is, before
 * any limit of memory is reached. Outlives rueda_shutdown. */
RUEDA_API int rueda_allocate(size_t bytes, void** memory);
/** Memory from rueda_allocate, no longer used by a pending operation. NULL is allowed. */
RUEDA_API int rueda_deallocate(void* memory);

/** Ends the job, as this rank cannot go on: what is pending on any rank fails with RUEDA_ABORTED and `reason`, and so
 * does every later call. The process goes on; it should end with an exit status that is not 0. One that ends with such
 * a status without rueda_shutdown() does the same by itself. Waits for nobody; any thread, also in a completion
 * callback. After an abort it changes nothing. */
RUEDA_API int rueda_abort(const char* reason);

/** Says that this rank begins training step `step`, counted from 0 on through restarts: ruedarun --max-restarts then
 * tells how many steps were done again. A few nanoseconds; without ruedarun it does nothing. Every rank may say it, or
 * one of them. RUEDA_INVALID_ARGUMENT for a negative number. */
RUEDA_API int rueda_begin_step(int64_t step);

/** Says what this rank is doing while it does no collectives ("saving checkpoint"); shown in stall reports. Nests. At
 * most 127 bytes are kept. */
RUEDA_API int rueda_busy_begin(const char* what);
RUEDA_API int rueda_busy_end(void);

#ifdef __cplusplus
}
#endif

#endif /* RUEDA_RUEDA_H */
