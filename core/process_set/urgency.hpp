// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::core {

/// How much is known about who will execute what an announcement completes.
enum class Urgency {
    background,  ///< nobody waits yet
    blocking,    ///< the caller is about to drive the engine himself
    driving,     ///< he holds the progress lock already, and calls finish_at_once() next
};

}  // namespace rueda::core
