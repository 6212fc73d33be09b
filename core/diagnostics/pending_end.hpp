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

/// The end of a process set that some members wait for and others have not announced: shutdown(), or the end of one set
/// by remove_process_set() or leave_process_set(). It is reported like a tensor that some ranks have announced; its
/// name is the call.
///
/// Threads: any. All functions here read words that may be read at any time.

/// Record that a member waits for the end, or no longer does. The member itself calls them.
void begin_to_await_end(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member, EndCall call,
                        std::int64_t now_ns);
void end_to_await_end(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);
/// Says that a member is announcing its end, before it posts this to the registrar. Called by this member, which is in
/// the step ProtocolStep::kPosting.
void note_end_announced(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);

/// Returns nothing while no member waits. If all members have announced the end and some member still waits, it is
/// pending: some member may be stopped in its post or in the registrar's work, and is then unfinished.
[[nodiscard]] std::optional<PendingTensor> look_at_end(const NegotiationMemory<base::StdAtomics>& memory);

/// What keeps this member from ending, for the line about its rank: "has called shutdown(), and has not announced it
/// yet". It is "" while no member waits, and if nothing is known.
[[nodiscard]] std::string describe_end_of(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);

/// Whether the name comes from look_at_end(), so that it is a call and not a tensor.
[[nodiscard]] bool is_name_of_end(std::string_view name);

/// The first line of a stall report in which the pending end is the only entry.
[[nodiscard]] std::string first_line_about_end(std::string_view name, std::string_view warning_seconds);

}  // namespace rueda::core
