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
#include "training/log_warning.hpp"

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

/// Returns a text that identifies the boot and the container of this process, in which its pid is valid. Only processes
/// with the same text can look up each other's pids.
std::string pid_space() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string boot;
    file >> boot;
    std::error_code error;
    const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
    return boot.empty() || error ? "?" : boot + "/" + space;
}

/// Removes a line "<name> <value>" from the beginning of `rest`, and stores its value in `value`.
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

/// Writes a text at the beginning of the file. All texts are padded to the same length. So a new text replaces the
/// whole old text, and also fits on a full disk.
bool write_text(int file, std::string text) {
    constexpr std::size_t kSize = 1024;  // enough for a host name of 255 characters, and less than 200 other characters
    text.resize(kSize - 1, ' ');
    text.push_back('\n');
    return ::pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

/// Removes the text. If the file cannot be written, its length becomes 0, which also works on a full disk.
void erase_text(int file) {
    if (!write_text(file, {})) {
        [[maybe_unused]] const int result = ::ftruncate(file, 0);  // if this fails, nothing else can help
    }
}

/// Returns whether this process can find out if the owner is alive.
bool is_visible(const StoreOwner& owner) { return owner.pid_space != "?" && owner.pid_space == pid_space(); }

bool is_dead(const StoreOwner& owner) {
    return is_visible(owner) && base::process_has_ended(owner.pid, owner.start_time);
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

void warn_about_wait(const std::filesystem::path& store, const StoreOwner& owner, std::chrono::milliseconds patience) {
    warnings_to_the_log(0)(
        fmt::format("saving checkpoints in {}: process {} on host {} has locked this folder since {}; if this process "
                    "has died, the file system may free its lock only later, so this job waits for at most {} s",
                    store.string(), owner.pid, base::quote(owner.host), base::quote(owner.since),
                    std::chrono::ceil<std::chrono::seconds>(patience).count()));
}

/// Lets this process use a store whose owner is dead, but whose lock is still held by a child of the owner. Afterwards,
/// the file's text names this process as the owner, so that a third job sees a living owner. This process does not get
/// the lock.
Status take_from_dead(const std::filesystem::path& store, int file) {
    // Several processes may do this at the same time. The process that writes its text last wins. So each process
    // waits, and then reads the text again. The pause is much longer than the time that a process needs between its
    // last look at the text and its own write.
    constexpr std::chrono::milliseconds kClaimPause{200};
    if (write_text(file, to_text(this_process()))) {
        std::this_thread::sleep_for(kClaimPause);  // nobody wakes this thread
    }
    const std::optional<StoreOwner> owner = read_owner(file);
    return owner && is_this_process(*owner) ? Status() : store_in_use(store, owner);
}

}  // namespace

StoreOwner this_process() {
    const auto pid = static_cast<std::int32_t>(::getpid());
    const std::uint64_t start_time = base::process_start_time(pid);
    // A start time of 0 means "unknown". If other jobs compared it with the real start time, they would believe that
    // this process is dead and that its pid now belongs to another process. If the set of pids is unknown ("?"), other
    // jobs do not compare the start times.
    return {pid, start_time, start_time == 0 ? "?" : pid_space(), host_name(), time_text()};
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

Result<StoreClaim> StoreClaim::take(const std::filesystem::path& store, std::chrono::milliseconds patience) {
    base::UniqueFd file(::open((store / kClaimFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file.is_open() && errno == ELOOP) {
        return failure(ErrorCode::invalid_argument,
                       "saving checkpoints in {}: the file '{}' is a symbolic link, which may lead to another store; "
                       "remove it",
                       store.string(), kClaimFile);
    }
    if (!file.is_open()) {
        return StoreClaim({});  // the save will fail for the same reason as this call, and will report the reason
    }
    std::optional<StoreOwner> before;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    bool has_warned = false;
    while (::flock(file.value(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            return StoreClaim({});  // the file system has no locks
        }
        const std::optional<StoreOwner> owner = read_owner(file.value());
        if (owner != before) {
            before = owner;
            since = std::chrono::steady_clock::now();
        }
        const auto waited = std::chrono::steady_clock::now() - since;
        if (owner && is_this_process(*owner)) {
            return StoreClaim({});
        }
        // If the text is missing or names a dead process, another process may just have got the lock, and may not have
        // written its own text yet. So this process waits until the text has not changed for kUnchanged.
        constexpr std::chrono::seconds kUnchanged{1};
        const bool is_foreign = owner && owner->pid_space != pid_space();
        if (owner && !is_foreign && !is_dead(*owner)) {
            return store_in_use(store, owner);
        }
        if (waited >= (is_foreign ? std::chrono::nanoseconds(patience) : kUnchanged)) {
            RUEDA_RETURN_IF_FAILED(owner && !is_foreign ? take_from_dead(store, file.value())
                                                        : store_in_use(store, owner));
            return StoreClaim({});
        }
        if (is_foreign && !has_warned) {
            warn_about_wait(store, *owner, patience);
            has_warned = true;
        }
        // Nobody wakes this thread, because a lock of files has no event.
        constexpr std::chrono::milliseconds kBetweenLooks{50};
        std::this_thread::sleep_for(kBetweenLooks);
    }
    return with_lock(store, std::move(file));
}

Result<StoreClaim> StoreClaim::with_lock(const std::filesystem::path& store, base::UniqueFd file) {
    StoreClaim claim(std::move(file));
    const int descriptor = claim.file_.value();
    const std::optional<StoreOwner> owner = read_owner(descriptor);
    if (owner && is_visible(*owner) && !is_dead(*owner) && !is_this_process(*owner)) {
        // The text names a living process, which uses the store without the lock (take_from_dead()). Its text must stay
        // in the file, so this process gives the lock back.
        claim.free_lock();
        return store_in_use(store, owner);
    }
    // If the text cannot be written, the lock is freed. Otherwise a second manager of this process would believe that
    // another process has the lock. The disk is probably full then, and the save will report this.
    if (!write_text(descriptor, to_text(this_process()))) {
        erase_text(descriptor);  // a part of the text may have been written
        claim.free_lock();
    }
    return claim;
}

StoreClaim::StoreClaim(base::UniqueFd file) : file_(std::move(file)), process_(::getpid()) {}

void StoreClaim::free_lock() noexcept {
    ::flock(file_.value(), LOCK_UN);  // closing the file would not free the lock if a child has inherited it
    file_.reset();
}

StoreClaim::~StoreClaim() {
    if (file_.is_open() && process_ == ::getpid()) {
        // The text must not name this process any longer, because this process may continue to live.
        erase_text(file_.value());
        free_lock();
    }
}

}  // namespace rueda::training
