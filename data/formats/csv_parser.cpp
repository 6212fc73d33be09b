// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "data/decimal.hpp"
#include "data/formats/other_format.hpp"
#include "data/formats/output.hpp"
#include "data/formats/parser.hpp"

namespace rueda::data {

namespace {

/// Takes the fields of a row, one after another.
class CsvFields {
public:
    CsvFields(const Csv& format, std::string_view row) : format_(format), rest_(row) {}

    [[nodiscard]] bool ended() const noexcept { return ended_; }

    /// Returns the next field without its quotes. The result is valid until the next call. `is_valid` becomes false if
    /// the quotes are wrong.
    std::string_view take(bool& is_valid) {
        is_valid = true;
        if (format_.quotes && rest_.starts_with('"')) {
            return take_quoted(is_valid);
        }
        const std::size_t end = std::min(rest_.find(format_.separator), rest_.size());
        const std::string_view field = rest_.substr(0, end);
        is_valid = !format_.quotes || field.find('"') == std::string_view::npos;
        go_behind(end);
        return field;
    }

private:
    std::string_view take_quoted(bool& is_valid) {
        unquoted_.clear();
        std::size_t begin = 1;
        while (true) {
            const std::size_t quote = rest_.find('"', begin);
            if (quote == std::string_view::npos) {
                is_valid = false;
                ended_ = true;
                return {};
            }
            unquoted_.append(rest_.substr(begin, quote - begin));
            begin = quote + 1;
            if (begin == rest_.size() || rest_[begin] != '"') {
                break;
            }
            unquoted_.push_back('"');  // two quotes stand for one
            ++begin;
        }
        is_valid = begin == rest_.size() || rest_[begin] == format_.separator;
        go_behind(begin);
        return unquoted_;
    }
    void go_behind(std::size_t end) noexcept {
        ended_ = end >= rest_.size();
        rest_.remove_prefix(ended_ ? rest_.size() : end + 1);
    }

    const Csv& format_;
    std::string_view rest_;
    std::string unquoted_;
    bool ended_ = false;
};

/// Whether the field is a number that is too large for the type.
template <class Number>
bool is_too_large(std::string_view field) {
    field.remove_prefix(field.starts_with('+') ? 1 : 0);
    Number ignored{};
    const auto [behind, error] = std::from_chars(field.data(), field.data() + field.size(), ignored);
    return error == std::errc::result_out_of_range && behind == field.data() + field.size();
}

/// Writes the fields of one column.
class CsvOutput {
public:
    explicit CsvOutput(CsvColumn column) : column_(std::move(column)) {}

    [[nodiscard]] const CsvColumn& column() const noexcept { return column_; }
    void begin(Column& column, std::size_t rows) {
        if (column_.dtype == DType::float32) {
            floats_ = FixedOutput<float>(column, rows);
        } else if (column_.dtype == DType::float64) {
            doubles_ = FixedOutput<double>(column, rows);
        } else if (column_.dtype == DType::int64) {
            integers_ = FixedOutput<std::int64_t>(column, rows);
        } else {
            texts_ = TextOutput(column, rows);
        }
    }
    Status put(std::size_t row, std::string_view field) {
        if (column_.dtype == DType::uint8) {
            texts_.put(row, field);
            return {};
        }
        if (field.empty() && column_.missing.has_value()) {
            put_missing(row);
            return {};
        }
        const char* const end = field.data() + field.size();
        const char* const behind =
            column_.dtype == DType::float32   ? read_short_real(field.data(), end, *floats_.row(row))
            : column_.dtype == DType::float64 ? read_real(field.data(), end, *doubles_.row(row))
                                              : read_short_integer(field.data(), end, *integers_.row(row));
        if (behind == end && !field.empty()) {
            return {};
        }
        return failure(ErrorCode::invalid_argument, "column '{}' has {}, {} {}; {}", column_.name,
                       field.empty() ? "an empty field" : base::quote(field, 40),
                       is_out_of_range(field) ? "which is out of the range of" : "expected a number of type",
                       name_of(column_.dtype),
                       field.empty() ? "set CsvColumn::missing if fields may be empty"
                                     : "repair the field, or correct the dtype of the column");
    }
    void end(std::size_t rows) {
        if (column_.dtype == DType::float32) {
            floats_.end(rows);
        } else if (column_.dtype == DType::float64) {
            doubles_.end(rows);
        } else if (column_.dtype == DType::int64) {
            integers_.end(rows);
        } else {
            texts_.end(rows);
        }
    }

private:
    [[nodiscard]] bool is_out_of_range(std::string_view field) const {
        return column_.dtype == DType::float32   ? is_too_large<float>(field)
               : column_.dtype == DType::float64 ? is_too_large<double>(field)
                                                 : is_too_large<std::int64_t>(field);
    }
    void put_missing(std::size_t row) {
        if (column_.dtype == DType::float32) {
            *floats_.row(row) = static_cast<float>(*column_.missing);
        } else if (column_.dtype == DType::float64) {
            *doubles_.row(row) = *column_.missing;
        } else {
            *integers_.row(row) = static_cast<std::int64_t>(*column_.missing);
        }
    }

    CsvColumn column_;
    FixedOutput<float> floats_;
    FixedOutput<double> doubles_;
    FixedOutput<std::int64_t> integers_;
    TextOutput texts_;
};

class CsvParser final : public Parser {
public:
    /// `outputs[i]` is the index of the column for field i of a row, or kIgnored.
    CsvParser(const Csv& format, std::vector<std::size_t> outputs) : format_(format), outputs_(std::move(outputs)) {
        for (const CsvColumn& column : format_.columns) {
            columns_.emplace_back(column);
        }
    }
    static constexpr std::size_t kIgnored = ~std::size_t{0};

    void begin(Batch& batch, std::size_t rows) override {
        // Adding a column can move the other columns in memory, so all columns are added before any of them is used.
        for (const CsvOutput& output : columns_) {
            batch.add_column(output.column().name, output.column().dtype);
        }
        for (CsvOutput& output : columns_) {
            output.begin(batch.column(output.column().name), rows);
        }
    }
    Status parse(const Record& record, std::size_t row) override {
        Status status = parse_row(record, row);
        const std::string_view hint = status.is_ok() ? "" : hint_for_text(record);
        return hint.empty() ? status : failure(status.code(), "{}{}", status.message(), hint);
    }
    void end(std::size_t rows) override {
        for (CsvOutput& column : columns_) {
            column.end(rows);
        }
    }

private:
    Status parse_row(const Record& record, std::size_t row) {
        CsvFields fields(format_, record.text());
        std::size_t count = 0;
        for (; !fields.ended(); ++count) {
            bool is_valid = true;
            const std::string_view field = fields.take(is_valid);
            if (!is_valid) {
                return failure(
                    ErrorCode::invalid_argument,
                    "field {} of the row has a double quote at a wrong place; expected quotes around the whole "
                    "field, and two quotes for one inside; repair the row, or set Csv::quotes = false",
                    count + 1);
            }
            if (count < outputs_.size() && outputs_[count] != kIgnored) {
                RUEDA_RETURN_IF_FAILED(columns_[outputs_[count]].put(row, field));
            }
        }
        if (count != outputs_.size()) {
            return failure(ErrorCode::invalid_argument,
                           "the row has {} fields, expected {}; repair the row, or check the separator", count,
                           outputs_.size());
        }
        return {};
    }

    Csv format_;
    std::vector<std::size_t> outputs_;
    std::vector<CsvOutput> columns_;
};

Status check_columns(const Csv& format) {
    for (const CsvColumn& column : format.columns) {
        const bool is_known = column.dtype == DType::float32 || column.dtype == DType::float64 ||
                              column.dtype == DType::int64 || column.dtype == DType::uint8;
        if (!is_known) {
            return failure(
                ErrorCode::invalid_argument,
                "pipeline: CSV column '{}' has dtype {}; expected float32, float64, int64, or uint8 for texts",
                column.name, name_of(column.dtype));
        }
        RUEDA_RETURN_IF_FAILED(check_missing(column.name, column.dtype, column.missing));
        const auto same = [&column](const CsvColumn& other) { return other.name == column.name; };
        if (std::count_if(format.columns.begin(), format.columns.end(), same) > 1) {
            return failure(ErrorCode::invalid_argument, "pipeline: the CSV column '{}' is listed twice", column.name);
        }
    }
    if (std::string_view("0123456789+-.eE\"\r\n").find(format.separator) != std::string_view::npos) {
        return failure(
            ErrorCode::invalid_argument,
            "pipeline: the CSV separator is {}, which is a part of numbers, quotes or lines; expected a character "
            "such as ',' or a tab",
            base::quote({&format.separator, 1}));
    }
    if (format.columns.empty()) {
        return failure(ErrorCode::invalid_argument, "pipeline: Csv lists no column; expected at least one");
    }
    return {};
}

/// Returns the names of the fields, which are in the file's first row.
Result<std::vector<std::string>> read_names(const Csv& format, const std::string& header) {
    std::vector<std::string> names;
    CsvFields fields(format, header);
    while (!fields.ended()) {
        bool is_valid = true;
        names.emplace_back(fields.take(is_valid));
        if (!is_valid) {
            return failure(ErrorCode::invalid_argument, "pipeline: the quotes in the first row {} are wrong",
                           base::quote(header));
        }
    }
    return names;
}

}  // namespace

Result<std::unique_ptr<Parser>> make_csv_parser(const Csv& format, const std::string& header) {
    RUEDA_RETURN_IF_FAILED(check_columns(format));
    std::vector<std::size_t> outputs;
    if (!format.header) {
        for (std::size_t i = 0; i < format.columns.size(); ++i) {
            outputs.push_back(i);
        }
        return std::unique_ptr<Parser>(std::make_unique<CsvParser>(format, std::move(outputs)));
    }
    const auto names = read_names(format, header);
    RUEDA_RETURN_IF_FAILED(names.status());
    outputs.resize(names.value().size(), CsvParser::kIgnored);
    for (std::size_t i = 0; i < format.columns.size(); ++i) {
        const auto found = std::find(names.value().begin(), names.value().end(), format.columns[i].name);
        if (found == names.value().end()) {
            return failure(ErrorCode::invalid_argument,
                           "pipeline: the CSV files have no column '{}'; their first row is {}; check the name and the "
                           "separator{}",
                           format.columns[i].name, base::quote(header, 200), hint_for_text(header));
        }
        outputs[static_cast<std::size_t>(found - names.value().begin())] = i;
    }
    return std::unique_ptr<Parser>(std::make_unique<CsvParser>(format, std::move(outputs)));
}

}  // namespace rueda::data
