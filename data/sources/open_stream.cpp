// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "data/sources/byte_stream.hpp"

namespace rueda::data {

namespace {

bool ends_with_any(std::string_view name, std::string_view one, std::string_view other) {
    return name.ends_with(one) || name.ends_with(other);
}

/// SageMaker makes the FIFO of an epoch only after this process has read the FIFO of the previous epoch. So this
/// process may try to open the new FIFO a little before it exists. The FIFO of the first epoch is there before the
/// program starts.
constexpr std::chrono::milliseconds kPatienceForNextEpoch = std::chrono::minutes(1);

Result<std::unique_ptr<ByteStream>> open_plain(const Source& source, const std::string& name, std::int64_t epoch,
                                               const StopSignal& stop) {
    switch (source.kind) {
        case SourceKind::fifo:
            return open_fifo(name, stop, epoch > 0 ? kPatienceForNextEpoch : std::chrono::milliseconds(0));
        case SourceKind::memory:
            if (source.bytes == nullptr) {
                return failure(ErrorCode::invalid_argument,
                               "opening the memory source '{}': it has no bytes; make it with memory()", name);
            }
            return open_memory(source.bytes);
        case SourceKind::file:
            break;
    }
    return open_file(name);
}

}  // namespace

std::string name_in_epoch(const Source& source, std::int64_t epoch) {
    constexpr std::string_view kPlace = "{epoch}";
    std::string name = source.name;
    if (source.kind == SourceKind::fifo) {
        if (const std::size_t place = name.find(kPlace); place != std::string::npos) {
            name.replace(place, kPlace.size(), std::to_string(epoch));
        }
    }
    return name;
}

FileCompression compression_of(const Source& source) {
    if (source.compression != FileCompression::automatic) {
        return source.compression;
    }
    if (ends_with_any(source.name, ".gz", ".gzip")) {
        return FileCompression::gzip;
    }
    return ends_with_any(source.name, ".zst", ".zstd") ? FileCompression::zstd : FileCompression::none;
}

Result<std::unique_ptr<ByteStream>> open_stream(const Source& source, std::int64_t epoch, const StopSignal& stop) {
    const std::string name = name_in_epoch(source, epoch);
    auto plain = open_plain(source, name, epoch, stop);
    if (!plain.is_ok()) {
        return plain.status();
    }
    switch (compression_of(source)) {
        case FileCompression::gzip:
            return decompress_gzip(std::move(plain).value(), name);
        case FileCompression::zstd:
            return decompress_zstd(std::move(plain).value(), name);
        case FileCompression::automatic:
        case FileCompression::none:
            break;
    }
    return plain;
}

struct ByteReader::Parts {
    StopSignal stop;
    std::unique_ptr<ByteStream> stream;
};

ByteReader::ByteReader(const Source& source, std::int64_t epoch) : parts_(std::make_unique<Parts>()) {
    auto stream = open_stream(source, epoch, parts_->stop);
    stream.status().throw_if_failed();
    parts_->stream = std::move(stream).value();
}

ByteReader::ByteReader(ByteReader&&) noexcept = default;
ByteReader& ByteReader::operator=(ByteReader&&) noexcept = default;
ByteReader::~ByteReader() = default;

std::size_t ByteReader::read(std::span<std::byte> into) {
    if (into.empty()) {
        return 0;
    }
    const auto count = parts_->stream->read(into);
    count.status().throw_if_failed();
    return count.value();
}

}  // namespace rueda::data
