// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/options/config_file.hpp"
#include "launcher/options/custom_mpi_options.hpp"
#include "launcher/options/horovod_flags.hpp"
#include "launcher/options/shell_words.hpp"
#include "launcher/options/text_parts.hpp"
#include "rueda/version.h"

namespace rueda::launcher {

namespace {

constexpr const char* kDescription =
    "Starts N processes (ranks) of a program, on this host or on several, and ends them together.\n"
    "If there is an mpirun, it starts the ranks. If not, ruedarun itself starts them on this host. With --no-mpi, it\n"
    "starts them on other hosts too, through ssh.";

constexpr const char* kExamples =
    "All arguments after the program's name belong to the program.\n"
    "\n"
    "The hosts are those of -H or --hostfile. Without these options, they are those of a Slurm allocation, or of\n"
    "SageMaker's variables, or else this host alone. Without -np, every slot of the hosts gets a process. ruedarun "
    "also\n"
    "understands the flags of horovodrun, and prints a line that says what it does with each. `rueda doctor` looks "
    "for\n"
    "things that make jobs slow or make them fail on this machine.\n"
    "\n"
    "Examples:\n"
    "  ruedarun -np 2 ./trainer --epochs 5          two ranks, by mpirun if there is one\n"
    "  ruedarun --no-mpi -np 4 python3 train.py     four ranks without MPI\n"
    "  ruedarun -H a:4,b:4 ./trainer                eight ranks on two hosts\n"
    "  ruedarun --no-mpi -H a:4,b:4 ./trainer       the same without MPI: through ssh, with the data over UCX\n"
    "  ruedarun --hostfile hosts.txt --processes-per-host 2 ./trainer\n"
    "  ruedarun -np 4 --gpus-per-rank 1 ./trainer   four GPUs, one for each rank (CUDA_VISIBLE_DEVICES)\n"
    "  ruedarun -np 4 --share-gpu ./trainer         four ranks, even if there are fewer GPUs\n"
    "  ruedarun -np 2 --output-dir logs ./trainer   logs/rank.0.out, logs/rank.0.err, logs/rank.1.out, ...\n"
    "  ruedarun -np 2 -x RUEDA_LOG_LEVEL=debug ./trainer\n"
    "  ruedarun -np 2 --env-file job.env ./trainer  job.env: lines such as NCCL_DEBUG=INFO or TEXT=\"two words\"\n"
    "  ruedarun -H a:4,b:4 --network-interfaces eth0,eth1 ./trainer\n"
    "  ruedarun -np 2 --mpi-args \"--bind-to core --report-bindings\" ./trainer\n"
    "  ruedarun -np 2 --custom-mpi-options \"--NCCL_DEBUG=INFO -x MODE=fast\" ./trainer\n"
    "  ruedarun -np 2 --max-restarts 3 ./trainer --resume\n"
    "  ruedarun -H a:4,b:4 --min-np 4 ./trainer     elastic: if ranks or a host are lost, the others go on\n"
    "  ruedarun --min-np 2 --host-discovery-script ./hosts.sh ./trainer\n"
    "  ruedarun -H a:4,b:4 --explain ./trainer      only print what would run, and why\n"
    "  ruedarun --config job.json ./trainer         job.json: {\"hosts\": \"a:4,b:4\", \"x\": {\"NCCL_DEBUG\": "
    "\"INFO\"}}\n"
    "\n"
    "Exit status: 0 if all ranks ended well. If a rank failed, it is the status of the first such rank, or 128 + the\n"
    "signal's number if that rank was killed. 2 if ruedarun was called wrongly, 79 if Rueda ended the job because an\n"
    "operation made no progress, 127 if a program could not be started.";

/// The options' values as texts. CLI11 only collects the texts. ruedarun parses them later, to write its own error
/// messages.
struct RawOptions {
    std::string ranks;
    std::string per_host;
    std::string gpus_per_rank;
    std::vector<std::string> mpi_args;
    std::vector<std::string> custom_mpi_options;
    std::vector<std::string> exported;
    std::vector<std::string> env_files;
    std::vector<std::string> interfaces;
    std::string ssh_port;
    std::string config;
    std::string grace;
    std::string max_restarts;
    std::string least;
    std::string most;
    std::string slots_per_host;
    std::string elastic_timeout;
    std::string resets;
    std::string cooldown;
};

/// ruedarun accepts -np, which users of MPI expect. CLI11 needs two hyphens before a long name, so -np is rewritten.
constexpr std::string_view kRanksName = "--np";
constexpr std::string_view kRanksSpelling = "-np";

/// As in horovodrun, this option takes two values. They may also be written as one word, MIN,MAX. All other options
/// take at most one value.
constexpr std::string_view kCooldownName = "--blacklist-cooldown-range";

/// Long names, besides -np, that MPI launchers accept with one hyphen.
constexpr std::array<std::string_view, 5> kOneHyphen = {"-hostfile", "-machinefile", "-hosts", "-host", "-ppn"};

/// Formats the help, with a usage line that shows the program argument. CLI11 2.1 has no setting for the usage line, so
/// a formatter is needed.
class HelpFormatter final : public CLI::Formatter {
public:
    HelpFormatter() { column_width(28); }
    std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
        return "Usage: ruedarun [-np N] [-H a:2,b:2 | --hostfile FILE] [options] program [arguments ...]\n";
    }
};

class Parser {
public:
    Parser(Options& options, const base::FileReader& read) : options_(options), read_(read) {
        app_.name("ruedarun");
        app_.formatter(std::make_shared<HelpFormatter>());
        app_.footer(kExamples);
        app_.set_help_flag("-h,--help", "Print this help");
        app_.set_version_flag("--version", "ruedarun " RUEDA_VERSION, "Print the version");
        add_where();
        add_gpus();
        add_mpi();
        add_environment();
        add_running();
        add_elastic();
    }

    Result<CommandLine> parse(std::span<const std::string> arguments) {
        RUEDA_RETURN_IF_FAILED(find_program(arguments));
        RUEDA_RETURN_IF_FAILED(read_config());
        try {
            std::reverse(own_.begin(), own_.end());  // CLI11 takes the arguments in reverse order
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
    void add_where() {
        take_last(app_.add_option("-n,--np", raw_.ranks, "Number of processes (also written -np)"), "N");
        take_last(app_.add_option("-H,--hosts,--host", options_.hosts, "Hosts, with their numbers of processes"),
                  "a:2,b:2");
        take_last(app_.add_option("--hostfile,--machinefile", options_.hostfile,
                                  "File of hosts, in lines such as `a slots=2` or `a:2`"),
                  "FILE");
        take_last(app_.add_option("--processes-per-host,--ppn", raw_.per_host,
                                  "Start K processes on every host, whatever their slots"),
                  "K");
        app_.add_flag("--no-mpi", options_.no_mpi,
                      "Start the ranks without mpirun, on other hosts through ssh; they connect through sockets, and "
                      "between hosts "
                      "their data goes over UCX");
    }

    void add_gpus() {
        take_last(app_.add_option("--gpus-per-rank", raw_.gpus_per_rank,
                                  "Give each rank N GPUs of its host through CUDA_VISIBLE_DEVICES (default: each rank "
                                  "sees all GPUs)"),
                  "N");
        app_.add_flag("--share-gpu", options_.share_gpu, "Allow several ranks of a host to use one GPU");
    }

    void add_mpi() {
        take_all(app_.add_option("--mpi-args", raw_.mpi_args, "More arguments for mpirun, as one text"), "TEXT");
        take_all(app_.add_option("--custom-mpi-options", raw_.custom_mpi_options,
                                 "The same in SageMaker's form: --NAME=value in capitals sets a variable"),
                 "TEXT");
        take_all(app_.add_option("--network-interfaces", raw_.interfaces,
                                 "Interfaces for the connections of ruedarun and of MPI"),
                 "a,b");
        take_last(app_.add_option("--ssh-port", raw_.ssh_port, "Port of ssh on the other hosts"), "PORT");
        take_last(app_.add_option("--ssh-identity-file", options_.ssh_identity, "Key file for ssh"), "FILE");
    }

    void add_environment() {
        take_all(app_.add_option("-x", raw_.exported, "Set a variable for the ranks, or pass one on; may be repeated"),
                 "VAR[=VALUE]");
        take_all(app_.add_option("--env-file", raw_.env_files,
                                 "File of lines NAME=VALUE to set for the ranks; may be repeated"),
                 "FILE");
        app_.add_flag_callback(
            "--no-torch-variables", [this] { options_.torch_variables = false; },
            "Do not set torchrun's variables for the ranks (RANK, WORLD_SIZE, MASTER_ADDR, ...)");
        app_.add_flag_callback(
            "--no-thread-variables", [this] { options_.thread_variables = false; },
            "Do not divide the cores among the ranks by OMP_NUM_THREADS and similar variables");
        take_last(app_.add_option("--config", raw_.config, "File of options in JSON; the command line wins over it"),
                  "FILE");
    }

    void add_running() {
        take_last(app_.add_option("--output-dir", options_.output_dir,
                                  "Write each rank's output to files rank.N.out and rank.N.err of this folder"),
                  "FOLDER");
        take_last(
            app_.add_option("--grace", raw_.grace,
                            "Seconds in which the other ranks have to end after a rank has failed (default: 5, or 3 "
                            "after an abort)"),
            "SECONDS");
        take_last(app_.add_option("--max-restarts", raw_.max_restarts,
                                  "Start the job again up to N times after a rank has failed"),
                  "N");
        app_.add_flag("--dry-run", options_.dry_run, "Print what would run, and run nothing");
        app_.add_flag("--explain", options_.explain, "Print what would run, with the reasons, and run nothing");
        app_.add_flag("--verbose", options_.verbose, "Print what was chosen and why, and run it");
        app_.add_flag("--doctor", options_.doctor,
                      "Look for things that make jobs slow or make them fail here, like rueda doctor");
    }

    void add_elastic() {
        take_last(app_.add_option("--min-np,--min-num-proc", raw_.least,
                                  "Elastic job: the survivors of a failure go on if there are at least N ranks"),
                  "N");
        take_last(app_.add_option("--max-np,--max-num-proc", raw_.most, "Elastic job: it grows to at most N ranks"),
                  "N");
        take_last(app_.add_option("--host-discovery-script", options_.elastic.discovery_script,
                                  "Elastic job: a program that prints the hosts with their slots, each second"),
                  "FILE");
        take_last(app_.add_option("--slots-per-host", raw_.slots_per_host,
                                  "Elastic job: the slots of a host for which no number is given"),
                  "N");
        take_last(app_.add_option("--elastic-timeout", raw_.elastic_timeout,
                                  "Elastic job: seconds in which enough ranks must come together (default: 600)"),
                  "SECONDS");
        take_last(app_.add_option("--reset-limit", raw_.resets,
                                  "Elastic job: end it instead of changing its ranks more than N times"),
                  "N");
        take_last(app_.add_option(std::string(kCooldownName), raw_.cooldown,
                                  "Elastic job: seconds without new ranks on a host after a failure there; they double "
                                  "from MIN up to MAX (default: 10 600)"),
                  "MIN MAX");
    }

    static void take_last(CLI::Option* option, const char* value_name) {
        option->type_name(value_name)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }

    static void take_all(CLI::Option* option, const char* value_name) {
        option->type_name(value_name)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }

    /// Divides the arguments into ruedarun's options and the program with its arguments. CLI11 cannot do this: it would
    /// treat an unknown option as the program, and the arguments of the program as options of ruedarun.
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
            RUEDA_RETURN_IF_FAILED(take_option(arguments.subspan(at), used, own_));
            at += used;
        }
        options_.program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
        return {};
    }

    /// Rewrites -np 2, -np=2 and -np2 to --np. CLI11 would read -np2 as the option -n with the value "p2".
    static std::string in_our_spelling(const std::string& word) {
        const std::string_view name = std::string_view(word).substr(0, word.find('='));
        if (std::find(kOneHyphen.begin(), kOneHyphen.end(), name) != kOneHyphen.end()) {
            return "-" + word;
        }
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

    /// Checks one option of `arguments`, and appends it to `taken` in the form that CLI11 needs.
    Status take_option(std::span<const std::string> arguments, std::size_t& used, std::vector<std::string>& taken) {
        bool is_horovod = false;
        RUEDA_RETURN_IF_FAILED(take_horovod_flag(arguments, used, taken, is_horovod));
        if (is_horovod) {
            return {};
        }
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
        const bool ends_in_equals = is_long && has_value && equals + 1 == word.size();
        taken.push_back(ends_in_equals ? name : word);
        if (ends_in_equals) {
            // adds the empty value, because CLI11 would otherwise take the next argument as the value
            taken.emplace_back();
        } else if (takes_value && !has_value) {
            if (arguments.size() < 2) {
                return failure(ErrorCode::invalid_argument, "{} needs a value after it; see ruedarun --help",
                               arguments.front());
            }
            taken.push_back(arguments[1]);
            used = 2;
            if (name == kCooldownName && arguments[1].find(',') == std::string::npos && arguments.size() > 2) {
                taken.back() += "," + arguments[2];
                used = 3;
            }
        }
        return {};
    }

    /// Translates a flag of horovodrun to an option of ruedarun or to a variable. If neither exists, adds a note that
    /// says why the flag has no effect.
    Status take_horovod_flag(std::span<const std::string> arguments, std::size_t& used, std::vector<std::string>& taken,
                             bool& is_one) {
        const std::string& word = arguments.front();
        const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
        const std::string name = word.substr(0, equals);
        const std::optional<HorovodFlag> flag = find_horovod_flag(name);
        is_one = flag.has_value();
        if (!flag) {
            return {};
        }
        if (flag->is_refused) {
            return failure(ErrorCode::invalid_argument, "{} of horovodrun has no counterpart here: {}", name,
                           flag->reason);
        }
        std::string value;
        if (flag->takes_value && equals != std::string::npos) {
            value = word.substr(equals + 1);
        } else if (flag->takes_value) {
            if (arguments.size() < 2) {
                return failure(ErrorCode::invalid_argument, "{} needs a value after it", name);
            }
            value = arguments[1];
            used = 2;
        }
        options_.notes.push_back(describe_horovod_flag(name, *flag, value));
        options_.asks_for_mpi = options_.asks_for_mpi || name == "--mpi";
        if (!flag->variable.empty()) {
            from_horovod_.push_back(variable_of(*flag, value));
        } else if (!flag->option.empty()) {
            taken.emplace_back(flag->option);
            if (flag->takes_value) {
                taken.push_back(value);
            }
        }
        return {};
    }

    [[nodiscard]] Result<std::string> read_file(const char* option, const std::string& name) const {
        std::optional<std::string> text = read_(name);
        if (!text) {
            return failure(ErrorCode::invalid_argument, "{}: {} cannot be read; check its name", option,
                           base::quote(name));
        }
        return std::move(*text);
    }

    /// Returns the value of --config on the command line. If the option is repeated, the last one counts.
    [[nodiscard]] std::optional<std::string> config_name() const {
        constexpr std::string_view kName = "--config";
        std::optional<std::string> found;
        for (std::size_t i = 0; i < own_.size(); ++i) {
            if (own_[i] == kName && i + 1 < own_.size()) {
                found = own_[i + 1];
            } else if (own_[i].starts_with(kName) && own_[i][kName.size()] == '=') {
                found = own_[i].substr(kName.size() + 1);
            }
        }
        return found;
    }

    [[nodiscard]] bool names_hosts() const {
        return std::any_of(own_.begin(), own_.end(), [](const std::string& word) {
            return word.starts_with("-H") || word.starts_with("--host") || word.starts_with("--machinefile");
        });
    }

    /// Puts the options of the configuration file before those of the command line. So if an option is in both, the one
    /// on the command line counts.
    Status read_config() {
        const std::optional<std::string> name = config_name();
        if (!name) {
            return {};
        }
        const Result<std::string> text = read_file("--config", *name);
        RUEDA_RETURN_IF_FAILED(text.status());
        const Result<std::vector<ConfigEntry>> entries = parse_config_file(text.value(), *name);
        RUEDA_RETURN_IF_FAILED(entries.status());
        std::vector<std::string> words;
        for (const ConfigEntry& entry : entries.value()) {
            // If the command line names hosts, all hosts and host files of the configuration file are ignored.
            const bool is_hosts = entry.name == "hosts" || entry.name == "host" || entry.name == "hostfile" ||
                                  entry.name == "machinefile";
            const Status taken = is_hosts && names_hosts() ? Status() : take_entry(entry, words);
            if (!taken.is_ok()) {
                return failure(ErrorCode::invalid_argument, "{}: {}", entry.place, taken.message());
            }
        }
        own_.insert(own_.begin(), words.begin(), words.end());
        return {};
    }

    Status take_entry(const ConfigEntry& entry, std::vector<std::string>& words) {
        const std::string option = (entry.name.size() == 1 ? "-" : "--") + entry.name;
        if (entry.name == "config" || entry.name == "help" || entry.name == "version") {
            return failure(ErrorCode::invalid_argument, "{} has no place in a file", base::quote(entry.name));
        }
        std::size_t used = 0;
        if (entry.is_switch) {
            const std::array<std::string, 1> word = {option};
            const CLI::Option* const known = app_.get_option_no_throw(option);
            if (known != nullptr && known->get_items_expected_min() > 0) {
                return failure(ErrorCode::invalid_argument, "{} is {}; expected a text or a number",
                               base::quote(entry.name), entry.values.front());
            }
            std::vector<std::string> nowhere;
            return take_option(word, used, entry.values.front() == "true" ? words : nowhere);
        }
        for (const std::string& value : entry.values) {
            const std::array<std::string, 2> pair = {option, value};
            used = 1;
            RUEDA_RETURN_IF_FAILED(take_option(pair, used, words));
            if (used != 2) {
                return failure(ErrorCode::invalid_argument, "{} is {}; expected true or false", base::quote(entry.name),
                               base::quote(value));
            }
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
            nearest = base::nearest_name("-" + name, candidates);  // finds --verbose for -verbose
        }
        const std::string advice =
            nearest.empty() ? "see ruedarun --help"
                            : fmt::format("did you mean {}?", nearest == kRanksName ? kRanksSpelling : nearest);
        return failure(ErrorCode::invalid_argument, "there is no option {}; {}", base::quote(name), advice);
    }

    Status read_texts() {
        RUEDA_RETURN_IF_FAILED(read_numbers());
        RUEDA_RETURN_IF_FAILED(read_grace());
        RUEDA_RETURN_IF_FAILED(read_elastic());
        RUEDA_RETURN_IF_FAILED(read_env_files());
        RUEDA_RETURN_IF_FAILED(read_mpi_args());
        RUEDA_RETURN_IF_FAILED(read_exported());
        RUEDA_RETURN_IF_FAILED(read_interfaces());
        if (!options_.hosts.empty() && !options_.hostfile.empty()) {
            return failure(ErrorCode::invalid_argument, "-H and --hostfile both name hosts; leave one of them out");
        }
        for (const auto& [name, value] :
             {std::pair("--output-dir", &options_.output_dir), std::pair("--hosts", &options_.hosts),
              std::pair("--hostfile", &options_.hostfile)}) {
            if (app_.count(name) > 0 && value->empty()) {
                return failure(ErrorCode::invalid_argument, "{} needs a name, found an empty one", name);
            }
        }
        if (!options_.doctor && (options_.program.empty() || options_.program.front().empty())) {
            return failure(ErrorCode::invalid_argument,
                           "there is no program to run; write it after the options: ruedarun -np {} ./program",
                           options_.ranks.value_or(2));
        }
        return {};
    }

    Status read_mpi_args() {
        for (const std::string& text : raw_.custom_mpi_options) {
            Result<CustomMpiOptions> custom = parse_custom_mpi_options(text);
            if (!custom.is_ok()) {
                return failure(ErrorCode::invalid_argument, "--custom-mpi-options: {}", custom.status().message());
            }
            append(options_.mpi_args, custom.value().mpi_args);
            append(options_.exported, custom.value().variables);
        }
        for (const std::string& text : raw_.mpi_args) {
            const Result<std::vector<std::string>> words = split_shell_words(text);
            if (!words.is_ok()) {
                return failure(ErrorCode::invalid_argument, "--mpi-args: {}", words.status().message());
            }
            append(options_.mpi_args, words.value());
        }
        if (options_.no_mpi && !options_.mpi_args.empty()) {
            return failure(ErrorCode::invalid_argument,
                           "--mpi-args has no meaning with --no-mpi; leave one of them out");
        }
        return {};
    }

    template <class T>
    static void append(std::vector<T>& all, const std::vector<T>& more) {
        all.insert(all.end(), more.begin(), more.end());
    }

    /// Puts variables from horovodrun's flags and from files before those of -x. If a variable occurs several
    /// times, the last value counts, so -x has precedence.
    Status read_env_files() {
        append(options_.exported, from_horovod_);
        for (const std::string& name : raw_.env_files) {
            const Result<std::string> text = read_file("--env-file", name);
            RUEDA_RETURN_IF_FAILED(text.status());
            const Result<std::vector<ExportedVariable>> variables = parse_env_file(text.value(), name);
            RUEDA_RETURN_IF_FAILED(variables.status());
            append(options_.exported, variables.value());
        }
        return {};
    }

    Status read_interfaces() {
        for (const std::string& text : raw_.interfaces) {
            std::string_view rest = text;
            do {
                const std::string_view name = take_until(rest, ',');
                const bool has_blank = name.find_first_of(" \t\n'\"") != std::string_view::npos;
                if (name.empty() || name.front() == '-' || has_blank) {
                    return failure(ErrorCode::invalid_argument,
                                   "--network-interfaces is {}; expected names such as eth0,eth1", base::quote(text));
                }
                options_.interfaces.emplace_back(name);
            } while (!rest.empty());
        }
        return {};
    }

    /// Parses the value of an option as a whole number. Does nothing if the option was not given.
    Status read_number(const char* option, const char* shown, const std::string& text, int least, int most,
                       const char* what, std::optional<int>& number) const {
        if (app_.count(option) == 0) {
            return {};
        }
        number = base::parse_integer<int>(text);
        if (!number || *number < least || *number > most) {
            return failure(ErrorCode::invalid_argument, "{} is {}; expected {} from {} to {}", shown, base::quote(text),
                           what, least, most);
        }
        return {};
    }

    Status read_numbers() {
        RUEDA_RETURN_IF_FAILED(
            read_number("--np", "-np", raw_.ranks, 1, kMostRanks, "a number of processes", options_.ranks));
        RUEDA_RETURN_IF_FAILED(read_number("--processes-per-host", "--processes-per-host", raw_.per_host, 1,
                                           kMostRanksOfAHost, "a number of processes", options_.per_host));
        RUEDA_RETURN_IF_FAILED(read_number("--gpus-per-rank", "--gpus-per-rank", raw_.gpus_per_rank, 1,
                                           kMostGpusOfARank, "a number of GPUs", options_.gpus_per_rank));
        RUEDA_RETURN_IF_FAILED(
            read_number("--ssh-port", "--ssh-port", raw_.ssh_port, 1, 65535, "a port", options_.ssh_port));
        std::optional<int> restarts;
        RUEDA_RETURN_IF_FAILED(
            read_number("--max-restarts", "--max-restarts", raw_.max_restarts, 0, 1000000, "a number", restarts));
        options_.max_restarts = restarts.value_or(0);
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

    Status read_elastic() {
        ElasticOptions& elastic = options_.elastic;
        RUEDA_RETURN_IF_FAILED(
            read_number("--min-np", "--min-np", raw_.least, 1, kMostRanks, "a number of processes", elastic.least));
        RUEDA_RETURN_IF_FAILED(
            read_number("--max-np", "--max-np", raw_.most, 1, kMostRanks, "a number of processes", elastic.most));
        RUEDA_RETURN_IF_FAILED(read_number("--slots-per-host", "--slots-per-host", raw_.slots_per_host, 1,
                                           kMostRanksOfAHost, "a number of processes", elastic.slots_per_host));
        RUEDA_RETURN_IF_FAILED(
            read_number("--reset-limit", "--reset-limit", raw_.resets, 0, 1000000, "a number", elastic.resets));
        if (app_.count("--elastic-timeout") > 0) {
            RUEDA_RETURN_IF_FAILED(read_seconds("--elastic-timeout", raw_.elastic_timeout, elastic.timeout));
        }
        if (app_.count(std::string(kCooldownName)) > 0) {
            std::string_view rest = raw_.cooldown;
            const std::string least(take_until(rest, ','));
            RUEDA_RETURN_IF_FAILED(read_seconds(kCooldownName, least, elastic.cooldown_least));
            RUEDA_RETURN_IF_FAILED(read_seconds(kCooldownName, std::string(rest), elastic.cooldown_most));
            if (*elastic.cooldown_least > *elastic.cooldown_most) {
                return failure(ErrorCode::invalid_argument, "{} is {}; expected two numbers, the smaller one first",
                               kCooldownName, base::quote(raw_.cooldown));
            }
        }
        for (const char* const name :
             {"--slots-per-host", "--elastic-timeout", "--reset-limit", "--blacklist-cooldown-range"}) {
            if (app_.count(name) > 0 && !elastic.make_elastic()) {
                return failure(ErrorCode::invalid_argument,
                               "{} is for elastic jobs; make the job elastic with --min-np, --max-np or "
                               "--host-discovery-script, or leave {} out",
                               name, name);
            }
        }
        return {};
    }

    static Status read_seconds(std::string_view option, const std::string& text,
                               std::optional<std::chrono::milliseconds>& time) {
        constexpr double kLongestSeconds = 1e6;
        const std::optional<double> seconds = base::parse_real(text);
        if (!seconds || *seconds < 0 || *seconds > kLongestSeconds) {
            return failure(ErrorCode::invalid_argument, "{}: found {}; expected seconds from 0 to {:.0f}", option,
                           base::quote(text), kLongestSeconds);
        }
        time = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
        return {};
    }

    Status read_exported() {
        for (const std::string& text : raw_.exported) {
            const std::size_t equals = text.find('=');
            ExportedVariable variable{text.substr(0, equals), std::nullopt};
            if (equals != std::string::npos) {
                variable.value = text.substr(equals + 1);
            }
            if (!is_variable_name(variable.name)) {
                return failure(ErrorCode::invalid_argument,
                               "-x is {}; expected NAME or NAME=value, the name of letters, digits and '_'",
                               base::quote(text));
            }
            options_.exported.push_back(std::move(variable));
        }
        return {};
    }

    Options& options_;
    const base::FileReader& read_;
    RawOptions raw_;
    std::vector<ExportedVariable> from_horovod_;
    CLI::App app_{kDescription};
    std::vector<std::string> own_;
};

}  // namespace

Result<CommandLine> parse_command_line(std::span<const std::string> arguments, const base::FileReader& read) {
    Options options;
    return Parser(options, read).parse(arguments);
}

}  // namespace rueda::launcher
