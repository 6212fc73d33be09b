// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace digits {

inline constexpr std::int64_t kSide = 8;                ///< pixels of an image along each axis
inline constexpr std::int64_t kPixels = kSide * kSide;  ///< of one image
inline constexpr std::int64_t kClasses = 10;

/// Images and their labels. The pixels of the images lie one after the other, as the network needs them.
struct Images {
    std::vector<float> pixels;  ///< kPixels per image, from 0 to 1
    std::vector<std::int32_t> labels;

    [[nodiscard]] std::int64_t count() const noexcept { return static_cast<std::int64_t>(labels.size()); }
    /// Returns `count` images of this set, beginning with number `first`.
    [[nodiscard]] Images piece(std::int64_t first, std::int64_t count) const;
    /// Returns the images with these indices, in this order.
    [[nodiscard]] Images pick(std::span<const std::int64_t> indices) const;
};

struct DataSet {
    Images training;
    Images held_out;       ///< a fifth, never trained on
    std::string checksum;  ///< checksum of the file's text (CRC-32), so that a resumed run notices other data
};

/// Reads a file of lines with 64 pixels (0 to 16) and a label (0 to 9), separated by commas, plain or gzipped. The
/// choice of the held-out images depends only on the file. Throws rueda::InvalidArgument with the file, the line, what
/// was found and what was expected.
DataSet read_data(const std::filesystem::path& path);

}  // namespace digits
