// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Functions for local work. If the work fails on one rank, every rank gets the error. Without these functions, a rank
/// that cannot read a file would leave, and the other ranks would wait for it in their next operation.
#pragma once

#include <functional>

#include "rueda/rueda.h"

namespace rueda::training {

/// Runs `body` on rank `root`; the other ranks wait. Collective. If `body` throws, every rank throws the same subclass
/// of rueda::Error with the same text (cut after 4,000 bytes). An exception that is not a rueda::Error becomes
/// Internal. `body` must not start collectives. Threads: only one of these functions may run at a time in a process.
RUEDA_API void run_on_root(const std::function<void()>& body, int root = 0);

/// Runs `body` on every rank, and returns once it has ended on all of them. Collective. If it throws on some ranks,
/// every rank throws the error of the lowest of these ranks, in the same way as run_on_root. If it succeeded on other
/// ranks, the text names the lowest rank that failed.
RUEDA_API void run_on_every_rank(const std::function<void()>& body);

}  // namespace rueda::training
