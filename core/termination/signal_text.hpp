// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/text.hpp"

namespace rueda::core {

/// A text that a signal handler puts together. The buffer has a fixed size, and text that does not fit is dropped.
/// Allocates no memory.
class SignalText {
public:
    void add(std::string_view part) {
        const std::size_t count = std::min(part.size(), bytes_.size() - length_);
        std::memcpy(bytes_.data() + length_, part.data(), count);
        length_ += count;
    }
    /// Adds text of another process or of the program. Control characters, such as line breaks, become question marks.
    void add_foreign(std::string_view part) {
        for (const char c : part) {
            const char shown = base::printable(c);
            add({&shown, 1});
        }
    }
    [[nodiscard]] std::string_view view() const { return {bytes_.data(), length_}; }

private:
    std::array<char, 1024> bytes_{};
    std::size_t length_ = 0;
};

}  // namespace rueda::core
