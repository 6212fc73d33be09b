// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The functions of rueda/data.h that write TFRecord files.
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/c_interface/guarded.hpp"
#include "rueda/data.h"
#include "rueda/data/tfrecord.hpp"

/// The writer to which a pointer of the C interface points.
struct rueda_data_writer {
    rueda::data::TfrecordWriter writer;
};

namespace rueda::data {

namespace {

using core::c_interface::check_place;
using core::c_interface::guarded;

Result<FileCompression> compression_named(std::string_view name) {
    struct Choice {
        std::string_view name;
        FileCompression compression;
    };
    constexpr std::array kChoices = {Choice{"automatic", FileCompression::automatic},
                                     Choice{"none", FileCompression::none}, Choice{"gzip", FileCompression::gzip},
                                     Choice{"zstd", FileCompression::zstd}};
    for (const auto& [known, compression] : kChoices) {
        if (name == known) {
            return compression;
        }
    }
    return failure(ErrorCode::invalid_argument,
                   "TFRecord file: the compression is '{}'; expected automatic, none or gzip", name);
}

/// Reads a column of the caller, row by row.
class ColumnToWrite {
public:
    explicit ColumnToWrite(const rueda_data_column& column) : column_(column), dtype_(column.dtype) {}

    /// Checks that the column has a type that an Example can hold, and values for `rows` rows.
    [[nodiscard]] Status check(std::size_t rows) const;
    /// Adds the values of a row to an Example.
    void add_row(ExampleBuilder& example, std::size_t row);

private:
    [[nodiscard]] bool has_texts() const noexcept { return dtype_ == RUEDA_UINT8; }
    [[nodiscard]] std::size_t width() const noexcept { return static_cast<std::size_t>(column_.width); }
    [[nodiscard]] std::size_t value_bytes() const noexcept {
        return has_texts() ? 1 : dtype_ == RUEDA_FLOAT32 ? sizeof(float) : sizeof(std::int64_t);
    }
    /// The index in the column's data where the values of a row begin. In a column of texts, `row` is the index of a
    /// text.
    [[nodiscard]] std::size_t begin_of(std::size_t row) const noexcept {
        return column_.offsets != nullptr ? static_cast<std::size_t>(column_.offsets[row]) : row * width();
    }
    template <class T>
    [[nodiscard]] std::span<const T> values_of(std::size_t row) const noexcept {
        return {static_cast<const T*>(column_.data) + begin_of(row), begin_of(row + 1) - begin_of(row)};
    }

    const rueda_data_column& column_;
    std::int32_t dtype_;
    std::vector<std::string> texts_;
};

Status ColumnToWrite::check(std::size_t rows) const {
    RUEDA_RETURN_IF_FAILED(check_place(column_.name, "name of a column"));
    const auto wrong = [&](std::string_view found, std::string_view expected) {
        return failure(ErrorCode::invalid_argument, "writing Examples: column '{}' has {}; expected {}", column_.name,
                       found, expected);
    };
    if (!has_texts() && dtype_ != RUEDA_FLOAT32 && dtype_ != RUEDA_INT64) {
        return wrong(fmt::format("the dtype number {}", dtype_), "float32, int64, or uint8 for texts");
    }
    if (column_.width < 0 || (has_texts() && (column_.width == 0 || column_.offsets == nullptr))) {
        return wrong(fmt::format("the width {}", column_.width), "a width of 0 or more, and for texts also offsets");
    }
    // In a column of texts, there is one offset for each text. In a ragged column of numbers, there is one for each
    // row.
    const std::size_t ranges = has_texts() ? rows * width() : rows;
    if (column_.offsets == nullptr) {
        return column_.width > 0 && column_.bytes == ranges * width() * value_bytes()
                   ? Status()
                   : wrong(fmt::format("{} bytes and the width {}", column_.bytes, column_.width),
                           fmt::format("the values of {} rows", rows));
    }
    if (column_.offset_count != ranges + 1) {
        return wrong(fmt::format("{} offsets", column_.offset_count), fmt::format("{}", ranges + 1));
    }
    for (std::size_t i = 0; i < ranges; ++i) {
        if (column_.offsets[i] < 0 || column_.offsets[i] > column_.offsets[i + 1]) {
            return wrong("offsets that decrease", "offsets of 0 or more that do not decrease");
        }
    }
    return static_cast<std::size_t>(column_.offsets[ranges]) * value_bytes() <= column_.bytes
               ? Status()
               : wrong(fmt::format("{} bytes", column_.bytes),
                       fmt::format("at least {} values, as the last offset says", column_.offsets[ranges]));
}

void ColumnToWrite::add_row(ExampleBuilder& example, std::size_t row) {
    if (dtype_ == RUEDA_FLOAT32) {
        example.add(column_.name, values_of<float>(row));
    } else if (dtype_ == RUEDA_INT64) {
        example.add(column_.name, values_of<std::int64_t>(row));
    } else {
        texts_.resize(width());
        for (std::size_t i = 0; i < width(); ++i) {
            const std::span<const char> text = values_of<char>(row * width() + i);
            texts_[i].assign(text.begin(), text.end());
        }
        example.add(column_.name, std::span<const std::string>(texts_));
    }
}

}  // namespace

}  // namespace rueda::data

extern "C" {

using rueda::Status;

int rueda_data_writer_open(const char* path, const char* compression, rueda_data_writer** writer) {
    return rueda::data::guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(path, "path"));
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(compression, "compression"));
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(writer, "writer"));
        const auto named = rueda::data::compression_named(compression);
        RUEDA_RETURN_IF_FAILED(named.status());
        *writer = new rueda_data_writer{rueda::data::TfrecordWriter(path, named.value())};
        return {};
    });
}

int rueda_data_writer_write(rueda_data_writer* writer, const char* bytes, size_t size) {
    return rueda::data::guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(writer, "writer"));
        if (size > 0) {
            RUEDA_RETURN_IF_FAILED(rueda::data::check_place(bytes, "record"));
        }
        writer->writer.write({bytes, size});
        return {};
    });
}

int rueda_data_writer_write_examples(rueda_data_writer* writer, const rueda_data_column* columns, size_t count,
                                     int64_t rows) {
    return rueda::data::guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(writer, "writer"));
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(columns, "columns"));
        if (rows < 0) {
            return rueda::failure(rueda::ErrorCode::invalid_argument,
                                  "writing Examples: there are {} rows; expected 0 or more", rows);
        }
        const auto samples = static_cast<std::size_t>(rows);
        std::vector<rueda::data::ColumnToWrite> checked;
        for (size_t i = 0; i < count; ++i) {
            RUEDA_RETURN_IF_FAILED(checked.emplace_back(columns[i]).check(samples));
        }
        rueda::data::ExampleBuilder example;
        for (std::size_t row = 0; row < samples; ++row) {
            for (rueda::data::ColumnToWrite& column : checked) {
                column.add_row(example, row);
            }
            writer->writer.write(example.finish());
        }
        return {};
    });
}

int rueda_data_writer_close(rueda_data_writer* writer) {
    return rueda::data::guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(writer, "writer"));
        writer->writer.close();
        return {};
    });
}

void rueda_data_writer_release(rueda_data_writer* writer) { delete writer; }

}  // extern "C"
