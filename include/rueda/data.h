/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/**
 * @file
 * The input pipeline for the interfaces of other languages. The functions wrap rueda::data::Pipeline (docs/data.md).
 * They do not communicate, and work without rueda_init.
 *
 * Every function that returns an int returns a status code, as in rueda.h. After a failure, rueda_last_error() returns
 * the message. Texts are UTF-8.
 * Threads: one thread at a time may use a pipeline. A batch may be released by any thread at any time, also after its
 * pipeline was closed.
 */
#ifndef RUEDA_DATA_H
#define RUEDA_DATA_H

#include "rueda/rueda.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A pipeline that was opened. */
typedef struct rueda_data_pipeline rueda_data_pipeline;
/** A batch that was taken from a pipeline. */
typedef struct rueda_data_batch rueda_data_batch;

/** A column of a batch, like rueda::data::Column. The memory belongs to the batch. */
typedef struct rueda_data_column {
    const char* name;
    void* data;             /**< the values, contiguous, in the order of the rows */
    size_t bytes;           /**< the size of all values */
    const int64_t* offsets; /**< the offsets of a ragged column or of a column of texts; otherwise NULL */
    size_t offset_count;    /**< the number of offsets; 0 if `offsets` is NULL */
    int64_t width;          /**< the number of values or texts in each row; 0 in a ragged column */
    int32_t dtype;          /**< enum rueda_dtype */
} rueda_data_column;

/**
 * Opens a pipeline. `options` is a JSON object. Its members have the names and defaults of the members of
 * rueda::data::PipelineOptions; "maps" is not allowed. The values of these members have their own form:
 *
 * - "sources": a list of {"kind": "files", "patterns": […]}, {"kind": "fifo", "path": "…"} and {"kind": "sagemaker",
 *   "channel": "…"}; each may have "compression": "automatic", "none", "gzip" or "zstd".
 * - "format": {"type": "examples", "features": [{"name": "…", "dtype": "float32", "length": 1, "missing": 0}, …],
 *   "check_data": true}, {"type": "libsvm", "one_based": …, "fields": …, "query_ids": …}, {"type": "csv", "columns":
 *   [{"name": "…", "dtype": "…", "missing": "nan"}, …], "separator": ",", "header": …, "quotes": …}, {"type":
 *   "tfrecords", "check_data": …} or {"type": "lines"}. The texts "nan", "inf" and "-inf" of "missing" stand for
 * numbers that JSON does not have.
 * - "start": the text "position" of rueda_data_describe.
 *
 * The caller must pass `pipeline` to rueda_data_close.
 */
RUEDA_API int rueda_data_open(const char* options, rueda_data_pipeline** pipeline);
/**
 * Waits until rueda_data_next would return at once, but not longer than `timeout_seconds`. `ready` receives 1 if
 * rueda_data_next would return at once, and 0 after a timeout. A caller that has to handle signals calls this function
 * repeatedly with a short timeout.
 */
RUEDA_API int rueda_data_wait(rueda_data_pipeline* pipeline, double timeout_seconds, int32_t* ready);
/**
 * Waits for the next batch. `batch` receives NULL at the end of each epoch, and again at every call after the last
 * epoch. The caller must pass a batch to rueda_data_batch_release.
 */
RUEDA_API int rueda_data_next(rueda_data_pipeline* pipeline, rueda_data_batch** batch);
/** Returns the number of samples in a batch, and the number of its columns. */
RUEDA_API int rueda_data_batch_size(const rueda_data_batch* batch, int64_t* rows, size_t* columns);
/** Returns a column. The pointers are valid until the batch is released. */
RUEDA_API int rueda_data_batch_column(rueda_data_batch* batch, size_t index, rueda_data_column* column);
/** Releases a batch. A later batch may use its memory. NULL is allowed. */
RUEDA_API void rueda_data_batch_release(rueda_data_batch* batch);
/**
 * Describes a pipeline as a JSON object: {"position": "…", "epoch": 0, "step": 12, "finished": false, "summary": "…",
 * "warnings": ["…"], "statistics": {…}}. "statistics" has the members of rueda::data::Statistics. The caller must pass
 * `text` to rueda_data_free_text.
 */
RUEDA_API int rueda_data_describe(const rueda_data_pipeline* pipeline, char** text);
/** Frees a text. NULL is allowed. */
RUEDA_API void rueda_data_free_text(char* text);
/** Stops the threads of a pipeline, and frees it. Its batches stay valid. NULL is allowed. */
RUEDA_API void rueda_data_close(rueda_data_pipeline* pipeline);

#ifdef __cplusplus
}
#endif

#endif /* RUEDA_DATA_H */
