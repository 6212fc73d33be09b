// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/shared_memory/atomics.hpp"
#include "core/diagnostics/pending_tensors.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// In shutdown(), remove_process_set() and leave_process_set(), a member waits until all members have announced the end
/// of the process set. If some members do not announce it, the wait is reported like a tensor that only some ranks have
/// announced. Instead of a tensor's name, the report has the name of the call.
///
/// Threads: any. The functions here read only atomics that any thread may read at any time.

/// begin_to_await_end() records that a member waits for the end of the set; end_to_await_end() records that it no
/// longer waits. The member itself calls both functions.
void begin_to_await_end(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member, EndCall call,
                        std::int64_t now_ns);
void end_to_await_end(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);
/// Records that a member is announcing its end. The member itself calls this before it posts the announcement to the
/// registrar, in the step ProtocolStep::kPosting.
void note_end_announced(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);

/// The members of a process set end the set together, and the stall monitor reports this as a pending operation. This
/// function returns the pending operation. Returns nothing while no member waits for the end of the set. The operation
/// can be pending although all members have announced the end: the process of a member may have been stopped while it
/// posted its announcement, or while it did the registrar's work. Such a member is listed as unfinished.
[[nodiscard]] std::optional<PendingTensor> look_at_end(const NegotiationMemory<base::StdAtomics>& memory);

/// Returns a text for the line about this member. The text says what keeps the member from ending, for example "has
/// called shutdown(), and has not announced it yet". Returns "" while no member waits, or if nothing is known.
[[nodiscard]] std::string describe_end_of(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);

/// Whether the name comes from look_at_end(). Such a name is the name of a call, not of a tensor.
[[nodiscard]] bool is_name_of_end(std::string_view name);

/// The first line of a stall report in which the pending end is the only entry.
[[nodiscard]] std::string first_line_about_end(std::string_view name, std::string_view warning_seconds);

}  // namespace rueda::core
