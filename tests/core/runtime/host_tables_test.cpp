// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A rank appends a log entry that no correct rank would append. When the other rank reads this entry, that rank must
// report an error. Each pending operation must end exactly once. Also tests which errors a rank takes from the log
// after an abort. One thread plays both ranks.
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/settings/config.hpp"
#include "core/operations/requests.hpp"
#include "core/process_set/process_set.hpp"

namespace rueda::tests {
namespace {

using core::EntryKind;
using core::ProcessSet;
using Atomics = ProcessSet::Atomics;
using Log = core::Log<Atomics>;
using Memory = core::NegotiationMemory<Atomics>;

constexpr std::uint32_t kMembers = 2;
constexpr std::uint32_t kSlot = 2;  // the slot of the first name; lower slots are for unnamed operations

core::NegotiationExtent extent_of_host() {
    core::NegotiationExtent extent;
    extent.members = kMembers;
    extent.unnamed_slots = kSlot;
    extent.initial_slots = 8;
    extent.slots = 8;
    return extent;
}

/// Submits an allreduce or an allgather of `count` floats, at most four.
struct Operation {
    explicit Operation(bool gathers = false, std::int64_t count = 4) {
        const std::array<std::int64_t, 1> shape = {count};
        const rueda_tensor tensor{values.data(), shape.data(), 1, RUEDA_FLOAT32};
        rueda_options storage{};
        const rueda_options* options = nullptr;
        REQUIRE(core::effective_options(nullptr, storage, options).is_ok());
        REQUIRE((gathers ? core::make_allgather(tensor, nullptr, *options, request)
                         : core::make_allreduce(tensor, tensor, *options, request))
                    .is_ok());
    }
    std::array<float, 4> values{1, 2, 3, 4};
    core::Request request;
    core::Completion completion;
};

class Host {
public:
    Host() {
        collectives::ArenaPlan plan;
        plan.members = kMembers;
        plan.negotiation_bytes = Memory::bytes(extent_of_host());
        plan.cell_bytes = 1024;
        const base::UniqueFd memory = collectives::Arena::create_memory(plan).value();
        base::Config config;
        config.log_level = base::LogLevel::off;
        for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
            auto arena = collectives::Arena::map(base::UniqueFd(::dup(memory.value())), plan, rank).value();
            if (rank == 0) {
                arena->initialise();
                Memory::initialise(arena->negotiation(), extent_of_host());
            }
            arena->control().ranks[rank].global_rank.store(static_cast<std::int32_t>(rank));
            arenas_.push_back(arena);
            sets_.push_back(std::make_unique<ProcessSet>(config, core::SetIdentity{0, {0, 1}}, arena, extent_of_host(),
                                                         std::nullopt, pending_[rank]));
        }
    }

    void submit(std::uint32_t rank, Operation& operation, const char* name = "lie") {
        REQUIRE(sets_[rank]->submit(name, operation.request, operation.completion, core::Urgency::background).is_ok());
    }
    /// Executes one operation on both ranks, so that the operation's name gets a slot.
    void do_it(bool gathers) {
        Operation first(gathers);
        Operation second(gathers);
        submit(0, first);
        submit(1, second);
        for (int turn = 0; turn < 8; ++turn) {
            sets_[0]->step(true);
            sets_[1]->step(true);
        }
        REQUIRE(first.completion.done());
        REQUIRE(second.completion.done());
        REQUIRE(first.completion.status().is_ok());
    }
    /// Lets rank 1 work until its operation has ended. Rank 0 does nothing meanwhile.
    void end_on_rank_1(const Operation& operation) {
        for (int turn = 0; turn < 8 && !operation.completion.done(); ++turn) {
            sets_[1]->step(true);
        }
        REQUIRE(operation.completion.done());
    }
    /// Rank 1 ends the job. Rank 0 fails its operations, as its engine does after an abort.
    void abort() {
        const Status reason(ErrorCode::aborted, "rank 1 has left");
        REQUIRE(arenas_[1]->control().abort.raise(reason.code(), reason.message()));
        sets_[0]->take_decided_errors();
        sets_[0]->fail_all(reason);
        CHECK(pending_[0].load() == 0);
    }
    /// Lets rank 0 read the log until the job ends. Returns the reason of the abort.
    std::string ended_by_reading() {
        for (int turn = 0; turn < 4 && !arenas_[0]->blocks().abort().raised(); ++turn) {
            sets_[0]->step(true);
        }
        const Status reason = arenas_[0]->blocks().abort().reason();
        sets_[0]->fail_all(reason);
        CHECK(pending_[0].load() == 0);
        CHECK(reason.code() == ErrorCode::internal);
        return reason.message();
    }
    [[nodiscard]] Memory memory() const { return sets_[1]->memory(); }
    /// The log through which rank 1 appends.
    [[nodiscard]] Log log() const { return Log(memory(), 1); }
    [[nodiscard]] std::uint64_t next() const { return memory().cursor(1).position.load(); }

private:
    std::array<std::atomic<std::uint32_t>, kMembers> pending_{};
    std::vector<std::shared_ptr<collectives::Arena>> arenas_;
    std::vector<std::unique_ptr<ProcessSet>> sets_;
};

Log::Entry call_of(std::uint32_t slot) { return {EntryKind::call, slot}; }

TEST_CASE("a rank gets an error that was decided before the abort, although it had not read the log", "[threads]") {
    Host host;
    host.do_it(false);
    host.do_it(false);
    Operation pending;
    Operation other(false, 3);
    Operation unread;
    host.submit(0, pending);
    host.submit(0, unread, "nobody else calls this");
    host.submit(1, other);
    host.end_on_rank_1(other);
    REQUIRE_FALSE(pending.completion.done());
    host.abort();
    REQUIRE(pending.completion.done());
    CHECK(pending.completion.status().code() == ErrorCode::mismatch);
    CHECK(pending.completion.status().message() == other.completion.status().message());
    CHECK(pending.completion.status().message().find("ranks disagree about the shape") != std::string::npos);
    REQUIRE(unread.completion.done());
    CHECK(unread.completion.status().code() == ErrorCode::aborted);
}

TEST_CASE("a rank that has not completed an earlier operation gets the reason of the abort", "[threads]") {
    Host host;
    host.do_it(false);
    host.do_it(false);
    Operation earlier;
    Operation pending;
    host.submit(0, earlier);
    host.submit(0, pending, "later");
    const std::uint64_t begin = host.next();
    REQUIRE(host.log().append_batch(std::array{call_of(kSlot)}) == begin);
    host.log().append({EntryKind::mismatch, kSlot + 1});
    host.abort();
    CHECK(earlier.completion.status().code() == ErrorCode::aborted);
    CHECK(pending.completion.status().code() == ErrorCode::aborted);
}

TEST_CASE("a batch that calls a tensor twice ends the job, and the tensor's operation ends only once", "[threads]") {
    Host host;
    host.do_it(false);
    host.do_it(false);
    Operation pending;
    host.submit(0, pending);
    const std::uint64_t begin = host.next();
    REQUIRE(host.log().append_batch(std::array{call_of(kSlot), call_of(kSlot)}) == begin);
    CHECK(host.ended_by_reading() ==
          fmt::format("entry {} of the log calls slot {} in a batch in which it cannot be", begin + 1, kSlot));
    CHECK(pending.completion.done());
    CHECK(pending.completion.status().code() == ErrorCode::internal);
}

TEST_CASE("a batch with two operations that must be alone in a batch ends the job", "[threads]") {
    Host host;
    host.do_it(true);
    host.do_it(true);
    Operation pending(true);
    Operation other(true);
    host.submit(0, pending);
    const std::uint64_t begin = host.next();
    REQUIRE(host.log().append_batch(std::array{call_of(kSlot), call_of(kSlot + 1)}) == begin);
    CHECK(host.ended_by_reading() ==
          fmt::format("entry {} of the log calls slot {} in a batch in which it cannot be", begin, kSlot));
    CHECK(pending.completion.done());
}

TEST_CASE("a mismatch in which all ranks have joined ends the job", "[threads]") {
    Host host;
    host.do_it(false);
    host.do_it(false);
    Operation pending;
    host.submit(0, pending);
    for (std::uint32_t member = 0; member < kMembers; ++member) {
        host.memory().place(kSlot, member, 2).flags |= core::Place<Atomics>::kJoined;
        host.memory().place(kSlot, member, 3).flags |= core::Place<Atomics>::kJoined;
    }
    host.log().append({EntryKind::mismatch, kSlot});
    CHECK(host.ended_by_reading() ==
          fmt::format("the log reports a mismatch in slot {}, in which all ranks have joined", kSlot));
    CHECK(pending.completion.done());
}

TEST_CASE("a rank that finds no room in the log ends the job", "[threads]") {
    Host host;
    host.do_it(false);
    Operation pending;
    Operation last;
    host.submit(1, last);
    for (std::uint64_t position = 0; position < extent_of_host().log_entries(); ++position) {
        host.memory().entry(position).sequence.store(std::uint64_t{1} << 55U);
    }
    host.submit(0, pending);  // rank 0 arrives last, so it has to append the call
    CHECK(host.ended_by_reading() ==
          "tensor 'lie': there is no room in the log to call it, which cannot happen if all ranks are correct");
    CHECK(pending.completion.done());
}

}  // namespace
}  // namespace rueda::tests
