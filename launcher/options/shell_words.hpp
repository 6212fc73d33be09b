// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// Writes the word so that a POSIX shell reads it back: unchanged if nothing in it is special, else in single quotes.
[[nodiscard]] std::string shell_quote(std::string_view word);

/// Quotes the words and puts one space between them.
[[nodiscard]] std::string shell_join(std::span<const std::string> words);

/// Splits the text at blanks, and understands single quotes, double quotes and backslashes as a POSIX shell does.
/// Expands nothing: '$', '*' and '~' are plain characters. Returns InvalidArgument if a quote is not closed or the text
/// ends in a backslash.
[[nodiscard]] Result<std::vector<std::string>> split_shell_words(std::string_view text);

}  // namespace rueda::launcher
