// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::training {

/// The process that saves into a store. The file `in-use` of the store holds this as a text.
struct StoreOwner {
    std::int32_t pid = 0;
    std::uint64_t start_time = 0;  ///< of the process, in ticks since boot
    std::string pid_space;         ///< identifies the set of processes to which the pid belongs: boot and container
    std::string host;
    std::string since;  ///< when it began to use the store, for people

    [[nodiscard]] bool operator==(const StoreOwner&) const = default;
};
[[nodiscard]] StoreOwner this_process();
[[nodiscard]] std::string to_text(const StoreOwner& owner);
/// Returns nothing if the text has another form.
[[nodiscard]] std::optional<StoreOwner> parse_store_owner(std::string_view text);

/// The right of this process to save into a store. Two jobs that save into one store would remove each other's
/// checkpoints, so the second one gets an error.
///
/// The claim is a lock (flock) on the file `in-use`. The system frees the lock when the process ends, however it ends.
/// Only a child that the process forked can keep the lock longer, so a lock whose owner is dead does not count. If the
/// file system has no locks, there is no claim, and no error.
///
/// Threads: one at a time.
class StoreClaim {
public:
    /// Fails with InvalidArgument if another process uses the store. If this process uses it already, for example
    /// through a second manager, the claim does not hold the lock, and take() should be called again at the next save.
    static Result<StoreClaim> take(const std::filesystem::path& store);

    [[nodiscard]] bool holds_lock() const noexcept { return file_.is_open(); }

private:
    explicit StoreClaim(base::UniqueFd file) : file_(std::move(file)) {}

    base::UniqueFd file_;  ///< open as long as the claim holds the lock
};

}  // namespace rueda::training
