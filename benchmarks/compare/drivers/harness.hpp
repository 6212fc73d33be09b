// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// The measuring loop, the same for every peer: in C++ through the class Peer, in Python through the C functions. Ranks
/// meet and hand in their times on a board, memory that the conductor has made, so nothing but the operation depends on
/// the peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace compare {

/// What is timed: one operation on one float32 tensor, or one allreduce of every tensor of a set: all under way at
/// once, or each submitted when a backward pass has come to it.
struct Case {
    std::string label;                  ///< what the conductor calls it
    std::string operation;              ///< allreduce, broadcast (from rank 0), allgather, reducescatter, alltoall
    std::vector<std::uint64_t> counts;  ///< elements of one rank's input, per tensor
    std::vector<double> compute_us;     ///< what the trainer computes before each tensor is there; empty: nothing
};

/// A library that can do the operations. Made in the launched process; its ranks are in step outside run().
class Peer {
public:
    virtual ~Peer() = default;
    /// Allocates for one case; one input per tensor.
    [[nodiscard]] virtual std::vector<float*> begin(const Case& c) = 0;
    /// The operation that is timed; returns when this rank has its results.
    virtual void run() = 0;
    /// Where the results of the last run are, one per tensor.
    [[nodiscard]] virtual std::vector<const float*> outputs() = 0;
    virtual void end() = 0;
};

/// Computes on this thread what takes so many µs on a core of its own: arithmetic on a buffer in the L1 cache. The same
/// number of passes on every rank and at every call, whatever else runs; run_plan() has found out how many.
void compute(double microseconds);

/// What a peer calls before it submits tensor `index` of a set.
inline void compute_before(const Case& c, std::size_t index) {
    if (!c.compute_us.empty()) {
        compute(c.compute_us[index]);
    }
}

struct Place {
    int rank = 0;
    int size = 1;
};

/// Memory that this process has to itself plus its part of what it shares (PSS); 0 where that cannot be read.
[[nodiscard]] std::uint64_t proportional_bytes();

/// Does what the plan says (the file that COMPARE_PLAN names) and prints a line of JSON for each case on rank 0.
/// `bytes_before`: proportional_bytes() before the peer was initialised. Collective. Throws where it cannot.
void run_plan(Peer& peer, const Place& place, std::uint64_t bytes_before);

/// Rank and size where the conductor itself started the processes, and one core for this rank where there are enough.
[[nodiscard]] Place place_from_conductor();
void bind_to_own_core(const Place& place);

/// Memory of all ranks that each of them can see, for the bound: `bytes` per rank, on the board.
[[nodiscard]] std::vector<std::byte*> shared_buffers(const Place& place, std::uint64_t bytes);
/// Returns when every rank has called it. Spins, and yields soon: at once where there are more ranks than cores.
void line_up(const Place& place);

/// Runs `body` and turns what it throws into a line and status 1.
[[nodiscard]] int guarded(std::string_view program, int (*body)(int, char**), int argc, char** argv);

}  // namespace compare
