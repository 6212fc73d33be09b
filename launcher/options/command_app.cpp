// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options/command_app.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

namespace rueda::launcher {

namespace {

/// Formats the help, with its own usage line. CLI11 2.1 has no setting for the usage line, so a formatter is needed.
class CommandHelpFormatter final : public CLI::Formatter {
public:
    explicit CommandHelpFormatter(std::string usage) : usage_(std::move(usage)) { column_width(20); }
    std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override { return usage_; }

private:
    std::string usage_;
};

}  // namespace

int refuse_command(const Status& status, int exit_status) {
    fmt::print(stderr, "rueda: {}\n", status.message());
    return exit_status;
}

CommandApp::CommandApp(const CommandTexts& texts) : name_(texts.name), app_("", texts.name) {
    app_.formatter(std::make_shared<CommandHelpFormatter>("Usage: " + texts.name + " " + texts.usage + "\n\n" +
                                                          texts.description + "\n"));
    app_.footer(texts.examples);
    app_.get_formatter()->label("Positionals", "Argument");
    app_.set_help_flag("-h,--help", "Print this help");
}

std::optional<int> CommandApp::parse(std::span<const std::string> arguments) {
    try {
        // CLI11 takes the arguments in reverse order.
        app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
        fmt::print("{}", app_.help());
        return 0;
    } catch (const CLI::ParseError& error) {
        return refuse_command(failure(ErrorCode::invalid_argument, "{}; see {} --help", error.what(), name_),
                              kRuedaCalledWrongly);
    }
    return std::nullopt;
}

}  // namespace rueda::launcher
