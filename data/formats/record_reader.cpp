// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/formats/record_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <variant>

namespace rueda::data {

namespace {

/// The number of bytes that are read at a time. Smaller chunks need more calls of read(). A larger chunk does not fit
/// into the second-level cache, so some of its bytes would leave the cache before the splitter looks at them.
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
/// At the end of a chunk, there may be the beginning of a record that is not complete (the rest). If the rest is
/// shorter than this, the reader goes on as soon as it has any new bytes. It does not wait for more, because a slow
/// writer of a FIFO may have written only the end of this record.
constexpr std::size_t kLongRestBytes = std::size_t{64} << 10;

struct MakeSplitter {
    const std::string& header;
    std::unique_ptr<Splitter> operator()(const Examples& /*format*/) const { return make_tfrecord_splitter(); }
    std::unique_ptr<Splitter> operator()(const Tfrecords& /*format*/) const { return make_tfrecord_splitter(); }
    std::unique_ptr<Splitter> operator()(const Libsvm& /*format*/) const { return make_line_splitter(false, ""); }
    std::unique_ptr<Splitter> operator()(const Lines& /*format*/) const { return make_line_splitter(false, ""); }
    std::unique_ptr<Splitter> operator()(const Csv& format) const { return make_line_splitter(format.quotes, header); }
    // Safetensors and WholeFiles need no splitter: make_block_reader() makes other readers for them.
    std::unique_ptr<Splitter> operator()(const Safetensors& /*format*/) const { return nullptr; }
    std::unique_ptr<Splitter> operator()(const WholeFiles& /*format*/) const { return nullptr; }
};

}  // namespace

std::unique_ptr<Splitter> make_splitter(const Format& format, const std::string& header) {
    return std::visit(MakeSplitter{header}, format);
}

RecordReader::RecordReader(const Source& source, std::uint32_t index, std::int64_t epoch, const Format& format,
                           const std::string& header, const StopSignal& stop, SourceCache* cache)
    : name_(name_in_epoch(source, epoch)), index_(index), splitter_(make_splitter(format, header)) {
    auto stream = cache == nullptr ? open_stream(source, epoch, stop) : cache->open(source, epoch, stop);
    opened_ = stream.status();
    if (stream.is_ok()) {
        stream_ = std::move(stream).value();
    }
}

bool RecordReader::next(Block& block) {
    block = {};
    while (!finished_ && block.records.empty()) {
        block.failed = opened_.is_ok() ? read_chunk() : opened_;
        if (!block.failed.is_ok()) {
            break;
        }
        block.lost = split_chunk(block);
        if (block.lost.code() == ErrorCode::mismatch) {
            block.failed = Status(ErrorCode::invalid_argument, block.lost.message());
            break;
        }
        finished_ = at_end_ || !block.lost.is_ok();
    }
    finished_ = finished_ || !block.failed.is_ok();
    return !block.records.empty() || !block.lost.is_ok() || !block.failed.is_ok();
}

/// Makes a new chunk, which begins with a copy of the last chunk's rest, and reads more bytes behind it. The old chunk
/// cannot grow, because records of earlier blocks point into it.
Status RecordReader::read_chunk() {
    const std::size_t rest = rest_end_ - rest_begin_;
    // The rest (the beginning of an incomplete record) may be longer than a chunk. The new chunk is at least twice as
    // large as the rest, so that a long rest is not copied too often.
    const std::size_t capacity = rest + std::max(kChunkBytes, rest);
    auto chunk = std::make_shared<Chunk>(new char[capacity + kChunkPadding]);  // not initialised
    char* const bytes = chunk->get();
    if (rest > 0) {
        std::memcpy(bytes, chunk_->get() + rest_begin_, rest);
    }
    const auto room = std::as_writable_bytes(std::span(bytes + rest, capacity - rest));
    // A FIFO returns at most 64 KiB at a time, and each new chunk needs a copy of the rest (the beginning of an
    // incomplete record). If the rest has 64 KiB or more, the reader reads at least as many new bytes as the rest has.
    // Otherwise a long record would be copied again for every 64 KiB.
    const std::size_t least = rest >= kLongRestBytes ? rest : 1;
    std::size_t more = 0;
    for (at_end_ = false; !at_end_ && more < least;) {
        auto count = stream_->read(room.subspan(more));
        RUEDA_RETURN_IF_FAILED(count.status());
        at_end_ = count.value() == 0;
        more += count.value();
    }
    rest_begin_ = 0;
    rest_end_ = rest + more;
    std::memset(bytes + rest_end_, '\n', kChunkPadding);
    chunk_ = std::move(chunk);
    return {};
}

Status RecordReader::split_chunk(Block& block) {
    const std::string_view bytes(chunk_->get() + rest_begin_, rest_end_ - rest_begin_);
    auto used = splitter_->split(bytes, offset_, at_end_, block.records);
    for (Record& record : block.records) {
        record.source = index_;
        record.number = number_++;
    }
    if (!block.records.empty()) {
        block.memory = chunk_;
    }
    if (!used.is_ok()) {
        return failure(used.status().code(), "reading '{}' after {} records: {}", name_, number_,
                       used.status().message());
    }
    rest_begin_ += used.value();
    offset_ += used.value();
    if (rest_end_ - rest_begin_ > kMostRecordBytes + kTfrecordHeadBytes + kTfrecordFootBytes) {
        return failure(ErrorCode::invalid_argument,
                       "reading '{}' after {} records: no end of the record that begins at offset {} was found in {} "
                       "bytes; check that the file has the format that the pipeline expects, and for CSV that the "
                       "double quotes come in pairs",
                       name_, number_, offset_, kMostRecordBytes);
    }
    return {};
}

Result<std::string> read_header(const Source& source, bool quotes, const StopSignal& stop) {
    RecordReader reader(source, 0, 0, Csv{.columns = {}, .quotes = quotes}, "", stop);
    Block block;
    if (!reader.next(block)) {
        return failure(ErrorCode::invalid_argument,
                       "reading '{}': the file is empty; expected a first row with the names of the columns",
                       source.name);
    }
    RUEDA_RETURN_IF_FAILED(block.failed);
    RUEDA_RETURN_IF_FAILED(block.records.empty() ? block.lost : Status());
    return std::string(block.records.front().text());
}

}  // namespace rueda::data
