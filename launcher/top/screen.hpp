// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "launcher/top/hosts/ask_hosts.hpp"
#include "launcher/top/top_view.hpp"

namespace rueda::launcher {

enum class Style { plain, title, straggler, failure };

struct ScreenLine {
    std::string text;
    Style style = Style::plain;
    bool wraps = false;  ///< True if the line is a sentence: on a narrow terminal, it continues on the next line. Any
                         ///< other line is cut if it is too long.
};

/// The lines that `rueda top` prints, in three parts. If the terminal is too small, only the middle part is shortened.
struct Screen {
    std::vector<ScreenLine> head;
    std::vector<ScreenLine> rows;  ///< one for each rank
    std::vector<ScreenLine> foot;
};

/// If the table is wider than `columns`, some columns are left out, to leave more room for the column DOING. BATCHES/S
/// and OPS/S are left out first. If the terminal is still too narrow, BYTES/S and MEMORY are left out, too. If
/// `columns` is 0, the width is not limited. Pure.
[[nodiscard]] Screen screen_of(const TopView& view, std::size_t columns = 0);

struct ScreenSize {
    std::size_t columns = 0;  ///< 0: not limited
    std::size_t lines = 0;    ///< 0: not limited
};

/// Returns the lines of the screen, with colours if `with_colours` is true. Sentences are wrapped to `size`, and other
/// lines are cut; a line that was cut ends with "…". If there are too many rows, the last row says how many rows are
/// not shown. The lines contain no line ends. Pure.
[[nodiscard]] std::vector<std::string> render(const Screen& screen, ScreenSize size, bool with_colours);

/// Returns the view in JSON, for programs. Pure.
[[nodiscard]] std::string view_as_json(const TopView& view);

/// Like view_as_json(), but returns a single line.
[[nodiscard]] std::string view_as_json_line(const TopView& view);

/// Reads what view_as_json() or view_as_json_line() has returned, for example on another host. Checks every value, and
/// replaces control characters in texts. Fails with InvalidArgument. Pure.
[[nodiscard]] Result<TopView> view_from_json(const std::string& text);

/// Returns the answers that `rueda top --json` gave on several hosts, in JSON. Pure.
[[nodiscard]] std::string hosts_as_json(std::span<const HostAnswer> answers);

/// 0.0123 → "12.3 ms", 1.5 → "1.50 s", 312 → "312 s".
[[nodiscard]] std::string format_duration(double seconds);

}  // namespace rueda::launcher
