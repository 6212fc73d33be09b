// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "rueda/error.hpp"

namespace rueda {

/// Success, or an error code with one line of text. A success is stored as a null pointer, so it is cheap to pass.
/// Threads: copies are independent; one object may be used by one thread at a time.
class [[nodiscard]] Status {
public:
    Status() = default;
    Status(ErrorCode code, std::string message)
        : failure_(code == ErrorCode::ok ? nullptr : std::make_shared<const Failure>(code, std::move(message))) {}

    [[nodiscard]] bool is_ok() const noexcept { return failure_ == nullptr; }
    [[nodiscard]] ErrorCode code() const noexcept { return failure_ ? failure_->code : ErrorCode::ok; }
    /// The error's text; empty for a success.
    [[nodiscard]] const std::string& message() const noexcept {
        static const std::string empty;
        return failure_ ? failure_->message : empty;
    }
    /// Throws the exception that corresponds to this status. Only the public interfaces of the library call it, because
    /// errors are exceptions there.
    void throw_if_failed() const {
        if (!is_ok()) {
            throw_error(code(), message());
        }
    }

private:
    friend class PreparedFailure;
    struct Failure {
        Failure(ErrorCode c, std::string m) : code(c), message(std::move(m)) {}
        ErrorCode code;
        std::string message;
    };
    std::shared_ptr<const Failure> failure_;
};

/// A failure whose memory was allocated in advance, so it can be reported even if no memory is left. Threads: any
/// thread, but only one at a time. The Status that make() returns is an ordinary value.
class PreparedFailure {
public:
    /// `most_bytes` is the maximum length of the text. Throws std::bad_alloc.
    explicit PreparedFailure(std::size_t most_bytes)
        : failure_(std::make_shared<Status::Failure>(ErrorCode::internal, std::string(most_bytes, '\0'))) {
        failure_->message.clear();
    }
    /// Returns the failure. Its text consists of `parts`, cut at `most_bytes` bytes. The failure can
    /// be returned only once, so later calls return a success.
    [[nodiscard]] Status make(ErrorCode code, std::initializer_list<std::string_view> parts) noexcept {
        Status made;
        if (failure_ != nullptr) {
            failure_->code = code;
            for (const std::string_view part : parts) {
                const std::size_t room = failure_->message.capacity() - failure_->message.size();
                // append() allocates no memory, because the text fits into the capacity
                failure_->message.append(part.substr(0, room));
            }
            made.failure_ = std::move(failure_);
        }
        return made;
    }

private:
    std::shared_ptr<Status::Failure> failure_;
};

/// Makes a failure with a formatted text, for example `failure(ErrorCode::mismatch, "tensor '{}' …", name)`.
template <class... Args>
[[nodiscard]] Status failure(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
    return {code, fmt::format(text, std::forward<Args>(args)...)};
}

/// Makes a failure for a failed system call, with the call's name and errno: "memfd_create failed: Operation not
/// permitted (errno 1)". `error` has the default value errno, so errno is read before another call changes it.
[[nodiscard]] inline Status system_failure(ErrorCode code, const std::string& what, int error = errno) {
    return failure(code, "{} failed: {} (errno {})", what, std::generic_category().message(error), error);
}

/// A value, or a Status that says why there is no value.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): reads as `return value;`
    Result(Status status)
        : value_(std::move(status)) {}  // NOLINT(google-explicit-constructor): reads as `return failure(…);`

    [[nodiscard]] bool is_ok() const noexcept { return std::holds_alternative<T>(value_); }
    [[nodiscard]] Status status() const { return is_ok() ? Status() : std::get<Status>(value_); }
    [[nodiscard]] T& value() & { return std::get<T>(value_); }
    [[nodiscard]] const T& value() const& { return std::get<T>(value_); }
    [[nodiscard]] T&& value() && { return std::get<T>(std::move(value_)); }

private:
    std::variant<T, Status> value_;
};

}  // namespace rueda

/// If `expression` is a failure, the enclosing function returns it.
#define RUEDA_RETURN_IF_FAILED(expression)                                        \
    do {                                                                          \
        if (::rueda::Status rueda_status = (expression); !rueda_status.is_ok()) { \
            return rueda_status;                                                  \
        }                                                                         \
    } while (false)
