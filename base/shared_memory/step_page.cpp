// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/shared_memory/step_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace rueda::base {
namespace {

/// These seals keep every process from changing the file's size while another process has mapped it.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Result<UniqueFd> make_step_file() {
    UniqueFd file(::memfd_create("rueda steps", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const StepSpan none;
    if (!file.is_open() || ::write(file.value(), &none, sizeof none) != static_cast<ssize_t>(sizeof none) ||
        ::fcntl(file.value(), F_ADD_SEALS, kSeals) != 0) {
        return system_failure(ErrorCode::resource_exhausted, "memfd_create");
    }
    return file;
}

StepSpan read_step_file(int fd) {
    StepSpan span;
    if (::pread(fd, &span, sizeof span, 0) != static_cast<ssize_t>(sizeof span) || !span.is_known()) {
        return {};
    }
    return span;
}

StepPage::~StepPage() {
    if (span_ != nullptr) {
        ::munmap(span_, sizeof(StepSpan));
    }
}

void StepPage::open(int fd) {
    struct stat facts {};
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (is_open() || seals < 0 || (seals & kSeals) != kSeals || ::fstat(fd, &facts) != 0 ||
        facts.st_size != static_cast<off_t>(sizeof(StepSpan))) {
        return;
    }
    void* const memory = ::mmap(nullptr, sizeof(StepSpan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    span_ = memory == MAP_FAILED ? nullptr : static_cast<StepSpan*>(memory);
}

/// Relaxed stores are enough: ruedarun reads the step file only after this process has ended, so it sees all writes of
/// this process.
void StepPage::begin(std::int64_t step) {
    if (!is_open()) {
        return;
    }
    std::atomic_ref<std::int64_t> first(span_->first);
    if (first.load(std::memory_order_relaxed) < 0) {
        first.store(step, std::memory_order_relaxed);
    }
    std::atomic_ref<std::int64_t>(span_->last).store(step, std::memory_order_relaxed);
}

}  // namespace rueda::base
