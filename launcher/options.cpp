// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string_view>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/shell_words.hpp"
#include "rueda/version.h"

namespace rueda::launcher {

namespace {

constexpr const char* kDescription =
    "Starts N processes (ranks) of a program on this host and ends them together.\n"
    "Where mpirun is found the ranks are started by it, else by ruedarun itself.";

constexpr const char* kExamples =
    "What follows the program's name belongs to the program.\n"
    "\n"
    "Examples:\n"
    "  ruedarun -np 2 ./trainer --epochs 5          two ranks, over mpirun where there is one\n"
    "  ruedarun --no-mpi -np 4 python3 train.py     four ranks without MPI\n"
    "  ruedarun -np 2 --output-dir logs ./trainer   logs/rank.0.out, logs/rank.0.err, logs/rank.1.out, ...\n"
    "  ruedarun -np 2 -x RUEDA_LOG_LEVEL=debug ./trainer\n"
    "  ruedarun -np 2 --dry-run ./trainer           only prints what would run\n"
    "\n"
    "Exit status: that of the first rank that failed, 128 + the signal's number for one that was killed; 0 where all\n"
    "ranks ended well; 2 where ruedarun was called wrongly.";

/// The texts as CLI11 collects them; meaning and limits are checked afterwards, for messages in our own words.
struct RawOptions {
    std::string ranks;
    std::string mpi_args;
    std::vector<std::string> exported;
    std::string grace;
};

/// CLI11 wants long names with two hyphens; MPI users have always written -np.
constexpr std::string_view kRanksName = "--np";
constexpr std::string_view kRanksSpelling = "-np";

/// CLI11 2.1 knows no App::usage(), and its own line would not show the program.
class HelpFormatter final : public CLI::Formatter {
public:
    HelpFormatter() { column_width(28); }
    std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
        return "Usage: ruedarun -np N [options] program [arguments ...]\n";
    }
};

class Parser {
public:
    explicit Parser(Options& options) : options_(options) {
        app_.name("ruedarun");
        app_.formatter(std::make_shared<HelpFormatter>());
        app_.footer(kExamples);
        app_.set_help_flag("-h,--help", "Print this help");
        app_.set_version_flag("--version", "ruedarun " RUEDA_VERSION, "Print the version");
        take_last(app_.add_option("-n,--np", raw_.ranks, "Number of processes (also written -np)"), "N");
        app_.add_flag("--no-mpi", options_.no_mpi, "Start the ranks without mpirun; they meet through a socket");
        take_last(app_.add_option("--mpi-args", raw_.mpi_args, "More arguments for mpirun, as one text"), "TEXT");
        app_.add_option("-x", raw_.exported, "Set a variable for the ranks, or hand one on; may be repeated")
            ->type_name("VAR[=VALUE]")
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
        take_last(app_.add_option("--output-dir", options_.output_dir,
                                  "Write each rank's output to files rank.N.out and rank.N.err of this folder"),
                  "FOLDER");
        take_last(app_.add_option("--grace", raw_.grace,
                                  "After a rank failed, time for the others to end themselves (default 5)"),
                  "SECONDS");
        app_.add_flag("--dry-run", options_.dry_run, "Print what would run, and run nothing");
        app_.add_flag("--verbose", options_.verbose, "Say what was chosen and why");
    }

    Result<CommandLine> parse(std::span<const std::string> arguments) {
        RUEDA_RETURN_IF_FAILED(find_program(arguments));
        try {
            std::reverse(own_.begin(), own_.end());  // CLI11 takes its arguments from the back
            app_.parse(own_);
        } catch (const CLI::CallForHelp&) {
            return CommandLine{{}, app_.help()};
        } catch (const CLI::CallForVersion& version) {
            return CommandLine{{}, std::string(version.what()) + "\n"};
        } catch (const CLI::ParseError& error) {
            return failure(ErrorCode::invalid_argument, "{}; see ruedarun --help", error.what());
        }
        RUEDA_RETURN_IF_FAILED(read_texts());
        return CommandLine{options_, std::nullopt};
    }

private:
    static void take_last(CLI::Option* option, const char* value_name) {
        option->type_name(value_name)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }

    /// Divides the arguments into ruedarun's and the program's. CLI11 alone cannot: it would take an unknown option for
    /// the program, and look for its own options behind it.
    Status find_program(std::span<const std::string> arguments) {
        std::size_t at = 0;
        while (at < arguments.size()) {
            const std::string& word = arguments[at];
            if (word == "--") {
                ++at;
                break;
            }
            if (word.size() < 2 || word.front() != '-') {
                break;
            }
            std::size_t used = 1;
            RUEDA_RETURN_IF_FAILED(take_option(arguments.subspan(at), used));
            at += used;
        }
        options_.program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
        return {};
    }

    /// -np 2, -np=2 and -np2 as --np. CLI11 would read -np2 as -n with the value "p2".
    static std::string in_our_spelling(const std::string& word) {
        if (!word.starts_with(kRanksSpelling)) {
            return word;
        }
        const std::string value = word.substr(kRanksSpelling.size());
        if (value.empty() || value.front() == '=') {
            return std::string(kRanksName) + value;
        }
        const bool is_number = value.front() >= '0' && value.front() <= '9';
        return is_number ? fmt::format("{}={}", kRanksName, value) : "-" + word;
    }

    Status take_option(std::span<const std::string> arguments, std::size_t& used) {
        const std::string word = in_our_spelling(arguments.front());
        const bool is_long = word.starts_with("--");
        const std::size_t equals = is_long ? word.find('=') : std::string::npos;
        const std::string name = is_long ? word.substr(0, equals) : word.substr(0, 2);
        const CLI::Option* const option = app_.get_option_no_throw(name);
        const bool takes_value = option != nullptr && option->get_items_expected_min() > 0;
        const bool has_value = is_long ? equals != std::string::npos : word.size() > 2;
        if (option == nullptr) {
            return unknown_option(arguments.front());
        }
        if (!takes_value && has_value) {
            return failure(ErrorCode::invalid_argument, "{} takes no value; found {}", name,
                           base::quote(arguments.front()));
        }
        own_.push_back(word);
        if (takes_value && !has_value) {
            if (arguments.size() < 2) {
                return failure(ErrorCode::invalid_argument, "{} wants a value behind it; see ruedarun --help",
                               arguments.front());
            }
            own_.push_back(arguments[1]);
            used = 2;
        }
        return {};
    }

    [[nodiscard]] Status unknown_option(const std::string& word) const {
        std::vector<std::string> names;
        for (const CLI::Option* option : app_.get_options()) {
            for (const std::string& name : option->get_lnames()) {
                names.push_back("--" + name);
            }
        }
        std::vector<std::string_view> candidates(names.begin(), names.end());
        candidates.push_back(kRanksSpelling);
        const std::string name = word.substr(0, word.find('='));
        std::string_view nearest = base::nearest_name(name, candidates);
        if (nearest.empty()) {
            nearest = base::nearest_name("-" + name, candidates);  // -verbose
        }
        const std::string advice =
            nearest.empty() ? "see ruedarun --help"
                            : fmt::format("did you mean {}?", nearest == kRanksName ? kRanksSpelling : nearest);
        return failure(ErrorCode::invalid_argument, "there is no option {}; {}", base::quote(name), advice);
    }

    Status read_texts() {
        RUEDA_RETURN_IF_FAILED(read_ranks());
        RUEDA_RETURN_IF_FAILED(read_grace());
        RUEDA_RETURN_IF_FAILED(read_exported());
        Result<std::vector<std::string>> words = split_shell_words(raw_.mpi_args);
        if (!words.is_ok()) {
            return failure(ErrorCode::invalid_argument, "--mpi-args: {}", words.status().message());
        }
        options_.mpi_args = std::move(words).value();
        if (options_.no_mpi && !options_.mpi_args.empty()) {
            return failure(ErrorCode::invalid_argument,
                           "--mpi-args has no meaning with --no-mpi; leave one of them out");
        }
        if (app_.count("--output-dir") > 0 && options_.output_dir.empty()) {
            return failure(ErrorCode::invalid_argument, "--output-dir wants the name of a folder, found an empty one");
        }
        if (options_.program.empty() || options_.program.front().empty()) {
            return failure(ErrorCode::invalid_argument,
                           "there is no program to run; write it behind the options: ruedarun -np {} ./program",
                           options_.ranks);
        }
        return {};
    }

    Status read_ranks() {
        if (app_.count(std::string(kRanksName)) == 0) {
            return failure(
                ErrorCode::invalid_argument,
                "the number of processes is missing; give it as -np N, for example ruedarun -np 2 ./program");
        }
        const std::optional<int> ranks = base::parse_integer<int>(raw_.ranks);
        if (!ranks || *ranks < 1 || *ranks > kMostRanks) {
            return failure(ErrorCode::invalid_argument, "-np is {}; expected a number of processes from 1 to {}",
                           base::quote(raw_.ranks), kMostRanks);
        }
        options_.ranks = *ranks;
        return {};
    }

    Status read_grace() {
        if (app_.count("--grace") == 0) {
            return {};
        }
        constexpr double kLongestSeconds = 3600;
        const std::optional<double> seconds = base::parse_real(raw_.grace);
        if (!seconds || *seconds < 0 || *seconds > kLongestSeconds) {
            return failure(ErrorCode::invalid_argument, "--grace is {}; expected seconds from 0 to {}",
                           base::quote(raw_.grace), kLongestSeconds);
        }
        options_.grace = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
        return {};
    }

    Status read_exported() {
        for (const std::string& text : raw_.exported) {
            const std::size_t equals = text.find('=');
            ExportedVariable variable{text.substr(0, equals), std::nullopt};
            if (equals != std::string::npos) {
                variable.value = text.substr(equals + 1);
            }
            const bool starts_well = !variable.name.empty() && (variable.name[0] < '0' || variable.name[0] > '9');
            const bool reads_well = std::all_of(variable.name.begin(), variable.name.end(), [](char c) {
                return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
            });
            if (!starts_well || !reads_well) {
                return failure(ErrorCode::invalid_argument,
                               "-x is {}; expected NAME or NAME=value, the name of letters, digits and '_'",
                               base::quote(text));
            }
            options_.exported.push_back(std::move(variable));
        }
        return {};
    }

    Options& options_;
    RawOptions raw_;
    CLI::App app_{kDescription};
    std::vector<std::string> own_;
};

}  // namespace

Result<CommandLine> parse_command_line(std::span<const std::string> arguments) {
    Options options;
    return Parser(options).parse(arguments);
}

}  // namespace rueda::launcher
