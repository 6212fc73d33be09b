// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/shared_memory/atomics.hpp"
#include "base/status.hpp"
#include "base/text.hpp"

namespace rueda::base {

/// Holds the reason why a job was aborted, in memory that all ranks of a host share. Only the first reason is stored.
/// An abort cannot be undone.
///
/// Every loop that waits for another rank calls raised(). The call is cheap: it loads one cache line, which no rank
/// writes before an abort.
template <class Atomics>
class alignas(kCacheLine) AbortBlock {
public:
    static constexpr std::size_t kTextBytes = 704;

    [[nodiscard]] bool raised() const { return state_.load(std::memory_order_acquire) != kNone; }

    /// Stores the reason. Returns true if it is the first reason. In this case the caller must wake all ranks.
    bool raise(ErrorCode code, std::string_view text) {
        std::uint32_t expected = kNone;
        if (!state_.compare_exchange_strong(expected, kClaimed, std::memory_order_acq_rel, std::memory_order_acquire)) {
            return false;
        }
        code_ = static_cast<std::int32_t>(code);
        text_[copy_shortened(text, std::span(text_, kTextBytes - 1))] = '\0';
        // reason() loads `state_` with acquire and then reads the text. The store to `state_` is seq_cst, so that no
        // thread sleeps through an abort. A thread that goes to sleep first stores in its attention word that it
        // sleeps, and then calls raised(). So either raised() shows the abort, or the aborting rank sees that the
        // thread sleeps, and wakes it.
        state_.store(kPublished, std::memory_order_seq_cst);
        return true;
    }

    struct Reason {
        ErrorCode code = ErrorCode::aborted;
        std::string_view text;  ///< points into the AbortBlock, where the text does not change any more
    };
    /// Returns the reason without allocating memory. If raise() is still storing the reason, this function waits only
    /// for a limited time, because a rank that died inside raise() never finishes the store.
    [[nodiscard]] Reason reason_in_place() const noexcept {
        for (int look = 0; look < kLooks && state_.load(std::memory_order_acquire) == kClaimed; ++look) {
            Atomics::pause();
        }
        if (state_.load(std::memory_order_acquire) != kPublished) {
            return {ErrorCode::aborted, "the job was aborted, and the rank that did it died before it could say why"};
        }
        const auto length = static_cast<std::size_t>(std::find(text_, text_ + kTextBytes, '\0') - text_);
        const bool known =
            code_ > static_cast<std::int32_t>(ErrorCode::ok) && code_ <= static_cast<std::int32_t>(ErrorCode::internal);
        return {known ? static_cast<ErrorCode>(code_) : ErrorCode::aborted, std::string_view(text_, length)};
    }
    [[nodiscard]] Status reason() const {
        const Reason reason = reason_in_place();
        return {reason.code, std::string(reason.text)};
    }

private:
    enum : std::uint32_t { kNone = 0, kClaimed = 1, kPublished = 2 };
    // the number of checks before reason() gives up; they take some milliseconds
    static constexpr int kLooks = 1'000'000;

    typename Atomics::template Atomic<std::uint32_t> state_{kNone};
    std::int32_t code_ = 0;
    char text_[kTextBytes] = {};
};

}  // namespace rueda::base
