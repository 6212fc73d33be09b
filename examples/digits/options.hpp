// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "rueda/training/checkpoint.hpp"
#include "rueda/training/learning_rate.hpp"
#include "rueda/types.hpp"

namespace digits {

/// The options of the command line.
struct Options {
    std::filesystem::path data = "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz";
    std::filesystem::path checkpoint_dir = "digits-run";
    bool resume = false;
    std::int64_t epochs = 20;
    std::int64_t batch = 32;  ///< batch size of all ranks together
    double learning_rate = 0.03;
    rueda::training::ScalingPolicy policy = rueda::training::ScalingPolicy::none;
    double cap = 1.5;
    std::int64_t warmup_epochs = 2;
    double momentum = 0.9;
    std::int64_t seed = 1;
    rueda::Compression compression = rueda::Compression::none;  ///< for gradients between hosts
    std::string device = "cpu";                                 ///< where the network is: "cpu" or "cuda"
};

/// Parses the command line. Throws rueda::InvalidArgument with a one-line text for wrong arguments. If the user asks
/// for help, writes the text to `help` and returns nothing.
std::optional<Options> parse_options(int argc, const char* const* argv, std::string& help);

/// Returns the options that influence the training, in the form in which a checkpoint stores them.
rueda::training::Metadata course_of(const Options& options);

}  // namespace digits
