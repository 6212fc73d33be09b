// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Local work whose failure every rank must learn of. Without it, a rank that cannot read a file would leave, and the
/// other ranks would wait for it in their next operation.
#pragma once

#include <functional>

#include "rueda/rueda.h"

namespace rueda::training {

/// Runs `body` on rank `root`; the other ranks wait. Collective. When it throws, every rank throws: the same subclass
/// of rueda::Error with the same text (cut after 4,000 bytes); Internal for an exception that is not a rueda::Error.
/// `body` must not start collectives. Threads: one agreement at a time in a process.
RUEDA_API void run_on_root(const std::function<void()>& body, int root = 0);

/// Runs `body` on every rank, and returns once it has ended on all of them. Collective. When it throws on some ranks,
/// every rank throws the error of the lowest of these ranks, as run_on_root does. If other ranks had no error, the text
/// names this rank.
RUEDA_API void run_on_every_rank(const std::function<void()>& body);

}  // namespace rueda::training
