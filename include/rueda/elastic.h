/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/**
 * @file
 * Functions for elastic jobs, whose ranks may change while they run (docs/elastic.md). ruedarun starts an elastic job
 * if it gets --min-np, --max-np or --host-discovery-script. In such a job, each rueda_init waits until ruedarun has
 * chosen the ranks of the next generation. After an abort, a surviving process may therefore call rueda_shutdown and
 * rueda_init, and go on together with the other survivors. C++ and Python programs use rueda::training::Elastic and
 * rueda.torch.elastic instead of these functions.
 *
 * Threads: any thread may call every function.
 */
#ifndef RUEDA_ELASTIC_H
#define RUEDA_ELASTIC_H

#include "rueda/rueda.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Changes of the slots (the places for processes) of an elastic job, as bits. */
enum rueda_slot_changes {
    RUEDA_SLOTS_ADDED = 1,  /**< new processes wait to join the job */
    RUEDA_SLOTS_REMOVED = 2 /**< processes of the job have no slot any more */
};

/**
 * Returns 1 if this process belongs to an elastic job that can go on after an abort, otherwise 0. Before the first
 * rueda_init the result is 0.
 */
RUEDA_API int rueda_is_elastic(void);

/**
 * Writes to `changes` how the slots have changed since the last call of this function in this generation, as bits of
 * enum rueda_slot_changes. Ranks learn of a change at different times. So one rank should send its bits to all ranks,
 * and all ranks should act on these bits. To let ranks join or leave, all ranks then call rueda_shutdown and
 * rueda_init. rueda_take_slot_changes makes one system call.
 */
RUEDA_API int rueda_take_slot_changes(int32_t* changes);

#ifdef __cplusplus
}
#endif

#endif
