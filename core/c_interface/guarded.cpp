// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/c_interface/guarded.hpp"

#include <atomic>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/c_interface/process.hpp"
#include "core/diagnostics/launcher_line.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/runtime/runtime.hpp"

namespace {

// The source line that the caller has reported for its next call without options. That call reads and clears the line.
thread_local const char* next_file = nullptr;
thread_local std::int32_t next_line = 0;

// The text of the last failure on this thread. It is a plain pointer without a destructor, because handlers of exit()
// may call Rueda after this thread's thread-local destructors have run.
constinit thread_local std::string* last_error = nullptr;
constinit thread_local bool has_lost_error = false;  // True if there was no memory for the text of the last failure.

struct LastErrorEnds {
    LastErrorEnds() = default;
    ~LastErrorEnds() { delete std::exchange(last_error, nullptr); }
    LastErrorEnds(const LastErrorEnds&) = delete;
    LastErrorEnds& operator=(const LastErrorEnds&) = delete;
    /// The first call of is_wanted() in a thread constructs the thread-local object. Its destructor frees the text when
    /// the thread ends. A call of Rueda may fail after that in the same thread. The text of that failure is never
    /// freed.
    void is_wanted() const {}
};
thread_local const LastErrorEnds last_error_ends;

void keep_error(std::string_view text) noexcept {
    try {
        if (last_error == nullptr) {
            last_error_ends.is_wanted();
            last_error = new std::string;
        }
        *last_error = text;
        has_lost_error = false;
    } catch (...) {
        has_lost_error = true;
    }
}

/// Whether a Runtime can abort its job with this error code.
bool ends_jobs(rueda::ErrorCode code) {
    return code == rueda::ErrorCode::aborted || code == rueda::ErrorCode::resource_exhausted ||
           code == rueda::ErrorCode::internal;
}

}  // namespace

namespace rueda::core::c_interface {

constinit thread_local bool in_callback = false;

void note_told(ErrorCode code) noexcept {
    const Runtime* const runtime = process().current.load(std::memory_order_acquire);
    if (ends_jobs(code) && runtime != nullptr && runtime->aborted()) {
        process().knows_of_abort.store(true, std::memory_order_relaxed);
    }
}

int report_failure(ErrorCode code, std::string_view text) noexcept {
    keep_error(text);
    note_told(code);
    auto* const launcher = process().launcher.load(std::memory_order_acquire);
    if (code == ErrorCode::aborted && launcher != nullptr && !process().forked.load(std::memory_order_relaxed)) {
        try {
            launcher->report_abort(text);
            // If report_abort() throws, ruedarun learns only that this rank has ended, and not why.
        } catch (...) {
            static_cast<void>(code);
        }
    }
    return static_cast<int>(code);
}

Status refused_in_callback() {
    return {ErrorCode::invalid_argument,
            "a completion callback called something that waits, but it may only start operations and read results: "
            "wait in another thread, or give the started operation a callback of its own"};
}

Status with_site(const Status& status, const char* file, std::int32_t line) {
    const std::string site = describe_site(file, line);
    return site.empty() || status.message().find(kCalledFrom) != std::string::npos
               ? status
               : Status(status.code(), fmt::format("{}{} {}", status.message(), kCalledFrom, site));
}

bool wants_call_sites() {
    const Runtime* runtime = process().current.load(std::memory_order_acquire);
    return runtime != nullptr && runtime->wants_call_sites();
}

rueda_options options_of_next() {
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.source_file = std::exchange(next_file, nullptr);
    options.source_line = next_line;
    return options;
}

}  // namespace rueda::core::c_interface

extern "C" {

const char* rueda_last_error(void) {
    return has_lost_error ? "out of memory" : last_error != nullptr ? last_error->c_str() : "";
}
const char* rueda_version(void) { return RUEDA_VERSION; }

int rueda_wants_call_sites(void) { return rueda::core::c_interface::wants_call_sites() ? 1 : 0; }
void rueda_set_call_site(const char* source_file, int32_t source_line) {
    next_file = source_file;
    next_line = source_line;
}

}  // extern "C"
