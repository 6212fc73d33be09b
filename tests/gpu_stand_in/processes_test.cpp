// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

#include "tests/gpu_stand_in/fixture.hpp"

using namespace rueda::tests::gpu;

namespace {

/// Memory for messages between the processes of a test.
struct Board {
    /// barrier() accesses this counter with acq_rel, in all processes.
    std::atomic<int> arrived{0};
    int processes = 0;
    NcclUniqueId id{};
    CudaIpcMemory memory{};
    CudaIpcEvent event{};
    std::atomic<int> step{0};
    char failures[4][2000]{};

    void barrier() {
        const int mine = arrived.fetch_add(1, std::memory_order_acq_rel);
        const int whole = (mine / processes + 1) * processes;
        while (arrived.load(std::memory_order_acquire) < whole) {
            std::this_thread::yield();
        }
    }
};

/// Runs the body in child processes. This process must not use the driver, because the driver does not work in a child
/// of a process that has used it.
std::string run_processes(int processes, const std::function<void(int rank, Board& board)>& body) {
    void* mapping = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto* board = new (mapping) Board;
    board->processes = processes;
    std::vector<pid_t> children;
    for (int rank = 0; rank < processes; ++rank) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(30);
            int status = 0;
            try {
                body(rank, *board);
            } catch (const std::exception& error) {
                std::strncpy(board->failures[rank], error.what(), sizeof(board->failures[rank]) - 1);
                status = 1;
            }
            ::_exit(status);
        }
        children.push_back(child);
    }
    std::string failures;
    for (int rank = 0; rank < processes; ++rank) {
        int status = 0;
        ::waitpid(children[static_cast<std::size_t>(rank)], &status, 0);
        if (status != 0) {
            failures += "process " + std::to_string(rank) + ", status " + std::to_string(status) + ": " +
                        board->failures[rank] + "\n";
        }
    }
    ::munmap(mapping, sizeof(Board));
    return failures;
}

}  // namespace

TEST_CASE("NCCL between processes", "[unit]") {
    CHECK(run_processes(3, [](int rank, Board& board) {
              reset(static_cast<std::uint64_t>(rank), 3);
              const OnDevice device(rank);
              if (rank == 0) {
                  board.id = make_id();
              }
              board.barrier();
              const NcclCommunicator communicator = connect(board.id, 3, rank);
              const CudaStream stream = make_stream();
              const DeviceAddress values = upload(std::vector<float>(1000, static_cast<float>(rank)), stream);
              for (int i = 0; i < 5; ++i) {
                  all_reduce(values, 1000, communicator, stream);
              }
              MUST(download<float>(values, 1000, stream) == std::vector<float>(1000, 243));
              MUST(nccl().destroy(communicator) == kNcclSuccess);
              MUST(violations().empty());
          }) == "");
}

TEST_CASE("The death of a process is noticed if NCCL is set to notice it", "[unit]") {
    CHECK(run_processes(2, [](int rank, Board& board) {
              reset(static_cast<std::uint64_t>(rank), 2);
              set_nccl_notices_lost_ranks(true);
              const OnDevice device(rank);
              if (rank == 0) {
                  board.id = make_id();
              }
              board.barrier();
              if (rank == 1) {
                  (void)connect_without_blocking(board.id, 2, rank);
                  board.barrier();
                  ::raise(SIGKILL);
              }
              const NcclCommunicator communicator = connect_without_blocking(board.id, 2, rank);
              board.barrier();
              NcclResult error = kNcclSuccess;
              while (error == kNcclSuccess) {
                  MUST(nccl().get_async_error(communicator, &error) == kNcclSuccess);
                  std::this_thread::yield();
              }
              MUST(error == kNcclRemoteError);
              MUST(nccl().abort(communicator) == kNcclSuccess);
          }) == "process 1, status 9: \n");
}

TEST_CASE("Memory and events of another process", "[unit]") {
    for (const bool with_wait : {true, false}) {
        CAPTURE(with_wait);
        CHECK(run_processes(2, [&](int rank, Board& board) {
                  reset(static_cast<std::uint64_t>(rank), 1);
                  const OnDevice device(0);
                  const CudaStream stream = make_stream();
                  if (rank == 0) {
                      using namespace std::chrono_literals;
                      delay_operations("cuMemset", 5ms);
                      const DeviceAddress memory = allocate(64);
                      const CudaEvent event = make_event(kEventDisableTiming | kEventInterprocess);
                      MUST(cuda().ipc_get_memory_handle(&board.memory, memory + 1) == kCudaInvalidValue);
                      MUST(cuda().ipc_get_memory_handle(&board.memory, memory) == kCudaSuccess);
                      MUST(cuda().ipc_get_event_handle(&board.event, event) == kCudaSuccess);
                      MUST(cuda().ipc_get_event_handle(&board.event, make_event()) == kCudaInvalidHandle);
                      MUST(cuda().ipc_get_event_handle(&board.event, event) == kCudaSuccess);
                      DeviceAddress own = 0;
                      MUST(cuda().ipc_open_memory_handle(&own, board.memory, kIpcLazyEnablePeer) ==
                           kCudaInvalidContext);
                      fill(memory, 9, 64, stream);
                      record(event, stream);
                      board.barrier();
                      board.barrier();  // when this barrier ends, the other process has used and closed the memory
                      synchronize(stream);
                      MUST(violations().empty() || !with_wait);
                      MUST(cuda().memory_free(memory) == kCudaSuccess);
                      MUST(violations().empty() || !with_wait);
                  } else {
                      board.barrier();
                      DeviceAddress memory = 0;
                      DeviceAddress again = 0;
                      CudaEvent event = nullptr;
                      MUST(cuda().ipc_open_memory_handle(&memory, board.memory, kIpcLazyEnablePeer) == kCudaSuccess);
                      MUST(cuda().ipc_open_memory_handle(&again, board.memory, kIpcLazyEnablePeer) == kCudaSuccess);
                      MUST(again == memory);
                      MUST(cuda().ipc_open_event_handle(&event, board.event) == kCudaSuccess);
                      if (with_wait) {
                          wait_for(stream, event);
                          MUST(download<unsigned char>(memory, 64, stream) == std::vector<unsigned char>(64, 9));
                          MUST(violations().empty());
                      } else {
                          (void)download<unsigned char>(memory, 64, stream);
                          MUST(cuda().event_synchronize(event) == kCudaSuccess);
                          (void)download<unsigned char>(memory, 64, stream);
                      }
                      MUST(cuda().ipc_close_memory_handle(memory) == kCudaSuccess);
                      MUST(cuda().ipc_close_memory_handle(memory) == kCudaSuccess);
                      MUST(cuda().ipc_close_memory_handle(memory) == kCudaInvalidValue);
                      board.barrier();
                  }
                  // The violation is reported in the process that ran the second of the two operations. Either process
                  // may be the second one.
                  if (has_violation("Race")) {
                      board.step.fetch_add(1, std::memory_order_relaxed);
                  }
                  board.barrier();
                  MUST((board.step.load(std::memory_order_relaxed) > 0) != with_wait);
              }) == "");
    }
}

TEST_CASE("Memory that is freed while another process has it open is reported", "[unit]") {
    CHECK(run_processes(2, [](int rank, Board& board) {
              reset(static_cast<std::uint64_t>(rank), 1);
              const OnDevice device(0);
              DeviceAddress memory = 0;
              if (rank == 0) {
                  memory = allocate(64);
                  MUST(cuda().ipc_get_memory_handle(&board.memory, memory) == kCudaSuccess);
              }
              board.barrier();
              if (rank == 1) {
                  MUST(cuda().ipc_open_memory_handle(&memory, board.memory, kIpcLazyEnablePeer) == kCudaSuccess);
              }
              board.barrier();
              if (rank == 0) {
                  MUST(cuda().memory_free(memory) == kCudaSuccess);
                  MUST(has_violation("is still open in another process"));
              }
              board.barrier();
              if (rank == 1) {
                  MUST(cuda().ipc_close_memory_handle(memory) == kCudaSuccess);
                  MUST(cuda().ipc_open_memory_handle(&memory, board.memory, kIpcLazyEnablePeer) != kCudaSuccess);
                  MUST(has_violation("the memory was freed"));
              }
          }) == "");
}

TEST_CASE("A host message orders processes after a synchronisation", "[unit]") {
    CHECK(run_processes(2, [](int rank, Board& board) {
              reset(static_cast<std::uint64_t>(rank), 1);
              const OnDevice device(0);
              const CudaStream stream = make_stream();
              DeviceAddress memory = 0;
              if (rank == 0) {
                  memory = allocate(64);
                  MUST(cuda().ipc_get_memory_handle(&board.memory, memory) == kCudaSuccess);
                  fill(memory, 1, 64, stream);
                  synchronize(stream);
              }
              board.barrier();
              if (rank == 1) {
                  MUST(cuda().ipc_open_memory_handle(&memory, board.memory, kIpcLazyEnablePeer) == kCudaSuccess);
                  fill(memory, 2, 64, stream);
                  synchronize(stream);
              }
              board.barrier();
              if (rank == 0) {
                  MUST(byte_at(memory) == 2);
              }
              MUST(violations().empty());
          }) == "");
}

TEST_CASE("A child of fork cannot use the driver that its parent initialised", "[unit]") {
    CHECK(run_processes(1, [](int, Board&) {
              reset(1, 1);
              MUST(cuda().init(0) == kCudaSuccess);
              const pid_t child = ::fork();
              if (child == 0) {
                  int count = 0;
                  ::_exit(cuda().device_get_count(&count) == kCudaNotInitialized ? 0 : 1);
              }
              int status = 0;
              ::waitpid(child, &status, 0);
              MUST(status == 0);
          }) == "");
}

TEST_CASE("A program that does not ask for violations shows them at its end", "[unit]") {
    CHECK(run_processes(1, [](int, Board&) {
              const pid_t child = ::fork();
              if (child == 0) {
                  ::setenv("GPU_STAND_IN_STRICT", "1", 1);  // NOLINT(concurrency-mt-unsafe): one thread
                  reset(1, 1);
                  const OnDevice device(0);
                  (void)cuda().memory_free(12345);
                  ::close(STDERR_FILENO);
                  std::exit(0);  // NOLINT(concurrency-mt-unsafe): one thread
              }
              int status = 0;
              ::waitpid(child, &status, 0);
              MUST(WEXITSTATUS(status) == 86);
          }) == "");
}
