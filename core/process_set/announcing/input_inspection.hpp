// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/settings/config.hpp"
#include "core/operations/verdicts.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Inspects the inputs of operations that are checked (docs/design/0009-verify.md). It stores its findings in the
/// entry, until Verification compares them.
///
/// Threads: any. inspect() runs under the enqueue lock, the other functions in the thread that drives progress.
class InputInspection {
public:
    InputInspection(const base::Config& config, const SetView& view)
        : view_(view), verify_(config.verify), check_nan_(config.check_nan) {}

    /// Whether anything is checked.
    [[nodiscard]] bool is_on() const { return verify_ != 0 || check_nan_; }
    /// The n of RUEDA_VERIFY=n: every n-th allreduce is compared; 0 means that no allreduce is compared.
    [[nodiscard]] std::uint32_t every() const { return verify_; }
    /// Whether the operation is checked for elements that are not finite.
    [[nodiscard]] bool looks_for_nan(collectives::Operation operation) const;

    /// Inspects the input as the caller gave it, before the announcement. If only some results are compared, this
    /// function cannot know yet whether this one will be; then inputs are not compared.
    void inspect(TensorEntry& entry) const noexcept;
    /// Inspects the input again before the operation is executed. If the output is in other memory, it does so after
    /// the execution too.
    void inspect_again(TensorEntry& entry) const;

    /// Whether `finding`, which an entry holds, says that something is wrong with the input.
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
