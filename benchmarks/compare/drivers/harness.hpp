// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// The measuring loop, which is the same for every peer: peers in C++ use the class Peer, peers in Python the C
/// functions. Ranks synchronise and hand in their times on a board, which is memory that the conductor has created. So
/// only the operation itself depends on the peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace compare {

/// A case that is timed: one operation on one float32 tensor, or the allreduce of every tensor of a set. The tensors of
/// a set are submitted all at once, or each when a simulated backward pass has computed it.
struct Case {
    std::string label;                  ///< the conductor's name for the case
    std::string operation;              ///< allreduce, broadcast (from rank 0), allgather, reducescatter, alltoall
    std::vector<std::uint64_t> counts;  ///< number of elements of one rank's input, for each tensor
    std::vector<double> compute_us;     ///< how long the trainer computes before each tensor; empty: not at all
};

/// A library that can run the operations. It is created in the launched process. Its ranks are synchronised outside of
/// run().
class Peer {
public:
    virtual ~Peer() = default;
    /// Allocates for one case; returns one input per tensor.
    [[nodiscard]] virtual std::vector<float*> begin(const Case& c) = 0;
    /// Runs the operation that is timed; returns when this rank has its results.
    virtual void run() = 0;
    /// The results of the last run, one per tensor.
    [[nodiscard]] virtual std::vector<const float*> outputs() = 0;
    virtual void end() = 0;
};

/// Does an amount of work on this thread that takes `microseconds` on an idle core: arithmetic on a buffer in the L1
/// cache. The number of passes is the same on every rank and in every call, whatever else runs; run_plan() has measured
/// it.
void compute(double microseconds);

/// A peer calls this before it submits tensor `index` of a set.
inline void compute_before(const Case& c, std::size_t index) {
    if (!c.compute_us.empty()) {
        compute(c.compute_us[index]);
    }
}

struct Place {
    int rank = 0;
    int size = 1;
};

/// The memory of this process plus its part of what it shares with others (PSS); 0 if it cannot be read.
[[nodiscard]] std::uint64_t proportional_bytes();

/// Runs the plan (the file that COMPARE_PLAN names). Rank 0 prints a line of JSON for each case. `bytes_before` is
/// proportional_bytes() from before the peer was initialised. Collective. Throws if it fails.
void run_plan(Peer& peer, const Place& place, std::uint64_t bytes_before);

/// Rank and size if the conductor itself started the processes. Also binds this rank to one core, if there are enough.
[[nodiscard]] Place place_from_conductor();
void bind_to_own_core(const Place& place);

/// Memory of all ranks that every rank can access, for the bound: `bytes` per rank, on the board.
[[nodiscard]] std::vector<std::byte*> shared_buffers(const Place& place, std::uint64_t bytes);
/// Returns when every rank has called it. It spins for a short time and then yields; with more ranks than cores it
/// yields at once.
void line_up(const Place& place);

/// Runs `body`. If it throws, prints one line and returns status 1.
[[nodiscard]] int guarded(std::string_view program, int (*body)(int, char**), int argc, char** argv);

}  // namespace compare
