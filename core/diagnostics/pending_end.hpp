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
/// Threads: any. Everything here reads words that may be read at any time.

/// Says that a member waits for the end, or does not any more. By that member.
void begin_to_await_end(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member, EndCall call,
                        std::int64_t now_ns);
void end_to_await_end(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);
/// Says that a member announces its end: before it posts that to the registrar. By that member, which is in the step
/// ProtocolStep::kPosting.
void note_end_announced(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);

/// Nothing while no member waits. Where all members have announced the end and some member waits, it is still pending:
/// a member that is stopped in its post, or in the registrar's work, is unfinished then.
[[nodiscard]] std::optional<PendingTensor> look_at_end(const NegotiationMemory<base::StdAtomics>& memory);

/// What holds up the end as far as this member goes, for the line about its rank: "has called shutdown(), and has not
/// announced it yet". "" while nobody waits for the end, and where nothing is known.
[[nodiscard]] std::string describe_end_of(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);

/// The name is one that look_at_end() gives: a call, not a tensor.
[[nodiscard]] bool is_name_of_end(std::string_view name);

/// The first line of a report that is about nothing but such a call.
[[nodiscard]] std::string first_line_about_end(std::string_view name, std::string_view warning_seconds);

}  // namespace rueda::core
