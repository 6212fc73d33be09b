// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// The word as a POSIX shell reads it back: unchanged where nothing in it is special, else in single quotes.
[[nodiscard]] std::string shell_quote(std::string_view word);

/// Quoted words with one space between them.
[[nodiscard]] std::string shell_join(std::span<const std::string> words);

/// Splits as a POSIX shell splits words: blanks, single and double quotes, backslashes. Expands nothing: '$', '*' and
/// '~' are plain characters. InvalidArgument where a quote is not closed or the text ends in a backslash.
[[nodiscard]] Result<std::vector<std::string>> split_shell_words(std::string_view text);

}  // namespace rueda::launcher
