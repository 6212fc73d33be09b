// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rueda::base {

/// One event of a trace in Chrome's format. All texts must already be JSON (see json_text()).
struct TraceEvent {
    std::string_view name;  ///< a JSON string, with quotes
    std::string_view category = {};
    char phase = 'X';  ///< X: a span; i: a moment; M: metadata
    std::int32_t pid = 0;
    std::int32_t tid = 0;
    std::int64_t begin_ns = 0;
    std::optional<std::int64_t> end_ns = {};
    std::string_view args = {};  ///< a JSON object, or empty
};

/// Appends the event as one line, which ends with a comma.
void append_event(std::string& text, const TraceEvent& event);

/// Returns the number as JSON, or "null" if it has no value.
[[nodiscard]] std::string number_or_null(const std::optional<std::int64_t>& number);

/// Returns the text as JSON, in quotes. Bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace rueda::base
