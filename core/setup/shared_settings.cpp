// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/setup/shared_settings.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/settings/setting_text.hpp"
#include "base/settings/settings.hpp"
#include "base/text.hpp"
#include "core/setup/agreement.hpp"

namespace rueda::core {
namespace {

using base::Setting;
using base::SettingScope;
using collectives::Bytes;

struct SettingValue {
    const Setting* setting;
    std::string text;
};
using SettingValues = std::vector<SettingValue>;

/// The values of one setting that differ from rank 0's value. For each of them, the ranks that have it.
using OtherRanks = std::map<std::string, std::vector<std::int32_t>>;

/// The number of values that a message names; further values are shown as "other values", to keep the line readable.
constexpr std::size_t kMostValuesNamed = 4;

constexpr std::string_view kSameVersion = "expected the same version of Rueda on all ranks";

std::vector<const Setting*> shared_settings() {
    std::vector<const Setting*> shared;
    for (const Setting& setting : base::settings()) {
        if (setting.scope == SettingScope::rank_zero || setting.scope == SettingScope::same) {
            shared.push_back(&setting);
        }
    }
    return shared;
}

SettingValues values_of(const base::Config& config) {
    SettingValues values;
    for (const Setting* setting : shared_settings()) {
        values.push_back({setting, base::value_text(*setting, config)});
    }
    return values;
}

/// Encodes each setting as "NAME=value" and a zero byte. Environment variables cannot contain zero bytes.
Bytes encoded(const SettingValues& values) {
    std::string text;
    for (const SettingValue& value : values) {
        text += fmt::format("{}={}", value.setting->name, value.text);
        text += '\0';
    }
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

Result<SettingValue> decoded_one(std::string_view line, int rank, std::span<const Setting* const> known) {
    const std::size_t equals = std::min(line.find('='), line.size());
    const auto setting =
        std::find_if(known.begin(), known.end(), [&](const Setting* s) { return s->name == line.substr(0, equals); });
    if (equals == line.size() || setting == known.end()) {
        return failure(ErrorCode::invalid_argument, "rank {} has the setting {}, which is not known here; {}", rank,
                       base::quote(line), kSameVersion);
    }
    return SettingValue{*setting, std::string(line.substr(equals + 1))};
}

Result<SettingValues> decoded(const Bytes& bytes, int rank) {
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::vector<const Setting*> known = shared_settings();
    SettingValues values;
    while (!rest.empty()) {
        const std::size_t end = rest.find('\0');
        if (end == std::string_view::npos) {
            return failure(ErrorCode::internal, "rank {} announced its settings with {}, which has no end", rank,
                           base::quote(rest));
        }
        Result<SettingValue> value = decoded_one(rest.substr(0, end), rank, known);
        RUEDA_RETURN_IF_FAILED(value.status());
        values.push_back(std::move(value).value());
        rest.remove_prefix(end + 1);
    }
    return values;
}

/// Returns rank 0's values, in the order of `mine`. Fails if rank 0 knows other settings than this rank, or if this
/// rank cannot use one of the values.
Result<SettingValues> decoded_of_rank_zero(const Bytes& bytes, const SettingValues& mine) {
    Result<SettingValues> values = decoded(bytes, 0);
    RUEDA_RETURN_IF_FAILED(values.status());
    const auto same_setting = [](const SettingValue& a, const SettingValue& b) { return a.setting == b.setting; };
    if (!std::equal(mine.begin(), mine.end(), values.value().begin(), values.value().end(), same_setting)) {
        return failure(ErrorCode::invalid_argument, "rank 0 announced {} settings where this rank has {}; {}",
                       values.value().size(), mine.size(), kSameVersion);
    }
    base::Config scratch;
    for (std::size_t i = 0; i < mine.size(); ++i) {
        const auto& [setting, text] = values.value()[i];
        const bool counts = setting->scope == SettingScope::rank_zero && text != mine[i].text;
        if (counts && !base::read_value(*setting, text, scratch)) {
            return failure(ErrorCode::invalid_argument, "rank 0 has {} for {}; expected {}", base::quote(text),
                           setting->name, base::expected_text(*setting));
        }
    }
    return values;
}

SettingValues what_differs(const SettingValues& mine, const SettingValues& rank_zeros) {
    SettingValues different;
    for (std::size_t i = 0; i < mine.size(); ++i) {
        if (mine[i].text != rank_zeros[i].text) {
            different.push_back(mine[i]);
        }
    }
    return different;
}

/// Each rank sends the values in which it differs from rank 0. All ranks receive the same bytes, so all get the same
/// result.
Result<std::map<const Setting*, OtherRanks>> gather_differences(collectives::ControlPlane& control_plane,
                                                                const SettingValues& different) {
    Result<std::vector<Bytes>> all = control_plane.allgather(encoded(different));
    RUEDA_RETURN_IF_FAILED(all.status());
    std::map<const Setting*, OtherRanks> others;
    for (std::size_t rank = 0; rank < all.value().size(); ++rank) {
        Result<SettingValues> values = decoded(all.value()[rank], static_cast<int>(rank));
        RUEDA_RETURN_IF_FAILED(values.status());
        for (const SettingValue& value : values.value()) {
            others[value.setting][value.text].push_back(static_cast<std::int32_t>(rank));
        }
    }
    return others;
}

std::string described(const std::string& value) { return value.empty() ? "not set" : base::quote(value); }

/// Describes who has which value, for example "RUEDA_SLOTS is '1024' on ranks 0, 1 and '2048' on rank 2".
std::string describe(const SettingValue& rank_zeros, const OtherRanks& others, int size) {
    std::vector<bool> has_another(static_cast<std::size_t>(size));
    std::string text;
    std::vector<std::int32_t> unnamed;
    std::size_t named = 0;
    for (const auto& [value, ranks] : others) {
        for (const std::int32_t rank : ranks) {
            has_another[static_cast<std::size_t>(rank)] = true;
        }
        if (named++ < kMostValuesNamed) {
            text += fmt::format(" and {} on {}", described(value), base::format_ranks(ranks));
        } else {
            unnamed.insert(unnamed.end(), ranks.begin(), ranks.end());
        }
    }
    if (!unnamed.empty()) {
        text += fmt::format(" and other values on {}", base::format_ranks(unnamed));
    }
    std::vector<std::int32_t> as_rank_zero;
    for (std::int32_t rank = 0; rank < size; ++rank) {
        if (!has_another[static_cast<std::size_t>(rank)]) {
            as_rank_zero.push_back(rank);
        }
    }
    return fmt::format("{} is {} on {}{}", rank_zeros.setting->name, described(rank_zeros.text),
                       base::format_ranks(as_rank_zero), text);
}

/// The settings of one scope that differ, as one line, and the ruedarun flags that make them equal.
struct Differences {
    std::string text;
    std::string flags;
};

Differences differences_of(SettingScope scope, const SettingValues& rank_zeros,
                           const std::map<const Setting*, OtherRanks>& others, int size) {
    Differences found;
    for (const SettingValue& value : rank_zeros) {
        const auto other = others.find(value.setting);
        if (value.setting->scope == scope && other != others.end()) {
            found.text += (found.text.empty() ? "" : "; ") + describe(value, other->second, size);
            found.flags += fmt::format(" -x {}=VALUE", value.setting->name);
        }
    }
    return found;
}

}  // namespace

Result<std::string> share_settings(collectives::ControlPlane& control_plane, base::Config& config) {
    const SettingValues mine = values_of(config);
    Result<Bytes> announced = control_plane.broadcast(encoded(mine), 0);
    RUEDA_RETURN_IF_FAILED(announced.status());
    Result<SettingValues> rank_zeros = decoded_of_rank_zero(announced.value(), mine);
    RUEDA_RETURN_IF_FAILED(agree_on(control_plane, rank_zeros.status()));
    const SettingValues different = what_differs(mine, rank_zeros.value());
    Result<std::map<const Setting*, OtherRanks>> others = gather_differences(control_plane, different);
    RUEDA_RETURN_IF_FAILED(others.status());

    const auto differences = [&](SettingScope scope) {
        return differences_of(scope, rank_zeros.value(), others.value(), control_plane.size());
    };
    if (const Differences refused = differences(SettingScope::same); !refused.text.empty()) {
        return failure(ErrorCode::invalid_argument,
                       "{}; expected the same on all ranks, as results depend on it: pass it to all, as ruedarun{} "
                       "does",
                       refused.text, refused.flags);
    }
    for (std::size_t i = 0; i < mine.size(); ++i) {
        const auto& [setting, text] = rank_zeros.value()[i];
        if (text != mine[i].text && !base::read_value(*setting, text, config)) {
            return failure(ErrorCode::internal, "{} was read once and cannot be read again", setting->name);
        }
    }
    const Differences unused = differences(SettingScope::rank_zero);
    return unused.text.empty() || control_plane.rank() != 0
               ? std::string()
               : fmt::format("{}: rank 0's counts; pass it to all, as ruedarun{} does", unused.text, unused.flags);
}

}  // namespace rueda::core
