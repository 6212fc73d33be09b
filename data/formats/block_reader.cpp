// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <utility>
#include <variant>

#include "data/formats/record_reader.hpp"
#include "data/formats/tensor_rows.hpp"

namespace rueda::data {

namespace {

/// The reader for a source of the format WholeFiles. It returns one record, which stands for the whole file. It does
/// not read the file; the parser does.
class WholeFileReader final : public BlockReader {
public:
    explicit WholeFileReader(std::uint32_t index) : index_(index) {}

    bool next(Block& block) override {
        block = {};
        if (!is_done_) {
            block.records.push_back({nullptr, 0, 0, 0, index_});
        }
        return !std::exchange(is_done_, true);
    }

private:
    std::uint32_t index_;
    bool is_done_ = false;
};

}  // namespace

std::unique_ptr<BlockReader> make_block_reader(const Source& source, std::uint32_t index, std::int64_t epoch,
                                               const Format& format, const std::string& header, const StopSignal& stop,
                                               SourceCache* cache) {
    if (std::holds_alternative<WholeFiles>(format)) {
        return std::make_unique<WholeFileReader>(index);
    }
    if (const auto* const tensors = std::get_if<Safetensors>(&format)) {
        return std::make_unique<TensorRowReader>(source, index, *tensors, stop);
    }
    return std::make_unique<RecordReader>(source, index, epoch, format, header, stop, cache);
}

}  // namespace rueda::data
