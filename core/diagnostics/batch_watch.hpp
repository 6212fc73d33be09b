// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/shared_memory/control_block.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/negotiation/log.hpp"

namespace rueda::core {

/// This class detects the second way in which a job can stand still: every rank has announced a tensor, and the tensor
/// was called, but the batch does not complete, because a rank is stopped or starved in the middle of it. The stall
/// monitor does not see this, because no rank is missing.
///
/// This class looks at this rank's cursor. If the cursor stays before the same call for the warning time, the call is
/// reported. It is reported again at growing intervals. Threads: one, the background thread.
class BatchWatch {
public:
    BatchWatch(const StallSettings& settings, const base::HostBlocks& blocks,
               const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t own);

    /// Returns the report for the user if one is due and this is the lowest rank whose background thread runs.
    [[nodiscard]] std::optional<std::string> tick(std::int64_t now_ns);

private:
    [[nodiscard]] bool is_reporter(std::int64_t now_ns) const;
    [[nodiscard]] std::string describe(std::int64_t now_ns) const;

    base::HostBlocks blocks_;
    NegotiationMemory<base::StdAtomics> memory_;
    Log<base::StdAtomics> log_;
    std::uint32_t own_;
    StallSettings settings_;
    std::uint64_t position_ = 0;
    std::int64_t since_ns_ = 0;  ///< 0: no batch is stuck
    std::int64_t next_report_ns_ = 0;
};

}  // namespace rueda::core
