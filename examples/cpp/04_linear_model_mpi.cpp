// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

// The same program as 04_linear_model.cpp in plain MPI. The program itself shuffles the samples and divides them among
// the ranks.
int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<double> model = {0.1 * rank, 0.0};  // slope, offset
    MPI_Bcast(model.data(), 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);

    std::vector<int> samples(64);
    std::iota(samples.begin(), samples.end(), 0);
    std::mt19937 random(0);  // with the same seed, all ranks get the same order
    constexpr int kBatch = 16;
    for (int epoch = 0; epoch < 100; ++epoch) {
        std::shuffle(samples.begin(), samples.end(), random);
        for (int begin = 0; begin < static_cast<int>(samples.size()); begin += kBatch) {
            std::vector<double> gradient = {0.0, 0.0};
            for (int i = begin + rank; i < begin + kBatch; i += size) {
                const double x = samples[static_cast<std::size_t>(i)] / 32.0;
                const double error = model[0] * x + model[1] - (3.0 * x + 2.0);
                gradient[0] += 2.0 * error * x;
                gradient[1] += 2.0 * error;
            }
            MPI_Allreduce(MPI_IN_PLACE, gradient.data(), 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            model[0] -= 0.1 * gradient[0] / kBatch;
            model[1] -= 0.1 * gradient[1] / kBatch;
        }
    }
    std::printf("rank %d: slope %.3f, offset %.3f\n", rank, model[0], model[1]);
    MPI_Finalize();
}
