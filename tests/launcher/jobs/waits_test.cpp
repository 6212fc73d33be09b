// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/activity/waits.hpp"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rueda::launcher {
namespace {

using base::RecordedOperation;

/// The recording of a rank. A test adds operations to it. Times are in nanoseconds.
class Recording {
public:
    Recording(std::int32_t rank, const std::string& members) {
        recorded_.rank = rank;
        recorded_.sets = {{0, members}};
    }
    /// Adds an operation that all ranks have announced. If `batch` is not given, the operation is a small one that is
    /// executed alone.
    Recording& called(const std::string& name, std::int64_t announced, std::int64_t started, std::int64_t ended,
                      std::optional<std::uint32_t> batch = std::nullopt) {
        RecordedOperation& operation = add(name, announced);
        operation.started_ns = started;
        operation.ended_ns = ended;
        operation.batch = batch;
        return *this;
    }
    Recording& pending(const std::string& name, std::int64_t announced) {
        add(name, announced);
        return *this;
    }
    /// Adds a blocking receive. If `ended` has no value, the receive is pending.
    Recording& receives(std::int32_t peer, std::int64_t announced, std::optional<std::int64_t> started = {},
                        std::optional<std::int64_t> ended = {}) {
        RecordedOperation& operation = add("", announced);
        operation.kind = base::RecordKind::kReceive;
        operation.has_name_record = false;
        operation.ordinal = 0;
        operation.is_blocking = true;
        operation.message = {peer, 5};
        operation.started_ns = started;
        operation.ended_ns = ended;
        return *this;
    }
    Recording& sends(std::int32_t peer, std::int64_t announced) {
        receives(peer, announced).recorded_.operations.back().kind = base::RecordKind::kSend;
        return *this;
    }
    Recording& without_blocking() {
        recorded_.operations.back().is_blocking = false;
        return *this;
    }
    Recording& joined(std::int64_t announced) {
        add("", announced).kind = base::RecordKind::kJoin;
        return *this;
    }
    Recording& first_number(std::uint64_t number) {
        number_ = number;
        return *this;
    }
    [[nodiscard]] const RecordedRank& get() const { return recorded_; }

private:
    RecordedOperation& add(const std::string& name, std::int64_t announced) {
        RecordedOperation operation;
        operation.number = number_++;
        operation.kind = base::RecordKind::kAllreduce;
        operation.ordinal = operation.number + 1;
        operation.name = name;
        operation.name_hash = static_cast<std::uint32_t>(std::hash<std::string>()(name));
        operation.has_name_record = true;
        operation.announced_ns = announced;
        recorded_.operations.push_back(operation);
        return recorded_.operations.back();
    }

    RecordedRank recorded_;
    std::uint64_t number_ = 0;
};

std::vector<RankWaits> waits_of(const std::vector<Recording>& recordings, std::int64_t from, std::int64_t to) {
    std::vector<RecordedRank> ranks;
    for (const Recording& recording : recordings) {
        ranks.push_back(recording.get());
    }
    return find_waits(ranks, from, to);
}

std::int64_t ns_for(const RankWaits& waits, std::int32_t whom) {
    for (const Wait& wait : waits.waits) {
        if (wait.whom == whom) {
            return wait.ns;
        }
    }
    return 0;
}

TEST_CASE("ranks wait for the one that announces last") {
    const auto waits = waits_of({Recording(0, "ranks 0-2").called("a", 100, 410, 420).called("b", 500, 520, 530),
                                 Recording(1, "ranks 0-2").called("a", 400, 405, 420).called("b", 490, 520, 530),
                                 Recording(2, "ranks 0-2").called("a", 250, 410, 420).called("b", 515, 520, 530)},
                                0, 1000);
    CHECK(ns_for(waits[0], 1) == 300);
    CHECK(ns_for(waits[0], 2) == 15);
    CHECK(ns_for(waits[1], 2) == 25);
    CHECK(waits[1].total_ns() == 25);
    CHECK(ns_for(waits[2], 1) == 150);
    CHECK(waits[2].total_ns() == 150);
    CHECK(waits[0].waits.front().whom == 1);  // the longest wait comes first
    CHECK(waits[0].share() == Approx(0.315));
    CHECK(waits[0].share_for(1) == Approx(0.3));
    CHECK(waits[0].share_for(7) == 0);
}

TEST_CASE("operations of one batch are matched although the ranks announce them in different orders") {
    const auto waits =
        waits_of({Recording(0, "ranks 0, 1").called("a", 100, 300, 310, 9).called("b", 110, 300, 310, 9),
                  Recording(1, "ranks 0, 1").called("b", 200, 300, 310, 9).called("a", 290, 300, 310, 9)},
                 0, 1000);
    CHECK(ns_for(waits[0], 1) == 190);  // the batch contains "a", which rank 1 announced only at 290
    CHECK(waits[1].waits.empty());
}

TEST_CASE("a name that is used again is not matched with its earlier use") {
    const auto waits =
        waits_of({Recording(0, "ranks 0, 1").called("a", 100, 150, 160, 1).called("a", 300, 400, 410, 2),
                  Recording(1, "ranks 0, 1").called("a", 140, 150, 160, 1).called("a", 390, 400, 410, 2)},
                 0, 1000);
    CHECK(waits[0].total_ns() == 40 + 90);
    CHECK(waits[1].total_ns() == 0);
}

TEST_CASE("each moment is counted once, and only within the interval") {
    const auto waits = waits_of(
        {Recording(0, "ranks 0, 1").called("a", 100, 500, 510).called("b", 200, 600, 610).called("c", 900, 2000, 2010),
         Recording(1, "ranks 0, 1")
             .called("a", 500, 500, 510)
             .called("b", 600, 600, 610)
             .called("c", 2000, 2000, 2010)},
        300, 1000);
    CHECK(waits[0].total_ns() == 300 + 100);
    CHECK(waits[0].share() == Approx(400.0 / 700));
}

TEST_CASE("a rank waits for those that have not announced what is pending") {
    SECTION("one rank does not come") {
        const auto waits = waits_of({Recording(0, "ranks 0-2").pending("a", 400), Recording(1, "ranks 0-2"),
                                     Recording(2, "ranks 0-2").pending("a", 700)},
                                    0, 1000);
        CHECK(ns_for(waits[0], 1) == 600);
        CHECK(ns_for(waits[2], 1) == 300);
        CHECK(waits[1].total_ns() == 0);
    }
    SECTION("it has called this name before") {
        const auto waits = waits_of({Recording(0, "ranks 0, 1").called("a", 10, 20, 30, 1).pending("a", 400),
                                     Recording(1, "ranks 0, 1").called("a", 20, 20, 30, 1)},
                                    0, 1000);
        CHECK(ns_for(waits[0], 1) == 10 + 600);
    }
    SECTION("the other rank has already begun it, so this rank waits for nobody") {
        const auto waits =
            waits_of({Recording(0, "ranks 0, 1").called("a", 10, 20, 30, 1).pending("a", 400),
                      Recording(1, "ranks 0, 1").called("a", 20, 20, 30, 1).called("a", 390, 401, 410, 2)},
                     0, 1000);
        CHECK(waits[0].total_ns() == 10);
    }
    SECTION("a rank that has joined is not waited for") {
        const auto waits = waits_of({Recording(0, "ranks 0-2").pending("a", 400), Recording(1, "ranks 0-2").joined(300),
                                     Recording(2, "ranks 0-2")},
                                    0, 1000);
        CHECK(ns_for(waits[0], 2) == 600);
        CHECK(waits[0].total_ns() == 600);
    }
    SECTION("a rank that is not a member is not waited for") {
        const auto waits = waits_of({Recording(0, "ranks 0, 2").pending("a", 400), Recording(1, "rank 1"),
                                     Recording(2, "ranks 0, 2").pending("a", 400)},
                                    0, 1000);
        CHECK(waits[0].total_ns() == 0);
    }
}

TEST_CASE("members on other hosts are waited for together") {
    const auto waits = waits_of({Recording(0, "ranks 0-3").called("a", 100, 450, 460).pending("b", 500),
                                 Recording(1, "ranks 0-3").called("a", 150, 450, 460).pending("b", 600)},
                                0, 1000);
    CHECK(ns_for(waits[0], 1) == 50);
    CHECK(ns_for(waits[0], kOtherHosts) == 300 + 500);
    CHECK(ns_for(waits[1], kOtherHosts) == 300 + 400);
}

TEST_CASE("a rank in a blocking send or receive waits for the peer") {
    const auto waits = waits_of(
        {Recording(0, "ranks 0-4").receives(1, 100, 150, 200).sends(2, 400),
         Recording(1, "ranks 0-4").receives(3, 300).without_blocking(), Recording(2, "ranks 0-4").receives(7, 600),
         Recording(3, "ranks 0-4").receives(-1, 500), Recording(4, "ranks 0-4").receives(1, 100, std::nullopt, 130)},
        0, 1000);
    CHECK(ns_for(waits[0], 1) == 50);  // rank 0 waited until it knew that rank 1 had begun to send
    CHECK(ns_for(waits[0], 2) == 600);
    CHECK(waits[1].waits.empty());
    CHECK(ns_for(waits[2], 7) == 400);  // rank 7 is on another host
    CHECK(waits[2].share_caused_by(7) == Approx(0.4));
    CHECK(ns_for(waits[3], kAnyRank) == 500);
    // The record of a small message does not say when its transfer started. So the whole time until its end counts as
    // waiting.
    CHECK(ns_for(waits[4], 1) == 30);
    // Rank 0 waited for rank 2, which waited for rank 7 from 600 on.
    CHECK(waits[0].share_caused_by(2) == Approx(0.2));
    CHECK(waits[0].share_caused_by(7) == Approx(0.4));
}

TEST_CASE("the rank at the end of a chain of messages causes the waits") {
    SECTION("it is in no operation") {
        const auto waits = waits_of(
            {Recording(0, "ranks 0-3"), Recording(1, "ranks 0-3").pending("a", 400),
             Recording(2, "ranks 0-3").receives(3, 300), Recording(3, "ranks 0-3").receives(0, 500).pending("b", 900)},
            0, 1000);
        CHECK(ns_for(waits[1], 0) == 600);  // rank 0 is the first rank that has not announced "a"
        CHECK(ns_for(waits[2], 3) == 700);
        CHECK(waits[2].share_caused_by(0) == Approx(0.4));
        // Before time 500, rank 3 itself caused the wait. After time 900, it was the cause again, because it had
        // returned to its program.
        CHECK(waits[2].share_caused_by(3) == Approx(0.3));
    }
    SECTION("it waits for the rank that waits for it") {
        const auto waits =
            waits_of({Recording(0, "ranks 0-2").pending("a", 0), Recording(1, "ranks 0-2").pending("a", 0),
                      Recording(2, "ranks 0-2").receives(0, 0)},
                     0, 1000);
        CHECK(waits[0].share_for(2) == Approx(1));
        CHECK(waits[0].share_caused_by(0) == Approx(1));
        CHECK(waits[1].share_caused_by(0) == Approx(1));
        CHECK(waits[1].share_caused_by(2) == 0);
    }
    SECTION("messages in a circle are caused by no rank") {
        const auto waits =
            waits_of({Recording(0, "ranks 0, 1").receives(1, 0), Recording(1, "ranks 0, 1").sends(0, 0)}, 0, 1000);
        CHECK(waits[0].share() == Approx(1));
        CHECK(waits[0].causes.empty());
        CHECK(waits[1].causes.empty());
        CHECK(waits_of({Recording(0, "rank 0").receives(0, 0)}, 0, 1000)[0].causes.empty());
    }
}

TEST_CASE("lists of members that are cut or damaged add nobody") {
    for (const char* members : {"ranks 0, 1, …", "ranks 0, 1, 7-3", "ranks 0, 1, x", "ranks 0, 1, ", "ranks 0-1,1-"}) {
        INFO(members);
        const auto waits =
            waits_of({Recording(0, members).pending("a", 400), Recording(1, members).pending("a", 500)}, 0, 1000);
        CHECK(waits[0].total_ns() == 0);
    }
}

TEST_CASE("the window begins with what the recorder still has") {
    const auto waits = waits_of({Recording(0, "ranks 0, 1").first_number(5000).called("a", 600, 700, 710),
                                 Recording(1, "ranks 0, 1").first_number(5000).called("a", 700, 700, 710)},
                                0, 1000);
    CHECK(waits[0].window_ns == 400);
    CHECK(waits[0].share() == Approx(0.25));
    CHECK(find_waits({}, 0, 1000).empty());
}

}  // namespace
}  // namespace rueda::launcher
