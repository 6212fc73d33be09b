// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that a second job which saves into the folder of another one gets an error.
#include "training/checkpoints/store_claim.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>
#include <vector>

#include "rueda/training/backup_and_restore.hpp"
#include "rueda/training/checkpoint_manager.hpp"
#include "tests/support/folder.hpp"
#include "tests/training/messages.hpp"
#include "tests/training/saved_values.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::message_of;
using tests::Folder;

std::string content_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A process that claims a store and then sleeps, until the destructor kills it.
class OtherJob {
public:
    /// If `leaves_child` is true, the process forks a child that inherits the lock. Then the process ends, and the
    /// child sleeps.
    explicit OtherJob(const std::filesystem::path& store, bool leaves_child = false) {
        std::array<int, 2> ends{};
        REQUIRE(::pipe(ends.data()) == 0);
        const pid_t first = ::fork();
        if (first == 0) {
            const auto claim = StoreClaim::take(store);
            if (leaves_child && ::fork() != 0) {
                ::_exit(0);
            }
            const pid_t answer = claim.is_ok() && claim.value().holds_lock() ? ::getpid() : -1;
            [[maybe_unused]] const ssize_t written = ::write(ends[1], &answer, sizeof answer);
            ::alarm(60);  // ends the process if the test dies
            ::pause();    // sleeps until the destructor sends a signal
            ::_exit(0);
        }
        REQUIRE(::read(ends[0], &pid_, sizeof pid_) == sizeof pid_);
        REQUIRE(pid_ > 0);
        ::close(ends[0]);
        ::close(ends[1]);
        if (leaves_child) {
            REQUIRE(::waitpid(first, nullptr, 0) == first);
        }
    }
    OtherJob(const OtherJob&) = delete;
    OtherJob& operator=(const OtherJob&) = delete;
    ~OtherJob() { end(); }
    void end() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            // If leaves_child was true, `pid_` is a grandchild of this process. So waitpid() fails, which is no
            // problem.
            ::waitpid(pid_, nullptr, 0);
            pid_ = 0;
        }
    }
    [[nodiscard]] pid_t pid() const { return pid_; }

private:
    pid_t pid_ = 0;
};

TEST_CASE("a store that another process uses is refused until that process has ended", "[training]") {
    const Folder folder;
    OtherJob other(folder.path());
    const auto refused = StoreClaim::take(folder.path());
    CHECK(refused.status().code() == ErrorCode::invalid_argument);
    CHECK_THAT(refused.status().message(),
               Contains("saving checkpoints in " + folder.path().string() + ": another job uses this folder (process " +
                        std::to_string(other.pid()) + " on host '" + this_process().host + "', since '20") &&
                   Contains("give each job a folder of its own, or end the other job"));
    other.end();
    const auto taken = StoreClaim::take(folder.path());
    REQUIRE(taken.is_ok());
    CHECK(taken.value().holds_lock());
    const auto owner = parse_store_owner(content_of(folder.file("in-use")));
    REQUIRE(owner);
    CHECK(owner->pid == ::getpid());
}

TEST_CASE("managers of one process share a store", "[training]") {
    const Folder folder;
    auto first = std::optional(StoreClaim::take(folder.path()));
    CHECK(first->value().holds_lock());
    const auto second = StoreClaim::take(folder.path());
    REQUIRE(second.is_ok());
    CHECK(!second.value().holds_lock());
    first.reset();
    const auto third = StoreClaim::take(folder.path());
    REQUIRE(third.is_ok());
    CHECK(third.value().holds_lock());
}

TEST_CASE("a lock that the child of a dead process holds does not count", "[training]") {
    const Folder folder;
    const OtherJob dead(folder.path(), /*leaves_child=*/true);
    const auto taken = StoreClaim::take(folder.path());
    REQUIRE(taken.is_ok());
    CHECK(!taken.value().holds_lock());
    const auto owner = parse_store_owner(content_of(folder.file("in-use")));
    REQUIRE(owner);
    CHECK(owner->pid == ::getpid());
}

void write_owner(const Folder& folder, const StoreOwner& owner) {
    std::fstream file(folder.file("in-use"), std::ios::in | std::ios::out);
    file << to_text(owner);
    file.flush();
    REQUIRE(file.good());
}

TEST_CASE("take() waits for the lock of another host, because that host may have died", "[training]") {
    const Folder folder;
    OtherJob other(folder.path());
    StoreOwner elsewhere = this_process();
    elsewhere.pid_space = "other/pid:[1]";
    elsewhere.host = "other-host";
    write_owner(folder, elsewhere);
    const auto begin = std::chrono::steady_clock::now();
    const auto refused = StoreClaim::take(folder.path(), std::chrono::milliseconds(200));
    CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(200));
    CHECK_THAT(refused.status().message(), Contains("on host 'other-host'"));
    std::thread ending([&] {
        // when this sleep ends, the main thread usually waits in take()
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        other.end();
    });
    const auto taken = StoreClaim::take(folder.path());
    ending.join();
    REQUIRE(taken.is_ok());
    CHECK(taken.value().holds_lock());
}

TEST_CASE("a free lock does not count if the text names another process that lives", "[training]") {
    const Folder folder;
    const Folder of_other;
    OtherJob other(of_other.path());
    { const auto made = StoreClaim::take(folder.path()); }
    const auto owner = parse_store_owner(content_of(of_other.file("in-use")));
    REQUIRE(owner);
    write_owner(folder, *owner);
    CHECK_THAT(StoreClaim::take(folder.path()).status().message(),
               Contains("another job uses this folder (process " + std::to_string(other.pid())));
    CHECK(parse_store_owner(content_of(folder.file("in-use"))) == owner);
    other.end();
    const auto taken = StoreClaim::take(folder.path());
    REQUIRE(taken.is_ok());
    CHECK(taken.value().holds_lock());
}

TEST_CASE("a claim ends with its object, even if a child has inherited it", "[training]") {
    const Folder folder;
    auto claim = std::optional(StoreClaim::take(folder.path()));
    REQUIRE(claim->value().holds_lock());
    const pid_t child = ::fork();
    if (child == 0) {
        claim.reset();  // the child's object must not free the lock of the parent
        ::_exit(0);
    }
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    const auto owner = parse_store_owner(content_of(folder.file("in-use")));
    REQUIRE(owner);
    CHECK(owner->pid == ::getpid());
    const pid_t sleeper = ::fork();
    if (sleeper == 0) {
        ::alarm(60);  // ends the process if the test dies
        ::pause();    // until the signal below
        ::_exit(0);
    }
    claim.reset();
    CHECK(!parse_store_owner(content_of(folder.file("in-use"))));
    { const OtherJob next(folder.path()); }
    ::kill(sleeper, SIGKILL);
    ::waitpid(sleeper, nullptr, 0);
}

TEST_CASE("a symbolic link in the place of the claim is refused", "[training]") {
    const Folder folder;
    std::filesystem::create_symlink("elsewhere", folder.file("in-use"));
    CHECK_THAT(StoreClaim::take(folder.path()).status().message(), Contains("the file 'in-use' is a symbolic link"));
    CHECK(!std::filesystem::exists(folder.file("elsewhere")));
}

TEST_CASE("an owner is written as a text, and other texts name no owner", "[training]") {
    const StoreOwner owner{17, 123456, "boot/pid:[4026531836]", "host-7", "2026-11-26T18:00:00Z"};
    const std::string text = to_text(owner);
    CHECK(text ==
          "rueda checkpoints 1\npid 17\nstarted 123456\npids boot/pid:[4026531836]\nhost host-7\n"
          "since 2026-11-26T18:00:00Z\n");
    CHECK(parse_store_owner(text) == owner);
    for (std::size_t size = 0; size < text.size(); ++size) {
        CHECK(!parse_store_owner(text.substr(0, size)));
    }
    CHECK(!parse_store_owner("rueda checkpoints 1\npid x\n"));
}

TEST_CASE("a manager claims its folder at the first save, and a loop at its beginning", "[training]") {
    const Folder folder;
    const CheckpointManagerOptions options{.folder = folder.path(), .warn = [](std::string_view) {}};
    test::SavedValues values;
    values.set(1);
    const std::vector<NamedTensor> model = values.model();
    const std::vector<NamedTensor> state = values.state();
    const Snapshot snapshot{.step = 1, .model = model, .state = state};
    OtherJob other(folder.path());  // the other process is forked before init() starts threads
    init();
    {
        CheckpointManager manager(options);
        CHECK_THAT(message_of<InvalidArgument>([&] { manager.save(snapshot); }),
                   Contains("another job uses this folder"));
        CHECK_THAT(message_of<InvalidArgument>([&] { manager.save_parts({}, {.step = 1}); }),
                   Contains("another job uses this folder"));
        CHECK_THAT(message_of<InvalidArgument>([&] { manager.claim(); }), Contains("another job uses this folder"));
        CHECK(!manager.restore(model, state));  // restoring needs no claim
        CHECK_THAT(message_of<InvalidArgument>([&] { BackupAndRestore(5, options, {}); }),
                   Contains("another job uses this folder"));
        other.end();
        CHECK(manager.save(snapshot));
        CHECK(manager.last_failure() == "");
        CHECK(manager.checkpoints().size() == 1);
    }
    rueda_shutdown();
    const OtherJob later(folder.path());  // can claim the store, because the manager's claim has ended
}

}  // namespace
}  // namespace rueda::training
