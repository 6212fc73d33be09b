// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/hosts/hosts.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "launcher/hosts/placement.hpp"

namespace rueda::launcher {
namespace {

using Hosts = std::vector<Host>;
using Names = std::vector<std::string>;
using Numbers = std::vector<int>;
using Environment = std::map<std::string, std::string>;
using Shares = std::vector<HostShare>;

template <class T>
T value(Result<T> result) {
    INFO(result.status().message());
    REQUIRE(result.is_ok());
    return std::move(result).value();
}

template <class T>
std::string message(const Result<T>& result) {
    REQUIRE_FALSE(result.is_ok());
    CHECK(result.status().code() == ErrorCode::invalid_argument);
    CHECK(result.status().message().find('\n') == std::string::npos);
    return result.status().message();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("hosts of the command line", "[unit]") {
    CHECK(value(parse_host_option("a:2,b:3")) == Hosts{{"a", 2, 0}, {"b", 3, 0}});
    CHECK(value(parse_host_option("a")) == Hosts{{"a", 0, 0}});
    CHECK(value(parse_host_option("n-1.example.org:8, 10.0.0.7:1")) ==
          Hosts{{"n-1.example.org", 8, 0}, {"10.0.0.7", 1, 0}});
    CHECK(value(parse_host_option("[fe80::1]:2,[::1]")) == Hosts{{"fe80::1", 2, 0}, {"::1", 0, 0}});
    CHECK(value(parse_host_option("a:2,b,a:1")) == Hosts{{"a", 3, 0}, {"b", 0, 0}});
    CHECK(value(parse_host_option("a,a,a")) == Hosts{{"a", 3, 0}});
    for (const char* text : {"", "a:", "a:0", "a:-1", "a:x", "a,,b", "-oProxyCommand=x:1", "a b", "a:2:3", "[a", "[]:2",
                             "a;b", "$(x)", "a:99999999999", "[::1]x", "user@a", "3", "a:1,12:2"}) {
        CAPTURE(text);
        CHECK(contains(message(parse_host_option(text)), "-H has"));
    }
    CHECK(contains(message(parse_host_option("ann@a:2")), "'ann' of 'a:2'; mpirun gets no names of users"));
}

TEST_CASE("host files of all launchers", "[unit]") {
    const std::string file =
        "# our machines\n"
        "\n"
        "a slots=4 max_slots=8   # the big one\r\n"
        "b  slots = 2\n"
        "\tc:3\n"
        "d max-slots=5\n"
        "[fe80::2]:1\n"
        "b\n";
    CHECK(value(parse_host_file(file, "f")) ==
          Hosts{{"a", 4, 8}, {"b", 3, 0}, {"c", 3, 0}, {"d", 0, 5}, {"fe80::2", 1, 0}});
    CHECK(value(parse_host_file("last", "f")) == Hosts{{"last", 0, 0}});
}

TEST_CASE("other launchers' words in host files keep their meaning, or are ignored with a note", "[unit]") {
    const std::string file =
        "a cpu=2\n"
        "b count = 3 slots_max=4\n"
        "c:2 binding=user:0,1 ifname=eth1\n"
        "d:1 binding=rr\n";
    std::vector<std::string> notes;
    CHECK(value(parse_host_file(file, "hosts.txt", &notes)) ==
          Hosts{{"a", 2, 0}, {"b", 3, 4}, {"c", 2, 0}, {"d", 1, 0}});
    REQUIRE(notes.size() == 2);
    CHECK(notes[0].find("hosts.txt:3: binding= is ignored: ruedarun leaves ranks unbound") == 0);
    CHECK(notes[1].find("hosts.txt:3: ifname= is ignored: --network-interfaces") == 0);
    CHECK(value(parse_host_file(file, "hosts.txt")).size() == 4);
    for (const char* line : {"ann@a", "ann@a slots=2", "a username=ann", "a:2 user=ann"}) {
        CAPTURE(line);
        const std::string text = message(parse_host_file(line, "hosts.txt"));
        CHECK(contains(text, "hosts.txt:1: found the user 'ann' of 'a'; mpirun gets no names of users"));
        CHECK(contains(text, "~/.ssh/config"));
    }
}

TEST_CASE("the error about a wrong line of a host file says what was expected", "[unit]") {
    const auto wrong = [](const std::string& text) { return message(parse_host_file(text, "hosts.txt")); };
    CHECK(wrong("a slots=2\nb slot=2\n") ==
          "hosts.txt:2: found 'slot=2'; expected slots=N or max_slots=N behind the host's name");
    CHECK(contains(wrong("\n\na slots=two"), "hosts.txt:3: found 'slots=two'; expected a number from 1 to"));
    CHECK(contains(wrong("a 4"), "hosts.txt:1: found '4'; expected slots=N"));
    CHECK(contains(wrong("-a slots=2"), "hosts.txt:1: found '-a'; expected the name of a host"));
    CHECK(contains(wrong("a:0"), "hosts.txt:1: found 'a:0'"));
    CHECK(contains(wrong("a slots=4 max_slots=2"), "max_slots is 2 and slots is 4"));
    CHECK(contains(wrong("a slots="), "found 'slots='"));
    CHECK(contains(wrong("a count=0"), "found 'count=0'; expected a number from 1 to"));
    CHECK(contains(wrong("a cpus=2"), "found 'cpus=2'; expected slots=N"));
    CHECK(contains(wrong("a binding"), "found 'binding'; expected slots=N"));
    CHECK(contains(wrong("@a"), "found '@a'; expected the name of a host"));
    CHECK(contains(wrong("# nothing\n"), "hosts.txt: no host is in it"));
    CHECK(contains(wrong(""), "no host"));
}

TEST_CASE("Slurm's short forms", "[unit]") {
    CHECK(value(expand_slurm_names("n[01-03,7],m2")) == Names{"n01", "n02", "n03", "n7", "m2"});
    CHECK(value(expand_slurm_names("alone")) == Names{"alone"});
    CHECK(value(expand_slurm_names("r[1-2]n[08-10]x")) ==
          Names{"r1n08x", "r1n09x", "r1n10x", "r2n08x", "r2n09x", "r2n10x"});
    CHECK(value(expand_slurm_names("a,b[3],c")) == Names{"a", "b3", "c"});
    for (const char* text : {"", "n[", "n[1-", "n[2-1]", "n[a]", "n[]", "a,,b", "n[1]]", "-n[1-2]", "n[1-99999999]",
                             "n[1-9999]m[1-9999]", "n[[1-2]]", "n 1"}) {
        CAPTURE(text);
        CHECK(contains(message(expand_slurm_names(text)), "no list of hosts"));
    }
    CHECK(value(expand_slurm_counts("2(x3),1")) == Numbers{2, 2, 2, 1});
    CHECK(value(expand_slurm_counts("16")) == Numbers{16});
    for (const char* text : {"", "2(x3", "2(x)", "x3", "2,", "0", "2(x0)", "1(x99999999)", "2(3)"}) {
        CAPTURE(text);
        CHECK(contains(message(expand_slurm_counts(text)), "no list of numbers"));
    }
}

TEST_CASE("a Slurm allocation gives hosts, slots and ranks", "[unit]") {
    Environment environment = {{"SLURM_JOB_ID", "17"},
                               {"SLURM_JOB_NODELIST", "n[1-3]"},
                               {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                               {"SLURM_NTASKS", "5"},
                               {"SLURM_JOB_CPUS_PER_NODE", "8(x2),6"}};
    const HostList list = value(hosts_of_slurm(environment)).value();
    CHECK(list.hosts == Hosts{{"n1", 2, 8}, {"n2", 2, 8}, {"n3", 1, 6}});
    CHECK(list.ranks == 5);
    CHECK(list.cores == 6);
    CHECK(list.origin == "the Slurm allocation 17");

    environment.erase("SLURM_TASKS_PER_NODE");
    environment.erase("SLURM_NTASKS");
    environment["SLURM_CPUS_PER_TASK"] = "4";
    CHECK(value(hosts_of_slurm(environment))->hosts == Hosts{{"n1", 2, 2}, {"n2", 2, 2}, {"n3", 1, 1}});
    CHECK_FALSE(value(hosts_of_slurm(environment))->ranks.has_value());

    environment["SLURM_TASKS_PER_NODE"] = "1";
    CHECK(contains(message(hosts_of_slurm(environment)), "for 1 hosts, but SLURM_JOB_NODELIST has 3"));
    // Under `srun -n 1 ruedarun`, SLURM_NTASKS describes only the step and not the allocation.
    environment["SLURM_STEP_ID"] = "0";
    environment["SLURM_NTASKS"] = "1";
    const HostList in_step = value(hosts_of_slurm(environment)).value();
    CHECK(in_step.hosts == Hosts{{"n1", 2, 2}, {"n2", 2, 2}, {"n3", 1, 1}});
    CHECK_FALSE(in_step.ranks.has_value());

    CHECK_FALSE(value(hosts_of_slurm({})).has_value());
    CHECK_FALSE(value(hosts_of_slurm({{"SLURM_JOB_NODELIST", ""}})).has_value());
    CHECK(contains(message(hosts_of_slurm({{"SLURM_JOB_NODELIST", "n["}})), "SLURM_JOB_NODELIST"));
    CHECK(contains(message(hosts_of_slurm({{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_NTASKS", "many"}})), "'many'"));
}

TEST_CASE("SageMaker's variables give hosts", "[unit]") {
    Environment environment = {{"SM_HOSTS", R"(["algo-1","algo-2"])"},
                               {"SM_NUM_GPUS", "4"},
                               {"SM_NUM_CPUS", "32"},
                               {"SM_CURRENT_HOST", "algo-1"}};
    const HostList list = value(hosts_of_sagemaker(environment)).value();
    CHECK(list.hosts == Hosts{{"algo-1", 4, 0}, {"algo-2", 4, 0}});
    CHECK(list.cores == 32);
    CHECK(list.own == "algo-1");
    environment["SM_NUM_GPUS"] = "0";
    CHECK(value(hosts_of_sagemaker(environment))->hosts.front().slots == 1);
    CHECK_FALSE(value(hosts_of_sagemaker({})).has_value());
    for (const char* text : {"algo-1", "[]", "{}", "[1]", "[\"-x\"]", "[\"a:2\"]", "[\"a\",\"b,c\"]", "[\"a\""}) {
        CAPTURE(text);
        CHECK(contains(message(hosts_of_sagemaker({{"SM_HOSTS", text}})), "SM_HOSTS"));
    }
    CHECK(contains(message(hosts_of_sagemaker({{"SM_HOSTS", "[\"a\"]"}, {"SM_NUM_GPUS", "-1"}})), "SM_NUM_GPUS"));
}

HostList listed(Hosts hosts) {
    HostList list;
    list.hosts = std::move(hosts);
    list.origin = "-H";
    return list;
}

TEST_CASE("ranks fill the slots of the hosts in their order", "[unit]") {
    const HostList list = listed({{"a", 4, 0}, {"b", 2, 0}});
    CHECK(value(place_ranks(list, std::nullopt, std::nullopt)).shares == Shares{{"a", 4}, {"b", 2}});
    CHECK(value(place_ranks(list, 5, std::nullopt)).shares == Shares{{"a", 4}, {"b", 1}});
    CHECK(value(place_ranks(list, 3, std::nullopt)).shares == Shares{{"a", 3}});
    CHECK(message(place_ranks(list, 7, std::nullopt)) ==
          "there are to be 7 processes, but -H has place for 6 (a:4, b:2); give the hosts more slots, or use "
          "--processes-per-host");
    CHECK(value(place_ranks(listed({{"a", 2, 4}, {"b", 2, 0}}), 6, std::nullopt)).shares == Shares{{"a", 4}, {"b", 2}});
    CHECK_FALSE(place_ranks(listed({{"a", 2, 4}, {"b", 2, 0}}), 7, std::nullopt).is_ok());
    CHECK(value(place_ranks(listed({{"a", 1, 64}, {"b", 1, 64}}), 8, std::nullopt)).shares ==
          Shares{{"a", 4}, {"b", 4}});
    CHECK(value(place_ranks(listed({{"a", 1, 2}, {"b", 1, 9}}), 6, std::nullopt)).shares == Shares{{"a", 2}, {"b", 4}});
}

TEST_CASE("hosts without slots share the ranks evenly", "[unit]") {
    const HostList list = listed({{"a", 0, 0}, {"b", 0, 0}, {"c", 0, 0}});
    CHECK(value(place_ranks(list, 8, std::nullopt)).shares == Shares{{"a", 3}, {"b", 3}, {"c", 2}});
    CHECK(value(place_ranks(list, 2, std::nullopt)).shares == Shares{{"a", 1}, {"b", 1}});
    CHECK(value(place_ranks(list, std::nullopt, std::nullopt)).shares == Shares{{"a", 1}, {"b", 1}, {"c", 1}});
    // A host without a number of slots has one slot if another host has a number of slots.
    CHECK(value(place_ranks(listed({{"a", 3, 0}, {"b", 0, 0}}), 4, std::nullopt)).shares == Shares{{"a", 3}, {"b", 1}});
}

TEST_CASE("--processes-per-host wins over the slots", "[unit]") {
    const HostList list = listed({{"a", 4, 0}, {"b", 1, 0}});
    CHECK(value(place_ranks(list, std::nullopt, 2)).shares == Shares{{"a", 2}, {"b", 2}});
    CHECK(value(place_ranks(list, 3, 2)).shares == Shares{{"a", 2}, {"b", 1}});
    CHECK(contains(message(place_ranks(list, 5, 2)), "raise --processes-per-host"));
    const Placement placement = value(place_ranks(list, 3, 2));
    CHECK(ranks_of(placement) == 3);
    CHECK(most_ranks_on_a_host(placement) == 2);
    CHECK_FALSE(all_are_equal(placement.shares));
}

TEST_CASE("the number of tasks of an allocation counts if the user gives no other number", "[unit]") {
    HostList list = listed({{"a", 4, 0}, {"b", 4, 0}});
    list.ranks = 5;
    CHECK(value(place_ranks(list, std::nullopt, std::nullopt)).shares == Shares{{"a", 4}, {"b", 1}});
    CHECK(value(place_ranks(list, std::nullopt, 1)).shares == Shares{{"a", 1}, {"b", 1}});
    CHECK(value(place_ranks(list, 8, std::nullopt)).shares == Shares{{"a", 4}, {"b", 4}});
}

}  // namespace
}  // namespace rueda::launcher
