// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file Reads samples of TFRecord or LibSVM files, and checks them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rueda/data/pipeline.hpp"
#include "rueda/training/sampler.hpp"
#include "schema.hpp"

namespace deepfm {

/// The samples of one step on this rank, or on a replica. Each sample has kFields ids and values, in the order of the
/// fields.
struct Samples {
    std::vector<float> labels;      ///< 0 or 1
    std::vector<std::int64_t> ids;  ///< each id is from 0 to the number of features − 1
    std::vector<float> values;

    [[nodiscard]] std::int64_t rows() const noexcept { return static_cast<std::int64_t>(labels.size()); }
    void clear() {
        labels.clear();
        ids.clear();
        values.clear();
    }
};

/// The files or FIFOs from which samples are read.
struct Input {
    std::vector<std::string> paths;  ///< patterns of files (glob), or paths of FIFOs if `fifos` is true
    bool fifos = false;
    std::int64_t lanes = 1;            ///< PipelineOptions::lanes; must be 1 if `fifos` is true
    std::int64_t malformed_limit = 0;  ///< the largest number of malformed records that are left out in an epoch
    std::string format =
        "auto";  ///< "tfrecord", "libsvm" or "auto": TFRecord if the first file's name contains ".tfrecord"
};

/// Sets the options with which a pipeline reads `input`: sources, format, lanes and checks. Samples have kFields fields
/// with ids below `features`. Only one process can read a FIFO, so each rank gets FIFOs of its own. Throws
/// InvalidArgument if a pattern matches no file, if the FIFOs cannot be divided evenly among the ranks, or if a FIFO
/// would be read in several epochs. `options` must already have the rank, the size and the number of epochs.
void set_input(rueda::data::PipelineOptions& options, const Input& input, std::int64_t features);

/// Reads one sample of each file of `input`, and checks it. So a file of another format is noticed before the training.
/// Throws InvalidArgument if a sample is wrong, or if no file has a sample. `option` is the command-line option that
/// the error message names.
void check_first_samples(const Input& input, std::int64_t features, const std::string& option);

/// Returns a text for messages that names what a rank reads in an epoch: its FIFOs, or the patterns of the files.
std::string sources_of(const Input& input, int rank, int size, std::int64_t epoch);

/// Copies the rows `rows` of a batch to `samples`. The batch comes from a pipeline that set_input() has prepared.
void copy_samples(const rueda::data::Batch& batch, rueda::training::Range rows, Samples& samples);

}  // namespace deepfm
