// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rueda::launcher {

/// A piece of a rank's output that can be printed.
struct OutputPiece {
    enum class Kind {
        line,      ///< a complete line, without its newline
        progress,  ///< the current state of a line that the program rewrites by '\r' (a progress bar)
    };
    Kind kind;
    std::string text;

    friend bool operator==(const OutputPiece&, const OutputPiece&) = default;
};

/// Cuts a stream of bytes into lines. After a '\r' the next characters replace the line, as on a terminal. Only the
/// newest state of a progress bar remains. "\r\n" counts as a newline.
class LineSplitter {
public:
    /// The maximum length in bytes of a line. A longer line is split into several lines of this length, so that no
    /// program can fill ruedarun's memory.
    static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

    [[nodiscard]] std::vector<OutputPiece> feed(std::string_view bytes);
    /// Returns the last line, if it is unfinished. Call it after the stream has ended.
    [[nodiscard]] std::vector<OutputPiece> finish();

private:
    void end_line(std::vector<OutputPiece>& pieces);

    std::string line_;
    std::string shown_progress_;
    /// True if the last character was '\r'. The next character then replaces the line, unless it is a newline.
    bool return_seen_ = false;
    bool rewritten_ = false;  ///< whether the program has already replaced this line
};

}  // namespace rueda::launcher
