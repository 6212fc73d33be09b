// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/settings/settings.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/network/endpoint_list.hpp"

namespace rueda::base {

namespace {

// No job has more ranks than this. The limit finds wrong values, for example if a variable holds a process id instead
// of a rank.
constexpr std::int32_t kMostRanks = 1 << 20;
// No machine has more bytes of memory than this. The sum of a few sizes up to this limit does not overflow.
constexpr std::uint64_t kMostBytes = 1024 * 1024 * 1024 * kMiB;
// A chunk must begin and end at a cache line.
constexpr std::uint64_t kSmallestChunk = 64;
constexpr std::uint64_t kLargestChunk = 1024 * kMiB;
constexpr double kDay = 86400;
// The largest n for which the results of every n-th allreduce are compared. If n were larger, almost no allreduce would
// be compared.
constexpr std::uint32_t kMostVerified = 1'000'000;
constexpr double kYear = 365 * kDay;
// The length of sun_path in a Unix socket's address (108 bytes), minus the terminating zero.
constexpr std::size_t kLongestSocketName = 107;
// The maximum length of a name in the domain name system.
constexpr std::size_t kLongestHostName = 253;

constexpr std::array<std::string_view, 4> kControlPlaneWords = {"auto", "mpi", "socket", "single"};
constexpr std::array<std::string_view, 3> kCompressionWords = {"none", "fp16", "bf16"};
constexpr std::array<std::string_view, 3> kTransportWords = {"mpi", "ucx", "auto"};
constexpr std::array<std::string_view, 4> kGpuPathWords = {"auto", "nccl", "host", "ipc"};
constexpr std::array<std::string_view, 4> kStackSignalWords = {"none", "USR1", "USR2", "RTMIN"};
constexpr std::array<std::string_view, 7> kLogLevelWords = {"trace", "debug", "info", "warning",
                                                            "error", "fatal", "off"};

bool is_rendezvous(std::string_view text) {
    return is_tcp_rendezvous(text)
               ? tcp_endpoints(text).has_value()
               : text.size() >= 2 && text.size() <= kLongestSocketName && (text[0] == '@' || text[0] == '/');
}

bool is_host_name(std::string_view text) {
    return text.size() <= kLongestHostName &&
           std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

bool is_ip_address(std::string_view text) {
    std::array<unsigned char, sizeof(in6_addr)> address{};
    const std::string copy(text);  // inet_pton() needs a terminating zero
    return inet_pton(AF_INET, copy.c_str(), address.data()) == 1 ||
           inet_pton(AF_INET6, copy.c_str(), address.data()) == 1;
}

bool is_any_text(std::string_view /*text*/) { return true; }

constexpr Range<std::int32_t> kRankRange = {0, kMostRanks - 1};
constexpr Range<std::int32_t> kSizeRange = {1, kMostRanks};
constexpr Range<std::uint32_t> kPortRange = {0, 65535};
// No host has more GPUs than this.
constexpr std::uint32_t kMostGpusPerRank = 256;
constexpr Range<std::uint32_t> kSlotRange = {16, 65536};

// The defaults are the initial values in the struct Config.
constexpr auto kSettings = std::to_array<Setting>({
    {"RUEDA_RANK", "HOROVOD_RANK", SettingGroup::identity, SettingScope::own,
     IdentitySetting{&Config::rank, kRankRange},
     "This process's number in the job. Launchers set it together with RUEDA_SIZE; under MPI it comes from MPI."},
    {"RUEDA_SIZE", "HOROVOD_SIZE", SettingGroup::identity, SettingScope::own,
     IdentitySetting{&Config::size, kSizeRange}, "The number of processes of the job."},
    {"RUEDA_LOCAL_RANK", "HOROVOD_LOCAL_RANK", SettingGroup::identity, SettingScope::own,
     IdentitySetting{&Config::local_rank, kRankRange}, "This process's number among the processes of its host."},
    {"RUEDA_LOCAL_SIZE", "HOROVOD_LOCAL_SIZE", SettingGroup::identity, SettingScope::own,
     IdentitySetting{&Config::local_size, kSizeRange}, "The number of processes of the job on this host."},

    {"RUEDA_RENDEZVOUS", "", SettingGroup::rendezvous, SettingScope::own,
     TextSetting{&Config::rendezvous, is_rendezvous,
                 "'@name' (an abstract Unix socket) or '/path', of at most 107 bytes, or 'tcp:' and numeric addresses "
                 "with ports"},
     "Where the ranks meet without MPI. For ranks of one host: `@name` for an abstract Unix socket, or the `/path` of "
     "one in the file system. If an abstract name ends with `*`, rank 0 replaces this character by random digits, and "
     "the other ranks look for the socket, so that no other user can take the name first. For ranks on several hosts: "
     "`tcp:10.0.0.1:4711,[fd00::1]:4711`, a list of addresses of rank 0's host. ruedarun makes this list."},
    {"RUEDA_CONTROL_PLANE", "", SettingGroup::rendezvous, SettingScope::own,
     ChoiceSetting{kControlPlaneWords,
                   [](Config& config, std::size_t word) { config.control_plane = static_cast<ControlPlaneKind>(word); },
                   [](const Config& config) { return static_cast<std::size_t>(config.control_plane); }},
     "How ranks find each other: over MPI, over the socket that RUEDA_RENDEZVOUS names, or not at all (a job of one "
     "process). `auto` takes the first of these for which the process was started."},
    {"RUEDA_MPI_PLUGIN", "", SettingGroup::rendezvous, SettingScope::own,
     TextSetting{&Config::mpi_library, is_any_text, "the path of a shared library"},
     "The MPI plugin to load. If empty, Rueda loads the plugin beside `librueda.so` that fits the MPI of this "
     "process or of its launcher: `librueda_mpi.so` or `librueda_mpich.so`."},
    {"RUEDA_HOSTNAME", "HOROVOD_HOSTNAME", SettingGroup::rendezvous, SettingScope::own,
     TextSetting{&Config::hostname, is_host_name, "a name of at most 253 printable characters without spaces"},
     "The name of this host that the other ranks get. Ranks with different names share no memory, so one machine can "
     "be treated as several hosts. If empty, it is the machine's own name."},
    {"RUEDA_LEADER_SOCKETS", "", SettingGroup::rendezvous, SettingScope::rank_zero,
     SwitchSetting{&Config::leader_sockets},
     "In a job on several hosts: whether the first ranks of the hosts connect to each other over TCP, so that they can "
     "sleep while they wait for each other. If they cannot, or with 0, they exchange their messages over MPI, and "
     "poll."},
    {"RUEDA_TRANSPORT", "", SettingGroup::rendezvous, SettingScope::rank_zero,
     ChoiceSetting{kTransportWords,
                   [](Config& config, std::size_t word) { config.transport = static_cast<TransportKind>(word); },
                   [](const Config& config) { return static_cast<std::size_t>(config.transport); }},
     "In a job on several hosts: what carries the data of tensors and the program's messages between hosts. With "
     "`ucx`, init fails on all ranks if one of them cannot use UCX; `auto` then uses MPI, and rank 0 says why "
     "([design/0025-ucx.md](design/0025-ucx.md)). Ranks that meet without MPI always use UCX."},
    {"RUEDA_UCX_PLUGIN", "", SettingGroup::rendezvous, SettingScope::own,
     TextSetting{&Config::ucx_library, is_any_text, "the path of a shared library"},
     "The UCX plugin to load for RUEDA_TRANSPORT. If empty, Rueda loads `librueda_ucx.so` beside `librueda.so`."},
    {"RUEDA_START_TIMEOUT", "HOROVOD_START_TIMEOUT", SettingGroup::rendezvous, SettingScope::own,
     SecondsSetting{&Config::start_timeout_seconds, {0.01, kDay}}, "How long init waits for the other ranks."},

    {"RUEDA_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", SettingGroup::speed, SettingScope::rank_zero,
     BytesSetting{&Config::fusion_threshold_bytes, {0, kMostBytes}},
     "Tensors that are ready at the same time are executed in one batch of up to this size. 0: each tensor is "
     "executed alone."},
    {"RUEDA_HOLD_TIME", "", SettingGroup::speed, SettingScope::rank_zero, SecondsSetting{&Config::hold_seconds, {0, 1}},
     "How long a ready tensor waits for others to join its batch while no thread waits for it."},
    {"RUEDA_SPIN_TIME", "", SettingGroup::speed, SettingScope::own, SecondsSetting{&Config::spin_seconds, {0, 1, -1}},
     "How long a waiting thread spins before it sleeps. 0: it does not spin, which is best if ranks share cores. -1: "
     "chosen from the number of cores that the job may use."},
    {"RUEDA_DOUBLING_LIMIT", "", SettingGroup::speed, SettingScope::rank_zero,
     BytesSetting{&Config::doubling_limit_bytes, {0, kMostBytes}},
     "Between hosts, tensors up to this size are combined by recursive doubling, which takes the fewest messages. "
     "Larger ones are combined by reduce-scatter + allgather, which moves the fewest bytes. If the number of hosts is "
     "no power of two, a quarter of this size is the limit."},
    {"RUEDA_NETWORK_CHUNK", "", SettingGroup::speed, SettingScope::rank_zero,
     BytesSetting{&Config::network_chunk_bytes, {kSmallestChunk, kLargestChunk, 0}},
     "The number of bytes that one lane sends to other hosts at a time. 0: chosen automatically."},
    {"RUEDA_COMPRESSION", "", SettingGroup::speed, SettingScope::same,
     ChoiceSetting{kCompressionWords,
                   [](Config& config, std::size_t word) { config.compression = static_cast<Compression>(word); },
                   [](const Config& config) { return static_cast<std::size_t>(config.compression); }},
     "The type as which the float32 and float64 tensors of an allreduce travel between hosts, unless the call names "
     "one "
     "([compression.md](compression.md))."},

    {"RUEDA_ARENA_LIMIT", "", SettingGroup::memory, SettingScope::smallest,
     BytesSetting{&Config::arena_limit_bytes, {kMiB, kMostBytes}},
     "The maximum shared memory of one host for control data and cells."},
    {"RUEDA_RESIDENT_LIMIT", "", SettingGroup::memory, SettingScope::smallest,
     BytesSetting{&Config::resident_limit_bytes, {0, kMostBytes}},
     "The maximum shared memory of each rank for tensors from `rueda::allocate`, in units of 2 MiB. 0: as much as "
     "the machine's memory allows."},
    {"RUEDA_SLOTS", "", SettingGroup::memory, SettingScope::rank_zero, CountSetting{&Config::slots, kSlotRange},
     "The number of tensor names that can have a slot at the same time, at the start of the job."},
    {"RUEDA_SLOTS_MAX", "", SettingGroup::memory, SettingScope::rank_zero, CountSetting{&Config::slots_max, kSlotRange},
     "The size up to which the table of slots may grow. If it is not set, it is at least RUEDA_SLOTS."},

    {"RUEDA_GPUS_PER_RANK", "", SettingGroup::gpus, SettingScope::own,
     CountSetting{&Config::gpus_per_rank, {0, kMostGpusPerRank}},
     "The number of GPUs that the launcher gives each rank through CUDA_VISIBLE_DEVICES; the rank then uses the first "
     "of them. `ruedarun --gpus-per-rank` sets it. Set it by hand only if a script of yours gives each rank its GPUs "
     "([gpu.md](gpu.md)). 0: Rueda chooses a GPU for each rank."},
    {"RUEDA_SHARE_GPU", "", SettingGroup::gpus, SettingScope::own, SwitchSetting{&Config::share_gpu},
     "Whether several ranks of a host may use one GPU. Without it, `local_device` fails if a host has more ranks than "
     "GPUs. `ruedarun --share-gpu` sets it."},
    {"RUEDA_GPU_PATH", "", SettingGroup::gpus, SettingScope::own,
     ChoiceSetting{kGpuPathWords,
                   [](Config& config, std::size_t word) { config.gpu_path = static_cast<GpuPath>(word); },
                   [](const Config& config) { return static_cast<std::size_t>(config.gpu_path); }},
     "How tensors on GPUs move between ranks: `nccl` by NCCL only, `host` through the host's memory only, and `auto` "
     "by NCCL where it can do so, otherwise large tensors through GPU memory that the ranks share, and small tensors "
     "through the host's memory. `ipc` is `auto` without NCCL. All ranks need the same value "
     "([gpu.md](gpu.md#without-nccl))."},
    {"RUEDA_CUDA_PLUGIN", "", SettingGroup::gpus, SettingScope::own,
     TextSetting{&Config::cuda_library, is_any_text, "the path of a shared library"},
     "The plugin for tensors on GPUs. If empty, Rueda loads `librueda_cuda.so` beside `librueda.so` when the first "
     "such tensor comes."},
    {"RUEDA_NCCL_LIBRARY", "", SettingGroup::gpus, SettingScope::own,
     TextSetting{&Config::nccl_library, is_any_text, "the path of a shared library"},
     "The NCCL to use for tensors on GPUs. If empty, Rueda takes the one that the process has loaded, and otherwise "
     "looks for `libnccl.so.2` ([gpu.md](gpu.md))."},

    {"RUEDA_HOST_TIMEOUT", "", SettingGroup::failures, SettingScope::rank_zero,
     SecondsSetting{&Config::host_timeout_seconds, {0.5, kDay}},
     "If another host sends nothing for this time, it counts as cut off, and the job ends. A host whose leader is "
     "stopped for longer also counts as cut off."},
    {"RUEDA_STALL_CHECK", "HOROVOD_STALL_CHECK_DISABLE", SettingGroup::failures, SettingScope::rank_zero,
     SwitchSetting{&Config::stall_check}, "Whether tensors that only some ranks have announced are reported.", true},
    {"RUEDA_STALL_CHECK_TIME_SECONDS", "HOROVOD_STALL_CHECK_TIME_SECONDS", SettingGroup::failures,
     SettingScope::rank_zero, SecondsSetting{&Config::stall_warning_seconds, {0.01, kYear}},
     "How long a tensor may be missing on some ranks before it is reported."},
    {"RUEDA_STALL_SHUTDOWN_TIME_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", SettingGroup::failures,
     SettingScope::rank_zero, SecondsSetting{&Config::stall_shutdown_seconds, {0, kYear}},
     "How long a tensor may be missing on some ranks, or make no progress while it is executed, before the job ends. "
     "0: "
     "the job does not end. Ignored if it is less than RUEDA_STALL_CHECK_TIME_SECONDS."},
    {"RUEDA_CALL_SITES", "", SettingGroup::failures, SettingScope::rank_zero, SwitchSetting{&Config::call_sites},
     "Whether errors and stall reports name the line of the program that called an operation."},
    {"RUEDA_DIAGNOSTICS_DIR", "", SettingGroup::failures, SettingScope::own,
     TextSetting{&Config::diagnostics_dir, is_any_text, "the path of a folder"},
     "The folder in which the ranks write files about what went wrong, such as the stall reports "
     "([troubleshooting.md](troubleshooting.md)). It is created if it does not exist. If empty, no files are written."},
    {"RUEDA_VERIFY", "", SettingGroup::failures, SettingScope::rank_zero,
     CountSetting{&Config::verify, {0, kMostVerified}},
     "Compares checksums between the ranks: of the results of every broadcast and of every n-th allreduce (1: of "
     "every allreduce). An operation whose results differ fails on all ranks. Also reports a tensor whose memory was "
     "freed while its operation was pending. 0: nothing is compared."},
    {"RUEDA_CHECK_NAN", "", SettingGroup::failures, SettingScope::rank_zero, SwitchSetting{&Config::check_nan},
     "Whether reductions of floats fail, on all ranks, if the input of some rank has a NaN or an infinity."},
    {"RUEDA_STACK_SIGNAL", "", SettingGroup::failures, SettingScope::own,
     ChoiceSetting{kStackSignalWords,
                   [](Config& config, std::size_t word) { config.stack_signal = static_cast<StackSignal>(word); },
                   [](const Config& config) { return static_cast<std::size_t>(config.stack_signal); }},
     "The signal with which a rank takes the stack of its main thread for stall reports. If a person sends it to a "
     "rank, that rank prints the stacks of all ranks of its host. If the program handles this signal itself, Rueda "
     "leaves it alone and shows no stack of the rank. `none`: no stacks."},

    {"RUEDA_METRICS_PORT", "", SettingGroup::metrics, SettingScope::own,
     CountSetting{&Config::metrics_port, kPortRange},
     "The port on which the lowest rank of each host answers `GET /metrics` for Prometheus, with the metrics of all "
     "ranks of the host ([metrics.md](metrics.md)). 0: no rank listens."},
    {"RUEDA_METRICS_ADDRESS", "", SettingGroup::metrics, SettingScope::own,
     TextSetting{&Config::metrics_address, is_ip_address, "an IP address in numbers, such as 127.0.0.1 or 0.0.0.0"},
     "The address on which it listens. The default is reachable only from the host itself. 0.0.0.0: everybody who "
     "reaches the host can read the metrics."},

    {"RUEDA_LOG_LEVEL", "HOROVOD_LOG_LEVEL", SettingGroup::messages, SettingScope::own,
     ChoiceSetting{kLogLevelWords,
                   [](Config& config, std::size_t word) { config.log_level = static_cast<LogLevel>(word); },
                   [](const Config& config) { return static_cast<std::size_t>(config.log_level); }},
     "The lowest level of messages that are printed to the standard error."},
    {"RUEDA_LOG_HIDE_TIME", "HOROVOD_LOG_HIDE_TIME", SettingGroup::messages, SettingScope::own,
     SwitchSetting{&Config::log_hide_time}, "Whether messages are printed without date and time."},

    {"RUEDA_TIMELINE", "HOROVOD_TIMELINE", SettingGroup::messages, SettingScope::rank_zero,
     TextSetting{&Config::timeline, is_any_text, "the path of a file"},
     "The file of a timeline that `init` starts ([timeline.md](timeline.md)). `DYNAMIC`: `init` starts none; the "
     "program can start one later. `ruedarun --timeline-filename` sets this variable."},
    {"RUEDA_TIMELINE_MARK_CYCLES", "HOROVOD_TIMELINE_MARK_CYCLES", SettingGroup::messages, SettingScope::rank_zero,
     SwitchSetting{&Config::timeline_mark_cycles},
     "Whether the timeline has an event `CYCLE_START` where a batch begins. Rueda has no cycles; the events are for "
     "tools that look for them."},
});

// Rueda warns if a variable with the prefix RUEDA_ or HOROVOD_ is unknown. The variables in this table count as known,
// because ruedarun, the Python package, scripts or tests read them.
constexpr auto kOthers = std::to_array<OtherVariable>({
    {"HOROVOD_ELASTIC", "rueda.torch",
     "1: DistributedOptimizer also reduces in a job of one rank, as in a job that may grow."},
    {"RUEDA_AS_HOROVOD", "Python",
     "1: `import horovod.torch` imports rueda.torch, in every script (migrating-from-horovod.md)."},
    {"RUEDA_ELASTIC_DIR", "rueda.torch.elastic",
     "The folder to which rank 0 writes what `State.commit()` commits, so that a restarted job continues from there. "
     "If it is not set, commits are kept in memory only."},
    {"RUEDA_LAUNCHER_FD", "ruedarun",
     "ruedarun sets it for each rank: the socket over which it notifies the rank how other ranks have ended. Do not "
     "set it by hand."},
    {"RUEDA_RENDEZVOUS_SECRET", "ruedarun",
     "The secret of the job, by which ranks recognise each other if RUEDA_RENDEZVOUS names TCP addresses: the same "
     "random text on all ranks. Do not set it by hand."},
});

constexpr std::string_view kNoCycle = "Rueda has no cycle: a tensor is called when it is ready";
constexpr std::string_view kNoCache = "every name keeps its slot; see RUEDA_SLOTS";
constexpr std::string_view kOwnLayout = "Rueda looks at the hosts itself";
constexpr std::string_view kOwnControlPlane = "see RUEDA_CONTROL_PLANE";
constexpr std::string_view kNoGloo = "Rueda does not use Gloo; see RUEDA_RENDEZVOUS";
constexpr std::string_view kNoGpu = "this version works on CPUs only";
constexpr std::string_view kNotYet = "this version does not have it";

constexpr auto kHorovodOnly = std::to_array<HorovodOnlyVariable>({
    {"HOROVOD_ADASUM_MPI_CHUNK_SIZE", "see RUEDA_NETWORK_CHUNK"},
    {"HOROVOD_AUTOTUNE*", kNotYet},
    {"HOROVOD_BATCH_D2D_MEMCOPIES", kNoGpu},
    {"HOROVOD_CACHE_CAPACITY", kNoCache},
    {"HOROVOD_CCL_CACHE", "Rueda does not use oneCCL"},
    {"HOROVOD_CONTROLLER", kOwnControlPlane},
    {"HOROVOD_CPU_OPERATIONS", kOwnControlPlane},
    {"HOROVOD_CROSS_RANK", kOwnLayout},
    {"HOROVOD_CROSS_SIZE", kOwnLayout},
    {"HOROVOD_CYCLE_TIME", kNoCycle},
    {"HOROVOD_DISABLE_GROUP_FUSION", kNotYet},
    {"HOROVOD_DISABLE_NVTX_RANGES", kNoGpu},
    {"HOROVOD_DYNAMIC_PROCESS_SETS", kNotYet},
    {"HOROVOD_ELASTIC_TIMEOUT", "ruedarun gets this time by --elastic-timeout"},
    {"HOROVOD_ENABLE_ASYNC_COMPLETION", kNoGpu},
    {"HOROVOD_ENABLE_XLA_OPS", kNotYet},
    {"HOROVOD_GLOO_*", kNoGloo},
    {"HOROVOD_HIERARCHICAL_ALLGATHER", kOwnLayout},
    {"HOROVOD_HIERARCHICAL_ALLREDUCE", kOwnLayout},
    {"HOROVOD_MPI_THREADS_DISABLE", "Rueda takes the thread level that MPI gives"},
    {"HOROVOD_NUM_NCCL_STREAMS", kNoGpu},
    {"HOROVOD_THREAD_AFFINITY", kNotYet},
    {"HOROVOD_TORUS_ALLREDUCE", kOwnLayout},
});

}  // namespace

std::span<const Setting> settings() { return kSettings; }
std::span<const OtherVariable> other_variables() { return kOthers; }
std::span<const HorovodOnlyVariable> horovod_only_variables() { return kHorovodOnly; }

}  // namespace rueda::base
