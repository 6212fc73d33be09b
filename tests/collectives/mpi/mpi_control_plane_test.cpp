// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests when Rueda initialises and finalises MPI. The MPI is a fake job of one rank that records all calls.
#include "collectives/mpi/mpi_control_plane.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/gpus/cuda_aware_mpi.hpp"
#include "collectives/wire.hpp"
#include "tests/collectives/mpi/stand_in_mpi.hpp"
#include "tests/collectives/plane_checks.hpp"

namespace rueda::collectives {
namespace {

using tests::outcome;
using tests::StandIn;
using namespace std::chrono_literals;

MpiControlPlaneOptions in_time(std::chrono::milliseconds timeout, MpiFinalize finalize = MpiFinalize::at_close) {
    return {timeout, finalize};
}

TEST_CASE("a control plane that initialised MPI also finalises it", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    auto opened = open_mpi_control_plane(mpi, in_time(10s));
    REQUIRE(opened.is_ok());
    CHECK(opened.value().notice.empty());
    CHECK(opened.value().control_plane->description() == fmt::format("mpi ({} 9.8.7)", name_of(own_mpi_abi())));
    CHECK(tests::exercise(*opened.value().control_plane, 0, 1, 1000) == "ok");
    opened.value().control_plane->close(false);
    opened.value().control_plane->close(false);
    CHECK(mpi->diary == "init dup release free finalize ");
}

TEST_CASE("an MPI that can send memory of GPUs is noted, and says so by one of two functions", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    mpi->sends_memory_of_gpus = true;
    auto opened = open_mpi_control_plane(mpi, in_time(10s));
    REQUIRE(opened.is_ok());
    CHECK(opened.value().notice.empty());
    CHECK_THAT(opened.value().note, Catch::StartsWith("MPI can send memory of GPUs (it is CUDA-aware). Rueda does not "
                                                      "use this: "));
    opened.value().control_plane->close(false);

    const std::string open_mpi = "MPIX_Query_cuda_support";
    const std::string mpich = "MPIX_GPU_query_support";
    const auto asks = [&](const std::string& name, void* function) {
        return base::is_cuda_aware_mpi([&](const char* symbol) { return symbol == name ? function : nullptr; });
    };
    CHECK(asks(open_mpi, reinterpret_cast<void*>(+[] { return 1; })));
    CHECK_FALSE(asks(open_mpi, reinterpret_cast<void*>(+[] { return 0; })));
    CHECK(asks(mpich, reinterpret_cast<void*>(+[](int kind, int* answer) {
                   *answer = kind == 0 ? 1 : 0;
                   return MPI_SUCCESS;
               })));
    CHECK_FALSE(asks(mpich, reinterpret_cast<void*>(+[](int /*kind*/, int* answer) {
                         *answer = 0;
                         return MPI_SUCCESS;
                     })));
    CHECK_FALSE(asks(mpich, reinterpret_cast<void*>(+[](int /*kind*/, int* answer) {
                         *answer = 1;
                         return MPI_ERR_ARG;
                     })));
    CHECK_FALSE(asks("", nullptr));
    // MPICH has two functions for this query: its own, and one with the name of Open MPI's function. In some versions,
    // the second one ends the process.
    CHECK(base::is_cuda_aware_mpi([&](const char* symbol) -> void* {
        return symbol == mpich ? reinterpret_cast<void*>(+[](int, int* answer) {
            *answer = 1;
            return MPI_SUCCESS;
        })
                               : reinterpret_cast<void*>(+[]() -> int { std::abort(); });
    }));
}

TEST_CASE("a start that must fail ends at once, before the call of MPI that cannot be interrupted", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    mpi->answers = false;
    mpi->own_rank = 1;
    mpi->job_size = 3;
    MpiControlPlaneOptions options = in_time(10s);
    std::vector<int> asked;
    options.interruption = [&](int rank, int size) {
        asked.insert(asked.end(), {rank, size});
        return asked.size() > 4 ? failure(ErrorCode::aborted, "rank 2 is gone") : Status();
    };
    const auto begin = std::chrono::steady_clock::now();
    const auto opened = open_mpi_control_plane(mpi, options);
    CHECK(opened.status().code() == ErrorCode::aborted);
    CHECK(opened.status().message() == "rank 2 is gone");
    CHECK(asked == std::vector<int>{1, 3, 1, 3, 1, 3});
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    CHECK(mpi->diary == "init ");  // Rueda neither duplicates nor finalises
}

/// A job of two ranks in which MPI_Init hangs. Rueda normally ends a process whose MPI_Init hangs. In this job, Rueda
/// calls the test's function `end_process` instead, which lets MPI_Init return.
struct InMpiInit {
    std::promise<Status> ended;
    std::future<Status> reason = ended.get_future();
    std::shared_ptr<StandIn> mpi = std::make_shared<StandIn>();
    std::string ended_call;
    int ended_rank = -1;
    MpiControlPlaneOptions options;

    explicit InMpiInit(std::chrono::milliseconds timeout) : options(in_time(timeout)) {
        options.init_rules.rank = 1;
        options.init_rules.size = 2;
        options.init_rules.end_process = [this](const char* call, int rank, const Status& status) {
            ended_call = call;
            ended_rank = rank;
            ended.set_value(status);
        };
        mpi->during_init = [this] { static_cast<void>(reason.wait_for(10s)); };
    }
};

TEST_CASE("a process whose MPI_Init takes too long is ended", "[unit]") {
    InMpiInit job(50ms);
    const auto begin = std::chrono::steady_clock::now();
    auto opened = open_mpi_control_plane(job.mpi, job.options);
    CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
    REQUIRE(job.reason.wait_for(0s) == std::future_status::ready);
    CHECK(outcome(job.reason.get()) ==
          "Timeout: init: MPI_Init did not return within 0.05 s (RUEDA_START_TIMEOUT): a rank of this launch has not "
          "called it, or the ranks cannot reach each other; look for a rank that has ended or is late, or raise "
          "RUEDA_START_TIMEOUT");
    CHECK(job.ended_call == "MPI_Init");
    CHECK(job.ended_rank == 1);
    REQUIRE(opened.is_ok());  // MPI_Init could return, because the test's `end_process` did not end the process
    opened.value().control_plane->close(false);
}

TEST_CASE("a process whose MPI_Init waits for a rank that has ended is ended", "[unit]") {
    InMpiInit job(10s);
    std::vector<int> asked;
    job.options.init_rules.interruption = [&](int rank, int size) {
        asked.insert(asked.end(), {rank, size});
        return asked.size() > 2 ? failure(ErrorCode::aborted, "rank 0 has ended") : Status();
    };
    const auto begin = std::chrono::steady_clock::now();
    auto opened = open_mpi_control_plane(job.mpi, job.options);
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    REQUIRE(job.reason.wait_for(0s) == std::future_status::ready);
    CHECK(outcome(job.reason.get()) == "Aborted: rank 0 has ended");
    CHECK(asked == std::vector<int>{1, 2, 1, 2});
    REQUIRE(opened.is_ok());
    opened.value().control_plane->close(false);
}

TEST_CASE("a process that waits too long in the call that creates the communicator is ended", "[unit]") {
    InMpiInit job(50ms);
    job.mpi->during_init = [] {};
    job.mpi->during_creation = [&job] { static_cast<void>(job.reason.wait_for(10s)); };
    job.options.init_rules.interruption = [](int, int) { return failure(ErrorCode::aborted, "not asked any more"); };
    job.mpi->is_initialized = true;
    auto opened = open_mpi_control_plane(job.mpi, job.options);
    REQUIRE(job.reason.wait_for(0s) == std::future_status::ready);
    CHECK(outcome(job.reason.get())
              .starts_with("Timeout: init: MPI_Comm_dup did not return within 0.05 s (RUEDA_START_TIMEOUT)"));
    CHECK(job.ended_call == "MPI_Comm_dup");
    CHECK(job.ended_rank == 0);  // MPI is initialised, so it knows the rank's number
    REQUIRE(opened.is_ok());     // MPI_Comm_dup could return, because the test's `end_process` did not end the process
    opened.value().control_plane->close(false);
}

TEST_CASE("a process whose MPI_Init returns in time is left alone", "[unit]") {
    InMpiInit job(10s);
    job.mpi->during_init = [] {};
    const auto begin = std::chrono::steady_clock::now();
    auto opened = open_mpi_control_plane(job.mpi, job.options);
    // A thread watches MPI_Init until its deadline (10 s). open_mpi_control_plane() must not wait for this deadline.
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    CHECK(job.reason.wait_for(0s) == std::future_status::timeout);
    REQUIRE(opened.is_ok());
    opened.value().control_plane->close(false);
}

TEST_CASE("a rank whose peers do not end says that it does not finalise MPI", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    MpiControlPlaneOptions options = in_time(50ms);
    std::vector<std::string> warnings;
    options.warn = [&](const std::string& text) { warnings.push_back(text); };
    auto opened = open_mpi_control_plane(mpi, options);
    REQUIRE(opened.is_ok());
    mpi->answers = false;
    mpi->diary.clear();
    opened.value().control_plane->close(false);
    CHECK(warnings == std::vector<std::string>{
                          "shutdown: not all ranks came within 0.05 s; every rank had its results, but MPI is not "
                          "finalised on this one, so mpirun may report the job as failed: look for a process of the "
                          "job that was stopped or cut off as it ended"});
    CHECK(mpi->diary.find("finalize") == std::string::npos);
}

TEST_CASE("somebody else's MPI is left as it was", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    mpi->is_initialized = true;
    auto opened = open_mpi_control_plane(mpi, in_time(10s));
    REQUIRE(opened.is_ok());
    opened.value().control_plane->close(false);
    CHECK(mpi->diary == "dup release free ");
}

/// The job of this test has only one rank, so the ranks of a communicator are easy to choose.
TEST_CASE("a communicator is compared with the ranks of the job, but not if MPI allows only serialized calls",
          "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    auto opened = open_mpi_control_plane(mpi, in_time(10s));
    REQUIRE(opened.is_ok());
    ControlPlane& plane = *opened.value().control_plane;
    const auto ask = [&plane](MPI_Comm communicator) {
        return plane.is_of_same_ranks(std::as_bytes(std::span(&communicator, 1)));
    };
    CHECK(ask(MPI_COMM_WORLD).value());
    mpi->members = {3};  // from now on, MPI_COMM_SELF contains these ranks in the fake MPI
    CHECK_FALSE(ask(MPI_COMM_SELF).value());
    mpi->members = {0};
    CHECK(ask(MPI_COMM_SELF).value());
    CHECK(ask(MPI_COMM_NULL).status().code() == ErrorCode::invalid_argument);
    CHECK(plane.is_of_same_ranks({}).status().code() == ErrorCode::invalid_argument);
    mpi->level = MPI_THREAD_SERIALIZED;
    const Status unasked = ask(MPI_COMM_WORLD).status();
    CHECK(unasked.code() == ErrorCode::unsupported);
    CHECK(unasked.message().find("MPI gives MPI_THREAD_SERIALIZED: the communicator cannot be compared") !=
          std::string::npos);
    plane.close(false);
}

TEST_CASE("after a failure no call is made", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    auto opened = open_mpi_control_plane(mpi, in_time(10s));
    REQUIRE(opened.is_ok());
    mpi->diary.clear();
    opened.value().control_plane->close(true);
    opened.value().control_plane.reset();
    CHECK(mpi->diary.empty());
}

TEST_CASE("a level too low is refused with what to do", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    mpi->is_initialized = true;
    for (const int level : {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED}) {
        mpi->level = level;
        const auto opened = open_mpi_control_plane(mpi, in_time(10s));
        CHECK(opened.status().code() == ErrorCode::unsupported);
        CHECK_THAT(opened.status().message(), Catch::Contains("the program has initialised MPI with MPI_THREAD_") &&
                                                  Catch::Contains("call MPI_Init_thread(..., MPI_THREAD_MULTIPLE"));
    }
    CHECK(mpi->diary.empty());

    const auto poor = std::make_shared<StandIn>();
    poor->level = MPI_THREAD_FUNNELED;
    CHECK_THAT(open_mpi_control_plane(poor, in_time(10s)).status().message(),
               Catch::Contains("this MPI gives MPI_THREAD_FUNNELED"));
    CHECK(poor->diary == "init finalize ");
}

TEST_CASE("a serialised MPI is accepted with one line", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    mpi->is_initialized = true;
    mpi->level = MPI_THREAD_SERIALIZED;
    auto opened = open_mpi_control_plane(mpi, in_time(10s));
    REQUIRE(opened.is_ok());
    CHECK_THAT(opened.value().notice, Catch::Contains("MPI_THREAD_SERIALIZED"));
    CHECK(opened.value().notice.find('\n') == std::string::npos);
    opened.value().control_plane->close(false);
}

TEST_CASE("the end of MPI is noticed by an open control plane and by a new one", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    mpi->is_initialized = true;
    auto opened = open_mpi_control_plane(mpi, in_time(10s));
    REQUIRE(opened.is_ok());
    ControlPlane& plane = *opened.value().control_plane;
    mpi->end();
    mpi->diary.clear();
    CHECK(plane.barrier().code() == ErrorCode::not_initialized);
    CHECK_THAT(plane.allgather({}).status().message(),
               Catch::Contains("has called MPI_Finalize while Rueda was in use"));
    plane.close(false);
    CHECK(mpi->diary.empty());

    const auto again = open_mpi_control_plane(mpi, in_time(10s));
    CHECK(again.status().code() == ErrorCode::unsupported);
    CHECK_THAT(again.status().message(), Catch::Contains("cannot be initialised again"));
}

TEST_CASE("long messages go in pieces", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    auto opened = open_mpi_control_plane(mpi, in_time(10s), 16);
    REQUIRE(opened.is_ok());
    CHECK(tests::exercise(*opened.value().control_plane, 0, 1, 1003) == "ok");
    CHECK(opened.value().control_plane->allgather(tests::pattern(1003, 5)).value()[0] == tests::pattern(1003, 5));
    CHECK(mpi->longest == 16);
    opened.value().control_plane->close(false);
}

TEST_CASE("lengths that other ranks make are compared with what is expected before there is anything of them",
          "[unit]") {
    const auto told = [](std::uint64_t length) {
        const auto mpi = std::make_shared<StandIn>();
        auto opened = open_mpi_control_plane(mpi, in_time(10s));
        REQUIRE(opened.is_ok());
        mpi->length_told = length;
        return std::pair(mpi, std::move(opened.value().control_plane));
    };
    for (const std::uint64_t length : {kMaxControlMessage + 1, ~std::size_t{0}, std::size_t{1} << 63}) {
        auto [gathering, gathered] = told(length);
        const std::string text = fmt::format(
            "InvalidArgument: allgather: the 1 ranks together gave more than the allowed 67108864 bytes; rank 0 gave "
            "{}",
            length);
        CHECK(outcome(gathered->allgather(Bytes(3)).status()) == text);
        // after the failed allgather, all other calls return the same error
        CHECK(outcome(gathered->barrier()) == text);
        CHECK(gathering->longest == 0);  // no bytes were exchanged
        gathered->close(true);
        auto [broadcasting, said] = told(length);
        CHECK(outcome(said->broadcast(Bytes(3), 0).status()) ==
              fmt::format("InvalidArgument: broadcast: rank 0 gave {} bytes, expected at most 67108864", length));
        said->close(true);
    }
    auto [mpi, plane] = told(4);
    CHECK(outcome(plane->allgather(Bytes(3)).status())
              .starts_with("Internal: allgather: rank 0 gave 3 bytes, and MPI has told the ranks 4"));
    plane->close(true);
}

TEST_CASE("after a timeout, no more calls of MPI are made", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    auto opened = open_mpi_control_plane(mpi, in_time(50ms));
    REQUIRE(opened.is_ok());
    ControlPlane& plane = *opened.value().control_plane;
    mpi->answers = false;
    const auto begin = std::chrono::steady_clock::now();
    CHECK(outcome(plane.barrier()) == "Timeout: barrier: not all ranks came within 0.05 s");
    CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
    mpi->answers = true;
    CHECK(outcome(plane.broadcast({}, 0).status()) == "Timeout: barrier: not all ranks came within 0.05 s");
    mpi->diary.clear();
    plane.close(false);
    CHECK(mpi->diary.empty());
}

TEST_CASE("a failed call keeps its text", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    auto opened = open_mpi_control_plane(mpi, in_time(10s));
    REQUIRE(opened.is_ok());
    mpi->collective = Status(ErrorCode::aborted, "MPI_Ibarrier failed: no network (MPI error 5)");
    CHECK(outcome(opened.value().control_plane->barrier()) ==
          "Aborted: barrier: MPI_Ibarrier failed: no network (MPI error 5)");
    opened.value().control_plane->close(true);
}

TEST_CASE("a root that does not exist is refused", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    auto opened = open_mpi_control_plane(mpi, in_time(10s));
    REQUIRE(opened.is_ok());
    CHECK(opened.value().control_plane->broadcast({}, 1).status().code() == ErrorCode::invalid_argument);
    opened.value().control_plane->close(false);
}

TEST_CASE("MPI may stay for the next start, until the process exits", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    for (int start = 0; start < 3; ++start) {
        auto opened = open_mpi_control_plane(mpi, in_time(10s, MpiFinalize::at_exit));
        REQUIRE(opened.is_ok());
        CHECK(opened.value().control_plane->barrier().is_ok());
        opened.value().control_plane->close(false);
    }
    CHECK(mpi->diary == "init dup release free dup release free dup release free ");
    // The last plane must finalise MPI itself, because the fake MPI runs no code when the test program exits.
    auto opened = open_mpi_control_plane(mpi, in_time(10s));
    REQUIRE(opened.is_ok());
    opened.value().control_plane->close(false);
    CHECK(mpi->is_finalized);
}

TEST_CASE("another MPI than the plugin's is refused", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    mpi->version = "Some MPI 3.2 of somebody";
    const auto opened = open_mpi_control_plane(mpi, in_time(10s));
    CHECK(opened.status().code() == ErrorCode::unsupported);
    CHECK_THAT(opened.status().message(), Catch::StartsWith("the MPI of this process is Some MPI 3.2 of somebody"));
    CHECK(mpi->diary.empty());
}

TEST_CASE("MPIs of one ABI are taken for each other", "[unit]") {
    const std::vector<std::string> versions{"Intel(R) MPI Library 2021.18 for Linux* OS\n",
                                            "MPICH Version:      4.0.2\nMPICH Release date: x",
                                            "MVAPICH Version     :\t3.0\n"};
    for (const std::string& version : versions) {
        CAPTURE(version);
        const auto mpi = std::make_shared<StandIn>();
        mpi->version = version;
        const auto opened = open_mpi_control_plane(mpi, in_time(10s));
        CHECK(opened.is_ok() == (own_mpi_abi() == MpiAbi::mpich));
        if (opened.is_ok()) {
            opened.value().control_plane->close(false);
        }
    }
}

TEST_CASE("versions of MPI libraries are short in log lines", "[unit]") {
    CHECK(short_mpi_version("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4") == "Open MPI 4.1.4");
    CHECK(short_mpi_version("MPICH Version:      4.0.2\nMPICH Release date: x") == "MPICH 4.0.2");
    CHECK(short_mpi_version("Intel(R) MPI Library 2021.8 for Linux* OS\n") ==
          "Intel(R) MPI Library 2021.8 for Linux* OS");
    CHECK(short_mpi_version("") == "unknown MPI");
}

}  // namespace
}  // namespace rueda::collectives
