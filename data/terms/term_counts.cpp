// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/terms/term_counts.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/terms/vocabulary_text.hpp"

namespace rueda::data {

namespace {

template <class Number>
void append_raw(std::string& bytes, Number number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// Takes a number from the beginning of the bytes. Returns false if there are too few bytes.
template <class Number>
bool take_raw(std::string_view& bytes, Number& number) {
    if (bytes.size() < sizeof number) {
        return false;
    }
    std::memcpy(&number, bytes.data(), sizeof number);
    bytes.remove_prefix(sizeof number);
    return true;
}

bool take_raw_count(std::string_view& bytes, TermCount& count) {
    std::uint16_t length = 0;
    if (!take_raw(bytes, count.count) || !take_raw(bytes, length) || length > bytes.size()) {
        return false;
    }
    count.text = bytes.substr(0, length);
    bytes.remove_prefix(length);
    return count.count >= 1 && count.count <= kLargestCount && !why_no_term(count.text);
}

bool take_message(std::string_view& bytes, CountMessage& message) {
    std::uint64_t size = 0;
    if (!take_raw(bytes, size) || size > bytes.size()) {
        return false;
    }
    std::string_view rest = bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (!take_raw(rest, message.fingerprint)) {
        return false;
    }
    while (!rest.empty()) {
        if (!take_raw_count(rest, message.counts.emplace_back())) {
            return false;
        }
    }
    return true;
}

}  // namespace

void add_count(TermCounts& counts, std::string_view text, std::int64_t count) {
    const auto found = counts.find(text);
    if (found == counts.end()) {
        counts.emplace(text, count);
    } else {
        found->second = std::min(found->second + count, kLargestCount);
    }
}

std::vector<TermCount> in_order(const TermCounts& counts) {
    std::vector<TermCount> sorted;
    sorted.reserve(counts.size());
    for (const auto& [text, count] : counts) {
        sorted.push_back({text, count});
    }
    std::sort(sorted.begin(), sorted.end(), [](const TermCount& left, const TermCount& right) {
        return left.count != right.count ? left.count > right.count : left.text < right.text;
    });
    return sorted;
}

std::string to_message(std::uint64_t fingerprint, const TermCounts& counts) {
    std::string bytes(sizeof(std::uint64_t), '\0');
    append_raw(bytes, fingerprint);
    for (const auto& [text, count] : counts) {
        append_raw(bytes, count);
        append_raw(bytes, static_cast<std::uint16_t>(text.size()));
        bytes.append(text);
    }
    const std::uint64_t size = bytes.size() - sizeof(std::uint64_t);
    std::memcpy(bytes.data(), &size, sizeof size);
    return bytes;
}

Result<std::vector<CountMessage>> read_messages(std::string_view bytes) {
    std::vector<CountMessage> messages;
    while (!bytes.empty()) {
        if (!take_message(bytes, messages.emplace_back())) {
            return failure(ErrorCode::invalid_argument,
                           "vocabulary: the counts of rank {} are damaged; give merge() the bytes that unmerged() "
                           "returned on all ranks, one after another",
                           messages.size() - 1);
        }
    }
    return messages;
}

}  // namespace rueda::data
