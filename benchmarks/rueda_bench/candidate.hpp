// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rueda/types.hpp"

namespace rueda::bench {

/// The measured operation. `message` sends a message to the other rank of a pair (0 and 1, 2 and 3, …) and receives one
/// back.
enum class Operation { allreduce, broadcast, allgather, reducescatter, alltoall, message };

[[nodiscard]] constexpr const char* name_of(Operation operation) {
    switch (operation) {
        case Operation::allreduce:
            return "allreduce";
        case Operation::broadcast:
            return "broadcast";
        case Operation::allgather:
            return "allgather";
        case Operation::reducescatter:
            return "reducescatter";
        case Operation::alltoall:
            return "alltoall";
        case Operation::message:
            return "message";
    }
    return "";
}

/// A measured case: an operation with its options. `bytes` is the size of one rank's input.
struct Case {
    Operation operation = Operation::allreduce;
    DType dtype = DType::float32;
    std::uint64_t bytes = 4;

    [[nodiscard]] std::uint64_t count() const { return bytes / size_of(dtype); }
    /// Returns the number of elements of one rank's output. A reducescatter and an alltoall give every rank an equal
    /// share.
    [[nodiscard]] std::uint64_t output_count(int size) const {
        const auto ranks = static_cast<std::uint64_t>(size);
        return operation == Operation::allgather       ? count() * ranks
               : operation == Operation::reducescatter ? count() / ranks
                                                       : count();
    }
    [[nodiscard]] bool is_even(int size) const {
        if (operation == Operation::message) {
            return size % 2 == 0;
        }
        return (operation != Operation::reducescatter && operation != Operation::alltoall) ||
               count() % static_cast<std::uint64_t>(size) == 0;
    }
    /// Returns whether the result needs memory beside the input.
    [[nodiscard]] bool has_output() const {
        return operation != Operation::allreduce && operation != Operation::broadcast;
    }
};

/// The rank of this process and the size of the job.
struct Job {
    int rank = 0;
    int size = 1;
};

/// For the operation `message`: partner_of() returns the other rank of the pair; begins() says whether this rank sends
/// first.
[[nodiscard]] constexpr int partner_of(const Job& job) { return job.rank ^ 1; }
[[nodiscard]] constexpr bool begins(const Job& job) { return job.rank % 2 == 0; }

/// Something that runs the operation of a case: Rueda (with one kind of memory and one kind of call), plain MPI, or a
/// lower bound for the time on this machine.
class Candidate {
public:
    virtual ~Candidate() = default;
    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual bool can(const Case& c) const = 0;
    /// Allocates the memory for a case. All ranks must call this function together.
    virtual void begin(const Case& c) = 0;
    /// Returns the input, which the caller rewrites before every operation.
    [[nodiscard]] virtual std::byte* input() = 0;
    /// Runs the measured operation.
    virtual void run() = 0;
    [[nodiscard]] virtual const std::byte* output() = 0;
    /// Returns whether output() is the operation's result. A candidate that measures a lower bound moves the same bytes
    /// but computes no result.
    [[nodiscard]] virtual bool has_result() const { return true; }
    virtual void end() = 0;
};

/// Returns all candidates of this build in the order of the table's rows. With MPI they include plain MPI and the lower
/// bounds for the time.
[[nodiscard]] std::vector<std::unique_ptr<Candidate>> make_candidates(const Job& job);

/// Defined in mpi_candidates.cpp, or in without_mpi.cpp in builds without MPI.
void add_mpi_candidates(std::vector<std::unique_ptr<Candidate>>& candidates, const Job& job);
/// A barrier that all ranks leave at about the same time. It is MPI's barrier, or Rueda's in builds without MPI.
void line_up();
[[nodiscard]] std::string mpi_description();
/// begin_mpi() calls MPI_Init before Rueda starts. end_mpi() calls MPI_Finalize after Rueda has ended. Without MPI,
/// both do nothing.
void begin_mpi(int* argc, char*** argv);
void end_mpi();

}  // namespace rueda::bench
