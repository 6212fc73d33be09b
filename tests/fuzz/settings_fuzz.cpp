// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the environment, given as lines NAME=value. Accepted settings must have all properties that Rueda relies on.
// Refused settings must give the code invalid_argument and a one-line text.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "base/settings/config.hpp"

namespace {

using namespace rueda;

void expect(bool holds) {
    if (!holds) {
        std::abort();
    }
}

std::map<std::string, std::string> variables_of(std::string_view text) {
    std::map<std::string, std::string> variables;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        if (const std::size_t equals = line.find('='); equals != std::string_view::npos && equals > 0) {
            variables[std::string(line.substr(0, equals))] = line.substr(equals + 1);
        }
    }
    return variables;
}

void check(const base::Config& config) {
    expect(config.rank.has_value() == config.size.has_value());
    if (config.rank) {
        expect(*config.rank >= 0 && *config.rank < *config.size);
    }
    expect(config.slots > 0 && config.slots <= config.slots_max);
    expect(config.network_chunk_bytes == 0 || config.network_chunk_bytes >= 64);
    expect(config.compression >= Compression::none && config.compression <= Compression::bf16);
    expect(std::isfinite(config.stall_warning_seconds) && config.stall_warning_seconds >= 0);
    expect(std::isfinite(config.host_timeout_seconds) && config.host_timeout_seconds > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const auto variables = variables_of({reinterpret_cast<const char*>(bytes), size});
    const auto config = base::read_config(base::environment_of(variables));
    if (config.is_ok()) {
        check(config.value());
    } else {
        const Status status = config.status();
        expect(status.code() == ErrorCode::invalid_argument);
        expect(!status.message().empty() && status.message().find('\n') == std::string::npos);
    }
    return 0;
}
