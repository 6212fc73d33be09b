// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/timeline/trace_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace rueda::base {

namespace {

/// Appends a time in microseconds, the unit of trace files, with three decimals. A double would lose nanoseconds.
void append_us(std::string& text, std::int64_t ns) {
    if (ns < 0) {
        text += '-';
    }
    const std::uint64_t magnitude =
        ns < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
    fmt::format_to(std::back_inserter(text), "{}.{:03}", magnitude / 1000, magnitude % 1000);
}

}  // namespace

void append_event(std::string& text, const TraceEvent& event) {
    fmt::format_to(std::back_inserter(text), R"({{"name":{},"ph":"{}","pid":{},"tid":{})", event.name, event.phase,
                   event.pid, event.tid);
    if (!event.category.empty()) {
        fmt::format_to(std::back_inserter(text), R"(,"cat":"{}")", event.category);
    }
    if (event.phase != 'M') {
        text += R"(,"ts":)";
        append_us(text, event.begin_ns);
    }
    if (event.phase == 'i') {
        text += R"(,"s":"t")";  // "s":"t" draws the event only in its own row, not across all rows
    }
    if (event.end_ns) {
        text += R"(,"dur":)";
        append_us(text, std::max<std::int64_t>(*event.end_ns - event.begin_ns, 0));
    }
    if (!event.args.empty()) {
        text += R"(,"args":)";
        text += event.args;
    }
    text += "},\n";
}

std::string number_or_null(const std::optional<std::int64_t>& number) {
    return number ? std::to_string(*number) : "null";
}

std::string json_text(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace rueda::base
