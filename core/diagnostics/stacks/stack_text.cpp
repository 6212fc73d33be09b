// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stacks/stack_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/numbers.hpp"
#include "base/text.hpp"

namespace rueda::core {
namespace {

/// The largest number of frames of one rank. A report shows several ranks, so it leaves out the outermost frames, which
/// are the same in every rank. The innermost frames say what a rank waits for.
constexpr std::size_t kPythonFrames = 20;
constexpr std::size_t kNativeFrames = 24;
constexpr std::size_t kLongestFrame = 200;

/// Removes `prefix` from the front of `text`; returns false if `text` does not begin with `prefix`.
bool take(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) {
        return false;
    }
    text.remove_prefix(prefix.size());
    return true;
}

/// Reads a line of the form `  File "train.py", line 12 in load`.
std::optional<std::string> parse_frame(std::string_view line) {
    constexpr std::string_view kLine = "\", line ";
    constexpr std::string_view kIn = " in ";
    if (!take(line, "  File \"")) {
        return std::nullopt;
    }
    const std::size_t end_of_file = line.rfind(kLine);
    if (end_of_file == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view file = line.substr(0, end_of_file);
    line.remove_prefix(end_of_file + kLine.size());
    const std::size_t end_of_number = line.find(kIn);
    const auto number = base::parse_integer<std::int64_t>(line.substr(0, end_of_number));
    if (end_of_number == std::string_view::npos || !number) {
        return std::nullopt;
    }
    const std::string_view function = line.substr(end_of_number + kIn.size());
    return base::printable(fmt::format("{}, {}:{}", function, file, *number), kLongestFrame);
}

/// The interpreter is a program, for example python3.11, or a library, for example libpython3.11.so.1.0.
bool is_of_interpreter(const NativeFrame& frame) {
    return frame.module.starts_with("python") || frame.module.starts_with("libpython");
}

void add_list(std::string& text, std::string_view title, std::span<const std::string> frames, std::size_t most) {
    text += text.empty() ? "" : "\n";
    text += title;
    for (std::size_t i = 0; i < std::min(frames.size(), most); ++i) {
        text += "\n  " + frames[i];
    }
    if (frames.size() > most) {
        text += fmt::format("\n  and {} more frames", frames.size() - most);
    }
}

}  // namespace

std::vector<std::string> parse_traceback(std::string_view text) {
    std::vector<std::string> frames;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        if (const std::optional<std::string> frame = parse_frame(text.substr(0, end))) {
            frames.push_back(*frame);
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return frames;
}

std::vector<std::string> native_lines(std::span<const NativeFrame> frames) {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < frames.size();) {
        const auto* const end = std::find_if_not(frames.data() + i, frames.data() + frames.size(), is_of_interpreter);
        const auto of_interpreter = static_cast<std::size_t>(end - (frames.data() + i));
        if (of_interpreter > 1) {
            // If several frames in a row belong to the interpreter, only the innermost of them is shown. The innermost
            // frame says in which built-in function Python is.
            lines.push_back(base::shortened(describe(frames[i]), kLongestFrame));
            lines.push_back(fmt::format("{} more frames of the Python interpreter", of_interpreter - 1));
            i += of_interpreter;
        } else {
            lines.push_back(base::shortened(describe(frames[i]), kLongestFrame));
            ++i;
        }
    }
    return lines;
}

std::string format_stack(const RawStack& stack, FrameNames& names) {
    std::string text;
    if (const std::vector<std::string> python = parse_traceback(stack.traceback); !python.empty()) {
        add_list(text, "Python, innermost first:", python, kPythonFrames);
    }
    std::vector<std::string> native = native_lines(names.names_of(stack.addresses));
    if (!stack.is_complete) {
        native.emplace_back("and more frames, which were not recorded");
    }
    add_list(text,
             names.has_lines() ? "native, innermost first:"
                               : "native, innermost first (without files and lines, because libdw.so.1 is not "
                                 "installed on this host; it is in the package libdw1 or elfutils-libs):",
             native, kNativeFrames);
    return text;
}

}  // namespace rueda::core
