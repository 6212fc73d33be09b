// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.hpp"
#include "core/operations/sparse.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/completion_call.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"

/// A pending operation of a caller of the C interface. A handle has two references. The caller holds one. The engine
/// holds the other until the operation is done and its callback was called.
struct rueda_handle final : rueda::core::Completion, rueda::core::CompletionCall {
    rueda_handle(rueda::core::Runtime* r, std::uint32_t members) : Completion(members, &end), runtime(r) {}

    // A trainer with many small tensors makes a handle for each of them in every step, and releases all handles at the
    // end of the step. The C library's allocator is slow for so many blocks at once. So each thread keeps the memory of
    // released handles.
    static void* operator new(std::size_t bytes);
    static void operator delete(void* memory) noexcept;

    static void end(Completion& completion) {
        auto& handle = static_cast<rueda_handle&>(completion);
        if (handle.take_at_end()) [[unlikely]] {
            handle.runtime->callbacks().hand_over(handle);
        } else {
            handle.drop();
        }
    }
    void call() noexcept override;
    /// Calls the callback. Catches exceptions, which would end the thread that runs all callbacks.
    void call_back() noexcept;
    // Adds a reference. The caller must hold a reference already.
    void keep() { references.fetch_add(1, std::memory_order_relaxed); }
    void drop() {
        // Only a thread that holds a reference can add one. So if this reference is the only one, the number cannot
        // change, and the faster load is enough. The load is an acquire, which pairs with the fetch_sub of the thread
        // that dropped the other reference.
        if (references.load(std::memory_order_acquire) == 1 ||
            references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete this;
        }
    }

    /// Stores the source line of the call, if call sites are recorded.
    void note_site(const char* file, std::int32_t line) {
        if (runtime->wants_call_sites()) [[unlikely]] {
            source_file = file;
            source_line = line;
        }
    }
    /// How the operation ended. For a sparse allreduce, also checks that all ranks made the same request.
    [[nodiscard]] const rueda::Status& outcome() noexcept {
        return sparse != nullptr && status().is_ok() ? sparse->agreed(*this) : status();
    }
    /// Returns the outcome with the call's source line. `placed` is the memory for the new status. If there is no
    /// memory for the new text, returns the outcome without the source line.
    [[nodiscard]] const rueda::Status& with_own_site(rueda::Status& placed) noexcept;

    rueda::core::Runtime* runtime;
    bool is_receive = false;
    std::atomic<int> references{2};
    std::unique_ptr<rueda::core::SparseAllreduce>
        // The inputs and results of a sparse allreduce. Null for other operations.
        sparse;
    rueda_callback callback = nullptr;  // The thread that has called claim() writes `callback` before it calls arm().
    void* data = nullptr;
    const char* source_file = nullptr;
    std::int32_t source_line = 0;
};
