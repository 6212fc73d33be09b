// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options/shell_words.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace rueda::launcher {

namespace {

bool needs_no_quotes(char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_digit = c >= '0' && c <= '9';
    return is_letter || is_digit || std::string_view("@%+=:,./-_").find(c) != std::string_view::npos;
}

/// Splits a text into words, as a shell does. A quote also begins a word. So two quotes with nothing between them ('')
/// are a word, which is empty.
class WordReader {
public:
    explicit WordReader(std::string_view text) : text_(text) {}

    Result<std::vector<std::string>> read_all() {
        while (at_ < text_.size()) {
            RUEDA_RETURN_IF_FAILED(read_one(text_[at_++]));
        }
        end_word();
        return std::move(words_);
    }

private:
    Status read_one(char c) {
        if (c == ' ' || c == '\t' || c == '\n') {
            end_word();
            return {};
        }
        in_word_ = true;
        switch (c) {
            case '\'':
                return read_single_quoted();
            case '"':
                return read_double_quoted();
            case '\\':
                if (at_ == text_.size()) {
                    return failure(ErrorCode::invalid_argument, "{} ends in a backslash; write two for a backslash",
                                   base::quote(text_));
                }
                word_ += text_[at_++];
                return {};
            default:
                word_ += c;
                return {};
        }
    }

    Status read_single_quoted() {
        const std::size_t end = text_.find('\'', at_);
        if (end == std::string_view::npos) {
            return unclosed("'");
        }
        word_ += text_.substr(at_, end - at_);
        at_ = end + 1;
        return {};
    }

    Status read_double_quoted() {
        while (at_ < text_.size()) {
            const char c = text_[at_++];
            if (c == '"') {
                return {};
            }
            // Inside double quotes, a backslash is special only before these characters (POSIX shell, section 2.2.3).
            const bool escapes = c == '\\' && at_ < text_.size() &&
                                 std::string_view("$`\"\\").find(text_[at_]) != std::string_view::npos;
            word_ += escapes ? text_[at_++] : c;
        }
        return unclosed("\"");
    }

    [[nodiscard]] Status unclosed(std::string_view quote) const {
        return failure(ErrorCode::invalid_argument, "{} has a quote {} that is not closed", base::quote(text_), quote);
    }

    void end_word() {
        if (in_word_) {
            words_.push_back(std::move(word_));
            word_.clear();
            in_word_ = false;
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::vector<std::string> words_;
    std::string word_;
    bool in_word_ = false;
};

}  // namespace

std::string shell_quote(std::string_view word) {
    if (!word.empty() && std::all_of(word.begin(), word.end(), needs_no_quotes)) {
        return std::string(word);
    }
    std::string quoted = "'";
    for (const char c : word) {
        if (c == '\'') {
            quoted += "'\\''";
        } else {
            quoted += c;
        }
    }
    return quoted + "'";
}

std::string shell_join(std::span<const std::string> words) {
    std::string line;
    for (const std::string& word : words) {
        line += line.empty() ? "" : " ";
        line += shell_quote(word);
    }
    return line;
}

Result<std::vector<std::string>> split_shell_words(std::string_view text) { return WordReader(text).read_all(); }

}  // namespace rueda::launcher
