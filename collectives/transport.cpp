// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/transport.hpp"

#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace rueda::collectives {

void keep_for_good(std::shared_ptr<void> memory) noexcept {
    try {
        // The list is never destroyed, because MPI may write to the memory in it until the process ends.
        static auto* const mutex = new std::mutex();
        static auto* const kept = new std::vector<std::shared_ptr<void>>();
        const std::lock_guard lock(*mutex);
        kept->push_back(memory);
    } catch (const std::bad_alloc&) {
        const detail::Unending<std::shared_ptr<void>> leaked(std::move(memory));
    }
}

}  // namespace rueda::collectives
