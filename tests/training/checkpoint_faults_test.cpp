// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Repeats a save, and makes a different one of its system calls fail each time. The last good checkpoint must always
// load.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "tests/support/folder.hpp"
#include "tests/training/job.hpp"
#include "tests/training/saved_values.hpp"
#include "tests/training/system_calls.hpp"
#include "training/checkpoints/store_claim.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::Fault;
using tests::Folder;

constexpr int kSaved = 0;
constexpr int kRefused = 1;
constexpr int kKilled = 2;

/// A value of `parts` which means that a CheckpointManager saves the checkpoint. The manager also claims the store.
constexpr int kByManager = -1;

/// Saves step 2 in the job of this process. Returns whether the manager has saved it.
bool save_by_manager(const std::filesystem::path& store) {
    test::SavedValues values;
    values.set(2);
    try {
        CheckpointManager manager({.folder = store, .max_to_keep = 1, .warn = [](std::string_view /*text*/) {}});
        const bool has_started = manager.save({.step = 2, .model = values.model(), .state = values.state()});
        return manager.last_failure().empty() && has_started;
    } catch (const Error&) {
        return false;
    }
}

bool save_second(const std::filesystem::path& store, int parts) {
    return parts == kByManager ? save_by_manager(store) : test::save_in_store(store, 2, parts, 1).is_ok();
}

bool kills(Fault fault) { return fault == Fault::death || fault == Fault::death_in_write; }

/// Saves step 2 in a forked child. `fault` kills the child at a system call, whose number is `call`. `beyond_the_end`
/// becomes true if the child made fewer calls.
int save_until_killed(const std::filesystem::path& store, int parts, Fault fault, int call, bool& beyond_the_end) {
    const pid_t child = ::fork();
    if (child == 0) {
        if (parts == kByManager) {
            init();
        }
        test::set_fault(fault, call);
        const bool saved = save_second(store, parts);
        const bool was_reached = test::counted_calls() >= call;
        ::_exit((saved ? kSaved : kRefused) + (was_reached ? 0 : 10));
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) {
        REQUIRE(WTERMSIG(status) == SIGKILL);
        return kKilled;
    }
    beyond_the_end = WEXITSTATUS(status) >= 10;
    return WEXITSTATUS(status) % 10;
}

/// Saves step 2, and makes call number `call` faulty. `beyond_the_end` becomes true if the save made fewer calls, so
/// that the fault did not happen.
int save_with_fault(const std::filesystem::path& store, int parts, Fault fault, int call, bool& beyond_the_end) {
    if (kills(fault)) {
        return save_until_killed(store, parts, fault, call, beyond_the_end);
    }
    test::set_fault(fault, call);
    const bool saved = save_second(store, parts);
    beyond_the_end = test::counted_calls() < call;
    test::set_fault(Fault::none, 0);
    return saved ? kSaved : kRefused;
}

/// Returns the number of folders in the store.
std::ptrdiff_t folders_in(const std::filesystem::path& store) {
    return std::count_if(std::filesystem::directory_iterator(store), std::filesystem::directory_iterator(),
                         [](const auto& entry) { return entry.is_directory(); });
}

/// Returns whether another process gets the lock of the store. It must get the lock even if the store's file still
/// names this process as the owner.
bool another_process_may_use(const std::filesystem::path& store) {
    const pid_t child = ::fork();
    if (child == 0) {
        const auto claim = StoreClaim::take(store);
        ::_exit(claim.is_ok() && claim.value().holds_lock() ? 0 : 1);  // frees the lock without the destructor
    }
    int status = -1;
    return ::waitpid(child, &status, 0) == child && status == 0;
}

/// Repeats a save until each of its calls was faulty once. Returns the number of calls.
int try_every_call(int parts, Fault fault) {
    std::optional<test::Job> job;  // a process that is killed needs its own job, so the child makes it
    if (parts == kByManager && !kills(fault)) {
        job.emplace();
    }
    bool beyond_the_end = false;
    int call = 0;
    while (!beyond_the_end) {
        ++call;
        REQUIRE(call < 1000);
        const Folder store;
        REQUIRE(test::save_in_store(store.path(), 1, std::max(parts, 0), 1).is_ok());
        const int outcome = save_with_fault(store.path(), parts, fault, call, beyond_the_end);
        const std::int64_t step = test::newest_readable_step(store.path());
        INFO("fault " << static_cast<int>(fault) << " at call " << call << ", outcome " << outcome);
        CHECK((outcome == kSaved ? step == 2 : step == 1 || step == 2));
        CHECK((fault != Fault::short_write || outcome == kSaved));
        // The next job must be able to use the store and to save step 3. This save removes the files that the faulty
        // save left behind. It also removes step 1 if the faulty save could not do so.
        REQUIRE(another_process_may_use(store.path()));
        REQUIRE(test::save_in_store(store.path(), 3, std::max(parts, 0), 1).is_ok());
        CHECK(test::newest_readable_step(store.path()) == 3);
        CHECK(folders_in(store.path()) == 1);
    }
    return call - 1;
}

TEST_CASE("whichever call of a save fails, the last good checkpoint loads", "[checkpoint_faults]") {
    const int parts = GENERATE(0, 2, kByManager);
    const int calls = try_every_call(parts, Fault::input_output_error);
    CHECK(calls > (parts == 2 ? 100 : 60));
    CHECK(try_every_call(parts, Fault::no_space) > 40);
    CHECK(try_every_call(parts, Fault::short_write) > 40);
}

TEST_CASE("wherever a process is killed while it saves, the last good checkpoint loads", "[checkpoint_faults]") {
    const int parts = GENERATE(0, 2, kByManager);
    CHECK(try_every_call(parts, Fault::death) > 40);
    CHECK(try_every_call(parts, Fault::death_in_write) > 40);
}

TEST_CASE("whichever call fails while checkpoints are read, no damaged values are taken", "[checkpoint_faults]") {
    const Folder store;
    REQUIRE(test::save_in_store(store.path(), 1, 0, 2).is_ok());
    REQUIRE(test::save_in_store(store.path(), 2, 0, 2).is_ok());
    std::set<std::int64_t> steps;
    int call = 0;
    do {
        ++call;
        REQUIRE(call < 1000);
        test::set_fault(Fault::input_output_error, call);
        steps.insert(test::newest_readable_step(store.path()));
    } while (test::counted_calls() >= call);
    test::set_fault(Fault::none, 0);
    CHECK(call > 20);
    // −1 means that the store's folder could not be read. 1 means that step 1 was read instead of step 2, which could
    // not be read. 2 means that the fault had no effect.
    CHECK(steps == std::set<std::int64_t>{-1, 1, 2});
}

/// Returns the position of the first record that begins with `text`, or a number past the end.
std::size_t position(const std::vector<std::string>& record, const std::string& text, std::size_t from = 0) {
    std::size_t place = from;
    while (place < record.size() && !record[place].starts_with(text)) {
        ++place;
    }
    return place;
}

TEST_CASE("files are flushed before they are renamed, folders after, and the index comes last", "[checkpoint_faults]") {
    const Folder store;
    REQUIRE(test::save_in_store(store.path(), 1, 0, 1).is_ok());
    test::start_recording();
    REQUIRE(test::save_in_store(store.path(), 2, 0, 1).is_ok());
    const std::vector<std::string> record = test::stop_recording();
    const std::string folder = (store.path() / "save-000002-step-2").string();
    const std::vector<std::string> order = {
        "fsync " + store.path().string(),
        "fsync " + folder + "/model.safetensors.partial",
        "rename " + folder + "/model.safetensors.partial " + folder + "/model.safetensors",
        "fsync " + folder,
        "fsync " + folder + "/state.safetensors.partial",
        "rename " + folder + "/state.safetensors.partial " + folder + "/state.safetensors",
        "fsync " + folder,
        "unlink " + (store.path() / "save-000001-step-1" / "state.safetensors").string(),
    };
    std::size_t place = 0;
    for (const std::string& each : order) {
        INFO(each);
        place = position(record, each, place);
        REQUIRE(place < record.size());
        CHECK(record[place] == each);
        ++place;
    }
}

/// A job of one process, a manager, and the warnings.
struct Managed {
    explicit Managed(const std::filesystem::path& folder, WhenBusy when_busy = WhenBusy::skip)
        : options{.folder = folder, .when_busy = when_busy, .warn = [this](std::string_view text) {
                      const std::lock_guard lock(mutex);
                      warnings.emplace_back(text);
                  }} {
        init();
    }
    Managed(const Managed&) = delete;
    Managed& operator=(const Managed&) = delete;
    ~Managed() { rueda_shutdown(); }

    std::mutex mutex;
    std::vector<std::string> warnings;
    CheckpointManagerOptions options;
    test::SavedValues values;
};

TEST_CASE("a full disk does not stop training, and each failed save prints one line", "[checkpoint_faults]") {
    const Folder store;
    Managed job(store.path());
    CheckpointManager manager(job.options);
    const auto save = [&](std::int64_t step) {
        job.values.set(step);
        const bool started = manager.save({.step = step, .model = job.values.model(), .state = job.values.state()});
        manager.wait();
        return started;
    };
    CHECK(save(1));
    CHECK(job.warnings.empty());
    test::set_disk_full(true);
    CHECK(save(2));
    CHECK_THAT(manager.last_failure(), Contains("model.safetensors.partial: write failed: No space left on device"));
    CHECK(save(3));
    test::set_disk_full(false);
    REQUIRE(job.warnings.size() == 2);
    CHECK_THAT(job.warnings[0],
               Contains("The checkpoint of step 2 was not saved: ") && Contains("(errno 28)") &&
                   Contains("make room there") &&
                   Contains("Training continues; the newest complete checkpoint is the one of step 1"));
    CHECK(job.warnings[0].find('\n') == std::string::npos);
    CHECK(folders_in(store.path()) == 1);
    job.values.set(0);
    CHECK(manager.restore(job.values.model(), job.values.state())->step == 1);
    CHECK(job.values.are_of(1));
    CHECK(save(4));
    CHECK(manager.last_failure().empty());
    CHECK(manager.checkpoints().front().step == 4);
}

TEST_CASE("save() returns while its thread writes, and the copy is of that moment", "[checkpoint_faults]") {
    const Folder store;
    Managed job(store.path());
    CheckpointManager manager(job.options);
    const auto save = [&](std::int64_t step) {
        job.values.set(step);
        return manager.save({.step = step, .model = job.values.model(), .state = job.values.state()});
    };
    manager.claim();  // claim() writes a short file in this thread, so it must come before hold_writes(true)
    test::hold_writes(true);
    CHECK(save(1));
    CHECK_FALSE(save(2));  // the manager's thread has not written the checkpoint of step 1 yet
    CHECK_FALSE(save(3));
    test::hold_writes(false);
    manager.wait();
    REQUIRE(job.warnings.size() == 2);
    CHECK_THAT(job.warnings[0], Contains("The checkpoint of step 2 is skipped") && Contains("Save less often"));
    CHECK(test::newest_readable_step(store.path()) == 1);
    CHECK(save(4));
    manager.wait();
    CHECK(test::newest_readable_step(store.path()) == 4);
}

TEST_CASE("a manager that waits skips nothing", "[checkpoint_faults]") {
    const Folder store;
    Managed job(store.path(), WhenBusy::wait);
    CheckpointManager manager(job.options);
    for (std::int64_t step = 1; step <= 5; ++step) {
        job.values.set(step);
        CHECK(manager.save({.step = step, .model = job.values.model(), .state = job.values.state()}));
    }
    manager.wait();
    CHECK(job.warnings.empty());
    CHECK(manager.checkpoints().size() == 3);
    CHECK(test::newest_readable_step(store.path()) == 5);
}

TEST_CASE("a best checkpoint that cannot be read for a moment is kept", "[checkpoint_faults]") {
    bool was_reached = true;
    int call = 0;
    while (was_reached) {
        ++call;
        REQUIRE(call < 1000);
        const Folder store;
        REQUIRE(test::save_in_store(store.path(), 1, 0, 1, 0.1).is_ok());  // the best one
        REQUIRE(test::save_in_store(store.path(), 2, 0, 1, 0.5).is_ok());
        test::set_fault(Fault::input_output_error, call);
        (void)test::save_in_store(store.path(), 3, 0, 1, 0.4);
        was_reached = test::counted_calls() >= call;
        test::set_fault(Fault::none, 0);
        INFO("call " << call);
        const Result<StoreListing> listing = list_store(store.path());
        REQUIRE(listing.is_ok());
        REQUIRE(listing.value().complete.size() >= 2);
        CHECK(listing.value().complete.back().step == 1);
    }
    CHECK(call > 40);
}

TEST_CASE("a damaged checkpoint is removed when it is old, even if it was the best", "[checkpoint_faults]") {
    const Folder store;
    REQUIRE(test::save_in_store(store.path(), 1, 0, 1, 0.1).is_ok());
    std::filesystem::resize_file(store.path() / "save-000001-step-1" / "state.safetensors", 30);
    REQUIRE(test::save_in_store(store.path(), 2, 0, 1, 0.5).is_ok());
    CHECK(folders_in(store.path()) == 1);
}

TEST_CASE("a store's folders are flushed, unless the system forbids to open them", "[checkpoint_faults]") {
    const Folder folder;
    const std::filesystem::path above = folder.path() / "a" / "b";
    test::start_recording();
    REQUIRE(create_store(above / "store").is_ok());
    const std::vector<std::string> record = test::stop_recording();
    for (const auto& each : {folder.path(), folder.path() / "a", above}) {
        INFO(each);
        CHECK(std::find(record.begin(), record.end(), "fsync " + each.string()) != record.end());
    }
    test::forbid_opening(above.string());
    const Status existing = create_store(above / "store" / "");
    const Status other = create_store(above / "other");
    test::forbid_opening("");
    CHECK(existing.message().empty());
    CHECK(other.message().empty());
    CHECK(std::filesystem::is_directory(above / "other"));
}

TEST_CASE("a process whose start time is unknown does not look dead to other jobs", "[checkpoint_faults]") {
    REQUIRE(this_process().start_time != 0);
    test::forbid_opening("/proc/" + std::to_string(::getpid()) + "/stat");
    const StoreOwner owner = this_process();
    test::forbid_opening("");
    CHECK(owner.start_time == 0);
    CHECK(owner.pid_space == "?");  // because of "?", other jobs do not compare the start time
}

/// Lets this process open only `count` more files, as long as the object lives.
class FewDescriptors {
public:
    explicit FewDescriptors(rlim_t count) {
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
        const int lowest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        REQUIRE(lowest >= 0);
        ::close(lowest);
        const rlimit now{static_cast<rlim_t>(lowest) + count, before_.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
    }
    FewDescriptors(const FewDescriptors&) = delete;
    FewDescriptors& operator=(const FewDescriptors&) = delete;
    ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

private:
    rlimit before_{};
};

TEST_CASE("a checkpoint may have more parts than a process may open files", "[checkpoint_faults]") {
    const Folder store;
    Status saved;
    std::int64_t step = 0;
    {
        const FewDescriptors few(10);
        saved = test::save_in_store(store.path(), 1, 40, 1);
        step = test::newest_readable_step(store.path());
    }
    CHECK(saved.message().empty());
    CHECK(step == 1);
}

TEST_CASE("a checkpoint does not count as damaged if descriptors are used up", "[checkpoint_faults]") {
    const Folder store;
    REQUIRE(test::save_in_store(store.path(), 1, 0, 1).is_ok());
    Status status;
    {
        const FewDescriptors few(1);  // one descriptor is left: enough for the folder, but not for the two files
        status = list_store(store.path()).status();
    }
    CHECK(status.code() == ErrorCode::resource_exhausted);
    CHECK_THAT(status.message(), Contains("model.safetensors: open failed: Too many open files"));
}

TEST_CASE("the callback for warnings is called by one thread at a time", "[checkpoint_faults]") {
    const Folder store;
    Managed job(store.path());
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    std::atomic<int> begun{0};
    job.options.warn = [&](std::string_view /*text*/) {
        const int now = ++inside;
        most = std::max(most.load(), now);
        ++begun;
        // Waits, to give the other thread time to call this function. The manager must not let it do so.
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
        while (begun.load() < 2 && std::chrono::steady_clock::now() < deadline) {
            std::this_thread::yield();
        }
        most = std::max(most.load(), inside.load());
        --inside;
    };
    CheckpointManager manager(job.options);
    test::set_disk_full(true);
    job.values.set(1);
    CHECK(manager.save({.step = 1, .model = job.values.model()}));
    while (begun.load() == 0) {  // waits for the warning of the manager's thread that the disk is full
        std::this_thread::yield();
    }
    CHECK_FALSE(manager.save({.step = 2, .model = job.values.model()}));  // this thread warns that step 2 is skipped
    manager.wait();
    test::set_disk_full(false);
    CHECK(begun.load() == 2);
    CHECK(most.load() == 1);
}

TEST_CASE("a save in parts ends if its thread cannot start", "[checkpoint_faults]") {
    const Folder store;
    Managed job(store.path());
    CheckpointManager manager(job.options);
    job.values.set(1);
    const auto parts = split_rows(job.values.model(), 0, 1);
    test::refuse_threads(true);
    const bool started = manager.save_parts(parts, {.step = 1, .state = job.values.state()});
    test::refuse_threads(false);
    CHECK(started);  // true on all ranks, because the other ranks' threads may have started
    CHECK_THAT(manager.last_failure(), Contains("starting a thread failed"));
    REQUIRE(job.warnings.size() == 1);
    CHECK_THAT(job.warnings[0], Contains("The checkpoint of step 1 was not saved: starting a thread failed"));
    CHECK(folders_in(store.path()) == 0);
    CHECK(manager.save_parts(parts, {.step = 2, .state = job.values.state()}));
    CHECK(manager.last_failure().empty());
    CHECK(manager.checkpoints().front().step == 2);
}

}  // namespace
}  // namespace rueda::training
