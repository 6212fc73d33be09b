// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the texts between ruedarun and its supervisors, and the addresses for their connections.
#include "launcher/supervisor/supervisor_protocol.hpp"

#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "launcher/connection/control_address.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/supervisor/agent_order.hpp"

namespace rueda::launcher {
namespace {

RankEnd report_of(const std::string& text) {
    RankEnd end;
    read_report(text, end);
    return end;
}

TEST_CASE("a greeting survives the journey, without characters that harm a terminal", "[unit]") {
    const Greeting same =
        parse_greeting(encode_greeting({"b", 4711, "b 1 2 3 4", "2\t0,1\t\t", "10.0.0.1:5", "tcp:10.0.0.1:4711"}));
    CHECK(same.rendezvous == "tcp:10.0.0.1:4711");
    CHECK(same.gpus == "2\t0,1\t\t");
    CHECK(same.endpoints == "10.0.0.1:5");
    CHECK(same.host == "b");
    CHECK(same.master_port == 4711);
    CHECK(same.host_key == "b 1 2 3 4");
    CHECK(parse_greeting("\x1b[31mb\xff \n70000\n").host == "[31mb");
    CHECK(parse_greeting("b\n70000\n").master_port == 0);
    CHECK(parse_greeting("").host.empty());
}

TEST_CASE("the order for the agent of a host survives the journey", "[unit]") {
    const AgentOrder order{"/a folder",
                           2,
                           3,
                           4,
                           {"--", "./train", "", "two\nlines"},
                           {{"A", "x=y"}, {"EMPTY", ""}, {"GONE", std::nullopt}}};
    const std::string text = encode_order(order);
    const std::optional<AgentOrder> same = parse_order(text);
    REQUIRE(same);
    CHECK(same->folder == "/a folder");
    CHECK(same->first_rank == 2);
    CHECK(same->ranks == 3);
    CHECK(same->local_ranks == 4);
    CHECK(same->arguments == order.arguments);
    CHECK(changed_environment({{"GONE", "1"}}, same->variables) == Environment{{"A", "x=y"}, {"EMPTY", ""}});
    for (std::size_t length = 0; length < text.size(); ++length) {
        CAPTURE(length);
        CHECK_FALSE(parse_order(text.substr(0, length)));
    }
    CHECK_FALSE(parse_order(text + "x"));
    CHECK_FALSE(parse_order("rueda-agent 1" + text.substr(13)));
}

TEST_CASE("a report about the end of a rank survives the journey", "[unit]") {
    RankEnd end;
    CHECK(encode_report(end).empty());
    end.by_launcher = true;
    end.steps = {3, 17};
    end.oom_kills = {2, "/sys/fs/cgroup/memory.events"};
    end.abort_reason = "host b has not answered\nsteps 9 9";
    const RankEnd same = report_of(encode_report(end));
    CHECK(same.by_launcher);
    CHECK(same.steps.first == 3);
    CHECK(same.steps.last == 17);
    CHECK(same.oom_kills.processes == 2);
    CHECK(same.oom_kills.counted_in == "/sys/fs/cgroup/memory.events");
    CHECK(same.abort_reason == "host b has not answered?steps 9 9");
}

TEST_CASE("lines of a report that say nothing are passed over", "[unit]") {
    for (const char* text : {"", "\n\n", "by launcher", "steps", "steps 3", "steps 3 ", "steps  17", "steps 17 3",
                             "steps -1 3", "steps 3 17 ", "steps a b", "steps 99999999999999999999 1",
                             "steps 0 9223372036854775807", "oom_kills", "oom_kills 0 /f", "oom_kills -1 /f"}) {
        CAPTURE(text);
        const RankEnd end = report_of(text);
        CHECK_FALSE(end.by_launcher);
        CHECK_FALSE(end.steps.is_known());
        CHECK(end.oom_kills.processes == 0);
        CHECK(end.abort_reason.empty());
    }
    CHECK(report_of("nonsense\nsteps 3 17").steps.last == 17);
    CHECK(report_of("oom_kills 1 /a\x1b[2J").oom_kills.counted_in == "/a?[2J");
    CHECK(report_of("oom_kills 1 a\x1b" + std::string(1000, 'x')).oom_kills.counted_in.size() <= 256);
}

TEST_CASE("the address of ruedarun, as a text", "[unit]") {
    const auto address = parse_control_address("0ff@10.0.0.1:4711,[fd00::1]:80");
    REQUIRE(address.is_ok());
    CHECK(address.value().secret == "0ff");
    CHECK(address.value().endpoints == std::vector<std::string>{"10.0.0.1:4711", "[fd00::1]:80"});
    CHECK(format_control_address(address.value()) == "0ff@10.0.0.1:4711,[fd00::1]:80");
    CHECK(parse_control_address("0ff@@ruedarun-1").value().endpoints == std::vector<std::string>{"@ruedarun-1"});
    for (const std::string& text :
         {std::string(), std::string("secret"), std::string("secret@"), std::string("@10.0.0.1:1"),
          std::string("s@10.0.0.1"), std::string("s@name:80"), std::string("s@10.0.0.1:99999"),
          std::string("s@10.0.0.1:80,"), std::string("s@10.0.0.1:80,x"), std::string("s@@"),
          "s@@" + std::string(200, 'x')}) {
        CAPTURE(text);
        // A comma at the end is accepted, although no other address follows.
        CHECK(parse_control_address(text).is_ok() == (text == "s@10.0.0.1:80,"));
    }
}

}  // namespace
}  // namespace rueda::launcher
