// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// Leaves out the C++ bindings of old MPI headers, because they add a dependency on another library.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#define MPI_NO_CPPBIND 1  // Intel MPI
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// The state of a message.
struct MpiMessage {
    bool complete = false;   ///< the message was sent, received, or cancelled; the request exists no longer
    bool truncated = false;  ///< the message was longer than the memory for it
    bool cancelled = false;  ///< the receive was cancelled before a message arrived
    std::size_t bytes = 0;   ///< number of received bytes; if truncated, the length of the message, if MPI reports it
};

/// A message that has arrived and for which no receive is posted.
struct MpiEnvelope {
    int rank = 0;
    int tag = 0;
    std::size_t bytes = 0;
};

/// The MPI calls that Rueda makes, one function each, so that a test can replace MPI. A failure contains the name of
/// the call and MPI's text. Threads: as MPI's thread level allows.
class MpiApi {
public:
    virtual ~MpiApi() = default;

    // The next functions may be called at any time, even before MPI is initialised.
    [[nodiscard]] virtual bool initialized() = 0;
    [[nodiscard]] virtual bool finalized() = 0;
    /// The whole text of MPI_Get_library_version.
    [[nodiscard]] virtual std::string library_version() = 0;

    // The next functions concern the whole process. init_thread() initialises MPI and returns the thread level that MPI
    // provides.
    [[nodiscard]] virtual Result<int> init_thread(int required) = 0;
    [[nodiscard]] virtual Result<int> query_thread() = 0;
    [[nodiscard]] virtual Status finalize() = 0;

    // The next functions are about communicators and their attributes. duplicate() returns a duplicate. Errors on this
    // duplicate are returned, and do not end the process.
    [[nodiscard]] virtual Result<MPI_Comm> duplicate(MPI_Comm communicator) = 0;
    /// Makes a communicator of these ranks of MPI_COMM_WORLD, in their order. Errors on it are returned. Collective
    /// among these ranks.
    [[nodiscard]] virtual Result<MPI_Comm> communicator_of(std::span<const int> world_ranks, int tag) = 0;
    /// Whether the communicator connects two groups of processes. A job cannot consist of the processes of such a
    /// communicator.
    [[nodiscard]] virtual Result<bool> is_intercommunicator(MPI_Comm communicator) = 0;
    /// Whether both communicators have the same processes in the same order. Waits for no other process.
    [[nodiscard]] virtual Result<bool> are_congruent(MPI_Comm a, MPI_Comm b) = 0;
    /// Returns, for each rank of the communicator, its rank in MPI_COMM_WORLD, or −1 if it has none. Waits for no other
    /// process.
    [[nodiscard]] virtual Result<std::vector<int>> world_ranks(MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Status free_communicator(MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<int> rank(MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<int> size(MPI_Comm communicator) = 0;
    /// `called` runs once, at the beginning of MPI_Finalize or when the key is released. `called` must not throw. If
    /// MPI is never finalised, `called` stays in memory. Returns the attribute's key.
    [[nodiscard]] virtual Result<int> call_at_finalize(std::function<void()> called) = 0;
    [[nodiscard]] virtual Status release_finalize_key(int key) = 0;

    // The next functions are collectives on bytes. The memory must stay valid until the request is complete.
    [[nodiscard]] virtual Result<MPI_Request> iallgather(std::span<const std::byte> mine, std::byte* all,
                                                         MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<MPI_Request> iallgatherv(std::span<const std::byte> mine, std::byte* all,
                                                          const int* counts, const int* offsets,
                                                          MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<MPI_Request> ibroadcast(std::span<std::byte> bytes, int root,
                                                         MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<MPI_Request> ibarrier(MPI_Comm communicator) = 0;
    /// `all` has one element for each rank. `mine` gets the sum, over all ranks, of the element for this rank.
    [[nodiscard]] virtual Result<MPI_Request> isum_scatter(const std::uint32_t* all, std::uint32_t* mine,
                                                           MPI_Comm communicator) = 0;
    /// Returns true once the request is complete. Afterwards the request must not be used any more.
    [[nodiscard]] virtual Result<bool> test(MPI_Request& request) = 0;

    // Messages, on bytes.
    [[nodiscard]] virtual Result<MPI_Request> isend(std::span<const std::byte> bytes, int rank, int tag,
                                                    MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<MPI_Request> irecv(std::span<std::byte> room, int rank, int tag,
                                                    MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<MpiMessage> test_message(MPI_Request& request) = 0;
    /// `rank` may be MPI_ANY_SOURCE, `tag` may be MPI_ANY_TAG.
    [[nodiscard]] virtual Result<std::optional<MpiEnvelope>> probe(int rank, int tag, MPI_Comm communicator) = 0;
    /// Cancels a receive. The request must still be tested until it is complete.
    [[nodiscard]] virtual Status cancel(MPI_Request& request) = 0;
};

/// The ABI of the MPI headers with which this file was compiled.
[[nodiscard]] constexpr MpiAbi own_mpi_abi() {
#if defined(OPEN_MPI)
    return MpiAbi::open_mpi;
#elif defined(MPICH_VERSION)
    return MpiAbi::mpich;
#else
#error "this MPI is neither Open MPI nor one with MPICH's ABI"
#endif
}

/// Returns the wrapper around the MPI with which mpi_api.cpp was compiled.
[[nodiscard]] std::unique_ptr<MpiApi> real_mpi();

}  // namespace rueda::collectives
