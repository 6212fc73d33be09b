// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The samples of safetensors files.
#include "data/formats/tensor_rows.hpp"

#include <algorithm>
#include <utility>

#include "data/formats/array_columns.hpp"
#include "data/formats/parser.hpp"

namespace rueda::data {

namespace {

/// The number of records in a block. Without shuffle, a lane hands over its records block by block. With blocks of this
/// size, the cost of handing them over is negligible.
constexpr std::size_t kRowsPerBlock = 4096;

class TensorParser final : public Parser {
public:
    explicit TensorParser(const Safetensors& format) : outputs_(format.tensors) {}

    void begin(Batch& batch, std::size_t rows) override {
        batch_ = &batch;
        outputs_.begin(batch, rows);
    }
    Status parse(const Record& record, std::size_t row) override {
        const MappedTensors& file = MappedTensors::of(record);
        for (std::size_t i = 0; i < outputs_.columns().size(); ++i) {
            file.copy(i, static_cast<std::size_t>(record.number), outputs_.row(i, row));
        }
        return {};
    }
    void end(std::size_t rows) override { outputs_.end(*batch_, rows); }

private:
    ArrayOutputs outputs_;
    Batch* batch_ = nullptr;
};

}  // namespace

bool TensorRowReader::next(Block& block) {
    block = {};
    if (!is_open_) {
        is_open_ = true;
        open(block);
        if (!block.failed.is_ok() || !block.lost.is_ok()) {
            return true;
        }
    }
    if (file_ == nullptr || row_ == file_->rows()) {
        return false;
    }
    const std::size_t end = row_ + std::min(kRowsPerBlock, file_->rows() - row_);
    block.memory = file_;
    block.records.reserve(end - row_);
    for (; row_ != end; ++row_) {
        block.records.push_back(file_->record(row_, index_));
    }
    return true;
}

void TensorRowReader::open(Block& block) {
    auto bytes = MappedBytes::open(source_);
    block.failed = bytes.status();
    if (!bytes.is_ok()) {
        return;
    }
    auto file = MappedTensors::check(std::move(bytes).value(), format_, stop_);
    if (file.is_ok()) {
        file_ = std::move(file).value();
        return;
    }
    const Status& why = file.status();
    const bool is_mismatch = why.code() == ErrorCode::mismatch;
    (is_mismatch || why.code() == ErrorCode::aborted ? block.failed : block.lost) = failure(
        is_mismatch ? ErrorCode::invalid_argument : why.code(), "reading '{}': {}", source_.name, why.message());
}

Result<std::unique_ptr<Parser>> make_tensor_parser(const Safetensors& format) {
    RUEDA_RETURN_IF_FAILED(check_array_columns("Safetensors", format.tensors));
    return std::unique_ptr<Parser>(std::make_unique<TensorParser>(format));
}

}  // namespace rueda::data
