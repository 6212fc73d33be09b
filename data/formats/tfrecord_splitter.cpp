// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <cstring>

#include "data/crc32c.hpp"
#include "data/formats/splitter.hpp"

namespace rueda::data {

namespace {

/// Returns a text for the user: what to do about a damaged record. If the first record is damaged, the file is usually
/// a compressed one that was opened as a plain file.
std::string_view compression_hint(std::string_view bytes, std::uint64_t offset) {
    if (offset == 0 && bytes.starts_with("\x1f\x8b")) {
        return "; the file begins like gzip data: set FileCompression::gzip";
    }
    if (offset == 0 && bytes.starts_with("\x28\xb5\x2f\xfd")) {
        return "; the file begins like zstd data: set FileCompression::zstd";
    }
    return "; the file is damaged, or is not a TFRecord file; copy it again";
}

class TfrecordSplitter final : public Splitter {
public:
    Result<std::size_t> split(std::string_view bytes, std::uint64_t offset, bool at_end,
                              std::vector<Record>& records) override {
        std::size_t used = 0;
        while (bytes.size() - used >= kTfrecordHeadBytes) {
            const char* const head = bytes.data() + used;
            std::uint64_t length = 0;
            std::uint32_t stored = 0;
            std::memcpy(&length, head, sizeof length);
            std::memcpy(&stored, head + sizeof length, sizeof stored);
            if (masked(crc32c(head, sizeof length)) != stored) {
                return failure(ErrorCode::invalid_argument,
                               "damaged length at offset {}: its masked CRC is {:08x}, expected {:08x}{}",
                               offset + used, stored, masked(crc32c(head, sizeof length)),
                               compression_hint(bytes, offset + used));
            }
            if (length > kMostRecordBytes) {
                return failure(ErrorCode::invalid_argument,
                               "the record at offset {} has {} bytes, expected at most {}; write it as several records",
                               offset + used, length, kMostRecordBytes);
            }
            const std::size_t behind = bytes.size() - used - kTfrecordHeadBytes;
            if (behind < kTfrecordFootBytes || length > behind - kTfrecordFootBytes) {
                break;
            }
            records.push_back({head + kTfrecordHeadBytes, static_cast<std::size_t>(length), offset + used, 0, 0});
            used += kTfrecordHeadBytes + static_cast<std::size_t>(length) + kTfrecordFootBytes;
        }
        if (at_end && used != bytes.size()) {
            return failure(
                ErrorCode::invalid_argument,
                "the file ends inside of the record that begins at offset {}: {} bytes of it are there; the file "
                "was cut or is still being written; copy it again",
                offset + used, bytes.size() - used);
        }
        return used;
    }
};

}  // namespace

std::unique_ptr<Splitter> make_tfrecord_splitter() { return std::make_unique<TfrecordSplitter>(); }

}  // namespace rueda::data
