// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/status.hpp"
#include "base/system/atomic_file.hpp"
#include "data/sources/byte_stream.hpp"

namespace rueda::data {

/// Writes a copy of bytes with checksums, so that reading the copy reveals any damage. The copy consists of blocks.
/// Each block begins with the number of its bytes (0 to 256 KiB) and the XXH3 checksum of its bytes, as two integers of
/// 8 bytes. The seed of the checksum is the number of bytes in the earlier blocks. So the checksums also reveal that a
/// block is missing or at a wrong place. A block without bytes ends the copy. Threads: one at a time.
class CheckedWriter {
public:
    explicit CheckedWriter(base::AtomicFile file) : file_(std::move(file)) {}

    [[nodiscard]] Status add(std::span<const std::byte> bytes);
    /// Writes the block that ends the copy, and gives the file its final name.
    [[nodiscard]] Status finish();

private:
    [[nodiscard]] Status write_block(std::span<const std::byte> bytes);

    base::AtomicFile file_;
    std::uint64_t place_ = 0;  ///< number of bytes in the blocks that were written
};

/// Returns a stream of the bytes that were copied. `blocks` is a stream of the copy's file. A block's bytes are
/// returned only after its checksum was compared. If the copy is damaged or cut, the stream fails with InvalidArgument,
/// and the message contains `name`.
[[nodiscard]] std::unique_ptr<ByteStream> read_checked(std::unique_ptr<ByteStream> blocks, std::string name);

}  // namespace rueda::data
