// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options/env_file.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "launcher/options/shell_words.hpp"
#include "launcher/options/text_parts.hpp"

namespace rueda::launcher {

namespace {

/// Returns the position of the closing quote, or npos if there is none. The text begins with the opening quote.
std::size_t end_of_quotes(std::string_view text) {
    for (std::size_t i = 1; i < text.size(); ++i) {
        if (text[i] == text.front()) {
            return i;
        }
        if (text.front() == '"' && text[i] == '\\') {
            ++i;
        }
    }
    return std::string_view::npos;
}

/// Parses the text after the '='. Error messages do not show this text, because it may be a password.
Result<std::string> read_value(std::string_view text) {
    if (text.empty() || (text.front() != '"' && text.front() != '\'')) {
        return std::string(trimmed(text.substr(0, text.find(" #"))));
    }
    const std::size_t end = end_of_quotes(text);
    if (end == std::string_view::npos) {
        return failure(ErrorCode::invalid_argument, "found a quote {} that is not closed", text.front());
    }
    const std::string_view rest = trimmed(text.substr(end + 1));
    if (!rest.empty() && rest.front() != '#') {
        return failure(ErrorCode::invalid_argument, "found more text after the quotes; expected the end of the line");
    }
    Result<std::vector<std::string>> words = split_shell_words(text.substr(0, end + 1));
    RUEDA_RETURN_IF_FAILED(words.status());
    return words.value().front();
}

Result<ExportedVariable> read_line(std::string_view line) {
    if (line.starts_with("export ")) {
        line = trimmed(line.substr(7));
    }
    const std::size_t equals = line.find('=');
    const std::string_view name = trimmed(line.substr(0, equals));
    if (equals == std::string_view::npos || !is_variable_name(name)) {
        // The message shows only the text before the '='. The rest may be a password.
        return failure(ErrorCode::invalid_argument,
                       "found {}; expected NAME=value, the name of letters, digits and '_'",
                       base::quote(line.substr(0, equals)));
    }
    Result<std::string> value = read_value(trimmed(line.substr(equals + 1)));
    RUEDA_RETURN_IF_FAILED(value.status());
    return ExportedVariable{std::string(name), std::move(value).value(), false};
}

}  // namespace

bool is_variable_name(std::string_view name) {
    const bool starts_well = !name.empty() && (name[0] < '0' || name[0] > '9');
    return starts_well && std::all_of(name.begin(), name.end(), [](char c) {
               return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
           });
}

bool looks_like_a_secret(std::string_view name) {
    constexpr std::array<std::string_view, 14> kWords = {
        "TOKEN",      "TOKENS",     "SECRET",      "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD",
        "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "KEY",     "KEYS",     "APIKEY",    "PWD"};
    std::string_view rest = name;
    while (!rest.empty()) {
        const std::string_view word = take_until(rest, '_');
        // The name PWD means the shell's working directory. But if PWD is only a part of a name (DB_PWD), it means a
        // password.
        const bool is_folder = word == name && base::equal_ignoring_case(word, "PWD");
        if (!is_folder && std::any_of(kWords.begin(), kWords.end(), [word](std::string_view secret) {
                return base::equal_ignoring_case(word, secret);
            })) {
            return true;
        }
    }
    return false;
}

Result<std::vector<ExportedVariable>> parse_env_file(std::string_view text, const std::string& file) {
    std::vector<ExportedVariable> variables;
    int number = 0;
    while (!text.empty()) {
        const std::string_view line = take_until(text, '\n');
        ++number;
        const std::string_view content = trimmed(line);
        if (content.empty() || content.front() == '#') {
            continue;
        }
        Result<ExportedVariable> variable = read_line(content);
        if (!variable.is_ok()) {
            return failure(ErrorCode::invalid_argument, "{}:{}: {}", base::printable(file), number,
                           variable.status().message());
        }
        variables.push_back(std::move(variable).value());
    }
    return variables;
}

}  // namespace rueda::launcher
