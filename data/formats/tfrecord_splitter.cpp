// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.hpp"
#include "data/crc32c.hpp"
#include "data/formats/other_format.hpp"
#include "data/formats/splitter.hpp"

namespace rueda::data {

namespace {

/// Call this function if a file does not begin with a record. The result is Mismatch, with advice, if the file
/// certainly has another format. A damaged TFRecord file is not mistaken for another format, because it begins with the
/// length of a record, whose upper bytes are zero. A file of fewer than kShortest bytes may be the first part of such a
/// length, so the result is not Mismatch.
Status check_beginning(std::string_view bytes) {
    constexpr std::size_t kShortest = 8;
    if (bytes.size() < kShortest) {
        return {};
    }
    if (bytes.starts_with("\x1f\x8b\x08")) {
        return failure(ErrorCode::mismatch, "the file begins like gzip data: set FileCompression::gzip");
    }
    if (bytes.starts_with("\x28\xb5\x2f\xfd")) {
        return failure(ErrorCode::mismatch, "the file begins like zstd data: set FileCompression::zstd");
    }
    const auto is_ascii_text = [](char byte) { return byte > 0 && byte < 0x7f && !is_control_byte(byte); };
    const std::string_view begin = bytes.substr(bytes.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
    if (std::ranges::all_of(begin.substr(0, kTfrecordHeadBytes), is_ascii_text)) {
        return failure(ErrorCode::mismatch,
                       "the file begins with the text {}, which is no TFRecord: is this file of another format, for "
                       "example CSV or LibSVM? Correct the format of the pipeline",
                       base::quote(begin.substr(0, begin.find('\n')), 40));
    }
    return {};
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
                RUEDA_RETURN_IF_FAILED(offset + used == 0 ? check_beginning(bytes) : Status());
                return failure(ErrorCode::invalid_argument,
                               "damaged length at offset {}: its masked CRC is {:08x}, expected {:08x}; the file is "
                               "damaged, or is not a TFRecord file; copy it again",
                               offset + used, stored, masked(crc32c(head, sizeof length)));
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
            RUEDA_RETURN_IF_FAILED(offset + used == 0 ? check_beginning(bytes) : Status());
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
