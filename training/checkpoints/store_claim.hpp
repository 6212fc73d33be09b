// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::training {

/// The process that saves into a store. The file `in-use` of the store has these values as a text.
struct StoreOwner {
    std::int32_t pid = 0;
    std::uint64_t start_time = 0;  ///< when the process started, in ticks since boot
    std::string pid_space;         ///< identifies the set of processes to which the pid belongs: boot and container
    std::string host;
    std::string since;  ///< when the process began to use the store, for people

    [[nodiscard]] bool operator==(const StoreOwner&) const = default;
};
[[nodiscard]] StoreOwner this_process();
[[nodiscard]] std::string to_text(const StoreOwner& owner);
/// Parses a result of to_text(). Returns nothing if the text has another form.
[[nodiscard]] std::optional<StoreOwner> parse_store_owner(std::string_view text);

/// The right of this process to save into a store. Two jobs that save into one store would remove each other's
/// checkpoints, so the second one gets an error.
///
/// The claim is a lock (flock) on the file `in-use`. The system frees the lock when the process ends, however it ends.
/// A lock can outlive its owner in two cases:
/// - A child that the process forked keeps the lock. So a lock whose owner is dead does not count.
/// - NFS keeps the lock of a machine that has died until the machine's lease ends. take() cannot see whether a process
///   on another host is dead, so it waits for a while until that process's lock is free.
///
/// If the file system has no locks, there is no claim, and no error.
///
/// Threads: one at a time.
class StoreClaim {
public:
    /// The lease of an NFS server is usually 90 seconds. The lock of a machine that has died is free after this time.
    static constexpr std::chrono::seconds kPatience{120};

    /// Fails with InvalidArgument if another process uses the store. If that process is on another host, or in another
    /// container, take() first waits up to `patience` for that process's lock, and logs a warning. The calling process
    /// itself may use the store already, for example through a second manager. In this case the claim does not hold the
    /// lock, and take() should be called again at the next save.
    static Result<StoreClaim> take(const std::filesystem::path& store, std::chrono::milliseconds patience = kPatience);

    StoreClaim(StoreClaim&&) noexcept = default;
    StoreClaim& operator=(StoreClaim&&) = delete;
    StoreClaim(const StoreClaim&) = delete;
    StoreClaim& operator=(const StoreClaim&) = delete;
    /// Frees the lock, even if a child that this process forked has inherited it. If the destructor runs in such a
    /// child, it does not free the lock.
    ~StoreClaim();

    [[nodiscard]] bool holds_lock() const noexcept { return file_.is_open(); }

private:
    explicit StoreClaim(base::UniqueFd file);
    void free_lock() noexcept;
    static Result<StoreClaim> with_lock(const std::filesystem::path& store, base::UniqueFd file);

    base::UniqueFd file_;   ///< open as long as the claim holds the lock
    std::int32_t process_;  ///< the process that took the lock
};

}  // namespace rueda::training
