// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Runs long work of a program that is no training step, for example an evaluation. The work runs on rank 0 alone, or
/// on all ranks.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "rueda/rueda.h"

namespace rueda::training {

/// Runs long work on rank 0. All ranks must call this function. The other ranks return at once. When they next need
/// rank 0, for example in a collective, they wait for rank 0. While rank 0 works, stall reports and `rueda top` say
/// that rank 0 is busy with `what` (class Busy). In the meantime, a thread of rank 1 watches how long the operations of
/// rank 1 wait. If they wait for `warn_after` or longer, this thread logs one line as a warning when rank 0 takes part
/// again. Rank 0 logs at the level info how long `body` took. The function sends no data between the ranks.
///
/// `body` must not start collectives. If it throws, rank 0 throws the same exception. To give a result or an error to
/// all ranks, use run_on_root() (rueda/training/agreement.hpp) with an object of class Busy; then all ranks wait.
/// Threads: in a process, only one thread at a time may call this function.
RUEDA_API void on_rank_zero(const std::string& what, const std::function<void()>& body,
                            std::chrono::milliseconds warn_after = std::chrono::seconds(1));

/// Runs work on every rank, for example the evaluation of the rank's share (shard() in rueda/training/sampler.hpp).
/// Returns when the work has ended on all ranks. All ranks must call this function. Errors are passed on as by
/// run_on_every_rank(). While a rank works, stall reports say that it is busy with `what`.
RUEDA_API void on_all_ranks(const std::string& what, const std::function<void()>& body);

}  // namespace rueda::training
