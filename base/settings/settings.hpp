// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "base/settings/config.hpp"

namespace rueda::base {

/// The values that a setting may have: the range from lowest to highest, and possibly one value with a special meaning
/// outside this range.
template <class T>
struct Range {
    T lowest;
    T highest;
    std::optional<T> special = std::nullopt;

    [[nodiscard]] constexpr bool contains(T value) const {
        return (special && value == *special) || (value >= lowest && value <= highest);
    }
};

// The kinds of settings. Each kind says which field of Config holds the value, and which values are allowed.
struct IdentitySetting {
    std::optional<std::int32_t> Config::*member;
    Range<std::int32_t> range;
};
struct CountSetting {
    std::uint32_t Config::*member;
    Range<std::uint32_t> range;
};
struct BytesSetting {
    std::uint64_t Config::*member;
    Range<std::uint64_t> range;
};
struct SecondsSetting {
    double Config::*member;
    Range<double> range;
};
struct SwitchSetting {
    bool Config::*member;
};
struct TextSetting {
    std::string Config::*member;
    bool (*is_valid)(std::string_view text);
    std::string_view expected;
};
struct ChoiceSetting {
    /// words[i] is the word for the enumerator with the value i.
    std::span<const std::string_view> words;
    void (*store)(Config& config, std::size_t word);
    std::size_t (*load)(const Config& config);
};

enum class SettingGroup : std::uint8_t { identity, rendezvous, speed, memory, gpus, failures, metrics, messages };
inline constexpr std::size_t kSettingGroupCount = 8;

/// Which value is used if the ranks have different values.
enum class SettingScope : std::uint8_t {
    own,        ///< each rank uses its own value
    rank_zero,  ///< all ranks use the value of rank 0
    smallest,   ///< all ranks use the smallest value; this scope is for memory limits
    same,       ///< init() fails if the values differ, because the value affects results
};

/// A setting: one row of the table of settings.
struct Setting {
    std::string_view name;
    std::string_view horovod_name;  ///< empty if Horovod has no such setting
    SettingGroup group;
    SettingScope scope;
    std::variant<IdentitySetting, CountSetting, BytesSetting, SecondsSetting, SwitchSetting, TextSetting, ChoiceSetting>
        kind;
    std::string_view meaning;
    bool horovod_inverted = false;  ///< whether Horovod's variable has the opposite meaning (its name says "disable")
};

/// A variable with the prefix RUEDA_ or HOROVOD_ that Config does not contain, because another part of Rueda reads it.
struct OtherVariable {
    std::string_view name;
    std::string_view used_by;
    std::string_view meaning;
};

/// A variable of Horovod that has no meaning in Rueda. If `name` ends in '*', it stands for all names that begin with
/// the text before the '*'.
struct HorovodOnlyVariable {
    std::string_view name;
    std::string_view reason;
};

[[nodiscard]] std::span<const Setting> settings();
[[nodiscard]] std::span<const OtherVariable> other_variables();
[[nodiscard]] std::span<const HorovodOnlyVariable> horovod_only_variables();

/// Stores the value of a variable in `config`. Returns false if the setting does not allow this text.
[[nodiscard]] bool read_value(const Setting& setting, std::string_view text, Config& config);

}  // namespace rueda::base
