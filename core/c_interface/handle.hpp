// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.hpp"
#include "core/operations/sparse.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/completion_call.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"

/// Two references: the caller's, and the engine's until the operation is done, and its callback called.
struct rueda_handle final : rueda::core::Completion, rueda::core::CompletionCall {
    rueda_handle(rueda::core::Runtime* r, std::uint32_t members) : Completion(members, &end), runtime(r) {}

    static void end(Completion& completion) {
        auto& handle = static_cast<rueda_handle&>(completion);
        if (handle.take_at_end()) [[unlikely]] {
            handle.runtime->callbacks().hand_over(handle);
        } else {
            handle.drop();
        }
    }
    void call() noexcept override;
    /// What a callback throws is its own affair; it must not end the thread of all others.
    void call_back() noexcept;
    void keep() { references.fetch_add(1, std::memory_order_relaxed); }  // by who has a reference
    void drop() {
        if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete this;
        }
    }

    /// Only where the job wants to know.
    void note_site(const char* file, std::int32_t line) {
        if (runtime->wants_call_sites()) [[unlikely]] {
            source_file = file;
            source_line = line;
        }
    }
    /// Of one that is done: also whether what was done together is what each rank asked for.
    [[nodiscard]] const rueda::Status& outcome() noexcept {
        return sparse != nullptr && status().is_ok() ? sparse->agreed(*this) : status();
    }
    /// Of a failure, as rueda_wait() says it; a callback comes also where there is no memory to say it.
    [[nodiscard]] const rueda::Status& with_own_site(rueda::Status& placed) noexcept;

    rueda::core::Runtime* runtime;
    bool is_receive = false;
    std::atomic<int> references{2};
    std::unique_ptr<rueda::core::SparseAllreduce> sparse;  // what it is made of, and made to; null: another operation
    rueda_callback callback = nullptr;                     // by who has claimed the call, before it is armed
    void* data = nullptr;
    const char* source_file = nullptr;
    std::int32_t source_line = 0;
};
