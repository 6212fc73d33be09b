// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Where the bytes of a data set come from: files, FIFOs or memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rueda/rueda.h"

namespace rueda::data {

/// How the bytes of a source are compressed. A file may consist of several compressed parts, one after another.
enum class FileCompression : std::int32_t {
    automatic,  ///< the ending of the file's name decides: gzip for ".gz", zstd for ".zst", otherwise no compression
    none,
    gzip,  ///< gzip, or the zlib format, which TensorFlow calls "ZLIB"
    zstd,
};

/// The kinds of sources.
enum class SourceKind : std::int32_t {
    file,
    fifo,    ///< a named pipe; each byte can be read only once, by one reader
    memory,  ///< bytes in this process
};

/// Describes a source of bytes. Making a description does not open the file or FIFO.
struct Source {
    std::string name;  ///< the path of a file or FIFO; for memory, the name that error messages show. In the path of a
                       ///< FIFO, "{epoch}" stands for the number of the epoch, counted from 0
    SourceKind kind = SourceKind::file;
    FileCompression compression = FileCompression::automatic;
    std::shared_ptr<const std::string> bytes;  ///< the bytes of a memory source
};

/// Returns the files that match any of the patterns (see glob(7)), sorted by name and without repetitions. Files are
/// not opened. Throws InvalidArgument if a pattern matches no file, or if it matches something that is not a regular
/// file.
[[nodiscard]] RUEDA_API std::vector<Source> files(std::span<const std::string> patterns,
                                                  FileCompression compression = FileCompression::automatic);
/// Does the same as files() above, for a single pattern.
[[nodiscard]] RUEDA_API std::vector<Source> files(const std::string& pattern,
                                                  FileCompression compression = FileCompression::automatic);

/// Returns a list with one source, this FIFO. Only one process of a host may read a FIFO; a second process that opens
/// it gets an error.
[[nodiscard]] RUEDA_API std::vector<Source> fifo(const std::string& path,
                                                 FileCompression compression = FileCompression::automatic);

/// Returns the FIFOs of a SageMaker channel in Pipe mode: "/opt/ml/input/data/<channel>_<epoch>". Each epoch has its
/// own FIFO.
[[nodiscard]] RUEDA_API std::vector<Source> sagemaker_channel(const std::string& channel,
                                                              FileCompression compression = FileCompression::automatic);

/// Returns a list with one source, these bytes in memory. Copies of the source share the bytes. `name` must not be
/// empty: a pipeline then throws InvalidArgument.
[[nodiscard]] RUEDA_API std::vector<Source> memory(std::string name, std::string bytes,
                                                   FileCompression compression = FileCompression::none);

/// Reads the bytes of one source in order, after decompression. Use it for formats that this library does not know.
/// Threads: one thread at a time may use an object.
class RUEDA_API ByteReader {
public:
    /// Opens the source. In the name of a FIFO, "{epoch}" is replaced by `epoch`; the first read() of a FIFO waits for
    /// a writer. Throws InvalidArgument if the source cannot be opened, and Unsupported if this build has no library
    /// for the compression.
    explicit ByteReader(const Source& source, std::int64_t epoch = 0);
    ByteReader(ByteReader&&) noexcept;
    ByteReader& operator=(ByteReader&&) noexcept;
    ~ByteReader();

    /// Reads at least one byte and at most `into.size()` bytes, and returns their number. Returns 0 at the end. Throws
    /// InvalidArgument if the file is damaged or cannot be read.
    std::size_t read(std::span<std::byte> into);

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace rueda::data
