// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace rueda::collectives {

class Transport;

using Bytes = std::vector<std::byte>;

/// How ranks talk before they share an arena: who there is, and small messages. Slow and simple on purpose; after
/// the arena is attached nothing of a step goes through it.
///
/// Every call is collective and blocking. What arrives from another rank is unchecked bytes.
/// Threads: one thread at a time.
class ControlPlane {
public:
    virtual ~ControlPlane() = default;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    /// What people call a rank of this plane: where it is that of a process set, its rank in the job.
    [[nodiscard]] virtual int job_rank(int rank) const { return rank; }
    /// "mpi (Open MPI 4.1.4)", "socket", "single process", "threads": for log lines.
    [[nodiscard]] virtual std::string description() const = 0;

    /// Element r of the result is what rank r gave. Sizes may differ.
    virtual Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) = 0;
    /// The bytes of `root`, on every rank. `mine` is read on the root only.
    virtual Result<Bytes> broadcast(std::span<const std::byte> mine, int root) = 0;
    virtual Status barrier() = 0;
    /// Whether an MPI communicator, given by its bytes, is of the ranks of this plane in their order. Alone in this
    /// class it is not collective, and waits for nobody. InvalidArgument for what is no communicator.
    virtual Result<bool> is_of_same_ranks(std::span<const std::byte> /*communicator*/) { return false; }
    /// Messages between ranks of different hosts; null: this plane joins ranks of one host only. It lives as long as
    /// the plane.
    virtual Transport* transport() { return nullptr; }
    /// Last call. Nothing may be asked of it afterwards. With `after_failure`, no peer is waited for and no
    /// message is sent (MPI is of no use after a failure). Without it all ranks close together, and what the transport
    /// still has under way needs its memory until this returns: sends leave, receives are cancelled.
    virtual void close(bool after_failure) = 0;
};

}  // namespace rueda::collectives
