// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/files/stall_file.hpp"

#include <fmt/format.h>

#include <utility>

namespace rueda::core {

std::optional<std::string> StallFile::add(const StallWriter& writer, StallEntry entry) {
    entries_.push_back(std::move(entry));
    if (entries_.size() > kMostEntries) {
        entries_.pop_front();
    }
    return files_.write({{fmt::format("stall.rank.{}.json", writer.rank), to_json(writer, entries_)}});
}

}  // namespace rueda::core
