/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/*
 * Stands in for libnvidia-ml.so.1. The file that FAKE_NVML names has a line for each GPU:
 *     utilization in percent, used bytes, total bytes, and the numbers of the processes that compute on it.
 * A negative number means that the GPU does not tell that value. Without the file there is no driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSuccess = 0, kNotSupported = 3, kInsufficientSize = 7, kDriverNotLoaded = 9 };
enum { kMostGpus = 8, kLine = 512 };

typedef struct {
    unsigned gpu;
    unsigned memory;
} Utilization;

typedef struct {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
} Memory;

typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance;
    unsigned compute_instance;
} Process;

/* The handle of a GPU is the address of its element in this array. */ static char handles[kMostGpus];

/* Reads the line of a GPU. Returns 0 if the file has no such line. */
static int read_line(unsigned index, char* line) {
    const char* const name = getenv("FAKE_NVML");
    FILE* const file = name != NULL ? fopen(name, "r") : NULL;
    int found = 0;
    if (file == NULL) {
        return 0;
    }
    for (unsigned at = 0; at <= index; ++at) {
        found = fgets(line, kLine, file) != NULL;
    }
    fclose(file);
    return found;
}

static int read_values(void* device, long long* utilization, long long* used, long long* total, char* pids) {
    char line[kLine];
    int length = 0;
    if (!read_line((unsigned)((char*)device - handles), line) ||
        sscanf(line, "%lld %lld %lld%n", utilization, used, total, &length) != 3) {
        return 0;
    }
    strcpy(pids, line + length);
    return 1;
}

int nvmlInit_v2(void) {
    const char* const name = getenv("FAKE_NVML");
    FILE* const file = name != NULL ? fopen(name, "r") : NULL;
    if (file == NULL) {
        return kDriverNotLoaded;
    }
    fclose(file);
    return kSuccess;
}

int nvmlShutdown(void) { return kSuccess; }

int nvmlDeviceGetCount_v2(unsigned* count) {
    char line[kLine];
    *count = 0;
    while (*count < kMostGpus && read_line(*count, line)) {
        ++*count;
    }
    return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    *device = &handles[index];
    return kSuccess;
}

int nvmlDeviceGetUtilizationRates(void* device, Utilization* read) {
    long long utilization, used, total;
    char pids[kLine];
    if (!read_values(device, &utilization, &used, &total, pids) || utilization < 0) {
        return kNotSupported;
    }
    read->gpu = (unsigned)utilization;
    read->memory = 0;
    return kSuccess;
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* read) {
    long long utilization, used, total;
    char pids[kLine];
    if (!read_values(device, &utilization, &used, &total, pids) || used < 0) {
        return kNotSupported;
    }
    read->total = (unsigned long long)total;
    read->used = (unsigned long long)used;
    read->free = (unsigned long long)(total - used);
    return kSuccess;
}

int nvmlDeviceGetComputeRunningProcesses_v2(void* device, unsigned* count, Process* processes) {
    long long utilization, used, total;
    char pids[kLine];
    unsigned found = 0;
    if (!read_values(device, &utilization, &used, &total, pids)) {
        return kNotSupported;
    }
    for (char* word = strtok(pids, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        if (found < *count) {
            processes[found].pid = (unsigned)strtoul(word, NULL, 10);
            processes[found].used = ~0ULL; /* NVML does not tell this size inside a container */
            processes[found].gpu_instance = processes[found].compute_instance = ~0U;
        }
        ++found;
    }
    const int is_enough = found <= *count;
    *count = found;
    return is_enough ? kSuccess : kInsufficientSize;
}
