// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <rueda/rueda.hpp>
#include <rueda/training/elastic.hpp>
#include <string>

// Trains for 60 steps. In step 25 of the first generation, the last rank kills itself. The processes of the other ranks
// continue from the last commit:
//   ruedarun --no-mpi -np 3 --min-np 2 09_elastic
int main() {
    rueda::init();
    std::array<double, 1> slope = {0.0};
    std::array<std::int64_t, 1> step = {0};
    // The arguments are all values that the training changes. When ranks have left or joined, all ranks get them from
    // rank 0.
    rueda::training::Elastic elastic({{"slope", slope}, {"step", step}});

    elastic.run([&] {
        for (; step[0] < 60; ++step[0]) {
            if (step[0] % 10 == 0) {
                elastic.commit();  // a failure loses only the steps after the last commit
            }
            const char* const generation = std::getenv("RUEDARUN_GENERATION");
            if (step[0] == 25 && generation != nullptr && std::string(generation) == "0" &&
                rueda::rank() == rueda::size() - 1) {
                std::raise(SIGKILL);
            }
            // All ranks compute with the same x, so the result does not depend on their number.
            const double x = 1.0 + static_cast<double>(step[0] % 3);
            std::array<double, 1> gradient = {2.0 * x * (slope[0] * x - 3.0 * x)};
            rueda::allreduce("gradient", gradient);
            slope[0] -= 0.01 * gradient[0];
        }
    });
    std::printf("rank %d of %d, process %d: %d steps, slope %.3f\n", rueda::rank(), rueda::size(),
                static_cast<int>(::getpid()), static_cast<int>(step[0]), slope[0]);
    rueda::shutdown();
}
