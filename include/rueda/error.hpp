// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace rueda {

/// The kinds of errors. The numbers are part of the C interface and never change.
enum class ErrorCode : std::int32_t {
    ok = 0,
    invalid_argument = 1,  ///< the caller passed a value that cannot be used
    duplicate_name = 2,    ///< a tensor with this name is still pending on this rank; nothing was started
    not_initialized = 3,   ///< init() was not called, or shutdown() was already called
    mismatch = 4,  ///< the ranks disagree about this tensor; all ranks of the process set get this error, and later
                   ///< operations work
    aborted = 5,   ///< a rank died or the job was ended; Rueda works again only after another init()
    timeout = 6,   ///< the given time has passed; the operation continues
    resource_exhausted = 7,  ///< memory, slots (numbers for tensor names) or descriptors are used up
    unsupported = 8,         ///< this version or this machine does not support the request
    internal = 9,            ///< a defect in Rueda
};

/// Returns the code's name as it appears in messages and in the class names of C++ and Python: "InvalidArgument",
/// "Mismatch", …
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

/// The base class of all exceptions that Rueda throws. what() is one line of text. It says what was being done, what
/// was found, what was expected, and what to do.
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

    [[nodiscard]] ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

// Each error code has its own class, so that callers can catch the errors that they can handle. The classes are not
// aliases of a template, so that their names are readable: a program that does not catch an exception prints the name
// of its class, for example "rueda::Aborted". This is also the name in the documentation.
/// Thrown for ErrorCode::invalid_argument: the caller passed a value that cannot be used.
class InvalidArgument : public Error {
public:
    explicit InvalidArgument(const std::string& message) : Error(ErrorCode::invalid_argument, message) {}
};
/// Thrown for ErrorCode::duplicate_name: an operation with this name is still pending on this rank.
class DuplicateName : public Error {
public:
    explicit DuplicateName(const std::string& message) : Error(ErrorCode::duplicate_name, message) {}
};
/// Thrown for ErrorCode::not_initialized: init() was not called, or shutdown() was already called.
class NotInitialized : public Error {
public:
    explicit NotInitialized(const std::string& message) : Error(ErrorCode::not_initialized, message) {}
};
/// Thrown for ErrorCode::mismatch: the ranks disagree about a tensor.
class Mismatch : public Error {
public:
    explicit Mismatch(const std::string& message) : Error(ErrorCode::mismatch, message) {}
};
/// Thrown for ErrorCode::aborted: a rank died or the job was ended.
class Aborted : public Error {
public:
    explicit Aborted(const std::string& message) : Error(ErrorCode::aborted, message) {}
};
/// Thrown for ErrorCode::timeout: the given time has passed, and the operation continues.
class Timeout : public Error {
public:
    explicit Timeout(const std::string& message) : Error(ErrorCode::timeout, message) {}
};
/// Thrown for ErrorCode::resource_exhausted: memory, slots (numbers for tensor names) or descriptors are used up.
class ResourceExhausted : public Error {
public:
    explicit ResourceExhausted(const std::string& message) : Error(ErrorCode::resource_exhausted, message) {}
};
/// Thrown for ErrorCode::unsupported: this version or this machine cannot do what was requested.
class Unsupported : public Error {
public:
    explicit Unsupported(const std::string& message) : Error(ErrorCode::unsupported, message) {}
};
/// Thrown for ErrorCode::internal: a defect in Rueda.
class Internal : public Error {
public:
    explicit Internal(const std::string& message) : Error(ErrorCode::internal, message) {}
};

/// Throws the exception class that belongs to `code`.
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
