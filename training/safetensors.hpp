// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Converts the header of a safetensors file to text and back. It uses no files and no data, so that it can be tested
/// and fuzzed by itself.
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
/// The header's length stands before the header, little-endian.
inline constexpr std::uint64_t kLengthBytes = 8;

/// A tensor and its position in the data that follow the header.
struct StoredTensor {
    TensorInfo info;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t checksum = 0;  ///< the checksum of its data, if Header::has_checksums
};

struct Header {
    Metadata metadata;                  ///< the caller's, without the checksums
    std::vector<StoredTensor> tensors;  ///< in the order of their positions
    bool has_checksums = false;
};

/// The key in the file's metadata under which the checksums are stored. For other readers the value is a text like any
/// other: "rueda:xxh3-64 <header> <tensor> <tensor> …". Each checksum is the XXH3 of 64 bits as 16 hexadecimal digits.
/// <header> covers the metadata, and name, dtype, shape and checksum of every tensor. It does not cover their positions
/// or how the JSON is written, so a program that only moves the tensors in the file leaves it valid. Each <tensor>
/// covers the data of one tensor, in the order of the names. Both the key and the value show that there are checksums,
/// so that damage to one of them is noticed.
inline constexpr std::string_view kChecksumsKey = "rueda.checksums";
inline constexpr std::string_view kChecksumsMark = "rueda:xxh3-64";

/// A checksum as it is written in files and messages.
[[nodiscard]] std::string checksum_text(std::uint64_t checksum);
/// The error for a tensor whose data do not have the checksum that the header says.
[[nodiscard]] Status checksum_failure(const StoredTensor& tensor, std::uint64_t computed);

/// Gives every tensor its position: larger element types first, else in the given order. So each tensor is aligned to
/// its own element size. Fails for names that are empty, double or reserved, for metadata that look like checksums, and
/// for negative extents.
Result<Header> lay_out(std::span<const NamedTensor> tensors, const Metadata& metadata);

/// The header's text, padded with spaces to a multiple of eight bytes. Its length does not depend on the values of the
/// checksums.
Result<std::string> format_header(const Header& header);

/// Reads a header. Checks it against `data_bytes`, the length of the data after it, and against the header's own
/// checksum. A header without checksums is valid, because other programs write none. The message of a failure does not
/// name the file.
Result<Header> parse_header(std::string_view text, std::uint64_t data_bytes);

}  // namespace rueda::training
