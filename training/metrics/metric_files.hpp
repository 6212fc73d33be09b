// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "rueda/training/metrics_writer.hpp"

namespace rueda::training {

/// The metrics of a step.
struct MetricsOfStep {
    std::int64_t step = 0;
    double time = 0;  ///< seconds since 1970
    std::span<const Metric> metrics;
};

/// A file of one format. Threads: one at a time.
class MetricFile {
public:
    virtual ~MetricFile() = default;
    /// If this call fails, the file stays as it was.
    [[nodiscard]] virtual Status write(const MetricsOfStep& metrics) = 0;
    [[nodiscard]] virtual Status close() = 0;
};

/// The functions that make a file in a folder. Rows of `first_step` and later steps, which an earlier job wrote, are
/// removed.
using MadeFile = Result<std::unique_ptr<MetricFile>>;
[[nodiscard]] MadeFile make_csv_file(const std::filesystem::path& folder, std::int64_t first_step);
[[nodiscard]] MadeFile make_json_file(const std::filesystem::path& folder, std::int64_t first_step);
[[nodiscard]] MadeFile make_event_file(const std::filesystem::path& folder, std::int64_t first_step);

/// The files of all formats, in this process. Threads: one at a time.
class MetricFiles {
public:
    [[nodiscard]] static Result<MetricFiles> open(const std::filesystem::path& folder,
                                                  const MetricsWriterOptions& options);
    [[nodiscard]] Status write(std::int64_t step, std::span<const Metric> metrics);
    /// Closes all files, and returns the first failure.
    [[nodiscard]] Status close();

private:
    std::vector<std::unique_ptr<MetricFile>> files_;
    bool is_closed_ = false;
};

}  // namespace rueda::training
