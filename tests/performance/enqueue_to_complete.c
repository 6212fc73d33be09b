/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/* A job of one rank that runs an operation several times, inside the function measured(), and checks the results.
 * Usage: enqueue_to_complete slot|name|asynchronous|message ROUNDS */
#include <rueda/rueda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTensors = 161 }; /* the number of gradients of ResNet-50 */

static float values[kTensors];
static char names[kTensors][32];
static rueda_handle* handles[kTensors];

static void require(int status) {
    if (status != RUEDA_OK) {
        fprintf(stderr, "%s\n", rueda_last_error());
        exit(1);
    }
}

static rueda_tensor view(float* value) {
    static const int64_t shape[1] = {1};
    rueda_tensor tensor = {value, shape, 1, RUEDA_FLOAT32};
    return tensor;
}

/* callgrind finds the function by this name, and counts the instructions inside it. */
__attribute__((noinline)) void measured(const char* how, rueda_options* options, int rounds) {
    if (strcmp(how, "asynchronous") == 0) {
        for (int i = 0; i < rounds; ++i) {
            for (int k = 0; k < kTensors; ++k) {
                const rueda_tensor tensor = view(&values[k]);
                require(rueda_allreduce_async(names[k], &tensor, &tensor, options, &handles[k]));
            }
            for (int k = 0; k < kTensors; ++k) {
                require(rueda_wait(handles[k], -1));
                rueda_handle_release(handles[k]);
            }
        }
        return;
    }
    const rueda_tensor tensor = view(&values[0]);
    if (strcmp(how, "message") == 0) {
        /* The rank sends to itself. */
        const rueda_tensor received = view(&values[1]);
        for (int i = 0; i < rounds; ++i) {
            require(rueda_receive_async(&received, 0, 7, options, &handles[0]));
            require(rueda_send(&tensor, 0, 7, options));
            require(rueda_wait(handles[0], -1));
            rueda_handle_release(handles[0]);
        }
        return;
    }
    for (int i = 0; i < rounds; ++i) {
        require(rueda_allreduce(names[0], &tensor, &tensor, options));
    }
}

int main(int argc, char** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s slot|name|asynchronous ROUNDS\n", argv[0]);
        return 2;
    }
    const int rounds = atoi(argv[2]);
    require(rueda_init());
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.reduce_op = RUEDA_SUM;
    options.postscale = 0.5;
    for (int k = 0; k < kTensors; ++k) {
        snprintf(names[k], sizeof(names[k]), "layer%d.weight", k);
    }
    if (strcmp(argv[1], "slot") == 0) {
        require(rueda_slot_create(names[0], &options.slot));
    }
    /* The first use of a name needs a full negotiation. From the second use on, each round costs the same. */
    measured(argv[1], &options, 2);
    for (int k = 0; k < kTensors; ++k) {
        values[k] = 1024.0F;
    }
    if (rounds > 0) {
        measured(argv[1], &options, rounds);
    }
    float expected = 1024.0F;
    for (int i = 0; i < rounds && strcmp(argv[1], "message") != 0; ++i) {
        expected *= 0.5F;
    }
    const int reduced = strcmp(argv[1], "asynchronous") == 0 ? kTensors : 1;
    for (int k = 0; k < reduced; ++k) {
        if (values[k] != expected) {
            fprintf(stderr, "value %d is %g instead of %g\n", k, (double)values[k], (double)expected);
            return 1;
        }
    }
    rueda_slot_destroy(options.slot);
    require(rueda_shutdown());
    return 0;
}
