// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <vector>

// The same program as 03_overlap.cpp in plain MPI. All ranks have to start the operations in the same order. Most MPI
// libraries move large messages only inside MPI calls, so little data moves before MPI_Waitall.
int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    constexpr std::size_t kLayers = 4;
    std::vector<std::vector<float>> gradients(kLayers, std::vector<float>(100'000));
    std::vector<MPI_Request> requests(kLayers);

    for (std::size_t layer = kLayers; layer-- > 0;) {
        for (float& each : gradients[layer]) {  // stands for the computation of a real layer
            each = std::sqrt(static_cast<float>(layer * layer)) * static_cast<float>(rank + 1);
        }
        MPI_Iallreduce(MPI_IN_PLACE, gradients[layer].data(), static_cast<int>(gradients[layer].size()), MPI_FLOAT,
                       MPI_SUM, MPI_COMM_WORLD, &requests[layer]);
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    std::printf("rank %d: average of layer 3: %.2f\n", rank, gradients[3][0] / static_cast<float>(size));
    MPI_Finalize();
}
