// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Long work of a program that is no training step, for example an evaluation: on rank 0 alone, or on all ranks.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "rueda/rueda.h"

namespace rueda::training {

struct RankZeroOptions {
    std::chrono::milliseconds warn_after{1000};  ///< the waiting time from which rank 0 prints a line
    /// Is called on rank 0 with one line, without a newline, if other ranks have waited. By default the line is logged
    /// as a warning.
    std::function<void(std::string_view)> warn = nullptr;
};

/// Runs long work on rank 0. All ranks must call this function. The other ranks return at once; when they next need
/// rank 0, they wait for it. While rank 0 works, stall reports and `rueda top` say that rank 0 is busy with `what`
/// (class Busy). After work of at least `warn_after`, rank 0 asks the other ranks how long an operation of theirs has
/// waited, and waits at most a second for the answers. If one has waited for `warn_after`, rank 0 prints one line.
///
/// `body` must not start collectives. If it throws, rank 0 throws the same exception. To give a result or an error to
/// all ranks, use run_on_root() (rueda/training/agreement.hpp) in `body`'s place; then all ranks wait. Threads: in a
/// process, only one thread at a time may call this function. It uses messages with the tags 0x72756564 and 0x72756565.
RUEDA_API void on_rank_zero(const std::string& what, const std::function<void()>& body,
                            const RankZeroOptions& options = {});

/// Runs work on every rank, for example the evaluation of the rank's share (shard() in rueda/training/sampler.hpp), and
/// returns when it has ended on all ranks. All ranks must call this function. Errors are passed on as by
/// run_on_every_rank(). While a rank works, stall reports say that it is busy with `what`.
RUEDA_API void on_all_ranks(const std::string& what, const std::function<void()>& body);

}  // namespace rueda::training
