/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/**
 * @file
 * The input pipeline for the interfaces of other languages. The functions wrap rueda::data::Pipeline (docs/data.md).
 * They do not communicate with other processes, and work without rueda_init.
 *
 * Every function that returns an int returns a status code, as in rueda.h. After a failure, rueda_last_error() returns
 * the message. Texts are UTF-8.
 * Threads: one thread at a time may use a pipeline. Any thread may release a batch at any time, even after the pipeline
 * was closed.
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
 * rueda::data::PipelineOptions; "maps" is not allowed. The values of the following members are written as follows:
 *
 * - "sources": a list of {"kind": "files", "patterns": […]}, {"kind": "fifo", "path": "…"}, {"kind": "sagemaker",
 *   "channel": "…"} and, with rueda_data_open_from, {"kind": "memory", "name": "…", "index": 0}; each may have
 *   "compression": "automatic", "none", "gzip" or "zstd".
 * - "format": {"type": "examples", "features": [{"name": "…", "dtype": "float32", "length": 1, "missing": 0}, …],
 *   "check_data": true}, {"type": "libsvm", "one_based": …, "fields": …, "query_ids": …}, {"type": "csv", "columns":
 *   [{"name": "…", "dtype": "…", "missing": "nan"}, …], "separator": ",", "header": …, "quotes": …}, {"type":
 *   "tfrecords", "check_data": …}, {"type": "lines"}, {"type": "safetensors", "tensors": [{"name": "…", "dtype": "…",
 *   "width": 1}, …], "check_data": …} or {"type": "whole_files"}, which has no decode function. The texts "nan", "inf"
 *   and "-inf" of "missing" stand for numbers that JSON does not have.
 * - "remainder": "keep", "drop" or "pad".
 * - "memory": "ordinary"; "resident" for memory that all ranks of the host share (only after rueda_init); or "pinned"
 *   for memory that is registered with the driver of a GPU. The member "device" is the number of this GPU (default 0).
 * - "start": the text "position" of rueda_data_describe.
 *
 * The caller must pass `pipeline` to rueda_data_close.
 */
RUEDA_API int rueda_data_open(const char* options, rueda_data_pipeline** pipeline);
/** A vocabulary that was opened (rueda::data::Vocabulary). */
typedef struct rueda_data_vocabulary rueda_data_vocabulary;
/**
 * Opens a pipeline like rueda_data_open. The options may also have the member "stages", a list of functions for each
 * batch: {"kind": "hash", "columns": ["…"], "buckets": 1000, "seed": 0} and {"kind": "look_up", "columns": ["…"],
 * "vocabulary": 0}, where "vocabulary" is an index into `vocabularies`. These vocabularies must not grow. The pipeline
 * keeps them alive.
 */
RUEDA_API int rueda_data_open_with(const char* options, rueda_data_vocabulary* const* vocabularies, size_t count,
                                   rueda_data_pipeline** pipeline);
/** Bytes of the caller. */
typedef struct rueda_data_bytes {
    const void* bytes; /**< may be NULL if `size` is 0 */
    size_t size;
} rueda_data_bytes;
/**
 * Opens a pipeline like rueda_data_open_with. A source of the kind "memory" reads the bytes of `contents[index]`. The
 * function copies these bytes.
 */
RUEDA_API int rueda_data_open_from(const char* options, rueda_data_vocabulary* const* vocabularies, size_t count,
                                   const rueda_data_bytes* contents, size_t content_count,
                                   rueda_data_pipeline** pipeline);
/**
 * Waits until rueda_data_next can return without waiting, but not longer than `timeout_seconds`. `ready` receives 1, or
 * 0 after a timeout. A caller that has to handle signals calls this function repeatedly with a short timeout.
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
 * "slowest": "…", "warnings": ["…"], "statistics": {…}}. "slowest" is the part of "summary" that names the slowest
 * stage. "statistics" has the members of rueda::data::Statistics. The caller must pass `text` to rueda_data_free_text.
 */
RUEDA_API int rueda_data_describe(const rueda_data_pipeline* pipeline, char** text);
/** Frees a text. NULL is allowed. */
RUEDA_API void rueda_data_free_text(char* text);
/** Stops the threads of a pipeline, and frees the pipeline. Batches that were taken from it stay valid. NULL is
 * allowed.
 */
RUEDA_API void rueda_data_close(rueda_data_pipeline* pipeline);

/** Texts or integers for which a function computes buckets or ids. */
typedef struct rueda_data_terms {
    const char* bytes;       /**< the bytes of all texts */
    size_t byte_count;       /**< the number of these bytes */
    const int64_t* offsets;  /**< count + 1 numbers: text i has the bytes offsets[i] to offsets[i + 1] - 1 */
    const int64_t* integers; /**< integers, which stand for their decimal texts; NULL if the terms are texts */
    size_t count;            /**< the number of texts or integers */
} rueda_data_terms;

/** Computes the bucket of each term (rueda/data/hash.hpp). `ids` has room for terms->count numbers. */
RUEDA_API int rueda_data_hash(const rueda_data_terms* terms, uint64_t seed, int64_t buckets, int64_t* ids);

/**
 * Makes a vocabulary (rueda/data/vocabulary.hpp). `options` is a JSON object with the members of
 * rueda::data::VocabularyOptions, and either "path", the name of a file, or "terms", a list of texts. The caller must
 * pass `vocabulary` to rueda_data_vocabulary_close. Threads: as for rueda::data::Vocabulary.
 */
RUEDA_API int rueda_data_vocabulary_open(const char* options, rueda_data_vocabulary** vocabulary);
/** Finds the id of each term. If `count_unknown` is 1, a growing vocabulary also counts the unknown texts. */
RUEDA_API int rueda_data_vocabulary_look_up(rueda_data_vocabulary* vocabulary, const rueda_data_terms* terms,
                                            int32_t count_unknown, int64_t* ids);
/**
 * Describes a vocabulary as a JSON object: {"size": 7, "ids": 101, "grows": true, "left_out": 0}. The caller must pass
 * `text` to rueda_data_free_text.
 */
RUEDA_API int rueda_data_vocabulary_describe(const rueda_data_vocabulary* vocabulary, char** text);
/** Returns a term. Its bytes do not end with a zero byte, and are valid until the vocabulary changes. */
RUEDA_API int rueda_data_vocabulary_term(const rueda_data_vocabulary* vocabulary, int64_t id, const char** bytes,
                                         size_t* size);
/** Returns rueda::data::Vocabulary::unmerged(). The caller must pass `bytes` to rueda_data_free_text. */
RUEDA_API int rueda_data_vocabulary_unmerged(const rueda_data_vocabulary* vocabulary, char** bytes, size_t* size);
/** Calls rueda::data::Vocabulary::merge(). `added` receives the number of new terms. */
RUEDA_API int rueda_data_vocabulary_merge(rueda_data_vocabulary* vocabulary, const char* bytes, size_t size,
                                          int64_t* added);
/** Returns rueda::data::Vocabulary::state(). The caller must pass `bytes` to rueda_data_free_text. */
RUEDA_API int rueda_data_vocabulary_state(const rueda_data_vocabulary* vocabulary, char** bytes, size_t* size);
/** Calls rueda::data::Vocabulary::restore(). */
RUEDA_API int rueda_data_vocabulary_restore(rueda_data_vocabulary* vocabulary, const char* bytes, size_t size);
/** Calls rueda::data::Vocabulary::save(). */
RUEDA_API int rueda_data_vocabulary_save(const rueda_data_vocabulary* vocabulary, const char* path);
/** Calls rueda::data::Vocabulary::freeze(). */
RUEDA_API int rueda_data_vocabulary_freeze(rueda_data_vocabulary* vocabulary);
/** Frees a vocabulary. Pipelines that use it keep their own reference. NULL is allowed. */
RUEDA_API void rueda_data_vocabulary_close(rueda_data_vocabulary* vocabulary);

/** A TFRecord file that is being written (rueda::data::TfrecordWriter). Threads: one thread at a time may use an
 * object. */
typedef struct rueda_data_writer rueda_data_writer;

/**
 * Creates a TFRecord file, or empties it. `compression` is "automatic", "none" or "gzip". The caller must pass `writer`
 * to rueda_data_writer_release.
 */
RUEDA_API int rueda_data_writer_open(const char* path, const char* compression, rueda_data_writer** writer);
/** Appends a record. */
RUEDA_API int rueda_data_writer_write(rueda_data_writer* writer, const char* bytes, size_t size);
/**
 * Appends a tf.train.Example for each of `rows` samples. Each column becomes a feature. Its list is a float_list for
 * float32, an int64_list for int64, and a bytes_list for texts (uint8 with offsets). A column of numbers with `width` 0
 * needs offsets.
 */
RUEDA_API int rueda_data_writer_write_examples(rueda_data_writer* writer, const rueda_data_column* columns,
                                               size_t count, int64_t rows);
/** Writes the bytes that are still in memory, and closes the file. If this last write fails, for example because the
 * disk is full, only this function reports it. */
RUEDA_API int rueda_data_writer_close(rueda_data_writer* writer);
/** Frees a writer, and closes its file if it is still open. NULL is allowed. */
RUEDA_API void rueda_data_writer_release(rueda_data_writer* writer);

/**
 * Runs the handshake of docs/design/0021-handshake.md on a connected socket. In this handshake, both sides prove that
 * they know the same secret. `accepted` is 1 on the side that accepted the connection, and 0 on the side that opened
 * it. `purpose` is a text that must be the same on both sides. `sending_key` and `receiving_key` receive 32 bytes each:
 * the keys for the codes of later messages. The socket stays open, and belongs to the caller. After a failure the
 * caller must close it. Returns RUEDA_TIMEOUT if the other side sends no proof in time. Returns RUEDA_INVALID_ARGUMENT
 * if the other side does not know the secret or is no process of Rueda. Returns RUEDA_UNSUPPORTED if the other side has
 * ended the connection.
 */
RUEDA_API int rueda_data_prove(int32_t socket, int32_t accepted, const char* secret, const char* purpose,
                               double timeout_seconds, unsigned char* sending_key, unsigned char* receiving_key);

/** The registration of a piece of the program's memory with the driver of a GPU. Any thread may use it. */
typedef struct rueda_data_pinned rueda_data_pinned;
/**
 * Registers memory with the driver of a CUDA device, so that the device can copy from and to the memory while the host
 * goes on. The memory must begin at a page, and stay mapped until rueda_data_unpin. Returns RUEDA_UNSUPPORTED if the
 * process cannot use a GPU, and RUEDA_RESOURCE_EXHAUSTED if the driver cannot pin the memory.
 */
RUEDA_API int rueda_data_pin(void* memory, size_t bytes, int32_t device_index, rueda_data_pinned** pinned);
/** Records that the GPU may use the memory until it has done all work that is in `stream` now. NULL stands for the
 * legacy default stream. */
RUEDA_API int rueda_data_pinned_note_work(rueda_data_pinned* pinned, void* stream);
/** Tells whether the device has done all work that rueda_data_pinned_note_work() has recorded. Does not wait. */
RUEDA_API int rueda_data_pinned_is_idle(rueda_data_pinned* pinned, int32_t* idle);
/**
 * Waits for the recorded work, but not longer than 5 s, and unregisters the memory. If the function fails, the device
 * may still use the memory, so the memory must stay mapped. `pinned` is freed even if the function fails. NULL is
 * allowed.
 */
RUEDA_API int rueda_data_unpin(rueda_data_pinned* pinned);

#ifdef __cplusplus
}
#endif

#endif /* RUEDA_DATA_H */
