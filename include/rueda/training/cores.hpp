// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Divides the cores of a host among the threads of its ranks.
#pragma once

#include <string>

#include "rueda/rueda.h"

namespace rueda::training {

/// The number of threads with which this rank computes, and how it was chosen.
struct Cores {
    int threads = 1;
    bool is_set_by_user = false;  ///< true if OMP_NUM_THREADS has a number; use_cores() then changes nothing
    std::string summary;          ///< one line for the log: how many threads each rank has, and why
};

/// Sets the number of threads of the libraries that compute in this process, so that the ranks of a host together have
/// no more threads than cores (threads_per_rank()). Call it after init(), in the thread that computes. Use it in
/// programs that mpirun or srun starts. If ruedarun or the user has set OMP_NUM_THREADS,
/// use_cores() changes nothing. If the value of OMP_NUM_THREADS is no number above 0, use_cores() does the same as if
/// the variable were not set, and the summary names the value.
///
/// The function sets the threads of OpenMP (GNU, LLVM, Intel), OpenBLAS and MKL, if the program uses these libraries.
/// With the OpenMP of LLVM or Intel, threads without work sleep after 1 ms, unless KMP_BLOCKTIME is set. By default
/// they would spin for 200 ms, while this rank waits for other ranks. The number of OpenMP's threads is set for the
/// calling thread only. So it is not set for the threads of Replicas. The function does not communicate. Throws
/// NotInitialized before init().
RUEDA_API Cores use_cores();

}  // namespace rueda::training
