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

/// Every call of the C interface runs in these wrappers. A wrapper turns a failure into an error number and the text of
/// rueda_last_error(), and lets no exception out.
namespace rueda::core::c_interface {

/// Whether this thread runs a completion callback. Every blocking call reads this variable. To be fast, the read must
/// need no function call, which the TLS model initial-exec ensures. This model works even if Rueda is loaded with
/// dlopen(), because the C library reserves thread-local memory for such small variables.
extern constinit thread_local bool in_callback __attribute__((tls_model("initial-exec")));

/// Records that the program has received a failure with this code. If this failure ended the job, shutdown() does not
/// report the failure again.
void note_told(ErrorCode code) noexcept;
/// Keeps the text for rueda_last_error(), and returns the error number. If the code is `aborted`, also reports the text
/// to ruedarun.
int report_failure(ErrorCode code, std::string_view text) noexcept;
inline int report(const Status& status) noexcept {
    return status.is_ok() ? RUEDA_OK : report_failure(status.code(), status.message());
}

/// Checks the pointer through which a call returns its result or handle.
inline Status check_place(const void* place, const char* what) {
    return place != nullptr ? Status()
                            : failure(ErrorCode::invalid_argument,
                                      "the pointer to where the {} goes is NULL; expected memory for it", what);
}

/// Runs `body`, which returns a Status. Turns a failure or an exception into an error number.
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

/// The error for blocking calls in a completion callback. While one callback waits, no other callback can run. A wait
/// that depends on another callback would therefore never end.
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

/// Appends the source line of the call to the text. Does nothing if the text contains source lines already, as the text
/// of a mismatch does.
[[nodiscard]] Status with_site(const Status& status, const char* file, std::int32_t line);
[[nodiscard]] bool wants_call_sites();
/// Returns the options for a call that was made without options. They contain the source line that the caller has
/// reported for this call.
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

/// Like called(), for an operation that may wait for other ranks.
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
