// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "launcher/options/env_file.hpp"

namespace rueda::launcher {

struct CustomMpiOptions {
    std::vector<ExportedVariable> variables;
    std::vector<std::string> mpi_args;
};

/// Reads what SageMaker calls custom_mpi_options, for example "-verbose --NCCL_DEBUG=INFO -x MODE=fast". No mpirun has
/// an option in capitals, so `--NAME=value` sets a variable, like `-x`. The rest is for mpirun.
[[nodiscard]] Result<CustomMpiOptions> parse_custom_mpi_options(std::string_view text);

}  // namespace rueda::launcher
