/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/*
 * Stands in for libnvidia-ml.so.1. The file that FAKE_NVML names has a line for each GPU:
 *     utilization in percent, used bytes, total bytes, and the numbers of the processes that compute on it.
 * If a file with the same name and ".<name of the host>" at its end exists, that file is used instead.
 * A negative number means that the GPU does not tell that value. Without the file there is no driver.
 * GPU n has the UUID GPU-<n>0000000-…, and the PCI bus address 00000000:0<n>:00.0. Its name is "Fake GPU", or the text
 * after a '#' at the end of its line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

typedef struct {
    char old_address[16];
    unsigned numbers[5];
    char address[32];
} PciInfo;

/* The handle of a GPU is the address of its element in this array. */
static char handles[kMostGpus];

static FILE* open_list(void) {
    const char* const name = getenv("FAKE_NVML");
    char host[kLine / 4] = "";
    char of_host[kLine];
    if (name == NULL || gethostname(host, sizeof(host) - 1) != 0) {
        return NULL;
    }
    snprintf(of_host, sizeof(of_host), "%s.%s", name, host);
    FILE* const file = fopen(of_host, "r");
    return file != NULL ? file : fopen(name, "r");
}

/* Reads the line of a GPU. Returns 0 if the file has no such line. */
static int read_line(unsigned index, char* line) {
    FILE* const file = open_list();
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

static unsigned index_of(void* device) { return (unsigned)((char*)device - handles); }

int nvmlInit_v2(void) {
    FILE* const file = open_list();
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
    pids[strcspn(pids, "#")] = '\0';
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

int nvmlDeviceGetUUID(void* device, char* text, unsigned bytes) {
    const int length = snprintf(text, bytes, "GPU-%u0000000-0000-0000-0000-000000000000", index_of(device));
    return length > 0 && (unsigned)length < bytes ? kSuccess : kInsufficientSize;
}

int nvmlDeviceGetName(void* device, char* text, unsigned bytes) {
    char line[kLine];
    const char* name = read_line(index_of(device), line) ? strchr(line, '#') : NULL;
    line[strcspn(line, "\n")] = '\0';
    const int length = snprintf(text, bytes, "%s", name != NULL ? name + 1 : "Fake GPU");
    return length > 0 && (unsigned)length < bytes ? kSuccess : kInsufficientSize;
}

int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
    memset(info, 0, sizeof(*info));
    snprintf(info->address, sizeof(info->address), "00000000:0%u:00.0", index_of(device) % 10);
    return kSuccess;
}

int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
    const int length = snprintf(text, bytes, "580.95.05");
    return length > 0 && (unsigned)length < bytes ? kSuccess : kInsufficientSize;
}
