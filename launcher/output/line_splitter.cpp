// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/output/line_splitter.hpp"

#include <utility>

namespace rueda::launcher {

void LineSplitter::end_line(std::vector<OutputPiece>& pieces) {
    pieces.push_back({OutputPiece::Kind::line, std::exchange(line_, {})});
    shown_progress_.clear();
    return_seen_ = false;
    rewritten_ = false;
}

std::vector<OutputPiece> LineSplitter::feed(std::string_view bytes) {
    std::vector<OutputPiece> pieces;
    for (const char c : bytes) {
        if (c == '\n') {
            end_line(pieces);
            continue;
        }
        if (c == '\r') {
            return_seen_ = true;
            continue;
        }
        if (std::exchange(return_seen_, false)) {
            line_.clear();
            rewritten_ = true;
        }
        line_ += c;
        if (line_.size() >= kLongestLine) {
            end_line(pieces);
        }
    }
    if ((rewritten_ || return_seen_) && !line_.empty() && line_ != shown_progress_) {
        shown_progress_ = line_;
        pieces.push_back({OutputPiece::Kind::progress, line_});
    }
    return pieces;
}

std::vector<OutputPiece> LineSplitter::finish() {
    std::vector<OutputPiece> pieces;
    // If a progress bar has erased itself, only blanks are left. Such a line is not printed.
    const bool wiped = (rewritten_ || return_seen_) && line_.find_first_not_of(' ') == std::string::npos;
    if (!line_.empty() && !wiped) {
        end_line(pieces);
    }
    return pieces;
}

}  // namespace rueda::launcher
