// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Converts the header of a safetensors file to text and back. The functions use neither files nor tensor data, so they
/// can be tested and fuzzed alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "rueda/training/checkpoint.hpp"

namespace rueda::training {

/// The maximum length in bytes of a header in this format. (safetensors 0.3 and later refuse longer headers.)
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
/// The size in bytes of the field before the header. This field contains the header's length, little-endian.
inline constexpr std::uint64_t kLengthBytes = 8;

/// A tensor, and its position in the data. The data follow the header. Positions are offsets in bytes.
struct StoredTensor {
    TensorInfo info;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    /// the checksum of the tensor's data; has a meaning only if Header::has_checksums is true
    std::uint64_t checksum = 0;
};

struct Header {
    Metadata metadata;                  ///< the caller's metadata, without the checksums
    std::vector<StoredTensor> tensors;  ///< ordered by position
    bool has_checksums = false;
};

/// The key in the file's metadata under which the checksums are stored. Other programs treat the value like any other
/// text. The value has this form: "rueda:xxh3-64 <header> <tensor> <tensor> …". Each checksum is a 64-bit XXH3 as 16
/// hexadecimal digits.
///
/// <header> is the checksum of the header. It covers the metadata, and the name, dtype, shape and checksum of every
/// tensor. It does not cover the positions of tensors or the formatting of the JSON, so it stays valid if a program
/// only moves the tensors in the file. Each <tensor> is the checksum of one tensor's data, in the order of the names.
///
/// A reader knows that there are checksums if it finds the key, or a value that begins with kChecksumsMark. So it
/// notices if one of the two is damaged.
inline constexpr std::string_view kChecksumsKey = "rueda.checksums";
inline constexpr std::string_view kChecksumsMark = "rueda:xxh3-64";

/// Returns the text of a checksum, as files and messages contain it.
[[nodiscard]] std::string checksum_text(std::uint64_t checksum);
/// Returns the error for a tensor whose data do not match the checksum in the header.
[[nodiscard]] Status checksum_failure(const StoredTensor& tensor, std::uint64_t computed);

/// Sets the position of every tensor. Tensors with larger element types come first; otherwise the given order is kept.
/// Each tensor is therefore aligned to its element size. Fails if a name is empty, reserved or occurs twice, if
/// the metadata contain kChecksumsKey or a value like that of checksums, or if an extent is negative.
Result<Header> lay_out(std::span<const NamedTensor> tensors, const Metadata& metadata);

/// Returns the header's text, padded with spaces to a multiple of eight bytes. The length of the text does not depend
/// on the values of the checksums.
Result<std::string> format_header(const Header& header);

/// Parses a header. Checks the header against `data_bytes`, the length of the data after the header, and against the
/// header's own checksum. A header without checksums is valid, because other programs write none. The message of a
/// failure does not contain the name of the file.
Result<Header> parse_header(std::string_view text, std::uint64_t data_bytes);

}  // namespace rueda::training
