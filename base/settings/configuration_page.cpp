// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/settings/configuration_page.hpp"

#include <fmt/format.h>

#include <array>

#include "base/settings/setting_text.hpp"
#include "base/settings/settings.hpp"

namespace rueda::base {

namespace {

constexpr const char* kIntroduction =
    R"(<!-- Made by rueda_config_doc from the table in base/settings/settings.cpp. Change that table, then build the target
     configuration_page, which writes this file anew. A test compares the two. -->
# Settings

Rueda reads its settings once, at init, from environment variables that begin with `RUEDA_`. If Horovod has the same
setting, its variable works too; if both are set, Rueda's counts. An empty variable counts as not set.

The ranks of a job should have the same settings, except for those that identify a rank or a host. `ruedarun` passes the
other settings on to the ranks, also on other hosts. The column *counts* says what happens if the ranks have different values:

- *each rank's own*: each rank uses its own value.
- *rank 0's*: all ranks use rank 0's value, and rank 0 prints a warning.
- *the smallest*: all ranks use the smallest value.
- *none: init fails*: init fails on all ranks, because results would depend on whose value counts. One line names the setting, the
  values and the ranks.

The column *type* says how a value is written:

- *number*: a whole number.
- *bytes*: a whole number, with K, M, G or T for 1024, 1024², 1024³ and 1024⁴ bytes: `64M`.
- *seconds*: a decimal number: `0.25`.
- *switch*: `1`, `true`, `yes`, `on`, or `0`, `false`, `no`, `off`.
- *choice*: one of the words, in any case.

If a value cannot be read or is out of range, init fails with `InvalidArgument` and one line that says what is expected. An
unknown name that begins with `RUEDA_` gets a warning with the nearest known name.
)";

struct GroupText {
    SettingGroup group;
    const char* title;
};
constexpr std::array<GroupText, kSettingGroupCount> kGroups = {{{SettingGroup::identity, "Identity of a rank"},
                                                                {SettingGroup::rendezvous, "Rendezvous"},
                                                                {SettingGroup::speed, "Speed"},
                                                                {SettingGroup::memory, "Memory"},
                                                                {SettingGroup::gpus, "GPUs"},
                                                                {SettingGroup::failures, "Failures and stalls"},
                                                                {SettingGroup::metrics, "Metrics"},
                                                                {SettingGroup::messages, "Messages"}}};

std::string code(std::string_view text) { return text.empty() ? std::string() : fmt::format("`{}`", text); }

std::string setting_row(const Setting& setting) {
    static const Config defaults;
    const std::string inverted = setting.horovod_inverted ? " (inverted)" : "";
    return fmt::format("| `{}` | {} | {} | {} | {}{} | {} | {} |\n", setting.name, type_text(setting),
                       code(value_text(setting, defaults)), range_text(setting), code(setting.horovod_name), inverted,
                       scope_text(setting), setting.meaning);
}

std::string group_section(const GroupText& text) {
    std::string section = fmt::format("\n## {}\n\n", text.title);
    section +=
        "| variable | type | default | range | Horovod's name | counts | meaning |\n|---|---|---|---|---|---|---|\n";
    for (const Setting& setting : settings()) {
        section += setting.group == text.group ? setting_row(setting) : std::string();
    }
    return section;
}

std::string others_section() {
    if (other_variables().empty()) {
        return "";
    }
    std::string section =
        "\n## Variables of other programs of Rueda\n\n| variable | used by | meaning |\n|---|---|---|\n";
    for (const OtherVariable& variable : other_variables()) {
        section += fmt::format("| `{}` | {} | {} |\n", variable.name, variable.used_by, variable.meaning);
    }
    return section;
}

std::string horovod_section() {
    std::string section =
        "\n## Variables of Horovod without a meaning here\n\nRueda accepts these variables, and one line in the log "
        "says that they have no effect.\n\n"
        "| variable | why |\n|---|---|\n";
    for (const HorovodOnlyVariable& variable : horovod_only_variables()) {
        section += fmt::format("| `{}` | {} |\n", variable.name, variable.reason);
    }
    return section;
}

}  // namespace

std::string configuration_page() {
    std::string page = kIntroduction;
    for (const GroupText& group : kGroups) {
        page += group_section(group);
    }
    return page + others_section() + horovod_section();
}

}  // namespace rueda::base
