// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The header of a safetensors file as text and back. No files, no data: so that it can be tested and fuzzed by itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "rueda/training/checkpoint.hpp"

namespace rueda::training {

/// The format's own limit of the header's length, in bytes (safetensors 0.3 and later refuse longer ones).
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
/// Before the header: its length, little-endian.
inline constexpr std::uint64_t kLengthBytes = 8;

/// A tensor and its place in the data that follows the header.
struct StoredTensor {
    TensorInfo info;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t checksum = 0;  ///< of its data, where Header::has_checksums
};

struct Header {
    Metadata metadata;                  ///< the caller's, without the checksums
    std::vector<StoredTensor> tensors;  ///< by place
    bool has_checksums = false;
};

/// Where the checksums are in the metadata of the file, for other readers a text like the rest:
/// "rueda:xxh3-64 <header> <tensor> <tensor> …". Each is the XXH3 of 64 bits as 16 hexadecimal digits. <header> covers
/// the metadata, and name, dtype, shape and checksum of every tensor, but not their places and not how the JSON is
/// written: a program that only moves the tensors in the file leaves it valid. One <tensor> covers the data of a
/// tensor, in the order of the names. Key and value both tell that there are checksums, so that damage to one of them
/// is noticed.
inline constexpr std::string_view kChecksumsKey = "rueda.checksums";
inline constexpr std::string_view kChecksumsMark = "rueda:xxh3-64";

/// As it stands in files and messages.
[[nodiscard]] std::string checksum_text(std::uint64_t checksum);
/// Of a tensor whose data have another checksum than its header says.
[[nodiscard]] Status checksum_failure(const StoredTensor& tensor, std::uint64_t computed);

/// Gives every tensor its place: larger element types first, else in the order given, so that each is aligned to its
/// own element size. Fails for names that are empty, double or reserved, for metadata that looks like checksums, and
/// for negative extents.
Result<Header> lay_out(std::span<const NamedTensor> tensors, const Metadata& metadata);

/// The header's text, padded with spaces to a multiple of eight bytes. Its length does not depend on the values of the
/// checksums.
Result<std::string> format_header(const Header& header);

/// Reads a header, checks it against `data_bytes`, the length of the data behind it, and against the checksum that it
/// has of itself. A header without checksums is fine: other programs write none. The message of a failure does not name
/// the file.
Result<Header> parse_header(std::string_view text, std::uint64_t data_bytes);

}  // namespace rueda::training
