// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/checkpoint_name.hpp"

#include <fmt/format.h>

#include "base/numbers.hpp"

namespace rueda::base {
namespace {

constexpr std::string_view kSavePrefix = "save-";
constexpr std::string_view kStepInfix = "-step-";

}  // namespace

std::string format_checkpoint_name(const CheckpointName& name) {
    return fmt::format("{}{:06}{}{}", kSavePrefix, name.number, kStepInfix, name.step);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
    const std::size_t infix = text.find(kStepInfix);
    if (!text.starts_with(kSavePrefix) || infix == std::string_view::npos || infix < kSavePrefix.size()) {
        return std::nullopt;
    }
    const auto number = parse_integer<std::uint64_t>(text.substr(kSavePrefix.size(), infix - kSavePrefix.size()));
    const auto step = parse_integer<std::int64_t>(text.substr(infix + kStepInfix.size()));
    if (!number || !step || *step < 0) {
        return std::nullopt;
    }
    return CheckpointName{*number, *step};
}

}  // namespace rueda::base
