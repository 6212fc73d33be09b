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

/// What surrounds every call: a failure becomes a number and the text of rueda_last_error(), and nothing else gets out.
namespace rueda::core::c_interface {

/// Whether this thread is in a completion callback. Every blocking call looks at it, so it has to be found without a
/// function call, as in a library that is loaded at the start; the byte has room where it was loaded later, too.
extern constinit thread_local bool in_callback __attribute__((tls_model("initial-exec")));

/// The program is told of a failure with this code, by a call or by a completion callback. If it is the end of the job,
/// the shutdown need not report it again.
void note_told(ErrorCode code) noexcept;
/// The number of the status; the text of a failure is kept for rueda_last_error(), and of an abort ruedarun hears.
int report_failure(ErrorCode code, std::string_view text) noexcept;
inline int report(const Status& status) noexcept {
    return status.is_ok() ? RUEDA_OK : report_failure(status.code(), status.message());
}

/// Where a call writes what it finds, or what it starts.
inline Status check_place(const void* place, const char* what) {
    return place != nullptr ? Status()
                            : failure(ErrorCode::invalid_argument,
                                      "the pointer to where the {} goes is NULL; expected memory for it", what);
}

/// Runs `body`, which returns a Status; nothing else leaves the C interface.
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

/// A callback that waits holds up all others, and maybe the one that it waits for: it is refused, wherever it runs.
[[nodiscard]] Status refused_in_callback();

/// guarded() for what may wait for other ranks.
template <class Body>
int guarded_wait(Body&& body) noexcept {
    return guarded([&]() -> Status {
        if (in_callback) [[unlikely]] {
            return refused_in_callback();
        }
        return body();
    });
}

/// With where the call stands, unless the text has it: that of a disagreement has all ranks'.
[[nodiscard]] Status with_site(const Status& status, const char* file, std::int32_t line);
[[nodiscard]] bool wants_call_sites();
/// Of a call without options: where it stands, which is said once.
[[nodiscard]] rueda_options options_of_next();

/// As guarded(), of an operation's call.
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

/// The same of one that may wait for other ranks.
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
