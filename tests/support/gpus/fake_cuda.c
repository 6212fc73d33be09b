/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/*
 * Stands in for libcuda.so.1 in tests which check that no code of Rueda loads CUDA. When this library is loaded, and
 * when cuInit is called, it adds a line to the file that FAKE_CUDA_MARK names.
 */
#include <stdio.h>
#include <stdlib.h>

static void mark(const char* what) {
    const char* const name = getenv("FAKE_CUDA_MARK");
    FILE* const file = name != NULL ? fopen(name, "a") : NULL;
    if (file != NULL) {
        fprintf(file, "%s\n", what);
        fclose(file);
    }
}

__attribute__((constructor)) static void note_load(void) { mark("loaded"); }

int cuInit(unsigned flags) {
    (void)flags;
    mark("cuInit");
    return 0;
}
