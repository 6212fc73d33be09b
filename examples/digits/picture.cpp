// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <cstdio>
#include <string>

#include "curve.hpp"

namespace digits {
namespace {

// The sizes of the picture and of the plot in it, in SVG's units (pixels at 100 %).
constexpr double kWidth = 760;
constexpr double kHeight = 420;
constexpr double kLeft = 70;
constexpr double kRight = kWidth - 70;
constexpr double kTop = 50;
constexpr double kBottom = kHeight - 60;
constexpr int kParts = 5;  ///< number of parts into which the grid divides an axis
constexpr const char* kLossColour = "#1f5fa8";
constexpr const char* kAccuracyColour = "#b4500f";

template <class... Values>
std::string print(const char* format, Values... values) {
    std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, values...)), '\0');
    std::snprintf(text.data(), text.size() + 1, format, values...);
    return text;
}

/// Maps a range of values linearly to a range of positions.
struct Axis {
    double low, high;
    double from, to;
    [[nodiscard]] double place(double value) const { return from + (value - low) / (high - low) * (to - from); }
    [[nodiscard]] double value(int part) const { return low + (high - low) * part / kParts; }
};

struct Axes {
    Axis step, loss, accuracy;
};

/// Returns the smallest number of the series …, 1, 2, 2.5, 5, 10, … that is at least `value`. Such numbers make short
/// labels for the axis.
double round_up(double value) {
    double unit = 1e-6;
    for (;; unit *= 10) {
        for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
            if (unit * factor >= value) {
                return unit * factor;
            }
        }
    }
}

Axes axes_for(const Curve& curve) {
    double loss = 0.1;
    double accuracy = 1.0;
    for (const CurvePoint& point : curve) {
        // The loss of a diverged run is infinite or NaN, and round_up() would never return for it. So the loss is
        // limited.
        loss = std::max(loss, std::min(point.loss, 1e6));
        accuracy = std::min(accuracy, point.accuracy.value_or(1.0));
    }
    // A good run's accuracy is mostly above 90 %. On an axis from 0 to 100 %, its curve would look like a straight
    // line.
    const double lowest = accuracy >= 0.9 ? 0.9 : accuracy >= 0.5 ? 0.5 : 0.0;
    const double steps = curve.empty() ? 1.0 : static_cast<double>(curve.back().step + 1);
    return {{0, steps, kLeft, kRight}, {0, round_up(loss), kBottom, kTop}, {lowest, 1, kBottom, kTop}};
}

std::string label(double x, double y, const char* anchor, const char* colour, const std::string& text) {
    return print("<text x='%.1f' y='%.1f' text-anchor='%s' fill='%s'>%s</text>\n", x, y, anchor, colour, text.c_str());
}

std::string grid(const Axes& axes) {
    std::string svg;
    for (int part = 0; part <= kParts; ++part) {
        const double y = axes.loss.place(axes.loss.value(part));
        const double x = axes.step.place(axes.step.value(part));
        svg += print("<path d='M%.1f %.1fH%.1f' stroke='#ddd'/>\n", kLeft, y, kRight);
        svg += label(kLeft - 8, y + 4, "end", kLossColour, print("%g", axes.loss.value(part)));
        svg += label(kRight + 8, y + 4, "start", kAccuracyColour, print("%g %%", 100 * axes.accuracy.value(part)));
        svg += label(x, kBottom + 20, "middle", "#333", print("%.0f", axes.step.value(part)));
    }
    svg +=
        print("<path d='M%.1f %.1fV%.1fH%.1fV%.1f' fill='none' stroke='#333'/>\n", kLeft, kTop, kBottom, kRight, kTop);
    svg += label((kLeft + kRight) / 2, kHeight - 16, "middle", "#333", "step");
    svg += label(kLeft, kTop - 16, "middle", kLossColour, "loss");
    svg += label(kRight, kTop - 16, "middle", kAccuracyColour, "accuracy");
    return svg;
}

std::string loss_line(const Axes& axes, const Curve& curve) {
    std::string points;
    for (const CurvePoint& point : curve) {
        const double loss = std::clamp(point.loss, 0.0, axes.loss.high);
        points += print("%.1f,%.1f ", axes.step.place(static_cast<double>(point.step)), axes.loss.place(loss));
    }
    return print("<polyline points='%s' fill='none' stroke='%s' stroke-width='1.2'/>\n", points.c_str(), kLossColour);
}

std::string accuracy_line(const Axes& axes, const Curve& curve) {
    std::string points;
    std::string dots;
    for (const CurvePoint& point : curve) {
        if (point.accuracy) {
            const double x = axes.step.place(static_cast<double>(point.step));
            const double y = axes.accuracy.place(*point.accuracy);
            points += print("%.1f,%.1f ", x, y);
            dots += print("<circle cx='%.1f' cy='%.1f' r='3' fill='%s'/>\n", x, y, kAccuracyColour);
        }
    }
    return print("<polyline points='%s' fill='none' stroke='%s' stroke-width='2'/>\n", points.c_str(),
                 kAccuracyColour) +
           dots;
}

std::string title(const Curve& curve) {
    const auto last =
        std::find_if(curve.rbegin(), curve.rend(), [](const CurvePoint& point) { return point.accuracy; });
    const std::string end =
        last == curve.rend() ? "" : print(": %.2f %% of the held-out images right", 100 * *last->accuracy);
    return label(kWidth / 2, 24, "middle", "#000", "Training on handwritten digits" + end);
}

}  // namespace

void write_svg(const std::filesystem::path& path, const Curve& curve) {
    const Axes axes = axes_for(curve);
    write_text(path, print("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' font-family='sans-serif' "
                           "font-size='13'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n",
                           kWidth, kHeight) +
                         title(curve) + grid(axes) + loss_line(axes, curve) + accuracy_line(axes, curve) + "</svg>\n");
}

}  // namespace digits
