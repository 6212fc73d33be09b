// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/setup/host_cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "base/system/cores.hpp"

namespace rueda::core {
namespace {

struct CoreFacts {
    cpu_set_t mask;
    double quota;  ///< the CPU quota in cores; infinity if there is none
};
static_assert(std::is_trivially_copyable_v<CoreFacts>);

CoreFacts own_cores() {
    CoreFacts facts{};
    CPU_ZERO(&facts.mask);
    sched_getaffinity(0, sizeof(facts.mask), &facts.mask);
    const double usable = base::usable_cores();
    const bool limited = usable < static_cast<double>(base::affinity_cores());
    facts.quota = limited ? usable : std::numeric_limits<double>::infinity();
    return facts;
}

}  // namespace

Result<double> cores_of_host(collectives::ControlPlane& control_plane, const collectives::LocalGroup& group) {
    const CoreFacts mine = own_cores();
    Result<std::vector<collectives::Bytes>> all = control_plane.allgather(std::as_bytes(std::span(&mine, 1)));
    RUEDA_RETURN_IF_FAILED(all.status());
    cpu_set_t together;
    CPU_ZERO(&together);
    double quota = std::numeric_limits<double>::infinity();
    for (const int rank : group.members) {
        const collectives::Bytes& bytes = all.value()[static_cast<std::size_t>(rank)];
        CoreFacts other{};
        if (bytes.size() != sizeof(other)) {
            return failure(ErrorCode::internal, "rank {} announced its cores with {} bytes instead of {}", rank,
                           bytes.size(), sizeof(other));
        }
        std::memcpy(&other, bytes.data(), sizeof(other));
        if (!(other.quota > 0)) {
            return failure(ErrorCode::internal, "rank {} announced a quota of {} cores; expected more than none", rank,
                           other.quota);
        }
        CPU_OR(&together, &together, &other.mask);
        quota = std::min(quota, other.quota);
    }
    // On a machine with more than 1,024 cores, the mask is empty, because it cannot hold so many cores and the kernel
    // does not fill it. On such a machine the ranks have enough cores.
    const int cores = CPU_COUNT(&together);
    return cores == 0 ? std::numeric_limits<double>::infinity() : std::min(static_cast<double>(cores), quota);
}

int threads_of_rank(double cores_of_host, std::uint32_t own_cores, int local_size) {
    // `cores_of_host` may be infinite, so the conversion to int comes after the minimum.
    const double share = std::min(cores_of_host / local_size, static_cast<double>(own_cores));
    return std::max(1, static_cast<int>(share));
}

}  // namespace rueda::core
