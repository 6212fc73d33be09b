// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options/config_file.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.hpp"

namespace rueda::launcher {

namespace {

using Json = nlohmann::ordered_json;

std::ptrdiff_t line_at(std::string_view text, std::size_t position) {
    const std::string_view before = text.substr(0, position);
    return std::count(before.begin(), before.end(), '\n') + 1;
}

/// Returns the line of the file that contains a name of the outermost object. The JSON library does not report lines,
/// so this function searches for the name in quotes. If an earlier line contains the same text, this function returns
/// the earlier line.
std::ptrdiff_t line_of(std::string_view text, const std::string& name) {
    const std::size_t at = text.find('"' + name + '"');
    return at == std::string_view::npos ? 1 : line_at(text, at);
}

std::optional<std::string> as_text(const Json& value) {
    if (value.is_string()) {
        return value.get<std::string>();
    }
    return value.is_number() ? std::optional(value.dump()) : std::nullopt;
}

/// Appends the texts of an array, or a text NAME=value for each name of an object, to `values`. Returns false if an
/// element is neither a text nor a number.
bool read_values(const Json& value, std::vector<std::string>& values) {
    for (const auto& [name, item] : value.items()) {
        const std::optional<std::string> text = as_text(item);
        if (!text) {
            return false;
        }
        values.push_back(value.is_object() ? name + "=" + *text : *text);
    }
    return true;
}

/// Reads the value of one option into `entry`. Returns false if no option can have such a value.
bool read_entry(const Json& value, ConfigEntry& entry) {
    if (value.is_boolean()) {
        entry.is_switch = true;
        entry.values = {value.get<bool>() ? "true" : "false"};
        return true;
    }
    if (value.is_array() || value.is_object()) {
        return read_values(value, entry.values);
    }
    const std::optional<std::string> text = as_text(value);
    entry.values = {text.value_or("")};
    return text.has_value();
}

/// Returns the message of the JSON library without the name and number of the error: "syntax error while parsing …".
std::string reason_of(const Json::parse_error& error) {
    const std::string text = error.what();
    const std::size_t at = text.find("syntax error");
    return base::quote(at == std::string::npos ? text : text.substr(at), 160);
}

}  // namespace

Result<std::vector<ConfigEntry>> parse_config_file(std::string_view text, const std::string& file) {
    Json root;
    try {
        root = Json::parse(text, nullptr, /*allow_exceptions=*/true, /*ignore_comments=*/true);
    } catch (const Json::parse_error& error) {
        const std::size_t position = error.byte == 0 ? 0 : error.byte - 1;
        return failure(ErrorCode::invalid_argument, "{}:{}: this is no JSON: {}", base::printable(file),
                       line_at(text, std::min(position, text.size())), reason_of(error));
    } catch (const Json::exception& error) {  // for example, the file has a number that no numeric type can hold
        return failure(ErrorCode::invalid_argument, "{}: this is no JSON: {}", base::printable(file),
                       base::quote(error.what(), 160));
    }
    if (!root.is_object()) {
        return failure(ErrorCode::invalid_argument, R"({}:1: found no object; expected one such as {{"np": 4}})",
                       base::printable(file));
    }
    std::vector<ConfigEntry> entries;
    for (const auto& [name, value] : root.items()) {
        ConfigEntry entry;
        entry.name = name;
        entry.place = fmt::format("{}:{}", base::printable(file), line_of(text, name));
        if (!read_entry(value, entry)) {
            return failure(ErrorCode::invalid_argument,
                           "{}: {} is {}; expected a text, a number, true, false, or a list of texts", entry.place,
                           base::quote(name), base::quote(value.dump(-1, ' ', true, Json::error_handler_t::replace)));
        }
        entries.push_back(std::move(entry));
    }
    return entries;
}

}  // namespace rueda::launcher
