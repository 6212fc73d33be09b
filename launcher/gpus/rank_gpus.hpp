// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/gpus/visible_gpus.hpp"
#include "base/status.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

/// What --gpus-per-rank and --share-gpu ask for.
struct RankGpus {
    int per_rank = 0;  ///< the number of GPUs of each rank; 0: each rank sees all GPUs of its host
    bool share = false;
};

/// The settings by which ruedarun tells the ranks how it has divided the GPUs.
inline constexpr const char* kGpusPerRankVariable = "RUEDA_GPUS_PER_RANK";
inline constexpr const char* kShareGpuVariable = "RUEDA_SHARE_GPU";

/// Returns the arguments that tell a supervisor (the parent of a rank) what the user has asked for. Returns no
/// arguments if each rank sees all GPUs.
[[nodiscard]] std::vector<std::string> words_of(const RankGpus& gpus);
/// Reads the arguments of words_of(). Other arguments are ignored.
[[nodiscard]] RankGpus read_rank_gpus(std::span<const std::string> words);
/// Whether an argument is one of words_of().
[[nodiscard]] bool is_word_about_gpus(std::string_view word);

/// Returns the GPUs that CUDA shows to a process of this host that has these environment variables. May take a second.
[[nodiscard]] base::VisibleGpus gpus_here(const Environment& environment);

/// Returns the value of CUDA_VISIBLE_DEVICES for one of the ranks of a host. Fails if the host has too few GPUs.
[[nodiscard]] Result<std::string> devices_of_rank(const RankGpus& gpus, int local_rank, int local_ranks,
                                                  const std::string& host, const base::VisibleGpus& visible);

/// Writes the GPUs as one line. A supervisor sends this line to ruedarun.
[[nodiscard]] std::string encode_gpus(const base::VisibleGpus& visible);
/// Reads the line of encode_gpus(). Accepts any text; parts that are missing in the text become empty.
[[nodiscard]] base::VisibleGpus decode_gpus(std::string_view line);

}  // namespace rueda::launcher
