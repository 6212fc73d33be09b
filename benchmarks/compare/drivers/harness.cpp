// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "harness.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace compare {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kMostRanks = 64;
constexpr std::size_t kCacheLine = 64;
/// The time limit of line_up(), the barrier of all ranks. No measured operation takes this long, so a rank that does
/// not reach the barrier in time has died.
constexpr Seconds kGivesUpAfter{120};

/// One rank's part of the shared memory of a run, on its own cache lines. Only this rank writes `arrived` (release),
/// and all ranks read it (acquire). So after line_up(), a rank sees everything that the other ranks wrote before their
/// line_up().
struct Seat {
    std::atomic<std::uint64_t> arrived;
    double value;
    std::uint64_t wrong;
    std::array<std::byte, 104> unused;
};
static_assert(sizeof(Seat) == 128 && std::atomic<std::uint64_t>::is_always_lock_free);

/// Shared memory that the conductor (the script that starts the ranks) creates for one run, filled with zeros. Only
/// rank 0 writes `goes_on`, between two calls of line_up().
struct Board {
    std::array<Seat, kMostRanks> seats;
    std::uint32_t goes_on;
};
constexpr std::uint64_t kBoardBytes = 64 * 1024;  // the buffers of bound_peer.cpp come after the struct Board
static_assert(sizeof(Board) <= kBoardBytes);

const char* required(const char* variable) {
    const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): no thread sets variables
    if (value == nullptr) {
        throw std::runtime_error(std::string(variable) + " is not set: this program is started by benchmarks/compare");
    }
    return value;
}

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

std::span<std::byte> map_board() {
    const char* path = required("COMPARE_BOARD");
    const int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || fstat(file, &status) != 0) {
        fail(std::string("cannot open the board ") + path);
    }
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    if (bytes < kBoardBytes) {
        throw std::runtime_error("the board has " + std::to_string(bytes) + " bytes, expected at least " +
                                 std::to_string(kBoardBytes));
    }
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) {
        fail("cannot map the board");
    }
    return {static_cast<std::byte*>(memory), bytes};
}

/// Returns the shared memory of a run, which stays mapped until the process ends.
std::span<std::byte> board_memory() {
    static const std::span<std::byte> memory = map_board();
    return memory;
}

Board& board() { return *reinterpret_cast<Board*>(board_memory().data()); }

Seat& seat_of(int rank) { return board().seats[static_cast<std::size_t>(rank)]; }

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// The inputs are small integers, which float32 adds exactly in any order. Element i of rank r in iteration t is (i + r
// + t) mod 7, so inputs and results repeat every seven elements.
constexpr std::uint64_t kPeriod = 7;

/// A block of the seven repeating values. It can be copied and compared quickly, and uses little of the L1 cache.
class Pattern {
public:
    /// Computes the sum of the inputs of `ranks` ranks, beginning with `first_rank`.
    Pattern(int first_rank, int ranks, std::uint64_t iteration) {
        for (std::uint64_t i = 0; i < values_.size(); ++i) {
            std::uint64_t sum = 0;
            for (int rank = first_rank; rank < first_rank + ranks; ++rank) {
                sum += (i + static_cast<std::uint64_t>(rank) + iteration) % kPeriod;
            }
            values_[i] = static_cast<float>(sum);
        }
    }
    void write(float* to, std::uint64_t count) const {
        for (std::uint64_t i = 0; i < count; i += kBlock) {
            std::memcpy(to + i, values_.data(), std::min(kBlock, count - i) * sizeof(float));
        }
    }
    /// Returns the number of wrong elements in `values`. The first of the values is element `first` of the tensor.
    [[nodiscard]] std::uint64_t count_wrong(const float* values, std::uint64_t first, std::uint64_t count) const {
        const float* expected = values_.data() + first % kPeriod;
        std::uint64_t wrong = 0;
        for (std::uint64_t i = 0; i < count; i += kBlock) {
            const std::uint64_t n = std::min(kBlock, count - i);
            if (std::memcmp(values + i, expected, n * sizeof(float)) != 0) {
                for (std::uint64_t k = 0; k < n; ++k) {
                    wrong += values[i + k] == expected[k] ? 0U : 1U;
                }
            }
        }
        return wrong;
    }

private:
    static constexpr std::uint64_t kBlock = 64 * kPeriod;
    std::array<float, kBlock + kPeriod> values_;
};

/// Returns the number of output elements that differ from the operation's definition. Each rank's input has `count`
/// elements.
std::uint64_t count_wrong(const std::string& operation, const float* output, std::uint64_t count, const Place& place,
                          std::uint64_t iteration) {
    const std::uint64_t part = count / static_cast<std::uint64_t>(place.size);
    const std::uint64_t mine = part * static_cast<std::uint64_t>(place.rank);
    if (operation == "allreduce") {
        return Pattern(0, place.size, iteration).count_wrong(output, 0, count);
    }
    if (operation == "broadcast") {
        return Pattern(0, 1, iteration).count_wrong(output, 0, count);
    }
    if (operation == "reducescatter") {
        return Pattern(0, place.size, iteration).count_wrong(output, mine, part);
    }
    if (operation == "message") {  // from the even rank of a pair to the odd rank, and back
        return Pattern(place.rank / 2 * 2, 1, iteration).count_wrong(output, 0, count);
    }
    std::uint64_t wrong = 0;
    for (int rank = 0; rank < place.size; ++rank) {
        const Pattern pattern(rank, 1, iteration);
        const auto r = static_cast<std::uint64_t>(rank);
        if (operation == "allgather") {
            wrong += pattern.count_wrong(output + r * count, 0, count);
        } else if (operation == "alltoall") {
            wrong += pattern.count_wrong(output + r * part, mine, part);
        } else {
            throw std::runtime_error("operation '" + operation + "' of the plan is not known");
        }
    }
    return wrong;
}

/// One line of the plan (the list of cases to measure). `has_result` is false for bound_peer.cpp, which measures a
/// lower bound and computes no result.
struct Task {
    Case c;
    Seconds seconds{0};
    std::uint64_t fewest = 0;
    std::uint64_t most = 0;
    bool has_result = true;
    /// The size of a block of memory that no operation uses. A rank writes this block before each operation, so the
    /// caches lose data of the previous operation. In a training, the computation between two operations does the same.
    std::uint64_t bytes_between = 0;
};

/// Reads `count`, or `count@microseconds` if a simulated backward pass computes for this time before it has the tensor.
void read_tensor(const std::string& word, Case& c) {
    std::size_t digits = 0;
    c.counts.push_back(std::stoull(word, &digits));
    if (digits < word.size() && word[digits] == '@') {
        c.compute_us.push_back(std::stod(word.substr(digits + 1)));
    }
}

/// Reads the lines of the plan: `label operation seconds fewest most has_result bytes_between tensor tensor …`. If
/// `operation` is `standing`, the line measures memory and CPU use, first of an idle rank and then of a waiting rank.
/// Each of the two measurements takes `seconds`.
std::vector<Task> read_plan(const std::string& path) {
    std::ifstream file(path);
    std::vector<Task> tasks;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        Task task;
        double seconds = 0;
        if (!(words >> task.c.label >> task.c.operation >> seconds >> task.fewest >> task.most >> task.has_result >>
              task.bytes_between)) {
            line.insert(0, "the plan '" + path + "' has a line that is not one: ");
            throw std::runtime_error(line);
        }
        task.seconds = Seconds(seconds);
        for (std::string word; words >> word;) {
            read_tensor(word, task.c);
        }
        if (!task.c.compute_us.empty() && task.c.compute_us.size() != task.c.counts.size()) {
            throw std::runtime_error("the plan '" + path + "' says of some tensors of " + task.c.label +
                                     " only what is computed before them");
        }
        tasks.push_back(std::move(task));
    }
    if (tasks.empty()) {
        throw std::runtime_error("the plan '" + path + "' cannot be read or is empty");
    }
    return tasks;
}

class Timing {
public:
    Timing(Peer& peer, const Task& task, const Place& place) : peer_(peer), task_(task), place_(place) {}

    void run() {
        // The first runs create names and connections and fill the caches, so these runs are not measured.
        const std::uint64_t warm_up = std::min<std::uint64_t>(5, task_.fewest);
        inputs_ = peer_.begin(task_.c);
        between_.resize(task_.bytes_between);
        for (std::uint64_t i = 0; i < warm_up; ++i) {
            iterate(i);
        }
        times_.clear();
        alone_.clear();
        const auto end = Clock::now() + task_.seconds;
        std::uint64_t done = 0;
        do {
            iterate(warm_up + done++);
            if (place_.rank == 0) {
                board().goes_on = done < task_.fewest || (done < task_.most && Clock::now() < end) ? 1 : 0;
            }
            line_up(place_);
        } while (board().goes_on != 0);
        peer_.end();
        print();
    }

private:
    void iterate(std::uint64_t iteration) {
        if (!task_.c.compute_us.empty()) {
            compute_alone();
        }
        // Reads and writes each cache line. A call of memset() could bypass the caches, and the outputs of the previous
        // operation would then stay in the caches.
        for (std::size_t i = 0; i < between_.size(); i += kCacheLine) {
            between_[i] = static_cast<char>(between_[i] + 1);
        }
        const Pattern pattern(place_.rank, 1, iteration);
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            pattern.write(inputs_[i], task_.c.counts[i]);
        }
        line_up(place_);
        const auto begin = Clock::now();
        peer_.run();
        const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
        Seat& seat = seat_of(place_.rank);
        seat.value = time.count();
        if (task_.has_result) {
            check(seat, iteration);
        }
        line_up(place_);
        collect(times_);
    }
    /// Times two backward passes alternately: one without communication, and one that communicates.
    void compute_alone() {
        line_up(place_);
        const auto begin = Clock::now();
        for (std::size_t i = 0; i < task_.c.compute_us.size(); ++i) {
            compute_before(task_.c, i);
        }
        const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
        seat_of(place_.rank).value = time.count();
        line_up(place_);
        collect(alone_);
    }
    void check(Seat& seat, std::uint64_t iteration) {
        const std::vector<const float*> outputs = peer_.outputs();
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            seat.wrong += count_wrong(task_.c.operation, outputs[i], task_.c.counts[i], place_, iteration);
        }
    }
    /// Reads the values that all ranks have written to the shared memory. The values cannot change before the next
    /// line_up(), because line_up() waits for rank 0.
    void collect(std::vector<double>& times) {
        if (place_.rank != 0) {
            return;
        }
        double slowest = 0;
        for (int rank = 0; rank < place_.size; ++rank) {
            slowest = std::max(slowest, seat_of(rank).value);
            wrong_ += std::exchange(seat_of(rank).wrong, 0);
        }
        times.push_back(slowest);
    }
    /// Returns the quantile q of `times`, which must be sorted.
    [[nodiscard]] static double quantile(const std::vector<double>& times, double q) {
        return times[static_cast<std::size_t>(std::lround(q * static_cast<double>(times.size() - 1)))];
    }
    void print() {
        if (place_.rank != 0) {
            return;
        }
        std::sort(times_.begin(), times_.end());
        std::printf(
            "{\"case\": \"%s\", \"iterations\": %zu, \"min\": %.3f, \"p10\": %.3f, \"median\": %.3f, \"p90\": %.3f, "
            "\"max\": %.3f, \"wrong\": %llu",
            task_.c.label.c_str(), times_.size(), quantile(times_, 0), quantile(times_, 0.1), quantile(times_, 0.5),
            quantile(times_, 0.9), quantile(times_, 1), static_cast<unsigned long long>(wrong_));
        if (!alone_.empty()) {
            std::sort(alone_.begin(), alone_.end());
            std::printf(", \"alone\": %.3f", quantile(alone_, 0.5));
        }
        std::printf("}\n");
        std::fflush(stdout);
    }

    Peer& peer_;
    const Task& task_;
    const Place& place_;
    std::vector<float*> inputs_;
    std::vector<char> between_;  // Task::bytes_between
    std::vector<double> times_;  // only on rank 0
    std::vector<double> alone_;  // times of the passes without communication; only rank 0 has them
    std::uint64_t wrong_ = 0;
};

/// Returns the CPU time of all threads of this process.
Seconds cpu_time() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return Seconds(seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

/// Returns the largest of the ranks' values; `mine` is this rank's value. All ranks must call this function. The values
/// of the first `left_out` ranks do not count.
double largest(double mine, const Place& place, int left_out) {
    seat_of(place.rank).value = mine;
    line_up(place);
    double most = 0;
    for (int rank = left_out; rank < place.size; ++rank) {
        most = std::max(most, seat_of(rank).value);
    }
    line_up(place);
    return most;
}

double percent_while(Seconds seconds, const std::function<void()>& body) {
    const Seconds before = cpu_time();
    body();
    return 100 * (cpu_time() - before) / seconds;
}

void measure_standing(Peer& peer, const Task& task, const Place& place, std::uint64_t bytes_before) {
    const std::uint64_t now = proportional_bytes();
    const double memory = largest(static_cast<double>(now - std::min(now, bytes_before)) / (1 << 20), place, 0);
    const std::vector<float*> inputs = peer.begin({task.c.label, "allreduce", {1}, {}});
    *inputs.front() = 0;
    peer.run();  // The first run creates connections, names and threads, so it is not measured.
    line_up(place);
    const double idle =
        largest(percent_while(task.seconds, [&] { std::this_thread::sleep_for(task.seconds); }), place, 0);
    const double waiting = largest(percent_while(task.seconds,
                                                 [&] {
                                                     if (place.rank == 0) {
                                                         std::this_thread::sleep_for(task.seconds);
                                                     }
                                                     peer.run();
                                                 }),
                                   place, 1);
    peer.end();
    if (place.rank == 0) {
        std::printf(
            "{\"case\": \"%s\", \"init_mebibytes\": %.2f, \"idle_cpu_percent\": %.3f, \"waiting_cpu_percent\": %.3f}\n",
            task.c.label.c_str(), memory, idle, waiting);
        std::fflush(stdout);
    }
}

/// Makes passes over a buffer in the L1 cache. The values stay near 1, so that all passes take the same time. The
/// function is not inlined, so that calibration and measurement run the same code.
[[gnu::noinline]] void compute_passes(std::uint64_t passes) {
    constexpr std::size_t kElements = 1024;
    alignas(64) static std::array<float, kElements> buffer{};
    for (std::uint64_t pass = 0; pass < passes; ++pass) {
        for (float& element : buffer) {
            element = element * 0.75F + 0.25F;
        }
        asm volatile("" : : "r"(buffer.data()) : "memory");  // keeps the compiler from removing a pass
    }
}

/// The measured speed of the computation in a simulated backward pass. Set before the first case, and constant
/// afterwards.
double passes_per_microsecond = 0;

/// Measures many short slices of computation on a warm core. Returns the median, because a preemption affects only a
/// few slices.
double calibrate() {
    constexpr std::uint64_t kPasses = 1024;  // 50 to 200 µs
    constexpr int kSlices = 300;
    std::vector<double> rates;
    for (int slice = 0; slice < 2 * kSlices; ++slice) {
        const auto begin = Clock::now();
        compute_passes(kPasses);
        const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
        if (slice >= kSlices) {
            rates.push_back(static_cast<double>(kPasses) / time.count());
        }
    }
    std::nth_element(rates.begin(), rates.begin() + kSlices / 2, rates.end());
    return rates[kSlices / 2];
}

/// Calibrates on all ranks, so that all cores are busy. Then all ranks use rank 0's value, to do the same amount of
/// work.
void agree_on_passes(const Place& place) {
    line_up(place);
    seat_of(place.rank).value = calibrate();
    line_up(place);
    passes_per_microsecond = seat_of(0).value;
    line_up(place);
}

}  // namespace

void compute(double microseconds) {
    compute_passes(static_cast<std::uint64_t>(std::llround(microseconds * passes_per_microsecond)));
}

std::uint64_t proportional_bytes() {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string word; file >> word;) {
        if (word == "Pss:") {
            std::uint64_t kilobytes = 0;
            file >> kilobytes;
            return kilobytes * 1024;
        }
    }
    return 0;
}

void run_plan(Peer& peer, const Place& place, std::uint64_t bytes_before) {
    if (place.size > kMostRanks) {
        throw std::runtime_error(std::to_string(place.size) + " ranks, but the board has room for " +
                                 std::to_string(kMostRanks));
    }
    const std::vector<Task> tasks = read_plan(required("COMPARE_PLAN"));
    if (std::any_of(tasks.begin(), tasks.end(), [](const Task& task) { return !task.c.compute_us.empty(); })) {
        agree_on_passes(place);
    }
    for (const Task& task : tasks) {
        if (task.c.operation == "standing") {
            measure_standing(peer, task, place, bytes_before);
        } else {
            Timing(peer, task, place).run();
        }
    }
}

Place place_from_conductor() { return {std::atoi(required("COMPARE_RANK")), std::atoi(required("COMPARE_SIZE"))}; }

void bind_to_own_core(const Place& place) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < place.size) {
        return;
    }
    std::size_t core = 0;  // the rank uses the allowed core with the index `rank`
    for (int before = place.rank; !CPU_ISSET(core, &allowed) || before-- > 0;) {
        ++core;
    }
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    // If this call fails, the rank is not bound to a core, which only makes it slower.
    static_cast<void>(sched_setaffinity(0, sizeof(own), &own));
}

std::vector<std::byte*> shared_buffers(const Place& place, std::uint64_t bytes) {
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t rounded = (bytes / kPage + 1) * kPage;
    const auto size = static_cast<std::uint64_t>(place.size);
    if (board_memory().size() < kBoardBytes + rounded * size) {
        throw std::runtime_error("the board has " + std::to_string(board_memory().size()) + " bytes, but " +
                                 std::to_string(size) + " buffers of " + std::to_string(bytes) + " are asked for");
    }
    std::vector<std::byte*> buffers;
    for (std::uint64_t rank = 0; rank < size; ++rank) {
        buffers.push_back(board_memory().data() + kBoardBytes + rounded * rank);
    }
    return buffers;
}

void line_up(const Place& place) {
    // Spins for a limited time, and then yields. If all ranks are running, line_up() ends while it spins. It takes
    // longer only if a rank is preempted.
    constexpr int kSpins = 2000;
    static const int spins = std::thread::hardware_concurrency() < static_cast<unsigned>(place.size) ? 0 : kSpins;
    static std::uint64_t round = 0;
    ++round;
    seat_of(place.rank).arrived.store(round, std::memory_order_release);
    const auto began = Clock::now();
    for (int rank = 0; rank < place.size; ++rank) {
        const std::atomic<std::uint64_t>& arrived = seat_of(rank).arrived;
        for (std::uint64_t tries = 0; arrived.load(std::memory_order_acquire) < round; ++tries) {
            if (tries < static_cast<std::uint64_t>(spins)) {
                pause_briefly();
                continue;
            }
            sched_yield();
            if (tries % 1024 == 1023 && Clock::now() - began > kGivesUpAfter) {
                throw std::runtime_error("rank " + std::to_string(rank) + " has not lined up for 120 s");
            }
        }
    }
}

int guarded(std::string_view program, int (*body)(int, char**), int argc, char** argv) {
    try {
        return body(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(program.size()), program.data(), error.what());
    }
    return 1;
}

}  // namespace compare

// Python calls these functions through ctypes. An exception in a callback ends the process.
extern "C" {

struct compare_callbacks {
    /// Starts a case. If the case simulates a backward pass, `compute_us` contains a computing time for each tensor;
    /// otherwise it is null. The peer calls compare_compute() with a tensor's time before it submits the tensor.
    void (*begin)(const char* operation, std::uint64_t tensors, const std::uint64_t* counts, const double* compute_us,
                  float** inputs);
    void (*run)();
    void (*outputs)(const float** outputs);
    void (*end)();
};

void compare_compute(double microseconds) { compare::compute(microseconds); }
std::uint64_t compare_proportional_bytes() { return compare::proportional_bytes(); }
int compare_run_plan(const compare_callbacks* callbacks, int rank, int size, std::uint64_t bytes_before);

}  // extern "C"

namespace compare {
namespace {

class CallbackPeer final : public Peer {
public:
    explicit CallbackPeer(const compare_callbacks& callbacks) : callbacks_(callbacks) {}
    [[nodiscard]] std::vector<float*> begin(const Case& c) override {
        tensors_ = c.counts.size();
        std::vector<float*> inputs(tensors_);
        callbacks_.begin(c.operation.c_str(), tensors_, c.counts.data(),
                         c.compute_us.empty() ? nullptr : c.compute_us.data(), inputs.data());
        return inputs;
    }
    void run() override { callbacks_.run(); }
    [[nodiscard]] std::vector<const float*> outputs() override {
        std::vector<const float*> outputs(tensors_);
        callbacks_.outputs(outputs.data());
        return outputs;
    }
    void end() override { callbacks_.end(); }

private:
    compare_callbacks callbacks_;
    std::size_t tensors_ = 0;
};

}  // namespace
}  // namespace compare

int compare_run_plan(const compare_callbacks* callbacks, int rank, int size, std::uint64_t bytes_before) {
    try {
        compare::CallbackPeer peer(*callbacks);
        compare::run_plan(peer, {rank, size}, bytes_before);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "compare: %s\n", error.what());
        return 1;
    }
}
