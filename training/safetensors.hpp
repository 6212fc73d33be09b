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
};

struct Header {
    Metadata metadata;
    std::vector<StoredTensor> tensors;  ///< by place
};

/// Gives every tensor its place: larger element types first, else in the order given, so that each is aligned to its
/// own element size. Fails for names that are empty, double or reserved, and for negative extents.
Result<Header> lay_out(std::span<const NamedTensor> tensors, const Metadata& metadata);

/// The header's text, padded with spaces to a multiple of eight bytes.
Result<std::string> format_header(const Header& header);

/// Reads a header and checks it against `data_bytes`, the length of the data behind it. The message of a failure does
/// not name the file.
Result<Header> parse_header(std::string_view text, std::uint64_t data_bytes);

}  // namespace rueda::training
