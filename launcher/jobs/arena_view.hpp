// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/recorder/rank_recorder.hpp"
#include "base/shared_memory/control_block.hpp"
#include "base/status.hpp"

namespace rueda::launcher {

/// What a program does with the shared memory of a job.
enum class ArenaUse {
    look,  ///< the program only reads
    ask,   ///< the program reads the memory, and also asks the ranks for their stacks
};

/// Maps the control block and the flight recorders of a running job. They are parts of the arena, the shared memory of
/// the job's ranks on this host. The mapping is read-only; only with ArenaUse::ask, the StackBlocks can be written.
/// Other processes write to this memory, so open() checks every size before it is used. The view keeps the memory
/// allocated, but does not keep the job alive. Threads: one at a time; ownership may move to another thread.
class ArenaView {
public:
    /// Opens the file at `path`, for example /proc/<pid>/fd/<n>. Fails with
    /// - NotInitialized if the arena was not initialised yet, or if the file cannot be opened;
    /// - Unsupported if another version of Rueda created the arena;
    /// - InvalidArgument if the file is not the arena of a job, or is damaged.
    [[nodiscard]] static Result<ArenaView> open(const std::string& path, ArenaUse use = ArenaUse::look);

    [[nodiscard]] const base::ControlBlock& control() const { return *control_; }
    /// Returns the blocks for base::StackQuestions. Call this only after open() with ArenaUse::ask, and write only to
    /// the StackBlocks.
    [[nodiscard]] base::HostBlocks blocks_to_ask() const;
    /// The number of ranks on this host, between 1 and base::kMaxLocalRanks.
    [[nodiscard]] std::uint32_t members() const { return members_; }
    /// The flight recorder of the rank `member`, which must be less than members(). Null if this job has no flight
    /// recorders.
    [[nodiscard]] const base::RankRecorder* recorder(std::uint32_t member) const;

private:
    struct Unmap {
        std::size_t bytes = 0;
        void operator()(const base::ControlBlock* control) const noexcept;
    };
    using Mapping = std::unique_ptr<const base::ControlBlock, Unmap>;
    ArenaView(Mapping control, std::uint32_t members, std::uint64_t recorders)
        : control_(std::move(control)), members_(members), recorders_(recorders) {}

    Mapping control_;
    // `members_` and `recorders_` are copies, because another process could change these numbers in the shared memory.
    std::uint32_t members_;
    std::uint64_t recorders_;  // the offset of the first flight recorder; 0: there are no recorders
};

}  // namespace rueda::launcher
