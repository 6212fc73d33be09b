// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options/options.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/options/shell_words.hpp"

namespace rueda::launcher {
namespace {

using Words = std::vector<std::string>;

Options accepted(const Words& arguments) {
    const Result<CommandLine> line = parse_command_line(arguments);
    INFO(line.status().message());
    REQUIRE(line.is_ok());
    REQUIRE_FALSE(line.value().text.has_value());
    return line.value().options;
}

std::string refused(const Words& arguments) {
    const Result<CommandLine> line = parse_command_line(arguments);
    REQUIRE_FALSE(line.is_ok());
    CHECK(line.status().code() == ErrorCode::invalid_argument);
    CHECK(line.status().message().find('\n') == std::string::npos);
    return line.status().message();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("the number of processes can be written in all usual ways", "[unit]") {
    for (const Words& words :
         std::vector<Words>{{"-np", "3"}, {"-np=3"}, {"-np3"}, {"--np", "3"}, {"--np=3"}, {"-n", "3"}, {"-n3"}}) {
        Words arguments = words;
        arguments.emplace_back("program");
        CAPTURE(words.front());
        CHECK(accepted(arguments).ranks == 3);
    }
    CHECK(accepted({"-np", "2", "-np", "4", "p"}).ranks == 4);
}

TEST_CASE("words after the program are arguments of the program", "[unit]") {
    const Options options = accepted({"-np", "2", "prog", "-np", "7", "--dry-run", "--", "--help", "-x"});
    CHECK(options.ranks == 2);
    CHECK_FALSE(options.dry_run);
    CHECK(options.program == Words{"prog", "-np", "7", "--dry-run", "--", "--help", "-x"});
    CHECK(accepted({"-np", "2", "--", "-odd-name", "a"}).program == Words{"-odd-name", "a"});
}

TEST_CASE("all options arrive", "[unit]") {
    const Options options = accepted({"--no-mpi", "-x", "A=b=c", "-xB", "-x", "C=", "--output-dir", "-d",
                                      "--grace=0.25", "--dry-run", "--verbose", "-np", "2", "p"});
    CHECK(options.no_mpi);
    REQUIRE(options.exported.size() == 3);
    CHECK(options.exported[0].name == "A");
    CHECK(options.exported[0].value == "b=c");
    CHECK(options.exported[1].name == "B");
    CHECK_FALSE(options.exported[1].value.has_value());
    CHECK(options.exported[2].value == "");
    CHECK(options.output_dir == "-d");
    CHECK(options.grace == std::chrono::milliseconds(250));
    CHECK(options.dry_run);
    CHECK(options.verbose);
    CHECK(accepted({"-np", "1", "--mpi-args", "--bind-to 'a b'", "p"}).mpi_args == Words{"--bind-to", "a b"});
    CHECK(accepted({"-np", "1", "--mpi-args", "", "p"}).mpi_args.empty());
}

/// Returns a file reader for these file contents.
base::FileReader files(std::map<std::string, std::string> contents) {
    return [contents = std::move(contents)](const std::string& name) -> std::optional<std::string> {
        const auto found = contents.find(name);
        return found == contents.end() ? std::nullopt : std::optional(found->second);
    };
}

std::string value_of(const Options& options, const std::string& name) {
    std::string last = "(none)";
    for (const ExportedVariable& variable : options.exported) {
        last = variable.name == name ? variable.value.value_or("(handed on)") : last;
    }
    return last;
}

TEST_CASE("hosts are named in all usual ways", "[unit]") {
    for (const Words& words :
         std::vector<Words>{{"-H", "a:2"}, {"-Ha:2"}, {"--hosts", "a:2"}, {"--host=a:2"}, {"-host", "a:2"}}) {
        Words arguments = words;
        arguments.emplace_back("program");
        CAPTURE(words.front());
        CHECK(accepted(arguments).hosts == "a:2");
    }
    for (const char* name : {"--hostfile", "-hostfile", "--machinefile", "-machinefile"}) {
        CAPTURE(name);
        CHECK(accepted({name, "f", "p"}).hostfile == "f");
    }
    CHECK(accepted({"-ppn", "3", "p"}).per_host == 3);
    CHECK(accepted({"--processes-per-host=3", "p"}).per_host == 3);
    CHECK(contains(refused({"-H", "a", "--hostfile", "f", "p"}), "both name hosts"));
    CHECK(contains(refused({"--hosts=", "p"}), "--hosts needs a name"));
}

TEST_CASE("network, restarts, explanations", "[unit]") {
    const Options options = accepted({"--network-interfaces", "eth0,ib0", "--ssh-port", "2222", "--ssh-identity-file",
                                      "k", "--max-restarts", "3", "--explain", "p"});
    CHECK(options.interfaces == Words{"eth0", "ib0"});
    CHECK(options.ssh_port == 2222);
    CHECK(options.ssh_identity == "k");
    CHECK(options.max_restarts == 3);
    CHECK(options.explain);
    CHECK(contains(refused({"--ssh-port", "0", "p"}), "expected a port from 1 to 65535"));
    CHECK(contains(refused({"--max-restarts", "-1", "p"}), "'-1'"));
    CHECK(contains(refused({"--network-interfaces", "a,,b", "p"}), "--network-interfaces is 'a,,b'"));
}

TEST_CASE("-x wins over variables of files", "[unit]") {
    const auto read = files({{"job.env", "A=file\nB=file\n"}, {"bad.env", "A=1\nnonsense\n"}});
    const auto line = parse_command_line(
        Words{"-x", "A=flag", "--env-file", "job.env", "--custom-mpi-options", "--C=custom -v", "-x", "C=flag", "p"},
        read);
    REQUIRE(line.is_ok());
    const Options& options = line.value().options;
    CHECK(value_of(options, "A") == "flag");
    CHECK(value_of(options, "B") == "file");
    CHECK(value_of(options, "C") == "flag");
    CHECK(options.mpi_args == Words{"-v"});
    CHECK(contains(parse_command_line(Words{"--env-file", "bad.env", "p"}, read).status().message(), "bad.env:2"));
    CHECK(contains(parse_command_line(Words{"--env-file", "none", "p"}, read).status().message(),
                   "--env-file: 'none' cannot be read"));
}

TEST_CASE("flags win over the file of options", "[unit]") {
    const auto read =
        files({{"job.json",
                "{\"np\": 2, \"hostfile\": \"f\", \"x\": {\"A\": \"1\", \"B\": \"2\"},\n"
                "\"output-dir\": \"-logs\", \"verbose\": true, \"dry-run\": false, \"mpi-args\": \"--bind-to core\"}"},
               {"unknown.json", "{\n\"npp\": 2}"},
               {"switch.json", "{\"np\": true}"},
               {"text.json", "{\"verbose\": \"yes\"}"},
               {"nested.json", "{\"config\": \"job.json\"}"},
               {"horovod.json", "{\"fusion-threshold-mb\": 8}"}});
    const auto parsed = [&](const Words& words) { return parse_command_line(words, read); };
    const auto line = parsed({"--config", "job.json", "-x", "B=3", "-np", "4", "p", "--config", "its-own"});
    INFO(line.status().message());
    REQUIRE(line.is_ok());
    const Options& options = line.value().options;
    CHECK(options.ranks == 4);
    CHECK(options.hostfile == "f");
    CHECK(options.output_dir == "-logs");
    CHECK(options.verbose);
    CHECK_FALSE(options.dry_run);
    CHECK(options.mpi_args == Words{"--bind-to", "core"});
    CHECK(value_of(options, "A") == "1");
    CHECK(value_of(options, "B") == "3");
    CHECK(options.program == Words{"p", "--config", "its-own"});
    CHECK(parsed({"--config=job.json", "p"}).value().options.ranks == 2);
    CHECK(parsed({"-H", "a:2", "--config=job.json", "p"}).value().options.hostfile.empty());
    CHECK(contains(parsed({"--config", "unknown.json", "p"}).status().message(), "unknown.json:2: there is no option"));
    CHECK(contains(parsed({"--config", "switch.json", "p"}).status().message(), "expected a text or a number"));
    CHECK(contains(parsed({"--config", "text.json", "p"}).status().message(), "expected true or false"));
    CHECK(contains(parsed({"--config", "nested.json", "p"}).status().message(), "no place in a file"));
    CHECK(contains(parsed({"--config", "none.json", "p"}).status().message(), "cannot be read"));
    CHECK(value_of(parsed({"--config", "horovod.json", "p"}).value().options, "RUEDA_FUSION_THRESHOLD") == "8M");
}

TEST_CASE("a flag of horovodrun becomes an option, a variable, or a note", "[unit]") {
    const Options options = accepted({"-np",
                                      "4",
                                      "-p",
                                      "2222",
                                      "--fusion-threshold-mb",
                                      "32",
                                      "--cycle-time-ms=5",
                                      "--output-filename",
                                      "logs",
                                      "--no-stall-check",
                                      "--log-level",
                                      "DEBUG",
                                      "--network-interface",
                                      "eth0",
                                      "-x",
                                      "RUEDA_LOG_LEVEL=info",
                                      "--stall-check-warning-time-seconds",
                                      "10",
                                      "--mpi",
                                      "--no-hierarchical-allreduce",
                                      "--timeline-filename",
                                      "t.json",
                                      "--timeline-mark-cycles",
                                      "p",
                                      "--autotune"});
    CHECK(options.ranks == 4);
    CHECK(options.ssh_port == 2222);
    CHECK(options.output_dir == "logs");
    CHECK(options.interfaces == Words{"eth0"});
    CHECK(value_of(options, "RUEDA_FUSION_THRESHOLD") == "32M");
    CHECK(value_of(options, "RUEDA_STALL_CHECK") == "0");
    CHECK(value_of(options, "RUEDA_STALL_CHECK_TIME_SECONDS") == "10");
    CHECK(value_of(options, "RUEDA_LOG_LEVEL") == "info");
    CHECK(options.program == Words{"p", "--autotune"});
    CHECK(value_of(options, "HOROVOD_TIMELINE") == "t.json");
    REQUIRE(options.notes.size() == 12);
    CHECK(options.notes[1] == "--fusion-threshold-mb 32 is horovodrun's; taken as -x RUEDA_FUSION_THRESHOLD=32M");
    CHECK(options.notes[2] ==
          "--cycle-time-ms 5 is horovodrun's; ignored: Rueda has no cycle: a tensor is called when it is ready");
    CHECK(options.notes[3] == "--output-filename logs is horovodrun's; taken as --output-dir logs");
    CHECK(options.notes[10] == "--timeline-filename t.json is horovodrun's; taken as -x HOROVOD_TIMELINE=t.json");
    CHECK(options.notes[11] == "--timeline-mark-cycles is horovodrun's; taken as -x HOROVOD_TIMELINE_MARK_CYCLES=1");
    CHECK(contains(refused({"--check-build"}), "rueda doctor"));
    CHECK(contains(refused({"--fusion-threshold-mb"}), "needs a value"));
    CHECK(parse_command_line(Words{"-v"}).value().text.value_or("").starts_with("ruedarun "));
}

TEST_CASE("the options of elastic jobs", "[unit]") {
    const Options options = accepted({"-np", "4", "--min-num-proc", "2", "--max-np", "6", "--host-discovery-script",
                                      "./s", "--slots-per-host", "3", "--elastic-timeout", "1.5", "--reset-limit", "7",
                                      "--blacklist-cooldown-range", "2", "60", "p", "1"});
    const ElasticOptions& elastic = options.elastic;
    CHECK(elastic.make_elastic());
    CHECK(elastic.least == 2);
    CHECK(elastic.most == 6);
    CHECK(elastic.discovery_script == "./s");
    CHECK(elastic.slots_per_host == 3);
    CHECK(elastic.timeout == std::chrono::milliseconds(1500));
    CHECK(elastic.resets == 7);
    CHECK(elastic.cooldown_least == std::chrono::seconds(2));
    CHECK(elastic.cooldown_most == std::chrono::seconds(60));
    CHECK(options.program == Words{"p", "1"});
    CHECK(accepted({"--min-np", "1", "--blacklist-cooldown-range=0.5,1", "p"}).elastic.cooldown_least ==
          std::chrono::milliseconds(500));
    CHECK_FALSE(accepted({"-np", "2", "p"}).elastic.make_elastic());
    CHECK(accepted({"-np", "2", "p"}).may_use_mpi());
    CHECK_FALSE(accepted({"-np", "2", "--min-np", "1", "p"}).may_use_mpi());
    CHECK(accepted({"--mpi", "-np", "2", "p"}).asks_for_mpi);
    CHECK(contains(refused({"--reset-limit", "3", "p"}), "is for elastic jobs"));
    CHECK(contains(refused({"--min-np", "0", "p"}), "a number of processes from 1"));
    CHECK(contains(refused({"--min-np", "1", "--elastic-timeout", "soon", "p"}), "expected seconds"));
    CHECK(contains(refused({"--min-np", "1", "--blacklist-cooldown-range", "9", "3", "p"}), "the smaller one first"));
    CHECK(contains(refused({"--min-np", "1", "--blacklist-cooldown-range", "9", "p"}), "expected seconds"));
}

/// Returns the example commands in the help text, without the remarks after them (separated by two blanks).
std::vector<Words> examples_of_help() {
    const std::string begin = "\n  ruedarun ";
    const std::string text = parse_command_line(Words{"--help"}).value().text.value_or("");
    std::vector<Words> examples;
    for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
        std::string line = text.substr(at + begin.size());
        line.resize(std::min(line.find('\n'), line.find("  ")));
        examples.push_back(split_shell_words(line).value());
    }
    return examples;
}

TEST_CASE("the examples of the help are accepted and use the options that are hard to guess", "[unit]") {
    const auto read = [](const std::string& name) -> std::optional<std::string> {
        return name == "job.json" ? R"({"hosts": "a:4,b:4", "x": {"NCCL_DEBUG": "INFO"}})" : "NCCL_DEBUG=INFO\n";
    };
    std::set<std::string> used;
    for (const Words& words : examples_of_help()) {
        CAPTURE(words);
        const Result<CommandLine> line = parse_command_line(words, read);
        CHECK(line.is_ok());
        CHECK_FALSE(line.value().options.program.empty());
        used.insert(words.begin(), words.end());
    }
    for (const char* name : {"--mpi-args", "--custom-mpi-options", "--env-file", "--network-interfaces", "--config"}) {
        CAPTURE(name);
        CHECK(used.contains(name));
    }
}

TEST_CASE("help and version need no other option", "[unit]") {
    const Result<CommandLine> help = parse_command_line(Words{"--help"});
    REQUIRE(help.is_ok());
    CHECK(contains(help.value().text.value_or(""), "Examples:"));
    CHECK(contains(help.value().text.value_or(""), "--output-dir"));
    const Result<CommandLine> version = parse_command_line(Words{"--version"});
    REQUIRE(version.is_ok());
    CHECK(version.value().text.value_or("").starts_with("ruedarun "));
}

TEST_CASE("wrong numbers of processes are refused by name", "[unit]") {
    for (const char* number : {"0", "-1", "two", "1.5", "", "16385", "99999999999999999999", "2 "}) {
        CAPTURE(number);
        CHECK(contains(refused({"-np", number, "p"}), "-np"));
    }
    CHECK(contains(refused({"--ppn", "0", "p"}), "--processes-per-host is '0'"));
    CHECK(contains(refused({"-np"}), "needs a value"));
    CHECK_FALSE(accepted({"p"}).ranks.has_value());
}

TEST_CASE("the error about a misspelt option names the nearest right one", "[unit]") {
    CHECK(contains(refused({"-np", "2", "--verbos", "p"}), "did you mean --verbose?"));
    CHECK(contains(refused({"-np", "2", "--outputdir=x", "p"}), "did you mean --output-dir?"));
    CHECK(contains(refused({"-np", "2", "-dry-run", "p"}), "did you mean --dry-run?"));
    CHECK(contains(refused({"-npp", "2", "p"}), "did you mean -np?"));
    CHECK(contains(refused({"-np", "2", "--quite-another-thing", "p"}), "ruedarun --help"));
    CHECK(contains(refused({"-np", "2", "--no-mpi=1", "p"}), "takes no value"));
}

TEST_CASE("other wrong input", "[unit]") {
    CHECK(contains(refused({"-np", "2"}), "no program"));
    CHECK(contains(refused({"-np", "2", ""}), "no program"));
    CHECK(contains(refused({"-np", "2", "--no-mpi", "--mpi-args", "-v", "p"}), "--mpi-args"));
    CHECK(contains(refused({"-np", "2", "--mpi-args", "'open", "p"}), "not closed"));
    CHECK(contains(refused({"-np", "2", "--grace", "soon", "p"}), "'soon'"));
    CHECK(contains(refused({"-np", "2", "--grace", "-1", "p"}), "'-1'"));
    CHECK(contains(refused({"-np", "2", "--output-dir", "", "p"}), "--output-dir"));
    for (const char* variable : {"=x", "1A=b", "A-B", ""}) {
        CAPTURE(variable);
        CHECK(contains(refused({"-np", "2", "-x", variable, "p"}), "-x is"));
    }
}

}  // namespace
}  // namespace rueda::launcher
