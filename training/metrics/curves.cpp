// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The picture is the same as that of python/rueda/training/_curves.py. tests/python/test_training_values.py compares
// them.
#include "rueda/training/curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "rueda/error.hpp"
#include "training/metrics/appended_file.hpp"

namespace rueda::training {
namespace {

// The sizes of the picture, in pixels.
constexpr int kWidth = 760;
constexpr int kLeft = 70;
constexpr int kRight = kWidth - 20;
constexpr int kTop = 46;
constexpr int kPlotHeight = 300;
constexpr int kBottom = kTop + kPlotHeight;
constexpr int kLegend = kBottom + 52;
constexpr int kLegendColumns = 3;
constexpr int kLegendColumnWidth = 230;
constexpr int kLineHeight = 18;
// Colour-blind readers can distinguish these colours (Okabe and Ito 2008).
constexpr std::array<std::string_view, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00", "#56b4e9", "#000000"};
constexpr std::array<std::string_view, 3> kDashes = {"", "6 4", "2 3"};

/// The values of an axis, and the positions of its ends.
struct Axis {
    double low, high;
    double from, to;
    [[nodiscard]] double place(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

struct Tick {
    double place;  ///< the value on the axis
    double label;
};

/// Returns about five round numbers of the axis.
std::vector<Tick> ticks(const Axis& axis) {
    double step = std::pow(10.0, std::floor(std::log10((axis.high - axis.low) / 5)));
    const std::array<double, 4> factors = {1, 2, 5, 10};
    step *= *std::find_if(factors.begin(), factors.end() - 1,
                          [&](double factor) { return step * factor * 6 >= axis.high - axis.low; });
    const double first = std::ceil(axis.low / step - 1e-9);
    // There should be at most about six ticks. If rounding gives more ticks, the limit of 20 keeps the loop short.
    const int count = static_cast<int>(std::min(20.0, std::floor(axis.high / step + 1e-9) - first + 1));
    std::vector<Tick> all;
    for (int i = 0; i < count; ++i) {
        const double value = (first + i) * step + 0.0;  // 0 without a sign
        all.push_back({value, value});
    }
    return all;
}

/// Returns ticks at 1, 2 and 5 times each power of ten. The values of the axis are logarithms.
std::vector<Tick> log_ticks(const Axis& axis) {
    std::vector<Tick> all;
    for (double power = std::floor(axis.low); power <= std::ceil(axis.high); ++power) {
        for (const double factor : {1.0, 2.0, 5.0}) {
            const double number = factor * std::pow(10.0, power);
            const double place = std::log10(number);
            if (axis.low - 1e-9 <= place && place <= axis.high + 1e-9) {
                all.push_back({place, number});
            }
        }
    }
    return all;
}

/// Returns an axis for these values. It begins at 0 or below if `from_zero` is true.
Axis axis_for(const std::vector<double>& values, bool from_zero, double from, double to) {
    double low = std::numeric_limits<double>::infinity();
    double high = -low;
    for (const double value : values) {
        if (std::isfinite(value)) {
            low = std::min(low, value);
            high = std::max(high, value);
        }
    }
    if (low > high) {
        return {0.0, 1.0, from, to};
    }
    low = from_zero ? std::min(low, 0.0) : low;
    // The ends of an axis must differ by much more than the rounding of its values. Otherwise, ticks would be equal.
    const double magnitude = std::max(std::abs(low), std::abs(high));
    const bool wide = high - low > std::max(1e-12 * magnitude, 1e-300);
    return {low, wide ? high : low + std::max(1.0, 1e-9 * magnitude), from, to};
}

std::string escaped(std::string_view text) {
    std::string result;
    for (const char letter : text) {
        switch (letter) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            case '\'':
                result += "&#x27;";
                break;
            default:
                result += letter;
        }
    }
    return result;
}

std::string label(double x, double y, std::string_view words, std::string_view anchor = "start", int size = 12) {
    return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" font-size="{}">{}</text>)", x, y, anchor, size,
                       escaped(words));
}

std::string style_of(std::size_t index) {
    const std::string_view dash = kDashes[index / kColours.size() % kDashes.size()];
    return fmt::format(R"(stroke="{}" stroke-width="1.6"{})", kColours[index % kColours.size()],
                       dash.empty() ? "" : fmt::format(R"( stroke-dasharray="{}")", dash));
}

void draw_axes(std::string& svg, const Axis& across, const Axis& up, const CurvesOptions& options) {
    for (const Tick& tick : options.logarithmic ? log_ticks(up) : ticks(up)) {
        const double y = up.place(tick.place);
        svg += fmt::format("<path d=\"M{} {:.1f}H{}\" stroke=\"#ddd\"/>\n", kLeft, y, kRight);
        svg += label(kLeft - 8, y + 4, fmt::format("{:.4g}", tick.label), "end") + "\n";
    }
    for (const Tick& tick : ticks(across)) {
        const double x = across.place(tick.place);
        svg += fmt::format("<path d=\"M{:.1f} {}v5\" stroke=\"#888\"/>\n", x, kBottom);
        svg += label(x, kBottom + 18, fmt::format("{:.6g}", tick.label), "middle") + "\n";
    }
    svg += fmt::format("<path d=\"M{} {}V{}H{}\" stroke=\"#888\" fill=\"none\"/>\n", kLeft, kTop, kBottom, kRight);
    svg += label((kLeft + kRight) / 2.0, kBottom + 38, options.x_label, "middle") + "\n";
    svg += fmt::format("<g transform=\"translate(18 {:.1f}) rotate(-90)\">{}</g>\n", kTop + kPlotHeight / 2.0,
                       label(0, 0, options.y_label, "middle"));
}

/// Draws the finite parts of a curve.
void draw_curve(std::string& svg, const Axis& across, const Axis& up, const Curve& curve, std::string_view style) {
    std::vector<std::string> part;
    const auto end_part = [&] {
        if (part.size() == 1) {
            part.push_back(part[0]);  // a line from the point to itself, so that the point can be seen
        }
        if (!part.empty()) {
            svg += fmt::format("<path d=\"M{}\" {} fill=\"none\"/>\n", fmt::join(part, " L"), style);
        }
        part.clear();
    };
    for (const CurvePoint& point : curve.points) {
        if (std::isfinite(point.x) && std::isfinite(point.y)) {
            part.push_back(fmt::format("{:.1f} {:.1f}", across.place(point.x), up.place(point.y)));
        } else {
            end_part();
        }
    }
    end_part();
}

void draw_legend(std::string& svg, std::span<const Curve> curves) {
    for (std::size_t index = 0; index < curves.size(); ++index) {
        const int number = static_cast<int>(index);
        const int x = kLeft + 10 + number % kLegendColumns * kLegendColumnWidth;
        const int y = kLegend + number / kLegendColumns * kLineHeight;
        svg += fmt::format("<path d=\"M{} {}h24\" {}/>{}\n", x, y, style_of(index),
                           label(x + 30, y + 4, curves[index].name));
    }
}

std::string picture(std::span<const Curve> curves, const CurvesOptions& options) {
    std::vector<double> x;
    std::vector<double> y;
    for (const Curve& curve : curves) {
        for (const CurvePoint& point : curve.points) {
            x.push_back(point.x);
            y.push_back(point.y);
        }
    }
    const Axis across = axis_for(x, /*from_zero=*/false, kLeft, kRight);
    const Axis up = axis_for(y, /*from_zero=*/!options.logarithmic, kBottom, kTop);
    const int rows = (static_cast<int>(curves.size()) + kLegendColumns - 1) / kLegendColumns;
    const int height = kLegend + rows * kLineHeight;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
        "<g font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n",
        kWidth, height);
    svg += label(kWidth / 2.0, 24, options.title, "middle", 14) + "\n";
    draw_axes(svg, across, up, options);
    for (std::size_t index = 0; index < curves.size(); ++index) {
        draw_curve(svg, across, up, curves[index], style_of(index));
    }
    draw_legend(svg, curves);
    return svg + "</g>\n</svg>\n";
}

}  // namespace

void draw_curves(const std::filesystem::path& path, std::span<const Curve> curves, const CurvesOptions& options) {
    if (curves.empty()) {
        throw InvalidArgument("draw_curves: there is no curve; give at least one");
    }
    std::vector<Curve> drawn(curves.begin(), curves.end());
    for (Curve& curve : drawn) {
        for (CurvePoint& point : curve.points) {
            if (options.logarithmic) {
                point.y = point.y > 0 ? std::log10(point.y) : std::numeric_limits<double>::quiet_NaN();
            }
        }
    }
    Result<AppendedFile> file = AppendedFile::begin(path, picture(drawn, options));
    file.status().throw_if_failed();
    file.value().close().throw_if_failed();
}

}  // namespace rueda::training
