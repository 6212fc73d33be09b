// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/formats/splitter.hpp"
#include "data/sources/byte_stream.hpp"
#include "data/sources/source_cache.hpp"

namespace rueda::data {

/// A piece of a source in memory. Records are views into it.
using Chunk = std::unique_ptr<char[]>;
using SharedChunk = std::shared_ptr<const Chunk>;
/// The memory into which the records of a block point: a chunk, or a mapped file.
using RecordMemory = std::shared_ptr<const void>;

/// Parsers may read this many bytes behind the end of a chunk's content. The first of these bytes is a newline.
inline constexpr std::size_t kChunkPadding = 16;

/// Some consecutive records of a source. If `lost` or `failed` is a failure, this block is the last one of the source.
struct Block {
    RecordMemory memory;
    std::vector<Record> records;
    Status lost;    ///< is a failure if the source is damaged, so that its remaining records cannot be found
    Status failed;  ///< is a failure if the source cannot be opened, read or decompressed, or does not fit the format's
                    ///< options
};

/// Finds the records of one source in order. Threads: one at a time.
class BlockReader {
public:
    virtual ~BlockReader() = default;
    /// Replaces the records in `block` by the next records. Returns false at the end of the source. If `block` gets a
    /// failure, the function returns true, even if there are no records. The next call then returns false.
    virtual bool next(Block& block) = 0;
};

/// Makes the reader for a source. `index` becomes Record::source. If `cache` is not null, the reader opens the source
/// through the cache. The formats Safetensors and WholeFiles do not use the cache. The arguments must outlive the
/// reader.
[[nodiscard]] std::unique_ptr<BlockReader> make_block_reader(const Source& source, std::uint32_t index,
                                                             std::int64_t epoch, const Format& format,
                                                             const std::string& header, const StopSignal& stop,
                                                             SourceCache* cache = nullptr);

/// Reads a source in chunks, and splits them.
class RecordReader final : public BlockReader {
public:
    /// `index` becomes Record::source. `stop` and `cache` must outlive the reader.
    RecordReader(const Source& source, std::uint32_t index, std::int64_t epoch, const Format& format,
                 const std::string& header, const StopSignal& stop, SourceCache* cache = nullptr);

    bool next(Block& block) override;

private:
    [[nodiscard]] Status read_chunk();
    [[nodiscard]] Status split_chunk(Block& block);

    std::string name_;
    std::uint32_t index_;
    Status opened_;
    std::unique_ptr<ByteStream> stream_;
    std::unique_ptr<Splitter> splitter_;
    SharedChunk chunk_;           ///< the newest chunk; its end may hold the beginning of a record
    std::size_t rest_begin_ = 0;  ///< index in the chunk of the first byte that belongs to no record yet
    std::size_t rest_end_ = 0;
    std::uint64_t offset_ = 0;  ///< offset in the source of the byte at `rest_begin_`
    std::uint64_t number_ = 0;  ///< the number of the next record
    bool at_end_ = false;
    bool finished_ = false;
};

/// Reads the first row of a CSV source.
[[nodiscard]] Result<std::string> read_header(const Source& source, bool quotes, const StopSignal& stop);

}  // namespace rueda::data
