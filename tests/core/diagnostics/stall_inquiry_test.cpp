// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stall_inquiry.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "tests/support/ranks/thread_transport.hpp"

namespace rueda::core {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

StallReport::Tensor tensor(const std::string& name, double seconds, std::vector<std::int32_t> ready) {
    return {name, 0, seconds, std::move(ready), {}};
}

StallReport::Rank rank(std::int32_t number, const std::string& busy = "") {
    StallReport::Rank described;
    described.rank = number;
    described.pid = 1000 + number;
    described.process_state = "running";
    described.busy = busy;
    return described;
}

StallMessage account_message() {
    StallMessage message{
        StallMessageKind::account, 7, {1, {tensor("weight", 61.5, {2})}, false, {rank(2), rank(3, "saving")}}};
    message.account.tensors.front().sites = {{"train.py:42", {2}}};
    message.account.ranks.front().waits_in.push_back(tensor("weight", 61.5, {}));
    message.account.ranks.front().waits_in.front().sites = {{"train.py:42", {2}}};
    message.account.ranks.front().waits_in.push_back(tensor("send to rank 3, tag 5", 60, {}));
    message.account.ranks.front().waits_in.back().message = {true, false, 3};
    message.account.ranks.front().step = 117;
    message.account.ranks.back().busy_seconds = 71.25;
    message.account.ranks.front().unnamed = 18;
    message.account.ranks.back().unnamed = 17;
    return message;
}

TEST_CASE("messages about stalls are decoded as they were encoded", "[unit]") {
    const Result<StallMessage> parsed = parse_stall_message(encode(account_message()), 4, 2);
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value().kind == StallMessageKind::account);
    CHECK(parsed.value().inquiry == 7);
    const HostAccount& account = parsed.value().account;
    CHECK(account.host == 1);
    REQUIRE(account.tensors.size() == 1);
    CHECK(account.tensors.front().name == "weight");
    CHECK(account.tensors.front().seconds == Approx(61.5));
    CHECK(account.tensors.front().ready == std::vector<std::int32_t>{2});
    REQUIRE(account.ranks.size() == 2);
    CHECK(account.ranks.front().pid == 1002);
    CHECK(account.ranks.front().waits_in.front().name == "weight");
    REQUIRE(account.tensors.front().sites.size() == 1);
    CHECK(account.tensors.front().sites.front().site == "train.py:42");
    CHECK(account.tensors.front().sites.front().ranks == std::vector<std::int32_t>{2});
    REQUIRE(account.ranks.front().waits_in.front().sites.size() == 1);
    CHECK(account.ranks.front().waits_in.front().sites.front().site == "train.py:42");
    CHECK(account.ranks.front().unnamed == 18);
    CHECK(account.ranks.back().unnamed == 17);
    CHECK(account.ranks.back().busy == "saving");
    CHECK(account.ranks.back().busy_seconds == Approx(71.25));
    CHECK(account.ranks.front().busy_seconds < 0);
    CHECK_FALSE(account.ranks.front().waits_in.front().message);
    REQUIRE(account.ranks.front().waits_in.size() == 2);
    const auto& message = account.ranks.front().waits_in.back().message;
    REQUIRE(message);
    CHECK(message->sends);
    CHECK_FALSE(message->receives_too);
    CHECK(message->peer == 3);
    const StallReport report = merge(std::span(&account, 1), std::vector<std::int32_t>{0, 0, 1, 1}, 60);
    CHECK(report.steps == std::map<std::int64_t, std::vector<std::int32_t>>{{-1, {3}}, {117, {2}}});
}

TEST_CASE("damaged messages about stalls are refused", "[unit]") {
    const std::vector<std::byte> whole = encode(account_message());
    for (std::size_t length = 0; length < whole.size(); ++length) {
        CHECK_FALSE(parse_stall_message(std::span(whole).first(length), 4, 2).is_ok());
    }
    CHECK_FALSE(parse_stall_message(whole, 3, 2).is_ok());  // a job of three ranks has no rank 3
    CHECK_FALSE(parse_stall_message(whole, 4, 1).is_ok());  // a job of one host has no host 1
    for (std::size_t at = 0; at < whole.size(); ++at) {
        std::vector<std::byte> flipped = whole;
        flipped[at] ^= std::byte{0xFF};
        const Result<StallMessage> parsed = parse_stall_message(flipped, 4, 2);
        // Texts and times may have any value; only rank numbers can be checked.
        if (parsed.is_ok() && parsed.value().kind == StallMessageKind::account) {
            for (const StallReport::Rank& described : parsed.value().account.ranks) {
                CHECK((described.rank >= 0 && described.rank < 4));
            }
        }
    }
}

TEST_CASE("an account of many tensors and ranks stays within a message", "[unit]") {
    StallMessage message{StallMessageKind::account, 1, {}};
    for (int i = 0; i < 500; ++i) {
        message.account.tensors.push_back(tensor(std::string(250, 'x') + std::to_string(i), 61, {}));
    }
    for (int i = 0; i < 64; ++i) {
        message.account.ranks.push_back(rank(i, std::string(500, 'b')));
        message.account.ranks.back().waits_in = message.account.tensors;
    }
    const std::vector<std::byte> bytes = encode(message);
    CHECK(bytes.size() <= kMostStallMessageBytes);
    const Result<StallMessage> parsed = parse_stall_message(bytes, 64, 1);
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value().account.tensors.size() == 64);
    CHECK(parsed.value().account.ranks.size() > 10);
}

TEST_CASE("accounts of all hosts make one report", "[unit]") {
    const std::vector<HostAccount> accounts = {
        {0,
         {tensor("a", 70, {0, 1}), tensor("b", 65, {0}), tensor("young", 3, {0})},
         false,
         {rank(0), rank(1, "evaluating")}},
        {1, {tensor("a", 71, {2, 3}), tensor("b", 80, {2, 3})}, false, {rank(2), rank(3)}},
    };
    const StallReport report = merge(accounts, std::vector<std::int32_t>{0, 0, 1, 1}, 60);
    REQUIRE(report.tensors.size() == 1);  // "a" is complete, and "young" has not waited long enough
    CHECK(report.tensors.front().name == "b");
    CHECK(report.tensors.front().seconds == Approx(80));
    CHECK(report.tensors.front().ready == std::vector<std::int32_t>{0, 2, 3});
    CHECK(report.tensors.front().missing == std::vector<std::int32_t>{1});
    REQUIRE(report.missing_ranks.size() == 1);
    CHECK(report.missing_ranks.front().busy == "evaluating");
}

TEST_CASE("a report has the call sites of all hosts, and the number of unnamed operations of each rank", "[unit]") {
    std::vector<HostAccount> accounts = {
        {0, {tensor("a", 70, {0})}, false, {rank(0), rank(1)}},
        {1, {tensor("a", 71, {2, 3})}, false, {rank(2), rank(3)}},
    };
    accounts[0].tensors.front().sites = {{"train.py:42", {0}}};
    accounts[1].tensors.front().sites = {{"train.py:57", {3}}, {"train.py:42", {2}}};
    accounts[0].ranks[1].unnamed = 5;
    const StallReport report = merge(accounts, std::vector<std::int32_t>{0, 0, 1, 1}, 60);
    REQUIRE(report.tensors.size() == 1);
    CHECK(called_from(report.tensors.front().sites) == "; called from: ranks 0, 2: train.py:42; rank 3: train.py:57");
    CHECK(report.started == StartedByRank{{0, {0, 2, 3}}, {5, {1}}});
}

TEST_CASE("tensors that a host could not report or did not report make no rank missing", "[unit]") {
    const std::vector<std::int32_t> host_of{0, 0, 1, 1};
    const std::vector<HostAccount> cut = {
        {0, {tensor("a", 70, {0, 1}), tensor("z", 70, {0, 1})}, false, {rank(0), rank(1)}},
        {1, {tensor("a", 70, {2})}, true, {rank(2), rank(3)}},
    };
    const StallReport report = merge(cut, host_of, 60);
    REQUIRE(report.tensors.size() == 1);
    CHECK(report.tensors.front().name == "a");
    CHECK(report.tensors.front().missing == std::vector<std::int32_t>{3});
    CHECK(report.unheard.empty());

    const StallReport silent = merge(std::span(cut).first(1), host_of, 60);
    REQUIRE(silent.tensors.size() == 2);
    CHECK(silent.tensors.front().missing.empty());
    CHECK(silent.unheard == std::vector<std::int32_t>{2, 3});
    CHECK_THAT(format_stall_report(silent), Catch::Contains("ranks 2, 3: nothing was heard from the host"));
}

/// The leaders of three hosts in a chain: leader 0 is the root, leader 1 reports to leader 0, and leader 2 to leader 1.
class Chain {
public:
    explicit Chain(const base::Config& config) : transports_(collectives::make_thread_transports(3)) {
        for (std::uint32_t host = 0; host < 3; ++host) {
            const auto neighbour = [](std::uint32_t of) { return StallInquiry::Neighbour{of, static_cast<int>(of)}; };
            std::vector<StallInquiry::Neighbour> children;
            if (host < 2) {
                children.push_back(neighbour(host + 1));
            }
            leaders_.push_back(std::make_unique<StallInquiry>(
                StallSettings(config), 3, std::vector<std::int32_t>{0, 1, 2},
                host == 0 ? std::nullopt : std::optional(neighbour(host - 1)), children, *transports_[host]));
        }
    }
    /// Advances the clock in steps of 50 ms. Returns the root's findings.
    std::vector<StallMonitor::Finding> pass(double seconds, const std::function<HostAccount(std::int64_t)>& of_last) {
        std::vector<StallMonitor::Finding> findings;
        for (const std::int64_t end = now_ + std::llround(seconds * 1e9); now_ < end; now_ += kSecond / 20) {
            for (std::uint32_t host = 0; host < 3; ++host) {
                const auto account = [&](std::int64_t now) {
                    return host == 2 ? of_last(now)
                                     : HostAccount{host, {}, false, {rank(static_cast<int>(host), "saving")}};
                };
                const auto longest_wait_of = [&](std::int64_t now) {
                    if (longest_wait) {
                        return longest_wait(host, now);
                    }
                    const HostAccount known = account(now);
                    return known.tensors.empty() ? 0 : known.tensors.front().seconds;
                };
                StallInquiry::Source source{longest_wait_of, account};
                if (stacks) {
                    source.stacks = [&](std::span<const std::int32_t> ranks, std::int64_t now) {
                        return stacks(host, ranks, now);
                    };
                }
                auto finding = leaders_[host]->turn(now_, source);
                REQUIRE(finding.is_ok());
                if (!finding.value()) {
                    continue;
                }
                if (host == 0) {
                    CHECK(finding.value()->record_because.empty());
                    findings.push_back(*finding.value());
                } else {
                    CHECK(finding.value()->text.empty());
                    records[host].push_back(finding.value()->record_because);
                }
            }
        }
        return findings;
    }

    /// Returns the stacks of a host's ranks, like StallInquiry::Source::stacks.
    std::function<std::optional<std::vector<StallReport::Rank>>(std::uint32_t host, std::span<const std::int32_t> ranks,
                                                                std::int64_t now)>
        stacks;
    /// Returns how long the oldest tensor of a host has waited, like StallInquiry::Source::longest_wait. If this
    /// function is empty, the wait of the first tensor in the host's account (its list of tensors) is used.
    std::function<double(std::uint32_t host, std::int64_t now)> longest_wait;
    /// The reasons that each leader was given when it was asked to write the flight recorders of its host. The key is
    /// the leader's number.
    std::map<std::uint32_t, std::vector<std::string>> records;

private:
    std::vector<std::unique_ptr<collectives::Transport>> transports_;
    std::vector<std::unique_ptr<StallInquiry>> leaders_;
    std::int64_t now_ = kSecond;
};

TEST_CASE("a tensor that only the last host has announced is reported by the root, once an interval", "[unit]") {
    base::Config config;
    config.stall_warning_seconds = 10;
    Chain chain(config);
    const auto waits = [](std::int64_t now) {
        return HostAccount{2, {tensor("weight", static_cast<double>(now - kSecond) / 1e9, {2})}, false, {rank(2)}};
    };
    CHECK(chain.pass(9.5, waits).empty());
    const auto first = chain.pass(5, waits);
    REQUIRE(first.size() == 1);
    CHECK_FALSE(first.front().shut_down);
    CHECK_THAT(first.front().text, Catch::StartsWith("One or more tensors were submitted"));
    CHECK_THAT(first.front().text,
               Catch::Contains("tensor 'weight'") && Catch::Contains("ready: rank 2; missing: ranks 0, 1"));
    CHECK_THAT(first.front().text, Catch::Contains("rank 0 (pid 1000)") && Catch::Contains("busy with 'saving'"));
    // Each of the other leaders was asked to write the flight recorders of its host.
    CHECK(chain.records.size() == 2);
    for (const std::uint32_t host : {1U, 2U}) {
        REQUIRE(chain.records[host].size() == 1);
        CHECK(chain.records[host].front() == summarize_stall(*first.front().report));
    }
    CHECK(chain.pass(8, waits).size() == 1);  // the second report comes one interval after the first one
    CHECK(chain.records[2].size() == 2);
    CHECK(chain.pass(15, waits).empty());  // the third report comes two intervals after the second one
    CHECK(chain.pass(6, waits).size() == 1);
    CHECK(chain.pass(60, [](std::int64_t) { return HostAccount{2, {}, false, {rank(2)}}; }).empty());
}

TEST_CASE("a report has the stacks of missing ranks of other hosts", "[unit]") {
    base::Config config;
    config.stall_warning_seconds = 10;
    Chain chain(config);
    std::map<std::uint32_t, std::int64_t> asked_since;
    chain.stacks = [&](std::uint32_t host, std::span<const std::int32_t> ranks,
                       std::int64_t now) -> std::optional<std::vector<StallReport::Rank>> {
        CHECK(std::vector<std::int32_t>(ranks.begin(), ranks.end()) == std::vector<std::int32_t>{0, 1});
        if (now - asked_since.try_emplace(host, now).first->second < kSecond) {
            return std::nullopt;
        }
        StallReport::Rank own = rank(static_cast<std::int32_t>(host));
        own.stack = "native:\n  f" + std::to_string(host);
        return std::vector{own};
    };
    const auto waits = [](std::int64_t now) {
        return HostAccount{2, {tensor("weight", static_cast<double>(now - kSecond) / 1e9, {2})}, false, {rank(2)}};
    };
    CHECK(chain.pass(10.5, waits).empty());
    const auto findings = chain.pass(4, waits);
    REQUIRE(findings.size() == 1);
    CHECK(asked_since.size() == 3);
    CHECK_THAT(findings.front().text, Catch::Contains("\n    native:\n      f0\n  rank 1 (pid 1001)") &&
                                          Catch::Contains("\n    native:\n      f1") && !Catch::Contains("f2"));
}

TEST_CASE("a report comes without the stacks of a host that does not send them", "[unit]") {
    base::Config config;
    config.stall_warning_seconds = 10;
    Chain chain(config);
    chain.stacks = [](std::uint32_t host, std::span<const std::int32_t> /*ranks*/, std::int64_t /*now*/) {
        return host == 1 ? std::nullopt : std::optional(std::vector<StallReport::Rank>());
    };
    const auto waits = [](std::int64_t now) {
        return HostAccount{2, {tensor("weight", static_cast<double>(now - kSecond) / 1e9, {2})}, false, {rank(2)}};
    };
    CHECK(chain.pass(12, waits).empty());
    const auto findings = chain.pass(6, waits);
    REQUIRE(findings.size() == 1);
    CHECK_THAT(findings.front().text, Catch::Contains("missing: ranks 0, 1") && Catch::Contains("rank 1 (pid 1001)") &&
                                          !Catch::Contains("nothing was heard from the host"));
}

/// A rank that waits for a message of another rank.
StallReport::Rank waiting_for(std::int32_t number, std::int32_t peer, double seconds, bool is_late = true) {
    StallReport::Rank described = rank(number);
    described.waits_in = {tensor("receive from rank " + std::to_string(peer) + ", tag 5", seconds, {})};
    described.waits_in.front().message = {.peer = peer, .is_late = is_late};
    return described;
}

TEST_CASE("late messages of all hosts are in the report", "[unit]") {
    const std::vector<HostAccount> accounts = {
        {0, {}, false, {waiting_for(0, 3, 61), waiting_for(1, 2, 62, false)}},
        {1, {tensor("a", 70, {0, 1, 2})}, false, {waiting_for(2, 3, 80), rank(3, "evaluating")}},
    };
    const StallReport report = merge(accounts, std::vector<std::int32_t>{0, 0, 1, 1}, 60);
    REQUIRE(report.tensors.size() == 3);
    CHECK(report.tensors[0].name == "receive from rank 3, tag 5");
    CHECK(report.tensors[0].ready == std::vector<std::int32_t>{2});
    CHECK(report.tensors[0].missing == std::vector<std::int32_t>{3});
    CHECK(report.tensors[1].name == "a");
    CHECK(report.tensors[2].ready == std::vector<std::int32_t>{0});
    REQUIRE(report.missing_ranks.size() == 1);
    CHECK(report.missing_ranks.front().rank == 3);

    HostAccount damaged{0, {}, false, {waiting_for(0, 4, 61)}};  // there is no rank 4
    CHECK(merge(std::span(&damaged, 1), std::vector<std::int32_t>{0, 0, 1, 1}, 60).tensors.empty());
}

TEST_CASE("the root reports a message between ranks of other hosts, with the stack of the other side", "[unit]") {
    base::Config config;
    config.stall_warning_seconds = 10;
    config.stall_shutdown_seconds = 30;
    Chain chain(config);
    chain.stacks = [](std::uint32_t host, std::span<const std::int32_t> ranks, std::int64_t /*now*/) {
        CHECK(std::vector<std::int32_t>(ranks.begin(), ranks.end()) == std::vector<std::int32_t>{1});
        StallReport::Rank own = rank(static_cast<std::int32_t>(host));
        own.stack = "native:\n  f" + std::to_string(host);
        return std::optional(std::vector{own});
    };
    const auto waits = [](std::int64_t now) {
        const double seconds = static_cast<double>(now - kSecond) / 1e9;
        return HostAccount{2, {}, false, {waiting_for(2, 1, seconds, seconds >= 10)}};
    };
    chain.longest_wait = [](std::uint32_t host, std::int64_t now) {
        return host == 2 ? static_cast<double>(now - kSecond) / 1e9 : 0;
    };
    CHECK(chain.pass(10, waits).empty());
    const auto findings = chain.pass(5, waits);
    REQUIRE(findings.size() == 1);
    CHECK_THAT(findings.front().text, Catch::Contains("\n  receive from rank 1, tag 5: waiting for ") &&
                                          Catch::Contains("; ready: rank 2; missing: rank 1\n  rank 1 (pid 1001)") &&
                                          Catch::Contains("\n    native:\n      f1"));
    const auto end = chain.pass(20, waits);
    REQUIRE_FALSE(end.empty());
    CHECK(end.back().shut_down);
    CHECK_THAT(end.back().text, Catch::StartsWith("receive from rank 1, tag 5 has waited for rank 1 for 3"));
}

TEST_CASE("stacks travel in an account, as many as fit", "[unit]") {
    StallMessage message = account_message();
    message.account.ranks.back().stack = "native:\n  f, a.cpp:1\n  \x1b";
    const Result<StallMessage> parsed = parse_stall_message(encode(message), 4, 2);
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value().account.ranks.front().stack.empty());
    CHECK(parsed.value().account.ranks.back().stack == "native:\n  f, a.cpp:1\n  ?");

    const Result<StallMessage> question =
        parse_stall_message(encode({StallMessageKind::question, 3, {}, {0, 3}}), 4, 2);
    REQUIRE(question.is_ok());
    CHECK(question.value().stacks_of == std::vector<std::int32_t>{0, 3});
    CHECK_FALSE(parse_stall_message(encode({StallMessageKind::question, 3, {}, {0, 4}}), 4, 2).is_ok());

    const Result<StallMessage> record =
        parse_stall_message(encode({.kind = StallMessageKind::record, .reason = "rank 1\nis late"}), 4, 2);
    REQUIRE(record.is_ok());
    CHECK(record.value().kind == StallMessageKind::record);
    CHECK(record.value().reason == "rank 1?is late");
    const std::vector<std::byte> longest =
        encode({.kind = StallMessageKind::record, .reason = std::string(100'000, 'r')});
    CHECK(parse_stall_message(longest, 4, 2).is_ok());
    CHECK_FALSE(parse_stall_message(std::span(longest).first(longest.size() - 1), 4, 2).is_ok());

    StallMessage many{StallMessageKind::account, 1, {}};
    for (int i = 0; i < 64; ++i) {
        many.account.ranks.push_back(rank(i));
        many.account.ranks.back().stack = std::string(10'000, 's');
    }
    const std::vector<std::byte> bytes = encode(many);
    CHECK(bytes.size() <= kMostStallMessageBytes);
    const Result<StallMessage> read = parse_stall_message(bytes, 64, 1);
    REQUIRE(read.is_ok());
    REQUIRE(read.value().account.ranks.size() == 64);
    CHECK(read.value().account.ranks[9].stack.starts_with("sss"));
    CHECK(read.value().account.ranks[63].stack.empty());
}

TEST_CASE("when the time for the shutdown has come, the root gives the reason", "[unit]") {
    base::Config config;
    config.stall_warning_seconds = 10;
    config.stall_shutdown_seconds = 15;
    Chain chain(config);
    const auto findings = chain.pass(20, [](std::int64_t now) {
        return HostAccount{2, {tensor("weight", static_cast<double>(now - kSecond) / 1e9, {2})}, false, {rank(2)}};
    });
    REQUIRE(findings.size() == 2);
    CHECK_FALSE(findings.front().shut_down);
    CHECK(findings.back().shut_down);
    CHECK_THAT(findings.back().text, Catch::Contains("ranks 0, 1") && Catch::Contains("the job is ended"));
}

}  // namespace
}  // namespace rueda::core
