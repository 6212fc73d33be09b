// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace rueda::collectives {

class Transport;

using Bytes = std::vector<std::byte>;

/// How ranks communicate before they share memory. A control plane knows all ranks and exchanges small messages between
/// them. Training steps do not use it, so the implementations are simple and not fast.
///
/// Every call is collective and blocking. The control plane does not check the bytes that it receives from other ranks.
///
/// Threads: any thread, but only one at a time.
class ControlPlane {
public:
    virtual ~ControlPlane() = default;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    /// Returns the rank's number in the job, which users know. It differs from `rank` only in the control plane of a
    /// process set.
    [[nodiscard]] virtual int job_rank(int rank) const { return rank; }
    /// A description for log lines, for example "mpi (Open MPI 4.1.4)", "socket", "single process", "threads".
    [[nodiscard]] virtual std::string description() const = 0;

    /// Element r of the result holds the bytes that rank r passed. The sizes may differ.
    virtual Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) = 0;
    /// Returns on every rank the bytes that rank `root` passed. Only the root's `mine` is read.
    virtual Result<Bytes> broadcast(std::span<const std::byte> mine, int root) = 0;
    virtual Status barrier() = 0;
    /// Like barrier(), but this rank waits for at most `limit`. A control plane that cannot limit the wait waits as
    /// long as barrier() does.
    virtual Status barrier_within(std::chrono::milliseconds /*limit*/) { return barrier(); }
    /// Whether an MPI communicator consists of exactly the ranks of this plane, in the same order. `communicator` holds
    /// the bytes of an MPI_Comm handle. Unlike all other calls, this call is not collective, and it waits for no other
    /// rank. Fails with InvalidArgument if the bytes are not a communicator.
    virtual Result<bool> is_of_same_ranks(std::span<const std::byte> /*communicator*/) { return false; }
    /// Whether this kind of control plane can connect ranks of different hosts.
    [[nodiscard]] virtual bool reaches_other_hosts() const { return false; }
    /// A secret that all ranks of this control plane know, and that was never sent over it. Empty if there is none.
    [[nodiscard]] virtual std::string shared_secret() const { return {}; }
    /// The transport for messages between ranks of different hosts. Null if all ranks of this plane are on one host.
    /// The plane owns the transport.
    virtual Transport* transport() { return nullptr; }
    /// Closes the plane, which must not be used afterwards. If `after_failure` is true, close() waits for no rank and
    /// sends no message, because MPI cannot be used after a failure. If it is false, all ranks must close the plane
    /// together: close() then completes pending sends and cancels pending receives. The memory of these messages must
    /// stay valid until close() returns.
    virtual void close(bool after_failure) = 0;
};

}  // namespace rueda::collectives
