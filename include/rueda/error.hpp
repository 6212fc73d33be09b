// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace rueda {

/// What kind of thing went wrong. The numbers are part of the C ABI and never change.
enum class ErrorCode : std::int32_t {
    ok = 0,
    invalid_argument = 1,  ///< a value given by the caller cannot be used
    duplicate_name = 2,    ///< a tensor of this name is still pending on this rank; nothing was started
    not_initialized = 3,   ///< init() has not been called, or shutdown() has
    mismatch = 4,  ///< ranks disagree about this tensor; all ranks of the set get this, the next operation works
    aborted = 5,   ///< a peer died or the job was ended; Rueda cannot be used until it is initialised anew
    timeout = 6,   ///< the time given has passed; the operation goes on
    resource_exhausted = 7,  ///< memory, slots or descriptors ran out
    unsupported = 8,         ///< asked for something this version or this machine cannot do
    internal = 9,            ///< a defect in Rueda
};

/// "InvalidArgument", "Mismatch", … as they appear in messages and as C++ and Python class names.
[[nodiscard]] constexpr const char* name_of(ErrorCode code) noexcept {
    switch (code) {
        case ErrorCode::ok:
            return "Ok";
        case ErrorCode::invalid_argument:
            return "InvalidArgument";
        case ErrorCode::duplicate_name:
            return "DuplicateName";
        case ErrorCode::not_initialized:
            return "NotInitialized";
        case ErrorCode::mismatch:
            return "Mismatch";
        case ErrorCode::aborted:
            return "Aborted";
        case ErrorCode::timeout:
            return "Timeout";
        case ErrorCode::resource_exhausted:
            return "ResourceExhausted";
        case ErrorCode::unsupported:
            return "Unsupported";
        case ErrorCode::internal:
            return "Internal";
    }
    return "Unknown";
}

/// Base of everything Rueda throws. what() is one line: the thing, the value found, the value expected, what to do.
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

    [[nodiscard]] ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

/// One class per error code, so that callers can catch what they can handle.
template <ErrorCode kCode>
class ErrorOf : public Error {
public:
    explicit ErrorOf(const std::string& message) : Error(kCode, message) {}
};

using InvalidArgument = ErrorOf<ErrorCode::invalid_argument>;
using DuplicateName = ErrorOf<ErrorCode::duplicate_name>;
using NotInitialized = ErrorOf<ErrorCode::not_initialized>;
using Mismatch = ErrorOf<ErrorCode::mismatch>;
using Aborted = ErrorOf<ErrorCode::aborted>;
using Timeout = ErrorOf<ErrorCode::timeout>;
using ResourceExhausted = ErrorOf<ErrorCode::resource_exhausted>;
using Unsupported = ErrorOf<ErrorCode::unsupported>;
using Internal = ErrorOf<ErrorCode::internal>;

/// Throws the class that belongs to `code`.
[[noreturn]] inline void throw_error(ErrorCode code, const std::string& message) {
    switch (code) {
        case ErrorCode::invalid_argument:
            throw InvalidArgument(message);
        case ErrorCode::duplicate_name:
            throw DuplicateName(message);
        case ErrorCode::not_initialized:
            throw NotInitialized(message);
        case ErrorCode::mismatch:
            throw Mismatch(message);
        case ErrorCode::aborted:
            throw Aborted(message);
        case ErrorCode::timeout:
            throw Timeout(message);
        case ErrorCode::resource_exhausted:
            throw ResourceExhausted(message);
        case ErrorCode::unsupported:
            throw Unsupported(message);
        case ErrorCode::ok:
        case ErrorCode::internal:
            break;
    }
    throw Internal(message);
}

}  // namespace rueda
