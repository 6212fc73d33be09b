// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/process_logger.hpp"

#include "base/settings/config.hpp"

namespace rueda::base {

Logger process_logger(std::optional<std::int32_t> rank) {
    const Result<Config> config = read_config(process_environment());
    return Logger(config.is_ok() ? config.value() : Config(), rank);
}

}  // namespace rueda::base
