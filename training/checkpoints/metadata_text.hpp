// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "rueda/training/checkpoint.hpp"

namespace rueda::training {

/// Sends metadata from rank `root` to all ranks, and returns them. All ranks must call this function; the other ranks'
/// argument is ignored. Throws Internal if the root's bytes are not metadata.
[[nodiscard]] Metadata broadcast_metadata(const Metadata& metadata, int root);

}  // namespace rueda::training
