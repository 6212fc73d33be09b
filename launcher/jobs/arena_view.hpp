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

/// How a program accesses the memory of a job.
enum class ArenaUse {
    look,  ///< it reads
    ask,   ///< it also asks the ranks for their stacks
};

/// The control block and the flight recorders of the arena of a running job, mapped for reading. Only with
/// ArenaUse::ask, the StackBlocks can be written. Nothing in it is trusted, because other processes write it: open()
/// checks every size before it is used. The view keeps the memory alive, but not the job. Threads: a value that is
/// moved from one owner to the next.
class ArenaView {
public:
    /// Opens the file at `path`, such as /proc/<pid>/fd/<n>. Fails with
    /// - NotInitialized if nothing is written there yet, or if the file cannot be opened (any more);
    /// - Unsupported if another version of Rueda made it;
    /// - InvalidArgument if it is not the arena of a job, or is damaged.
    [[nodiscard]] static Result<ArenaView> open(const std::string& path, ArenaUse use = ArenaUse::look);

    [[nodiscard]] const base::ControlBlock& control() const { return *control_; }
    /// For base::StackQuestions. Only after ArenaUse::ask, and only the StackBlocks may be written.
    [[nodiscard]] base::HostBlocks blocks_to_ask() const;
    /// The number of ranks on this host, between 1 and base::kMaxLocalRanks.
    [[nodiscard]] std::uint32_t members() const { return members_; }
    /// The flight recorder of a rank of this host, which comes before members(). Null if the ranks record nothing here.
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
    // Copies, because another process could change the numbers in the memory.
    std::uint32_t members_;
    std::uint64_t recorders_;  // the offset of the first flight recorder; 0: there are none
};

}  // namespace rueda::launcher
