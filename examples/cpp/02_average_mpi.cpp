// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <mpi.h>

#include <cstdio>
#include <vector>

// The same program as 02_average.cpp in plain MPI. MPI has sums but no averages. MPI matches calls by their order:
// ranks that call in different orders get wrong results or wait forever.
int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<float> gradient(1000, static_cast<float>(rank));
    MPI_Allreduce(MPI_IN_PLACE, gradient.data(), static_cast<int>(gradient.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (float& each : gradient) {
        each /= static_cast<float>(size);
    }
    std::printf("rank %d: average %.2f\n", rank, gradient[0]);
    MPI_Finalize();
}
