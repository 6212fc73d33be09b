// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/settings/setting_text.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace rueda::base {

namespace {

template <class... Functions>
struct Overload : Functions... {
    using Functions::operator()...;
};
template <class... Functions>
Overload(Functions...) -> Overload<Functions...>;

/// Prints 67108864 as "64M"; parse_bytes() reads the same number back.
std::string written_bytes(std::uint64_t bytes) {
    constexpr std::array<std::string_view, 5> kSuffixes = {"", "K", "M", "G", "T"};
    std::size_t unit = 0;
    while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kSuffixes.size()) {
        bytes /= 1024;
        ++unit;
    }
    return fmt::format("{}{}", bytes, kSuffixes[unit]);
}

template <class T>
std::string written(T value) {
    return fmt::format("{}", value);
}

template <class T>
std::string special_text(const Range<T>& range) {
    return range.special ? fmt::format("{} or ", *range.special) : std::string();
}

std::string join(std::span<const std::string_view> words) { return fmt::format("{}", fmt::join(words, ", ")); }

}  // namespace

std::string type_text(const Setting& setting) {
    return std::visit(Overload{[](const IdentitySetting&) { return std::string("number"); },
                               [](const CountSetting&) { return std::string("number"); },
                               [](const BytesSetting&) { return std::string("bytes"); },
                               [](const SecondsSetting&) { return std::string("seconds"); },
                               [](const SwitchSetting&) { return std::string("switch"); },
                               [](const TextSetting&) { return std::string("text"); },
                               [](const ChoiceSetting&) { return std::string("choice"); }},
                      setting.kind);
}

std::string range_text(const Setting& setting) {
    const auto between = [](const auto& range) {
        return fmt::format("{}{} … {}", special_text(range), written(range.lowest), written(range.highest));
    };
    return std::visit(Overload{[&](const IdentitySetting& kind) { return between(kind.range); },
                               [&](const CountSetting& kind) { return between(kind.range); },
                               [&](const SecondsSetting& kind) { return between(kind.range); },
                               [](const BytesSetting& kind) {
                                   return fmt::format("{}{} … {}", special_text(kind.range),
                                                      written_bytes(kind.range.lowest),
                                                      written_bytes(kind.range.highest));
                               },
                               [](const SwitchSetting&) { return std::string("0, 1"); },
                               [](const TextSetting&) { return std::string(); },
                               [](const ChoiceSetting& kind) { return join(kind.words); }},
                      setting.kind);
}

std::string value_text(const Setting& setting, const Config& config) {
    return std::visit(Overload{[&](const IdentitySetting& kind) {
                                   const std::optional<std::int32_t>& value = config.*kind.member;
                                   return value ? written(*value) : std::string();
                               },
                               [&](const CountSetting& kind) { return written(config.*kind.member); },
                               [&](const BytesSetting& kind) { return written_bytes(config.*kind.member); },
                               [&](const SecondsSetting& kind) { return written(config.*kind.member); },
                               [&](const SwitchSetting& kind) { return written(config.*kind.member ? 1 : 0); },
                               [&](const TextSetting& kind) { return config.*kind.member; },
                               [&](const ChoiceSetting& kind) { return std::string(kind.words[kind.load(config)]); }},
                      setting.kind);
}

std::string_view scope_text(const Setting& setting) {
    switch (setting.scope) {
        case SettingScope::own:
            return "each rank's own";
        case SettingScope::rank_zero:
            return "rank 0's";
        case SettingScope::smallest:
            return "the smallest";
        case SettingScope::same:
            return "none: init fails";
    }
    return "";
}

std::string expected_text(const Setting& setting) {
    const auto from_to = [](const char* what, const auto& range, auto write) {
        return fmt::format("{}{} from {} to {}", special_text(range), what, write(range.lowest), write(range.highest));
    };
    return std::visit(
        Overload{
            [&](const IdentitySetting& kind) { return from_to("a whole number", kind.range, written<std::int32_t>); },
            [&](const CountSetting& kind) { return from_to("a whole number", kind.range, written<std::uint32_t>); },
            [&](const BytesSetting& kind) {
                return from_to("a number of bytes", kind.range, written_bytes) + " (e.g. 64M)";
            },
            [&](const SecondsSetting& kind) { return from_to("a number of seconds", kind.range, written<double>); },
            [](const SwitchSetting&) { return std::string("0, 1, true, false, yes, no, on or off"); },
            [](const TextSetting& kind) { return std::string(kind.expected); },
            [](const ChoiceSetting& kind) { return fmt::format("one of {}", join(kind.words)); }},
        setting.kind);
}

}  // namespace rueda::base
