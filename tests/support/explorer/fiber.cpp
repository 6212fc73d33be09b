// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/explorer/fiber.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define RUEDA_EXPLORER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RUEDA_EXPLORER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define RUEDA_EXPLORER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RUEDA_EXPLORER_TSAN 1
#endif
#endif

#if defined(RUEDA_EXPLORER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(RUEDA_EXPLORER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

// swapcontext makes two system calls, which would take most of an exploration's time. On x86-64, a switch therefore
// only exchanges the stack pointer and the callee-saved registers of the System V ABI (section 3.2.1). Other machines
// use ucontext.
#if defined(__x86_64__) && !defined(RUEDA_EXPLORER_UCONTEXT)
#define RUEDA_EXPLORER_X86_64 1
extern "C" void rueda_explorer_switch(void** save_stack_pointer, void* stack_pointer) noexcept;
asm(R"(
    .text
    .p2align 4
    .globl rueda_explorer_switch
    .hidden rueda_explorer_switch
    .type rueda_explorer_switch, @function
rueda_explorer_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size rueda_explorer_switch, . - rueda_explorer_switch
)");
#endif

namespace rueda::explorer {
namespace {

constexpr std::size_t kGuardBytes = 4096;
// The stacks are large, because sanitizers make stack frames three times as large. Pages that are never touched cost
// nothing.
constexpr std::size_t kStackBytes = 256 * 1024;

// The first function on a new stack takes no argument, so this variable passes the fiber to it.
Fiber* starting = nullptr;

}  // namespace

struct Fiber::Switch {
#if defined(RUEDA_EXPLORER_X86_64)
    void* owner = nullptr;
    void* fiber = nullptr;
#else
    ucontext_t owner{};
    ucontext_t fiber{};
#endif
    void* owner_fake_stack = nullptr;
    void* fiber_fake_stack = nullptr;
    const void* owner_stack = nullptr;
    std::size_t owner_stack_bytes = 0;
    void* owner_tsan = nullptr;
    void* fiber_tsan = nullptr;
};

void Fiber::enter(Fiber* fiber) {
    for (;;) {
        fiber->body_();
        fiber->suspend();
    }
}

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), switch_(new Switch) {
    void* memory = ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || ::mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
        throw std::bad_alloc();
    }
    memory_ = static_cast<std::byte*>(memory);
    void (*const first)() = [] {
        Fiber* const self = std::exchange(starting, nullptr);
#if defined(RUEDA_EXPLORER_ASAN)
        __sanitizer_finish_switch_fiber(nullptr, &self->switch_->owner_stack, &self->switch_->owner_stack_bytes);
#endif
        enter(self);
    };
#if defined(RUEDA_EXPLORER_X86_64)
    // The initial stack contains what rueda_explorer_switch pops: six registers and the return address. The word above
    // them makes the stack pointer 8 mod 16 when `first` begins, as after a call.
    auto* top = reinterpret_cast<std::uintptr_t*>(memory_ + kGuardBytes + kStackBytes) - 8;
    top[6] = reinterpret_cast<std::uintptr_t>(first);
    switch_->fiber = top;
#else
    ::getcontext(&switch_->fiber);
    switch_->fiber.uc_stack.ss_sp = memory_ + kGuardBytes;
    switch_->fiber.uc_stack.ss_size = kStackBytes;
    switch_->fiber.uc_link = nullptr;
    ::makecontext(&switch_->fiber, first, 0);
#endif
#if defined(RUEDA_EXPLORER_TSAN)
    switch_->fiber_tsan = __tsan_create_fiber(0);
#endif
    starting = nullptr;
}

Fiber::~Fiber() {
#if defined(RUEDA_EXPLORER_TSAN)
    __tsan_destroy_fiber(switch_->fiber_tsan);
#endif
#if defined(RUEDA_EXPLORER_ASAN)
    // AddressSanitizer still marks the abandoned frames as inaccessible. The marks must be removed, because other
    // memory may get these addresses.
    ASAN_UNPOISON_MEMORY_REGION(memory_, kGuardBytes + kStackBytes);
#endif
    ::munmap(memory_, kGuardBytes + kStackBytes);
    delete switch_;
}

void Fiber::resume() {
    starting = this;
#if defined(RUEDA_EXPLORER_ASAN)
    __sanitizer_start_switch_fiber(&switch_->owner_fake_stack, memory_ + kGuardBytes, kStackBytes);
#endif
#if defined(RUEDA_EXPLORER_TSAN)
    switch_->owner_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(switch_->fiber_tsan, 0);
#endif
    switch_to_fiber();
#if defined(RUEDA_EXPLORER_ASAN)
    __sanitizer_finish_switch_fiber(switch_->owner_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#if defined(RUEDA_EXPLORER_ASAN)
    __sanitizer_start_switch_fiber(&switch_->fiber_fake_stack, switch_->owner_stack, switch_->owner_stack_bytes);
#endif
#if defined(RUEDA_EXPLORER_TSAN)
    __tsan_switch_to_fiber(switch_->owner_tsan, 0);
#endif
    switch_to_owner();
#if defined(RUEDA_EXPLORER_ASAN)
    __sanitizer_finish_switch_fiber(switch_->fiber_fake_stack, &switch_->owner_stack, &switch_->owner_stack_bytes);
#endif
}

void Fiber::switch_to_fiber() {
#if defined(RUEDA_EXPLORER_X86_64)
    rueda_explorer_switch(&switch_->owner, switch_->fiber);
#else
    ::swapcontext(&switch_->owner, &switch_->fiber);
#endif
}

void Fiber::switch_to_owner() {
#if defined(RUEDA_EXPLORER_X86_64)
    rueda_explorer_switch(&switch_->fiber, switch_->owner);
#else
    ::swapcontext(&switch_->fiber, &switch_->owner);
#endif
}

}  // namespace rueda::explorer
