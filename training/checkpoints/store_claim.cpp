// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/checkpoints/store_claim.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "base/system/process_status.hpp"
#include "base/text.hpp"

namespace rueda::training {
namespace {

constexpr const char* kClaimFile = "in-use";
constexpr std::string_view kClaimFormat = "rueda checkpoints 1";

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string time_text() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    std::array<char, 32> text{};
    ::gmtime_r(&now, &utc);
    return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

/// Two processes with the same result see each other's pids. A pid of another container or of an earlier boot says
/// nothing about the processes here.
std::string pid_space() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string boot;
    file >> boot;
    std::error_code error;
    const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
    return boot.empty() || error ? "?" : boot + "/" + space;
}

/// Takes the value of a line "<name> <value>".
bool take_value(std::string_view& rest, std::string_view name, std::string_view& value) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos || !rest.starts_with(name) || end <= name.size() || rest[name.size()] != ' ') {
        return false;
    }
    value = rest.substr(name.size() + 1, end - name.size() - 1);
    rest.remove_prefix(end + 1);
    return true;
}

template <class Number>
bool take_number_value(std::string_view& rest, std::string_view name, Number& number) {
    std::string_view value;
    if (!take_value(rest, name, value)) {
        return false;
    }
    const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
    return read.ec == std::errc() && read.ptr == value.data() + value.size();
}

std::optional<StoreOwner> read_owner(int file) {
    std::array<char, 2048> text{};
    const ssize_t size = ::pread(file, text.data(), text.size(), 0);
    return size > 0 ? parse_store_owner({text.data(), static_cast<std::size_t>(size)}) : std::nullopt;
}

/// Writes this process into the file. A failure is ignored: the lock holds without the text, and then only the error of
/// the other job says less.
void write_owner(int file) {
    const std::string text = to_text(this_process());
    if (::ftruncate(file, 0) != 0 || ::pwrite(file, text.data(), text.size(), 0) < 0) {
        return;
    }
}

bool is_dead(const StoreOwner& owner) {
    return owner.pid_space != "?" && owner.pid_space == pid_space() &&
           base::process_has_ended(owner.pid, owner.start_time);
}

bool is_this_process(const StoreOwner& owner) {
    const StoreOwner here = this_process();
    return owner.pid == here.pid && owner.start_time == here.start_time && owner.pid_space == here.pid_space &&
           owner.host == here.host;
}

Status store_in_use(const std::filesystem::path& store, const std::optional<StoreOwner>& owner) {
    const std::string who = owner ? fmt::format("process {} on host {}, since {}", owner->pid, base::quote(owner->host),
                                                base::quote(owner->since))
                                  : "another process";
    return failure(
        ErrorCode::invalid_argument,
        "saving checkpoints in {}: another job uses this folder ({}), and two jobs would remove each other's "
        "checkpoints; give each job a folder of its own, or end the other job",
        store.string(), who);
}

}  // namespace

StoreOwner this_process() {
    const auto pid = static_cast<std::int32_t>(::getpid());
    return {pid, base::process_start_time(pid), pid_space(), host_name(), time_text()};
}

std::string to_text(const StoreOwner& owner) {
    return fmt::format("{}\npid {}\nstarted {}\npids {}\nhost {}\nsince {}\n", kClaimFormat, owner.pid,
                       owner.start_time, owner.pid_space, owner.host, owner.since);
}

std::optional<StoreOwner> parse_store_owner(std::string_view text) {
    const std::string head = fmt::format("{}\n", kClaimFormat);
    if (!text.starts_with(head)) {
        return std::nullopt;
    }
    text.remove_prefix(head.size());
    StoreOwner owner;
    std::string_view space;
    std::string_view host;
    std::string_view since;
    if (!take_number_value(text, "pid", owner.pid) || !take_number_value(text, "started", owner.start_time) ||
        !take_value(text, "pids", space) || !take_value(text, "host", host) || !take_value(text, "since", since)) {
        return std::nullopt;
    }
    owner.pid_space = space;
    owner.host = host;
    owner.since = since;
    return owner;
}

Result<StoreClaim> StoreClaim::take(const std::filesystem::path& store) {
    base::UniqueFd file(::open((store / kClaimFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file.is_open()) {
        return StoreClaim({});  // the save will fail for the same reason, and will report it
    }
    // A process that has just got the lock may not have written its text yet, so the text may be that of a dead
    // process. The lock of a dead process is believed only if it does not change for this time.
    constexpr int kLooks = 20;
    constexpr std::chrono::milliseconds kBetweenLooks{50};
    for (int look = 0; look < kLooks; ++look) {
        if (::flock(file.value(), LOCK_EX | LOCK_NB) == 0) {
            write_owner(file.value());
            return StoreClaim(std::move(file));
        }
        if (errno != EWOULDBLOCK) {
            return StoreClaim({});  // the file system has no locks
        }
        const std::optional<StoreOwner> owner = read_owner(file.value());
        if (owner && is_this_process(*owner)) {
            return StoreClaim({});
        }
        if (!owner || !is_dead(*owner)) {
            return store_in_use(store, owner);
        }
        std::this_thread::sleep_for(kBetweenLooks);  // nobody wakes this thread: a lock of files has no event
    }
    // A child that the dead process forked still holds the lock. From now on the text names this process, so that a
    // third job sees an owner that lives.
    write_owner(file.value());
    return StoreClaim({});
}

}  // namespace rueda::training
