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

/// The means by which ranks communicate before they share an arena. A control plane knows the ranks and exchanges small
/// messages. It is slow and simple on purpose: after the arena is attached, training steps do not use the control
/// plane.
///
/// Every call is collective and blocking. Bytes from another rank are not checked.
///
/// Threads: one thread at a time.
class ControlPlane {
public:
    virtual ~ControlPlane() = default;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    /// The number of a rank as users know it. If the plane belongs to a process set, this is the rank in the job.
    [[nodiscard]] virtual int job_rank(int rank) const { return rank; }
    /// A description for log lines, for example "mpi (Open MPI 4.1.4)", "socket", "single process", "threads".
    [[nodiscard]] virtual std::string description() const = 0;

    /// Element r of the result holds the bytes that rank r passed. The sizes may differ.
    virtual Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) = 0;
    /// Returns the bytes that rank `root` passed, on every rank. `mine` is read on the root only.
    virtual Result<Bytes> broadcast(std::span<const std::byte> mine, int root) = 0;
    virtual Status barrier() = 0;
    /// Whether an MPI communicator consists of the ranks of this plane, in the same order. The communicator is passed
    /// as the bytes of its handle. This is the only call of this class that is not collective; it waits for no other
    /// rank. Fails with InvalidArgument if the bytes are not a communicator.
    virtual Result<bool> is_of_same_ranks(std::span<const std::byte> /*communicator*/) { return false; }
    /// Whether ranks of different hosts can belong to a plane of this kind. If not, its ranks must be on one host.
    [[nodiscard]] virtual bool reaches_other_hosts() const { return false; }
    /// The transport for messages between ranks of different hosts; null if all ranks of this plane are on one host.
    /// The transport lives as long as the plane.
    virtual Transport* transport() { return nullptr; }
    /// Closes the plane, which may not be used afterwards. With `after_failure`, the call waits for no rank and sends
    /// no message (MPI cannot be used after a failure). Without it, all ranks close together. Memory of the transport's
    /// pending messages must stay valid until this call returns: the call completes the sends and cancels the receives.
    virtual void close(bool after_failure) = 0;
};

}  // namespace rueda::collectives
