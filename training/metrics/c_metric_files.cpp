// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The functions of rueda/metric_files.h.
#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "core/c_interface/guarded.hpp"
#include "rueda/metric_files.h"
#include "training/metrics/metric_files.hpp"

/// The object behind the C interface's pointer.
struct rueda_metric_files {
    rueda::training::MetricFiles files;
};

namespace {

using rueda::ErrorCode;
using rueda::failure;
using rueda::Status;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::guarded;
using rueda::training::Metric;
using rueda::training::MetricFiles;
using rueda::training::MetricFormat;
using rueda::training::MetricsWriterOptions;

Status read_metric_formats(std::string_view text, std::vector<MetricFormat>& formats) {
    constexpr std::array<std::pair<std::string_view, MetricFormat>, 3> kFormats = {
        {{"csv", MetricFormat::csv}, {"jsonl", MetricFormat::jsonl}, {"tensorboard", MetricFormat::tensorboard}}};
    formats.clear();
    while (!text.empty()) {
        const std::string_view name = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), name.size() + 1));
        const std::size_t before = formats.size();
        for (const auto& [known, format] : kFormats) {
            if (name == known) {
                formats.push_back(format);
            }
        }
        if (formats.size() == before) {
            return failure(ErrorCode::invalid_argument,
                           "metrics: the format {} is unknown; use csv, jsonl, tensorboard", rueda::base::quote(name));
        }
    }
    return {};
}

}  // namespace

extern "C" {

int rueda_metric_files_open(const char* folder, const char* formats, int64_t first_step, rueda_metric_files** files) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(folder, "folder"));
        RUEDA_RETURN_IF_FAILED(check_place(formats, "formats"));
        RUEDA_RETURN_IF_FAILED(check_place(files, "files"));
        MetricsWriterOptions options{.first_step = first_step};
        RUEDA_RETURN_IF_FAILED(read_metric_formats(formats, options.formats));
        auto opened = MetricFiles::open(folder, options);
        RUEDA_RETURN_IF_FAILED(opened.status());
        *files = new rueda_metric_files{std::move(opened).value()};
        return {};
    });
}

int rueda_metric_files_write(rueda_metric_files* files, int64_t step, const char* const* names, const double* values,
                             size_t count) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(files, "files"));
        std::vector<Metric> metrics;
        for (size_t i = 0; i < count; ++i) {
            RUEDA_RETURN_IF_FAILED(check_place(names, "names"));
            RUEDA_RETURN_IF_FAILED(check_place(values, "values"));
            RUEDA_RETURN_IF_FAILED(check_place(names[i], "name of a metric"));
            metrics.push_back({names[i], values[i]});
        }
        return files->files.write(step, metrics);
    });
}

int rueda_metric_files_close(rueda_metric_files* files) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(files, "files"));
        return files->files.close();
    });
}

void rueda_metric_files_release(rueda_metric_files* files) { delete files; }

}  // extern "C"
