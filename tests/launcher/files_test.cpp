// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the files and texts of the options --env-file, --config and --custom-mpi-options.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "launcher/options/config_file.hpp"
#include "launcher/options/custom_mpi_options.hpp"
#include "launcher/options/env_file.hpp"

namespace rueda::launcher {
namespace {

using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Returns NAME=value for each variable, or NAME if the variable has no value of its own.
Words shown(const std::vector<ExportedVariable>& variables) {
    Words words;
    for (const ExportedVariable& variable : variables) {
        words.push_back(variable.value ? variable.name + "=" + *variable.value : variable.name);
    }
    return words;
}

Words env_file(const std::string& text) {
    const auto variables = parse_env_file(text, "job.env");
    INFO(variables.status().message());
    REQUIRE(variables.is_ok());
    return shown(variables.value());
}

std::string wrong_env_file(const std::string& text) {
    const auto variables = parse_env_file(text, "job.env");
    REQUIRE_FALSE(variables.is_ok());
    CHECK(variables.status().message().find('\n') == std::string::npos);
    return variables.status().message();
}

TEST_CASE("a file of variables", "[unit]") {
    CHECK(env_file("A=1\n# no\n\n  B = two words  # a remark\nexport C=x\r\nD=\n") ==
          Words{"A=1", "B=two words", "C=x", "D="});
    CHECK(env_file("A=\"it's # \\\"so\\\"\" # remark\nB='$HOME \"x\"'\nC=a#b\nD=x=y") ==
          Words{"A=it's # \"so\"", "B=$HOME \"x\"", "C=a#b", "D=x=y"});
    CHECK(env_file("").empty());
}

TEST_CASE("a wrong line of a file of variables is named, without its value", "[unit]") {
    CHECK(wrong_env_file("A=1\nB C=2\n") ==
          "job.env:2: found 'B C'; expected NAME=value, the name of letters, digits and '_'");
    CHECK(contains(wrong_env_file("\nlonely"), "job.env:2: found 'lonely'"));
    CHECK(contains(wrong_env_file("=x"), "job.env:1"));
    for (const char* text : {"P='hidden", "P=\"hidden\\\"", "P='a' hidden"}) {
        CAPTURE(text);
        CHECK(contains(wrong_env_file(text), "job.env:1: found"));
        CHECK_FALSE(contains(wrong_env_file(text), "hidden"));
    }
}

TEST_CASE("names that look like secrets", "[unit]") {
    for (const char* name : {"WANDB_API_KEY", "HF_TOKEN", "db_password", "SECRET", "AWS_SECRET_ACCESS_KEY", "X_PWD"}) {
        CAPTURE(name);
        CHECK(looks_like_a_secret(name));
    }
    for (const char* name : {"PATH", "RUEDA_LOG_LEVEL", "MONKEY", "KEYBOARD", "PWD", "TOKENIZERS_PARALLELISM", ""}) {
        CAPTURE(name);
        CHECK_FALSE(looks_like_a_secret(name));
    }
}

TEST_CASE("SageMaker's text of options is divided into variables and mpirun's arguments", "[unit]") {
    const auto custom = parse_custom_mpi_options(
        "-verbose --NCCL_DEBUG=INFO -x OMPI_MCA_btl_vader_single_copy_mechanism=none --mca btl self,tcp "
        "--NCCL_ALGO Ring -x HOME --bind-to none --LIST='a b'");
    REQUIRE(custom.is_ok());
    CHECK(shown(custom.value().variables) == Words{"NCCL_DEBUG=INFO", "OMPI_MCA_btl_vader_single_copy_mechanism=none",
                                                   "NCCL_ALGO=Ring", "HOME", "LIST=a b"});
    CHECK(custom.value().mpi_args == Words{"-verbose", "--mca", "btl", "self,tcp", "--bind-to", "none"});
    CHECK(parse_custom_mpi_options("").value().mpi_args.empty());
    for (const char* text : {"-x", "--NCCL_DEBUG", "-x 1A=b", "'open", "-x =b"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_custom_mpi_options(text).is_ok());
    }
}

TEST_CASE("a file of options", "[unit]") {
    const auto entries = parse_config_file(
        "{\n"
        "  // two hosts\n"
        "  \"hosts\": \"a:2,b:2\",\n"
        "  \"np\": 4, \"grace\": 0.5, \"verbose\": true,\n"
        "  \"x\": {\"MODE\": \"fast\", \"N\": 3},\n"
        "  \"mpi-args\": [\"-v\", \"--mca a b\"]\n"
        "}\n",
        "job.json");
    INFO(entries.status().message());
    REQUIRE(entries.is_ok());
    const std::vector<ConfigEntry>& all = entries.value();
    REQUIRE(all.size() == 6);
    CHECK(all[0].name == "hosts");
    CHECK(all[0].values == Words{"a:2,b:2"});
    CHECK(all[0].place == "job.json:3");
    CHECK(all[1].values == Words{"4"});
    CHECK(all[1].place == "job.json:4");
    CHECK(all[2].values == Words{"0.5"});
    CHECK(all[3].is_switch);
    CHECK(all[3].values == Words{"true"});
    CHECK(all[4].values == Words{"MODE=fast", "N=3"});
    CHECK(all[4].place == "job.json:5");
    CHECK(all[5].values == Words{"-v", "--mca a b"});
}

TEST_CASE("a file that has no options is refused with the number of the line", "[unit]") {
    const auto wrong = [](const std::string& text) {
        const auto entries = parse_config_file(text, "job.json");
        REQUIRE_FALSE(entries.is_ok());
        CHECK(entries.status().message().find('\n') == std::string::npos);
        return entries.status().message();
    };
    CHECK(contains(wrong("{\n\"np\": 4,\n}"), "job.json:3: this is no JSON"));
    CHECK(contains(wrong("np = 4"), "job.json:1: this is no JSON"));
    CHECK(contains(wrong(""), "job.json:1"));
    CHECK(contains(wrong("{\"np\": 1e999}"), "job.json: this is no JSON"));
    CHECK(contains(wrong("[1]"), "job.json:1: found no object"));
    CHECK(contains(wrong("{\n\"np\": null}"), "job.json:2: 'np' is 'null'; expected"));
    CHECK(contains(wrong("{\"x\": {\"A\": [1]}}"), "job.json:1: 'x' is"));
}

}  // namespace
}  // namespace rueda::launcher
