// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Passes NULL where the C interface needs a pointer. The call must return an error that names the argument, and must
// start nothing.
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

struct Call {
    const char* name;
    const char* text;  ///< a part of the error's text
    std::function<int()> call;
};

constexpr const char* kNoInput = "the input tensor is NULL";
constexpr const char* kNoOutput = "the output tensor is NULL";
constexpr const char* kNoHandle = "where the handle goes is NULL";
constexpr const char* kNoPlace = "goes is NULL";

std::vector<Call> calls_without_tensors(const rueda_tensor* in, rueda_handle** h) {
    const rueda_tensor* const no = nullptr;
    return {
        {"allreduce", kNoInput, [=] { return rueda_allreduce("x", no, in, nullptr); }},
        {"allreduce out", kNoOutput, [=] { return rueda_allreduce("x", in, no, nullptr); }},
        {"unnamed allreduce", kNoInput, [=] { return rueda_allreduce(nullptr, no, no, nullptr); }},
        {"allreduce_async", kNoInput, [=] { return rueda_allreduce_async("x", no, in, nullptr, h); }},
        {"allreduce_async out", kNoOutput, [=] { return rueda_allreduce_async("x", in, no, nullptr, h); }},
        {"grouped_allreduce", kNoInput, [=] { return rueda_grouped_allreduce("g", 1, no, in, nullptr); }},
        {"grouped_allreduce out", kNoOutput, [=] { return rueda_grouped_allreduce("g", 1, in, no, nullptr); }},
        {"grouped_allreduce_async", kNoInput,
         [=] { return rueda_grouped_allreduce_async("g", 1, no, no, nullptr, h); }},
        {"grouped_allgather", kNoInput, [=] { return rueda_grouped_allgather("g", 1, no, nullptr, h); }},
        {"grouped_reducescatter", kNoInput, [=] { return rueda_grouped_reducescatter("g", 1, no, in, nullptr); }},
        {"broadcast", kNoInput, [=] { return rueda_broadcast("x", no, in, 0, nullptr); }},
        {"broadcast out", kNoOutput, [=] { return rueda_broadcast("x", in, no, 0, nullptr); }},
        {"broadcast_async", kNoInput, [=] { return rueda_broadcast_async("x", no, in, 0, nullptr, h); }},
        {"allgather", kNoInput, [=] { return rueda_allgather("x", no, nullptr, h); }},
        {"allgather_async", kNoInput, [=] { return rueda_allgather_async("x", no, nullptr, h); }},
        {"allgather_into", kNoInput, [=] { return rueda_allgather_into("x", no, in, nullptr); }},
        {"allgather_into_async", kNoInput, [=] { return rueda_allgather_into_async("x", no, in, nullptr, h); }},
        {"reducescatter", kNoInput, [=] { return rueda_reducescatter("x", no, in, nullptr); }},
        {"reducescatter_async", kNoInput, [=] { return rueda_reducescatter_async("x", no, in, nullptr, h); }},
        {"alltoall", kNoInput, [=] { return rueda_alltoall("x", no, nullptr, 0, nullptr, h); }},
        {"alltoall_async", kNoInput, [=] { return rueda_alltoall_async("x", no, nullptr, 0, nullptr, h); }},
        {"alltoall_into", kNoInput, [=] { return rueda_alltoall_into("x", no, in, nullptr, 0, nullptr); }},
        {"alltoall_into_async", kNoInput,
         [=] { return rueda_alltoall_into_async("x", no, in, nullptr, 0, nullptr, h); }},
        {"gather", kNoInput, [=] { return rueda_gather("x", no, in, 0, nullptr, h); }},
        {"gather_async", kNoInput, [=] { return rueda_gather_async("x", no, in, 0, nullptr, h); }},
        {"scatter", kNoInput, [=] { return rueda_scatter("x", no, nullptr, 0, in, 0, nullptr, h); }},
        {"scatter_async", kNoInput, [=] { return rueda_scatter_async("x", no, nullptr, 0, in, 0, nullptr, h); }},
        {"reduce", kNoInput, [=] { return rueda_reduce("x", no, in, 0, nullptr); }},
        {"reduce_async", kNoInput, [=] { return rueda_reduce_async("x", no, in, 0, nullptr, h); }},
        {"send", kNoInput, [=] { return rueda_send(no, 0, 0, nullptr); }},
        {"receive_async", kNoOutput, [=] { return rueda_receive_async(no, 0, 0, nullptr, h); }},
    };
}

std::vector<Call> calls_without_handles(const rueda_tensor* t) {
    rueda_handle** const no = nullptr;
    return {
        {"allreduce_async", kNoHandle, [=] { return rueda_allreduce_async("x", t, t, nullptr, no); }},
        {"unnamed", kNoHandle, [=] { return rueda_allreduce_async("", t, t, nullptr, no); }},
        {"grouped_allreduce_async", kNoHandle,
         [=] { return rueda_grouped_allreduce_async("g", 1, t, t, nullptr, no); }},
        {"grouped_allgather", kNoHandle, [=] { return rueda_grouped_allgather("g", 1, t, nullptr, no); }},
        {"broadcast_async", kNoHandle, [=] { return rueda_broadcast_async("x", t, t, 0, nullptr, no); }},
        {"allgather", kNoHandle, [=] { return rueda_allgather("x", t, nullptr, no); }},
        {"alltoall", kNoHandle, [=] { return rueda_alltoall("x", t, nullptr, 0, nullptr, no); }},
        {"send_async", kNoHandle, [=] { return rueda_send_async(t, 0, 0, nullptr, no); }},
        {"barrier_async", kNoHandle, [=] { return rueda_barrier_async(nullptr, no); }},
        {"join_async", kNoHandle, [=] { return rueda_join_async(RUEDA_JOIN_AVERAGE_ALL, no); }},
    };
}

std::vector<Call> calls_without_places(rueda_handle* ended) {
    return {
        {"rank", kNoPlace, [] { return rueda_rank(nullptr); }},
        {"size", kNoPlace, [] { return rueda_size(nullptr); }},
        {"process_set_add", "the list of 2 ranks of a process set is NULL",
         [] {
             std::int32_t set = 0;
             return rueda_process_set_add(nullptr, 2, &set);
         }},
        {"process_set_add's place", kNoPlace,
         [] {
             const std::int32_t rank = 0;
             return rueda_process_set_add(&rank, 1, nullptr);
         }},
        {"process_set_rank", kNoPlace, [] { return rueda_process_set_rank(0, nullptr); }},
        {"process_set_size", kNoPlace, [] { return rueda_process_set_size(0, nullptr); }},
        {"process_set_included", kNoPlace, [] { return rueda_process_set_included(0, nullptr); }},
        {"process_set_ranks", kNoPlace, [] { return rueda_process_set_ranks(0, nullptr, 0, nullptr); }},
        {"process_set_ranks' array", "the array for 4 numbers is NULL",
         [] {
             std::size_t count = 0;
             return rueda_process_set_ranks(0, nullptr, 4, &count);
         }},
        {"process_set_ids", kNoPlace, [] { return rueda_process_set_ids(nullptr, 0, nullptr); }},
        {"slot_create", kNoPlace, [] { return rueda_slot_create("x", nullptr); }},
        {"poll", kNoPlace, [=] { return rueda_poll(ended, nullptr); }},
        {"handle_output", kNoPlace, [=] { return rueda_handle_output(ended, nullptr); }},
        {"handle_sender", kNoPlace, [=] { return rueda_handle_sender(ended, nullptr); }},
        {"handle_waits_for", kNoPlace, [=] { return rueda_handle_waits_for(ended, nullptr, 8); }},
        {"handle_waits_for's size", "the size of the memory for the text is 0",
         [=] {
             char place = 0;
             return rueda_handle_waits_for(ended, &place, 0);
         }},
        {"handle_joined_last", kNoPlace, [=] { return rueda_handle_joined_last(ended, nullptr); }},
        {"handle_received_splits", kNoPlace, [=] { return rueda_handle_received_splits(ended, nullptr, nullptr); }},
        {"allocate", kNoPlace, [] { return rueda_allocate(8, nullptr); }},
    };
}

void check_refused(const std::vector<Call>& calls) {
    for (const Call& one : calls) {
        const int status = one.call();
        const std::string text = status == RUEDA_OK ? "" : rueda_last_error();
        if (status != RUEDA_INVALID_ARGUMENT || text.find(one.text) == std::string::npos) {
            RUEDA_RANK_EQUAL(std::string(one.name) + ": " + std::to_string(status) + " " + text,
                             std::string(one.name) + ": 1 ..." + one.text);
        }
    }
}

TEST_CASE("NULL is refused wherever the C interface needs a pointer, and nothing is started", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        RUEDA_RANK_EQUAL(rueda_init(), RUEDA_OK);
        float values[2] = {1.0F + static_cast<float>(context.rank()), 5};
        const std::int64_t extent = 2;
        const rueda_tensor tensor{values, &extent, 1, RUEDA_FLOAT32};
        rueda_handle* untouched = nullptr;
        rueda_handle* ended = nullptr;
        RUEDA_RANK_EQUAL(rueda_allgather("ended", &tensor, nullptr, &ended), RUEDA_OK);
        if (context.rank() == 0) {  // the wrong calls of rank 0 must not affect rank 1
            check_refused(calls_without_tensors(&tensor, &untouched));
            check_refused(calls_without_handles(&tensor));
            check_refused(calls_without_places(ended));
            RUEDA_RANK_CHECK(untouched == nullptr);
            RUEDA_RANK_EQUAL(rueda_wait(ended, std::numeric_limits<double>::quiet_NaN()), RUEDA_INVALID_ARGUMENT);
            RUEDA_RANK_CHECK(std::string(rueda_last_error()).find("the timeout is not a number") != std::string::npos);
        }
        rueda_handle_release(ended);
        std::size_t count = 0;
        // With NULL, the call only returns the number of ranks.
        RUEDA_RANK_EQUAL(rueda_process_set_ranks(0, nullptr, 0, &count), RUEDA_OK);
        RUEDA_RANK_EQUAL(count, std::size_t{2});
        rueda_options options = RUEDA_OPTIONS_INIT;
        options.reduce_op = RUEDA_SUM;
        for (const char* const name : {"x", ""}) {
            RUEDA_RANK_EQUAL(rueda_allreduce(name, &tensor, &tensor, &options), RUEDA_OK);
        }
        RUEDA_RANK_EQUAL(values[0], 6.0F);   // two sums: 1 + 2 = 3, 3 + 3 = 6
        RUEDA_RANK_EQUAL(values[1], 20.0F);  // two sums: 5 + 5 = 10, 10 + 10 = 20
        RUEDA_RANK_EQUAL(rueda_grouped_allreduce("g", 1, &tensor, &tensor, &options), RUEDA_OK);
        RUEDA_RANK_EQUAL(values[1], 40.0F);
        RUEDA_RANK_EQUAL(rueda_shutdown(), RUEDA_OK);
    }));
}

/// Returns "ErrorCode: text" for an error of Rueda, or says how else the call ended.
std::string refusal(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return std::string(name_of(error.code())) + ": " + error.what();
    }
    return "no error";
}

void check_empty(const Handle& handle) {
    using namespace std::chrono_literals;
    bool called = false;
    const std::vector<std::pair<std::string, std::function<void()>>> calls = {
        {"wait()", [&] { handle.wait(); }},
        {"wait_for()", [&] { handle.wait_for(1s); }},
        {"ready()", [&] { static_cast<void>(handle.ready()); }},
        {"on_completion()", [&] { handle.on_completion([&](const std::exception_ptr&) { called = true; }); }},
        {"output()", [&] { static_cast<void>(handle.output()); }},
        {"received_splits()", [&] { static_cast<void>(handle.received_splits()); }},
        {"sender()", [&] { static_cast<void>(handle.sender()); }},
        {"joined_last()", [&] { static_cast<void>(handle.joined_last()); }}};
    for (const auto& [name, call] : calls) {
        RUEDA_RANK_EQUAL(refusal(call),
                         "InvalidArgument: Handle::" + name +
                             ": the handle is empty, because it was moved from or never had an operation; expected one "
                             "that an _async function returned: use the handle that it was moved to");
    }
    RUEDA_RANK_CHECK(handle.empty() && !called);
}

TEST_CASE("an empty handle refuses to be waited for, and can be destroyed and assigned to", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        const Handle before_init;
        check_empty(before_init);
        init();
        std::vector<float> first(3, 1.0F + static_cast<float>(context.rank()));
        std::vector<float> second = first;
        Handle one = allreduce_async("one", first, {.op = ReduceOp::sum});
        Handle other = allreduce_async("other", second, {.op = ReduceOp::sum});
        Handle taken = std::move(one);
        check_empty(one);  // NOLINT(bugprone-use-after-move): the test checks the moved-from handle
        other.wait();
        other = std::move(taken);  // the assignment releases the old handle of `other`
        check_empty(taken);        // NOLINT(bugprone-use-after-move)
        Handle& self = other;
        other = std::move(self);
        RUEDA_RANK_CHECK(!other.empty());
        other.wait();
        RUEDA_RANK_EQUAL(first[2], 3.0F);
        RUEDA_RANK_EQUAL(second[2], 3.0F);
        one = allreduce_async("one", first, {.op = ReduceOp::sum});
        one.wait();
        RUEDA_RANK_EQUAL(first[0], 6.0F);
        shutdown();
    }));
}

TEST_CASE("NULL as a handle is refused by every function of the C interface", "[processes]") {
    check_passed(run_public_ranks(1, [](RankContext&) {
        RUEDA_RANK_EQUAL(rueda_init(), RUEDA_OK);
        int completed = 0;
        rueda_tensor tensor{};
        const std::int64_t* splits = nullptr;
        std::size_t count = 0;
        std::int32_t rank = 0;
        constexpr const char* kNull = "the handle is NULL";
        check_refused({
            {"wait", kNull, [] { return rueda_wait(nullptr, -1); }},
            {"poll", kNull, [&] { return rueda_poll(nullptr, &completed); }},
            {"output", kNull, [&] { return rueda_handle_output(nullptr, &tensor); }},
            {"received_splits", kNull, [&] { return rueda_handle_received_splits(nullptr, &splits, &count); }},
            {"sender", kNull, [&] { return rueda_handle_sender(nullptr, &rank); }},
            {"joined_last", kNull, [&] { return rueda_handle_joined_last(nullptr, &rank); }},
            {"on_completion", kNull,
             [] {
                 return rueda_handle_on_completion(
                     nullptr, [](int, const char*, void*) {}, nullptr);
             }},
        });
        rueda_handle_release(nullptr);
        RUEDA_RANK_EQUAL(rueda_shutdown(), RUEDA_OK);
    }));
}

/// Every rank makes the same wrong calls, but rank 0 shuts down before the other ranks make theirs.
TEST_CASE("a rank's wrong arguments are its own error, also after another rank has shut down", "[processes]") {
    check_passed(run_public_ranks(3, [](RankContext& context) {
        init();
        std::vector<float> values(4, 1);
        std::vector<float> out(8);
        const TensorView nowhere(nullptr, DType::float32, Shape{4});
        const TensorSlot slot("slot");
        allreduce("values", values);
        allreduce(slot, values);
        const auto mistakes = [&] {
            const std::vector<std::pair<std::string, std::function<void()>>> calls = {
                {"tensor 'op': the reduce operation is 9", [&] { allreduce("op", values, {.op = ReduceOp{9}}); }},
                {"tensor 'values': the reduce operation is 9",
                 [&] { allreduce("values", values, {.op = ReduceOp{9}}); }},
                {"tensor 'slot': the reduce operation is 9", [&] { allreduce(slot, values, {.op = ReduceOp{9}}); }},
                {"an unnamed tensor: the reduce operation is 9", [&] { allreduce("", values, {.op = ReduceOp{9}}); }},
                {"tensor 'async': the input tensor has 4 elements and no data",
                 [&] { allreduce_async("async", nowhere).wait(); }},
                {"tensor 'group_1of1': the input tensor has 4 elements and no data",
                 [&] { grouped_allreduce("group", std::vector<TensorView>{nowhere}); }},
                {"tensor 'root': the " + std::string(context.rank() == 1 ? "input" : "output") +
                     " tensor has 4 elements and no data",
                 [&] { broadcast("root", nowhere, 1); }},
                {"tensor 'splits': there are 1 splits",
                 [&] { static_cast<void>(alltoall("splits", values, std::vector<std::int64_t>{4})); }},
                {"tensor 'rows': the output's shape is [7]",
                 [&] { reducescatter("rows", values, TensorView(out.data(), DType::float32, Shape{7})); }},
                {"the peer is rank 17", [&] { send(values, 17); }},
            };
            for (const auto& [text, call] : calls) {
                const std::string found = refusal(call);
                const std::string expected = "InvalidArgument: " + text;
                RUEDA_RANK_EQUAL(found.substr(0, expected.size()), expected);
            }
        };
        if (context.rank() != 0) {
            const std::string ended = refusal([&] { allreduce("until rank 0 ends", values); });
            RUEDA_RANK_CHECK(ended.find("rank 0 has shut down") != std::string::npos);
        }
        mistakes();
        if (context.rank() != 0) {  // the arguments are right, but the job has ended
            RUEDA_RANK_CHECK(refusal([&] { allreduce("values", values); }).starts_with("Aborted: "));
        }
        shutdown();
    }));
}

}  // namespace
}  // namespace rueda::tests
