// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Draws learning curves as an SVG picture.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rueda/rueda.h"

namespace rueda::training {

struct CurvePoint {
    double x = 0.0;
    double y = 0.0;
};

struct Curve {
    std::string name;  ///< the text of the legend, UTF-8
    /// A point that is not finite interrupts the curve.
    std::vector<CurvePoint> points;
};

struct CurvesOptions {
    std::string title{};           ///< a text above the picture; UTF-8, like the labels
    std::string x_label = "step";  ///< a text for the horizontal axis
    std::string y_label = "loss";  ///< a text for the vertical axis
    /// whether the vertical axis is logarithmic; values that are not above 0 then interrupt the curve
    bool logarithmic = false;
};

/// Writes a picture of the curves to an SVG file. The file appears only when it is complete. Python's
/// rueda.training.draw_curves writes a file with the same bytes. Call this function on one rank. Throws InvalidArgument
/// if there is no curve, or if the file cannot be written. Throws ResourceExhausted if the disk is full. Threads: any
/// thread.
RUEDA_API void draw_curves(const std::filesystem::path& path, std::span<const Curve> curves,
                           const CurvesOptions& options = {});

}  // namespace rueda::training
