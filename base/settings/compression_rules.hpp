// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/types.hpp"

namespace rueda::base {

/// Which tensors travel compressed between hosts, as RUEDA_COMPRESSION says it (docs/compression.md):
///
///     rules     = rule { "," rule }                    the first one that fits a tensor counts
///     rule      = ( "none" | "fp16" | "bf16" ) { ":" condition }
///     condition = ">=" bytes | "<" bytes | pattern     all of a rule's have to hold
///
/// A pattern is compared with the whole name: * stands for any characters, ? for one. It has neither commas nor colons,
/// and does not begin with < > or =. A tensor that no rule fits travels as it is.
/// Threads: a value.
class CompressionRules {
public:
    /// Nothing for a text that is none; "" has no rules.
    [[nodiscard]] static std::optional<CompressionRules> parse(std::string_view text);

    [[nodiscard]] bool empty() const noexcept { return rules_.empty(); }
    /// `name` empty: an unnamed tensor.
    [[nodiscard]] Compression of(std::string_view name, std::uint64_t bytes) const noexcept;

private:
    struct Rule {
        Compression compression = Compression::none;
        std::uint64_t least_bytes = 0;
        std::optional<std::uint64_t> below_bytes;
        std::vector<std::string> patterns;

        [[nodiscard]] bool fits(std::string_view name, std::uint64_t bytes) const noexcept;
    };
    [[nodiscard]] static std::optional<Rule> parse_rule(std::string_view text);
    [[nodiscard]] static bool add_condition(std::string_view text, Rule& rule);

    std::vector<Rule> rules_;
};

/// Whether the whole text fits a pattern with * and ?. Costs at most text.size() × pattern.size() steps.
[[nodiscard]] bool fits_pattern(std::string_view text, std::string_view pattern) noexcept;

}  // namespace rueda::base
