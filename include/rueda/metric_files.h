/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/**
 * @file
 * Files of metrics for the interfaces of other languages. The functions write the same files as
 * rueda::training::MetricsWriter. They do not communicate with other processes, and work without rueda_init. Only one
 * rank should call them.
 *
 * Every function that returns an int returns a status code, as in rueda.h, and rueda_last_error() has the message.
 * Threads: one thread at a time may use an object.
 */
#ifndef RUEDA_METRIC_FILES_H
#define RUEDA_METRIC_FILES_H

#include "rueda/rueda.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Files that were opened. */
typedef struct rueda_metric_files rueda_metric_files;

/**
 * Opens files of metrics in the folder. Creates the folder if it does not exist. `formats` is a list such as
 * "csv,jsonl,tensorboard". `first_step` is MetricsWriterOptions::first_step. The caller must pass `files` to
 * rueda_metric_files_release.
 */
RUEDA_API int rueda_metric_files_open(const char* folder, const char* formats, int64_t first_step,
                                      rueda_metric_files** files);
/** Writes the metrics of a step: `count` names (UTF-8) and values. */
RUEDA_API int rueda_metric_files_write(rueda_metric_files* files, int64_t step, const char* const* names,
                                       const double* values, size_t count);
/** Flushes the files to the disk and closes them. */
RUEDA_API int rueda_metric_files_close(rueda_metric_files* files);
/** Frees the object, and closes the files if they are still open. NULL is allowed. */
RUEDA_API void rueda_metric_files_release(rueda_metric_files* files);

#ifdef __cplusplus
}
#endif

#endif /* RUEDA_METRIC_FILES_H */
