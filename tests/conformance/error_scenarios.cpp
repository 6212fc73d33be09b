// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <functional>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

/// Returns the names of all ranks except the last, as error messages write them.
std::string others_text(int size) {
    switch (size) {
        case 2:
            return "rank 0";
        case 3:
            return "ranks 0, 1";
        default:
            return fmt::format("ranks 0-{}", size - 2);
    }
}

/// A case in which the ranks make different calls: `odd` is the call of the last rank, and `usual` is the call of the
/// other ranks.
struct Disagreement {
    std::string field;
    std::string usual_text;
    std::string odd_text;
    std::function<Result<PendingPointer>(Client&, const std::string& name, std::byte* memory)> usual;
    std::function<Result<PendingPointer>(Client&, const std::string& name, std::byte* memory)> odd;
};

using Start = std::function<Result<PendingPointer>(Client&, const std::string&, std::byte*)>;

Start reduces(DType dtype, std::vector<std::int64_t> shape, Reduce reduce = {}) {
    return [=](Client& client, const std::string& name, std::byte* memory) {
        const Tensor tensor{memory, dtype, shape};
        return client.start_allreduce(name, tensor, tensor, reduce);
    };
}
Start broadcasts_from(int root) {
    return [=](Client& client, const std::string& name, std::byte* memory) {
        return client.start_broadcast(name, {memory, DType::float32, {4}}, root);
    };
}
Start gathers(std::vector<std::int64_t> shape) {
    return [=](Client& client, const std::string& name, std::byte* memory) {
        return client.start_allgather(name, {memory, DType::float32, shape});
    };
}

Start reduce_scatters(std::vector<std::int64_t> shape, Reduce reduce = {}) {
    return [=](Client& client, const std::string& name, std::byte* memory) {
        return client.start_reducescatter(name, {memory, DType::float32, shape}, nullptr, reduce);
    };
}
/// Rank r keeps `rows` rows. The splits differ between the ranks, which is allowed.
Start exchanges(DType dtype, std::int64_t rows, std::int64_t row) {
    return [=](Client& client, const std::string& name, std::byte* memory) {
        std::vector<std::int64_t> splits(static_cast<std::size_t>(client.size()), 0);
        splits[static_cast<std::size_t>(client.rank())] = rows;
        return client.start_alltoall(name, {memory, dtype, {rows, row}}, splits);
    };
}

Start gathers_to(int root, std::vector<std::int64_t> shape = {4}) {
    return [=](Client& client, const std::string& name, std::byte* memory) {
        return client.start_gather(name, {memory, DType::float32, shape}, nullptr, root);
    };
}
/// Scatters no rows, because zero rows can be divided among any number of ranks.
Start scatters_from(int root, DType dtype = DType::float32) {
    return [=](Client& client, const std::string& name, std::byte* memory) {
        return client.start_scatter(name, {memory, dtype, {0, 3}}, std::nullopt, nullptr, root);
    };
}
Start reduces_to(int root, std::vector<std::int64_t> shape = {4}, Reduce reduce = {}) {
    return [=](Client& client, const std::string& name, std::byte* memory) {
        const Tensor tensor{memory, DType::float32, shape};
        return client.start_reduce(name, tensor, tensor, root, reduce);
    };
}

std::vector<Disagreement> disagreements() {
    const Start usual = reduces(DType::float32, {4});
    return {
        {"the shape", "[4]", "[5]", usual, reduces(DType::float32, {5})},
        {"the shape", "[100, 3]", "[100, 2]", reduces(DType::float32, {100, 3}), reduces(DType::float32, {100, 2})},
        {"the shape", "[4]", "[4, 1]", usual, reduces(DType::float32, {4, 1})},
        {"the shape", "[any, 3]", "[any, 2]", gathers({4, 3}), gathers({4, 2})},
        {"the dtype", "float32", "int32", usual, reduces(DType::int32, {4})},
        {"the operation", "allreduce", "broadcast", usual, broadcasts_from(0)},
        {"the operation", "allgather", "allreduce", gathers({4}), usual},
        {"the reduce operation", "sum", "max", usual, reduces(DType::float32, {4}, {ReduceOp::max})},
        {"the reduce operation", "adasum", "sum", reduces(DType::float32, {4}, {ReduceOp::adasum}), usual},
        {"the shape", "[4, 2]", "[5, 2]", reduce_scatters({4, 2}), reduce_scatters({5, 2})},
        {"the shape", "[100, 3]", "[100, 2]", reduce_scatters({100, 3}), reduce_scatters({100, 2})},
        {"the operation", "allreduce", "reducescatter", usual, reduce_scatters({4})},
        {"the reduce operation", "sum", "product", reduce_scatters({4}), reduce_scatters({4}, {ReduceOp::product})},
        {"the prescale factor", "1", "2", reduce_scatters({4}), reduce_scatters({4}, {ReduceOp::sum, 2})},
        {"the postscale factor", "1", "3", reduce_scatters({4}), reduce_scatters({4}, {ReduceOp::sum, 1, 3})},
        {"the shape", "[any, 3]", "[any, 2]", exchanges(DType::float32, 4, 3), exchanges(DType::float32, 5, 2)},
        {"the dtype", "float32", "float16", exchanges(DType::float32, 50, 3), exchanges(DType::float16, 4, 3)},
        {"the operation", "alltoall", "allgather", exchanges(DType::float32, 4, 3), gathers({4, 3})},
        {"the root rank", "0", "1", broadcasts_from(0), broadcasts_from(1)},
        {"the root rank", "0", "1", gathers_to(0), gathers_to(1)},
        {"the root rank", "1", "0", scatters_from(1), scatters_from(0)},
        {"the root rank", "0", "1", reduces_to(0), reduces_to(1)},
        {"the operation", "gather", "allgather", gathers_to(0), gathers({4})},
        {"the operation", "alltoall", "scatter", exchanges(DType::float32, 4, 3), scatters_from(0)},
        {"the operation", "allreduce", "reduce", usual, reduces_to(0)},
        {"the dtype", "float32", "int8", scatters_from(0), scatters_from(0, DType::int8)},
        {"the shape", "[any, 3]", "[any, 2]", gathers_to(0, {4, 3}), gathers_to(0, {4, 2})},
        {"the shape", "[4]", "[5]", reduces_to(0), reduces_to(0, {5})},
        {"the reduce operation", "sum", "min", reduces_to(0), reduces_to(0, {4}, {ReduceOp::min})},
        {"the shape", "[0]", "[3]", reduces(DType::float32, {0}), reduces(DType::float32, {3})},
        {"the shape", "[3, 4]", "[12]", reduces(DType::float32, {3, 4}, {ReduceOp::adasum}),
         reduces(DType::float32, {12}, {ReduceOp::adasum})},
        {"the compression", "none", "bf16", usual,
         reduces(DType::float32, {4}, {ReduceOp::sum, 1, 1, Compression::bf16})},
        {"the compression", "bf16", "fp16", reduces(DType::float32, {4}, {ReduceOp::sum, 1, 1, Compression::bf16}),
         reduces(DType::float32, {4}, {ReduceOp::sum, 1, 1, Compression::fp16})},
        {"the prescale factor", "1", "0.5", usual, reduces(DType::float32, {4}, {ReduceOp::sum, 0.5})},
        {"the postscale factor", "1", "0.25", usual, reduces(DType::float32, {4}, {ReduceOp::sum, 1, 0.25})},
    };
}

void agree_once(Client& client, const std::string& name, int salt) {
    const Buffer buffer(client, DType::float32, {4}, salt % 2 == 0);
    fill_input(buffer.tensor(), ReduceOp::sum, client.rank(), salt);
    expect_ok(client.allreduce(name, buffer.tensor(), buffer.tensor(), {ReduceOp::sum}), name);
    check_allreduce(buffer.tensor(), {ReduceOp::sum}, client.size(), salt, name);
}

/// Checks the error of an unnamed call, except the call's number, which depends on the earlier calls.
void expect_unnamed(const std::string& text, const Disagreement& about, int size) {
    const std::string head = fmt::format(
        " unnamed operation of this process set: the ranks disagree about {}: {}: ", about.field, others_text(size));
    const std::string odd = fmt::format("; rank {}: ", size - 1);
    const std::size_t usual_at = text.find(head);
    const std::size_t odd_at = text.find(odd, usual_at);
    RUEDA_RANK_CHECK(usual_at != std::string::npos && odd_at != std::string::npos);
    const std::string usual_text = text.substr(usual_at + head.size(), odd_at - usual_at - head.size());
    const std::string odd_text = text.substr(odd_at + odd.size());
    // The message mentions no factors that are 1, and no compression that is `none`.
    RUEDA_RANK_CHECK(about.usual_text == "1" || about.usual_text == "none" ||
                     usual_text.find(about.usual_text) != std::string::npos);
    RUEDA_RANK_CHECK(odd_text.find(about.odd_text) != std::string::npos);
    RUEDA_RANK_CHECK(text.ends_with("than the others, names or RUEDA_CALL_SITES=1 show which call"));
}

void disagree_once(Client& client, const std::string& name, const Disagreement& about) {
    std::array<std::byte, 2048> memory{};
    const bool odd = client.rank() == client.size() - 1;
    const auto pending = expect_value((odd ? about.odd : about.usual)(client, name, memory.data()), name);
    const std::string text = expect_failure(pending->wait(), ErrorCode::mismatch, "a mismatch");
    if (name.empty()) {
        expect_unnamed(text, about, client.size());
        return;
    }
    RUEDA_RANK_EQUAL(text,
                     fmt::format("tensor '{}': the ranks disagree about {}: {}: {}; rank {}: {}", name, about.field,
                                 others_text(client.size()), about.usual_text, client.size() - 1, about.odd_text));
}

/// If the ranks disagree about a tensor, this tensor fails with the same message on all ranks. Its name must be usable
/// again, and all other operations must continue. The scenario tries a new name and a name that has a slot.
void mismatches(Client& client) {
    int salt = 0;
    for (const Disagreement& about : disagreements()) {
        const std::string fresh = fmt::format("mismatch.fresh.{}", ++salt);
        const std::string bound = fmt::format("mismatch.bound.{}", salt);
        disagree_once(client, fresh, about);
        agree_once(client, fresh, salt);
        agree_once(client, bound, salt + 1);
        agree_once(client, bound, salt + 2);
        disagree_once(client, bound, about);
        disagree_once(client, bound, about);
        agree_once(client, bound, salt + 3);
        agree_once(client, bound, salt + 4);
        disagree_once(client, "", about);
        expect_ok(client.barrier(), "the operation after an unnamed mismatch");
    }
}

/// Tests calls that Rueda refuses. If all ranks make the call, all of them get this refusal. If only the last rank
/// makes it, all ranks get an error that says that the ranks disagree.
void calls_that_no_rank_can_do(Client& client) {
    std::array<std::byte, 2048> memory{};
    const Start usual = reduces(DType::float32, {4});
    int salt = 0;
    for (const Disagreement& about : {Disagreement{"the dtype", "float32", "bool", usual, reduces(DType::boolean, {4})},
                                      {"the shape", "[any]", "[]", gathers({4}), gathers({})},
                                      {"the root rank", "0", "-1", broadcasts_from(0), broadcasts_from(-1)},
                                      {"the compression", "none", "bf16", reduces(DType::float16, {4}),
                                       reduces(DType::float16, {4}, {ReduceOp::sum, 1, 1, Compression::bf16})}}) {
        const std::string name = fmt::format("impossible.{}", ++salt);
        const ErrorCode code = about.field == "the dtype" || about.field == "the compression"
                                   ? ErrorCode::unsupported
                                   : ErrorCode::invalid_argument;
        for (int round = 0; round < 2; ++round) {  // first with a new name, then with a name that has a slot
            for (const std::string& called : {name, std::string()}) {
                expect_failure(end_of(about.odd(client, called, memory.data())), code, name);
            }
            disagree_once(client, name, about);
            agree_once(client, name, salt);
        }
    }
}

/// Other operations that are in progress at the same time are not affected.
void mismatch_among_others(Client& client) {
    for (int round = 0; round < 3; ++round) {
        std::vector<Buffer> buffers;
        std::vector<PendingPointer> pending;
        const auto start = [&](int i) {
            const bool odd = i == 5 && client.rank() == client.size() - 1;
            buffers.emplace_back(client, DType::int32, std::vector<std::int64_t>{odd ? 31 : 30}, i % 2 == 0);
            fill_input(buffers.back().tensor(), ReduceOp::sum, client.rank(), i);
            pending.push_back(expect_value(client.start_allreduce(fmt::format("among.{}", i), buffers.back().tensor(),
                                                                  buffers.back().tensor(), {ReduceOp::sum}),
                                           "one among others"));
        };
        for (int i = 0; i < 12; ++i) {
            start(i);
        }
        for (int i = 0; i < 12; ++i) {
            const Status status = pending[static_cast<std::size_t>(i)]->wait();
            if (i == 5) {
                expect_failure(status, ErrorCode::mismatch, "one among others");
            } else {
                expect_ok(status, "one among others");
                check_allreduce(buffers[static_cast<std::size_t>(i)].tensor(), {ReduceOp::sum}, client.size(), i,
                                "one among others");
            }
        }
    }
}

/// Rank 0 starts an operation. While this operation is pending, rank 0 makes calls that are not allowed. Then the other
/// ranks start the operation.
template <class Try>
void while_pending(Client& client, const std::string& name, Try&& try_it) {
    std::array<float, 3> values{};
    const Tensor tensor{values.data(), DType::float32, {3}};
    fill_input(tensor, ReduceOp::sum, client.rank(), 7);
    PendingPointer pending;
    if (client.rank() == 0) {
        pending = expect_value(client.start_allreduce(name, tensor, tensor, {ReduceOp::sum}), name);
        try_it(*pending);
    }
    expect_ok(client.barrier(), "the barrier that lets the others come");
    if (client.rank() != 0) {
        pending = expect_value(client.start_allreduce(name, tensor, tensor, {ReduceOp::sum}), name);
    }
    expect_ok(pending->wait(), name);
    check_allreduce(tensor, {ReduceOp::sum}, client.size(), 7, name);
}

void duplicates(Client& client) {
    for (int round = 0; round < 3; ++round) {  // the name is new in the first round, and has a slot afterwards
        while_pending(client, "duplicate", [&](Pending&) {
            float value = 0;
            const Tensor other{&value, DType::float32, {1}};
            RUEDA_RANK_EQUAL(expect_failure(client.start_allreduce("duplicate", other, other, {}).status(),
                                            ErrorCode::duplicate_name, "a second operation"),
                             std::string("tensor 'duplicate': an operation with this name is still pending on this "
                                         "rank; wait for it, or use another name"));
            expect_failure(client.start_broadcast("duplicate", other, 0).status(), ErrorCode::duplicate_name,
                           "another operation of the same name");
            expect_failure(client.allreduce("duplicate", other, other, {}), ErrorCode::duplicate_name,
                           "a blocking operation of the same name");
        });
    }
}

/// If one member of a group is refused, no member may start. Otherwise the first member would still be pending when the
/// next group needs its name.
void group_with_a_duplicate(Client& client) {
    std::array<float, 3> values{};
    const std::vector<Tensor> tensors = {
        {&values[0], DType::float32, {1}}, {&values[1], DType::float32, {1}}, {&values[2], DType::float32, {1}}};
    for (int round = 0; round < 2; ++round) {
        while_pending(client, "group_2of3", [&](Pending&) {
            RUEDA_RANK_EQUAL(
                expect_failure(client.start_group("group", tensors, {ReduceOp::sum}).status(),
                               ErrorCode::duplicate_name, "a group"),
                std::string("tensor 'group_2of3' of a group: an operation with this name is still pending on this "
                            "rank; nothing of the group was started"));
        });
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            fill_input(tensors[i], ReduceOp::sum, client.rank(), static_cast<int>(i));
        }
        const auto pending = expect_value(client.start_group("group", tensors, {ReduceOp::sum}), "the group");
        expect_ok(pending->wait(), "the group");
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            check_allreduce(tensors[i], {ReduceOp::sum}, client.size(), static_cast<int>(i), "the group");
        }
    }
}

/// The single handle of a group must return the failed member's error, and the error must name the member.
void group_with_a_mismatch(Client& client) {
    const bool odd = client.rank() == client.size() - 1;
    for (int round = 0; round < 3; ++round) {
        const Buffer one(client, DType::float32, {3}, false);
        const Buffer two(client, DType::float32, {odd ? 5 : 4}, false);
        const Buffer three(client, DType::float32, {50}, true);
        for (const Buffer* buffer : {&one, &two, &three}) {
            fill_input(buffer->tensor(), ReduceOp::sum, client.rank(), round);
        }
        const auto pending = expect_value(
            client.start_group("odd", {one.tensor(), two.tensor(), three.tensor()}, {ReduceOp::sum}), "the group");
        RUEDA_RANK_EQUAL(expect_failure(pending->wait(), ErrorCode::mismatch, "the group"),
                         fmt::format("tensor 'odd_2of3': the ranks disagree about the shape: {}: [4]; rank {}: [5]",
                                     others_text(client.size()), client.size() - 1));
        check_allreduce(one.tensor(), {ReduceOp::sum}, client.size(), round, "the group's first");
        check_allreduce(three.tensor(), {ReduceOp::sum}, client.size(), round, "the group's third");
    }
}

/// The last rank starts a single operation with the name of the other ranks' group. No rank may wait for members that
/// the last rank does not have.
void group_and_single_operation(Client& client) {
    const Buffer one(client, DType::float32, {3}, false);
    const Buffer two(client, DType::float32, {4}, false);
    const auto start_group = [&] { return client.start_group("both", {one.tensor(), two.tensor()}, {}); };
    for (int round = 0; round < 2; ++round) {
        const bool odd = client.rank() == client.size() - 1;
        const auto pending = expect_value(
            odd ? client.start_allreduce("both", one.tensor(), one.tensor(), {}) : start_group(), "one of them");
        RUEDA_RANK_EQUAL(expect_failure(pending->wait(), ErrorCode::mismatch, "both"),
                         fmt::format("tensor 'both': the ranks disagree about the operation: {}: group; rank {}: "
                                     "allreduce",
                                     others_text(client.size()), client.size() - 1));
        agree_once(client, "both", round);
        expect_ok(expect_value(start_group(), "the group")->wait(), "the group");
    }
}

void timeouts(Client& client) {
    using Clock = std::chrono::steady_clock;
    for (int round = 0; round < 2; ++round) {
        while_pending(client, "late", [&](Pending& pending) {
            RUEDA_RANK_CHECK(!pending.ready());
            expect_failure(pending.wait(0), ErrorCode::timeout, "a wait of 0 s");
            const auto begin = Clock::now();
            const std::string text = expect_failure(pending.wait(0.25), ErrorCode::timeout, "a wait of 0.25 s");
            RUEDA_RANK_CHECK(text.starts_with("tensor 'late': not completed after 0.25 s: "));
            RUEDA_RANK_CHECK(text.ends_with("; the operation goes on"));
            // For ranks of this host, the text says whether they have announced the tensor. For other hosts, the text
            // only names the ranks that have possibly not announced it.
            RUEDA_RANK_CHECK(text.find("not announced it, rank 0 has") != std::string::npos ||
                             text.find("on other hosts, may not have") != std::string::npos);
            RUEDA_RANK_CHECK(text.find(fmt::format("rank {}", client.size() - 1)) != std::string::npos ||
                             client.size() > 2);
            const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
            RUEDA_RANK_CHECK(waited >= 0.25);
            RUEDA_RANK_CHECK(waited < 5);  // the limit is high, because the machine may be busy
            RUEDA_RANK_CHECK(!pending.ready());
        });
    }
}

std::vector<std::int64_t> splits_of(int size, std::int64_t first, std::int64_t others) {
    std::vector<std::int64_t> splits(static_cast<std::size_t>(size), others);
    splits.front() = first;
    return splits;
}

void refused_rows(Client& client) {
    const int size = client.size();
    const std::int64_t rows = std::int64_t{2} * size;
    std::vector<float> values(static_cast<std::size_t>(4 * rows));
    const Tensor tensor{values.data(), DType::float32, {rows, 1}};
    const auto message = [](const Status& status, const std::string& what) {
        return without_name(expect_failure(status, ErrorCode::invalid_argument, what), "refused");
    };
    const auto scattered = [&](const Tensor& out) {
        return client.start_reducescatter("refused", tensor, &out, {}).status();
    };
    RUEDA_RANK_EQUAL(
        message(scattered({values.data() + rows, DType::float32, {3, 1}}), "an output of other rows"),
        fmt::format("the output's shape is [3, 1]; expected [2, 1]: the input has {} rows for {} ranks, and "
                    "this one gets 2",
                    rows, size));
    message(scattered({values.data() + rows, DType::float32, {2}}), "an output of another shape");
    message(scattered({values.data() + rows, DType::int32, {2, 1}}), "an output of another dtype");
    RUEDA_RANK_EQUAL(message(scattered({nullptr, DType::float32, {2, 1}}), "an output without memory"),
                     std::string("the output tensor has 2 elements and no data (a null pointer)"));
    message(scattered({values.data() + std::ptrdiff_t{2} * client.rank() + 1, DType::float32, {2, 1}}), "an overlap");
    message(end_of(client.start_reducescatter("refused", {values.data(), DType::float32, {}}, nullptr, {})),
            "a reducescatter of a scalar");

    const auto exchanged = [&](const std::optional<std::vector<std::int64_t>>& splits) {
        return message(client.start_alltoall("refused", tensor, splits).status(), "splits");
    };
    RUEDA_RANK_EQUAL(exchanged(splits_of(size + 1, 0, 2)),
                     fmt::format("there are {} splits; expected {}, the number of rows for each rank", size + 1, size));
    RUEDA_RANK_EQUAL(exchanged(std::vector<std::int64_t>{}),
                     fmt::format("there are 0 splits; expected {}, the number of rows for each rank", size));
    RUEDA_RANK_EQUAL(exchanged(splits_of(size, -1, 2)),
                     std::string("splits[0] is -1; a number of rows must not be negative"));
    RUEDA_RANK_EQUAL(exchanged(splits_of(size, 3, 2)),
                     fmt::format("the sum of the splits is {}; expected at most {}, the first dimension of the input",
                                 rows + 1, rows));
    message(end_of(client.start_alltoall("refused", {values.data(), DType::float32, {}}, std::nullopt)),
            "an alltoall of a scalar");
    if (size > 1) {
        exchanged(std::vector<std::int64_t>(static_cast<std::size_t>(size), INT64_MAX));
        RUEDA_RANK_EQUAL(
            message(
                client.start_alltoall("refused", {values.data(), DType::float32, {rows + 1}}, std::nullopt).status(),
                "rows that cannot be shared"),
            fmt::format("the first dimension of the input is {}, which {} ranks cannot share evenly: give splits, the "
                        "number of rows for each rank",
                        rows + 1, size));
    }
}

void refused_outputs(Client& client) {
    std::vector<float> values(64);
    const Tensor in{values.data(), DType::float32, {4, 2}};
    const Tensor scalar{values.data(), DType::float32, {}};
    const auto message = [](const Status& status) {
        return without_name(expect_failure(status, ErrorCode::invalid_argument, "an output"), "refused");
    };
    const auto gathered = [&](const Tensor& out) {
        return message(client.start_allgather("refused", in, &out).status());
    };
    const auto exchanged = [&](const Tensor& out) {
        const std::vector<std::int64_t> splits = splits_of(client.size(), 4, 0);
        return message(client.start_alltoall("refused", in, splits, &out).status());
    };
    float* const beside = values.data() + 32;
    for (const auto& refused : {std::function<std::string(const Tensor&)>(gathered), {exchanged}}) {
        RUEDA_RANK_EQUAL(refused({beside, DType::int32, {4, 2}}),
                         std::string("the input is float32 and the output is int32; they must be the same"));
        RUEDA_RANK_EQUAL(refused({beside, DType::float32, {2, 3}}),
                         std::string("the output's shape is [2, 3] and the input's [4, 2]; they may differ in the "
                                     "first dimension only"));
        refused({beside, DType::float32, {8}});
        refused(scalar);
        refused({beside, DType::float32, {-1, 2}});
        RUEDA_RANK_EQUAL(refused({nullptr, DType::float32, {4, 2}}),
                         std::string("the output tensor has 8 elements and no data (a null pointer)"));
    }
    RUEDA_RANK_EQUAL(
        exchanged({values.data() + 7, DType::float32, {4, 2}}),
        std::string("input and output overlap, which is not allowed in an alltoall: give other memory for the output"));
}

void refused_arguments(Client& client) {
    std::array<float, 8> values{};
    const Tensor tensor{values.data(), DType::float32, {4}};
    const auto refused = [&](const Tensor& in, const Tensor& out, const Reduce& reduce, ErrorCode code) {
        expect_failure(end_of(client.start_allreduce("refused", in, out, reduce)), code, "an argument");
    };
    // The input and the output overlap.
    refused(tensor, {values.data() + 2, DType::float32, {4}}, {}, ErrorCode::invalid_argument);
    refused(tensor, {values.data() + 4, DType::float32, {3}}, {}, ErrorCode::invalid_argument);
    refused(tensor, {values.data() + 4, DType::int32, {4}}, {}, ErrorCode::invalid_argument);
    refused({nullptr, DType::float32, {4}}, tensor, {}, ErrorCode::invalid_argument);
    refused({values.data(), DType::float32, {-1}}, tensor, {}, ErrorCode::invalid_argument);
    const Tensor truths{values.data(), DType::boolean, {4}};
    for (const Reduce& reduce : {Reduce{ReduceOp::sum}, Reduce{ReduceOp::average}, Reduce{ReduceOp::max, 0.5},
                                 Reduce{ReduceOp::min, 1.0, 2.0}}) {
        refused(truths, truths, reduce, ErrorCode::unsupported);
        expect_failure(end_of(client.start_reducescatter("refused", truths, nullptr, reduce)), ErrorCode::unsupported,
                       "a reducescatter of bool");
    }
    expect_failure(end_of(client.start_broadcast("refused", tensor, client.size())), ErrorCode::invalid_argument,
                   "a root that is no rank");
    expect_failure(end_of(client.start_broadcast("refused", tensor, -1)), ErrorCode::invalid_argument,
                   "a negative root");
    expect_failure(end_of(client.start_allgather("refused", {values.data(), DType::float32, {}})),
                   ErrorCode::invalid_argument, "an allgather of a scalar");
    refused_rows(client);
    refused_outputs(client);
    // No refused operation may be pending, so the name "refused" is free.
    agree_once(client, "refused", 1);
}

constexpr std::array kScenarios = {
    Scenario{"errors: refused arguments", refused_arguments},
    Scenario{"errors: mismatches", mismatches, 2},
    Scenario{"errors: calls that no rank can do", calls_that_no_rank_can_do, 2},
    Scenario{"errors: a mismatch among others", mismatch_among_others, 2},
    Scenario{"errors: duplicate names", duplicates, 2},
    Scenario{"errors: a group with a duplicate name", group_with_a_duplicate, 2},
    Scenario{"errors: a group with a mismatch", group_with_a_mismatch, 2},
    Scenario{"errors: a group and a single operation", group_and_single_operation, 2},
    Scenario{"errors: timeouts", timeouts, 2},
};

}  // namespace

std::span<const Scenario> error_scenarios() { return kScenarios; }

}  // namespace rueda::tests
