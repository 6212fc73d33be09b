// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A C program for mpirun that calls init again during a job. Rueda must accept the same communicator, or another
// communicator of the same processes in the same order. Rueda must refuse a communicator of other processes, and one
// with a different order. The exit status is 1 if a check failed; the failure is on standard error.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "rueda/rueda.h"

namespace {

void expect(bool holds, const char* what) {
    if (!holds) {
        std::fprintf(stderr, "%s: %s\n", what, rueda_last_error());
        std::exit(1);
    }
}

int init(MPI_Comm communicator) { return rueda_init_communicator(&communicator, sizeof communicator); }

void expect_refused(MPI_Comm communicator, const char* what) {
    expect(init(communicator) == RUEDA_INVALID_ARGUMENT, what);
    const std::string text = rueda_last_error();
    expect(text.find("this process is in a job already, of the ranks") != std::string::npos, what);
    expect(text.find("call rueda::shutdown() before") != std::string::npos, what);
}

}  // namespace

int main(int argc, char** argv) {
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm same = MPI_COMM_NULL;
    MPI_Comm turned = MPI_COMM_NULL;
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &same);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);

    expect(init(MPI_COMM_WORLD) == RUEDA_OK, "a communicator");
    expect(init(MPI_COMM_WORLD) == RUEDA_OK, "the same communicator again");
    expect(init(same) == RUEDA_OK, "another communicator of the same processes");
    expect(rueda_init() == RUEDA_OK, "no communicator");
    expect_refused(turned, "the same processes in another order");
    expect_refused(half, "some of the processes");
    expect_refused(MPI_COMM_NULL, "no process");
    const char none = 0;
    expect(rueda_init_communicator(&none, sizeof none) == RUEDA_INVALID_ARGUMENT, "no communicator at all");
    expect(rueda_barrier(nullptr) == RUEDA_OK, "the job goes on");
    expect(rueda_shutdown() == RUEDA_OK, "shutdown");

    // The ranks of this job have a different order than in the launch. Rueda recognises the job by the communicator
    // alone.
    expect(init(turned) == RUEDA_OK, "in another order");
    expect(init(turned) == RUEDA_OK, "in another order again");
    expect_refused(MPI_COMM_WORLD, "the order of the launch");
    expect(rueda_shutdown() == RUEDA_OK, "the second shutdown");

    // The members of a process set are given as ranks of the communicator.
    std::vector<std::int32_t> members(static_cast<std::size_t>(size - 1));
    std::iota(members.begin(), members.end(), 0);
    const rueda_rank_list list{members.data(), members.size()};
    std::int32_t id = -1;
    rueda_init_options options = RUEDA_INIT_OPTIONS_INIT;
    options.communicator = &turned;
    options.communicator_size = sizeof turned;
    options.process_sets = &list;
    options.process_set_count = 1;
    options.process_set_ids = &id;
    expect(rueda_init_with(&options) == RUEDA_OK, "a communicator with process sets");
    int included = -1;
    expect(rueda_process_set_included(id, &included) == RUEDA_OK && included == (rank != 0 ? 1 : 0), "who is in it");
    expect(rueda_shutdown() == RUEDA_OK, "the shutdown of the job with process sets");

    // After the abort, Rueda must make no more calls to MPI.
    expect(init(MPI_COMM_WORLD) == RUEDA_OK, "the last job");
    MPI_Barrier(MPI_COMM_WORLD);  // every rank must have left init before rank 0 aborts
    if (rank == 0) {
        expect(rueda_abort("for a test") == RUEDA_OK, "the abort");
    }
    expect(rueda_barrier(nullptr) == RUEDA_ABORTED, "a barrier after the abort");
    for (const MPI_Comm communicator : {MPI_COMM_WORLD, turned, MPI_COMM_NULL}) {
        expect(init(communicator) == RUEDA_ABORTED, "a second init after the abort");
        expect(std::string(rueda_last_error()).starts_with("init: the job that this process is in was aborted"),
               "why there is no second init");
    }
    expect(rueda_shutdown() == RUEDA_OK, "the last shutdown");
    MPI_Finalize();
    return 0;
}
