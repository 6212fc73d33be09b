// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The last rank waits for a file before it takes part in the operation of the other ranks. Usage: stalled_rank FILE
// [executing [KIB] | message]. With "executing", the last rank waits in the middle of the execution, when it reads a
// certain part of its tensor; KIB is the offset of this part in KiB. With "message", the last rank waits before it
// sends a message to the rank below it.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string_view>

#include "rueda/rueda.hpp"

[[gnu::noinline, gnu::visibility("default")]] int wait_for_the_file(const char* path) {
    int looks = 0;
    while (::access(path, F_OK) != 0) {
        ::usleep(50'000);
        ++looks;
    }
    return looks;
}

namespace {

constexpr std::size_t kElements = std::size_t{1} << 20;
constexpr std::size_t kPageBytes = 64 * 1024;

const char* path_of_the_file = nullptr;
float* tensor = nullptr;
std::size_t page_at = 2560 * 1024;  // the page's offset in the tensor, in bytes: in the middle of a chunk

std::byte* page() { return reinterpret_cast<std::byte*>(tensor) + page_at; }

/// The signal handler for the page that cannot be read. When the handler returns, the thread reads the page again, and
/// can read it now.
void wait_in_the_middle(int /*signal*/) {
    static_cast<void>(wait_for_the_file(path_of_the_file));
    mprotect(page(), kPageBytes, PROT_READ | PROT_WRITE);
}

bool reduce_with_a_pause(bool is_last) {
    void* const memory = mmap(nullptr, kElements * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                              /*fd=*/-1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    tensor = static_cast<float*>(memory);
    const std::span values(tensor, kElements);
    std::fill(values.begin(), values.end(), 1.0F);
    if (is_last) {
        struct sigaction action {};
        action.sa_handler = wait_in_the_middle;
        sigaction(SIGSEGV, &action, nullptr);
        mprotect(page(), kPageBytes, PROT_NONE);
    }
    rueda::allreduce("gradient", values);
    return std::all_of(values.begin(), values.end(), [](float value) { return value == 1; });
}

void exchange_with_a_pause() {
    float value = 1;
    if (rueda::rank() == rueda::size() - 1) {
        static_cast<void>(wait_for_the_file(path_of_the_file));
        rueda::send(std::span(&value, 1), rueda::rank() - 1, 7);
    } else if (rueda::rank() == rueda::size() - 2) {
        rueda::receive(std::span(&value, 1), rueda::rank() + 1, 7);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        return 2;
    }
    path_of_the_file = argv[1];
    if (argc > 3) {
        page_at = std::strtoul(argv[3], nullptr, 10) * 1024;
    }
    try {
        rueda::init();
        const bool is_last = rueda::rank() == rueda::size() - 1;
        bool is_right = true;
        const std::string_view mode = argc > 2 ? argv[2] : "";
        if (mode == "executing") {
            is_right = reduce_with_a_pause(is_last);
        } else if (mode == "message") {
            exchange_with_a_pause();
        } else if (is_last) {
            std::printf("the last rank looked %d times\n", wait_for_the_file(argv[1]));
        }
        float value = 1;
        rueda::allreduce("loss", std::span(&value, 1));
        rueda::shutdown();
        return is_right && value == 1 ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
