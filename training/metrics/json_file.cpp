// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// metrics.jsonl
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "training/metrics/appended_file.hpp"
#include "training/metrics/metric_files.hpp"

namespace rueda::training {

namespace {

class JsonLines final : public MetricFile {
public:
    explicit JsonLines(AppendedFile file) : file_(std::move(file)) {}

    Status write(const MetricsOfStep& metrics) override {
        nlohmann::ordered_json line = {{"step", metrics.step}, {"time", std::round(metrics.time * 1e3) / 1e3}};
        for (const Metric& metric : metrics.metrics) {  // A metric with the name "time" replaces the time of day.
            // JSON has no numbers that are not finite.
            line[metric.name] =
                std::isfinite(metric.value) ? nlohmann::ordered_json(metric.value) : nlohmann::ordered_json(nullptr);
        }
        return file_.append(line.dump() + "\n");
    }
    Status close() override { return file_.close(); }

private:
    AppendedFile file_;
};

/// Whether the line belongs to a step before `first_step`. The result is false for a damaged line, for example one that
/// was written when the disk was full.
bool is_line_before(std::string_view line, std::int64_t first_step) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) {
        return false;
    }
    const auto step = json.find("step");
    return step != json.end() && step->is_number() && step->get<double>() < static_cast<double>(first_step);
}

}  // namespace

MadeFile make_json_file(const std::filesystem::path& folder, std::int64_t first_step) {
    const std::filesystem::path path = folder / "metrics.jsonl";
    std::string kept;
    if (first_step > 0) {
        const auto lines = read_whole_lines(path);
        RUEDA_RETURN_IF_FAILED(lines.status());
        for (std::string_view rest = lines.value(); !rest.empty();) {
            const std::string_view line = rest.substr(0, rest.find('\n') + 1);
            if (is_line_before(line, first_step)) {
                kept += line;
            }
            rest.remove_prefix(line.size());
        }
    }
    auto file = AppendedFile::begin(path, kept);
    RUEDA_RETURN_IF_FAILED(file.status());
    return std::unique_ptr<MetricFile>(std::make_unique<JsonLines>(std::move(file).value()));
}

}  // namespace rueda::training
