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

/// The text about a rank that has ended and left no end reason. This text is used if the launcher has reported nothing
/// about this end. The text names no exit status or signal, because only the parent of a process knows them.
inline constexpr std::string_view kNoExitRecord =
    "its process ended and had not finished rueda::shutdown(); how it ended is known to the program that started it: "
    "read that program's output, or start the job with ruedarun, which tells all ranks";

/// Returns a text such as "rank 3 (pid 4711)" or "rank 3 on b (pid 4711)".
[[nodiscard]] std::string name_of_rank(std::int32_t rank, std::string_view host, std::int32_t pid);

/// Whether the process of a rank has ended, according to /proc. Also returns false if the rank's pid may belong to
/// another process here, or if the rank is a thread of this process. May be called by any thread, once the rank has
/// written its pid.
[[nodiscard]] bool process_has_ended(const base::RankBlock& block);

/// Notices that another rank of the host has died. It uses one pidfd for each process, or /proc if the system gives no
/// pidfd. (A pidfd is a file descriptor that refers to a process.) A stopped process is not dead. If a rank has left
/// the job, its end is not reported. Ranks that are threads of this process are not watched.
///
/// Only the parent process of a rank knows how the rank ended (launcher_line.hpp). If the rank itself could report a
/// reason before it ended, the reason is in `end_reason`.
///
/// Threads: only the background thread calls watch() and check(). Any thread may call the other functions, after
/// watch().
class Liveness {
public:
    struct Death {
        std::uint32_t member = 0;
        std::int32_t rank = 0;   ///< rank of the job
        std::string text;        ///< what this rank knows about the death, for example "rank 1 (pid 4711) died: …"
        std::string end_reason;  ///< "" if there is none
    };

    /// `control` must outlive this object. `host` is the name of this host if the job has several hosts.
    Liveness(base::ControlBlock& control, std::uint32_t members, std::uint32_t own, std::string host = {});
    Liveness(const collectives::Arena& arena, std::string host)
        : Liveness(arena.control(), arena.plan().members, arena.rank(), std::move(host)) {}

    /// Call this after every rank has written its pid, its start time and its state. The first check() also finds the
    /// ranks that died before this call. If the pid of a rank has no meaning in this process, the rank is not watched,
    /// and a note says so.
    Status watch();

    /// Returns a member that has died while it was running or shutting down. If there are several, returns the one with
    /// the lowest number. Returns each member only once. Makes one system call if all members live. Does not wait.
    [[nodiscard]] std::optional<Death> check();

    /// Stops watching and closes the descriptors. Only the thread that has ended the background thread calls this
    /// function.
    void stop_watching();

    /// Whether check() has found that the member is dead. The acquire load pairs with the release in check().
    [[nodiscard]] bool is_dead(std::uint32_t member) const {
        return (dead_.load(std::memory_order_acquire) >> member & 1) != 0;
    }

    /// The members whose processes ended before the members had left the job, as texts such as "rank 1 (pid 4711)". The
    /// function reads /proc, so the list includes members that check() has not looked at yet. The report of
    /// why the job ended contains this list.
    [[nodiscard]] std::vector<std::string> ended() const;

    /// Notes for the user, one line each. They name the ranks whose death cannot be noticed.
    [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

private:
    /// `dead` means: the member is dead, and check() has not returned this death yet.
    enum class Watch : std::uint8_t { none, by_pidfd, by_proc, dead };
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
