/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/*
 * Sizes, offsets and numbers that are compiled into programs (see README.md in this folder). This file is written in C,
 * because such programs may be written in C. It is also run, because the default options are not compile-time
 * constants.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>

#include "rueda/checkpoints.h"
#include "rueda/data.h"
#include "rueda/elastic.h"
#include "rueda/replicas.h"
#include "rueda/rueda.h"

#define MEMBER(type, member, offset, size)                                              \
    static_assert(offsetof(type, member) == (offset), #type "::" #member " has moved"); \
    static_assert(sizeof(((type*)NULL)->member) == (size), #type "::" #member " has another size")
#define NUMBER(name, value) static_assert((name) == (value), #name " has another number")

/* The library is compiled for 64 bits, so its programs must be compiled for 64 bits, too. */
static_assert(sizeof(void*) == 8, "Rueda has been built for 64 bits only");

/* This struct cannot grow: groups take an array of it, so no member can be added. */
static_assert(sizeof(rueda_tensor) == 24, "rueda_tensor has another size");
MEMBER(rueda_tensor, data, 0, 8);
MEMBER(rueda_tensor, shape, 8, 8);
MEMBER(rueda_tensor, ndim, 16, 4);
MEMBER(rueda_tensor, dtype, 20, 4);

/* This struct can grow: struct_size tells how many members the caller has. New members are added at the end. */
static_assert(sizeof(rueda_options) >= 48, "rueda_options has become smaller");
MEMBER(rueda_options, struct_size, 0, 8);
MEMBER(rueda_options, prescale, 8, 8);
MEMBER(rueda_options, postscale, 16, 8);
MEMBER(rueda_options, slot, 24, 8);
MEMBER(rueda_options, reduce_op, 32, 4);
MEMBER(rueda_options, process_set, 36, 4);
MEMBER(rueda_options, compression, 40, 4);
MEMBER(rueda_options, source_file, 48, 8);
MEMBER(rueda_options, source_line, 56, 4);
MEMBER(rueda_options, reserved, 60, 4);
MEMBER(rueda_options, device, 64, 8);
MEMBER(rueda_options, wait_seconds, 72, 8);

/* This struct cannot grow. */
static_assert(sizeof(rueda_device_stream) == 16, "rueda_device_stream has another size");
MEMBER(rueda_device_stream, type, 0, 4);
MEMBER(rueda_device_stream, index, 4, 4);
MEMBER(rueda_device_stream, stream, 8, 8);

/* This struct cannot grow: callers pass an array of it. */
static_assert(sizeof(rueda_rank_list) == 16, "rueda_rank_list has another size");
MEMBER(rueda_rank_list, ranks, 0, 8);
MEMBER(rueda_rank_list, count, 8, 8);

/* This struct can grow. */
static_assert(sizeof(rueda_init_options) >= 64, "rueda_init_options has become smaller");
MEMBER(rueda_init_options, struct_size, 0, 8);
MEMBER(rueda_init_options, ranks, 8, 8);
MEMBER(rueda_init_options, rank_count, 16, 8);
MEMBER(rueda_init_options, communicator, 24, 8);
MEMBER(rueda_init_options, communicator_size, 32, 8);
MEMBER(rueda_init_options, process_sets, 40, 8);
MEMBER(rueda_init_options, process_set_count, 48, 8);
MEMBER(rueda_init_options, process_set_ids, 56, 8);

NUMBER(RUEDA_MAX_NAME, 511);
NUMBER(RUEDA_MAX_DIMENSIONS, 16);
NUMBER(RUEDA_CPU, 0);
NUMBER(RUEDA_CUDA, 1);

/* These structs cannot grow: callers pass arrays of them. */
static_assert(sizeof(rueda_named_tensor) == 32, "rueda_named_tensor has another size");
MEMBER(rueda_named_tensor, name, 0, 8);
MEMBER(rueda_named_tensor, tensor, 8, 24);
static_assert(sizeof(rueda_tensor_part) == 48, "rueda_tensor_part has another size");
MEMBER(rueda_tensor_part, name, 0, 8);
MEMBER(rueda_tensor_part, tensor, 8, 24);
MEMBER(rueda_tensor_part, first_row, 32, 8);
MEMBER(rueda_tensor_part, whole_rows, 40, 8);

/* The library fills this struct, so it cannot grow. */
static_assert(sizeof(rueda_data_column) == 56, "rueda_data_column has another size");
MEMBER(rueda_data_column, name, 0, 8);
MEMBER(rueda_data_column, data, 8, 8);
MEMBER(rueda_data_column, bytes, 16, 8);
MEMBER(rueda_data_column, offsets, 24, 8);
MEMBER(rueda_data_column, offset_count, 32, 8);
MEMBER(rueda_data_column, width, 40, 8);
MEMBER(rueda_data_column, dtype, 48, 4);

/* This struct cannot grow: callers pass an array of it. */
static_assert(sizeof(rueda_data_bytes) == 16, "rueda_data_bytes has another size");
MEMBER(rueda_data_bytes, bytes, 0, 8);
MEMBER(rueda_data_bytes, size, 8, 8);

/* This struct has no struct_size, so no member can be added. */
static_assert(sizeof(rueda_data_terms) == 40, "rueda_data_terms has another size");
MEMBER(rueda_data_terms, bytes, 0, 8);
MEMBER(rueda_data_terms, byte_count, 8, 8);
MEMBER(rueda_data_terms, offsets, 16, 8);
MEMBER(rueda_data_terms, integers, 24, 8);
MEMBER(rueda_data_terms, count, 32, 8);

/* This struct can grow. */
static_assert(sizeof(rueda_snapshot) >= 88, "rueda_snapshot has become smaller");
MEMBER(rueda_snapshot, struct_size, 0, 8);
MEMBER(rueda_snapshot, folder, 8, 8);
MEMBER(rueda_snapshot, step, 16, 8);
MEMBER(rueda_snapshot, model, 24, 8);
MEMBER(rueda_snapshot, model_count, 32, 8);
MEMBER(rueda_snapshot, state, 40, 8);
MEMBER(rueda_snapshot, state_count, 48, 8);
MEMBER(rueda_snapshot, values, 56, 8);
MEMBER(rueda_snapshot, metric, 64, 8);
MEMBER(rueda_snapshot, has_metric, 72, 4);
MEMBER(rueda_snapshot, better, 76, 4);
MEMBER(rueda_snapshot, max_to_keep, 80, 4);
MEMBER(rueda_snapshot, size, 84, 4);
NUMBER(RUEDA_LOWER_IS_BETTER, 0);
NUMBER(RUEDA_HIGHER_IS_BETTER, 1);

NUMBER(RUEDA_OK, 0);
NUMBER(RUEDA_INVALID_ARGUMENT, 1);
NUMBER(RUEDA_DUPLICATE_NAME, 2);
NUMBER(RUEDA_NOT_INITIALIZED, 3);
NUMBER(RUEDA_MISMATCH, 4);
NUMBER(RUEDA_ABORTED, 5);
NUMBER(RUEDA_TIMEOUT, 6);
NUMBER(RUEDA_RESOURCE_EXHAUSTED, 7);
NUMBER(RUEDA_UNSUPPORTED, 8);
NUMBER(RUEDA_INTERNAL, 9);

NUMBER(RUEDA_UINT8, 0);
NUMBER(RUEDA_INT8, 1);
NUMBER(RUEDA_INT32, 2);
NUMBER(RUEDA_INT64, 3);
NUMBER(RUEDA_FLOAT16, 4);
NUMBER(RUEDA_BFLOAT16, 5);
NUMBER(RUEDA_FLOAT32, 6);
NUMBER(RUEDA_FLOAT64, 7);
NUMBER(RUEDA_BOOL, 8);
NUMBER(RUEDA_INT16, 9);
NUMBER(RUEDA_UINT16, 10);
NUMBER(RUEDA_UINT32, 11);
NUMBER(RUEDA_UINT64, 12);
NUMBER(RUEDA_FLOAT8_E4M3FN, 13);
NUMBER(RUEDA_FLOAT8_E5M2, 14);

NUMBER(RUEDA_AVERAGE, 0);
NUMBER(RUEDA_SUM, 1);
NUMBER(RUEDA_ADASUM, 2);
NUMBER(RUEDA_MIN, 3);
NUMBER(RUEDA_MAX, 4);
NUMBER(RUEDA_PRODUCT, 5);

NUMBER(RUEDA_COMPRESSION_NONE, 0);
NUMBER(RUEDA_COMPRESSION_FP16, 1);
NUMBER(RUEDA_COMPRESSION_BF16, 2);

NUMBER(RUEDA_ANY_PEER, -1);
NUMBER(RUEDA_JOIN_AVERAGE_ALL, 0);
NUMBER(RUEDA_JOIN_AVERAGE_ACTIVE, 1);
NUMBER(RUEDA_SLOTS_ADDED, 1);
NUMBER(RUEDA_SLOTS_REMOVED, 2);

static int fail(const char* what) {
    fprintf(stderr, "%s: programs that begin with the defaults rely on it\n", what);
    return 1;
}

static int check_init_options(void) {
    const rueda_init_options options = RUEDA_INIT_OPTIONS_INIT;
    if (options.struct_size != sizeof(rueda_init_options)) {
        return fail("struct_size of rueda_init_options is not the size");
    }
    if (options.ranks != NULL || options.rank_count != 0 || options.communicator != NULL ||
        options.communicator_size != 0) {
        return fail("the job is not that of all ranks");
    }
    if (options.process_sets != NULL || options.process_set_count != 0 || options.process_set_ids != NULL) {
        return fail("there are process sets from the start");
    }
    return 0;
}

static int check_snapshot(void) {
    const rueda_snapshot snapshot = RUEDA_SNAPSHOT_INIT;
    if (snapshot.struct_size != sizeof(rueda_snapshot)) {
        return fail("struct_size of rueda_snapshot is not the size");
    }
    if (snapshot.model_count != 0 || snapshot.state_count != 0 || snapshot.values != NULL || snapshot.has_metric != 0) {
        return fail("the snapshot is not empty");
    }
    if (snapshot.better != RUEDA_LOWER_IS_BETTER || snapshot.max_to_keep != 3 || snapshot.size != 1) {
        return fail("the snapshot keeps other checkpoints");
    }
    return 0;
}

static int check_device_team(void) {
    const rueda_device_team_options team = RUEDA_DEVICE_TEAM_INIT;
    if (team.struct_size != sizeof(rueda_device_team_options) || sizeof(rueda_device_team_options) != 64) {
        return fail("struct_size of rueda_device_team_options is not the size, which is 64");
    }
    if (team.replicas != 0 || team.streams != NULL || team.tensors != 0 || team.data != NULL || team.summed != 0) {
        return fail("the device team is not empty");
    }
    if (team.postscale != 1.0 || team.reduce_op != RUEDA_AVERAGE || team.reserved != 0) {
        return fail("the device team does not average");
    }
    return 0;
}

int main(void) {
    const rueda_options options = RUEDA_OPTIONS_INIT;
    if (options.struct_size != sizeof(rueda_options)) {
        return fail("struct_size is not the size");
    }
    if (options.prescale != 1.0 || options.postscale != 1.0) {
        return fail("a factor is not 1");
    }
    if (options.slot != NULL || options.process_set != 0) {
        return fail("the operation is not one of the world by its name");
    }
    if (options.compression != RUEDA_COMPRESSION_NONE) {
        return fail("the tensor is compressed");
    }
    if (options.wait_seconds != 0.0) {
        return fail("the start of an operation waits");
    }
    if (options.reduce_op != RUEDA_AVERAGE) {
        return fail("the reduction is not the average");
    }
    return check_snapshot() != 0 || check_device_team() != 0 ? 1 : check_init_options();
}
