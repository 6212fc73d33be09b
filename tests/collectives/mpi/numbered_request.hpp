// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstring>

#include "collectives/mpi/mpi_api.hpp"

namespace rueda::tests {

/// A request of an MPI that stands in for one. What MPI_Request is differs: a pointer, or an int.
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
