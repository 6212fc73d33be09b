// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/arena_view.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/unique_fd.hpp"

namespace rueda::launcher {

namespace {

/// The fields at the beginning of the shared memory, before the first atomic field. The fields are copied before they
/// are checked, because another process could change them in the shared memory. The first two fields are at the same
/// place in every version of the layout.
struct Head {
    std::uint64_t magic = 0;
    std::uint32_t layout_version = 0;
    std::uint32_t members = 0;
    std::uint64_t total_bytes = 0;
    std::uint64_t recorder_offset = 0;
    std::uint64_t recorder_bytes = 0;
};

/// Returns how many bytes of the control block are in use if the job has `members` ranks on this host.
std::uint64_t control_bytes(std::uint32_t members) {
    return offsetof(base::ControlBlock, stacks) + std::uint64_t{members} * sizeof(base::StackBlock);
}

Result<Head> read_head(int file, std::uint64_t file_bytes) {
    constexpr std::size_t kBytes = offsetof(base::ControlBlock, abort);
    std::array<std::byte, kBytes> bytes{};
    if (::pread(file, bytes.data(), kBytes, 0) != static_cast<ssize_t>(kBytes)) {
        return failure(ErrorCode::invalid_argument, "its memory is damaged: it has only {} bytes", file_bytes);
    }
    Head head;
    const auto copy = [&bytes](std::size_t offset, auto& field) {
        std::memcpy(&field, bytes.data() + offset, sizeof field);
    };
    copy(offsetof(base::ControlBlock, magic), head.magic);
    copy(offsetof(base::ControlBlock, layout_version), head.layout_version);
    copy(offsetof(base::ControlBlock, members), head.members);
    copy(offsetof(base::ControlBlock, total_bytes), head.total_bytes);
    copy(offsetof(base::ControlBlock, recorder_offset), head.recorder_offset);
    copy(offsetof(base::ControlBlock, recorder_bytes), head.recorder_bytes);
    return head;
}

bool are_recorders_inside(const Head& head) {
    return head.recorder_bytes == 0 ||
           (head.recorder_bytes == sizeof(base::RankRecorder) &&
            head.recorder_offset % alignof(base::RankRecorder) == 0 &&
            head.recorder_offset >= sizeof(base::ControlBlock) && head.recorder_offset <= head.total_bytes &&
            head.members * head.recorder_bytes <= head.total_bytes - head.recorder_offset);
}

/// Makes the StackBlocks writable. Only whole pages can be made writable, so the rest of the first and of the last page
/// becomes writable too.
Status allow_questions(void* memory, std::uint32_t members) {
    constexpr std::uint64_t kBegin = offsetof(base::ControlBlock, stacks);
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = kBegin / page * page;
    const std::uint64_t end = kBegin + members * sizeof(base::StackBlock);
    if (::mprotect(static_cast<std::byte*>(memory) + begin, end - begin, PROT_READ | PROT_WRITE) != 0) {
        return system_failure(ErrorCode::unsupported, "mapping the memory of the job for writing");
    }
    return {};
}

Status check(const Head& head, std::uint64_t file_bytes) {
    if (head.magic == 0) {
        return failure(ErrorCode::not_initialized, "the job has not begun to use its memory");
    }
    if (head.magic != base::ControlBlock::kMagic) {
        return failure(ErrorCode::invalid_argument, "its memory does not begin like the memory of a job of Rueda");
    }
    if (head.layout_version != base::ControlBlock::kLayoutVersion) {
        return failure(
            ErrorCode::unsupported,
            "its memory has layout version {}, and this program reads version {}: use the rueda that belongs "
            "to the job's library",
            head.layout_version, base::ControlBlock::kLayoutVersion);
    }
    if (head.members < 1 || head.members > base::kMaxLocalRanks || head.total_bytes != file_bytes ||
        control_bytes(head.members) > file_bytes || !are_recorders_inside(head)) {
        return failure(ErrorCode::invalid_argument,
                       "its memory is damaged: it names {} ranks, {} bytes and recorders of {} bytes at {}, and has {} "
                       "bytes",
                       head.members, head.total_bytes, head.recorder_bytes, head.recorder_offset, file_bytes);
    }
    return {};
}

}  // namespace

void ArenaView::Unmap::operator()(const base::ControlBlock* control) const noexcept {
    ::munmap(const_cast<base::ControlBlock*>(control), bytes);  // NOLINT(cppcoreguidelines-pro-type-const-cast): munmap
}

Result<ArenaView> ArenaView::open(const std::string& path, ArenaUse use) {
    const int access = use == ArenaUse::ask ? O_RDWR : O_RDONLY;
    const base::UniqueFd file(::open(path.c_str(), access | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status {};
    if (!file.is_open() || ::fstat(file.value(), &status) != 0) {
        return system_failure(ErrorCode::not_initialized, "opening the memory of the job");
    }
    // If another process shortened the file, an access would end this process by SIGBUS. The library therefore seals
    // its arenas, and this check refuses files without a seal.
    const int seals = ::fcntl(file.value(), F_GET_SEALS);
    if (!S_ISREG(status.st_mode) || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
        return failure(ErrorCode::invalid_argument, "its memory is not sealed, so its size may change at any time");
    }
    const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
    const Result<Head> read = read_head(file.value(), file_bytes);
    RUEDA_RETURN_IF_FAILED(read.status());
    const Head& head = read.value();
    RUEDA_RETURN_IF_FAILED(check(head, file_bytes));
    const bool has_recorders = head.recorder_bytes != 0;
    const std::uint64_t bytes =
        has_recorders ? head.recorder_offset + head.members * head.recorder_bytes : control_bytes(head.members);
    void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.value(), 0);
    if (memory == MAP_FAILED) {
        return system_failure(ErrorCode::resource_exhausted, "mapping the memory of the job");
    }
    ArenaView view(Mapping(static_cast<const base::ControlBlock*>(memory), Unmap{bytes}), head.members,
                   has_recorders ? head.recorder_offset : 0);
    if (use == ArenaUse::ask) {
        RUEDA_RETURN_IF_FAILED(allow_questions(memory, head.members));
    }
    return view;
}

base::HostBlocks ArenaView::blocks_to_ask() const {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the StackBlocks are writable, see allow_questions()
    return {const_cast<base::ControlBlock&>(*control_)};
}

const base::RankRecorder* ArenaView::recorder(std::uint32_t member) const {
    if (recorders_ == 0) {
        return nullptr;
    }
    const auto* const begin = reinterpret_cast<const std::byte*>(control_.get());
    return reinterpret_cast<const base::RankRecorder*>(begin + recorders_) + member;
}

}  // namespace rueda::launcher
