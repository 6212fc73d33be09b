// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A library for LD_PRELOAD. It changes the time that a process reads, as if an administrator had set the clock. The
// environment variable CLOCK_JUMP_FILE names a file with a 64-bit integer. The library adds this number of seconds to
// CLOCK_REALTIME. Only the processes of the job see the changed time; the clock of the machine stays as it is.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* jump_seconds;

__attribute__((constructor)) static void map_file(void) {
    const char* const name = getenv("CLOCK_JUMP_FILE");
    const int fd = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    void* const memory = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *jump_seconds, PROT_READ, MAP_SHARED, fd, 0);
    jump_seconds = memory == MAP_FAILED ? NULL : memory;
    if (fd >= 0) {
        close(fd);
    }
}

int clock_gettime(clockid_t clock, struct timespec* result) {
    const int status = (int)syscall(SYS_clock_gettime, clock, result);
    if (status == 0 && jump_seconds != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        result->tv_sec += *jump_seconds;
    }
    return status;
}

int gettimeofday(struct timeval* restrict result, void* restrict zone) {
    (void)zone;
    struct timespec time;
    const int status = clock_gettime(CLOCK_REALTIME, &time);
    result->tv_sec = time.tv_sec;
    result->tv_usec = time.tv_nsec / 1000;
    return status;
}

time_t time(time_t* result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result != NULL) {
        *result = now.tv_sec;
    }
    return now.tv_sec;
}
