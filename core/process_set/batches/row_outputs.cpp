// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/batches/row_outputs.hpp"

#include <cstdlib>

#include "base/text.hpp"
#include "collectives/rows.hpp"
#include "core/operations/requests.hpp"

namespace rueda::core {

Result<std::byte*> RowOutputs::of_share(TensorEntry& entry) const {
    if (entry.request.output != nullptr) {
        return entry.request.output;
    }
    const std::int64_t rows = entry.request.first_dimension;
    return allocate(entry, collectives::rows_of_member(rows, rank_, static_cast<std::uint32_t>(ranks_.size())).count);
}

Result<std::byte*> RowOutputs::on_root(TensorEntry& entry, std::span<const std::int64_t> rows_of) const {
    if (static_cast<std::int32_t>(rank_) != entry.request.metadata.root) {
        return static_cast<std::byte*>(nullptr);
    }
    entry.completion->received_splits.assign(rows_of.begin(), rows_of.end());
    return of_gathered(entry, rows_of);
}

Result<std::byte*> RowOutputs::of_gathered(TensorEntry& entry, std::span<const std::int64_t> rows_of) const {
    std::int64_t rows = 0;
    std::int64_t rows_before = 0;
    for (std::size_t member = 0; member < rows_of.size(); ++member) {
        if (rows_of[member] < 0) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a first dimension of {}", entry.name,
                           ranks_[member], rows_of[member]);
        }
        rows_before = member == rank_ ? rows : rows_before;
        if (__builtin_add_overflow(rows, rows_of[member], &rows)) {
            return failure(ErrorCode::resource_exhausted, "tensor '{}': the gathered first dimensions overflow",
                           entry.name);
        }
    }
    return of_all(entry, rows, rows_before);
}

Result<std::byte*> RowOutputs::of_all(TensorEntry& entry, std::int64_t rows, std::int64_t rows_before) const {
    if (!entry.request.output_rows) {
        return allocate(entry, rows);
    }
    const Status fits = check_output_of_all(entry.request, entry.name, rows, rows_before);
    if (!fits.is_ok()) [[unlikely]] {
        entry.completion->fail(fits);
        return static_cast<std::byte*>(nullptr);
    }
    return entry.request.output;
}

Result<std::byte*> RowOutputs::allocate(TensorEntry& entry, std::int64_t rows) {
    const Metadata& metadata = entry.request.metadata;
    const std::uint64_t row_bytes = entry.request.bytes();
    std::uint64_t bytes = 0;
    constexpr std::uint64_t kAlignment = base::kCacheLine;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(rows), row_bytes, &bytes) ||
        bytes > ~std::uint64_t{0} - kAlignment) {
        return failure(ErrorCode::resource_exhausted, "tensor '{}': the {} rows of the result overflow", entry.name,
                       rows);
    }
    const std::uint64_t allocation = (bytes / kAlignment + 1) * kAlignment;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, allocation));
    if (memory == nullptr) {
        return failure(ErrorCode::resource_exhausted, "tensor '{}': no memory for a result of {}", entry.name,
                       base::format_bytes(bytes));
    }
    Completion::Output& output = entry.completion->output(entry.request.member);
    output.memory.reset(memory);
    output.shape.assign(metadata.shape, metadata.shape + metadata.ndim);
    output.shape.front() = rows;
    output.dtype = static_cast<DType>(metadata.dtype);
    return memory;
}

}  // namespace rueda::core
