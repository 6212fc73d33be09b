// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

#include "base/recorder/rank_recorder.hpp"
#include "base/shared_memory/control_block.hpp"
#include "base/system/process_status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// The arena of a job, as the library creates it. It is in a memory file (memfd) of this process, so a test may damage
/// it.
class MadeArena {
public:
    explicit MadeArena(std::uint32_t members, bool is_sealed = true)
        : file_(memfd_create("rueda-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
        REQUIRE(ftruncate(file_.value(), static_cast<off_t>(kBytes)) == 0);
        if (is_sealed) {
            REQUIRE(fcntl(file_.value(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
        }
        void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.value(), 0);
        REQUIRE(memory != MAP_FAILED);
        control_ = new (memory) base::ControlBlock;
        control_->magic = base::ControlBlock::kMagic;
        control_->layout_version = base::ControlBlock::kLayoutVersion;
        control_->members = members;
        control_->total_bytes = kBytes;
        control_->recorder_offset = kRecorders;
        control_->recorder_bytes = sizeof(base::RankRecorder);
    }
    ~MadeArena() { munmap(control_, kBytes); }
    MadeArena(const MadeArena&) = delete;
    MadeArena& operator=(const MadeArena&) = delete;

    /// kRecorders is the offset of the recorders in the file. kBytes is the size of a file with recorders for four
    /// ranks.
    static constexpr std::uint64_t kRecorders = (sizeof(base::ControlBlock) + 4095) / 4096 * 4096;
    static constexpr std::uint64_t kBytes = kRecorders + 4 * sizeof(base::RankRecorder);

    [[nodiscard]] base::ControlBlock& control() const { return *control_; }
    [[nodiscard]] base::RankRecorder& recorder(std::uint32_t member) const {
        return reinterpret_cast<base::RankRecorder*>(reinterpret_cast<std::byte*>(control_) + kRecorders)[member];
    }
    [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", file_.value()); }

    /// Stores `pid` and `rank` as the process and the global rank of this member, as init() does.
    void fill(std::uint32_t member, std::int32_t pid, std::int32_t rank) const {
        base::RankBlock& block = control_->ranks[member];
        block.pid.store(pid);
        block.process_start.store(base::process_start_time(pid));
        block.global_rank.store(rank);
        block.state.store(static_cast<std::uint32_t>(base::RankState::running));
    }

private:
    base::UniqueFd file_;
    base::ControlBlock* control_;
};

}  // namespace rueda::launcher
