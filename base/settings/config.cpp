// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/settings/config.hpp"

#include <algorithm>
#include <string_view>

#include "base/numbers.hpp"
#include "base/settings/setting_text.hpp"
#include "base/settings/settings.hpp"
#include "base/text.hpp"

namespace rueda::base {

namespace {

/// The value of a setting in the environment, and the variable that it came from. (A setting may have two variables:
/// RUEDA_… and HOROVOD_….)
struct Found {
    std::string variable;
    std::string value;
    bool is_horovod = false;
};

std::optional<std::string> non_empty(const EnvironmentLookup& environment, std::string_view name) {
    if (name.empty()) {
        return std::nullopt;
    }
    std::optional<std::string> value = environment.value(std::string(name));
    return value && !value->empty() ? value : std::nullopt;
}

std::optional<Found> find_value(const EnvironmentLookup& environment, const Setting& setting) {
    if (const auto own = non_empty(environment, setting.name)) {
        return Found{std::string(setting.name), *own};
    }
    if (const auto horovod = non_empty(environment, setting.horovod_name)) {
        return Found{std::string(setting.horovod_name), *horovod, true};
    }
    return std::nullopt;
}

/// Stores one value in the Config. Returns false if the setting does not allow this value.
struct Store {
    const Found& found;
    const Setting& setting;
    Config& config;

    bool operator()(const IdentitySetting& kind) const { return store(kind, parse_integer<std::int32_t>(found.value)); }
    bool operator()(const CountSetting& kind) const { return store(kind, parse_integer<std::uint32_t>(found.value)); }
    bool operator()(const BytesSetting& kind) const { return store(kind, parse_bytes(found.value)); }
    bool operator()(const SecondsSetting& kind) const { return store(kind, parse_real(found.value)); }
    bool operator()(const SwitchSetting& kind) const {
        std::optional<bool> value = parse_switch(found.value);
        if (!value && found.is_horovod) {
            // Horovod accepts any whole number for this setting; a number above zero means yes.
            if (const auto number = parse_integer<std::int64_t>(found.value)) {
                value = *number > 0;
            }
        }
        if (value) {
            config.*kind.member = found.is_horovod && setting.horovod_inverted ? !*value : *value;
        }
        return value.has_value();
    }
    bool operator()(const TextSetting& kind) const {
        config.*kind.member = found.value;
        return kind.is_valid(found.value);
    }
    bool operator()(const ChoiceSetting& kind) const {
        for (std::size_t word = 0; word < kind.words.size(); ++word) {
            if (equal_ignoring_case(found.value, kind.words[word])) {
                kind.store(config, word);
                return true;
            }
        }
        return false;
    }

private:
    template <class Kind, class T>
    bool store(const Kind& kind, std::optional<T> value) const {
        if (!value || !kind.range.contains(*value)) {
            return false;
        }
        config.*kind.member = *value;
        return true;
    }
};

Status read_setting(const EnvironmentLookup& environment, const Setting& setting, Config& config) {
    const std::optional<Found> found = find_value(environment, setting);
    if (!found || std::visit(Store{*found, setting, config}, setting.kind)) {
        return {};
    }
    return failure(ErrorCode::invalid_argument, "{} is {}; expected {}", found->variable, quote(found->value),
                   expected_text(setting));
}

Status check_pair(const char* kind, std::optional<std::int32_t> rank, std::optional<std::int32_t> size) {
    if (rank && size && *rank >= *size) {
        return failure(ErrorCode::invalid_argument,
                       "RUEDA_{}RANK is '{}'; expected less than RUEDA_{}SIZE, which is '{}'", kind, *rank, kind,
                       *size);
    }
    return {};
}

Status check_identity(const Config& config) {
    if (config.rank.has_value() != config.size.has_value()) {
        return failure(ErrorCode::invalid_argument, "RUEDA_{} is set and RUEDA_{} is not; set both, or neither",
                       config.rank ? "RANK" : "SIZE", config.rank ? "SIZE" : "RANK");
    }
    RUEDA_RETURN_IF_FAILED(check_pair("", config.rank, config.size));
    RUEDA_RETURN_IF_FAILED(check_pair("LOCAL_", config.local_rank, config.local_size));
    if (config.local_size && config.size && *config.local_size > *config.size) {
        return failure(ErrorCode::invalid_argument,
                       "RUEDA_LOCAL_SIZE is '{}'; expected at most RUEDA_SIZE, which is '{}'", *config.local_size,
                       *config.size);
    }
    return {};
}

Status check_slots(const EnvironmentLookup& environment, Config& config) {
    if (config.slots <= config.slots_max) {
        return {};
    }
    if (!non_empty(environment, "RUEDA_SLOTS_MAX")) {
        config.slots_max = config.slots;
        return {};
    }
    if (!non_empty(environment, "RUEDA_SLOTS")) {
        config.slots = config.slots_max;
        return {};
    }
    return failure(ErrorCode::invalid_argument, "RUEDA_SLOTS is '{}'; expected at most RUEDA_SLOTS_MAX, which is '{}'",
                   config.slots, config.slots_max);
}

/// A stall shutdown time that is shorter than the stall warning time is ignored, as in Horovod.
void check_stall_times(Config& config) {
    if (config.stall_shutdown_seconds > 0 && config.stall_shutdown_seconds < config.stall_warning_seconds) {
        config.notes.push_back(
            fmt::format("RUEDA_STALL_SHUTDOWN_TIME_SECONDS is '{}' and is ignored; expected at least "
                        "RUEDA_STALL_CHECK_TIME_SECONDS, which is '{}'",
                        config.stall_shutdown_seconds, config.stall_warning_seconds));
        config.stall_shutdown_seconds = 0;
    }
}

std::vector<std::string_view> own_names() {
    std::vector<std::string_view> names;
    for (const Setting& setting : settings()) {
        names.push_back(setting.name);
    }
    for (const OtherVariable& variable : other_variables()) {
        names.push_back(variable.name);
    }
    return names;
}

void note_misspelt(std::string_view name, std::span<const std::string_view> known, std::vector<std::string>& notes) {
    if (std::find(known.begin(), known.end(), name) != known.end()) {
        return;
    }
    const std::string_view nearest = nearest_name(name, known);
    notes.push_back(fmt::format(
        "{} is no setting of Rueda and is ignored; {}", quote(name),
        nearest.empty() ? "docs/configuration.md lists all settings" : fmt::format("did you mean {}?", nearest)));
}

bool matches(std::string_view name, std::string_view pattern) {
    return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
}

void note_horovod_only(std::string_view name, std::vector<std::string>& notes) {
    for (const HorovodOnlyVariable& variable : horovod_only_variables()) {
        if (matches(name, variable.name)) {
            notes.push_back(fmt::format("{} is ignored: {}", quote(name), variable.reason));
            return;
        }
    }
}

void note_names(const EnvironmentLookup& environment, std::vector<std::string>& notes) {
    std::vector<std::string> names = environment.names;
    std::sort(names.begin(), names.end());
    const std::vector<std::string_view> known = own_names();
    for (const std::string& name : names) {
        if (name.starts_with("RUEDA_")) {
            note_misspelt(name, known, notes);
        } else if (name.starts_with("HOROVOD_") && non_empty(environment, name)) {
            note_horovod_only(name, notes);
        }
    }
}

}  // namespace

bool read_value(const Setting& setting, std::string_view text, Config& config) {
    const Found found{std::string(setting.name), std::string(text)};
    return std::visit(Store{found, setting, config}, setting.kind);
}

Result<Config> read_config(const EnvironmentLookup& environment) {
    Config config;
    for (const Setting& setting : settings()) {
        RUEDA_RETURN_IF_FAILED(read_setting(environment, setting, config));
    }
    RUEDA_RETURN_IF_FAILED(check_identity(config));
    RUEDA_RETURN_IF_FAILED(check_slots(environment, config));
    check_stall_times(config);
    note_names(environment, config.notes);
    return config;
}

}  // namespace rueda::base
