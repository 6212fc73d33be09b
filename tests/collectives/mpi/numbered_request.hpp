// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstring>

#include "collectives/mpi/mpi_api.hpp"

namespace rueda::tests {

/// Returns an MPI_Request that contains a number. MPI_Request is a pointer in one MPI and an int in another.
inline MPI_Request request_of(int number) {
    MPI_Request request{};
    std::memcpy(&request, &number, sizeof(number));
    return request;
}
inline int number_of(const MPI_Request& request) {
    int number = 0;
    std::memcpy(&number, &request, sizeof(number));
    return number;
}

}  // namespace rueda::tests
