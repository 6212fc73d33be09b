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

/// How ranks communicate before they share an arena: it knows the ranks and exchanges small messages. It is slow and
/// simple on purpose. After the arena is attached, no step of training uses it.
///
/// Every call is collective and blocking. What arrives from another rank is unchecked bytes.
///
/// Threads: one thread at a time.
class ControlPlane {
public:
    virtual ~ControlPlane() = default;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    /// The number that users know for a rank of this plane: if the plane belongs to a process set, the rank in the job.
    [[nodiscard]] virtual int job_rank(int rank) const { return rank; }
    /// For log lines, for example "mpi (Open MPI 4.1.4)", "socket", "single process", "threads".
    [[nodiscard]] virtual std::string description() const = 0;

    /// Element r of the result holds the bytes that rank r gave. Sizes may differ.
    virtual Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) = 0;
    /// Returns the bytes of `root`, on every rank. `mine` is read on the root only.
    virtual Result<Bytes> broadcast(std::span<const std::byte> mine, int root) = 0;
    virtual Status barrier() = 0;
    /// Whether an MPI communicator, given by its bytes, consists of the ranks of this plane in their order. This is the
    /// only call of this class that is not collective; it waits for no other rank. Fails with InvalidArgument if the
    /// bytes are not a communicator.
    virtual Result<bool> is_of_same_ranks(std::span<const std::byte> /*communicator*/) { return false; }
    /// Messages between ranks of different hosts; null if this plane connects ranks of one host only. The transport
    /// lives as long as the plane.
    virtual Transport* transport() { return nullptr; }
    /// The last call; afterwards the plane may not be used. With `after_failure`, the call waits for no rank and sends
    /// no message (MPI cannot be used after a failure). Without it all ranks close together. Pending messages of the
    /// transport need their memory until this call returns: it completes the sends and cancels the receives.
    virtual void close(bool after_failure) = 0;
};

}  // namespace rueda::collectives
