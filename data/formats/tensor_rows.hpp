// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>

#include "data/formats/mapped_tensors.hpp"
#include "data/formats/record_reader.hpp"

namespace rueda::data {

/// Finds the rows of a safetensors file, but does not read them. The parser of each rank reads the rows of this rank.
class TensorRowReader final : public BlockReader {
public:
    TensorRowReader(const Source& source, std::uint32_t index, const Safetensors& format, const StopSignal& stop)
        : source_(source), index_(index), format_(format), stop_(stop) {}

    bool next(Block& block) override;

private:
    void open(Block& block);

    const Source& source_;
    std::uint32_t index_;
    const Safetensors& format_;
    const StopSignal& stop_;
    std::shared_ptr<const MappedTensors> file_;
    std::size_t row_ = 0;
    bool is_open_ = false;
};

}  // namespace rueda::data
