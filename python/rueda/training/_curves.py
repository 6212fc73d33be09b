# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Draws learning curves as an SVG file, without other packages."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from rueda.errors import InvalidArgument

_WIDTH, _LEFT, _RIGHT, _TOP, _PLOT_HEIGHT, _BELOW = 760, 70, 20, 46, 300, 52
_LINE_HEIGHT = 18
# Colour-blind readers can distinguish these colours (Okabe and Ito 2008).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_DASHES = ("", "6 4", "2 3")

Points = Sequence[tuple[float, float]]


def _ticks(low: float, high: float) -> list[float]:
    """Returns about five round numbers from `low` to `high`."""
    step = 10.0 ** math.floor(math.log10((high - low) / 5))
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor * 6 >= high - low)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Returns the numbers between 10^low and 10^high that are 1, 2 or 5 times a power of ten."""
    numbers = [factor * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for factor in (1, 2, 5)]
    return [number for number in numbers if low - 1e-9 <= math.log10(number) <= high + 1e-9]


def _range_of(values: Iterable[float], from_zero: bool) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    if from_zero and low > 0:
        low = 0.0
    # If all values are nearly equal, the axis gets a larger range. Otherwise, rounding would make its ticks equal.
    magnitude = max(abs(low), abs(high))
    wide = high - low > max(1e-12 * magnitude, 1e-300)
    return (low, high) if wide else (low, low + max(1.0, 1e-9 * magnitude))


def draw_curves(
    path: str | os.PathLike[str],
    curves: Mapping[str, Points],
    *,
    title: str = "",
    x_label: str = "step",
    y_label: str = "loss",
    logarithmic: bool = False,
    marks: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Writes a picture of curves as an SVG file. Call it on one rank.

    Args:
        path: the file to write.
        curves: the points (x, y) of each curve, by the name of the curve. A point that is not finite interrupts the
            curve.
        title: a text above the picture.
        x_label: a text for the horizontal axis.
        y_label: a text for the vertical axis.
        logarithmic: True for a logarithmic vertical axis. Values that are not above 0 then interrupt the curve.
        marks: the positions of vertical lines on the horizontal axis. Each key is a text for the legend, and its value
            is a list of positions.

    Raises:
        InvalidArgument: there is no curve, or the file's name has the extension of another format.
        OSError: the file cannot be written.

    Example::

        rueda.training.draw_curves("loss.svg", {"training": [(0, 2.3), (1, 1.1), (2, 0.7)]})
    """
    if not curves:
        raise InvalidArgument("draw_curves: there is no curve; give at least one")
    extension = os.path.splitext(os.fspath(path))[1]
    if extension.lower() in (".png", ".jpg", ".jpeg", ".pdf", ".gif"):
        raise InvalidArgument(f"draw_curves: '{os.fspath(path)}' ends in {extension}, but the picture is SVG; use .svg")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_picture(curves, title, x_label, y_label, logarithmic, marks or {}))


def _picture(
    curves: Mapping[str, Points],
    title: str,
    x_label: str,
    y_label: str,
    logarithmic: bool,
    marks: Mapping[str, Sequence[float]],
) -> str:
    if logarithmic:
        curves = {name: [(x, math.log10(y) if y > 0 else math.nan) for x, y in curve] for name, curve in curves.items()}
    points = [point for curve in curves.values() for point in curve]
    x_low, x_high = _range_of((x for x, _ in points), from_zero=False)
    y_low, y_high = _range_of((y for _, y in points), from_zero=not logarithmic)
    bottom, right = _TOP + _PLOT_HEIGHT, _WIDTH - _RIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + (x - x_low) / (x_high - x_low) * (right - _LEFT),
            bottom - (y - y_low) / (y_high - y_low) * _PLOT_HEIGHT,
        )

    parts = [_text(_WIDTH / 2, 24, title, "middle", 14)]
    for tick in _log_ticks(y_low, y_high) if logarithmic else _ticks(y_low, y_high):
        y = place(x_low, math.log10(tick) if logarithmic else tick)[1]
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{tick:.4g}", "end"))
    for tick in _ticks(x_low, x_high):
        x = place(tick, y_low)[0]
        parts.append(f'<path d="M{x:.1f} {bottom}v5" stroke="#888"/>')
        parts.append(_text(x, bottom + 18, f"{tick:.6g}", "middle"))
    parts.append(f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" stroke="#888" fill="none"/>')
    parts.append(_text((_LEFT + right) / 2, bottom + 38, x_label, "middle"))
    parts.append(
        f'<g transform="translate(18 {_TOP + _PLOT_HEIGHT / 2}) rotate(-90)">{_text(0, 0, y_label, "middle")}</g>'
    )

    legend = []
    for index, (name, curve) in enumerate(curves.items()):
        style = _style(index)
        parts += [f'<path d="{path}" {style} fill="none"/>' for path in _paths(curve, place)]
        legend.append((name, style))
    for name, places in marks.items():
        style = 'stroke="#888" stroke-dasharray="3 3"'
        parts += [f'<path d="M{place(x, y_low)[0]:.1f} {_TOP}V{bottom}" {style}/>' for x in places]
        legend.append((name, style))
    for index, (name, style) in enumerate(legend):
        x, y = _LEFT + 10 + index % 3 * 230, bottom + _BELOW + index // 3 * _LINE_HEIGHT
        parts.append(f'<path d="M{x} {y}h24" {style}/>{_text(x + 30, y + 4, name)}')

    height = bottom + _BELOW + (len(legend) + 2) // 3 * _LINE_HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">'
    )
    background = f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>'
    group = '<g font-family="sans-serif" font-size="12" fill="#222">'
    return "\n".join([head, background, group, *parts, "</g>", "</svg>", ""])


def _style(index: int) -> str:
    dash = _DASHES[index // len(_COLOURS) % len(_DASHES)]
    return f'stroke="{_COLOURS[index % len(_COLOURS)]}" stroke-width="1.6"' + (
        f' stroke-dasharray="{dash}"' if dash else ""
    )


def _paths(curve: Points, place: Callable[[float, float], tuple[float, float]]) -> list[str]:
    """Returns the finite parts of a curve, as data for SVG paths."""
    paths: list[list[str]] = [[]]
    for x, y in curve:
        if math.isfinite(x) and math.isfinite(y):
            across, down = place(x, y)
            paths[-1].append(f"{across:.1f} {down:.1f}")
        elif paths[-1]:
            paths.append([])
    # A curve of one point is drawn as a line from this point to itself. The round ends of this line make a dot.
    return [f"M{' L'.join(path if len(path) > 1 else path * 2)}" for path in paths if path]


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
