// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests memory that disappears during a job. If a program frees a tensor's memory too early, an error must name the
// memory. Also tests that no process can shrink the arena.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/faults/captured_errors.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;
constexpr std::int64_t kCount = kBytes / sizeof(float);

/// Allocates whole pages, like the memory of a large vector.
float* own_pages() {
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    RUEDA_RANK_CHECK(memory != MAP_FAILED);
    return static_cast<float*>(memory);
}

std::string error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return std::string(name_of(error.code())) + ": " + error.what();
    }
    return "no error";
}

/// Rank 1 calls `lose`, which makes the memory of rank 1's pending operation inaccessible. Returns what each rank
/// reports.
RanksResult lose_memory(const std::function<void(float*)>& lose, bool is_input = false) {
    return run_public_ranks(3, [&](RankContext& context) {
        ::setenv("RUEDA_VERIFY", "1", 1);
        std::signal(SIGSEGV, SIG_DFL);  // removes the test framework's handlers, which would report the fault first
        std::signal(SIGBUS, SIG_DFL);
        init();
        if (context.rank() != 1) {
            context.wait_for_phase(1, "lost");
            std::vector<float> values(kCount, 1);
            context.report("error", error_of([&] { allreduce("lost", values); }));
            return;  // the job has ended, so no shutdown is needed
        }
        const CapturedErrors errors;
        float* const memory = own_pages();
        std::vector<float> kept(kCount, 1);
        const TensorView lost(memory, DType::float32, Shape{kCount});
        const Handle handle = is_input ? allreduce_async("lost", lost, kept) : allreduce_async("lost", lost);
        lose(memory);
        context.phase("lost");
        handle.wait();
    });
}

void check_named(const RanksResult& result, int signal, const std::string& how) {
    INFO(result.text());
    CHECK(result.ranks[1].end == RankEnd::killed);
    CHECK(result.ranks[1].signal == signal);
    CHECK(result.leaks.empty());
    for (const int rank : {0, 2}) {
        const std::string& error = result.ranks[static_cast<std::size_t>(rank)].value("error");
        INFO(error);
        CHECK(error.starts_with("Aborted: "));
        CHECK(error.find("rank 1: the memory of tensor 'lost' (1048576 bytes at 0x") != std::string::npos);
        CHECK(error.find(how + "; keep it until the operation has completed") != std::string::npos);
    }
}

TEST_CASE("memory that is given back while its operation is pending is named on all ranks", "[processes]") {
    const auto unmap = [](float* memory) { munmap(memory, kBytes); };
    check_named(lose_memory(unmap), SIGSEGV,
                " was given back while its operation was pending, and is not mapped any more");
    check_named(lose_memory(unmap, /*is_input=*/true), SIGSEGV,
                " was given back while its operation was pending, and is not mapped any more");
    check_named(lose_memory([](float* memory) { mprotect(memory, kBytes, PROT_NONE); }), SIGSEGV,
                " cannot be accessed while its operation is pending, because it was protected with mprotect");
    check_named(
        lose_memory([](float* memory) {
            const int file = memfd_create("short", MFD_CLOEXEC);
            RUEDA_RANK_CHECK(ftruncate(file, kBytes) == 0);
            RUEDA_RANK_CHECK(mmap(memory, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == memory);
            RUEDA_RANK_CHECK(ftruncate(file, 0) == 0);
        }),
        SIGBUS,
        " has no pages any more while its operation is pending, because the file that it maps has become shorter");
}

volatile sig_atomic_t faults_seen = 0;
void* page_to_open = nullptr;

void open_page(int /*signal*/, siginfo_t* info, void* /*context*/) {
    faults_seen = faults_seen + (info->si_addr == page_to_open ? 1 : 100);
    mprotect(page_to_open, 4096, PROT_READ | PROT_WRITE);
}

/// A program may have its own SIGSEGV handler, for example of a garbage collector or of Python's faulthandler.
TEST_CASE("a program's own handler of SIGSEGV is called, and is back after shutdown", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext&) {
        ::setenv("RUEDA_VERIFY", "1", 1);
        struct sigaction own {};
        own.sa_sigaction = &open_page;
        own.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &own, nullptr);
        page_to_open = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        init();
        const CapturedErrors errors;
        *static_cast<volatile char*>(page_to_open) = 1;
        RUEDA_RANK_EQUAL(static_cast<int>(faults_seen), 1);
        std::vector<float> values(kCount, 1);
        allreduce("values", values, {.op = ReduceOp::sum});
        RUEDA_RANK_EQUAL(values.back(), 2.0F);
        shutdown();
        RUEDA_RANK_EQUAL(errors.text(), "");
        struct sigaction found {};
        sigaction(SIGSEGV, nullptr, &found);
        RUEDA_RANK_CHECK((found.sa_flags & SA_SIGINFO) != 0 && found.sa_sigaction == &open_page);
    }));
}

TEST_CASE("without RUEDA_VERIFY nothing handles SIGSEGV", "[processes]") {
#if defined(NDEBUG)
    check_passed(run_public_ranks(1, [](RankContext&) {
        std::signal(SIGSEGV, SIG_DFL);
        init();
        struct sigaction found {};
        sigaction(SIGSEGV, nullptr, &found);
        RUEDA_RANK_CHECK(found.sa_handler == SIG_DFL);
        shutdown();
    }));
#endif
}

TEST_CASE("resident memory of a pending operation is not given back", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        ::setenv("RUEDA_VERIFY", "1", 1);
        init();
        const CapturedErrors errors;
        auto* const memory = static_cast<float*>(allocate(kBytes));
        std::fill_n(memory, kCount, 1.0F);
        const TensorView tensor(memory, DType::float32, Shape{kCount});
        if (context.rank() == 0) {
            const Handle handle = allreduce_async("resident", tensor, {.op = ReduceOp::sum});
            expect_part(error_of([&] { deallocate(memory); }),
                        "is the memory of tensor 'resident', whose operation is pending; expected memory that no "
                        "operation uses: wait for the operation first");
            { std::vector<float, Allocator<float>> other(16); }
            context.phase("refused");
            handle.wait();
        } else {
            context.wait_for_phase(0, "refused");
            allreduce("resident", tensor, {.op = ReduceOp::sum});
        }
        RUEDA_RANK_EQUAL(memory[kCount - 1], 2.0F);
        deallocate(memory);
        shutdown();
        RUEDA_RANK_EQUAL(occurrences(errors.text(), "it is kept for good"), std::size_t{context.rank() == 0 ? 1U : 0U});
    }));
}

/// Returns the file descriptor of this process's arena, or -1 if the process has no arena.
int arena_descriptor() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code ignored;
        if (std::filesystem::read_symlink(entry.path(), ignored).string().starts_with("/memfd:rueda-arena")) {
            return std::stoi(entry.path().filename());
        }
    }
    return -1;
}

/// Returns whether the kernel supports seals on memfds. Some sandboxes do not.
bool kernel_seals() {
    const int file = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const bool sealed = file >= 0 && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
    ::close(file);
    return sealed;
}

TEST_CASE("another process of the same user cannot change the size of the arena", "[processes]") {
    if (!kernel_seals()) {
        WARN("this kernel does not seal files in memory");
        return;
    }
    check_passed(run_public_ranks(3, [](RankContext& context) {
        init();
        std::vector<std::int32_t> own = {static_cast<std::int32_t>(::getpid()), arena_descriptor()};
        const Handle all = allgather("who has what", own);
        const auto* const of = static_cast<const std::int32_t*>(all.output().data());
        if (context.rank() == 2) {
            for (int rank = 0; rank < 2; ++rank) {
                const std::string path =
                    "/proc/" + std::to_string(of[2 * rank]) + "/fd/" + std::to_string(of[2 * rank + 1]);
                const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
                RUEDA_RANK_CHECK(file >= 0);
                struct stat facts {};
                RUEDA_RANK_CHECK(fstat(file, &facts) == 0 && facts.st_size > 4096);
                for (const off_t size : {off_t{0}, off_t{4096}, facts.st_size - 1, facts.st_size + 4096}) {
                    errno = 0;
                    RUEDA_RANK_EQUAL(ftruncate(file, size), -1);
                    RUEDA_RANK_EQUAL(errno, EPERM);
                }
                RUEDA_RANK_EQUAL(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), -1);
                ::close(file);
            }
        }
        barrier();
        std::vector<float> values(kCount, 1);
        allreduce("values", values, {.op = ReduceOp::sum});
        RUEDA_RANK_EQUAL(values.back(), 3.0F);
        const ProcessSet pair = add_process_set({0, 2});  // this set has its own arena
        if (pair.included()) {
            allreduce("values", values, {.op = ReduceOp::sum, .process_set = pair});
            RUEDA_RANK_EQUAL(values.back(), 6.0F);
        }
        shutdown();
    }));
}

}  // namespace
}  // namespace rueda::tests
