// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/topology.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace rueda::base {

namespace {

Topology topology_of(const std::string& described) {
    Result<Topology> topology = read_topology(described);
    INFO(topology.status().message());
    REQUIRE(topology.is_ok());
    return topology.value();
}

/// A file that is removed together with this object.
class TemporaryFile {
public:
    explicit TemporaryFile(const std::string& content) {
        std::array<char, 32> name{"/tmp/rueda-topology-XXXXXX"};
        const int fd = mkstemp(name.data());
        REQUIRE(fd >= 0);
        close(fd);
        path_ = name.data();
        std::ofstream(path_) << content;
    }
    ~TemporaryFile() { std::remove(path_.c_str()); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

std::string xml(const std::string& objects) {
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
           "<topology version=\"2.0\">\n"
           "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" allowed_cpuset=\"0x3\" "
           "nodeset=\"0x30\" complete_nodeset=\"0x30\" allowed_nodeset=\"0x30\" gp_index=\"1\">\n" +
           objects + "</object>\n</topology>\n";
}

/// A socket with a core, a cache and memory.
std::string socket_xml(int core, int node, const std::string& l2_bytes) {
    const std::string sets = "cpuset=\"0x" + std::to_string(1 << core) + "\" complete_cpuset=\"0x" +
                             std::to_string(1 << core) + "\" nodeset=\"0x" + std::to_string(node == 4 ? 10 : 20) +
                             "\" complete_nodeset=\"0x" + std::to_string(node == 4 ? 10 : 20) + "\" ";
    const auto gp = [&](int n) { return "gp_index=\"" + std::to_string(10 * (core + 1) + n) + "\""; };
    return "<object type=\"Package\" os_index=\"" + std::to_string(core) + "\" " + sets + gp(0) +
           ">\n<object type=\"NUMANode\" os_index=\"" + std::to_string(node) + "\" " + sets + gp(1) +
           " local_memory=\"1073741824\"/>\n<object type=\"L2Cache\" " + sets + gp(2) + " cache_size=\"" + l2_bytes +
           "\" depth=\"2\" cache_linesize=\"64\" cache_associativity=\"8\" cache_type=\"0\">\n<object type=\"PU\" "
           "os_index=\"" +
           std::to_string(core) + "\" " + sets + gp(3) + "/>\n</object>\n</object>\n";
}

}  // namespace

TEST_CASE("a described machine has the caches and nodes of its description", "[topology]") {
    const Topology two = topology_of("numa:2 l2:2(size=3145728) core:1 pu:1");
    CHECK(two.l2_bytes == 3145728);
    CHECK(two.numa_nodes == std::vector<int>{0, 1});
    CHECK_FALSE(two.own_node.has_value());  // the process does not run there

    CHECK(topology_of("numa:4 core:2 pu:2").numa_nodes == std::vector<int>{0, 1, 2, 3});
    CHECK(topology_of("package:2 numa:2 l2:1 pu:1").numa_nodes == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("without information about the second-level cache, one mebibyte is assumed", "[topology]") {
    CHECK(topology_of("numa:2 core:2 pu:1").l2_bytes == 1048576);
    CHECK(topology_of("pu:4").l2_bytes == 1048576);
}

TEST_CASE("memory in other cores' reach is no node of its own", "[topology]") {
    // Each socket has fast memory in addition to its ordinary memory. Both sockets can also use the memory of an
    // expander.
    CHECK(topology_of("package:2 [numa] [numa] core:2 pu:1").numa_nodes.size() == 2);
    CHECK(topology_of("[numa] package:2 [numa] core:2 pu:1").numa_nodes.size() == 2);
}

TEST_CASE("a machine from a file of lstopo", "[topology]") {
    // The second socket's memory has the lower number, as after a memory module was removed.
    const TemporaryFile file(xml(socket_xml(0, 5, "524288") + socket_xml(1, 4, "262144")));
    const Topology topology = topology_of(file.path());
    CHECK(topology.l2_bytes == 524288);
    CHECK(topology.numa_nodes == std::vector<int>{4, 5});
    CHECK_FALSE(topology.own_node.has_value());
}

TEST_CASE("a file that describes no machine is refused in one line", "[topology]") {
    const TemporaryFile rubbish("<topology");
    const TemporaryFile empty("");
    for (const std::string& described :
         {std::string("two nodes"), std::string("numa:x"), std::string("numa:2 nuts:3"), std::string(" "),
          rubbish.path(), empty.path(), std::string("/no/such/file"), std::string("/tmp")}) {
        CAPTURE(described);
        const Result<Topology> refused = read_topology(described);
        REQUIRE_FALSE(refused.is_ok());
        CHECK(refused.status().code() == ErrorCode::invalid_argument);
        const std::string text = refused.status().message();
        CHECK(text.find("RUEDA_TOPOLOGY is '" + described + "'") == 0);
        CHECK(text.find("expected hwloc's synthetic description, e.g. 'numa:2 l2:2 core:1 pu:1'") != std::string::npos);
        CHECK(text.find('\n') == std::string::npos);
    }
    CHECK(read_topology("/no/such/file").status().message().find("(No such file or directory)") != std::string::npos);
}

TEST_CASE("this machine: the cache size of the kernel's files, and the node of a process that is bound to one core",
          "[topology]") {
    const Topology machine = topology_of("");
    std::size_t kibibytes = 0;
    std::ifstream("/sys/devices/system/cpu/cpu0/cache/index2/size") >> kibibytes;
    if (kibibytes > 0) {
        CHECK(machine.l2_bytes == kibibytes * 1024);
    }
    CHECK(machine.l2_bytes >= 65536);

    // Tests a bound process in a child, because this process may have other threads.
    const pid_t child = fork();
    if (child == 0) {
        cpu_set_t first;
        cpu_set_t mask;
        CPU_ZERO(&first);
        sched_getaffinity(0, sizeof(mask), &mask);
        for (std::size_t core = 0; core < CPU_SETSIZE && CPU_COUNT(&first) == 0; ++core) {
            if (CPU_ISSET(core, &mask)) {
                CPU_SET(core, &first);
            }
        }
        sched_setaffinity(0, sizeof(first), &first);
        const Result<Topology> bound = read_topology("");
        const bool expected = bound.is_ok() && (bound.value().numa_nodes.empty() || bound.value().own_node.has_value());
        _exit(expected ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

}  // namespace rueda::base
