// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/doctor/doctor.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <string>

#include "launcher/doctor/look_for_plugins.hpp"
#include "launcher/processes/captured_run.hpp"
#include "rueda/version.h"

namespace rueda::launcher {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// Returns the facts about a machine without any problem.
DoctorFacts healthy() {
    DoctorFacts facts;
    facts.mpi = MpiLauncher{"/usr/bin/mpirun", MpiKind::open_mpi, "Open MPI 4.1.4", 4};
    facts.plugins = PluginFacts{"/usr/lib", false, {{"/usr/lib/librueda_mpi.so", "", true}}};
    facts.usable_cores = facts.cores_in_mask = facts.cores_online = 8;
    facts.load = 0.5;
    facts.memory = base::MemoryLimits{16 * kGiB, "/proc/meminfo", base::MemoryLimits::kUnlimited};
    facts.shm_bytes = 8 * kGiB;
    facts.descriptors = 65536;
    facts.temporary_folder = "/tmp";
    facts.environment = {{"PATH", "/bin"}};
    return facts;
}

Finding finding(const DoctorFacts& facts, const std::string& subject, const std::string& text = "") {
    for (const Finding& one : examine(facts)) {
        if (one.subject == subject && (one.found + one.advice).find(text) != std::string::npos) {
            return one;
        }
    }
    return {Severity::fine, "(none)", "", ""};
}

TEST_CASE("a healthy machine", "[unit]") {
    const std::vector<Finding> findings = examine(healthy());
    CHECK(exit_status_of(findings) == 0);
    CHECK(describe(findings).find("ok       mpirun: /usr/bin/mpirun, Open MPI 4.1.4\n") != std::string::npos);
    CHECK(describe(findings).ends_with("\n0 warnings, 0 errors\n"));
    for (const Finding& one : findings) {
        CAPTURE(one.subject);
        CHECK(one.advice.empty());
        CHECK_FALSE(one.found.empty());
    }
}

TEST_CASE("each trouble is found, has a severity, and comes with advice", "[unit]") {
    struct Case {
        const char* subject;
        Severity severity;
        void (*spoil)(DoctorFacts&);
    };
    const std::vector<Case> cases = {
        {"mpirun", Severity::warning,
         [](DoctorFacts& f) {
             f.mpi.reset();
             f.no_mpi_reason = "no mpirun";
         }},
        {"mpirun", Severity::error,
         [](DoctorFacts& f) {
             f.mpi.reset();
             f.no_mpi_reason = "no mpirun";
             f.hosts.resize(1);
         }},
        {"MPI plugin", Severity::error, [](DoctorFacts& f) { f.plugins->plugins.clear(); }},
        {"MPI plugin", Severity::error, [](DoctorFacts& f) { f.plugins->plugins[0].is_for_open_mpi = false; }},
        {"MPI plugin", Severity::error, [](DoctorFacts& f) { f.mpi->kind = MpiKind::mpich; }},
        {"MPI plugin", Severity::error, [](DoctorFacts& f) { f.plugins->plugins[0].problem = "no libmpi.so.40"; }},
        {"MPI plugin", Severity::warning, [](DoctorFacts& f) { f.plugins = PluginFacts{}; }},
        {"cores", Severity::warning, [](DoctorFacts& f) { f.ranks = 9; }},
        {"cores", Severity::warning, [](DoctorFacts& f) { f.usable_cores = 1.5; }},
        {"load", Severity::warning, [](DoctorFacts& f) { f.load = 5; }},
        {"clock of the cores", Severity::warning, [](DoctorFacts& f) { f.governor = "powersave"; }},
        {"threads", Severity::warning,
         [](DoctorFacts& f) {
             f.ranks = 4;
             f.environment["OMP_NUM_THREADS"] = "8";
         }},
        {"memory", Severity::error, [](DoctorFacts& f) { f.memory->available_bytes = 1000; }},
        {"memory", Severity::warning, [](DoctorFacts& f) { f.memory.reset(); }},
        {"locked memory", Severity::warning,
         [](DoctorFacts& f) {
             f.locked_bytes = 65536;
             f.has_pinning_device = true;
         }},
        {"shared memory", Severity::warning, [](DoctorFacts& f) { f.shm_bytes = 1 << 20; }},
        {"shared memory", Severity::error, [](DoctorFacts& f) { f.can_share_memory = false; }},
        {"processes", Severity::error, [](DoctorFacts& f) { f.can_watch_processes = false; }},
        {"processes", Severity::warning, [](DoctorFacts& f) { f.ptrace_scope = "2"; }},
        {"sockets", Severity::error, [](DoctorFacts& f) { f.can_use_sockets = false; }},
        {"open files", Severity::warning, [](DoctorFacts& f) { f.descriptors = 256; }},
        {"temporary files", Severity::error, [](DoctorFacts& f) { f.temporary_folder_is_writable = false; }},
        {"temporary files", Severity::warning, [](DoctorFacts& f) { f.temporary_folder.assign(90, 'x'); }},
        {"network", Severity::error, [](DoctorFacts& f) { f.has_loopback = false; }},
        {"environment", Severity::warning, [](DoctorFacts& f) { f.environment["PMI_RANK"] = "3"; }},
        {"settings", Severity::error, [](DoctorFacts& f) { f.environment["RUEDA_SLOTS"] = "many"; }},
        {"settings", Severity::warning, [](DoctorFacts& f) { f.environment["RUEDA_SLOT"] = "4"; }},
    };
    for (const Case& one : cases) {
        CAPTURE(one.subject, static_cast<int>(one.severity));
        DoctorFacts facts = healthy();
        one.spoil(facts);
        const std::vector<Finding> findings = examine(facts);
        const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& other) {
            return other.subject == one.subject && other.severity == one.severity;
        });
        REQUIRE(found != findings.end());
        CHECK_FALSE(found->advice.empty());
        CHECK(exit_status_of(findings) >= static_cast<int>(one.severity));
    }
}

TEST_CASE("a harmless fact causes no warning", "[unit]") {
    DoctorFacts facts = healthy();
    facts.locked_bytes = 8 << 20;  // Debian's default limit of locked memory; enough if no device pins memory
    facts.cores_in_mask = facts.usable_cores = 4;
    facts.ranks = 4;
    facts.environment["OMP_NUM_THREADS"] = "1";
    CHECK(exit_status_of(examine(facts)) == 0);
    CHECK(finding(facts, "cores", "bound to them, out of 8").severity == Severity::fine);
}

TEST_CASE("the plugin has to fit the mpirun", "[unit]") {
    DoctorFacts facts = healthy();
    facts.plugins->plugins.push_back({"/usr/lib/librueda_mpich.so", "libmpich.so.12: no such file", false});
    CHECK(finding(facts, "MPI plugin", "librueda_mpi.so fits").severity == Severity::fine);
    facts.mpi->kind = MpiKind::intel_mpi;
    const Finding none = finding(facts, "MPI plugin");
    CHECK(none.severity == Severity::error);
    CHECK(none.found.find("librueda_mpi.so: it is for Open MPI") != std::string::npos);
    CHECK(none.found.find("librueda_mpich.so: libmpich.so.12: no such file") != std::string::npos);
    facts.plugins->plugins[1].problem.clear();
    CHECK(finding(facts, "MPI plugin", "librueda_mpich.so fits").severity == Severity::fine);
    facts.plugins = PluginFacts{"", true, {{"/named.so", "no such file", true}}};
    CHECK(finding(facts, "MPI plugin", "/named.so: no such file").severity == Severity::error);
}

TEST_CASE("UCX is an error only if the job needs it and cannot have it", "[unit]") {
    DoctorFacts facts = healthy();
    const auto severity = [&](const std::string& text) {
        const Finding found = finding(facts, "UCX", text);
        REQUIRE(found.subject == "UCX");
        return found.severity;
    };
    CHECK(severity("there is no plugin for it; data between hosts goes over MPI") == Severity::fine);
    facts.plugins->ucx = PluginProbe{"/usr/lib/librueda_ucx.so", "libucp.so.0: no such file", true};
    CHECK(severity("librueda_ucx.so cannot be used: libucp.so.0: no such file") == Severity::fine);
    facts.environment["RUEDA_TRANSPORT"] = "ucx";
    CHECK(severity("libucp.so.0: no such file") == Severity::error);
    CHECK(severity("libucx0") == Severity::error);
    facts.plugins->ucx->problem.clear();
    CHECK(severity("/usr/lib/librueda_ucx.so works") == Severity::fine);
    facts.plugins->ucx->library = "UCX 1.13.1 (/usr/lib/libucp.so.0)";
    CHECK(severity("/usr/lib/librueda_ucx.so works, with UCX 1.13.1 (/usr/lib/libucp.so.0)") == Severity::fine);
    facts.plugins->ucx.reset();
    CHECK(severity("there is no plugin for it") == Severity::error);
    CHECK(severity("libucx-dev") == Severity::error);
}

TEST_CASE("without an mpirun, jobs on several hosts need UCX", "[unit]") {
    DoctorFacts facts = healthy();
    facts.mpi.reset();
    facts.no_mpi_reason = "no mpirun";
    facts.hosts.resize(1);
    CHECK(finding(facts, "mpirun", "or start jobs with --no-mpi, which needs ssh and UCX").severity == Severity::error);
    CHECK(finding(facts, "UCX", "or install Open MPI").severity == Severity::error);
    facts.plugins->ucx = PluginProbe{"/usr/lib/librueda_ucx.so", "", true};
    CHECK(finding(facts, "mpirun", "start jobs on several hosts with --no-mpi").severity == Severity::warning);
    CHECK(finding(facts, "UCX", "librueda_ucx.so works").subject == "UCX");
}

TEST_CASE("a plugin that crashes, hangs or is not a plugin harms only its child process", "[unit]") {
    using namespace std::chrono_literals;
    CHECK(probe_plugin("/nonexistent/librueda_mpi.so", 10s).problem.find("No such file") != std::string::npos);
    CHECK(probe_plugin("libc.so.6", 10s).problem == "it is no MPI plugin of Rueda");
    CHECK(probe_plugin("libc.so.6", 10s, PluginKind::ucx).problem == "it is no UCX plugin of Rueda");
    CHECK(probe_plugin(RUEDA_CRASHING_PLUGIN, 10s).problem.find("by signal 6") != std::string::npos);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(probe_plugin(RUEDA_HANGING_PLUGIN, 300ms).problem == "loading it takes more than 0.3 s");
    CHECK(std::chrono::steady_clock::now() - begin < 8s);
}

#if defined(RUEDA_UCX_PLUGIN_FILE)
TEST_CASE("the plugin for UCX is tried, not only loaded", "[unit]") {
    using namespace std::chrono_literals;
    const PluginProbe probe = probe_plugin(RUEDA_UCX_PLUGIN_FILE, 60s, PluginKind::ucx);
    CHECK(probe.problem.empty());
    CHECK_THAT(probe.library, Catch::Matches("UCX [0-9]+\\.[0-9]+\\.[0-9]+ \\(/.*/libucp\\.so\\.0\\)"));
    REQUIRE(::setenv("UCX_TLS", "none_such", 1) == 0);
    const std::string problem = probe_plugin(RUEDA_UCX_PLUGIN_FILE, 60s, PluginKind::ucx).problem;
    REQUIRE(::unsetenv("UCX_TLS") == 0);
    CHECK(problem.find("ucp_") == 0);
}
#endif

TEST_CASE("the finding about huge pages is the kernel's setting", "[unit]") {
    DoctorFacts facts = healthy();
    const std::vector<std::pair<const char*, const char*>> cases = {
        {"[always] within_size advise never deny force", "for all shared memory"},
        {"always within_size advise never deny [force]", "for all shared memory"},
        {"always [within_size] advise never deny force", "but none beyond its end"},
        {"always within_size [advise] never deny force", "that asks for them"},
        {"always within_size advise [never] deny force", "not for shared memory"},
        {"always within_size advise never [deny] force", "not for shared memory"},
        {"", "does not say"},
    };
    for (const auto& [text, expected] : cases) {
        CAPTURE(text);
        facts.huge_pages_shared = text;
        CHECK(finding(facts, "huge pages", expected).subject == "huge pages");
    }
}

TEST_CASE("the overall time of captured programs is limited, however many there are", "[unit]") {
    using namespace std::chrono_literals;
    const std::vector<std::vector<std::string>> commands(6, {"sleep", "20"});
    const auto begin = std::chrono::steady_clock::now();
    const auto runs = run_all_captured(commands, {{"PATH", "/usr/bin:/bin"}}, {400ms, 600ms}, 2);
    CHECK(std::chrono::steady_clock::now() - begin < 10s);
    REQUIRE(runs.is_ok());
    REQUIRE(runs.value().size() == 6);
    CHECK(runs.value()[0].was_started);
    CHECK_FALSE(runs.value()[0].in_time);
    CHECK_FALSE(runs.value()[5].was_started);
    CHECK_FALSE(runs.value()[5].in_time);
}

TEST_CASE("the answer of a host is found among other lines", "[unit]") {
    const std::string echo =
        std::string("Warning: added b to the list of known hosts\nrueda-doctor 1000.250 ") + RUEDA_VERSION + "\n";
    const HostProbe fine = read_doctor_echo("b", echo, 1000, 1001);
    CHECK(fine.reached);
    CHECK(fine.problem.empty());
    CHECK(fine.version == RUEDA_VERSION);
    CHECK(fine.clock_ahead_seconds == 0);
    CHECK(read_doctor_echo("b", echo, 990, 995).clock_ahead_seconds == Approx(5.25));
    CHECK(read_doctor_echo("b", echo, 1010, 1011).clock_ahead_seconds == Approx(-9.75));
    const HostProbe silent = read_doctor_echo("b", "-----\nssh: connect to host b port 22: refused\nmore\n", 0, 1);
    CHECK_FALSE(silent.reached);
    CHECK(silent.problem == "'ssh: connect to host b port 22: refused'");
    for (const char* text : {"rueda-doctor", "rueda-doctor x 1", "rueda-doctor 12", ""}) {
        CAPTURE(text);
        CHECK_FALSE(read_doctor_echo("b", text, 0, 1).reached);
    }
}

TEST_CASE("findings about a host", "[unit]") {
    DoctorFacts facts = healthy();
    facts.hosts = {{"b", true, "", RUEDA_VERSION, 0.4}};
    facts.own_names = {"a"};
    CHECK(exit_status_of(examine(facts)) == 0);
    const std::string all = describe(examine(facts));
    for (const char* const line :
         {"ok       host a: is this host", "ok       host b: mpirun reaches it", "ok       host b: has Rueda",
          "ok       host b: its clock differs from this host's by at most 1 s"}) {
        CAPTURE(line);
        CHECK(all.find(line) != std::string::npos);
    }
    facts.hosts[0].clock_ahead_seconds = -3;
    CHECK(finding(facts, "host b", "3.0 s behind").severity == Severity::warning);
    facts.hosts[0].version = "0.0.1";
    CHECK(finding(facts, "host b", "has Rueda 0.0.1").severity == Severity::error);
    facts.hosts[0].reached = false;
    CHECK(finding(facts, "host b", "does not answer").severity == Severity::error);
    facts.has_network = false;
    CHECK(finding(facts, "network", "no interface").severity == Severity::error);
}

}  // namespace
}  // namespace rueda::launcher
