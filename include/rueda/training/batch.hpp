// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The size of a batch on one worker and over all workers.
#pragma once

#include <cstdint>
#include <string>

#include "rueda/rueda.h"

namespace rueda::training {

/// What BatchOptions::size counts.
enum class BatchMeaning : std::int32_t {
    global,      ///< the samples of one step over all workers
    per_worker,  ///< the samples of one step on each worker
};

/// What happens if a global batch is not a multiple of the number of workers.
enum class Indivisible : std::int32_t {
    refuse,      ///< plan_batch() throws InvalidArgument
    round_down,  ///< the global batch becomes the next smaller multiple, which must not be 0
    round_up,    ///< the global batch becomes the next larger multiple
};

struct BatchOptions {
    std::int64_t size = 0;  ///< ≥ 1
    BatchMeaning meaning = BatchMeaning::global;
    int workers = 1;  ///< usually rueda::size(); ≥ 1
    Indivisible indivisible = Indivisible::refuse;
};

struct Batch {
    std::int64_t global = 0;      ///< for SamplerOptions::batch
    std::int64_t per_worker = 0;  ///< global / workers
    /// One line for the log, for example "batch: 104 samples over 4 workers, 26 on each (rounded up from 100)".
    std::string summary;
};

/// Computes both sizes of a batch. All workers have equally many samples. Throws InvalidArgument in three cases: an
/// option is out of its range, a size does not fit into 64 bits, or the batch is no multiple of the number of workers
/// and cannot be rounded. In the last case, the message contains the next multiples of the number of workers.
[[nodiscard]] RUEDA_API Batch plan_batch(const BatchOptions& options);

}  // namespace rueda::training
