// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/output/line_splitter.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace rueda::launcher {
namespace {

using Pieces = std::vector<OutputPiece>;

OutputPiece line(std::string text) { return {OutputPiece::Kind::line, std::move(text)}; }
OutputPiece progress(std::string text) { return {OutputPiece::Kind::progress, std::move(text)}; }

TEST_CASE("lines come out whole, in whatever pieces their bytes come", "[unit]") {
    const std::string text = "one\ntwo words\r\n\nlast";
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        CAPTURE(cut);
        LineSplitter splitter;
        Pieces pieces;
        for (const std::string& part : {text.substr(0, cut), text.substr(cut)}) {
            for (OutputPiece& piece : splitter.feed(part)) {
                // If the text is cut after '\r', the splitter also returns the line as the state of a progress bar. The
                // test ignores this additional piece.
                if (piece.kind == OutputPiece::Kind::line) {
                    pieces.push_back(piece);
                }
            }
        }
        for (OutputPiece& piece : splitter.finish()) {
            pieces.push_back(piece);
        }
        CHECK(pieces == Pieces{line("one"), line("two words"), line(""), line("last")});
    }
}

TEST_CASE("a progress bar shows its newest state and ends as one line", "[unit]") {
    LineSplitter splitter;
    CHECK(splitter.feed("\r10 %") == Pieces{progress("10 %")});
    CHECK(splitter.feed("\r20 %\r30 %") == Pieces{progress("30 %")});
    CHECK(splitter.feed("\r30 %").empty());
    CHECK(splitter.feed("\rdone\nnext\n") == Pieces{line("done"), line("next")});
    CHECK(splitter.finish().empty());
}

TEST_CASE("a progress bar that ends with a carriage return", "[unit]") {
    LineSplitter splitter;
    CHECK(splitter.feed("10 %\r") == Pieces{progress("10 %")});
    CHECK(splitter.feed("20 %\r") == Pieces{progress("20 %")});
    CHECK(splitter.feed("\n") == Pieces{line("20 %")});
}

TEST_CASE("the unfinished rest of a stream", "[unit]") {
    LineSplitter open_line;
    CHECK(open_line.feed("no newline").empty());
    CHECK(open_line.finish() == Pieces{line("no newline")});
    LineSplitter open_bar;
    CHECK(open_bar.feed("\r90 %") == Pieces{progress("90 %")});
    CHECK(open_bar.finish() == Pieces{line("90 %")});
    LineSplitter wiped_bar;
    CHECK(wiped_bar.feed("\r90 %") == Pieces{progress("90 %")});
    CHECK(wiped_bar.feed("\r    \r") == Pieces{progress("    ")});
    CHECK(wiped_bar.finish().empty());
}

TEST_CASE("a line without an end is split", "[unit]") {
    LineSplitter splitter;
    const std::string text(LineSplitter::kLongestLine + 5, 'x');
    const Pieces pieces = splitter.feed(text);
    REQUIRE(pieces.size() == 1);
    CHECK(pieces[0].text.size() == LineSplitter::kLongestLine);
    CHECK(splitter.finish() == Pieces{line("xxxxx")});
}

TEST_CASE("bytes that are not text pass unchanged", "[unit]") {
    LineSplitter splitter;
    const std::string bytes("a\0b\xff\x1b[1m\n", 9);
    CHECK(splitter.feed(bytes) == Pieces{line(bytes.substr(0, 8))});
}

}  // namespace
}  // namespace rueda::launcher
