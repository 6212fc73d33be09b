// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/cores.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "rueda/rueda.hpp"

namespace rueda::training {
namespace {

/// Returns the value of an environment variable, or an empty text.
std::string_view environment_text(const char* name) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): Rueda sets no variables
    return value == nullptr ? "" : value;
}

/// Calls a function of another library if the program has loaded this library. The functions are looked up by name,
/// because Rueda must not depend on these libraries.
void call_if_loaded(const char* name, int number) {
    using Function = void (*)(int);
    if (const auto function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name))) {
        function(number);
    }
}

/// Parses the value of OMP_NUM_THREADS, which may be a list with a number for each level of nested parallel regions.
/// Returns the first number, or nothing if it is not a positive number.
std::optional<int> outermost_number(std::string_view list) {
    std::string_view first = list.substr(0, list.find(','));
    first = first.substr(0, first.find_last_not_of(' ') + 1);
    first.remove_prefix(std::min(first.find_first_not_of(' '), first.size()));
    const auto number = base::parse_integer<int>(first);
    return number.value_or(0) > 0 ? number : std::nullopt;
}

std::string thread_text(int count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

Cores use_cores() {
    Cores cores;
    cores.threads = threads_per_rank();
    const std::string_view by_user = environment_text("OMP_NUM_THREADS");
    if (const std::optional<int> outermost = outermost_number(by_user)) {
        cores.threads = *outermost;
        cores.is_set_by_user = true;
        cores.summary = fmt::format("cores: OMP_NUM_THREADS={} stays as it is", by_user);
        return cores;
    }
    call_if_loaded("omp_set_num_threads", cores.threads);
    if (environment_text("KMP_BLOCKTIME").empty()) {
        call_if_loaded("kmp_set_blocktime", 1);
    }
    if (environment_text("OPENBLAS_NUM_THREADS").empty()) {
        call_if_loaded("openblas_set_num_threads", cores.threads);
    }
    if (environment_text("MKL_NUM_THREADS").empty()) {
        call_if_loaded("MKL_Set_Num_Threads", cores.threads);
    }
    cores.summary = fmt::format("cores: {} on each rank, because {} share{} the cores of this host",
                                thread_text(cores.threads, "thread"), thread_text(local_size(), "rank"),
                                local_size() == 1 ? "s" : "");
    if (!by_user.empty()) {
        cores.summary += fmt::format("; OMP_NUM_THREADS={} had no effect, because it is no number above 0",
                                     base::printable(by_user, 40));
    }
    return cores;
}

}  // namespace rueda::training
