// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <string_view>

namespace rueda::launcher {

/// Of a line of a file: without the blanks around it, nor the end of a line that a Windows editor has written.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r");
    return begin == std::string_view::npos ? std::string_view()
                                           : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace rueda::launcher
