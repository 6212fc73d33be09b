// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::base {

/// Whether an MPI says that it can send memory of NVIDIA's GPUs. Calls MPIX_GPU_query_support (MPICH from 4.0 on) or,
/// if this MPI does not have it, MPIX_Query_cuda_support (Open MPI). MPICH has both functions, but in some versions its
/// MPIX_Query_cuda_support ends the process. An MPI without both functions cannot send such memory. Call this only
/// after MPI_Init: before MPI_Init, MPICH ends the process, and Open MPI always says no. `find(name)` returns the
/// address of a function of this MPI, or null.
template <class Find>
[[nodiscard]] bool is_cuda_aware_mpi(const Find& find) {
    if (void* const query = find("MPIX_GPU_query_support"); query != nullptr) {
        constexpr int kCuda = 0;  // MPIX_GPU_SUPPORT_CUDA
        int is_supported = 0;
        return reinterpret_cast<int (*)(int, int*)>(query)(kCuda, &is_supported) == 0 && is_supported == 1;
    }
    if (void* const query = find("MPIX_Query_cuda_support"); query != nullptr) {
        return reinterpret_cast<int (*)()>(query)() == 1;
    }
    return false;
}

}  // namespace rueda::base
