/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/**
 * @file
 * The C interface of Rueda. The interfaces for all other languages use it.
 *
 * Every function returns a status code (0 is success), unless its comment says otherwise. rueda_last_error() returns
 * the message of the last failure on the calling thread. Structs that callers fill begin with their own size. The
 * library can therefore work with callers that were built with an older header of the same major version.
 *
 * "Collective" means that every rank of the job must call the function. Threads: any thread may call every function at
 * any time. Names have at most RUEDA_MAX_NAME bytes of UTF-8. A rank may have only one pending operation with a given
 * name. If a call would start a second one, it returns RUEDA_DUPLICATE_NAME.
 *
 * Memory: Rueda uses the input and the output of an operation from the call until the operation has completed. The
 * operation has completed when rueda_wait or a blocking function returns, or when rueda_poll writes 1. If an operation
 * fails after its execution began, the contents of the output are undefined.
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

/** The codes that functions return. The numbers are the same as in rueda::ErrorCode. */
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

/** Element types. The numbers are the same as in rueda::DType. */
enum rueda_dtype {
    RUEDA_UINT8 = 0,
    RUEDA_INT8 = 1,
    RUEDA_INT32 = 2,
    RUEDA_INT64 = 3,
    RUEDA_FLOAT16 = 4,
    RUEDA_BFLOAT16 = 5,
    RUEDA_FLOAT32 = 6,
    RUEDA_FLOAT64 = 7,
    RUEDA_BOOL = 8, /* one byte; 0 is false. Only min, max and product (without factors) can reduce it; the results
                       are 0 or 1 */
    RUEDA_INT16 = 9,
    RUEDA_UINT16 = 10,
    RUEDA_UINT32 = 11,
    RUEDA_UINT64 = 12,
    RUEDA_FLOAT8_E4M3FN = 13, /* the largest value is 448; there is no infinity, and sums that overflow become NaN */
    RUEDA_FLOAT8_E5M2 = 14    /* the largest finite value is 57344; sums that overflow become infinite */
};

/** Reductions. The numbers are the same as in rueda::ReduceOp and as Horovod's constants. */
enum rueda_reduce_op {
    RUEDA_AVERAGE = 0,
    RUEDA_SUM = 1,
    RUEDA_ADASUM = 2, /* only for an allreduce of floating-point tensors whose elements have 16 bits or more */
    RUEDA_MIN = 3,
    RUEDA_MAX = 4,
    RUEDA_PRODUCT = 5
};

/**
 * The format in which values travel between hosts (docs/compression.md). The numbers are the same as in
 * rueda::Compression.
 */
enum rueda_compression {
    RUEDA_COMPRESSION_NONE = 0, /* the format of the setting RUEDA_COMPRESSION; without this setting, values are
                                   sent unchanged */
    RUEDA_COMPRESSION_FP16 = 1, /* float32 and float64 as float16 */
    RUEDA_COMPRESSION_BF16 = 2  /* float32 and float64 as bfloat16 */
};

/**
 * A tensor: the caller's memory with a dtype and a shape. The memory is dense and row-major, and Rueda never owns it.
 */
typedef struct rueda_tensor {
    void* data;           /**< may be NULL if the shape has no elements */
    const int64_t* shape; /**< `ndim` extents; Rueda reads them only during the call */
    int32_t ndim;         /**< the number of dimensions, 0 … RUEDA_MAX_DIMENSIONS; 0 means a scalar */
    int32_t dtype;        /**< enum rueda_dtype */
} rueda_tensor;

/** The memory in which tensors are. The numbers are the same as in rueda::DeviceType. */
enum rueda_device_type {
    RUEDA_CPU = 0,
    RUEDA_CUDA = 1 /* the memory of an NVIDIA GPU (docs/gpu.md) */
};

/**
 * A stream of the caller. It belongs to the device that has the tensors of an operation. The operation's work on the
 * device waits for all work that the caller has put into the stream before the call. The host does not wait. A call
 * during the capture of a CUDA graph returns RUEDA_UNSUPPORTED, because a replay of the graph would bypass the order of
 * the operations.
 */
typedef struct rueda_device_stream {
    int32_t type;  /**< enum rueda_device_type */
    int32_t index; /**< the device's number among those that the process sees, as for cudaSetDevice; 0 for the CPU */
    void* stream;  /**< a cudaStream_t; NULL is the default stream. Must be NULL for the CPU */
} rueda_device_stream;

/** A slot keeps what Rueda knows about a tensor's name, so that operations need not look the name up again. */
typedef struct rueda_slot rueda_slot;

/** The caller's reference to an operation that was started. */
typedef struct rueda_handle rueda_handle;

/** Options of an operation. Initialise them with RUEDA_OPTIONS_INIT. */
typedef struct rueda_options {
    size_t struct_size;
    double prescale;   /**< factor for each rank's input, before the reduction; used by allreduce, reducescatter and
                          reduce */
    double postscale;  /**< factor for the result after the reduction; used by allreduce, reducescatter and
                            reduce */
    rueda_slot* slot;  /**< if not NULL, the operation has the name of this slot, and the argument `name` is not used */
    int32_t reduce_op; /**< enum rueda_reduce_op; used by allreduce, reducescatter and reduce */
    int32_t process_set;     /**< a number from rueda_process_set_add; 0 is the world (all ranks) */
    int32_t compression;     /**< enum rueda_compression; for an allreduce or grouped allreduce of float32 or float64;
                                other operations return RUEDA_UNSUPPORTED */
    const char* source_file; /**< the source file of the call, for errors and stall reports with RUEDA_CALL_SITES=1;
                                NULL if not known. Rueda keeps the pointer and does not copy the text, so it must be a
                                literal, or memory that is never freed */
    int32_t source_line;     /**< the line in source_file; 0 if not known */
    int32_t reserved;        /**< must be 0 */
    const rueda_device_stream* device; /**< the device of all tensors of the call, and the caller's stream. NULL if the
                                          tensors are in the CPU's memory. On a rank, all operations of a process set
                                          must use the same device. The caller must provide all outputs on a device */
    double wait_seconds; /**< the longest time that an `_async` function of one tensor, or rueda_barrier_async, waits
                            for its operation, like rueda_wait. The function returns the handle when the operation has
                            completed or the time has passed. This is faster than rueda_wait in a second call. 0 (the
                            default) or less: the function does not wait. More than 0 is not allowed in a callback.
                            Blocking functions and the functions of groups, sparse tensors and messages ignore this
                            option */
} rueda_options;

#define RUEDA_OPTIONS_INIT \
    { sizeof(rueda_options), 1.0, 1.0, NULL, RUEDA_AVERAGE, 0, RUEDA_COMPRESSION_NONE, NULL, 0, 0, NULL, 0.0 }

/**
 * Returns 1 if the setting RUEDA_CALL_SITES=1 is used. Returns 0 if it is not, or if Rueda is not initialised. If
 * source_file and source_line are expensive to find out, call this function first: without the setting, Rueda ignores
 * them.
 */
RUEDA_API int rueda_wants_call_sites(void);
/**
 * Sets the call site for the next call of rueda_join or rueda_join_async on this thread. These functions have no
 * rueda_options. The arguments have the same meaning as rueda_options::source_file and source_line.
 */
RUEDA_API void rueda_set_call_site(const char* source_file, int32_t source_line);

/**
 * Returns the message of the last failure on this thread, or "" if there was none. The text is valid until the thread's
 * next call.
 */
RUEDA_API const char* rueda_last_error(void);
/** Returns the version, for example "0.1.0". */
RUEDA_API const char* rueda_version(void);

/**
 * Joins the other processes of the job. Collective. Without a launcher, the job is this process alone. If Rueda is
 * already initialised, rueda_init does nothing. It may be called again after rueda_shutdown, unless the job was
 * aborted.
 */
RUEDA_API int rueda_init(void);
/**
 * Forms a job of some of the launched ranks. `count` is their number. Exactly these ranks must call
 * rueda_init_ranks, all with the same list. Other ranks may form another job. The list may have any order; in the new
 * job, the ranks are numbered in ascending order of their old numbers. Returns RUEDA_INVALID_ARGUMENT if this process
 * is not in the list, or if the list names a rank twice or a rank that does not exist.
 */
RUEDA_API int rueda_init_ranks(const int32_t* ranks, size_t count);
/**
 * Forms a job of the processes of an MPI communicator, which Rueda duplicates. Rank and size are those of the
 * communicator. MPI must be initialised, and the caller must finalise it. `communicator` points to the MPI_Comm, whose
 * type depends on the MPI library. `communicator_size` is the size of this type in bytes. Returns RUEDA_UNSUPPORTED if
 * this process has no MPI.
 *
 * If Rueda is already initialised, rueda_init_communicator compares `communicator` with the job's communicator. If both
 * have the same processes in the same order, the function does nothing; otherwise it returns RUEDA_INVALID_ARGUMENT.
 * MPI itself must compare the communicators, and Rueda's own thread may be inside MPI during the comparison. So the
 * comparison needs MPI_THREAD_MULTIPLE. If MPI provides a lower thread level, the function returns RUEDA_UNSUPPORTED.
 * If the job was aborted, the function returns RUEDA_ABORTED.
 */
RUEDA_API int rueda_init_communicator(const void* communicator, size_t communicator_size);

/** A list of ranks of the job. */
typedef struct rueda_rank_list {
    const int32_t* ranks;
    size_t count;
} rueda_rank_list;

/** The options of rueda_init_with. Initialise them with RUEDA_INIT_OPTIONS_INIT. */
typedef struct rueda_init_options {
    size_t struct_size;
    const int32_t* ranks; /**< the ranks of the job, as for rueda_init_ranks; NULL stands for all launched ranks */
    size_t rank_count;
    const void* communicator; /**< an MPI communicator, as for rueda_init_communicator, or NULL. Must be NULL if `ranks`
                                 is not NULL */
    size_t communicator_size;
    const rueda_rank_list* process_sets; /**< process sets that the initialisation makes in this order, as
                                            rueda_process_set_add does */
    size_t process_set_count;
    int32_t* process_set_ids; /**< receives the numbers of the process sets; NULL if the caller does not need them */
} rueda_init_options;

#define RUEDA_INIT_OPTIONS_INIT \
    { sizeof(rueda_init_options), NULL, 0, NULL, 0, NULL, 0, NULL }

/**
 * Joins the job like rueda_init, rueda_init_ranks or rueda_init_communicator, and makes process sets at the same time.
 * If `options` is NULL, the function does the same as rueda_init. All ranks must pass the same sets in the same order.
 * If they do not, or if only some ranks pass sets, all ranks return RUEDA_MISMATCH. If a set cannot be made, all ranks
 * return RUEDA_INVALID_ARGUMENT. In both cases Rueda is not initialised.
 *
 * If Rueda was already initialised, rueda_init_with makes no process sets. It writes the numbers of the existing sets,
 * and returns RUEDA_INVALID_ARGUMENT for a set that does not exist.
 */
RUEDA_API int rueda_init_with(const rueda_init_options* options);
/**
 * Leaves the job. Operations that are pending on this rank fail. On other ranks, operations that need this rank fail,
 * and the message says that this rank has shut down. The function returns when every rank has called it, or when a rank
 * has died. If Rueda is not initialised, the call does nothing. If a rank does not call the function, the other ranks
 * report this in the same way as a stalled tensor. RUEDA_STALL_SHUTDOWN_TIME_SECONDS limits the wait.
 *
 * If the job was aborted before every rank had called rueda_shutdown, the function returns the code of the abort
 * (usually RUEDA_ABORTED), with the reason as the message. If another function on this rank has already reported the
 * abort, rueda_shutdown does not report it again. In both cases the rank has left the job.
 */
RUEDA_API int rueda_shutdown(void);
/**
 * Like rueda_shutdown, but waits at most `timeout_seconds` for the other ranks. A negative value means no limit.
 * RUEDA_TIMEOUT means that some rank did not call rueda_shutdown or this function in this time. After RUEDA_TIMEOUT,
 * this rank cannot start operations any more, but it still serves the other ranks and stays initialised. To continue
 * the wait, call rueda_shutdown or this function again. To end the job instead, call rueda_abort.
 */
RUEDA_API int rueda_shutdown_within(double timeout_seconds);
/** Returns 1 between rueda_init and rueda_shutdown, otherwise 0. */
RUEDA_API int rueda_initialized(void);

/**
 * Each of the functions from rueda_rank to rueda_cross_size writes one number. Before rueda_init, they return
 * RUEDA_NOT_INITIALIZED.
 */
RUEDA_API int rueda_rank(int* value);
RUEDA_API int rueda_size(int* value);
RUEDA_API int rueda_local_rank(int* value);
RUEDA_API int rueda_local_size(int* value);
RUEDA_API int rueda_cross_rank(int* value);
RUEDA_API int rueda_cross_size(int* value);
/** Writes 1 if all hosts have the same number of ranks, otherwise 0. Does not communicate. */
RUEDA_API int rueda_is_homogeneous(int* value);
/**
 * Writes the number of threads with which this rank should compute, so that the ranks of its host together have no more
 * threads than cores. The cores that the ranks of the host may use (affinity masks and CPU quota) are divided by the
 * number of these ranks. The result is at least 1, and at most the number of cores in this rank's affinity mask. Does
 * not communicate. Returns RUEDA_NOT_INITIALIZED before rueda_init.
 */
RUEDA_API int rueda_threads_per_rank(int* value);
/**
 * Writes the number of the CUDA device that this rank should use, for example for cudaSetDevice. docs/gpu.md has the
 * rule. In short: if the launcher gives each rank GPUs of its own, the device is 0, otherwise it is the local rank.
 * Does not communicate. Does not load libcuda and creates no CUDA context, so the process may still fork. Looking for
 * the GPUs may take a second, so call the function once.
 *
 * Returns RUEDA_UNSUPPORTED if this process may use no GPU. Returns RUEDA_INVALID_ARGUMENT if this host has more ranks
 * than GPUs, unless the setting RUEDA_SHARE_GPU allows ranks to share GPUs. Returns RUEDA_NOT_INITIALIZED before
 * rueda_init.
 */
RUEDA_API int rueda_local_device(int* index);

/*
 * Process sets are subsets of the ranks that run operations among their members. Each set executes its operations in an
 * order of its own, so no set waits for another set. In the comments of this file, "the ranks" of an operation are the
 * members of its set, in ascending order. "By rank" means by the position among the members. A root, however, is given
 * as its rank in the job.
 */

/**
 * Makes a process set of `count` ranks, in any order, and writes its number, which is the same on all ranks.
 * Collective: every rank of the job must call this function, even if it is not in `ranks`, and all must pass the same
 * ranks. Returns RUEDA_MISMATCH if the ranks give different lists. Returns RUEDA_INVALID_ARGUMENT if a rank does not
 * exist or is named twice, if the list is empty, or if a set of these ranks already exists. All ranks get the same
 * error, and no set is made.
 */
RUEDA_API int rueda_process_set_add(const int32_t* ranks, size_t count, int32_t* process_set);
/**
 * Removes a process set. Collective: every rank of the job must call this function. Operations that are pending in the
 * set fail. The set's number is never used again, not even in a later job of the same processes.
 */
RUEDA_API int rueda_process_set_remove(int32_t process_set);
/**
 * Makes a process set. In contrast to rueda_process_set_add, only the members call this function. They all pass the
 * same ranks, in any order. There may be several such sets of the same ranks, even of all ranks; the operations of each
 * set have their own order. The set's number is the same on all members, and has no meaning on other ranks. Returns
 * RUEDA_MISMATCH if two ranks name each other but pass different lists. Returns RUEDA_INVALID_ARGUMENT at once if a
 * rank does not exist or is named twice, or if this rank is not in the list.
 */
RUEDA_API int rueda_process_set_add_among(const int32_t* ranks, size_t count, int32_t* process_set);
/**
 * Makes this rank leave a set that rueda_process_set_add_among has made. Does not wait for other ranks. Operations of
 * the set that are pending on this rank fail, but pending messages do not. A pending message is still delivered if its
 * receiver receives it. Otherwise it fails some time after all members have left. On members that are still in the set,
 * operations that need this rank fail. After all members have left, the set's memory is freed by the next call of this
 * function or of rueda_process_set_add_among, or at the end of the job.
 */
RUEDA_API int rueda_process_set_leave(int32_t process_set);
/** Writes this rank's position in the set. Returns RUEDA_INVALID_ARGUMENT if this rank is not a member. */
RUEDA_API int rueda_process_set_rank(int32_t process_set, int* value);
RUEDA_API int rueda_process_set_size(int32_t process_set, int* value);
/** Writes 1 if this rank is a member of the set, otherwise 0. */
RUEDA_API int rueda_process_set_included(int32_t process_set, int* value);
/**
 * Writes the members of the set in ascending order, but at most `capacity` of them. Writes to `count` how many members
 * the set has.
 */
RUEDA_API int rueda_process_set_ranks(int32_t process_set, int32_t* ranks, size_t capacity, size_t* count);
/**
 * Writes the numbers of the sets that this rank knows, but at most `capacity` of them. Writes to `count` how many sets
 * this rank knows. The first set is 0, the world.
 */
RUEDA_API int rueda_process_set_ids(int32_t* ids, size_t capacity, size_t* count);

RUEDA_API int rueda_slot_create(const char* name, rueda_slot** slot);
/**
 * Makes a slot for operations of a process set. (rueda_slot_create makes slots for the world, the set of all ranks.)
 */
RUEDA_API int rueda_slot_create_in(const char* name, int32_t process_set, rueda_slot** slot);
/** Destroys a slot. No other thread may be using the slot in a call. NULL is allowed. */
RUEDA_API void rueda_slot_destroy(rueda_slot* slot);

/*
 * Operations. A `name` that is NULL or "" means an unnamed operation. Unnamed operations are matched between ranks by
 * the order of the calls. If `options` is NULL, RUEDA_OPTIONS_INIT is used. `out` may be the same memory as `in`;
 * otherwise the two must not overlap. The _async functions return at once with a handle, unless
 * rueda_options::wait_seconds says otherwise. The caller must pass the handle to rueda_handle_release, whether or not
 * it has waited for the operation. The other functions block.
 */

/**
 * Element i of `out` becomes the reduction, in rank order, of element i of `in` over all ranks. Shape and dtype must be
 * the same on every rank. Integer sums and products wrap. Integer averages divide the exact sum and truncate toward
 * zero. 16-bit floats are accumulated in float32 and rounded once. bool supports min, max and product without factors;
 * other reductions return RUEDA_UNSUPPORTED.
 */
RUEDA_API int rueda_allreduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                    const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_allreduce(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                              const rueda_options* options);

/*
 * Groups: `count` operations with one handle. Their names are `<name>_<i>of<count>`, where i begins at 1. Either all
 * operations are started or none. The handle's error is the error of the first operation that failed. If the ranks pass
 * different numbers of operations, all ranks return RUEDA_MISMATCH.
 *
 * Until the last operation of a group has ended, the group's name is in use. Another group or operation with this name
 * then returns RUEDA_DUPLICATE_NAME, and nothing is started. The same happens if a group has the name of a pending
 * operation.
 */

/** Starts one allreduce for each tensor. `in` and `out` are arrays of `count` tensors. */
RUEDA_API int rueda_grouped_allreduce_async(const char* name, size_t count, const rueda_tensor* in,
                                            const rueda_tensor* out, const rueda_options* options,
                                            rueda_handle** handle);
RUEDA_API int rueda_grouped_allreduce(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                      const rueda_options* options);

/** Starts one allgather for each tensor. The results belong to the handle: see rueda_handle_output_of. */
RUEDA_API int rueda_grouped_allgather_async(const char* name, size_t count, const rueda_tensor* in,
                                            const rueda_options* options, rueda_handle** handle);
/**
 * Like rueda_grouped_allgather_async, but blocks until all operations have completed. Writes `handle` only after
 * success; the caller must then release it.
 */
RUEDA_API int rueda_grouped_allgather(const char* name, size_t count, const rueda_tensor* in,
                                      const rueda_options* options, rueda_handle** handle);

/**
 * Starts one reducescatter for each tensor. If `out` is NULL, the results belong to the handle: see
 * rueda_handle_output_of.
 */
RUEDA_API int rueda_grouped_reducescatter_async(const char* name, size_t count, const rueda_tensor* in,
                                                const rueda_tensor* out, const rueda_options* options,
                                                rueda_handle** handle);
/** Like rueda_grouped_reducescatter_async, but blocks until all operations have completed. `out` must not be NULL. */
RUEDA_API int rueda_grouped_reducescatter(const char* name, size_t count, const rueda_tensor* in,
                                          const rueda_tensor* out, const rueda_options* options);

/**
 * Copies `in` of rank `root` to `out` on every rank. Only the root's `in` is read, but every rank must pass an `in`
 * with the right shape and dtype.
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
/**
 * Like rueda_allgather_async, but blocks until the operation has completed. Writes `handle` only after success; the
 * caller must then release it.
 */
RUEDA_API int rueda_allgather(const char* name, const rueda_tensor* in, const rueda_options* options,
                              rueda_handle** handle);
/**
 * Like rueda_allgather_async, but writes the result to memory of the caller, which saves an allocation. `out` must have
 * the dtype and the shape of `in`, except for the first dimension, which must be the sum of the first dimensions on all
 * ranks. `in` must be this rank's rows in `out`, or must not overlap `out`. Some ranks may pass an output while other
 * ranks let Rueda allocate theirs.
 *
 * The right size of `out`, and the place of `in` in it, depend on the rows of the other ranks. Rueda can therefore
 * detect a wrong `out` or `in` only when all ranks have announced the operation. Then only the rank with the mistake
 * fails, with RUEDA_INVALID_ARGUMENT, and its `out` is unchanged. The other ranks get their results.
 */
RUEDA_API int rueda_allgather_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                         const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_allgather_into(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                   const rueda_options* options);

/**
 * Reduces the ranks' tensors like rueda_allreduce, and divides the result along the first dimension: every rank gets
 * its share of the rows. Shape and dtype must be the same on every rank. If the rows cannot be divided equally, the
 * first ranks get one row more. A share may be empty. `out` must have the shape of this rank's rows. `out` may be the
 * memory of these rows in `in`; otherwise it must not overlap `in`. If `out` is NULL, the result belongs to the handle:
 * see rueda_handle_output.
 */
RUEDA_API int rueda_reducescatter_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                        const rueda_options* options, rueda_handle** handle);
/** Like rueda_reducescatter_async, but blocks until the operation has completed. `out` must not be NULL. */
RUEDA_API int rueda_reducescatter(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                  const rueda_options* options);

/**
 * The first splits[0] rows of `in` go to rank 0, the next splits[1] rows go to rank 1, and so on. The result has the
 * rows from all ranks, in rank order. `splits` has `split_count` numbers, one for each rank. No number may be negative,
 * and their sum must be at most the first dimension. Rows after this sum are not sent. The numbers are read only during
 * the call, and may differ between ranks and steps.
 *
 * If `splits` is NULL, all ranks get the same number of rows, and the first dimension must be divisible by the number
 * of ranks. The other dimensions and the dtype must be the same on all ranks. The result belongs to the handle: see
 * rueda_handle_output and rueda_handle_received_splits.
 */
RUEDA_API int rueda_alltoall_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                                   const rueda_options* options, rueda_handle** handle);
/**
 * Like rueda_alltoall_async, but blocks until the operation has completed. Writes `handle` only after success; the
 * caller must then release it.
 */
RUEDA_API int rueda_alltoall(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                             const rueda_options* options, rueda_handle** handle);
/**
 * Like rueda_alltoall_async, but writes the result to memory of the caller, which saves an allocation. `out` must have
 * the dtype and the shape of `in`, except for the first dimension, which must be the number of rows that this rank
 * receives from all ranks. `out` must not overlap `in`. If `out` has a wrong number of rows, only this rank fails, as
 * in rueda_allgather_into_async. rueda_handle_received_splits works with the handle of the _async function.
 */
RUEDA_API int rueda_alltoall_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                        const int64_t* splits, size_t split_count, const rueda_options* options,
                                        rueda_handle** handle);
RUEDA_API int rueda_alltoall_into(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                                  const int64_t* splits, size_t split_count, const rueda_options* options);

/**
 * Computes the sum or the average over the ranks of a sparse tensor, of which each rank has only some rows or elements.
 * No rank needs memory for the whole tensor.
 *
 * `indices` says which rows or elements a rank has; its dtype is an integer type. If its shape is [n], the indices are
 * positions along the first dimension of the whole tensor. If its shape is [n, k], they are positions along the first k
 * dimensions. Positions may have any order and may repeat. n may differ between ranks and be 0. `values` are the rows
 * or elements at these positions. The first dimension of `values` is n. The other dimensions are those of `shape`
 * without the first one (or the first k). The dtype of `values` must not be bool. `shape`, with `ndim` extents, is the
 * shape of the whole tensor, and must be the same on every rank.
 *
 * `reduce_op` in `options` must be RUEDA_SUM or RUEDA_AVERAGE, and the factors must be 1. The name is used like the
 * name of a group. The results belong to the handle (rueda_handle_output_of). Result 0 contains each position that at
 * least one rank has, in ascending order and without repetitions. A position is one int64 or k of them, as in
 * `indices`. Result 1 contains the values at these positions. Values of several ranks are added in rank order, 16-bit
 * floats in float32. Averages of integers divide the exact sum and truncate toward zero. The sums are computed when the
 * caller asks for a result for the first time. If shape or reduction differ between ranks, all ranks return
 * RUEDA_MISMATCH.
 */
RUEDA_API int rueda_sparse_allreduce_async(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                                           const int64_t* shape, int32_t ndim, const rueda_options* options,
                                           rueda_handle** handle);
/**
 * Like rueda_sparse_allreduce_async, but blocks until the operation has completed. Writes `handle` only after success;
 * the caller must then release it.
 */
RUEDA_API int rueda_sparse_allreduce(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                                     const int64_t* shape, int32_t ndim, const rueda_options* options,
                                     rueda_handle** handle);

/*
 * Operations with a root. The root is given as its rank in the job, and must be a member of the set. If the root is not
 * a member, the operation fails with RUEDA_INVALID_ARGUMENT on all ranks, after all ranks have called it. A blocking
 * call returns this error; an _async call succeeds, and its handle has the error. These operations are not barriers:
 * they may complete on a rank before other ranks have called them.
 */

/**
 * Concatenates the ranks' tensors on the root, along the first dimension. The first dimension may differ between ranks
 * and be 0; the other dimensions must be the same. Only the root uses `out`. If the root's `out` is NULL, the result
 * belongs to the root's handle (rueda_handle_output). Otherwise `out` must be memory for all rows, and must not overlap
 * `in`. rueda_handle_received_splits works in both cases. If `out` has a wrong number of rows, only the root fails, as
 * in rueda_allgather_into_async.
 */
RUEDA_API int rueda_gather_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                                 const rueda_options* options, rueda_handle** handle);
/**
 * Like rueda_gather_async, but blocks until the operation has completed. Writes `handle` only after success; the caller
 * must then release it. `handle` may be NULL if `out` is not NULL, and on ranks that are not the root.
 */
RUEDA_API int rueda_gather(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                           const rueda_options* options, rueda_handle** handle);

/**
 * The first splits[0] rows of the root's `in` go to rank 0, the next splits[1] rows go to rank 1, and so on. `splits`
 * has the same meaning as in rueda_alltoall_async. On other ranks, only the dtype of `in` and the shape of its rows are
 * used: its first dimension may have any value, its data may be NULL, and `splits` is ignored. If `out` is NULL, the
 * result belongs to the handle (rueda_handle_output), and its shape contains the number of rows. Otherwise `out` must
 * have the shape of this rank's rows, and must not overlap `in`.
 */
RUEDA_API int rueda_scatter_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                                  const rueda_tensor* out, int root, const rueda_options* options,
                                  rueda_handle** handle);
/**
 * Like rueda_scatter_async, but blocks until the operation has completed. Writes `handle` only after success; the
 * caller must then release it. `handle` may be NULL if `out` is not NULL.
 */
RUEDA_API int rueda_scatter(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                            const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle);

/**
 * Reduces the ranks' `in` to `out` on the root. The result has the same bits as that of rueda_allreduce. On other ranks
 * `out` is ignored and may be NULL.
 */
RUEDA_API int rueda_reduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                                 const rueda_options* options, rueda_handle** handle);
RUEDA_API int rueda_reduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                           const rueda_options* options);

/*
 * Messages from one rank to another rank. They are independent of all other operations: nothing is negotiated, and no
 * third rank takes part. A message is matched with a receive that the other rank has started with the same tag and
 * process set. Messages with the same sender, receiver, tag and set arrive in the order of the calls. A peer is given
 * as its rank in the job; a rank may send to itself. Dtype and number of bytes must be the same on both sides,
 * otherwise both sides return RUEDA_MISMATCH. RUEDA_ABORTED means that the peer has died or shut down. A message has no
 * name and needs no slot.
 *
 * A send completes when its message was received. A send of up to 8 KiB (on one host up to 64 KiB) can complete before
 * the receiver has started a receive: Rueda accepts such a message while the receiver waits for another operation or
 * polls. So if two ranks exchange such small messages, both may send first and receive afterwards. If the receive then
 * does not fit the message, the sender cannot get RUEDA_MISMATCH any more, because its send has completed. It gets a
 * line in its log instead. See docs/design/0010-send-receive.md.
 */
#define RUEDA_ANY_PEER (-1)
RUEDA_API int rueda_send_async(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options,
                               rueda_handle** handle);
RUEDA_API int rueda_send(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options);
/**
 * Starts a receive. If `peer` is RUEDA_ANY_PEER, the first message with this tag is received, from any rank.
 * rueda_handle_sender returns its sender.
 */
RUEDA_API int rueda_receive_async(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options,
                                  rueda_handle** handle);
/** Like rueda_receive_async, but blocks until the message was received. `sender` may be NULL. */
RUEDA_API int rueda_receive(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options,
                            int32_t* sender);
/** Writes the rank that sent the message of a completed rueda_receive_async. */
RUEDA_API int rueda_handle_sender(rueda_handle* handle, int32_t* sender);

/** Starts a barrier. The handle completes when every rank has called this function or rueda_barrier. */
RUEDA_API int rueda_barrier_async(const rueda_options* options, rueda_handle** handle);
/** Returns when every rank has called this function or rueda_barrier_async. */
RUEDA_API int rueda_barrier(const rueda_options* options);

/**
 * The divisor of averages while some ranks have called rueda_join and others have not. The argument of rueda_join
 * chooses it.
 */
enum rueda_join_average {
    RUEDA_JOIN_AVERAGE_ALL = 0,   /**< the number of all ranks, as if the joined ranks contributed zeros */
    RUEDA_JOIN_AVERAGE_ACTIVE = 1 /**< the number of ranks that contributed */
};

/**
 * Call rueda_join on a rank that has no more batches while other ranks still have some. The call says that the rank
 * starts no more operations. rueda_join blocks until every rank of the job has called it ("has joined"). `last_rank`
 * (may be NULL) receives the rank that joined last, which is the same on all ranks.
 *
 * Until all ranks have joined, the allreduces and barriers of the other ranks work without the joined ranks, in the
 * world and in all process sets. Operations that need data of every rank (broadcast, allgather, alltoall,
 * reducescatter, gather, scatter, reduce) fail with RUEDA_INVALID_ARGUMENT on all ranks. Operations that a rank
 * announced before it joined are executed as usual. Operations that the rank starts while rueda_join blocks are
 * refused. Returns RUEDA_ABORTED if a rank ends or shuts down instead of joining.
 */
RUEDA_API int rueda_join(int32_t average, int32_t* last_rank);
RUEDA_API int rueda_join_async(int32_t average, rueda_handle** handle);
/** Writes the rank that joined last. `handle` must belong to a completed rueda_join_async. */
RUEDA_API int rueda_handle_joined_last(rueda_handle* handle, int32_t* last_rank);

/**
 * Blocks until the operation has completed, and returns its status. Returns RUEDA_TIMEOUT after `timeout_seconds`; a
 * negative value means no limit. After a timeout the operation continues, and still uses its tensors. If the timeout is
 * at least 0.2 seconds, the error says which ranks have announced the operation and which have not. Several threads may
 * call this function for one handle, and a thread may call it repeatedly.
 */
RUEDA_API int rueda_wait(rueda_handle* handle, double timeout_seconds);
/**
 * Writes what a pending operation waits for: "rank 1 has not announced it, rank 0 has; …". (This is the text in
 * rueda_wait's error.) The text ends with a zero byte and is cut to `size` bytes. The text is empty if the operation
 * has completed, or if nothing is known. The function does not block, and takes ten microseconds or more.
 */
RUEDA_API int rueda_handle_waits_for(rueda_handle* handle, char* text, size_t size);
/**
 * Makes work that the caller puts into `stream` from now on wait for the end of an operation on a GPU. The host can go
 * on while the operation runs: this function only waits until all ranks have called the operation, and its work was
 * given to the GPU. This function waits longer in two cases: if the tensors move through the host's memory
 * (docs/gpu.md), and for a send. In these cases it also waits until the ranks have done their part on the host. Returns
 * the operation's error, or RUEDA_TIMEOUT after `timeout_seconds` (negative: no limit). For an operation in the CPU's
 * memory, this function does the same as rueda_wait.
 */
RUEDA_API int rueda_wait_on_stream(rueda_handle* handle, const rueda_device_stream* stream, double timeout_seconds);
/** Writes 1 if the operation has completed, with or without success, otherwise 0. Does not block. */
RUEDA_API int rueda_poll(rueda_handle* handle, int* completed);
/**
 * Writes the result of a completed operation, if Rueda has allocated the memory of the result. Rueda does this if the
 * caller passed no output to an allgather, alltoall, reducescatter or scatter, or if the root passed no output to a
 * gather. Data and shape are valid until the handle is released.
 */
RUEDA_API int rueda_handle_output(rueda_handle* handle, rueda_tensor* output);
/** Like rueda_handle_output, for operation `index` of a group, counted from 0. */
RUEDA_API int rueda_handle_output_of(rueda_handle* handle, size_t index, rueda_tensor* output);
/**
 * Writes the number of rows that this rank has received from each rank, for an alltoall, or for a gather on the root.
 * The operation must have completed; for tensors on a GPU, a successful rueda_wait_on_stream() is enough. The numbers
 * are valid until the handle is released.
 */
RUEDA_API int rueda_handle_received_splits(rueda_handle* handle, const int64_t** splits, size_t* count);
/**
 * A function that rueda_handle_on_completion calls. `status` is the operation's status (enum rueda_status). `message`
 * is the text of the error; it is "" after success, and valid only during the call. `data` is the caller's pointer.
 */
typedef void (*rueda_callback)(int status, const char* message, void* data);
/**
 * Calls `callback` once, when the operation has completed. If the operation has already completed, the calling thread
 * calls `callback` before this function returns. Otherwise a thread of Rueda calls it later. The callback must not
 * delay the thread that calls it: the callback may start operations, but must not wait for an operation. A handle has
 * at most one callback; a second callback is refused with RUEDA_INVALID_ARGUMENT. The handle may be released before the
 * callback is called.
 */
RUEDA_API int rueda_handle_on_completion(rueda_handle* handle, rueda_callback callback, void* data);
/** Releases the handle. A pending operation continues, and still uses its input and output. NULL is allowed. */
RUEDA_API void rueda_handle_release(rueda_handle* handle);

/**
 * Allocates "resident" memory, which all ranks of the host share. The ranks reduce tensors in this memory in place,
 * without copying them first. The memory is zeroed, and aligned to 64 bytes, or to a page if `bytes` is 64 KiB or more.
 * If the allocation would exceed a memory limit, the function returns RUEDA_RESOURCE_EXHAUSTED; the message contains
 * the requested size and the available memory. The memory stays valid after rueda_shutdown.
 */
RUEDA_API int rueda_allocate(size_t bytes, void** memory);
/**
 * Allocates memory of a device. `device_type` must be RUEDA_CUDA, and `device_index` is the device's number among those
 * that the process sees. If NCCL can allocate memory (2.19 and newer), the memory comes from NCCL, and Rueda registers
 * it. If all ranks of a process set on one host pass such memory for a tensor, NCCL reads and writes the tensor without
 * copies of its own. If NCCL cannot allocate memory, the memory comes from NVIDIA's driver. docs/gpu.md has the
 * details.
 *
 * The new memory has undefined contents. The allocation may wait for work of the device. Returns
 * RUEDA_RESOURCE_EXHAUSTED if the device has not enough memory, and RUEDA_UNSUPPORTED if the process can use no GPU.
 * The memory stays valid after rueda_shutdown.
 */
RUEDA_API int rueda_allocate_on_device(int32_t device_type, int32_t device_index, size_t bytes, void** memory);
/**
 * Frees memory of rueda_allocate or rueda_allocate_on_device. NULL is allowed. No pending operation may use memory of
 * rueda_allocate. A pending operation may still use memory of a device, which is then freed after the operation. The
 * program's own work on the device must no longer use this memory. Like cudaFree, rueda_deallocate may have to wait for
 * other work of the device.
 */
RUEDA_API int rueda_deallocate(void* memory);

/**
 * Ends the job because this rank cannot continue. On all ranks, pending operations and all later calls fail with
 * RUEDA_ABORTED and `reason`. rueda_abort does not wait, and does not end the process. The program should end
 * afterwards, with an exit status other than 0. (If a process ends with such a status without rueda_shutdown, this also
 * ends the job.) Any thread may call this function, also in a completion callback. If the job is already aborted, the
 * call has no effect.
 */
RUEDA_API int rueda_abort(const char* reason);

/**
 * Says that this rank begins training step `step`. Steps are counted from 0, and the count continues after a restart.
 * ruedarun --max-restarts uses the step to report how many steps were repeated. rueda_begin_step takes a few
 * nanoseconds, and has no effect without ruedarun. Either every rank or only one rank may call it. Returns
 * RUEDA_INVALID_ARGUMENT for a negative number.
 */
RUEDA_API int rueda_begin_step(int64_t step);

/**
 * Says what this rank is doing while it runs no collectives, for example "saving checkpoint". Stall reports show the
 * text. Calls may be nested. At most 127 bytes of the text are kept.
 */
RUEDA_API int rueda_busy_begin(const char* what);
RUEDA_API int rueda_busy_end(void);

/**
 * Writes counts of what this rank has done, as a JSON object:
 * {"rank":0,…,"rueda_batches_total":12,"rueda_operations_total":{"allreduce":24,…}}. docs/metrics.md explains the
 * members. Writes the size of the text, with the terminating zero, to `bytes`. If `capacity` is smaller than this size,
 * `text` gets an empty text. If `capacity` is 0, `text` may be NULL. The text of the next call may be longer, because a
 * number may have one more digit. So repeat the call until the text fits. The function does not communicate or wait,
 * takes tens of microseconds, and also works after an abort. Returns RUEDA_NOT_INITIALIZED before rueda_init and after
 * rueda_shutdown.
 */
RUEDA_API int rueda_metrics(char* text, size_t capacity, size_t* bytes);
/**
 * Writes how many seconds threads of this program were blocked in Rueda's operations since the first rueda_init: in
 * rueda_wait and in blocking operations, sends and receives. The time in which an asynchronous operation runs beside
 * the program does not count. A blocking operation, send or receive that ends within a few microseconds is not counted.
 * The times of several threads are added. Does not communicate. Returns RUEDA_NOT_INITIALIZED before rueda_init and
 * after rueda_shutdown.
 */
RUEDA_API int rueda_blocked_seconds(double* seconds);

/**
 * Starts to write a timeline of the operations of all ranks to the file `path`, for Perfetto and chrome://tracing
 * (docs/timeline.md). The lowest rank of each host writes; every rank should make this call, with the same arguments.
 * The timeline has the operations that are announced from now on. With several hosts, each host writes a part, and
 * rueda_shutdown merges them on rank 0. If a timeline with this path is already running, the call does nothing. The
 * call ends a timeline with another path.
 *
 * If `mark_cycles` is not 0, the timeline has an event CYCLE_START at the beginning of each batch. Tools for Horovod
 * expect this event.
 *
 * rueda_timeline_start does not wait for other ranks. It returns RUEDA_INVALID_ARGUMENT if the file cannot be written;
 * the job then continues without a timeline. The setting RUEDA_TIMELINE starts a timeline in rueda_init.
 */
RUEDA_API int rueda_timeline_start(const char* path, int mark_cycles);
/**
 * Ends the timeline, and waits at most two seconds until the file is complete. Does nothing if there is no timeline.
 * rueda_shutdown also ends the timeline.
 */
RUEDA_API int rueda_timeline_stop(void);
/**
 * Adds a span to this rank's timeline. The span begins at `began_ns`, a time of CLOCK_MONOTONIC in nanoseconds, and
 * ends now. If this rank has started no timeline, the call does nothing. At most 103 bytes of the name are kept.
 */
RUEDA_API int rueda_timeline_scope(const char* name, int64_t began_ns);

/**
 * Writes the number of the signal by which Rueda takes the stack of this process's main thread for stall reports
 * (RUEDA_STACK_SIGNAL). Writes 0 if stacks are switched off, if the program handles this signal itself, or if this
 * process is not in a job. Does not wait.
 */
RUEDA_API int rueda_stack_signal(int32_t* number);
/**
 * After this call, stall reports also show the frames of an interpreter, such as Python's. The binding of the
 * interpreter's language calls this function after rueda_init. Before this call, the binding must install a handler for
 * rueda_stack_signal(), as Python's faulthandler.register does. The handler must be installed without SA_SIGINFO, and
 * must write the traceback of the interrupted thread to the file `descriptor`.
 *
 * rueda_adopt_traceback_handler installs Rueda's own handler again, and Rueda's handler calls the interpreter's
 * handler. For each stack, Rueda reads the file `descriptor` and empties it, so the file must allow ftruncate and
 * pread. The descriptor and the handler must stay valid until this function is called with -1. After a call with -1,
 * Rueda no longer calls the interpreter's handler. Later jobs of this process need no new handler. Does not wait.
 * Returns RUEDA_UNSUPPORTED if there is no stack signal, or if the binding has not installed a handler for it.
 */
RUEDA_API int rueda_adopt_traceback_handler(int32_t descriptor);

#ifdef __cplusplus
}
#endif

#endif /* RUEDA_RUEDA_H */
