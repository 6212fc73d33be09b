// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace digits {

inline constexpr std::int64_t kSide = 8;                ///< the number of pixels of an image along each axis
inline constexpr std::int64_t kPixels = kSide * kSide;  ///< pixels of one image
inline constexpr std::int64_t kClasses = 10;

/// Images and their labels. The pixels of all images are in one array, as the network needs them.
struct Images {
    std::vector<float> pixels;  ///< kPixels values from 0 to 1 for each image
    std::vector<std::int32_t> labels;

    [[nodiscard]] std::int64_t count() const noexcept { return static_cast<std::int64_t>(labels.size()); }
    /// Returns `count` images from number `first` on.
    [[nodiscard]] Images piece(std::int64_t first, std::int64_t count) const;
    /// Returns the images with these indices, in the same order.
    [[nodiscard]] Images pick(std::span<const std::int64_t> indices) const;
};

struct DataSet {
    Images training;
    Images held_out;       ///< a fifth of the images, which training never uses
    std::string checksum;  ///< CRC-32 of the file's text, by which a resumed run notices that the data have changed
};

/// Reads a plain or gzipped file. Each line has 64 pixels (0 to 16) and a label (0 to 9), separated by commas. The
/// choice of the held-out images depends only on the file. Throws rueda::InvalidArgument if the file is wrong; the
/// message names the line, and says what was found and what was expected.
DataSet read_data(const std::filesystem::path& path);

}  // namespace digits
