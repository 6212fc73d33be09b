// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/settings/config.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "base/settings/configuration_page.hpp"
#include "base/settings/setting_text.hpp"
#include "base/settings/settings.hpp"

namespace rueda::base {

namespace {

using Variables = std::map<std::string, std::string>;

Config read(const Variables& variables) {
    Result<Config> config = read_config(environment_of(variables));
    INFO(config.status().message());
    REQUIRE(config.is_ok());
    return config.value();
}

std::string refused(const Variables& variables) {
    const Result<Config> config = read_config(environment_of(variables));
    REQUIRE_FALSE(config.is_ok());
    CHECK(config.status().code() == ErrorCode::invalid_argument);
    return config.status().message();
}

}  // namespace

TEST_CASE("an empty environment sets no identity and gives no notes", "[config]") {
    const Config config = read({});
    CHECK_FALSE(config.rank);
    CHECK_FALSE(config.local_size);
    CHECK(config.notes.empty());
}

TEST_CASE("every variable reaches its field", "[config]") {
    const Config config = read({{"RUEDA_RANK", "3"},
                                {"RUEDA_SIZE", "8"},
                                {"RUEDA_LOCAL_RANK", "1"},
                                {"RUEDA_LOCAL_SIZE", "2"},
                                {"RUEDA_RENDEZVOUS", "@job-17"},
                                {"RUEDA_CONTROL_PLANE", "Socket"},
                                {"RUEDA_MPI_PLUGIN", "/opt/librueda_mpi.so"},
                                {"RUEDA_HOSTNAME", "box-7"},
                                {"RUEDA_START_TIMEOUT", "2.5"},
                                {"RUEDA_FUSION_THRESHOLD", "0"},
                                {"RUEDA_HOLD_TIME", "0.001"},
                                {"RUEDA_SPIN_TIME", "0"},
                                {"RUEDA_COMPRESSION", "bf16"},
                                {"RUEDA_ARENA_LIMIT", "1M"},
                                {"RUEDA_RESIDENT_LIMIT", "2G"},
                                {"RUEDA_SLOTS", "16"},
                                {"RUEDA_SLOTS_MAX", "32"},
                                {"RUEDA_STALL_CHECK", "off"},
                                {"RUEDA_STALL_CHECK_TIME_SECONDS", "1"},
                                {"RUEDA_STALL_SHUTDOWN_TIME_SECONDS", "2"},
                                {"RUEDA_CALL_SITES", "1"},
                                {"RUEDA_DIAGNOSTICS_DIR", "/var/log/job 7"},
                                {"RUEDA_VERIFY", "100"},
                                {"RUEDA_CHECK_NAN", "on"},
                                {"RUEDA_METRICS_PORT", "9400"},
                                {"RUEDA_METRICS_ADDRESS", "::1"},
                                {"RUEDA_LOG_LEVEL", "trace"},
                                {"RUEDA_LOG_HIDE_TIME", "yes"}});
    CHECK(config.rank == 3);
    CHECK(config.size == 8);
    CHECK(config.local_rank == 1);
    CHECK(config.local_size == 2);
    CHECK(config.rendezvous == "@job-17");
    CHECK(config.control_plane == ControlPlaneKind::socket);
    CHECK(config.mpi_library == "/opt/librueda_mpi.so");
    CHECK(config.hostname == "box-7");
    CHECK(config.diagnostics_dir == "/var/log/job 7");
    CHECK(config.start_timeout_seconds == 2.5);
    CHECK(config.fusion_threshold_bytes == 0);
    CHECK(config.hold_seconds == 0.001);
    CHECK(config.spin_seconds == 0);
    CHECK(config.compression == Compression::bf16);
    CHECK(config.arena_limit_bytes == 1048576);
    CHECK(config.resident_limit_bytes == 2147483648);
    CHECK(config.slots == 16);
    CHECK(config.slots_max == 32);
    CHECK_FALSE(config.stall_check);
    CHECK(config.stall_warning_seconds == 1);
    CHECK(config.stall_shutdown_seconds == 2);
    CHECK(config.call_sites);
    CHECK(config.verify == 100);
    CHECK(config.check_nan);
    CHECK(config.metrics_port == 9400);
    CHECK(config.metrics_address == "::1");
    CHECK(config.log_level == LogLevel::trace);
    CHECK(config.log_hide_time);
    CHECK(config.notes.empty());
}

TEST_CASE("each word of a choice gives its enumerator", "[config]") {
    CHECK(read({{"RUEDA_CONTROL_PLANE", "auto"}}).control_plane == ControlPlaneKind::automatic);
    CHECK(read({{"RUEDA_CONTROL_PLANE", "mpi"}}).control_plane == ControlPlaneKind::mpi);
    CHECK(read({{"RUEDA_CONTROL_PLANE", "single"}}).control_plane == ControlPlaneKind::single);
    CHECK(read({{"RUEDA_LOG_LEVEL", "debug"}}).log_level == LogLevel::debug);
    CHECK(read({{"RUEDA_LOG_LEVEL", "info"}}).log_level == LogLevel::info);
    CHECK(read({{"RUEDA_LOG_LEVEL", "error"}}).log_level == LogLevel::error);
    CHECK(read({{"RUEDA_LOG_LEVEL", "fatal"}}).log_level == LogLevel::fatal);
    CHECK(read({{"RUEDA_LOG_LEVEL", "off"}}).log_level == LogLevel::off);
}

TEST_CASE("Horovod's names work, and Rueda's win", "[config]") {
    const Config config = read({{"HOROVOD_RANK", "1"},
                                {"HOROVOD_SIZE", "4"},
                                {"HOROVOD_FUSION_THRESHOLD", "33554432"},
                                {"HOROVOD_STALL_CHECK_TIME_SECONDS", "5"},
                                {"HOROVOD_LOG_LEVEL", "DEBUG"},
                                {"HOROVOD_LOG_HIDE_TIME", "2"},
                                {"RUEDA_STALL_CHECK_TIME_SECONDS", "7"}});
    CHECK(config.rank == 1);
    CHECK(config.size == 4);
    CHECK(config.fusion_threshold_bytes == 33554432);
    CHECK(config.stall_warning_seconds == 7);
    CHECK(config.log_level == LogLevel::debug);
    CHECK(config.log_hide_time);
    CHECK(config.notes.empty());
}

TEST_CASE("Horovod's switch that disables the stall check is inverted, Rueda's is not", "[config]") {
    CHECK_FALSE(read({{"HOROVOD_STALL_CHECK_DISABLE", "1"}}).stall_check);
    CHECK(read({{"HOROVOD_STALL_CHECK_DISABLE", "0"}}).stall_check);
    CHECK(read({{"HOROVOD_STALL_CHECK_DISABLE", "1"}, {"RUEDA_STALL_CHECK", "1"}}).stall_check);
}

TEST_CASE("an empty variable counts as not set", "[config]") {
    CHECK(read({{"RUEDA_SLOTS", ""}}).slots == 1024);
    CHECK(read({{"RUEDA_LOG_LEVEL", ""}, {"HOROVOD_LOG_LEVEL", "info"}}).log_level == LogLevel::info);
    CHECK(read({{"HOROVOD_CYCLE_TIME", ""}}).notes.empty());
}

TEST_CASE("a value that cannot be used names itself and what is expected", "[config]") {
    CHECK(refused({{"RUEDA_FUSION_THRESHOLD", "12x"}}) ==
          "RUEDA_FUSION_THRESHOLD is '12x'; expected a number of bytes from 0 to 1024T (e.g. 64M)");
    CHECK(refused({{"HOROVOD_FUSION_THRESHOLD", "-1"}}) ==
          "HOROVOD_FUSION_THRESHOLD is '-1'; expected a number of bytes from 0 to 1024T (e.g. 64M)");
    CHECK(refused({{"RUEDA_SLOTS", "1"}}) == "RUEDA_SLOTS is '1'; expected a whole number from 16 to 65536");
    CHECK(refused({{"RUEDA_NETWORK_CHUNK", "63"}}) ==
          "RUEDA_NETWORK_CHUNK is '63'; expected 0 or a number of bytes from 64 to 1G (e.g. 64M)");
    CHECK(refused({{"RUEDA_START_TIMEOUT", "1s"}}) ==
          "RUEDA_START_TIMEOUT is '1s'; expected a number of seconds from 0.01 to 86400");
    CHECK(refused({{"RUEDA_SPIN_TIME", "-2"}}) ==
          "RUEDA_SPIN_TIME is '-2'; expected -1 or a number of seconds from 0 to 1");
    CHECK(refused({{"RUEDA_STALL_CHECK", "maybe"}}) ==
          "RUEDA_STALL_CHECK is 'maybe'; expected 0, 1, true, false, yes, no, on or off");
    CHECK(refused({{"RUEDA_LOG_LEVEL", "loud\n"}}) ==
          "RUEDA_LOG_LEVEL is 'loud?'; expected one of trace, debug, info, warning, error, fatal, off");
    CHECK(refused({{"RUEDA_COMPRESSION", "bf16:>=64K"}}) ==
          "RUEDA_COMPRESSION is 'bf16:>=64K'; expected one of none, fp16, bf16");
    CHECK(
        refused({{"RUEDA_RENDEZVOUS", "host:1"}}) ==
        "RUEDA_RENDEZVOUS is 'host:1'; expected '@name' (an abstract Unix socket) or '/path', of at most 107 bytes, or "
        "'tcp:' and numeric addresses with ports");
    CHECK(refused({{"RUEDA_RENDEZVOUS", "@" + std::string(107, 'x')}}).starts_with("RUEDA_RENDEZVOUS is '@xxx"));
    CHECK(read({{"RUEDA_RENDEZVOUS", "/" + std::string(106, 'x')}}).rendezvous.size() == 107);
    for (const std::string& name : {std::string("a b"), std::string("a\n"), std::string(254, 'x')}) {
        CHECK(refused({{"RUEDA_HOSTNAME", name}})
                  .ends_with("expected a name of at most 253 printable characters without spaces"));
    }
    CHECK(read({{"HOROVOD_HOSTNAME", std::string(253, 'x')}}).hostname.size() == 253);
}

TEST_CASE("limits themselves are allowed, one beyond is not", "[config]") {
    CHECK(read({{"RUEDA_SLOTS", "16"}}).slots == 16);
    CHECK(read({{"RUEDA_NETWORK_CHUNK", "64"}}).network_chunk_bytes == 64);
    CHECK(read({{"RUEDA_SPIN_TIME", "1"}}).spin_seconds == 1);
    CHECK(read({{"RUEDA_START_TIMEOUT", "0.01"}}).start_timeout_seconds == 0.01);
    refused({{"RUEDA_SLOTS", "15"}});
    refused({{"RUEDA_SLOTS_MAX", "65537"}});
    refused({{"RUEDA_ARENA_LIMIT", "1048575"}});
    refused({{"RUEDA_SPIN_TIME", "-0.5"}});
    refused({{"RUEDA_SIZE", "0"}});
}

TEST_CASE("an identity that contradicts itself is refused", "[config]") {
    CHECK(refused({{"RUEDA_RANK", "2"}, {"RUEDA_SIZE", "2"}}) ==
          "RUEDA_RANK is '2'; expected less than RUEDA_SIZE, which is '2'");
    CHECK(refused({{"RUEDA_RANK", "0"}}) == "RUEDA_RANK is set and RUEDA_SIZE is not; set both, or neither");
    CHECK(refused({{"HOROVOD_SIZE", "2"}}) == "RUEDA_SIZE is set and RUEDA_RANK is not; set both, or neither");
    CHECK(refused({{"RUEDA_LOCAL_RANK", "4"}, {"RUEDA_LOCAL_SIZE", "4"}}) ==
          "RUEDA_LOCAL_RANK is '4'; expected less than RUEDA_LOCAL_SIZE, which is '4'");
    CHECK(refused({{"RUEDA_RANK", "0"}, {"RUEDA_SIZE", "2"}, {"RUEDA_LOCAL_SIZE", "3"}}) ==
          "RUEDA_LOCAL_SIZE is '3'; expected at most RUEDA_SIZE, which is '2'");
}

TEST_CASE("one slot setting moves the other unless both are given", "[config]") {
    CHECK(read({{"RUEDA_SLOTS", "65536"}}).slots_max == 65536);
    CHECK(read({{"RUEDA_SLOTS_MAX", "16"}}).slots == 16);
    CHECK(refused({{"RUEDA_SLOTS", "64"}, {"RUEDA_SLOTS_MAX", "32"}}) ==
          "RUEDA_SLOTS is '64'; expected at most RUEDA_SLOTS_MAX, which is '32'");
}

TEST_CASE("the signal for stacks is one of a few, or none", "[config]") {
    CHECK(read({{"RUEDA_STACK_SIGNAL", "none"}}).stack_signal == StackSignal::none);
    CHECK(read({{"RUEDA_STACK_SIGNAL", "USR1"}}).stack_signal == StackSignal::usr1);
    CHECK(read({{"RUEDA_STACK_SIGNAL", "RTMIN"}}).stack_signal == StackSignal::rtmin);
    CHECK(refused({{"RUEDA_STACK_SIGNAL", "KILL"}}).find("USR2") != std::string::npos);
}

TEST_CASE("metrics are off by default, and on loopback", "[config]") {
    CHECK(read({}).metrics_port == 0);
    CHECK(read({}).metrics_address == "127.0.0.1");
    CHECK(read({{"RUEDA_METRICS_ADDRESS", "0.0.0.0"}}).metrics_address == "0.0.0.0");
    for (const char* const address : {"localhost", "127.0.0.1:80", "127.0.0.1,80", "[::1]", "*"}) {
        CHECK(refused({{"RUEDA_METRICS_ADDRESS", address}}).find("an IP address in numbers") != std::string::npos);
    }
    CHECK(refused({{"RUEDA_METRICS_PORT", "65536"}}).find("65535") != std::string::npos);
}

TEST_CASE("a stall shutdown before the warning is ignored, with a note", "[config]") {
    const Config config = read({{"RUEDA_STALL_SHUTDOWN_TIME_SECONDS", "30"}});
    CHECK(config.stall_shutdown_seconds == 0);
    REQUIRE(config.notes.size() == 1);
    CHECK(config.notes[0] ==
          "RUEDA_STALL_SHUTDOWN_TIME_SECONDS is '30' and is ignored; expected at least RUEDA_STALL_CHECK_TIME_SECONDS, "
          "which is '60'");
    CHECK(read({{"RUEDA_STALL_SHUTDOWN_TIME_SECONDS", "60"}}).stall_shutdown_seconds == 60);
}

TEST_CASE("notes name misspelt settings and Horovod's without meaning", "[config]") {
    const Config config = read({{"RUEDA_FUSION_TRESHOLD", "1"},
                                {"RUEDA_SOMETHING_ELSE_ALTOGETHER", "1"},
                                {"HOROVOD_CYCLE_TIME", "5"},
                                {"HOROVOD_GLOO_IFACE", "eth0"},
                                {"HOROVOD_AUTOTUNE", "1"},
                                {"HOROVOD_NEVER_HEARD_OF", "1"},
                                {"HOROVOD_TIMELINE", "t.json"},
                                {"HOROVOD_ELASTIC", "1"},
                                {"RUEDA_ELASTIC_DIR", "commits"},
                                {"PATH", "/bin"}});
    REQUIRE(config.notes.size() == 5);
    CHECK(config.notes[0].starts_with("'HOROVOD_AUTOTUNE' is ignored: "));
    CHECK(config.notes[1].starts_with("'HOROVOD_CYCLE_TIME' is ignored: "));
    CHECK(config.notes[2].starts_with("'HOROVOD_GLOO_IFACE' is ignored: "));
    CHECK(config.notes[3] ==
          "'RUEDA_FUSION_TRESHOLD' is no setting of Rueda and is ignored; did you mean RUEDA_FUSION_THRESHOLD?");
    CHECK(config.notes[4] ==
          "'RUEDA_SOMETHING_ELSE_ALTOGETHER' is no setting of Rueda and is ignored; docs/configuration.md lists all "
          "settings");
    CHECK(config.fusion_threshold_bytes == 67108864);
    CHECK(config.timeline == "t.json");
}

TEST_CASE("the settings of the timeline", "[config]") {
    CHECK(read({}).timeline.empty());
    CHECK_FALSE(read({}).timeline_mark_cycles);
    const Config config =
        read({{"RUEDA_TIMELINE", "a b.json"}, {"HOROVOD_TIMELINE", "t.json"}, {"HOROVOD_TIMELINE_MARK_CYCLES", "1"}});
    CHECK(config.timeline == "a b.json");
    CHECK(config.timeline_mark_cycles);
    CHECK_FALSE(read_config(environment_of({{"RUEDA_TIMELINE_MARK_CYCLES", "sometimes"}})).is_ok());
}

TEST_CASE("the environment of the process is read", "[config]") {
    REQUIRE(setenv("RUEDA_SLOTS", "70", 1) == 0);
    const Result<Config> config = read_config(process_environment());
    REQUIRE(unsetenv("RUEDA_SLOTS") == 0);
    REQUIRE(config.is_ok());
    CHECK(config.value().slots == 70);
}

TEST_CASE("the table is in order", "[config]") {
    std::set<std::string_view> names;
    const std::string page = configuration_page();
    for (const Setting& setting : settings()) {
        CAPTURE(setting.name);
        CHECK(setting.name.starts_with("RUEDA_"));
        CHECK(names.insert(setting.name).second);
        CHECK((setting.horovod_name.empty() || setting.horovod_name.starts_with("HOROVOD_")));
        CHECK((setting.horovod_name.empty() || names.insert(setting.horovod_name).second));
        CHECK(setting.meaning.ends_with('.'));
        CHECK(page.find("| `" + std::string(setting.name) + "` |") != std::string::npos);
    }
    for (const OtherVariable& variable : other_variables()) {
        CAPTURE(variable.name);
        CHECK(names.insert(variable.name).second);
    }
    for (const HorovodOnlyVariable& variable : horovod_only_variables()) {
        CAPTURE(variable.name);
        CHECK(names.insert(variable.name).second);
    }
    // The rows below must have as many columns as the head of the table.
    CHECK(page.find("| `RUEDA_SLOTS` | number | `1024` | 16 … 65536 |  | rank 0's | The number of tensor names") !=
          std::string::npos);
    CHECK(page.find("| `RUEDA_STALL_CHECK` | switch | `1` | 0, 1 | `HOROVOD_STALL_CHECK_DISABLE` (inverted) |") !=
          std::string::npos);
}

TEST_CASE("a value is read back from its text bit by bit", "[config]") {
    Config config;
    config.hold_seconds = 1.0 / 3;
    config.stall_warning_seconds = 0.1 + 0.2;
    config.fusion_threshold_bytes = 12345678901;
    config.network_chunk_bytes = 3 * kMiB;
    config.compression = Compression::fp16;
    for (const Setting& setting : settings()) {
        CAPTURE(setting.name);
        Config other;
        const std::string text = value_text(setting, config);
        CHECK((text.empty() || read_value(setting, text, other)));
        CHECK(value_text(setting, other) == text);
    }
    Config other;
    for (const Setting& setting : settings()) {
        static_cast<void>(read_value(setting, value_text(setting, config), other));
    }
    CHECK(other.hold_seconds == config.hold_seconds);
    CHECK(other.stall_warning_seconds == config.stall_warning_seconds);
    CHECK(other.fusion_threshold_bytes == config.fusion_threshold_bytes);
    CHECK(other.network_chunk_bytes == config.network_chunk_bytes);
    CHECK(other.compression == config.compression);
}

}  // namespace rueda::base
