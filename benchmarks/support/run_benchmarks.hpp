// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <benchmark/benchmark.h>

namespace rueda::benchmarks {

/// Runs the benchmarks that were registered, and returns the exit status. Status 2 means that there is an unknown
/// option.
inline int run_benchmarks(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 2;
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

}  // namespace rueda::benchmarks
