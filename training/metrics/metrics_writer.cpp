// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/metrics_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "rueda/rueda.hpp"
#include "training/metrics/metric_files.hpp"

namespace rueda::training {

namespace {

/// Returns why a metric cannot have this name, or nothing.
std::string why_no_name(const std::string& name) {
    if (name.empty() || name == "step") {
        return "choose another name";
    }
    if (std::any_of(name.begin(), name.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; })) {
        return "expected a name without control characters";
    }
    try {
        static_cast<void>(nlohmann::json(name).dump());
    } catch (const nlohmann::json::type_error&) {
        return "expected UTF-8";
    }
    return {};
}

Status check_names(std::int64_t step, std::span<const Metric> metrics) {
    std::set<std::string_view> names;
    for (const Metric& metric : metrics) {
        std::string why = why_no_name(metric.name);
        if (why.empty() && !names.insert(metric.name).second) {
            why = "expected each metric once";
        }
        if (!why.empty()) {
            return failure(ErrorCode::invalid_argument, "metrics of step {}: a metric has the name {}; {}", step,
                           base::quote(metric.name), why);
        }
    }
    return {};
}

MadeFile make_file(MetricFormat format, const std::filesystem::path& folder, std::int64_t first_step) {
    switch (format) {
        case MetricFormat::csv:
            return make_csv_file(folder, first_step);
        case MetricFormat::jsonl:
            return make_json_file(folder, first_step);
        case MetricFormat::tensorboard:
            return make_event_file(folder, first_step);
    }
    return failure(ErrorCode::invalid_argument, "metrics: there is no format with the number {}",
                   static_cast<std::int32_t>(format));
}

}  // namespace

Result<MetricFiles> MetricFiles::open(const std::filesystem::path& folder, const MetricsWriterOptions& options) {
    if (options.first_step < 0) {
        return failure(ErrorCode::invalid_argument, "metrics: first_step is {}; expected 0 or more",
                       options.first_step);
    }
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
        return failure(ErrorCode::invalid_argument,
                       "metrics: creating the folder {}: {}; name a folder that this user may create", folder.string(),
                       error.message());
    }
    MetricFiles files;
    for (const MetricFormat format : options.formats) {
        auto file = make_file(format, folder, options.first_step);
        RUEDA_RETURN_IF_FAILED(file.status());
        files.files_.push_back(std::move(file).value());
    }
    return files;
}

Status MetricFiles::write(std::int64_t step, std::span<const Metric> metrics) {
    if (is_closed_) {
        return failure(ErrorCode::invalid_argument, "metrics of step {}: the files were closed", step);
    }
    RUEDA_RETURN_IF_FAILED(check_names(step, metrics));
    const double time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    for (const auto& file : files_) {
        RUEDA_RETURN_IF_FAILED(file->write({step, time, metrics}));
    }
    return {};
}

Status MetricFiles::close() {
    Status first;
    for (const auto& file : files_) {
        const Status status = is_closed_ ? Status() : file->close();
        if (first.is_ok()) {
            first = status;
        }
    }
    is_closed_ = true;
    return first;
}

struct MetricsWriter::Parts {
    MetricFiles files;
};

MetricsWriter::MetricsWriter(const std::filesystem::path& folder, const MetricsWriterOptions& options) {
    if (rank() == 0) {
        auto files = MetricFiles::open(folder, options);
        files.status().throw_if_failed();
        parts_ = std::make_unique<Parts>(Parts{std::move(files).value()});
    }
}

MetricsWriter::MetricsWriter(MetricsWriter&&) noexcept = default;
MetricsWriter& MetricsWriter::operator=(MetricsWriter&&) noexcept = default;
MetricsWriter::~MetricsWriter() = default;

void MetricsWriter::write(std::int64_t step, std::span<const Metric> metrics) {
    if (parts_ != nullptr) {
        parts_->files.write(step, metrics).throw_if_failed();
    }
}

void MetricsWriter::close() {
    if (parts_ != nullptr) {
        parts_->files.close().throw_if_failed();
    }
}

}  // namespace rueda::training
