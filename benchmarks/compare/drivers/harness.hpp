// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// The measuring loop, which is the same for all peers (the compared libraries). C++ peers use the class Peer, Python
/// peers the C functions. The ranks synchronise and report their times through the board: shared memory that the
/// conductor (the script that starts the ranks) creates. So only the operation itself depends on the peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace compare {

/// A measured case: an operation on one float32 tensor, or the allreduce of a set of tensors. The tensors of a set are
/// submitted all at once, or one by one as a simulated backward pass computes them.
struct Case {
    std::string label;                  ///< the name of the case in the plan
    std::string operation;              ///< allreduce, broadcast (from rank 0), allgather, reducescatter, alltoall, or
                                        ///< message (from an even rank to the next rank, and back)
    std::vector<std::uint64_t> counts;  ///< the number of elements of one rank's input, for each tensor
    std::vector<double> compute_us;     ///< the computing time before each tensor; empty if nothing is computed
};

/// A library that runs the operations. The object is created in the launched process. The harness synchronises the
/// ranks before each run().
class Peer {
public:
    virtual ~Peer() = default;
    /// Allocates the memory for a case. Returns one input for each tensor.
    [[nodiscard]] virtual std::vector<float*> begin(const Case& c) = 0;
    /// Runs the measured operation. Returns when this rank has its results.
    virtual void run() = 0;
    /// Returns the results of the last run, one for each tensor.
    [[nodiscard]] virtual std::vector<const float*> outputs() = 0;
    virtual void end() = 0;
};

/// Computes on a buffer in the L1 cache. On an idle core, the computation takes `microseconds`. The number of passes
/// depends only on the argument: run_plan() measures the passes per microsecond once, and all ranks use the same value.
void compute(double microseconds);

/// Computes for as long as the backward pass does before tensor `index`. A peer calls this function before it submits
/// the tensor.
inline void compute_before(const Case& c, std::size_t index) {
    if (!c.compute_us.empty()) {
        compute(c.compute_us[index]);
    }
}

struct Place {
    int rank = 0;
    int size = 1;
};

/// Returns this process's memory plus its part of shared memory (PSS), or 0 if the system does not report this size.
[[nodiscard]] std::uint64_t proportional_bytes();

/// Measures the cases of the plan, which is the file that COMPARE_PLAN names. Rank 0 prints a line of JSON for each
/// case. `bytes_before` is the value of proportional_bytes() before the peer's initialisation. All ranks must call this
/// function. The function throws an exception on failure.
void run_plan(Peer& peer, const Place& place, std::uint64_t bytes_before);

/// Returns this process's rank and the number of ranks. Use it if the conductor (the script of the benchmark) started
/// the processes without a launcher.
[[nodiscard]] Place place_from_conductor();
/// Binds this rank to a core if there are enough cores.
void bind_to_own_core(const Place& place);

/// Returns a buffer of `bytes` bytes for each rank, in memory that all ranks share. Only bound_peer.cpp uses these
/// buffers.
[[nodiscard]] std::vector<std::byte*> shared_buffers(const Place& place, std::uint64_t bytes);
/// Waits until every rank has called this function. While it waits, it first spins for a short time and then yields.
/// If there are more ranks than cores, it does not spin.
void line_up(const Place& place);

/// Runs `body`. If `body` throws, prints a line and returns status 1.
[[nodiscard]] int guarded(std::string_view program, int (*body)(int, char**), int argc, char** argv);

}  // namespace compare
