// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/shared_memory/control_block.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "collectives/host/arena/arena.hpp"

namespace rueda::core {

/// What is known of the end of a rank that left no last words, where nobody tells more: only its parent knows the exit
/// status or the signal.
inline constexpr std::string_view kNoExitRecord =
    "its process ended and had not finished rueda::shutdown(); how it ended is known to the program that started it: "
    "read that program's output, or start the job with ruedarun, which tells all ranks";

/// "rank 3 (pid 4711)", "rank 3 on b (pid 4711)"
[[nodiscard]] std::string name_of_rank(std::int32_t rank, std::string_view host, std::int32_t pid);

/// The process of a rank has ended, as far as /proc tells: not where the number may mean somebody else here, nor of a
/// rank that is a thread of this process. Any thread, once the rank has written who it is.
[[nodiscard]] bool process_has_ended(const base::RankBlock& block);

/// Notices that another rank of the host has died: by a pidfd per process, or by /proc where the system gives none.
/// Stopped is not dead, and a rank that has left may end. Ranks that are threads of this process are not watched.
///
/// How a rank ended is known to its parent only (launcher_line.hpp); what it could still say itself stands in its last
/// words.
///
/// Threads: watch() and check() by one thread, the background thread; the others by any, after watch().
class Liveness {
public:
    struct Death {
        std::uint32_t member = 0;
        std::int32_t rank = 0;   ///< of the job
        std::string text;        ///< as far as this rank knows it: "rank 1 (pid 4711) died: …"
        std::string end_reason;  ///< "" without
    };

    /// `control` outlives this.
    /// `host`: where a job has several, the name of this one.
    Liveness(base::ControlBlock& control, std::uint32_t members, std::uint32_t own, std::string host = {});
    Liveness(const collectives::Arena& arena, std::string host)
        : Liveness(arena.control(), arena.plan().members, arena.rank(), std::move(host)) {}

    /// Once every rank has written its pid, its start time and its state. A rank that has died before is found by the
    /// first check(). A rank whose pid means nothing here is not watched, with a note.
    Status watch();

    /// The first member, by number, that has died while it was running or shutting down; each is returned once. One
    /// system call while all live; no waiting.
    [[nodiscard]] std::optional<Death> check();

    /// Nobody is watched any more, and the descriptors are closed. By who has ended the background thread.
    void stop_watching();

    /// Found dead by check(). acquire; partner: check().
    [[nodiscard]] bool is_dead(std::uint32_t member) const {
        return (dead_.load(std::memory_order_acquire) >> member & 1) != 0;
    }

    /// Members that have ended before they left, "rank 1 (pid 4711)": as /proc knows them now, whether check() has come
    /// to them or not. For who is about to say what the job ended of.
    [[nodiscard]] std::vector<std::string> ended() const;

    /// What the user should know, one line each: ranks whose death cannot be noticed.
    [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

private:
    enum class Watch : std::uint8_t { none, by_pidfd, by_proc, dead };  // dead: and not yet returned by check()
    struct Member {
        Watch watch = Watch::none;
        base::UniqueFd pidfd;
        std::int32_t pid = 0;
        std::uint64_t process_start = 0;  ///< 0: not known
    };

    void watch_member(std::uint32_t index);
    void look_at_descriptors();
    void look_at_proc();
    void found_ended(std::uint32_t index);
    [[nodiscard]] std::string describe(std::uint32_t index) const;

    base::ControlBlock& control_;
    std::uint32_t members_;
    std::uint32_t own_;
    std::string host_;
    std::array<Member, base::kMaxLocalRanks> watched_;
    std::vector<std::string> notes_;
    std::atomic<std::uint64_t> dead_{0};
};

}  // namespace rueda::core
