// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace digits {

/// The results of one training step.
struct CurvePoint {
    std::int64_t step = 0;
    std::int64_t epoch = 0;
    double loss = 0.0;  ///< mean over the global batch
    double learning_rate = 0.0;
    std::optional<double> accuracy;  ///< accuracy on the held-out images, only in the last step of an epoch
};
using Curve = std::vector<CurvePoint>;

/// Writes the curve as CSV, without loss of precision. The file is written completely or not at all. If it cannot be
/// written, throws rueda::InvalidArgument or rueda::ResourceExhausted with its path and the reason.
void write_csv(const std::filesystem::path& path, const Curve& curve);

/// Reads the points before step `end` from a file that write_csv() wrote. Returns an empty curve if the file does not
/// exist. Throws rueda::InvalidArgument, with the line, if the file has another format.
Curve read_csv(const std::filesystem::path& path, std::int64_t end);

}  // namespace digits
