// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// Quotes a word for a POSIX shell. A word without special characters stays unchanged; any other word is put in single
/// quotes.
[[nodiscard]] std::string shell_quote(std::string_view word);

/// Quotes the words and puts one space between them.
[[nodiscard]] std::string shell_join(std::span<const std::string> words);

/// Splits the text at blanks. Single quotes, double quotes and backslashes have the same meaning as in a POSIX shell.
/// Nothing is expanded: '$', '*' and '~' are ordinary characters. Fails with InvalidArgument if a quote is not closed
/// or the text ends in a backslash.
[[nodiscard]] Result<std::vector<std::string>> split_shell_words(std::string_view text);

}  // namespace rueda::launcher
