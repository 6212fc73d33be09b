// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that errors name the source line of the call, for every function of the C++ interface, with and without a
// TensorName.
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"

namespace rueda {
namespace {

/// Returns the text of the error that `call` throws, or "".
std::string text_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// A call and its source line.
struct Call {
    std::function<void()> run;
    int line;
};
#define RUEDA_TEST_CALL(expression)                      \
    Call {                                               \
        [&] { static_cast<void>(expression); }, __LINE__ \
    }

constexpr ProcessSet kNone{77};  // a number that belongs to no process set
constexpr Options kOptions{.process_set = kNone};
constexpr AllreduceOptions kReduction{.process_set = kNone};

TEST_CASE("every operation says from where it was called, where the job wants to know") {
    const bool wanted = GENERATE(false, true);
    REQUIRE(setenv("RUEDA_CALL_SITES", wanted ? "1" : "0", 1) == 0);
    init();
    CHECK(rueda_wants_call_sites() == (wanted ? 1 : 0));
    std::array<float, 4> values{};
    const TensorView t(values);
    const std::vector<TensorView> group{t, t};
    const std::array<std::int64_t, 1> splits{4};
    const std::string name = "a name";
    const TensorSlot slot("a slot", kNone);
    const std::vector<Call> calls = {
        RUEDA_TEST_CALL(allreduce("a", t, kReduction)),
        RUEDA_TEST_CALL(allreduce(name, t, t, kReduction)),
        RUEDA_TEST_CALL(allreduce(slot, t, kReduction)),
        RUEDA_TEST_CALL(allreduce("", t, kReduction)),
        RUEDA_TEST_CALL(allreduce_async("a", t, kReduction)),
        RUEDA_TEST_CALL(allreduce_async(name + "b", t, t, kReduction)),
        RUEDA_TEST_CALL(grouped_allreduce("g", group, kReduction)),
        RUEDA_TEST_CALL(grouped_allreduce_async(name, group, kReduction)),
        RUEDA_TEST_CALL(grouped_allgather("g", group, kOptions)),
        RUEDA_TEST_CALL(grouped_allgather_async("g", group, kOptions)),
        RUEDA_TEST_CALL(grouped_reducescatter("g", group, kReduction)),
        RUEDA_TEST_CALL(grouped_reducescatter_async("g", group, kReduction)),
        RUEDA_TEST_CALL(broadcast("a", t, 0, kOptions)),
        RUEDA_TEST_CALL(broadcast_async("a", t, 0, kOptions)),
        RUEDA_TEST_CALL(allgather("a", t, kOptions)),
        RUEDA_TEST_CALL(allgather_async("a", t, kOptions)),
        RUEDA_TEST_CALL(allgather_into("a", t, t, kOptions)),
        RUEDA_TEST_CALL(allgather_into_async("a", t, t, kOptions)),
        RUEDA_TEST_CALL(reducescatter("a", t, kReduction)),
        RUEDA_TEST_CALL(reducescatter("a", t, t, kReduction)),
        RUEDA_TEST_CALL(reducescatter_async("a", t, kReduction)),
        RUEDA_TEST_CALL(reducescatter_async("a", t, t, kReduction)),
        RUEDA_TEST_CALL(alltoall("a", t, kOptions)),
        RUEDA_TEST_CALL(alltoall("a", t, splits, kOptions)),
        RUEDA_TEST_CALL(alltoall_async("a", t, kOptions)),
        RUEDA_TEST_CALL(alltoall_async("a", t, splits, kOptions)),
        RUEDA_TEST_CALL(alltoall_into("a", t, t, kOptions)),
        RUEDA_TEST_CALL(alltoall_into("a", t, t, splits, kOptions)),
        RUEDA_TEST_CALL(alltoall_into_async("a", t, t, kOptions)),
        RUEDA_TEST_CALL(alltoall_into_async("a", t, t, splits, kOptions)),
        RUEDA_TEST_CALL(gather("a", t, 0, kOptions)),
        RUEDA_TEST_CALL(gather_async("a", t, 0, kOptions)),
        RUEDA_TEST_CALL(gather_into("a", t, t, 0, kOptions)),
        RUEDA_TEST_CALL(gather_into_async("a", t, t, 0, kOptions)),
        RUEDA_TEST_CALL(scatter("a", t, 0, kOptions)),
        RUEDA_TEST_CALL(scatter("a", t, splits, 0, kOptions)),
        RUEDA_TEST_CALL(scatter_async("a", t, 0, kOptions)),
        RUEDA_TEST_CALL(scatter_async("a", t, splits, 0, kOptions)),
        RUEDA_TEST_CALL(scatter_into("a", t, t, 0, kOptions)),
        RUEDA_TEST_CALL(scatter_into("a", t, t, splits, 0, kOptions)),
        RUEDA_TEST_CALL(scatter_into_async("a", t, t, 0, kOptions)),
        RUEDA_TEST_CALL(scatter_into_async("a", t, t, splits, 0, kOptions)),
        RUEDA_TEST_CALL(reduce("a", t, 0, kReduction)),
        RUEDA_TEST_CALL(reduce("a", t, t, 0, kReduction)),
        RUEDA_TEST_CALL(reduce_async("a", t, 0, kReduction)),
        RUEDA_TEST_CALL(reduce_async("a", t, t, 0, kReduction)),
        RUEDA_TEST_CALL(send(t, 0, 0, kOptions)),
        RUEDA_TEST_CALL(send_async(t, 0, 0, kOptions)),
        RUEDA_TEST_CALL(receive(t, 0, 0, kOptions)),
        RUEDA_TEST_CALL(receive_async(t, any_peer, 0, kOptions)),
        RUEDA_TEST_CALL(barrier(kOptions)),
        RUEDA_TEST_CALL(join(static_cast<JoinAverage>(9))),
    };
    for (const Call& call : calls) {
        const std::string text = text_of(call.run);
        INFO(text);
        CHECK_FALSE(text.empty());
        // The error shows only the end of a long path.
        const std::string end = "/call_sites_test.cpp:" + std::to_string(call.line);
        CHECK(text.ends_with(end) == wanted);
        CHECK((text.find("; called from ") != std::string::npos) == wanted);
    }
    shutdown();
    unsetenv("RUEDA_CALL_SITES");
}

/// The operation is started without an error, but ends with one.
TEST_CASE("a callback is told from where the operation was called, as a wait is") {
    const bool wanted = GENERATE(false, true);
    REQUIRE(setenv("RUEDA_CALL_SITES", wanted ? "1" : "0", 1) == 0);
    REQUIRE(setenv("RUEDA_CHECK_NAN", "1", 1) == 0);
    init();
    std::array<float, 2> values{1, std::numeric_limits<float>::quiet_NaN()};
    const Handle handle = allreduce_async("w", TensorView(values));
    const std::string end = "/call_sites_test.cpp:" + std::to_string(__LINE__ - 1);
    const std::string waited = text_of([&] { handle.wait(); });
    std::string told;
    handle.on_completion(
        [&](const std::exception_ptr& failure) { told = text_of([&] { std::rethrow_exception(failure); }); });
    CHECK(told == waited);
    CHECK(told.find("NaN at element 1") != std::string::npos);
    CHECK(told.ends_with(end) == wanted);
    shutdown();
    unsetenv("RUEDA_CHECK_NAN");
    unsetenv("RUEDA_CALL_SITES");
}

}  // namespace
}  // namespace rueda
