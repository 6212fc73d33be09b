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

/// Keeps the memory of an MPI request until the process ends. The request may still be in progress, even if it failed
/// or if Rueda stopped waiting for it. Any later call of MPI may then read or write this memory. Threads: any thread
/// may call this function.
template <class T, class Deleter>
void keep_for_mpi(std::unique_ptr<T, Deleter> memory) noexcept {
    auto* const kept = memory.release();
    static std::mutex lock;
    const std::lock_guard held(lock);
    try {
        // The list is never destroyed, because MPI may be called while the process exits. The memory is still reachable
        // through the list, so a leak checker does not report it.
        static auto* const list = new std::vector<decltype(memory.release())>;
        list->push_back(kept);
    } catch (const std::bad_alloc&) {
        return;  // There was no memory to extend the list. The memory of the request stays allocated in this case, too.
    }
}

}  // namespace rueda::collectives
