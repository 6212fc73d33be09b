// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/diagnostics/stacks/frame_names.hpp"
#include "core/diagnostics/stacks/stack_signal.hpp"

namespace rueda::core {

/// Returns the frames of a traceback that Python's faulthandler wrote, innermost first, for example "load,
/// train.py:12". Lines of another form are left out, so foreign or damaged text gives fewer frames.
[[nodiscard]] std::vector<std::string> parse_traceback(std::string_view text);

/// Returns the lines for the native frames of a stack. Several frames of the Python interpreter in a row become one
/// line, because the Python frames say more.
[[nodiscard]] std::vector<std::string> native_lines(std::span<const NativeFrame> frames);

/// Formats the Python frames and the native frames: each list with its title, and one frame per line.
[[nodiscard]] std::string format_stack(const RawStack& stack, FrameNames& names);

}  // namespace rueda::core
