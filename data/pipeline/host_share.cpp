// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/pipeline/host_share.hpp"

#include <algorithm>
#include <cmath>

#include "base/system/cores.hpp"
#include "rueda/rueda.h"

// These functions are in core/, and are declared weak here. Programs that link this folder without core/, such as the
// tests of this folder, belong to no job. In these programs, the addresses of the functions are null.
#pragma weak rueda_initialized
#pragma weak rueda_local_size
#pragma weak rueda_cross_size
#pragma weak rueda_threads_per_rank

namespace rueda::data {

HostShare host_share() {
    HostShare share;
    if (rueda_initialized != nullptr && rueda_initialized() != 0 && rueda_local_size(&share.ranks) == RUEDA_OK &&
        rueda_cross_size(&share.hosts) == RUEDA_OK && rueda_threads_per_rank(&share.threads) == RUEDA_OK) {
        return share;
    }
    return {.threads = std::max(1, static_cast<int>(std::ceil(base::usable_cores())))};
}

}  // namespace rueda::data
