// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/pipeline/host_share.hpp"
#include "rueda/data/pipeline.hpp"

namespace rueda::data {

/// The records that this rank takes from one lane. docs/design/0023-data.md defines the words and the rules.
struct LanePlan {
    std::int64_t lane = 0;
    std::int64_t per_step = 0;     ///< number of records that all ranks take from the lane for a full global batch
    std::int64_t share_begin = 0;  ///< index of the first of the `per_step` records that this rank takes
    std::int64_t share_end = 0;    ///< index behind the last of the `per_step` records that this rank takes
    std::int64_t window = 0;       ///< number of records in a window; 0 if the records are not permuted
};

/// Whether at least one of the sources is a FIFO.
[[nodiscard]] bool has_fifo(const PipelineOptions& options);

/// Returns the lanes from which this rank takes samples.
[[nodiscard]] std::vector<LanePlan> plan_lanes(const PipelineOptions& options);

/// Returns the indices of the sources that a lane reads in an epoch, in order.
[[nodiscard]] std::vector<std::uint32_t> order_of_sources(const PipelineOptions& options, std::int64_t lane,
                                                          std::int64_t epoch);

/// Permutes the records of a window.
void permute(std::vector<Record>& records, std::uint64_t seed, std::int64_t epoch, std::int64_t lane,
             std::int64_t window);

/// Checks the options, and replaces each 0 that stands for a default by this default.
[[nodiscard]] Status complete(PipelineOptions& options, const HostShare& share);

/// Returns a hash of the options that determine the order of the samples, and of the names of the sources without their
/// folders. If two pipelines have different orders, their hashes differ with a probability of almost 1.
[[nodiscard]] std::uint64_t fingerprint_of(const PipelineOptions& options);

/// Returns the warnings about wasteful options, with which Pipeline::warnings() begins.
[[nodiscard]] std::vector<std::string> find_waste(const PipelineOptions& options, const HostShare& share);

}  // namespace rueda::data
