// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/settings/compression_rules.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/numbers.hpp"
#include "base/text.hpp"

namespace rueda::base {
namespace {

/// Up to the next `end`, which is taken away as well. After the last part, `rest` is nothing.
std::string_view take_part(std::optional<std::string_view>& rest, char end) {
    const std::size_t at = rest->find(end);
    const std::string_view part = rest->substr(0, at);
    rest = at == std::string_view::npos ? std::nullopt : std::optional(rest->substr(at + 1));
    return part;
}

std::optional<Compression> parse_word(std::string_view text) {
    for (const Compression compression : {Compression::none, Compression::fp16, Compression::bf16}) {
        if (equal_ignoring_case(text, name_of(compression))) {
            return compression;
        }
    }
    return std::nullopt;
}

bool is_pattern(std::string_view text) {
    constexpr std::string_view kComparisons = "<>=";
    return !text.empty() && kComparisons.find(text.front()) == std::string_view::npos &&
           std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) > ' '; });
}

}  // namespace

std::optional<CompressionRules> CompressionRules::parse(std::string_view text) {
    CompressionRules rules;
    if (text.empty()) {
        return rules;
    }
    std::optional<std::string_view> rest = text;
    while (rest) {
        std::optional<Rule> rule = parse_rule(take_part(rest, ','));
        if (!rule) {
            return std::nullopt;
        }
        rules.rules_.push_back(std::move(*rule));
    }
    return rules;
}

std::optional<CompressionRules::Rule> CompressionRules::parse_rule(std::string_view text) {
    std::optional<std::string_view> rest = text;
    const std::optional<Compression> word = parse_word(take_part(rest, ':'));
    if (!word) {
        return std::nullopt;
    }
    Rule rule;
    rule.compression = *word;
    while (rest) {
        if (!add_condition(take_part(rest, ':'), rule)) {
            return std::nullopt;
        }
    }
    return rule;
}

bool CompressionRules::add_condition(std::string_view text, Rule& rule) {
    if (text.starts_with(">=")) {
        const std::optional<std::uint64_t> bytes = parse_bytes(text.substr(2));
        rule.least_bytes = std::max(rule.least_bytes, bytes.value_or(0));
        return bytes.has_value();
    }
    if (text.starts_with('<')) {
        const std::optional<std::uint64_t> bytes = parse_bytes(text.substr(1));
        rule.below_bytes = std::min(rule.below_bytes.value_or(~std::uint64_t{0}), bytes.value_or(0));
        return bytes.has_value();
    }
    rule.patterns.emplace_back(text);
    return is_pattern(text);
}

bool CompressionRules::Rule::fits(std::string_view name, std::uint64_t bytes) const noexcept {
    return bytes >= least_bytes && (!below_bytes || bytes < *below_bytes) &&
           std::all_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return fits_pattern(name, pattern); });
}

Compression CompressionRules::of(std::string_view name, std::uint64_t bytes) const noexcept {
    const auto found =
        std::find_if(rules_.begin(), rules_.end(), [&](const Rule& rule) { return rule.fits(name, bytes); });
    return found == rules_.end() ? Compression::none : found->compression;
}

/// Goes back to the last star only: what the ones before it stand for never has to grow for the rest to fit.
bool fits_pattern(std::string_view text, std::string_view pattern) noexcept {
    std::size_t in_text = 0;
    std::size_t in_pattern = 0;
    std::optional<std::size_t> after_star;
    std::size_t star_ends = 0;  // in the text
    while (in_text < text.size()) {
        if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
            after_star = ++in_pattern;
            star_ends = in_text;
        } else if (in_pattern < pattern.size() &&
                   (pattern[in_pattern] == '?' || pattern[in_pattern] == text[in_text])) {
            ++in_pattern;
            ++in_text;
        } else if (after_star) {
            in_pattern = *after_star;
            in_text = ++star_ends;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

}  // namespace rueda::base
