// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

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

TEST_CASE("what follows the program belongs to the program", "[unit]") {
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

TEST_CASE("help and version need nothing else", "[unit]") {
    const Result<CommandLine> help = parse_command_line(Words{"--help"});
    REQUIRE(help.is_ok());
    CHECK(contains(help.value().text.value_or(""), "Examples:"));
    CHECK(contains(help.value().text.value_or(""), "--output-dir"));
    const Result<CommandLine> version = parse_command_line(Words{"--version"});
    REQUIRE(version.is_ok());
    CHECK(version.value().text.value_or("").starts_with("ruedarun "));
}

TEST_CASE("wrong numbers of processes are refused by name", "[unit]") {
    for (const char* number : {"0", "-1", "two", "1.5", "", "1025", "99999999999999999999", "2 "}) {
        CAPTURE(number);
        CHECK(contains(refused({"-np", number, "p"}), "-np"));
    }
    CHECK(contains(refused({"p"}), "number of processes is missing"));
    CHECK(contains(refused({}), "number of processes is missing"));
    CHECK(contains(refused({"-np"}), "wants a value"));
}

TEST_CASE("a misspelt option brings the nearest right one", "[unit]") {
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
