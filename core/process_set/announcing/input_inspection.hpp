// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/settings/config.hpp"
#include "core/operations/verdicts.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Inspects the inputs of operations that the user wants checked (docs/design/0009-verify.md). The result of an
/// inspection is a finding. It is stored in the operation's entry, where class Verification reads it.
///
/// Threads: inspect() runs in any thread, under the enqueue lock; inspect_again() in the thread that drives progress.
/// The other functions run in any thread.
class InputInspection {
public:
    InputInspection(const base::Config& config, const SetView& view)
        : view_(view), verify_(config.verify), check_nan_(config.check_nan) {}

    /// Whether any check is switched on.
    [[nodiscard]] bool is_on() const { return verify_ != 0 || check_nan_; }
    /// The n of RUEDA_VERIFY=n: every n-th allreduce is compared; 0 means that no allreduce is compared.
    [[nodiscard]] std::uint32_t every() const { return verify_; }
    /// Whether the inputs of this operation are checked for elements that are not finite.
    [[nodiscard]] bool looks_for_nan(collectives::Operation operation) const;

    /// Inspects the input before the announcement. With RUEDA_VERIFY=1, this function also computes the input's
    /// checksum. With a larger n, only every n-th result is compared. This function cannot know which results these
    /// are, so it computes no checksum.
    void inspect(TensorEntry& entry) const noexcept;
    /// Checks whether the input has changed since the announcement. Call this before the execution. If the output is in
    /// other memory than the input, call this again after the execution.
    void inspect_again(TensorEntry& entry) const;

    /// Whether `finding` says that something is wrong with the input.
    [[nodiscard]] static bool is_found(std::uint64_t finding);
    [[nodiscard]] static std::uint64_t as_finding(const Verdict& verdict) {
        return static_cast<std::uint64_t>(encode(verdict));
    }

private:
    [[nodiscard]] bool is_compared(const Request& request) const;

    const SetView& view_;
    std::uint32_t verify_;  // RUEDA_VERIFY
    bool check_nan_;        // RUEDA_CHECK_NAN
};

}  // namespace rueda::core
