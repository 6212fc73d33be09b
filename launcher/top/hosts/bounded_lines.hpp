// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace rueda::launcher {

/// Cuts the output of another host into lines of limited length. Threads: one.
class BoundedLines {
public:
    explicit BoundedLines(std::size_t longest) : longest_(longest) {}

    /// Calls `on_line` with each complete line, without its end. Returns false if a line is too long; after that,
    /// feed() must not be called again.
    [[nodiscard]] bool feed(std::string_view bytes, const std::function<void(std::string_view)>& on_line) {
        while (!bytes.empty()) {
            const std::size_t end = bytes.find('\n');
            const std::string_view piece = bytes.substr(0, end);
            if (line_.size() + piece.size() > longest_) {
                line_.clear();
                return false;
            }
            line_ += piece;
            if (end == std::string_view::npos) {
                return true;
            }
            if (line_.ends_with('\r')) {  // a terminal between the hosts adds '\r' at the end of each line
                line_.pop_back();
            }
            on_line(line_);
            line_.clear();
            bytes.remove_prefix(end + 1);
        }
        return true;
    }

private:
    std::size_t longest_;
    std::string line_;
};

}  // namespace rueda::launcher
