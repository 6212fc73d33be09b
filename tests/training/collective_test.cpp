// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the collective functions in a job of one process. tests/digits tests them with several processes.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "rueda/rueda.hpp"
#include "rueda/training/agreement.hpp"
#include "rueda/training/checkpoint.hpp"
#include "tests/support/folder.hpp"
#include "tests/training/job.hpp"
#include "tests/training/messages.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::Job;
using test::message_of;

TEST_CASE("an agreement passes errors on with class and text", "[training]") {
    const Job job;
    int runs = 0;
    run_on_root([&] { ++runs; });
    run_on_every_rank([&] { ++runs; });
    CHECK(runs == 2);
    const auto full = [] { throw ResourceExhausted("the disk is full"); };
    CHECK(message_of<ResourceExhausted>([&] { run_on_root(full); }) == "the disk is full");
    CHECK(message_of<ResourceExhausted>([&] { run_on_every_rank(full); }) == "the disk is full");
    CHECK(message_of<Internal>([] { run_on_root([] { throw std::runtime_error("foreign"); }); }) == "foreign");
    run_on_root([&] { ++runs; });
    CHECK(runs == 3);
}

TEST_CASE("long errors are cut between characters", "[training]") {
    const Job job;
    std::string text(3996, 'x');
    const std::string message = message_of<Internal>([&] { run_on_root([&] { throw Internal(text + "äöü"); }); });
    CHECK(message == text + "…");
}

TEST_CASE("checkpoints are saved and restored together", "[training]") {
    const Job job;
    const tests::Folder folder;
    std::vector<float> values = {1.5F, 2.5F};
    const std::vector<NamedTensor> tensors = {{"values", TensorView(values)}};
    save_checkpoint(folder.file("m"), tensors, {{"epoch", "7"}});
    values = {0.0F, 0.0F};
    CHECK(restore_checkpoint(folder.file("m"), tensors) == Metadata{{"epoch", "7"}});
    CHECK(values == std::vector<float>{1.5F, 2.5F});
    save_checkpoint(folder.file("m"), tensors);
    CHECK(restore_checkpoint(folder.file("m"), tensors).empty());
    CHECK_THAT(message_of<InvalidArgument>([&] { (void)restore_checkpoint(folder.file("none"), tensors); }),
               Contains("No such file"));
    broadcast_parameters(tensors);
    CHECK(values == std::vector<float>{1.5F, 2.5F});
}

TEST_CASE("collective calls need init", "[training]") {
    CHECK_THAT(message_of<NotInitialized>([] { run_on_root([] {}); }), !Contains("no error"));
}

}  // namespace
}  // namespace rueda::training
