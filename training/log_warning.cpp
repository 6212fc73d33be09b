// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/log_warning.hpp"

#include "base/system/process_logger.hpp"

namespace rueda::training {

std::function<void(std::string_view)> warnings_to_the_log(int rank) {
    return
        [logger = base::process_logger(rank)](std::string_view text) { logger.write(base::LogLevel::warning, text); };
}

}  // namespace rueda::training
