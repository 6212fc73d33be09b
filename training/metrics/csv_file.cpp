// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// metrics.csv
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "training/metrics/appended_file.hpp"
#include "training/metrics/metric_files.hpp"

namespace rueda::training {

namespace {

constexpr std::string_view kRowEnd = "\r\n";  // as RFC 4180 says

std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"") == std::string::npos) {
        return text;
    }
    std::string quoted = "\"";
    for (const char byte : text) {
        quoted.append(byte == '"' ? 2 : 1, byte);
    }
    return quoted + '"';
}

/// Returns the shortest text that has exactly this value. The text has a point or an exponent. Otherwise, a program
/// that reads the file might believe that the column has integers.
std::string csv_number(double value) {
    std::string text = fmt::format("{}", value);
    if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) {
        text += ".0";
    }
    return text;
}

std::string csv_row(const std::vector<std::string>& fields) {
    std::string row;
    for (const std::string& field : fields) {
        row += (row.empty() ? "" : ",") + csv_field(field);
    }
    return row.append(kRowEnd);
}

/// Divides a row into its fields.
std::vector<std::string> csv_fields(std::string_view row) {
    std::vector<std::string> fields(1);
    bool is_quoted = false;
    for (std::size_t i = 0; i < row.size(); ++i) {
        if (row[i] == '"') {
            const bool is_doubled = is_quoted && i + 1 < row.size() && row[i + 1] == '"';
            if (is_doubled) {
                fields.back() += row[++i];
            } else {
                is_quoted = !is_quoted;
            }
        } else if (row[i] == ',' && !is_quoted) {
            fields.emplace_back();
        } else {
            fields.back() += row[i];
        }
    }
    return fields;
}

std::optional<std::int64_t> step_in(const std::string& text) {
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
    return error == std::errc() && end == text.data() + text.size() && step >= 0 ? std::optional(step) : std::nullopt;
}

class CsvFile final : public MetricFile {
public:
    CsvFile(AppendedFile file, std::vector<std::string> columns)
        : file_(std::move(file)), columns_(std::move(columns)) {}

    Status write(const MetricsOfStep& metrics) override {
        std::string text;
        std::vector<std::string> columns = columns_;
        if (columns.empty()) {
            columns.emplace_back("step");
            for (const Metric& metric : metrics.metrics) {
                columns.push_back(metric.name);
            }
            text = csv_row(columns);
        }
        std::vector<std::string> row(columns.size());
        row.front() = std::to_string(metrics.step);
        for (const Metric& metric : metrics.metrics) {
            const auto column = std::find(columns.begin() + 1, columns.end(), metric.name);
            if (column == columns.end()) {
                return failure(ErrorCode::invalid_argument,
                               "metrics of step {}: '{}' has no column in {}, because it was not in the first row; "
                               "give all metrics in the first call, or use the format jsonl",
                               metrics.step, metric.name, file_.path().string());
            }
            row[static_cast<std::size_t>(column - columns.begin())] = csv_number(metric.value);
        }
        RUEDA_RETURN_IF_FAILED(file_.append(text + csv_row(row)));
        columns_ = std::move(columns);
        return {};
    }
    Status close() override { return file_.close(); }

private:
    AppendedFile file_;
    std::vector<std::string> columns_;
};

/// Returns the header, and the rows that an earlier job wrote for steps before `first_step`. Leaves out damaged rows.
std::string csv_rows_before(std::string_view text, std::int64_t first_step, std::vector<std::string>& columns) {
    std::string kept;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end + 1);
        if (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        const std::vector<std::string> fields = csv_fields(line);
        if (columns.empty()) {
            if (fields.front() != "step") {
                return {};  // the file does not begin with the column "step", so the caller overwrites it
            }
            columns = fields;
            kept = csv_row(fields);
            continue;
        }
        const auto step = step_in(fields.front());
        if (fields.size() == columns.size() && step && *step < first_step) {
            kept += csv_row(fields);
        }
    }
    return kept;
}

}  // namespace

MadeFile make_csv_file(const std::filesystem::path& folder, std::int64_t first_step) {
    const std::filesystem::path path = folder / "metrics.csv";
    std::string beginning;
    std::vector<std::string> columns;
    if (first_step > 0) {
        const auto lines = read_whole_lines(path);
        RUEDA_RETURN_IF_FAILED(lines.status());
        beginning = csv_rows_before(lines.value(), first_step, columns);
    }
    auto file = AppendedFile::begin(path, beginning);
    RUEDA_RETURN_IF_FAILED(file.status());
    return std::unique_ptr<MetricFile>(std::make_unique<CsvFile>(std::move(file).value(), std::move(columns)));
}

}  // namespace rueda::training
