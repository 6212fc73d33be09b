// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dense.hpp"
#include "features.hpp"
#include "rueda/training/checkpoint.hpp"
#include "schema.hpp"

namespace deepfm {

/// The options of the command line.
struct Options {
    Input train;
    Input test;
    std::int64_t features = feature_count(kVocabulary);
    std::int64_t embedding = 8;
    std::vector<std::int64_t> hidden = {64, 32};
    DenseLibrary library = DenseLibrary::eigen;  ///< computes the dense layers
    std::int64_t epochs = 3;
    std::int64_t batch = 512;  ///< the number of samples in one step of all ranks
    double learning_rate = 0.05;
    std::int64_t shuffle = 10000;  ///< number of samples that are shuffled together; 0: no shuffling
    std::uint64_t seed = 1;
    std::filesystem::path checkpoint_dir;  ///< empty: no checkpoints
    std::int64_t checkpoint_every = 200;   ///< steps between two checkpoints
    std::filesystem::path curve;           ///< CSV file with the loss of each step; empty: none
    int replicas = 1;                      ///< the number of replicas of the model in each process
    int threads = 1;                       ///< the number of threads with which each rank parses the input
};

/// Parses the command line. Throws rueda::InvalidArgument with a one-line text for wrong arguments. If the user asks
/// for help, writes the text to `help` and returns nothing.
std::optional<Options> parse_options(int argc, const char* const* argv, std::string& help);

/// Returns the options that influence the training, in the form in which a checkpoint stores them. The options of the
/// input are not included, because the pipeline itself checks that they are unchanged.
rueda::training::Metadata course_of(const Options& options);

}  // namespace deepfm
