// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.hpp"
#include "data/sources/stop_signal.hpp"
#include "rueda/data/source.hpp"

namespace rueda::data {

/// The bytes of an opened source, in order. Threads: one at a time.
class ByteStream {
public:
    virtual ~ByteStream() = default;
    /// Reads at least one byte and at most `into.size()` bytes, and returns their number, or 0 at the end of the
    /// stream. `into` is not empty. After a failure, the stream must not be read again.
    [[nodiscard]] virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
};

/// Returns the name of the source in this epoch: "{epoch}" in the name of a FIFO is replaced.
[[nodiscard]] std::string name_in_epoch(const Source& source, std::int64_t epoch);

/// Returns the compression of the source: never FileCompression::automatic.
[[nodiscard]] FileCompression compression_of(const Source& source);

/// Opens a source. If its bytes are compressed, the stream returns the decompressed bytes. A wait for the writer of a
/// FIFO ends with Aborted when `stop` is given; `stop` must outlive the stream. The result is Unsupported if this build
/// has no library for the compression, and InvalidArgument if the source cannot be opened.
[[nodiscard]] Result<std::unique_ptr<ByteStream>> open_stream(const Source& source, std::int64_t epoch,
                                                              const StopSignal& stop);

/// The functions that open_stream() calls. Each of them opens one kind of source, or decompresses another stream.
/// `name` is for messages.
[[nodiscard]] Result<std::unique_ptr<ByteStream>> open_file(const std::string& path);
/// If the FIFO does not exist, waits up to `patience` for it.
[[nodiscard]] Result<std::unique_ptr<ByteStream>> open_fifo(const std::string& path, const StopSignal& stop,
                                                            std::chrono::milliseconds patience);
[[nodiscard]] std::unique_ptr<ByteStream> open_memory(std::shared_ptr<const std::string> bytes);
[[nodiscard]] Result<std::unique_ptr<ByteStream>> decompress_gzip(std::unique_ptr<ByteStream> compressed,
                                                                  const std::string& name);
[[nodiscard]] Result<std::unique_ptr<ByteStream>> decompress_zstd(std::unique_ptr<ByteStream> compressed,
                                                                  const std::string& name);

}  // namespace rueda::data
