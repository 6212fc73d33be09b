/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/* An MPI program for the tests of ruedarun. All ranks synchronise. Then rank 1 ends first. The argument says how
it ends. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { kAbortCode = 7, kExitCode = 3 };

static void fail(const char* how) {
    if (strcmp(how, "kill") == 0) {
        raise(SIGKILL);
    } else if (strcmp(how, "abort") == 0) {
        MPI_Abort(MPI_COMM_WORLD, kAbortCode);
    } else if (strcmp(how, "exit") == 0) {
        _exit(kExitCode);
    }
}

/* Ends without another MPI call, as a surviving rank of Rueda does. */
static void survive(int tenths) {
    for (int i = 0; i < tenths; ++i) {
        usleep(100000);
        printf("alive %d\n", i);
        fflush(stdout);
    }
    _exit(1);
}

int main(int argc, char** argv) {
    const char* how = argc > 1 ? argv[1] : "well";
    int rank = 0;
    int sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("sum %d\n", sum);
    fflush(stdout);
    if (strcmp(how, "well") != 0) {
        if (rank == 1) {
            fail(how);
        }
        survive(25);
    }
    MPI_Finalize();
    return 0;
}
