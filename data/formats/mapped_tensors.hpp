// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/safetensors/safetensors.hpp"
#include "base/status.hpp"
#include "data/sources/stop_signal.hpp"
#include "rueda/data/batch.hpp"
#include "rueda/data/formats.hpp"
#include "rueda/data/source.hpp"

namespace rueda::data {

/// The bytes of a file that is mapped into memory, or of a memory source. Threads: any.
class MappedBytes {
public:
    /// Fails with InvalidArgument if the source cannot be mapped.
    [[nodiscard]] static Result<MappedBytes> open(const Source& source);

    [[nodiscard]] std::span<const std::byte> all() const noexcept { return bytes_; }

private:
    std::span<const std::byte> bytes_;
    std::shared_ptr<const void> owner_;  ///< its destructor removes the mapping
};

/// The listed tensors of a safetensors file that was checked. Threads: any.
class MappedTensors {
public:
    /// Checks the header, the dtypes and shapes of the listed tensors and, if the format says so, their checksums.
    /// Fails with Aborted if `stop` was signalled, and with Mismatch if the listed tensors differ from those of the
    /// file. Any other failure means that the file is damaged, and says what is wrong.
    [[nodiscard]] static Result<std::shared_ptr<const MappedTensors>> check(MappedBytes bytes,
                                                                            const Safetensors& format,
                                                                            const StopSignal& stop);

    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    /// Copies one row of the tensor with the index `tensor` into a column, to the place `to`. Converts the values to
    /// the column's dtype.
    void copy(std::size_t tensor, std::size_t row, std::byte* to) const {
        const Tensor& from = tensors_[tensor];
        from.convert(from.data + row * from.row_bytes, to, from.width);
    }
    /// Makes the record for a row. A row has bytes in several tensors, so a pointer to its bytes is not possible.
    /// Record::data therefore points to this MappedTensors, and of() returns it. Record::size is the number of bytes of
    /// the row in all tensors together. Record::offset is the place in the file of the row in the first tensor.
    [[nodiscard]] Record record(std::size_t row, std::uint32_t source) const noexcept;
    [[nodiscard]] static const MappedTensors& of(const Record& record) noexcept {
        return *reinterpret_cast<const MappedTensors*>(record.data);
    }

private:
    /// Converts `count` values. The values may begin at any address, because the length of a header need not be a
    /// multiple of their size.
    using Convert = void (*)(const std::byte* from, std::byte* to, std::size_t count);
    struct Tensor {
        const std::byte* data = nullptr;
        std::size_t row_bytes = 0;
        std::size_t width = 0;
        Convert convert = nullptr;
    };
    [[nodiscard]] static Convert find_conversion(DType from, DType to);
    /// Adds the tensor of a column. `content` are the tensor's values in the file.
    [[nodiscard]] Status add(const training::StoredTensor& stored, const ArrayColumn& column,
                             std::span<const std::byte> content);

    MappedBytes bytes_;
    std::vector<Tensor> tensors_;
    std::size_t rows_ = 0;
    std::size_t row_bytes_ = 0;
};

}  // namespace rueda::data
