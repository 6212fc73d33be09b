// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// Leaves out the C++ bindings of old MPI headers, because they need another library.
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
    /// Whether the message was sent, received or cancelled. If so, its request does not exist any more.
    bool complete = false;
    bool truncated = false;  ///< whether the message was longer than the memory for it
    bool cancelled = false;  ///< whether the receive was cancelled before a message arrived
    /// Number of received bytes. For a truncated message, this is its whole length, if MPI reports the length.
    std::size_t bytes = 0;
};

/// A message that has arrived, but for which no receive was started.
struct MpiEnvelope {
    int rank = 0;
    int tag = 0;
    std::size_t bytes = 0;
};

/// The MPI calls that Rueda makes. Each has its own function, so that a test can replace MPI. A failure contains the
/// name of the call and MPI's text. Threads: those that the thread level of MPI allows.
class MpiApi {
public:
    virtual ~MpiApi() = default;

    // initialized(), finalized() and library_version() may be called at any time, even before MPI is initialised.
    [[nodiscard]] virtual bool initialized() = 0;
    [[nodiscard]] virtual bool finalized() = 0;
    /// Returns the whole text of MPI_Get_library_version.
    [[nodiscard]] virtual std::string library_version() = 0;
    /// Whether MPI says that it can send memory of GPUs. MPI must be initialised.
    [[nodiscard]] virtual bool is_cuda_aware() = 0;

    // init_thread(), query_thread() and finalize() concern the whole process. init_thread() initialises MPI and returns
    // the thread level that MPI provides.
    [[nodiscard]] virtual Result<int> init_thread(int required) = 0;
    [[nodiscard]] virtual Result<int> query_thread() = 0;
    [[nodiscard]] virtual Status finalize() = 0;

    // The functions from here to release_finalize_key() are about communicators and their attributes. duplicate()
    // returns a duplicate of a communicator. Errors in the duplicate are returned to the caller. (By default MPI ends
    // the process after an error.)
    [[nodiscard]] virtual Result<MPI_Comm> duplicate(MPI_Comm communicator) = 0;
    /// Makes a communicator of the given ranks of MPI_COMM_WORLD, in their order. Errors in this communicator are
    /// returned to the caller. All of the given ranks must call this function.
    [[nodiscard]] virtual Result<MPI_Comm> communicator_of(std::span<const int> world_ranks, int tag) = 0;
    /// Whether the communicator connects two separate groups of processes. Such a communicator cannot be used for a
    /// job.
    [[nodiscard]] virtual Result<bool> is_intercommunicator(MPI_Comm communicator) = 0;
    /// Whether both communicators have the same processes in the same order. Waits for no other process.
    [[nodiscard]] virtual Result<bool> are_congruent(MPI_Comm a, MPI_Comm b) = 0;
    /// Returns, for each rank of the communicator, its rank in MPI_COMM_WORLD, or −1 if it has none. Waits for no other
    /// process.
    [[nodiscard]] virtual Result<std::vector<int>> world_ranks(MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Status free_communicator(MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<int> rank(MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<int> size(MPI_Comm communicator) = 0;
    /// Calls `called` once, at the beginning of MPI_Finalize or when the key is released. `called` must not throw. If
    /// MPI is never finalised, `called` stays in memory. Returns the key of an MPI attribute.
    [[nodiscard]] virtual Result<int> call_at_finalize(std::function<void()> called) = 0;
    [[nodiscard]] virtual Status release_finalize_key(int key) = 0;

    // The functions from here to test() are collectives on bytes. The memory must stay valid until the request is
    // complete.
    [[nodiscard]] virtual Result<MPI_Request> iallgather(std::span<const std::byte> mine, std::byte* all,
                                                         MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<MPI_Request> iallgatherv(std::span<const std::byte> mine, std::byte* all,
                                                          const int* counts, const int* offsets,
                                                          MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<MPI_Request> ibroadcast(std::span<std::byte> bytes, int root,
                                                         MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<MPI_Request> ibarrier(MPI_Comm communicator) = 0;
    /// `all` contains one number for each rank. `*mine` gets the sum of the numbers that all ranks pass for this rank.
    [[nodiscard]] virtual Result<MPI_Request> isum_scatter(const std::uint32_t* all, std::uint32_t* mine,
                                                           MPI_Comm communicator) = 0;
    /// Returns true once the request is complete. Afterwards the request must not be used any more.
    [[nodiscard]] virtual Result<bool> test(MPI_Request& request) = 0;

    // The functions from here on send and receive messages.
    [[nodiscard]] virtual Result<MPI_Request> isend(std::span<const std::byte> bytes, int rank, int tag,
                                                    MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<MPI_Request> irecv(std::span<std::byte> room, int rank, int tag,
                                                    MPI_Comm communicator) = 0;
    [[nodiscard]] virtual Result<MpiMessage> test_message(MPI_Request& request) = 0;
    /// `rank` may be MPI_ANY_SOURCE, `tag` may be MPI_ANY_TAG.
    [[nodiscard]] virtual Result<std::optional<MpiEnvelope>> probe(int rank, int tag, MPI_Comm communicator) = 0;
    /// Cancels a receive. The caller must still test the request until it is complete.
    [[nodiscard]] virtual Status cancel(MPI_Request& request) = 0;
};

/// The ABI of the MPI headers that this file was compiled with.
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
