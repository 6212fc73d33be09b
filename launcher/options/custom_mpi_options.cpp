// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options/custom_mpi_options.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "launcher/options/shell_words.hpp"

namespace rueda::launcher {

namespace {

/// Whether the word is `--NAME` or `--NAME=value` for a variable. All options of Open MPI's, MPICH's and Intel MPI's
/// mpirun contain lower-case letters, so a name in capitals is a variable.
bool is_variable_option(std::string_view word) {
    if (!word.starts_with("--")) {
        return false;
    }
    const std::string_view name = word.substr(2, word.find('=') - 2);
    const bool has_small = std::any_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    const bool has_capital = std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
    return is_variable_name(name) && has_capital && !has_small;
}

Result<ExportedVariable> exported(std::string_view text) {
    const std::size_t equals = text.find('=');
    ExportedVariable variable{std::string(text.substr(0, equals)), std::nullopt};
    if (!is_variable_name(variable.name)) {
        return failure(ErrorCode::invalid_argument, "found -x {}; expected -x NAME or -x NAME=value",
                       base::quote(text));
    }
    if (equals != std::string_view::npos) {
        variable.value = text.substr(equals + 1);
    }
    return variable;
}

}  // namespace

Result<CustomMpiOptions> parse_custom_mpi_options(std::string_view text) {
    const Result<std::vector<std::string>> words = split_shell_words(text);
    RUEDA_RETURN_IF_FAILED(words.status());
    CustomMpiOptions options;
    for (std::size_t i = 0; i < words.value().size(); ++i) {
        const std::string& word = words.value()[i];
        const bool is_export = word == "-x" || word == "--x";
        const bool is_variable = is_variable_option(word);
        if (!is_export && !is_variable) {
            options.mpi_args.push_back(word);
            continue;
        }
        std::string assignment = is_export ? "" : word.substr(2);
        if (is_export || assignment.find('=') == std::string::npos) {
            if (++i == words.value().size()) {
                return failure(ErrorCode::invalid_argument, "{} needs a value after it", word);
            }
            assignment += (is_export ? "" : "=") + words.value()[i];
        }
        Result<ExportedVariable> variable = exported(assignment);
        RUEDA_RETURN_IF_FAILED(variable.status());
        options.variables.push_back(std::move(variable).value());
    }
    return options;
}

}  // namespace rueda::launcher
