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

/// What SageMaker calls custom_mpi_options: "-verbose --NCCL_DEBUG=INFO -x
/// OMPI_MCA_btl_vader_single_copy_mechanism=none".
/// `--NAME=value` with NAME in capitals is no option of any mpirun: it sets a variable, as `-x` does; the rest is for
/// mpirun.
[[nodiscard]] Result<CustomMpiOptions> parse_custom_mpi_options(std::string_view text);

}  // namespace rueda::launcher
