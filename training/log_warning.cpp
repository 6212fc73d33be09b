// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/log_warning.hpp"

#include "base/settings/config.hpp"
#include "base/system/logging.hpp"

namespace rueda::training {

std::function<void(std::string_view)> warnings_to_the_log(int rank) {
    const Result<base::Config> config = base::read_config(base::process_environment());
    const base::Logger logger(config.is_ok() ? config.value() : base::Config(), rank);
    return [logger](std::string_view text) { logger.write(base::LogLevel::warning, text); };
}

}  // namespace rueda::training
