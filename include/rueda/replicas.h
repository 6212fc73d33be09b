/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/**
 * @file
 * Functions for replicas of a model on the GPUs of one process. They add up tensors of several GPUs, and copy tensors
 * to several GPUs. rueda::training::DeviceReplicas (rueda/training/device_replicas.hpp) uses these functions together
 * with operations among the processes. docs/gpu.md has the details.
 *
 * Every function returns a status code, as in rueda.h, and rueda_last_error() has the message. No function communicates
 * with other processes, and none waits for a GPU: all work is put into streams. Threads: any thread may call every
 * function.
 */
#ifndef RUEDA_REPLICAS_H
#define RUEDA_REPLICAS_H

#include "rueda/rueda.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A team: the replicas of one process. */
typedef struct rueda_device_team rueda_device_team;

/** The options of rueda_device_team_create. Initialise it with RUEDA_DEVICE_TEAM_INIT. */
typedef struct rueda_device_team_options {
    size_t struct_size;
    size_t replicas;                    /**< the number of replicas; 1 to 16 */
    const rueda_device_stream* streams; /**< the device of each replica, and the stream that has the replica's work */
    size_t tensors;                     /**< the number of tensors that each replica has */
    const rueda_tensor* const* data;    /**< data[k] has the tensors of replica k, in the memory of its device. Tensor i
                                             has the same dtype and the same number of elements on all replicas */
    /** Only tensors 0 … summed − 1 may be passed to rueda_device_team_ready. They must have a floating-point dtype. */
    size_t summed;
    double postscale;  /**< factor for the sum or the average */
    int32_t reduce_op; /**< RUEDA_AVERAGE or RUEDA_SUM, over the replicas of this process */
    int32_t reserved;  /**< must be 0 */
} rueda_device_team_options;

#define RUEDA_DEVICE_TEAM_INIT \
    { sizeof(rueda_device_team_options), 0, NULL, 0, NULL, 0, 1.0, RUEDA_AVERAGE, 0 }

/**
 * Makes a team of the replicas of this process. Allocates memory on the GPUs, for parts of the largest summed tensor.
 * Call rueda_init first. Returns RUEDA_UNSUPPORTED if the process can use no GPU, or if Rueda has no kernels for this
 * GPU.
 */
RUEDA_API int rueda_device_team_create(const rueda_device_team_options* options, rueda_device_team** team);
/** Frees the team. The team's memory on the GPUs is freed when the GPUs have done the team's work. NULL is allowed. */
RUEDA_API void rueda_device_team_free(rueda_device_team* team);
/**
 * Writes to `stream` the team's stream on the device of replica 0. If you pass this stream in the options of an
 * operation, the operation begins after the team's sums. If you then call rueda_wait_on_stream with this stream, later
 * copies of the team begin after the operation.
 */
RUEDA_API int rueda_device_team_stream(const rueda_device_team* team, rueda_device_stream* stream);
/**
 * Says that replica `replica` has put all work that writes its tensor `tensor` into its stream. The call for the last
 * replica puts the sum or average over all replicas into the team's streams, and writes 1 to `is_summed`. The calls for
 * the other replicas write 0. The result replaces the tensor of replica 0. Until rueda_device_team_join, the work of
 * the replicas must not use the tensor.
 */
RUEDA_API int rueda_device_team_ready(rueda_device_team* team, size_t replica, size_t tensor, int* is_summed);
/** Makes all later work of the team wait for the work that is in the streams of the replicas now. */
RUEDA_API int rueda_device_team_follow(rueda_device_team* team);
/** Copies a tensor of replica 0 to all other replicas. The copies begin after the work in the team's stream. */
RUEDA_API int rueda_device_team_distribute(rueda_device_team* team, size_t tensor);
/**
 * Makes later work in the streams of all replicas wait for the team's work. The team forgets calls of
 * rueda_device_team_ready for a tensor for which not all replicas have made this call.
 */
RUEDA_API int rueda_device_team_join(rueda_device_team* team);

#ifdef __cplusplus
}
#endif

#endif
