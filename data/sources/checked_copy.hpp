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

/// Writes a copy whose damage is found when it is read. The copy consists of blocks. Each block begins with the number
/// of its bytes (0 to 256 KiB) and the XXH3 checksum of its bytes, as two integers of 8 bytes. The seed of the checksum
/// is the number of bytes in the blocks before, so a block that is missing or at a wrong place is found, too. A block
/// without bytes is the end of the copy. Threads: one at a time.
class CheckedWriter {
public:
    explicit CheckedWriter(base::AtomicFile file) : file_(std::move(file)) {}

    [[nodiscard]] Status add(std::span<const std::byte> bytes);
    /// Writes the end, and gives the file its name.
    [[nodiscard]] Status finish();

private:
    [[nodiscard]] Status write_block(std::span<const std::byte> bytes);

    base::AtomicFile file_;
    std::uint64_t place_ = 0;  ///< number of bytes in the blocks that were written
};

/// Returns the bytes of a copy. `blocks` has the bytes of its file. The stream returns no byte of a block before it has
/// compared the block's checksum. If the copy is damaged or cut, the stream fails with InvalidArgument; `name` is for
/// this message.
[[nodiscard]] std::unique_ptr<ByteStream> read_checked(std::unique_ptr<ByteStream> blocks, std::string name);

}  // namespace rueda::data
