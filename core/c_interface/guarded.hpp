// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string_view>

#include "base/status.hpp"
#include "core/operations/requests.hpp"
#include "rueda/rueda.h"

/// This wrapper encloses every call: it turns a failure into a number and the text of rueda_last_error(). No exception
/// leaves it.
namespace rueda::core::c_interface {

/// Whether this thread is in a completion callback. Every blocking call reads it, so reading it must need no function
/// call. The initial-exec model ensures this. It also works if Rueda is loaded with dlopen(), because the C library
/// reserves enough thread-local memory for this byte.
extern constinit thread_local bool in_callback __attribute__((tls_model("initial-exec")));

/// Records that a call or a completion callback has told the program of a failure with this code. If the failure ended
/// the job, the shutdown need not report it again.
void note_told(ErrorCode code) noexcept;
/// Returns the error number. Keeps the text of the failure for rueda_last_error(), and reports an abort to ruedarun.
int report_failure(ErrorCode code, std::string_view text) noexcept;
inline int report(const Status& status) noexcept {
    return status.is_ok() ? RUEDA_OK : report_failure(status.code(), status.message());
}

/// Checks the output pointer of a call, through which the call returns its result or its handle.
inline Status check_place(const void* place, const char* what) {
    return place != nullptr ? Status()
                            : failure(ErrorCode::invalid_argument,
                                      "the pointer to where the {} goes is NULL; expected memory for it", what);
}

/// Runs `body`, which returns a Status, and turns every exception into an error code. So no exception leaves the C
/// interface.
template <class Body>
int guarded(Body&& body) noexcept {
    try {
        return report(body());
    } catch (const std::bad_alloc&) {
        return report_failure(ErrorCode::resource_exhausted, "out of memory");
    } catch (const Error& error) {
        return report_failure(error.code(), error.what());
    } catch (const std::exception& error) {
        return report_failure(ErrorCode::internal, error.what());
    } catch (...) {
        return report_failure(ErrorCode::internal, "an exception of an unknown type was thrown");
    }
}

/// If a callback waited, it would delay all other callbacks, perhaps the one that it waits for. So every blocking call
/// in a callback is refused, whichever thread runs the callback.
[[nodiscard]] Status refused_in_callback();

/// Like guarded(), for a call that may wait for other ranks.
template <class Body>
int guarded_wait(Body&& body) noexcept {
    return guarded([&]() -> Status {
        if (in_callback) [[unlikely]] {
            return refused_in_callback();
        }
        return body();
    });
}

/// Adds to the text where in the source the call stands, unless the text says so already. The text of a disagreement
/// names the source lines of all ranks.
[[nodiscard]] Status with_site(const Status& status, const char* file, std::int32_t line);
[[nodiscard]] bool wants_call_sites();
/// For a call without options: returns where in the source it stands, as the caller reported it before the call.
[[nodiscard]] rueda_options options_of_next();

/// Like guarded(), for a call of an operation.
template <class Body>
int called(const rueda_options* given, Body&& body) noexcept {
    return guarded([&]() -> Status {
        Status status = body();
        if (!status.is_ok() && wants_call_sites()) [[unlikely]] {
            rueda_options completed;
            const rueda_options* options = nullptr;
            RUEDA_RETURN_IF_FAILED(effective_options(given, completed, options));
            return with_site(status, options->source_file, options->source_line);
        }
        return status;
    });
}

/// Like guarded_at(), for an operation that may wait for other ranks.
template <class Body>
int called_wait(const rueda_options* given, Body&& body) noexcept {
    return called(given, [&]() -> Status {
        if (in_callback) [[unlikely]] {
            return refused_in_callback();
        }
        return body();
    });
}

}  // namespace rueda::core::c_interface
