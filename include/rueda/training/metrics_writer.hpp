// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Writes metrics of a training to files: CSV, JSON lines, and the event files of TensorBoard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rueda/rueda.h"

namespace rueda::training {

/// The kinds of files in which MetricsWriter writes.
enum class MetricFormat : std::int32_t {
    csv,    ///< metrics.csv: a column for each metric of the first row
    jsonl,  ///< metrics.jsonl: a JSON object with step, time (seconds since 1970) and metrics in each line. A number
            ///< that is not finite is null
    tensorboard,  ///< events.out.tfevents.…, which `tensorboard --logdir FOLDER` shows. The values are float32
};

/// The value of a metric, for example of the loss.
struct Metric {
    std::string name;
    double value = 0;
};

struct MetricsWriterOptions {
    std::vector<MetricFormat> formats = {MetricFormat::csv};
    /// The first step that a resumed job makes. Existing lines of this step and of later steps are removed, because the
    /// job writes them again. If this is 0, existing CSV and JSON files are overwritten.
    std::int64_t first_step = 0;
};

/// Writes metrics to files of one folder. Only rank 0 writes; the other ranks' calls do nothing. write() gives each
/// line to the operating system before it returns, so a killed job loses no line. rueda.training.MetricsWriter of
/// Python writes the same files. Threads: one thread at a time may use an object.
class RUEDA_API MetricsWriter {
public:
    /// Creates the files, and the folder if it does not exist. Throws InvalidArgument if this is not possible, and
    /// ResourceExhausted if the disk is full. A file that exists and could not be replaced stays as it was.
    explicit MetricsWriter(const std::filesystem::path& folder, const MetricsWriterOptions& options = {});
    MetricsWriter(MetricsWriter&&) noexcept;
    MetricsWriter& operator=(MetricsWriter&&) noexcept;
    ~MetricsWriter();

    /// Writes the metrics of a step. Throws InvalidArgument if a name is empty or "step", occurs twice, is not
    /// UTF-8 or contains a control character. With the format csv, also throws it if the first call did not have one of
    /// the metrics. Throws ResourceExhausted if the disk is full; the line is then missing, and later calls may
    /// succeed.
    void write(std::int64_t step, std::span<const Metric> metrics);
    void write(std::int64_t step, std::initializer_list<Metric> metrics) {
        write(step, std::span(metrics.begin(), metrics.size()));
    }
    /// Flushes the files to the disk and closes them. Only this call reports that flushing failed.
    void close();

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;  ///< a null pointer on ranks that do not write
};

}  // namespace rueda::training
