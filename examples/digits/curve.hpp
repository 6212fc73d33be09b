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
    std::optional<double> accuracy;  ///< accuracy on the held-out images, after the last step of an epoch
};
using Curve = std::vector<CurvePoint>;

/// Numbers are written so that reading them gives the same bits. The file appears complete or not at all. Throws
/// rueda::InvalidArgument or rueda::ResourceExhausted with path and reason.
void write_csv(const std::filesystem::path& path, const Curve& curve);

/// Reads the points before step `end` from a file that write_csv wrote; none if there is no such file. Throws
/// rueda::InvalidArgument, with the line, for a file of another form.
Curve read_csv(const std::filesystem::path& path, std::int64_t end);

/// Draws loss and accuracy over the steps, as a picture that any browser shows. Errors are as in write_csv.
void write_svg(const std::filesystem::path& path, const Curve& curve);

/// Writes `text` to a file beside `path` and renames it. Errors are as in write_csv.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace digits
