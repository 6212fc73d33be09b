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

/// Parses the text that SageMaker calls custom_mpi_options, for example "-verbose --NCCL_DEBUG=INFO -x MODE=fast".
/// `--NAME=value` in capital letters sets a variable, like `-x`, because no mpirun has such an option. All other words
/// are options for mpirun.
[[nodiscard]] Result<CustomMpiOptions> parse_custom_mpi_options(std::string_view text);

}  // namespace rueda::launcher
