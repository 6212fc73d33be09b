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
    /// Reads between 1 and `into.size()` bytes, and returns their number. Returns 0 at the end of the stream. `into`
    /// must not be empty. After a failure, the stream must not be read again.
    [[nodiscard]] virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
};

/// Returns the name of the source in this epoch. In the name of a FIFO, "{epoch}" is replaced by the epoch's number.
[[nodiscard]] std::string name_in_epoch(const Source& source, std::int64_t epoch);

/// Returns the compression of the source. If it is FileCompression::automatic, the name of the source decides.
[[nodiscard]] FileCompression compression_of(const Source& source);

/// Opens a source. If its bytes are compressed, the stream returns the decompressed bytes. When the signal `stop` is
/// given, a wait for the writer of a FIFO ends with the error Aborted. `stop` must outlive the stream. The result is
/// Unsupported if this build has no library for the compression, and InvalidArgument if the source cannot be opened.
[[nodiscard]] Result<std::unique_ptr<ByteStream>> open_stream(const Source& source, std::int64_t epoch,
                                                              const StopSignal& stop);

/// The functions that open_stream() calls. Each of them opens one kind of source, or decompresses another stream. Error
/// messages contain `name`.
[[nodiscard]] Result<std::unique_ptr<ByteStream>> open_file(const std::string& path);
/// If the FIFO does not exist, waits until it exists, at most for the time `patience`.
[[nodiscard]] Result<std::unique_ptr<ByteStream>> open_fifo(const std::string& path, const StopSignal& stop,
                                                            std::chrono::milliseconds patience);
[[nodiscard]] std::unique_ptr<ByteStream> open_memory(std::shared_ptr<const std::string> bytes);
[[nodiscard]] Result<std::unique_ptr<ByteStream>> decompress_gzip(std::unique_ptr<ByteStream> compressed,
                                                                  const std::string& name);
[[nodiscard]] Result<std::unique_ptr<ByteStream>> decompress_zstd(std::unique_ptr<ByteStream> compressed,
                                                                  const std::string& name);

}  // namespace rueda::data
