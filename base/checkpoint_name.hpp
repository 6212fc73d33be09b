// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rueda::base {

/// The name of a checkpoint's folder, for example "save-000002-step-200". CheckpointManager writes such folders, and
/// `rueda evaluate` finds them. The name is part of the format of checkpoints (docs/checkpoints.md).
struct CheckpointName {
    std::uint64_t number = 0;  ///< the checkpoint's number among all checkpoints in the same parent folder
    std::int64_t step = 0;     ///< the number of completed steps; not negative
    [[nodiscard]] bool operator==(const CheckpointName&) const = default;
};

/// The file that is written last. A folder without this file is an incomplete checkpoint.
inline constexpr std::string_view kCheckpointStateFile = "state.safetensors";

[[nodiscard]] std::string format_checkpoint_name(const CheckpointName& name);
/// Parses a name that format_checkpoint_name() made. Returns nothing if the text has another form.
[[nodiscard]] std::optional<CheckpointName> parse_checkpoint_name(std::string_view text);

}  // namespace rueda::base
