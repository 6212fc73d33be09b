/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/**
 * @file
 * Checkpoints for the interfaces of other languages. The functions write and read a folder in the format of
 * rueda::training::CheckpointManager (docs/checkpoints.md). They do not communicate with other processes, and work
 * without rueda_init. The caller decides when to save, and how all ranks get a restored checkpoint.
 *
 * Every function returns a status code, as in rueda.h, and rueda_last_error() has the message. Paths are passed to the
 * file system without conversion. All other texts are UTF-8. Threads: any thread may call every function. At any time,
 * only one thread of one process may save into a folder. As an exception, several processes may write the parts of one
 * checkpoint at the same time.
 */
#ifndef RUEDA_CHECKPOINTS_H
#define RUEDA_CHECKPOINTS_H

#include "rueda/rueda.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A tensor in the CPU's memory, with its name in a checkpoint. */
typedef struct rueda_named_tensor {
    const char* name;
    rueda_tensor tensor;
} rueda_named_tensor;

/** Which of two metrics is better. The numbers are the same as in rueda::training::BetterMetric. */
enum rueda_better_metric {
    RUEDA_LOWER_IS_BETTER = 0, /**< for example a loss */
    RUEDA_HIGHER_IS_BETTER = 1 /**< for example an accuracy */
};

/** The data that rueda_checkpoint_save writes. Initialise it with RUEDA_SNAPSHOT_INIT. */
typedef struct rueda_snapshot {
    size_t struct_size;
    const char* folder;              /**< the folder of all checkpoints */
    int64_t step;                    /**< the number of completed steps; 0 or more */
    const rueda_named_tensor* model; /**< the model */
    size_t model_count;
    const rueda_named_tensor* state; /**< the job's other tensors, for example those of the optimizer */
    size_t state_count;
    const char* values;  /**< texts of the program, as a JSON object of strings; the keys must not begin with "rueda.".
                            NULL if there are no texts */
    double metric;       /**< the checkpoint's metric, a finite number; used only if has_metric is 1 */
    int32_t has_metric;  /**< 1 if the checkpoint has a metric, otherwise 0 */
    int32_t better;      /**< enum rueda_better_metric */
    int32_t max_to_keep; /**< the number of newest checkpoints that are kept, besides the best one; 1 or more */
    int32_t size;        /**< the number of ranks of the job; 1 or more */
} rueda_snapshot;

#define RUEDA_SNAPSHOT_INIT \
    { sizeof(rueda_snapshot), NULL, 0, NULL, 0, NULL, 0, NULL, 0.0, 0, RUEDA_LOWER_IS_BETTER, 3, 1 }

/** Creates the folder and its missing parent folders. After success, they also survive a crash of the machine. */
RUEDA_API int rueda_checkpoint_create_folder(const char* folder);
/**
 * Writes a checkpoint into a folder of its own, flushes it to the disk, and removes checkpoints that are too old. The
 * tensors must not change during the call. If the call fails, the earlier checkpoints are unchanged.
 *
 * If the checkpoint is complete, but an old checkpoint could not be removed, the function returns success.
 * `pruning_failure` then receives the text of the error, which the caller must pass to rueda_checkpoint_free_text.
 * Otherwise it receives NULL. `pruning_failure` itself may be NULL.
 */
RUEDA_API int rueda_checkpoint_save(const rueda_snapshot* snapshot, char** pruning_failure);
/**
 * Lists the checkpoints in the folder, newest first, as a JSON object: {"complete":[{"name":"save-000002-step-200",
 * "step":200,"size":4,"metric":0.25,"values":{…}},…],"damaged":["…",…]}. "metric" is null if the checkpoint has no
 * metric. "damaged" has a text for each checkpoint that cannot be used. The function checks the headers of all files,
 * but not the data. The caller must pass `text` to rueda_checkpoint_free_text.
 */
RUEDA_API int rueda_checkpoint_list(const char* folder, char** text);
/** Frees a text. NULL is allowed. */
RUEDA_API void rueda_checkpoint_free_text(char* text);

/** A complete checkpoint that was opened for reading. */
typedef struct rueda_checkpoint rueda_checkpoint;

/**
 * Opens one checkpoint, for example "run/save-000002-step-200". Returns RUEDA_INVALID_ARGUMENT if the checkpoint is
 * damaged. Returns RUEDA_RESOURCE_EXHAUSTED if there are no file descriptors or no memory left; the checkpoint itself
 * may then be good. The caller must pass `checkpoint` to rueda_checkpoint_close.
 */
RUEDA_API int rueda_checkpoint_open(const char* path, rueda_checkpoint** checkpoint);
/**
 * Describes a checkpoint as a JSON object. It has the same members as an element of "complete" in the text of
 * rueda_checkpoint_list, and also "model" and "state". "model" and "state" are lists with an element for each tensor:
 * [name, dtype (enum rueda_dtype), [extents]]. If the model was saved in parts, "model" lists the whole tensors. The
 * caller must pass `text` to rueda_checkpoint_free_text.
 */
RUEDA_API int rueda_checkpoint_describe(const rueda_checkpoint* checkpoint, char** text);
/**
 * Checks that the tensors of the checkpoint's model are exactly those in `model`. Their data are not used. If the
 * models differ, returns RUEDA_INVALID_ARGUMENT with the first difference in the message.
 */
RUEDA_API int rueda_checkpoint_check_model(const rueda_checkpoint* checkpoint, const rueda_named_tensor* model,
                                           size_t model_count);
/**
 * Reads the tensors of the model, and those of the state. If `state_count` is 0, the state is not read; otherwise
 * `state` must list all its tensors. Returns RUEDA_INVALID_ARGUMENT if the data do not match their checksums. After an
 * error, the contents of the tensors are undefined.
 */
RUEDA_API int rueda_checkpoint_read(const rueda_checkpoint* checkpoint, const rueda_named_tensor* model,
                                    size_t model_count, const rueda_named_tensor* state, size_t state_count);

/** Some rows of a tensor. A tensor is divided along its first dimension. A scalar counts as one row. */
typedef struct rueda_tensor_part {
    const char* name;    /**< the same name on all ranks that have rows of the tensor */
    rueda_tensor tensor; /**< the rows of this rank */
    int64_t first_row;   /**< the index of this rank's first row in the whole tensor */
    int64_t whole_rows;  /**< the number of rows of the whole tensor */
} rueda_tensor_part;

/**
 * Begins a checkpoint to which each rank contributes its parts. All ranks must see the folder. Rank 0 calls this
 * function, and tells the other ranks the name of the checkpoint. Then each rank calls rueda_checkpoint_write_part.
 * Afterwards, rank 0 calls rueda_checkpoint_missing_part until no part is missing, and then rueda_checkpoint_complete.
 * A rank must call rueda_checkpoint_give_up_part if its rueda_checkpoint_write_part fails. Rank 0 must also call it if
 * rueda_checkpoint_missing_part or rueda_checkpoint_complete fails. The caller must pass `name` to
 * rueda_checkpoint_free_text. The name is ASCII, for example "save-000002-step-200".
 */
RUEDA_API int rueda_checkpoint_begin(const char* folder, int64_t step, char** name);
/**
 * Writes the parts of rank `rank` of `size` ranks into the checkpoint `path`, for example "run/save-000002-step-200".
 * The tensors must not change during the call. Returns RUEDA_INVALID_ARGUMENT if rows lie outside their tensor, or if
 * rank 0 has given up the checkpoint.
 */
RUEDA_API int rueda_checkpoint_write_part(const char* path, int64_t step, const rueda_tensor_part* parts,
                                          size_t part_count, int32_t rank, int32_t size);
/**
 * Looks for the parts of the ranks `*rank` to `size` - 1, without waiting. `*rank` receives the first rank whose part
 * is not there yet, or `size` if no part is missing. Returns RUEDA_INVALID_ARGUMENT if any rank has given up its part
 * (the message names this rank), or if an argument is wrong.
 */
RUEDA_API int rueda_checkpoint_missing_part(const char* path, int32_t* rank, int32_t size);
/**
 * Completes the checkpoint `name`, to which `snapshot->size` ranks have contributed parts. Then removes checkpoints
 * that are too old, as rueda_checkpoint_save() does. The snapshot must have no model, because the parts contain the
 * model. Returns RUEDA_INVALID_ARGUMENT if the parts do not fit together, or if rows of a tensor are missing.
 */
RUEDA_API int rueda_checkpoint_complete(const rueda_snapshot* snapshot, const char* name, char** pruning_failure);
/**
 * Gives up a checkpoint because rank `rank` has failed. On rank 0, the function removes the checkpoint. On another
 * rank, it makes a file in the checkpoint that tells rueda_checkpoint_missing_part about the failure. The function
 * ignores errors of the file system.
 */
RUEDA_API int rueda_checkpoint_give_up_part(const char* path, int32_t rank, int32_t size);
/**
 * Checks that the checkpoint's model has the tensors to which these parts belong. The data of the tensors are not used.
 * If the model differs, returns RUEDA_INVALID_ARGUMENT with the first difference in the message.
 */
RUEDA_API int rueda_checkpoint_check_parts(const rueda_checkpoint* checkpoint, const rueda_tensor_part* parts,
                                           size_t part_count);
/** Like rueda_checkpoint_read(), but reads only some rows of the model's tensors. The rows may be divided among the
 * ranks in another way than when they were saved. */
RUEDA_API int rueda_checkpoint_read_parts(const rueda_checkpoint* checkpoint, const rueda_tensor_part* parts,
                                          size_t part_count, const rueda_named_tensor* state, size_t state_count);

/** The right of this process to save into a folder. */
typedef struct rueda_checkpoint_claim rueda_checkpoint_claim;

/**
 * Claims the folder for this process, as rueda::training::CheckpointManager::claim() does. The folder must exist.
 * Returns RUEDA_INVALID_ARGUMENT if another job saves into the folder; the message names its process. The caller must
 * pass `claim` to rueda_checkpoint_release. The claim also ends when the process ends. `claim` receives NULL if this
 * process has claimed the folder before, or if the file system has no locks. If `claim` is NULL, the caller should call
 * the function again at the next save.
 */
RUEDA_API int rueda_checkpoint_claim_folder(const char* folder, rueda_checkpoint_claim** claim);
/** Ends a claim. NULL is allowed. */
RUEDA_API void rueda_checkpoint_release(rueda_checkpoint_claim* claim);

/** Closes a checkpoint. NULL is allowed. */
RUEDA_API void rueda_checkpoint_close(rueda_checkpoint* checkpoint);

#ifdef __cplusplus
}
#endif

#endif /* RUEDA_CHECKPOINTS_H */
