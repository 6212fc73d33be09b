// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// The measuring loop, which is the same for every peer. Peers in C++ use the class Peer, and peers in Python use the C
/// functions. The ranks synchronise and report their times on a board, which is shared memory that the conductor has
/// created. So only the operation itself depends on the peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace compare {

/// A case that is timed: one operation on one float32 tensor, or the allreduce of every tensor of a set. The tensors of
/// a set are submitted all at once, or one by one when a simulated backward pass has computed them.
struct Case {
    std::string label;                  ///< the conductor's name for the case
    std::string operation;              ///< allreduce, broadcast (from rank 0), allgather, reducescatter, alltoall
    std::vector<std::uint64_t> counts;  ///< number of elements of one rank's input, for each tensor
    std::vector<double> compute_us;     ///< the time for which the trainer computes before each tensor; empty if it
                                        ///< does not compute
};

/// A library that can run the operations. It is created in the launched process. run() does not synchronise the ranks;
/// the harness does it before.
class Peer {
public:
    virtual ~Peer() = default;
    /// Allocates the memory for one case. Returns one input per tensor.
    [[nodiscard]] virtual std::vector<float*> begin(const Case& c) = 0;
    /// Runs the operation that is timed. Returns when this rank has its results.
    virtual void run() = 0;
    /// Returns the results of the last run, one per tensor.
    [[nodiscard]] virtual std::vector<const float*> outputs() = 0;
    virtual void end() = 0;
};

/// Does arithmetic on a buffer in the L1 cache, on this thread. This takes `microseconds` on an idle core. The number
/// of passes per microsecond is fixed: run_plan() measures it once, and all ranks use the same number, no matter what
/// else runs.
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

/// Returns the memory of this process plus its part of the memory that it shares with other processes (PSS). Returns 0
/// if this cannot be read.
[[nodiscard]] std::uint64_t proportional_bytes();

/// Runs the plan (the file that COMPARE_PLAN names). Rank 0 prints a line of JSON for each case. `bytes_before` is the
/// value of proportional_bytes() before the peer was initialised. All ranks must call this function. Throws if it
/// fails.
void run_plan(Peer& peer, const Place& place, std::uint64_t bytes_before);

/// Returns rank and size if the conductor itself started the processes. Also binds this rank to one core if there are
/// enough cores.
[[nodiscard]] Place place_from_conductor();
void bind_to_own_core(const Place& place);

/// Returns a buffer of `bytes` for each rank. The buffers lie on the board, and every rank can access all of them. Only
/// the crossing bound uses them.
[[nodiscard]] std::vector<std::byte*> shared_buffers(const Place& place, std::uint64_t bytes);
/// Returns when every rank has called it. Spins for a short time and then yields; if there are more ranks than cores,
/// yields at once.
void line_up(const Place& place);

/// Runs `body`. If it throws, prints one line and returns status 1.
[[nodiscard]] int guarded(std::string_view program, int (*body)(int, char**), int argc, char** argv);

}  // namespace compare
