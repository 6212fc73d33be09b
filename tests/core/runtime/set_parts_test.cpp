// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests parts of a process set separately: direct announcements, joins, and the comparison of results (RUEDA_VERIFY).
// One thread plays both members, each with only the parts that it needs.
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>

#include "core/operations/verdicts.hpp"
#include "core/process_set/announcing/announcer.hpp"
#include "core/process_set/announcing/direct_announcements.hpp"
#include "core/process_set/coordination/join.hpp"
#include "core/process_set/coordination/verification.hpp"
#include "tests/core/runtime/two_members.hpp"

namespace rueda::tests {
namespace {

using core::DirectState;
using core::Urgency;
using Flags = core::Place<base::StdAtomics>::Flags;

/// One member's view of the set, and its parts.
struct Member {
    explicit Member(const TwoMembers& set, std::uint32_t rank, const base::Config& config = {})
        : view(set.view(rank)), inspection(config, view) {}

    /// Announces the operation directly, in its slot.
    void announce_directly(core::TensorEntry& entry, Urgency urgency) {
        auto& place = view.memory.place(entry.slot, view.rank, entry.generation);
        REQUIRE(core::AnnouncementWriter(view).fill(place, entry, entry.generation, /*with_metadata=*/false));
        direct.announce(entry, place, urgency);
    }

    core::SetView view;
    core::Waking waking{view};
    core::JoinedMembers joined{view, waking};
    core::EndReasons reasons{view};
    std::atomic<std::uint32_t> pending{0};
    core::Recording recording{view};
    core::OperationEnds ends{view, waking, recording, pending};
    core::LogCursor cursor{view};
    core::Announced announced{view};
    core::RowOutputs outputs{view.identity, view.set_rank};
    core::PayloadReduction reduction{view.extent().members};
    core::InputInspection inspection;
    core::DirectExecution execution{view, reduction, announced, outputs};
    core::DirectAnnouncements direct{view, !inspection.is_on(), execution, recording, ends, joined, waking, cursor};
    core::Announcer announcer{{},
                              view,
                              core::Announcer::Caller::last_rank,
                              {inspection, direct, joined, recording, ends, reasons, waking, cursor}};
    core::Verification verification{view, inspection, announcer, ends};
    core::Join join{view, inspection.is_on(), announcer, direct, joined, announced, ends, waking, cursor};
};

// ---- direct announcements ----

TEST_CASE("an operation that both have announced directly ends at once", "[threads]") {
    const TwoMembers set;
    Member first(set, 0);
    Member second(set, 1);
    Pending own(1);
    Pending other(10);
    other.options.reduce_op = own.options.reduce_op = RUEDA_SUM;
    REQUIRE(first.direct.may_begin(own.allreduce().entry, Urgency::driving));
    first.announce_directly(own.entry, Urgency::driving);
    CHECK(first.direct.is_at_once());
    // The member may begin a second direct announcement only after finish_at_once() for the first one.
    CHECK_FALSE(first.direct.may_begin(own.entry, Urgency::driving));
    second.announce_directly(other.allreduce().entry, Urgency::driving);
    CHECK(second.direct.finish_at_once(1));
    CHECK(other.values == std::vector<float>{11, 13, 15, 17});
    CHECK(second.pending == 0);
    CHECK_FALSE(second.direct.any());
    CHECK(first.direct.finish_at_once(1));
    CHECK(own.values == other.values);
    CHECK_FALSE(own.entry.pending);
}

TEST_CASE("a direct announcement stays pending until the other member announces, and then completes or is withdrawn",
          "[threads]") {
    const TwoMembers set;
    Member first(set, 0);
    Member second(set, 1);
    Pending own(1);
    Pending other(10);
    first.announce_directly(own.allreduce().entry, Urgency::driving);
    CHECK_FALSE(first.direct.finish_at_once(3));
    CHECK(first.pending == 1);
    CHECK(first.direct.turn() == DirectState::waiting);
    SECTION("the other announces directly") {
        second.announce_directly(other.allreduce().entry, Urgency::driving);
        CHECK(first.direct.turn() == DirectState::complete);
        CHECK(first.pending == 0);
        CHECK(own.completion.done());
    }
    SECTION("the other counts its announcement") {
        set.announce(1, other.allreduce().entry);
        CHECK(first.direct.turn() == DirectState::withdrawn);
        CHECK(first.direct.uses(own.entry.slot));
        CHECK(&first.direct.withdraw() == &own.entry);
        CHECK_FALSE(first.direct.any());
        CHECK(own.entry.pending);
    }
}

TEST_CASE("nothing is announced directly without a caller, where operations are compared, or if a rank has joined",
          "[threads]") {
    const TwoMembers set;
    Member member(set, 0);
    Pending own;
    CHECK_FALSE(member.direct.may_begin(own.allreduce().entry, Urgency::background));
    CHECK_FALSE(member.direct.may_begin(own.entry, Urgency::leaving));
    base::Config config;
    config.verify = 1;
    const Member comparing(set, 1, config);
    CHECK_FALSE(comparing.direct.may_begin(own.entry, Urgency::driving));
    CHECK(member.direct.may_begin(own.entry, Urgency::driving));
    core::set_joined(set.memory(), 1);
    CHECK_FALSE(member.direct.may_begin(own.entry, Urgency::driving));
}

// ---- joins ----

TEST_CASE("a rank that has joined stands in for a name that the other announces", "[threads]") {
    const TwoMembers set;
    Member staying(set, 0);
    Member joining(set, 1);
    core::Completion join;
    REQUIRE(joining.join.announce(join, /*counted=*/false).is_ok());
    CHECK(joining.join.has_joined());
    CHECK(joining.join.is_awaited_by(join));
    CHECK(joining.join.announce(join, false).message() ==
          "rank 5 is in join(), and can start nothing before all ranks have joined");
    CHECK_FALSE(joining.join.turn());
    Pending own;
    REQUIRE(
        staying.announcer.submit(nullptr, "weights", own.allreduce().entry.request, own.completion, Urgency::background)
            .is_ok());
    CHECK(joining.join.turn());
    CHECK_FALSE(joining.join.turn());
    CHECK(joining.pending == 2);  // the join and the operation
    core::TensorEntry* const entry = joining.announcer.table().find("weights");
    REQUIRE(entry != nullptr);
    CHECK(entry->stands_in);
    // The registrar has received both announcements. Therefore it has put a call of the operation into the log, and has
    // given the name the first of the slots for names (kSlot).
    CHECK(set.memory().place(TwoMembers::kSlot, 1, 0).flags == (Flags::kJoined | Flags::kUncounted | Flags::kMetadata));
    REQUIRE(joining.join.take_called(*entry, TwoMembers::kSlot, 0).is_ok());
    CHECK(entry->request.count == 4);
}

TEST_CASE("a join ends once, with the last rank or with the reason of an end", "[threads]") {
    const TwoMembers set;
    Member member(set, 0);
    core::Completion join;
    REQUIRE(member.join.announce(join, true).is_ok());
    const std::lock_guard lock(member.announcer.enqueue_mutex());
    SECTION("all have joined") {
        member.join.end_of_all(1);
        CHECK(join.status().is_ok());
    }
    SECTION("a rank has shut down") {
        member.join.end({ErrorCode::aborted, "rank 5 has shut down"});
        CHECK(join.status().message() == "join: rank 5 has shut down");
    }
    CHECK(join.done());
    CHECK(member.pending == 0);
    CHECK_FALSE(member.join.is_on());
    CHECK(member.announcer.check_open("").is_ok());
    member.join.end({ErrorCode::aborted, "once more"});
    CHECK(member.pending == 0);
}

// ---- comparisons ----

TEST_CASE("an operation that is compared ends after the comparison", "[threads]") {
    const TwoMembers set;
    base::Config config;
    config.verify = 2;  // compares every second allreduce
    Member member(set, 0, config);
    Pending own;
    core::TensorEntry& entry = own.allreduce().entry;
    member.inspection.inspect(entry);
    CHECK_FALSE(member.verification.begin(entry));
    REQUIRE(member.verification.begin(entry));
    const core::TensorEntry* const check = member.announcer.table().find(core::Verification::name_of_check_of(entry));
    REQUIRE(check != nullptr);
    CHECK(check->pending);
    CHECK(check->checks == &entry);
    CHECK(check->request.first_dimension == static_cast<std::int64_t>(entry.finding));
    CHECK(core::decode_verdict(check->request.first_dimension)->kind == core::Verdict::Kind::checksum);
}

TEST_CASE("an input that is not finite, or that the caller has changed, is found", "[threads]") {
    const TwoMembers set;
    const core::SetView view = set.view(0);
    base::Config config;
    const auto finding = [](const core::TensorEntry& entry) {
        return core::decode_verdict(static_cast<std::int64_t>(entry.finding))->kind;
    };
    Pending own;
    core::TensorEntry& entry = own.allreduce().entry;
    SECTION("not finite") {
        config.check_nan = true;
        const core::InputInspection inspection(config, view);
        inspection.inspect(entry);
        CHECK_FALSE(core::InputInspection::is_found(entry.finding));
        own.values[2] = std::nanf("");
        inspection.inspect(entry);
        CHECK(core::InputInspection::is_found(entry.finding));
    }
    SECTION("changed") {
        config.verify = 1;
        const core::InputInspection inspection(config, view);
        inspection.inspect(entry);
        inspection.inspect_again(entry);
        CHECK(finding(entry) == core::Verdict::Kind::checksum);
        own.values[2] += 1;
        inspection.inspect_again(entry);
        CHECK(finding(entry) == core::Verdict::Kind::changed);
    }
}

}  // namespace
}  // namespace rueda::tests
