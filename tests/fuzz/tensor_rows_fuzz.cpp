// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes safetensors files as sources of samples. The first byte chooses the columns that are wanted.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/parser.hpp"
#include "data/formats/record_reader.hpp"
#include "tests/fuzz/data_inputs.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using rueda::fuzz::expect;

Safetensors wanted(std::uint8_t choice) {
    const std::int64_t width = 1 + (choice & 3);
    const bool as_float = (choice & 4) != 0;
    Safetensors format{.tensors = {{"a", as_float ? DType::float32 : DType::int64, width}},
                       .check_data = (choice & 8) != 0};
    if ((choice & 16) != 0) {
        format.tensors.push_back({"b", DType::uint8, 2});
    }
    return format;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const Format format = wanted(bytes[0]);
    const Source source = memory("input", {reinterpret_cast<const char*>(bytes) + 1, size - 1}).front();
    const StopSignal never_given;
    const auto reader = make_block_reader(source, 0, 0, format, "", never_given);
    const auto parser = make_parser(format, "");
    expect(parser.is_ok());
    Block block;
    std::uint64_t rows = 0;
    while (reader->next(block)) {
        // If `block.failed` is an error, the tensors in the file are not those that `format` lists.
        if (!block.failed.is_ok()) {
            expect(block.failed.code() == ErrorCode::invalid_argument && !block.failed.message().empty());
            expect(block.lost.is_ok() && block.records.empty());
            break;
        }
        expect(block.lost.is_ok() == !block.records.empty());
        if (!block.lost.is_ok()) {
            expect(!block.lost.message().empty());
            continue;
        }
        Batch batch;
        const auto malformed = parse_all(*parser.value(), block.records, batch, [](std::uint32_t) { return "input"; });
        expect(malformed.count == 0 && static_cast<std::size_t>(batch.rows()) == block.records.size());
        expect(block.records.front().number == rows);
        rows += block.records.size();
        for (const Column& column : batch.columns()) {
            rueda::data::fuzz::check_column(column, block.records.size());
        }
    }
    return 0;
}
