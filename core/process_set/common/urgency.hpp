// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::core {

/// Which thread will execute the operations that become ready when this rank announces an operation.
enum class Urgency {
    background,  ///< no thread waits for the operations yet; the thread that drives progress executes them
    blocking,    ///< the calling thread is about to drive progress itself
    driving,     ///< the calling thread already holds the progress lock, and calls finish_at_once() next
    /// The calling thread drives progress for a limited time. It may leave before the operation has ended, and the
    /// background thread then executes it. So the operation is not announced directly: the other ranks wake only
    /// blocked callers when they announce directly.
    leaving,
};

}  // namespace rueda::core
