// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::data {

/// The part of its host that this process may use.
struct HostShare {
    int ranks = 1;    ///< number of ranks of the job on this host
    int hosts = 1;    ///< number of hosts of the job
    int threads = 1;  ///< number of threads with which this process should compute
};

/// Returns the share of this rank after init(). In a process that has not called init(), the share is the whole host.
/// Threads: any.
[[nodiscard]] HostShare host_share();

}  // namespace rueda::data
