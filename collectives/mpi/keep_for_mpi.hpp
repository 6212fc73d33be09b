// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Keeps memory that MPI may still read or write after Rueda has stopped waiting for a request.
#pragma once

#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace rueda::collectives {

/// Keeps the memory until the process ends. Even if a request failed, or if Rueda has stopped waiting for it, the
/// request may still be in progress, and any later call of MPI may use its memory. Threads: any.
template <class T, class Deleter>
void keep_for_mpi(std::unique_ptr<T, Deleter> memory) noexcept {
    auto* const kept = memory.release();
    static std::mutex lock;
    const std::lock_guard held(lock);
    try {
        // The list is never destroyed, because MPI may be called while the process exits. A leak checker does not
        // report the memory in this list, because the list refers to it.
        static auto* const list = new std::vector<decltype(memory.release())>;
        list->push_back(kept);
    } catch (const std::bad_alloc&) {
        return;  // without a list entry the memory is also never freed
    }
}

}  // namespace rueda::collectives
