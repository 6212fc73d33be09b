// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests draw_curves(). tests/python/test_training_values.py compares whole pictures with those of Python.
#include "rueda/training/curves.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "rueda/error.hpp"
#include "tests/training/messages.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using test::message_of;

/// A folder that is removed at the end of the test.
struct PictureFolder {
    PictureFolder() { std::filesystem::create_directories(path); }
    PictureFolder(const PictureFolder&) = delete;
    PictureFolder& operator=(const PictureFolder&) = delete;
    ~PictureFolder() { std::filesystem::remove_all(path); }
    [[nodiscard]] std::string drawn(const std::vector<Curve>& curves, const CurvesOptions& options = {}) const {
        draw_curves(path / "picture.svg", curves, options);
        std::ostringstream text;
        text << std::ifstream(path / "picture.svg").rdbuf();
        return text.str();
    }
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("rueda-curves-" + std::to_string(::getpid()));
};

TEST_CASE("the points of a curve are at their places", "[training]") {
    const PictureFolder folder;
    const std::string linear = folder.drawn({{"a", {{0, 0}, {5, 1}, {7, NAN}, {10, 2}}}, {"b <&>", {{0, 1}, {10, 1}}}},
                                            {.title = "t", .x_label = "x", .y_label = "y"});
    // The plot reaches from x = 70 to 740, and from y = 346 (at the bottom) to 46.
    CHECK_THAT(linear, Contains("d=\"M70.0 346.0 L405.0 196.0\""));  // a line from the lower left corner to the middle
    CHECK_THAT(linear, Contains("d=\"M740.0 46.0 L740.0 46.0\""));   // after the gap, one point
    CHECK_THAT(linear, Contains("d=\"M70.0 196.0 L740.0 196.0\""));  // the other curve
    CHECK_THAT(linear, Contains(">b &lt;&amp;&gt;<") && Contains(">t<") && Contains(">x<") && Contains(">y<"));
    const std::string logarithmic = folder.drawn({{"a", {{0, 0.01}, {1, 1}, {2, 0}, {3, 0.1}}}}, {.logarithmic = true});
    CHECK_THAT(logarithmic, Contains("d=\"M70.0 346.0 L293.3 46.0\"") && Contains(">0.02<"));
    CHECK_THAT(logarithmic, Contains("d=\"M740.0 196.0 L740.0 196.0\""));
    CHECK_FALSE(std::filesystem::exists(folder.path / "picture.svg.partial"));
}

TEST_CASE("curves without a finite point are drawn as empty plots", "[training]") {
    const PictureFolder folder;
    for (const bool logarithmic : {false, true}) {
        for (const std::vector<CurvePoint>& points :
             {std::vector<CurvePoint>{}, {{0, NAN}}, {{INFINITY, 1}}, {{1, 1}}, {{1, -1}}}) {
            CHECK_THAT(folder.drawn({{"a", points}}, {.logarithmic = logarithmic}), EndsWith("</g>\n</svg>\n"));
        }
    }
}

TEST_CASE("curves whose values differ by little or nothing have a few ticks", "[training]") {
    const PictureFolder folder;
    for (const std::vector<CurvePoint>& points : {std::vector<CurvePoint>{{1.7e18, 1}},
                                                  {{0, -1e30}, {1, -1e30}},
                                                  {{0x1p60, 0}, {0x1p60 + 256, 1}},
                                                  {{0, 0}, {1, 5e-324}}}) {
        const std::string picture = folder.drawn({{"a", points}});
        CHECK_THAT(picture, EndsWith("</g>\n</svg>\n") && !Contains("nan") && !Contains("inf"));
        // Each axis has 3 to 7 ticks. Each tick of the horizontal axis is a line of 5 pixels.
        std::size_t found = 0;
        for (std::size_t at = 0; (at = picture.find("v5\"", at)) != std::string::npos; ++at) {
            ++found;
        }
        CHECK(found >= 3);
        CHECK(found <= 7);
    }
}

TEST_CASE("pictures that cannot be drawn are refused", "[training]") {
    const PictureFolder folder;
    CHECK_THAT(message_of<InvalidArgument>([&] { draw_curves(folder.path / "a.svg", {}); }),
               Contains("there is no curve"));
    const std::vector<Curve> curves = {{"a", {{0, 0}}}};
    CHECK_THAT(message_of<InvalidArgument>([&] { draw_curves(folder.path / "missing" / "a.svg", curves); }),
               Contains("missing/a.svg") && Contains("No such file or directory"));
}

}  // namespace
}  // namespace rueda::training
