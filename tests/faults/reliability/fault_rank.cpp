// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A small program that trains, for reliability.py. One of its ranks may cause a fault in itself.
//
// fault_rank train FOLDER [RANK HARM]
//     Trains until FOLDER/finish exists. When FOLDER/harm exists, the rank RANK does HARM to itself. The harms "stay
//     away" and "no descriptors at init" come before init.
// fault_rank checkpoints FOLDER WHERE N
//     Trains for N steps, and saves a checkpoint in WHERE after every third step.
// fault_rank attach PID
//     Stops the process PID and its threads, as a debugger does, until it is killed.
//
// Each rank appends lines to FOLDER/rank.N: "pid P", "running", "harm TIME", "note TEXT", "error TIME TEXT" and "end".
// TIME is in seconds of CLOCK_MONOTONIC, which is the same for all processes of a host.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/backup_and_restore.hpp"

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::size_t kElements = 100'000;  // elements of the gradient
// a step counts as slow if it takes longer than this, for example because the network delays packets by 0.1 s
constexpr double kSlowStepSeconds = 0.15;
// number of elements of a checkpoint's tensor; the tensor is so large that writing it takes some time
constexpr std::size_t kSavedElements = 3'000'000;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Returns the rank of this process before rueda::init(). ruedarun or mpirun has put it into the environment.
int rank_of_launcher() {
    const char* const text = std::getenv("RUEDA_RANK");                              // NOLINT(concurrency-mt-unsafe)
    return std::stoi(text != nullptr ? text : std::getenv("OMPI_COMM_WORLD_RANK"));  // NOLINT(concurrency-mt-unsafe)
}

class Report {
public:
    explicit Report(const fs::path& folder)
        : fd_(::open((folder / ("rank." + std::to_string(rank_of_launcher()))).c_str(),
                     O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}
    Report(const Report&) = delete;
    Report& operator=(const Report&) = delete;
    ~Report() { ::close(fd_); }

    /// Writes a whole line by one system call, so that the line is complete even if the process dies right afterwards.
    void line(const std::string& text) const {
        const std::string whole = text + '\n';
        if (::write(fd_, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) {
            std::abort();
        }
    }
    void timed(const std::string& word, const std::string& text = "") const {
        line(word + ' ' + std::to_string(now()) + (text.empty() ? "" : ' ' + text));
    }

private:
    int fd_;
};

void wait_forever() {
    for (;;) {
        ::pause();
    }
}

/// Allocates memory and writes to it until the kernel ends the process.
void take_all_memory() {
    std::vector<std::vector<char>> taken;
    for (;;) {
        taken.emplace_back(std::size_t{8} << 20, 'x');
    }
}

void take_all_descriptors(const Report& report) {
    int taken = 0;
    while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
        ++taken;
    }
    report.line("note took " + std::to_string(taken) + " descriptors: " + std::strerror(errno));  // NOLINT
}

pid_t start_sleeper() {
    const pid_t child = ::fork();
    if (child == 0) {
        ::execl("/bin/sleep", "sleep", "600", nullptr);
        ::_exit(127);
    }
    return child;
}

/// Tries to change the size of each arena, and to forbid writing to it. The seals of the arena must refuse all of this.
void attack_arena(const Report& report) {
    std::ifstream maps("/proc/self/maps");
    int attacks = 0;
    bool refused = true;
    const auto expect_refusal = [&](int result, const std::string& attack) {
        ++attacks;
        if (result == 0 || errno != EPERM) {
            refused = false;
            report.line("note the arena was " + attack + ", or this failed otherwise than by a seal");
        }
    };
    for (std::string line; std::getline(maps, line);) {
        if (line.find("memfd:rueda-arena") == std::string::npos) {
            continue;
        }
        const std::string file = "/proc/self/map_files/" + line.substr(0, line.find(' '));
        const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            report.line("note no access to the arena");
            return;
        }
        struct stat facts {};
        expect_refusal(::fstat(fd, &facts) == 0 ? ::ftruncate(fd, facts.st_size + 4096) : 0, "grown");
        expect_refusal(::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), "sealed against later writing");
        expect_refusal(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), "sealed against writing");
        expect_refusal(::ftruncate(fd, 0), "truncated");
        ::close(fd);
    }
    if (attacks == 0) {
        report.line("note no access to the arena");
    } else if (refused) {
        report.line("note the arena refused");
    }
}

/// Calls MPI_Abort(MPI_COMM_WORLD, 7). This program is not linked with MPI, so it finds the function in the Open MPI
/// that Rueda has loaded.
void abort_mpi() {
    void* const library = ::dlopen("libmpi.so.40", RTLD_NOW | RTLD_NOLOAD);
    void* const world = library != nullptr ? ::dlsym(library, "ompi_mpi_comm_world") : nullptr;
    void* const function = library != nullptr ? ::dlsym(library, "MPI_Abort") : nullptr;
    if (world == nullptr || function == nullptr) {
        throw std::runtime_error("no Open MPI is loaded");
    }
    reinterpret_cast<int (*)(void*, int)>(function)(world, 7);
}

/// Frees the memory of a tensor while the tensor's operation waits for the other ranks. Sometimes the operation ends
/// before the memory is freed. This function then finishes the step, and tries again in the next step.
void free_pending_tensor() {
    constexpr std::size_t kBytes = kElements * sizeof(float);
    for (;;) {
        void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const std::span<float> tensor(static_cast<float*>(memory), kBytes / sizeof(float));
        const rueda::Handle handle = rueda::allreduce_async("gradient", tensor);
        ::munmap(memory, kBytes);
        handle.wait();
        std::array<float, 2> flags{};
        rueda::allreduce("flags", flags, {.op = rueda::ReduceOp::max});
    }
}

void train_with_other_shape() {
    std::vector<float> shorter(kElements / 2, 1.0F);
    rueda::allreduce("gradient", shorter);
}

void* reduce_alone(void* /*unused*/) {
    std::vector<float> tensor(1000, 1.0F);
    try {
        rueda::allreduce("in a thread", tensor);
    } catch (const rueda::Error&) {
        // The operation fails if the job ends before the other ranks call it. This failure does not matter, because the
        // test only needs a thread that was cancelled.
    }
    return nullptr;
}

/// The trainer of all modes except "attach".
class Trainer {
public:
    Trainer(fs::path folder, int harmed_rank, std::string harm)
        : folder_(std::move(folder)), report_(folder_), harmed_rank_(harmed_rank), harm_(std::move(harm)) {
        report_.line("pid " + std::to_string(::getpid()));
        if (!fs::exists("/proc/self")) {
            report_.line("note there is no /proc");
        }
        if (harm_ == "stay away" && rank_of_launcher() == harmed_rank_) {
            report_.timed("harm");
            wait_forever();
        }
        if (harm_ == "no descriptors at init" && rank_of_launcher() == harmed_rank_) {
            report_.timed("harm");
            take_all_descriptors(report_);
        }
    }

    /// Runs `body` and returns the process's exit status. Catches only errors of Rueda.
    int run(const std::function<void()>& body) {
        try {
            rueda::init();
            body();
            rueda::shutdown();
            report_.line("end");
            return 0;
        } catch (const rueda::Error& error) {
            report_.timed("error", std::string(name_of(error.code())) + ": " + error.what());
            std::fprintf(stderr, "%s: %s\n", name_of(error.code()), error.what());
            return 1;
        }
    }

    void train() {
        for (std::int64_t number = 0; step(number); ++number) {
            if (number == 10) {
                report_.line("running");
            }
            std::this_thread::sleep_for(5ms);  // stands for the computation
            look_at_time();
        }
    }

    void train_with_checkpoints(const fs::path& where, std::int64_t steps) {
        std::vector<float> weights(kSavedElements, 0.0F);
        rueda::training::BackupAndRestore remaining(
            steps, {.folder = where, .every_steps = 3, .max_to_keep = 2, .when_busy = rueda::training::WhenBusy::wait},
            {{"weights", weights}});
        report_.line("note begins at step " + std::to_string(remaining.first_step()));
        for (const std::int64_t number : remaining) {
            step(number);
            weights[0] += gradient_[0];
            std::this_thread::sleep_for(5ms);
        }
        // The gradient is 1 on all ranks, so each step has added exactly 1.
        report_.line("note ends with weight " + std::to_string(std::lround(weights[0])));
    }

private:
    /// Trains one step. Returns whether there is another step. The result is the same on all ranks, because they decide
    /// together.
    bool step(std::int64_t number) {
        rueda::begin_step(number);
        std::ranges::fill(gradient_, 1.0F);
        if (const bool harmed = rueda::rank() == harmed_rank_ && !harm_.empty();
            harmed && fs::exists(folder_ / "harm")) {
            report_.timed("harm");
            do_harm(std::exchange(harm_, ""));
        }
        rueda::Handle handle = rueda::allreduce_async("gradient", gradient_);
        std::array<float, 2> flags = {rueda::rank() == 0 && fs::exists(folder_ / "finish") ? 1.0F : 0.0F,
                                      thread_waits_ ? 1.0F : 0.0F};
        handle.wait();
        rueda::allreduce("flags", flags, {.op = rueda::ReduceOp::max});
        if (flags[1] > 0) {
            join_thread();
        }
        return flags[0] == 0;
    }

    /// Writes a note the first time that a step is slow, and the first time that the clock jumps. These notes tell
    /// reliability.py that the faults took effect.
    void look_at_time() {
        const double end = now();
        const double clock = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
        if (last_end_ > 0 && end - last_end_ > kSlowStepSeconds && !std::exchange(noted_slow_step_, true)) {
            report_.line("note a slow step");
        }
        if (last_end_ > 0 && std::abs((clock - last_clock_) - (end - last_end_)) > 3600 &&
            !std::exchange(noted_jump_, true)) {
            report_.line("note the clock jumped");
        }
        last_end_ = end;
        last_clock_ = clock;
    }

    /// The harmed rank has a thread that was cancelled, but still waits in an operation of all ranks. All ranks call
    /// this function. The other ranks take part in the operation, which ends the thread's wait. The harmed rank then
    /// joins the thread.
    void join_thread() {
        if (!thread_waits_) {
            reduce_alone(nullptr);
            return;
        }
        thread_waits_ = false;
        void* result = nullptr;
        ::pthread_join(thread_, &result);
        report_.line(std::string("note the thread ") + (result == PTHREAD_CANCELED ? "was cancelled" : "returned"));
    }

    void cancel_thread() {
        ::pthread_create(&thread_, nullptr, reduce_alone, nullptr);
        std::this_thread::sleep_for(50ms);  // by now the thread waits in the operation
        ::pthread_cancel(thread_);
        std::this_thread::sleep_for(50ms);
        thread_waits_ = true;
    }

    void do_harm(const std::string& harm) {
        const std::map<std::string, std::function<void()>> harms{
            {"exit status 0", [] { ::_exit(0); }},
            {"exit status 3", [] { std::exit(3); }},  // NOLINT(concurrency-mt-unsafe)
            {"exception", [] { throw std::runtime_error("batch 17 is damaged"); }},
            {"crash", [] { *static_cast<volatile int*>(nullptr) = 1; }},
            {"abort", [] { rueda::abort("the loss is nan"); }},
            {"MPI_Abort", abort_mpi},
            {"take all memory", take_all_memory},
            {"take all descriptors", [this] { take_all_descriptors(report_); }},
            {"fork and exec", [this] { report_.line("note child " + std::to_string(start_sleeper())); }},
            {"fork and die",
             [] {
                 start_sleeper();
                 ::raise(SIGKILL);
             }},
            {"exec", [] { ::execl("/bin/sleep", "sleep", "600", nullptr); }},
            {"cancel thread", [this] { cancel_thread(); }},
            {"other shape", train_with_other_shape},
            {"attack arena", [this] { attack_arena(report_); }},
            {"endless loop",
             [] {
                 for (volatile bool forever = true; forever;) {
                 }
             }},
            {"too much memory", [] { static_cast<void>(rueda::allocate(std::size_t{1} << 50)); }},
            {"free pending tensor", free_pending_tensor},
        };
        harms.at(harm)();
    }

    fs::path folder_;
    Report report_;
    int harmed_rank_;
    std::string harm_;
    std::vector<float> gradient_ = std::vector<float>(kElements, 1.0F);
    double last_end_ = 0;    ///< the time of the last step's end on the monotonic clock
    double last_clock_ = 0;  ///< the time of the last step's end on CLOCK_REALTIME, which can jump
    bool noted_slow_step_ = false;
    bool noted_jump_ = false;
    pthread_t thread_{};
    bool thread_waits_ = false;  ///< whether a cancelled thread of this rank waits for an operation of all ranks
};

int attach(pid_t process) {
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
        const pid_t thread = std::stoi(entry.path().filename());
        if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0 ||
            ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) {
            std::perror("ptrace");
            return 1;
        }
        ::waitpid(thread, nullptr, __WALL);
    }
    std::puts("attached");
    std::fflush(stdout);
    // This process traces the threads, so it must wait for the end of each thread. Otherwise the kernel would not
    // report the end of the process to its parent.
    for (int status = 0; ::waitpid(-1, &status, __WALL) > 0;) {
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 2 && words[0] == "attach") {
        return attach(std::stoi(words[1]));
    }
    if (words.size() == 4 && words[0] == "checkpoints") {
        Trainer trainer(words[1], -1, "");
        return trainer.run([&] { trainer.train_with_checkpoints(words[2], std::stoll(words[3])); });
    }
    if ((words.size() == 2 || words.size() == 4) && words[0] == "train") {
        Trainer trainer(words[1], words.size() == 4 ? std::stoi(words[2]) : -1, words.size() == 4 ? words[3] : "");
        return trainer.run([&] { trainer.train(); });
    }
    std::fprintf(stderr, "fault_rank train FOLDER [RANK HARM] | checkpoints FOLDER WHERE N | attach PID\n");
    return 2;
}
