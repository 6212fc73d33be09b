// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options/horovod_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace rueda::launcher {

namespace {

struct Row {
    std::string_view name;
    HorovodFlag flag;
};

constexpr HorovodFlag option(std::string_view name, bool takes_value = true) {
    HorovodFlag flag;
    flag.takes_value = takes_value;
    flag.option = name;
    return flag;
}
constexpr HorovodFlag variable(std::string_view name, std::string_view unit = "") {
    HorovodFlag flag;
    flag.takes_value = true;
    flag.variable = name;
    flag.unit = unit;
    return flag;
}
constexpr HorovodFlag switch_to(std::string_view name, std::string_view value) {
    HorovodFlag flag;
    flag.variable = name;
    flag.fixed_value = value;
    return flag;
}
constexpr HorovodFlag ignored(std::string_view reason, bool takes_value = false) {
    HorovodFlag flag;
    flag.takes_value = takes_value;
    flag.reason = reason;
    return flag;
}
constexpr HorovodFlag refused(std::string_view reason) {
    HorovodFlag flag;
    flag.reason = reason;
    flag.is_refused = true;
    return flag;
}

constexpr std::string_view kHosts = "Rueda looks at the hosts itself";
constexpr std::string_view kNoTuner = "this version has no autotuner, and no cycle that needs one";
constexpr std::string_view kNoCycle = "Rueda has no cycle: a tensor is called when it is ready";

// The flags are in the order of `horovodrun --help`. Flags that have the same name in ruedarun are not in this table.
constexpr std::array kRows = {
    Row{"-v", option("--version", false)},
    Row{"--num-proc", option("--np")},
    Row{"-cb", refused("rueda doctor checks what works on this machine")},
    Row{"--check-build", refused("rueda doctor checks what works on this machine")},
    Row{"--disable-cache", ignored("ruedarun keeps no results of checks")},
    Row{"--start-timeout", variable("RUEDA_START_TIMEOUT")},
    Row{"--network-interface", option("--network-interfaces")},
    Row{"--output-filename", option("--output-dir")},
    Row{"--config-file", refused("--config FILE takes the settings of ruedarun, as JSON")},
    Row{"-p", option("--ssh-port")},
    Row{"-i", option("--ssh-identity-file")},
    Row{"--fusion-threshold-mb", variable("RUEDA_FUSION_THRESHOLD", "M")},
    Row{"--cycle-time-ms", ignored(kNoCycle, true)},
    Row{"--cache-capacity", ignored("every name keeps its slot; see RUEDA_SLOTS", true)},
    Row{"--hierarchical-allreduce", ignored(kHosts)},
    Row{"--no-hierarchical-allreduce", ignored(kHosts)},
    Row{"--hierarchical-allgather", ignored(kHosts)},
    Row{"--no-hierarchical-allgather", ignored(kHosts)},
    Row{"--torus-allreduce", ignored(kHosts)},
    Row{"--no-torus-allreduce", ignored(kHosts)},
    Row{"--autotune", ignored(kNoTuner)},
    Row{"--no-autotune", ignored(kNoTuner)},
    Row{"--autotune-log-file", ignored(kNoTuner, true)},
    Row{"--autotune-warmup-samples", ignored(kNoTuner, true)},
    Row{"--autotune-steps-per-sample", ignored(kNoTuner, true)},
    Row{"--autotune-bayes-opt-max-samples", ignored(kNoTuner, true)},
    Row{"--autotune-gaussian-process-noise", ignored(kNoTuner, true)},
    Row{"--timeline-filename", variable("HOROVOD_TIMELINE")},
    Row{"--timeline-mark-cycles", switch_to("HOROVOD_TIMELINE_MARK_CYCLES", "1")},
    Row{"--no-timeline-mark-cycles", switch_to("HOROVOD_TIMELINE_MARK_CYCLES", "0")},
    Row{"--stall-check", switch_to("RUEDA_STALL_CHECK", "1")},
    Row{"--no-stall-check", switch_to("RUEDA_STALL_CHECK", "0")},
    Row{"--stall-check-warning-time-seconds", variable("RUEDA_STALL_CHECK_TIME_SECONDS")},
    Row{"--stall-check-shutdown-time-seconds", variable("RUEDA_STALL_SHUTDOWN_TIME_SECONDS")},
    Row{"--mpi-threads-disable", ignored("Rueda takes the thread level that MPI gives")},
    Row{"--no-mpi-threads-disable", ignored("Rueda takes the thread level that MPI gives")},
    Row{"--tcp", ignored("MPI chooses its transport; --mpi-args '--mca btl self,vader,tcp' makes Open MPI use TCP")},
    Row{"--binding-args", option("--mpi-args")},
    Row{"--num-nccl-streams", ignored("this version works on CPUs only", true)},
    Row{"--thread-affinity", ignored("the kernel moves Rueda's threads to cores that are free", true)},
    Row{"--gloo-timeout-seconds", ignored("Rueda does not use Gloo", true)},
    Row{"--log-level", variable("RUEDA_LOG_LEVEL")},
    Row{"--log-with-timestamp", switch_to("RUEDA_LOG_HIDE_TIME", "0")},
    Row{"--log-without-timestamp", switch_to("RUEDA_LOG_HIDE_TIME", "1")},
    Row{"--no-log-hide-timestamp", switch_to("RUEDA_LOG_HIDE_TIME", "0")},
    Row{"--log-hide-timestamp", switch_to("RUEDA_LOG_HIDE_TIME", "1")},
    Row{"-prefix-timestamp", ignored("lines carry their rank; Rueda's own lines carry the time")},
    Row{"--prefix-output-with-timestamp", ignored("lines carry their rank; Rueda's own lines carry the time")},
    Row{"--gloo", option("--no-mpi", false)},
    Row{"--mpi", ignored("ruedarun uses mpirun if there is one")},
    Row{"--jsrun", refused("start the program with jsrun itself, without ruedarun")},
};

}  // namespace

std::optional<HorovodFlag> find_horovod_flag(std::string_view name) {
    const auto* const row =
        std::find_if(kRows.begin(), kRows.end(), [name](const Row& other) { return other.name == name; });
    return row == kRows.end() ? std::nullopt : std::optional(row->flag);
}

std::string describe_horovod_flag(std::string_view name, const HorovodFlag& flag, const std::string& value) {
    const std::string printed = base::printable(value);
    const std::string shown = flag.takes_value ? fmt::format("{} {}", name, printed) : std::string(name);
    if (!flag.option.empty()) {
        return fmt::format("{} is horovodrun's; taken as {}{}{}", shown, flag.option, flag.takes_value ? " " : "",
                           flag.takes_value ? printed : "");
    }
    if (!flag.variable.empty()) {
        return fmt::format("{} is horovodrun's; taken as -x {}={}", shown, flag.variable,
                           *variable_of(flag, printed).value);
    }
    return fmt::format("{} is horovodrun's; ignored: {}", shown, flag.reason);
}

ExportedVariable variable_of(const HorovodFlag& flag, const std::string& value) {
    return {std::string(flag.variable),
            flag.fixed_value.empty() ? value + std::string(flag.unit) : std::string(flag.fixed_value)};
}

}  // namespace rueda::launcher
