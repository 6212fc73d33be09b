// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "features.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "rueda/error.hpp"

namespace deepfm {
namespace {

using rueda::InvalidArgument;
using rueda::data::Batch;

/// Throws an error for a wrong sample. The message has the sample's number in the batch, because the line number in the
/// file is not known after shuffling.
[[noreturn]] void refuse(const Batch& batch, std::size_t row, const std::string& what) {
    throw InvalidArgument("reading sample " + std::to_string(row) + " of this rank's part of step " +
                          std::to_string(batch.step()) + ", epoch " + std::to_string(batch.epoch()) + ": " + what);
}

void check_ids(const Batch& batch, std::span<const std::int64_t> ids, std::size_t ids_per_row, std::int64_t features) {
    const auto wrong = std::find_if(ids.begin(), ids.end(), [&](std::int64_t id) { return id < 0 || id >= features; });
    if (wrong != ids.end()) {
        refuse(batch, static_cast<std::size_t>(wrong - ids.begin()) / ids_per_row,
               "the id is " + std::to_string(*wrong) + ", counted from 0, but --features is " +
                   std::to_string(features) + "; set --features to a number above the largest id");
    }
}

void check_values(const Batch& batch, std::span<const float> values, std::size_t values_per_row) {
    const auto wrong = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
    if (wrong != values.end()) {
        refuse(batch, static_cast<std::size_t>(wrong - values.begin()) / values_per_row,
               "a value is not a finite number; correct the file");
    }
}

void check_labels(const Batch& batch) {
    const std::span<const float> labels = batch.values<float>("label");
    const auto wrong =
        std::find_if(labels.begin(), labels.end(), [](float label) { return label != 0.0F && label != 1.0F; });
    if (wrong != labels.end()) {
        refuse(batch, static_cast<std::size_t>(wrong - labels.begin()),
               "the label is " + std::to_string(*wrong) + ", but must be 0 or 1; correct the file");
    }
}

/// Checks a batch of LibSVM lines. A line must have a value for each field, because the position of a value in the line
/// says to which field the value belongs.
void check_libsvm(const Batch& batch, std::int64_t features) {
    const std::span<const std::int64_t> offsets = batch.column("index").offsets();
    for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
        if (offsets[row + 1] - offsets[row] != kFields) {
            refuse(batch, row,
                   "it has " + std::to_string(offsets[row + 1] - offsets[row]) + " pairs of an id and a value, but " +
                       std::to_string(kFields) + " were expected; write a pair for each field, also with the value 0");
        }
    }
    check_labels(batch);
    check_ids(batch, batch.values<std::int64_t>("index"), kFields, features);
    check_values(batch, batch.values<float>("value"), kFields);
}

void check_examples(const Batch& batch, std::int64_t features) {
    check_labels(batch);
    check_ids(batch, batch.values<std::int64_t>("ids"), kCategories, features);
    check_values(batch, batch.values<float>("numbers"), kNumbers);
}

constexpr std::string_view kEpochPlace = "{epoch}";

/// Throws an error if several epochs would read the same FIFO. The reader notices the end of an epoch when the writer
/// closes the FIFO. If the writer opens the FIFO again too early, the reader misses this end, and two epochs become
/// one. For the next epoch, the reader then waits forever.
void check_fifo(const std::string& path, std::int64_t epochs) {
    if (epochs > 1 && path.find(kEpochPlace) == std::string::npos) {
        throw InvalidArgument("--fifo with --epochs " + std::to_string(epochs) + " needs a FIFO for each epoch, but '" +
                              path +
                              "' has no {epoch}, which stands for the number of the epoch; add it, or set "
                              "--epochs 1");
    }
}

}  // namespace

void set_input(rueda::data::PipelineOptions& options, const Input& input, std::int64_t features) {
    namespace data = rueda::data;
    options.malformed_limit = input.malformed_limit;
    if (input.fifos) {
        if (input.lanes != 1) {
            throw InvalidArgument("--lanes is " + std::to_string(input.lanes) +
                                  ", but with --fifo each FIFO is a lane; leave --lanes out");
        }
        for (const std::string& path : input.paths) {
            check_fifo(path, options.epochs);
            options.sources.push_back(data::fifo(path).front());
        }
        options.lanes = static_cast<std::int64_t>(input.paths.size());
        if (options.lanes % options.size != 0) {
            throw InvalidArgument("--fifo with " + std::to_string(options.size) +
                                  " ranks needs a multiple of this number of FIFOs, but there are " +
                                  std::to_string(options.lanes) + "; give one FIFO for each rank");
        }
    } else {
        options.sources = data::files(input.paths);
        options.lanes = input.lanes;
    }
    const bool tfrecord =
        input.format == "tfrecord" ||
        (input.format == "auto" && options.sources.front().name.find(".tfrecord") != std::string::npos);
    // The checks are map functions of the pipeline, so that the pipeline's threads execute them.
    if (tfrecord) {
        options.format = data::Examples{
            {{"label"}, {"numbers", rueda::DType::float32, kNumbers}, {"ids", rueda::DType::int64, kCategories}}};
        options.maps.emplace_back([features](Batch& batch) { check_examples(batch, features); });
    } else {
        options.format = data::Libsvm{.one_based = true};
        options.maps.emplace_back([features](Batch& batch) { check_libsvm(batch, features); });
    }
}

void check_first_samples(const Input& input, std::int64_t features, const std::string& option) {
    rueda::data::PipelineOptions all;
    set_input(all, input, features);
    bool is_empty = true;
    for (const rueda::data::Source& source : all.sources) {
        rueda::data::PipelineOptions one = all;
        one.sources = {source};
        one.lanes = 1;
        one.batch = 1;
        one.epochs = 1;
        one.threads = 1;
        rueda::data::Pipeline pipeline(std::move(one));
        Batch batch;
        is_empty = !pipeline.next(batch) && is_empty;
    }
    if (is_empty) {
        throw InvalidArgument(option + " has no samples; give files that are not empty");
    }
}

std::string sources_of(const Input& input, int rank, int size, std::int64_t epoch) {
    // If the input consists of FIFOs, the pipeline gives each rank an equal number of consecutive FIFOs.
    const std::size_t each = input.fifos ? input.paths.size() / static_cast<std::size_t>(size) : input.paths.size();
    const std::size_t first = input.fifos ? each * static_cast<std::size_t>(rank) : 0;
    std::string text = input.fifos ? "the FIFOs" : "the files";
    for (std::size_t i = first; i < first + each; ++i) {
        std::string path = input.paths[i];
        const std::size_t place = path.find(kEpochPlace);
        if (input.fifos && place != std::string::npos) {
            path.replace(place, kEpochPlace.size(), std::to_string(epoch));
        }
        text += (i == first ? " '" : ", '") + path + "'";
    }
    return text;
}

void copy_samples(const rueda::data::Batch& batch, rueda::training::Range rows, Samples& samples) {
    const auto begin = static_cast<std::size_t>(rows.begin);
    const auto count = static_cast<std::size_t>(rows.size());
    const std::span<const float> labels = batch.values<float>("label").subspan(begin, count);
    samples.labels.assign(labels.begin(), labels.end());
    const bool libsvm = std::any_of(batch.columns().begin(), batch.columns().end(),
                                    [](const rueda::data::Column& column) { return column.name == "index"; });
    if (libsvm) {
        const auto ids = batch.values<std::int64_t>("index").subspan(begin * kFields, count * kFields);
        const auto values = batch.values<float>("value").subspan(begin * kFields, count * kFields);
        samples.ids.assign(ids.begin(), ids.end());
        samples.values.assign(values.begin(), values.end());
        return;
    }
    const auto categories = batch.values<std::int64_t>("ids").subspan(begin * kCategories, count * kCategories);
    const auto numbers = batch.values<float>("numbers").subspan(begin * kNumbers, count * kNumbers);
    samples.ids.resize(count * kFields);
    samples.values.assign(count * kFields, 1.0F);
    for (std::size_t row = 0; row < count; ++row) {
        const auto first = static_cast<std::ptrdiff_t>(row * kFields);
        for (std::int64_t i = 0; i < kNumbers; ++i) {
            samples.ids[row * kFields + static_cast<std::size_t>(i)] = i;
        }
        std::copy_n(categories.begin() + static_cast<std::ptrdiff_t>(row) * kCategories, kCategories,
                    samples.ids.begin() + first + kNumbers);
        std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(row) * kNumbers, kNumbers,
                    samples.values.begin() + first);
    }
}

}  // namespace deepfm
