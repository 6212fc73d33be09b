// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// Functions for work that each rank does by itself, for example reading a file. If the work fails on one rank, every
/// rank gets the error. Without these functions, the failed rank would leave, and the other ranks would wait for it in
/// their next operation.
#pragma once

#include <functional>

#include "rueda/rueda.h"

namespace rueda::training {

/// Runs `body` on rank `root`, while the other ranks wait. All ranks must call this function. If `body` throws, every
/// rank throws the same subclass of rueda::Error with the same text (cut after 4,000 bytes). An exception that is not a
/// rueda::Error becomes Internal. `body` must not start collectives. Threads: in a process, only one thread at a time
/// may call run_on_root() or run_on_every_rank().
RUEDA_API void run_on_root(const std::function<void()>& body, int root = 0);

/// Runs `body` on every rank, and returns when it has ended on all ranks. All ranks must call this function. If `body`
/// throws on some ranks, every rank throws the error of the lowest of these ranks, as in run_on_root(). If `body`
/// succeeded on other ranks, the error's text names the lowest rank that failed.
RUEDA_API void run_on_every_rank(const std::function<void()>& body);

}  // namespace rueda::training
