// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "data/decimal.hpp"
#include "data/formats/other_format.hpp"
#include "data/formats/output.hpp"
#include "data/formats/parser.hpp"

namespace rueda::data {

namespace {

bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

class LibsvmParser final : public Parser {
public:
    explicit LibsvmParser(const Libsvm& format) : format_(format), base_(format.one_based ? 1 : 0) {}

    void begin(Batch& batch, std::size_t rows) override {
        // Adding a column can move the other columns in memory, so all columns are added before any of them is used.
        batch.add_column("label", DType::float32);
        batch.add_column("index", DType::int64, 0);
        batch.add_column("value", DType::float32, 0);
        if (format_.fields) {
            batch.add_column("field", DType::int64, 0);
        }
        if (format_.query_ids) {
            batch.add_column("qid", DType::int64);
        }
        batch_ = &batch;
        labels_ = FixedOutput<float>(batch.column("label"), rows);
        offsets_ = OffsetOutput(batch.column("index"), rows);
        indices_ = GrowingOutput<std::int64_t>(batch.column("index"));
        values_ = GrowingOutput<float>(batch.column("value"));
        if (format_.fields) {
            fields_ = GrowingOutput<std::int64_t>(batch.column("field"));
        }
        if (format_.query_ids) {
            query_ids_ = FixedOutput<std::int64_t>(batch.column("qid"), rows);
        }
    }

    Status parse(const Record& record, std::size_t row) override {
        place_ = record.data;
        end_ = record.data + record.size;
        if (const void* const comment = std::memchr(place_, '#', record.size)) {
            end_ = static_cast<const char*>(comment);
        }
        skip_blanks();
        const char* const behind = read_short_real(place_, end_, *labels_.row(row));
        if (behind == nullptr || !is_at_border(behind)) {
            return unexpected(record, "a label, which is a number");
        }
        place_ = behind;
        RUEDA_RETURN_IF_FAILED(read_query_id(record, row));
        return read_pairs(record, row);
    }

    void end(std::size_t rows) override {
        labels_.end(rows);
        const std::size_t count = offsets_.end(rows);
        indices_.end(count);
        values_.end(count);
        copy_offsets("value");
        if (format_.fields) {
            fields_.end(count);
            copy_offsets("field");
        }
        if (format_.query_ids) {
            query_ids_.end(rows);
        }
    }

private:
    void skip_blanks() noexcept {
        while (place_ != end_ && is_blank(*place_)) {
            ++place_;
        }
    }
    [[nodiscard]] bool is_at_border(const char* place) const noexcept { return place == end_ || is_blank(*place); }

    Status read_query_id(const Record& record, std::size_t row) {
        constexpr std::string_view kQuery = "qid:";
        skip_blanks();
        std::int64_t number = 0;
        const bool has_query = std::string_view(place_, static_cast<std::size_t>(end_ - place_)).starts_with(kQuery);
        if (has_query) {
            place_ += kQuery.size();
            const char* const behind = read_integer(place_, end_, number);
            if (behind == nullptr || !is_at_border(behind)) {
                return unexpected(record, "an integer behind 'qid:'");
            }
            place_ = behind;
        } else if (format_.query_ids) {
            return unexpected(record, "'qid:' and a number behind the label (Libsvm::query_ids is set)");
        }
        if (format_.query_ids) {
            *query_ids_.row(row) = number;
        }
        return {};
    }

    Status read_pairs(const Record& record, std::size_t row) {
        const std::size_t begin = offsets_.begin_of(row);
        // The shortest pair, "1:2 ", has 4 bytes, so `most` is at least the number of pairs.
        const std::size_t most = static_cast<std::size_t>(end_ - place_) / 4 + 1;
        std::int64_t* const indices = indices_.reserve(begin, most);
        float* const values = values_.reserve(begin, most);
        std::int64_t* const fields = format_.fields ? fields_.reserve(begin, most) : nullptr;
        std::size_t count = 0;
        for (skip_blanks(); place_ != end_; skip_blanks(), ++count) {
            if (fields != nullptr && !read_with_colon(fields[count])) {
                return unexpected(record, "'field:index:value' (Libsvm::fields is set)");
            }
            if (!read_with_colon(indices[count])) {
                return unexpected(record, fields != nullptr ? "'field:index:value' (Libsvm::fields is set)"
                                                            : "'index:value' with an integer before the colon");
            }
            const char* const behind = read_short_real(place_, end_, values[count]);
            if (behind == nullptr || !is_at_border(behind)) {
                return unexpected(record, "a number behind the colon, and then a space");
            }
            place_ = behind;
            if (indices[count] < base_) {  // checked before the subtraction below, which could overflow
                return failure(ErrorCode::invalid_argument,
                               "the index {} at byte {} of the line is too small; expected at least {}; {}",
                               indices[count], place_ - record.data, base_,
                               base_ == 1 ? "if the indices of the file begin with 0, set Libsvm::one_based = false"
                                          : "repair the line");
            }
            indices[count] -= base_;
        }
        offsets_.set_end(row, begin + count);
        return {};
    }
    /// Reads an integer and the colon behind it.
    bool read_with_colon(std::int64_t& value) noexcept {
        const char* const behind = read_short_integer(place_, end_, value);
        if (behind == nullptr || behind == end_ || *behind != ':') {
            return false;
        }
        place_ = behind + 1;
        return true;
    }
    /// Copies the offsets of the column "index" to another ragged column.
    void copy_offsets(std::string_view name) {
        const Array& from = batch_->column("index").offset_data;
        Array& to = batch_->column(name).offset_data;
        to.resize(from.size());
        std::memcpy(to.data(), from.data(), from.size());
    }
    [[nodiscard]] Status unexpected(const Record& record, std::string_view expected) const {
        return failure(
            ErrorCode::invalid_argument, "found {} at byte {} of the line, expected {}; repair the line{}",
            place_ == end_ ? "the end of the line" : base::quote({place_, static_cast<std::size_t>(end_ - place_)}, 40),
            place_ - record.data, expected, hint_for_text(record));
    }

    Libsvm format_;
    std::int64_t base_;
    Batch* batch_ = nullptr;
    const char* place_ = nullptr;  ///< the place in the record that is being parsed
    const char* end_ = nullptr;
    FixedOutput<float> labels_;
    OffsetOutput offsets_;
    GrowingOutput<std::int64_t> indices_;
    GrowingOutput<float> values_;
    GrowingOutput<std::int64_t> fields_;
    FixedOutput<std::int64_t> query_ids_;
};

}  // namespace

std::unique_ptr<Parser> make_libsvm_parser(const Libsvm& format) { return std::make_unique<LibsvmParser>(format); }

}  // namespace rueda::data
