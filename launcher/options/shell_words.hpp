// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// Quotes a word for a POSIX shell. The word is unchanged if it has no special characters; otherwise it is in single
/// quotes.
[[nodiscard]] std::string shell_quote(std::string_view word);

/// Quotes the words and puts one space between them.
[[nodiscard]] std::string shell_join(std::span<const std::string> words);

/// Splits the text at blanks, and understands single quotes, double quotes and backslashes as a POSIX shell does. It
/// expands nothing: '$', '*' and '~' are ordinary characters. Fails with InvalidArgument if a quote is not closed or
/// the text ends in a backslash.
[[nodiscard]] Result<std::vector<std::string>> split_shell_words(std::string_view text);

}  // namespace rueda::launcher
