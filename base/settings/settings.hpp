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

/// What a setting may hold: lowest … highest, and one value outside of that with a meaning of its own.
template <class T>
struct Range {
    T lowest;
    T highest;
    std::optional<T> special = std::nullopt;

    [[nodiscard]] constexpr bool contains(T value) const {
        return (special && value == *special) || (value >= lowest && value <= highest);
    }
};

// The kinds of settings: where the value goes, and what is allowed.
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
    /// words[i] is the enumerator with the value i.
    std::span<const std::string_view> words;
    void (*store)(Config& config, std::size_t word);
    std::size_t (*load)(const Config& config);
};

enum class SettingGroup : std::uint8_t { identity, rendezvous, speed, memory, failures, messages };
inline constexpr std::size_t kSettingGroupCount = 6;

/// Whose value counts where ranks have different ones.
enum class SettingScope : std::uint8_t {
    own,        ///< each rank goes by its own
    rank_zero,  ///< rank 0's, on all
    smallest,   ///< of all ranks: limits of memory
    same,       ///< nobody's: they decide what results are, and init fails
};

/// One row of the table of all settings.
struct Setting {
    std::string_view name;
    std::string_view horovod_name;  ///< empty: Horovod has no such setting
    SettingGroup group;
    SettingScope scope;
    std::variant<IdentitySetting, CountSetting, BytesSetting, SecondsSetting, SwitchSetting, TextSetting, ChoiceSetting>
        kind;
    std::string_view meaning;
    bool horovod_inverted = false;  ///< Horovod's name says "disable"
};

/// A variable that is not a field of Config, with our prefix or with Horovod's, and is read by something else of Rueda.
struct OtherVariable {
    std::string_view name;
    std::string_view used_by;
    std::string_view meaning;
};

/// A variable of Horovod that has no counterpart; a name that ends in '*' stands for all that begin so.
struct HorovodOnlyVariable {
    std::string_view name;
    std::string_view reason;
};

[[nodiscard]] std::span<const Setting> settings();
[[nodiscard]] std::span<const OtherVariable> other_variables();
[[nodiscard]] std::span<const HorovodOnlyVariable> horovod_only_variables();

/// Stores what the text of a variable says; false: it is not what the setting expects.
[[nodiscard]] bool read_value(const Setting& setting, std::string_view text, Config& config);

}  // namespace rueda::base
