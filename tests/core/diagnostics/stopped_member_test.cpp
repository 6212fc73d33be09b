// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A member of a process set stops in the middle of a negotiation step. The tests repeat the step and stop the member
// before each of its accesses to shared atomics. At each such place, the tests check which operation the other members
// see as pending, and which member they name as the cause.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <span>

#include "base/system/process_status.hpp"
#include "core/diagnostics/pending_end.hpp"
#include "core/diagnostics/pending_tensors.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/diagnostics/stall_report.hpp"
#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kLater = 3600 * kSecond;
constexpr std::uint32_t kStopped = 2;

/// Atomics that stop the calling process with SIGSTOP before a chosen access. The protocol's templates are compiled
/// with these atomics.
struct StoppingAtomics {
    static inline int accesses_left = -1;  ///< the process stops after this many accesses; if negative, never

    static void access() {
        if (accesses_left >= 0 && accesses_left-- == 0) {
            ::raise(SIGSTOP);
        }
    }

    template <class T>
    class Atomic {
    public:
        Atomic() = default;
        Atomic(T value) : value_(value) {}  // NOLINT(google-explicit-constructor): implicit as in std::atomic
        T load(std::memory_order order) const {
            access();
            return value_.load(order);
        }
        void store(T value, std::memory_order order) {
            access();
            value_.store(value, order);
        }
        T exchange(T value, std::memory_order order) {
            access();
            return value_.exchange(value, order);
        }
        T fetch_add(T value, std::memory_order order) {
            access();
            return value_.fetch_add(value, order);
        }
        T fetch_or(T value, std::memory_order order) {
            access();
            return value_.fetch_or(value, order);
        }
        bool compare_exchange_strong(T& expected, T value, std::memory_order success, std::memory_order failure) {
            access();
            return value_.compare_exchange_strong(expected, value, success, failure);
        }

    private:
        std::atomic<T> value_{};
    };
};
static_assert(sizeof(StoppingAtomics::Atomic<std::uint64_t>) == sizeof(std::atomic<std::uint64_t>));
static_assert(sizeof(SetHeader<StoppingAtomics>) == sizeof(SetHeader<base::StdAtomics>));
static_assert(sizeof(MailboxRecord<StoppingAtomics>) == sizeof(MailboxRecord<base::StdAtomics>));

/// A set of three members in memory shared between processes. The third member is a child process that stops itself.
struct Job {
    Members set{{.members = 3, .unnamed_slots = 4, .initial_slots = 8, .slots = 8, .mailbox_records = 8}};
    std::unique_ptr<base::ControlBlock> control = std::make_unique<base::ControlBlock>();

    Job() {
        for (std::uint32_t member = 0; member < 3; ++member) {
            control->ranks[member].pid.store(getpid());
            control->ranks[member].global_rank.store(static_cast<std::int32_t>(member));
            control->ranks[member].state.store(static_cast<std::uint32_t>(base::RankState::running));
        }
    }

    [[nodiscard]] NegotiationMemory<StoppingAtomics> stopping_memory() const {
        return {reinterpret_cast<std::byte*>(&set.header()), set.extent()};
    }
    /// The stall monitor of rank 0, one hour after the third member has stopped. The other members respond.
    [[nodiscard]] StallMonitor monitor(pid_t child, double shutdown_seconds = 0) const {
        control->ranks[kStopped].pid.store(child);
        control->ranks[kStopped].process_start.store(base::process_start_time(child));
        control->ranks[0].heartbeat_ns.store(kLater);
        control->ranks[1].heartbeat_ns.store(kLater);
        base::Config config;
        config.stall_shutdown_seconds = shutdown_seconds;
        return {StallSettings(config), *control, 0, set.memory()};
    }
    [[nodiscard]] std::string report(pid_t child) const {
        const auto finding = monitor(child).tick(kLater);
        return finding ? finding->text : "";
    }
    /// Returns the reason with which rank 0 ends the job.
    [[nodiscard]] std::string reason(pid_t child) const {
        const auto finding = monitor(child, 100).tick(kLater);
        return finding && finding->shut_down ? finding->text : "";
    }
    /// Returns the text of the Timeout error that rank 0 gets for this operation.
    [[nodiscard]] std::string wait_for(std::string_view name, pid_t child) const {
        const AwaitedTensor awaited{.name = std::string(name)};
        return format_wait(monitor(child).account_of(std::span(&awaited, 1), kLater));
    }
    /// Returns whether the log contains the end of the operation. If it does, waiting callers return.
    [[nodiscard]] bool is_answered(std::string_view name) const {
        const Log<Atomics> log(set.memory());
        for (std::uint64_t position = 0; log.is_published(position); ++position) {
            const std::uint32_t slot = log.read(position).slot;
            const auto state =
                slot < set.extent().slots ? set.memory().label(slot).state() : SlotLabel<Atomics>::State{};
            const bool is_new = set.memory().cursor(0).position.load() <= position;
            if (is_new && log.read(position).kind != EntryKind::retire &&
                set.memory().label(slot).name(state) == name) {
                return true;
            }
        }
        return false;
    }
};

/// Announces the next use of a bound slot (a slot with a name), with the same steps as ProcessSet.
template <class TheseAtomics>
void announce_counted(const NegotiationMemory<TheseAtomics>& memory, std::uint32_t member, std::uint32_t slot,
                      std::uint64_t generation, const Metadata* changed = nullptr) {
    begin_arrival(memory, member, slot);
    auto& place = memory.place(slot, member, generation);
    place.flags = changed != nullptr ? std::uint32_t{Place<TheseAtomics>::kMetadata} : 0;
    place.metadata = changed != nullptr ? *changed : Metadata();
    place.announced_ns.store(1, std::memory_order_relaxed);
    place.stamp.store(generation + 1, std::memory_order_release);
    const Arrival arrival = arrive(memory, slot, generation, changed != nullptr);
    if (arrival == Arrival::last) {
        const std::uint64_t position = Log<TheseAtomics>(memory, member).append({EntryKind::call, slot});
        memory.arrivals(slot).last_called.store(position, std::memory_order_relaxed);
        memory.arrivals(slot).called.store(generation * memory.extent().members, std::memory_order_release);
    } else if (arrival == Arrival::last_changed) {
        Registrar<TheseAtomics> registrar(memory, member, {});
        auto* record = registrar.next_record();
        record->set_kind(RequestKind::resolve);
        record->slot = slot;
        record->generation = generation;
        record->counted = generation;
        static_cast<void>(registrar.post());
    }
    end_arrival(memory, member);
}

template <class TheseAtomics>
void announce_in_full(const NegotiationMemory<TheseAtomics>& memory, std::uint32_t member, std::string_view name,
                      const Metadata& metadata) {
    Registrar<TheseAtomics> registrar(memory, member, {});
    auto* record = registrar.next_record();
    record->set_kind(RequestKind::announce);
    record->set_name(name);
    record->ticket = 7;
    record->name_hash = Members::hash_of(name);
    record->place.flags = Place<TheseAtomics>::kMetadata;
    record->place.metadata = metadata;
    record->place.announced_ns.store(1, std::memory_order_relaxed);
    record->place.stamp.store(1, std::memory_order_release);
    static_cast<void>(registrar.post());
}

/// A child process that runs `step` as the third member and stops before the access number `accesses`.
class StoppedMember {
public:
    StoppedMember(const Job& job, int accesses,
                  const std::function<void(const NegotiationMemory<StoppingAtomics>&)>& step)
        : pid_(fork()) {
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            StoppingAtomics::accesses_left = accesses;
            step(job.stopping_memory());
            _exit(0);
        }
        int status = 0;
        REQUIRE(waitpid(pid_, &status, WUNTRACED) == pid_);
        REQUIRE((WIFSTOPPED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0)));
        is_through_ = WIFEXITED(status);
    }
    ~StoppedMember() {
        if (!is_through_) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
    }
    StoppedMember(const StoppedMember&) = delete;
    StoppedMember& operator=(const StoppedMember&) = delete;

    [[nodiscard]] bool is_through() const { return is_through_; }
    [[nodiscard]] pid_t pid() const { return pid_; }

private:
    pid_t pid_;
    bool is_through_ = false;
};

struct Seen {
    int missing = 0;     ///< how often the member stopped before its announcement was visible
    int unfinished = 0;  ///< how often it stopped when its announcement was visible, but not yet in the log
    int answered = 0;
};

/// Runs `prepare`, and then `step` as the third member, which announces "weight" in this step. Does this many times,
/// and stops the third member each time before a different access of `step`. After the stop, the other members run
/// `meanwhile`.
Seen stop_everywhere(
    const std::function<void(Job&)>& prepare,
    const std::function<void(const NegotiationMemory<StoppingAtomics>&)>& step,
    const std::function<bool(const Job&)>& has_announced, const std::function<void(Job&)>& meanwhile = [](Job&) {}) {
    constexpr int kMostAccesses = 1000;
    Seen seen;
    for (int accesses = 0; accesses < kMostAccesses; ++accesses) {
        Job job;
        prepare(job);
        const StoppedMember member(job, accesses, step);
        if (member.is_through()) {
            return seen;
        }
        meanwhile(job);
        const auto pending = pending_tensors(job.set.memory());
        INFO("stopped before access " << accesses);
        if (job.is_answered("weight")) {
            ++seen.answered;
            CHECK(pending.empty());
            CHECK_THAT(
                job.wait_for("weight", member.pid()),
                Catch::StartsWith(fmt::format("all ranks have announced it, and it is under way; rank 2 (pid {}): "
                                              "stopped by a signal; ",
                                              member.pid())));
            continue;
        }
        REQUIRE(pending.size() == 1);
        CHECK(pending[0].name == "weight");
        const std::string report = job.report(member.pid());
        const std::string wait = job.wait_for("weight", member.pid());
        INFO(report << "\n" << wait);
        CHECK_THAT(wait, Catch::Contains(fmt::format("; rank 2 (pid {}): stopped by a signal; ", member.pid())));
        CHECK_THAT(wait, !Catch::Contains("; rank 0 (") && !Catch::Contains("; rank 1 ("));
        CHECK_THAT(report, Catch::Contains(fmt::format("\n  rank 2 (pid {}): stopped by a signal; ", member.pid())));
        CHECK_THAT(report, !Catch::Contains("\n  rank 0") && !Catch::Contains("\n  rank 1"));
        if (has_announced(job)) {
            ++seen.unfinished;
            CHECK(pending[0].ready_mask == 0b111);
            CHECK(pending[0].unfinished_mask == 0b100);
            CHECK_THAT(report, Catch::Contains("; ready: ranks 0-2; missing: no rank; rank 2 took the last step of the "
                                               "announcement and has not finished it\n"));
            CHECK_THAT(wait, Catch::StartsWith("all ranks have announced it; rank 2 took the last step of the "
                                               "announcement and has not finished it; rank 2 ("));
        } else {
            ++seen.missing;
            CHECK(pending[0].ready_mask == 0b011);
            CHECK_THAT(report, Catch::Contains("; ready: ranks 0, 1; missing: rank 2\n"));
            CHECK_THAT(wait, Catch::StartsWith("rank 2 has not announced it, ranks 0, 1 have; rank 2 ("));
        }
    }
    FAIL("the step does not end");
    return seen;
}

constexpr std::uint32_t kSlot = 4;  // the first slot number for names

bool has_stamped_generation_1(const Job& job) { return job.set.memory().place(kSlot, kStopped, 1).stamp.load() == 2; }

TEST_CASE("a last arriver that is stopped between its announcement and the call is named") {
    const Seen seen = stop_everywhere(
        [](Job& job) {
            REQUIRE(job.set.bind("weight", allreduce_of({3})) == kSlot);
            job.set.catch_up();
            REQUIRE(job.set.arrive_at(0, kSlot, 1) == Arrival::counted);
            REQUIRE(job.set.arrive_at(1, kSlot, 1) == Arrival::counted);
        },
        [](const auto& memory) { announce_counted(memory, kStopped, kSlot, 1); }, has_stamped_generation_1);
    CHECK(seen.missing > 0);
    // After its announcement is visible, the member stops at least four times. For example, it stops before it counts
    // its announcement, before it claims a position in the log, and before it publishes the entry.
    CHECK(seen.unfinished >= 4);
    CHECK(seen.answered > 0);
}

TEST_CASE("a last arriver that is stopped before the registrar has compared changed metadata is named") {
    const Seen seen = stop_everywhere(
        [](Job& job) {
            REQUIRE(job.set.bind("weight", allreduce_of({3})) == kSlot);
            job.set.catch_up();
            const Metadata changed = allreduce_of({5});
            REQUIRE(job.set.arrive_at(0, kSlot, 1, 1, &changed) == Arrival::counted);
            REQUIRE(job.set.arrive_at(1, kSlot, 1, 1, &changed) == Arrival::counted);
        },
        [](const auto& memory) {
            const Metadata changed = allreduce_of({5});
            announce_counted(memory, kStopped, kSlot, 1, &changed);
        },
        has_stamped_generation_1);
    CHECK(seen.missing > 0);
    CHECK(seen.unfinished > 10);
    CHECK(seen.answered > 0);
}

TEST_CASE("a registrar that is stopped while it handles the last announcement of a new name is named") {
    const bool agree = GENERATE(true, false);
    const Seen seen = stop_everywhere(
        [](Job& job) {
            REQUIRE(job.set.announce_in_full(0, "weight", allreduce_of({3})).is_ok());
            REQUIRE(job.set.announce_in_full(1, "weight", allreduce_of({3})).is_ok());
        },
        [agree](const auto& memory) {
            announce_in_full(memory, kStopped, "weight", agree ? allreduce_of({3}) : allreduce_of({4}));
        },
        [](const Job& job) { return job.set.memory().mailbox(kStopped).posted.load() == 1; });
    CHECK(seen.missing > 0);
    CHECK(seen.unfinished > 10);
    CHECK(seen.answered > 0);
}

/// If the registrar (the member that processes announcements) is stopped, it keeps this role. The other members
/// therefore leave their announcements to the stopped member.
TEST_CASE("a registrar that is stopped while others announce is named, once all have announced") {
    const Seen seen = stop_everywhere(
        [](Job&) {}, [](const auto& memory) { announce_in_full(memory, kStopped, "weight", allreduce_of({3})); },
        [](const Job& job) { return job.set.memory().mailbox(kStopped).posted.load() == 1; },
        [](Job& job) {
            REQUIRE(job.set.announce_in_full(0, "weight", allreduce_of({3})).is_ok());
            REQUIRE(job.set.announce_in_full(1, "weight", allreduce_of({3})).is_ok());
        });
    CHECK(seen.missing > 0);
    CHECK(seen.unfinished > 10);
    CHECK(seen.answered > 0);  // in some runs, the third member stopped after it had given up the role of the registrar
}

TEST_CASE("an operation that is called behind an entry of a stopped member is pending, and that member is named") {
    bool was_held_up = false;
    for (int accesses = 0;; ++accesses) {
        Job job;
        const std::uint32_t first = job.set.bind("weight", allreduce_of({3}));
        const std::uint32_t second = job.set.bind("other", allreduce_of({3}));
        job.set.catch_up();
        REQUIRE(job.set.arrive_at(0, first, 1) == Arrival::counted);
        REQUIRE(job.set.arrive_at(1, first, 1) == Arrival::counted);
        REQUIRE(job.set.arrive_at(0, second, 1) == Arrival::counted);
        REQUIRE(job.set.arrive_at(kStopped, second, 1) == Arrival::counted);
        const StoppedMember member(job, accesses,
                                   [&](const auto& memory) { announce_counted(memory, kStopped, first, 1); });
        announce_counted(job.set.memory(), 1, second, 1);
        if (member.is_through()) {
            break;
        }
        INFO("stopped before access " << accesses);
        const Log<Atomics> log(job.set.memory());
        const auto pending = pending_tensors(job.set.memory());
        if (log.claimant(2) == kStopped) {
            was_held_up = true;
            // entry 3 is published, but members can read it only after the stopped member has published entry 2
            REQUIRE(log.is_published(3));
            REQUIRE(pending.size() == 2);
            for (const PendingTensor& tensor : pending) {
                CHECK(tensor.ready_mask == 0b111);
                CHECK(tensor.unfinished_mask == 0b100);
            }
        } else {
            CHECK(pending.size() == (job.is_answered("weight") ? 0U : 1U));
        }
    }
    CHECK(was_held_up);
}

TEST_CASE("a member that is stopped while it posts its shutdown is named, with what it has done") {
    int before = 0;
    int unfinished = 0;
    for (int accesses = 0;; ++accesses) {
        Job job;
        for (const std::uint32_t other : {0U, 1U}) {
            begin_to_await_end(job.set.memory(), other, EndCall::shutdown, 1);
            note_end_announced(job.set.memory(), other);
            REQUIRE(job.set.shut_down(other).is_ok());
        }
        // The child takes the same steps as ProcessSet, with one difference: it uses ordinary atomics to note that it
        // waits in shutdown(). It cannot stop at these accesses.
        const StoppedMember member(job, accesses, [&](const auto& memory) {
            Registrar<StoppingAtomics> registrar(memory, kStopped, {});
            begin_to_await_end(job.set.memory(), kStopped, EndCall::shutdown, 1);
            auto* const record = registrar.next_record();
            record->set_kind(RequestKind::shut_down);
            set_step(memory, kStopped, ProtocolStep::kPosting);
            note_end_announced(job.set.memory(), kStopped);
            static_cast<void>(registrar.post());
        });
        if (member.is_through()) {
            break;
        }
        INFO("stopped before access " << accesses);
        const std::string report = job.report(member.pid());
        const std::string reason = job.reason(member.pid());
        INFO(report << "\n" << reason);
        CHECK_THAT(reason, !Catch::Contains("no rank for"));
        CHECK_THAT(report, Catch::Contains(fmt::format("\n  rank 2 (pid {}): stopped by a signal; ", member.pid())));
        CHECK_THAT(report, !Catch::Contains("waits until the others have read"));
        if (job.set.memory().mailbox(kStopped).posted.load() == 0 && job.set.header().end_announced.load() != 0b111) {
            ++before;
            CHECK_THAT(report, Catch::Contains("; ready: ranks 0, 1; missing: rank 2\n"));
            CHECK_THAT(reason, Catch::Contains("shutdown() has waited for rank 2 for "));
        } else if (step_of(job.set.memory(), kStopped) != ProtocolStep::kNone) {
            ++unfinished;
            CHECK_THAT(report, Catch::Contains("; ready: ranks 0-2; missing: no rank; rank 2 took the last step of the "
                                               "announcement and has not finished it\n"));
            CHECK_THAT(report, !Catch::Contains("\n  rank 0") && !Catch::Contains("\n  rank 1"));
            CHECK_THAT(reason, Catch::Contains("shutdown() has waited for rank 2 for "));
        }
    }
    CHECK(before > 0);
    CHECK(unfinished > 10);
}

}  // namespace
}  // namespace rueda::core::test
