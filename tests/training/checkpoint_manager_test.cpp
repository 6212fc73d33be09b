// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/checkpoint_manager.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>
#include <thread>

#include "rueda/checkpoints.h"
#include "rueda/training/backup_and_restore.hpp"
#include "rueda/training/random.hpp"
#include "tests/support/folder.hpp"
#include "tests/training/messages.hpp"
#include "tests/training/saved_values.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::message_of;
using test::SavedValues;
using tests::Folder;

/// A job of one process that keeps the warnings of its managers.
struct WarnedJob {
    WarnedJob() { init(); }
    WarnedJob(const WarnedJob&) = delete;
    WarnedJob& operator=(const WarnedJob&) = delete;
    ~WarnedJob() { rueda_shutdown(); }

    [[nodiscard]] CheckpointManagerOptions options() {
        return {.folder = folder.path() / "deep" / "store",
                .when_busy = WhenBusy::wait,
                .warn = [this](std::string_view text) { warnings.emplace_back(text); }};
    }
    void save(CheckpointManager& manager, std::int64_t step, std::optional<double> metric = {}) {
        values.set(step);
        REQUIRE(manager.save({.step = step,
                              .model = values.model(),
                              .state = values.state(),
                              .values = {{"learning rate", "0.5"}},
                              .metric = metric}));
        manager.wait();
    }

    Folder folder;
    std::vector<std::string> warnings;
    SavedValues values;
};

std::vector<std::int64_t> steps_of(const CheckpointManager& manager) {
    std::vector<std::int64_t> steps;
    for (const CheckpointInfo& info : manager.checkpoints()) {
        steps.push_back(info.step);
    }
    return steps;
}

/// Flips a bit in the middle of the file.
void flip_bit(const std::filesystem::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto place = static_cast<std::streamoff>(std::filesystem::file_size(path)) - 5;
    file.seekg(place);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(place);
    file.put(byte);
}

TEST_CASE("a manager restores tensors, step, metric and values", "[training]") {
    WarnedJob job;
    CheckpointManager manager(job.options());
    CHECK_FALSE(manager.restore(job.values.model(), job.values.state()));
    job.save(manager, 7, 0.1);
    job.values.set(0);
    const std::optional<CheckpointInfo> info = manager.restore(job.values.model(), job.values.state());
    REQUIRE(info);
    CHECK(job.values.are_of(7));
    CHECK(info->step == 7);
    CHECK(info->size == 1);
    CHECK(info->metric == 0.1);
    CHECK(info->values == Metadata{{"learning rate", "0.5"}});
    CHECK(info->folder.filename() == "save-000001-step-7");
    // The file of the model is also a complete checkpoint by itself.
    job.values.set(0);
    Checkpoint(info->folder / "model.safetensors").read(job.values.model());
    CHECK(job.values.weights.front() == 7.0F);
    CHECK(job.warnings.empty());
}

TEST_CASE("a manager keeps the newest and the best checkpoints", "[training]") {
    WarnedJob job;
    CheckpointManagerOptions options = job.options();
    options.max_to_keep = 2;
    CheckpointManager manager(options);
    const std::vector<double> losses = {0.5, 0.2, 0.4, 0.3, 0.6};
    for (std::size_t i = 0; i < losses.size(); ++i) {
        job.save(manager, static_cast<std::int64_t>(i) + 1, losses[i]);
    }
    CHECK(steps_of(manager) == std::vector<std::int64_t>{5, 4, 2});
    CHECK(manager.restore(job.values.model(), job.values.state(), WhichCheckpoint::best)->step == 2);
    CHECK(job.values.are_of(2));
    // saves step 3 again after step 5, as a training that began again at the best checkpoint
    job.save(manager, 3, 0.1);
    CHECK(steps_of(manager) == std::vector<std::int64_t>{3, 5});
    CHECK(manager.restore(job.values.model())->step == 3);
}

TEST_CASE("a damaged checkpoint is noticed, and the one before it is used", "[training]") {
    WarnedJob job;
    CheckpointManager manager(job.options());
    job.save(manager, 1);
    job.save(manager, 2);
    job.save(manager, 3);
    const std::vector<CheckpointInfo> found = manager.checkpoints();
    const auto restored_step = [&] {
        job.values.set(0);
        const auto info = manager.restore(job.values.model(), job.values.state());
        CHECK(job.values.are_of(info->step));
        return info->step;
    };
    flip_bit(found[0].folder / "model.safetensors");
    CHECK(restored_step() == 2);
    REQUIRE(job.warnings.size() == 1);
    CHECK_THAT(job.warnings[0], Contains("step-3/model.safetensors") && Contains("tensor \"weights\"") &&
                                    Contains("have the checksum") && Contains("the one before it is used"));
    flip_bit(found[1].folder / "state.safetensors");
    CHECK(restored_step() == 1);
    std::filesystem::resize_file(found[1].folder / "state.safetensors", 100);
    CHECK(restored_step() == 1);
    std::filesystem::remove(found[0].folder / "state.safetensors");  // now the checkpoint is incomplete, which causes
                                                                     // no warning
    job.warnings.clear();
    CHECK(restored_step() == 1);
    CHECK(job.warnings.size() == 1);
    std::filesystem::resize_file(found[2].folder / "model.safetensors", 200);
    CHECK_THAT(
        message_of<InvalidArgument>([&] { manager.restore(job.values.model(), job.values.state()); }),
        Contains("no checkpoint in ") && Contains("the file has 200 bytes; its index expects") && Contains("step-2"));
}

TEST_CASE("a checkpoint of another model is an error, and no earlier one is tried", "[training]") {
    WarnedJob job;
    CheckpointManager manager(job.options());
    job.save(manager, 1);
    std::vector<float> other(9);
    const auto message = [&](const std::vector<NamedTensor>& model) {
        return message_of<InvalidArgument>([&] { manager.restore(model); });
    };
    CHECK_THAT(message({{"weights", {other.data(), DType::float32, {3, 3}}}}),
               Contains("'weights' is float32 [8, 3] in it and float32 [3, 3] in the model"));
    CHECK_THAT(message({{"bias", TensorView(other)}}), Contains("'bias' (float32 [9]) is not in it"));
    CHECK_THAT(message({}), Contains("'weights' (float32 [8, 3]) is not in the model"));
    CHECK(job.warnings.empty());
}

TEST_CASE("parts of any number of ranks are read by any number of ranks", "[training]") {
    const Folder store;
    std::vector<std::int32_t> table(35);
    std::iota(table.begin(), table.end(), 0);
    std::vector<double> scalar = {2.5};
    std::vector<float> empty;
    const auto tensors = [&] {
        return std::vector<NamedTensor>{{"table", {table.data(), DType::int32, {7, 5}}},
                                        {"scalar", {scalar.data(), DType::float64, {}}},
                                        {"empty", {empty.data(), DType::float32, {0, 4}}}};
    };
    const std::vector<std::int32_t> saved = table;
    for (int writers = 1; writers <= 9; ++writers) {
        const auto folder = begin_checkpoint(store.path(), writers);
        REQUIRE(folder.is_ok());
        for (int rank = 0; rank < writers; ++rank) {
            REQUIRE(write_part(folder.value(), split_rows(tensors(), rank, writers), writers, rank, writers).is_ok());
        }
        REQUIRE(complete_checkpoint(folder.value(), {writers, writers, {}, {}}, {}, writers).is_ok());
        const auto opened = OpenedCheckpoint::open(folder.value());
        REQUIRE(opened.is_ok());
        for (int readers = 1; readers <= 9; ++readers) {
            table.assign(35, -1);
            scalar = {0.0};
            for (int rank = 0; rank < readers; ++rank) {
                const auto parts = split_rows(tensors(), rank, readers);
                REQUIRE(opened.value().check_parts(parts).is_ok());
                REQUIRE(opened.value().read_parts(parts).is_ok());
            }
            CHECK(table == saved);
            CHECK(scalar[0] == 2.5);
        }
    }
}

TEST_CASE("a checkpoint is not completed while rows or parts are missing", "[training]") {
    const Folder store;
    SavedValues values;
    const auto folder = begin_checkpoint(store.path(), 1);
    REQUIRE(folder.is_ok());
    const auto complete = [&] {
        return complete_checkpoint(folder.value(), {1, 2, {}, {}}, values.state(), 2).message();
    };
    REQUIRE(write_part(folder.value(), split_rows(values.model(), 0, 2), 1, 0, 2).is_ok());
    CHECK_THAT(complete(), Contains("part-1-of-2.safetensors: open failed: No such file"));
    REQUIRE(write_part(folder.value(), split_rows(values.model(), 0, 2), 1, 1, 2).is_ok());
    CHECK_THAT(complete(), Contains("tensor 'weights' has 8 rows, but no part has row 4"));
    REQUIRE(write_part(folder.value(), split_rows(values.model(), 1, 2), 9, 1, 2).is_ok());
    CHECK_THAT(complete(), Contains("\"rueda.step\" is 9") && Contains("expects 1"));
    std::vector<float> other(8);
    REQUIRE(write_part(folder.value(),
                       std::vector<TensorPart>{{"weights", {other.data(), DType::float32, {4, 2}}, {4, 8}, 8}}, 1, 1, 2)
                .is_ok());
    CHECK_THAT(complete(), Contains("does not fit the other parts"));
    CHECK(list_store(store.path()).value().complete.empty());
    REQUIRE(write_part(folder.value(), split_rows(values.model(), 1, 2), 1, 1, 2).is_ok());
    CHECK(complete().empty());
    CHECK(list_store(store.path()).value().complete.size() == 1);
}

TEST_CASE("rank 0 notices each rank that cannot write its part", "[training]") {
    const Folder store;
    SavedValues values;
    const auto folder = begin_checkpoint(store.path(), 1);
    REQUIRE(folder.is_ok());
    const auto write = [&](int rank) {
        return write_part(folder.value(), split_rows(values.model(), rank, 4), 1, rank, 4);
    };
    const auto failure = [&] { return missing_part(folder.value(), 1, 4).status().message(); };
    REQUIRE(write(0).is_ok());
    CHECK(missing_part(folder.value(), 0, 4).value() == 1);
    // Rank 0 must notice the failure of rank 3 at once, without waiting for the parts of ranks 1 and 2.
    give_up_part(folder.value(), 3, 4);
    CHECK_THAT(failure(), Contains("rank 3 could not write its part; the output of rank 3 gives the reason"));
    for (int rank = 1; rank < 4; ++rank) {
        REQUIRE(write(rank).is_ok());
    }
    // rank 3 counts as failed, although it has written its part in the meantime
    CHECK_THAT(failure(), Contains("rank 3 could not"));
    give_up_part(folder.value(), 0, 4);
    CHECK_FALSE(std::filesystem::exists(folder.value()));
    CHECK_THAT(failure(), Contains("was removed before all parts were written"));
    CHECK_THAT(write(2).message(), Contains("save-000001-step-1 is missing. Either rank 0 has given up"));
    CHECK_THAT(write(0).message(), Contains("part-0-of-4.safetensors.partial: open failed"));
}

TEST_CASE("the C functions for parts check their arguments", "[training]") {
    constexpr const char* kPath = "nowhere/save-000001-step-1";
    const std::array<std::int64_t, 1> shape = {1};
    float value = 0;
    rueda_tensor_part part = {"w", {&value, shape.data(), 1, RUEDA_FLOAT32}, 0, 1};
    const auto refused = [](int status) {
        CHECK(status == RUEDA_INVALID_ARGUMENT);
        return std::string(rueda_last_error());
    };
    CHECK_THAT(refused(rueda_checkpoint_write_part(kPath, 1, nullptr, 1, 0, 1)),
               Contains("the array of tensors is NULL, but its count is 1"));
    CHECK_THAT(refused(rueda_checkpoint_write_part(nullptr, 1, &part, 1, 0, 1)), Contains("the folder is empty"));
    CHECK_THAT(refused(rueda_checkpoint_write_part(kPath, -1, &part, 1, 0, 1)), Contains("step is -1"));
    CHECK_THAT(refused(rueda_checkpoint_write_part("nowhere", 1, &part, 1, 0, 1)), Contains("not the path of"));
    part.name = nullptr;
    CHECK_THAT(refused(rueda_checkpoint_write_part(kPath, 1, &part, 1, 0, 1)), Contains("tensor NULL has 1 dim"));
    CHECK_THAT(refused(rueda_checkpoint_missing_part(kPath, nullptr, 1)), Contains("rank"));
    CHECK_THAT(refused(rueda_checkpoint_begin("nowhere", 1, nullptr)), Contains("name"));
}

TEST_CASE("a manager saves parts, and restores them whole and in parts", "[training]") {
    WarnedJob job;
    CheckpointManager manager(job.options());
    job.values.set(4);
    CHECK(manager.save_parts(split_rows(job.values.model(), 0, 1), {.step = 4, .state = job.values.state()}));
    manager.wait();
    CHECK(std::filesystem::exists(manager.checkpoints().front().folder / "part-0-of-1.safetensors"));
    job.values.set(0);
    CHECK(manager.restore(job.values.model(), job.values.state())->step == 4);
    CHECK(job.values.are_of(4));
    job.values.set(0);
    const auto half = split_rows(job.values.model(), 1, 2);
    CHECK(manager.restore_parts(half)->step == 4);
    CHECK(std::count(job.values.weights.begin(), job.values.weights.end(), 4.0F) == 12);
    CHECK(job.values.weights.back() == 4.0F);
}

TEST_CASE("the folder's name need not be UTF-8", "[training]") {
    WarnedJob job;
    CheckpointManagerOptions options = job.options();
    options.folder = job.folder.path() / "caf\xe9";
    CheckpointManager manager(options);
    job.save(manager, 3);
    job.values.set(0);
    std::optional<CheckpointInfo> info = manager.restore(job.values.model(), job.values.state());
    REQUIRE(info);
    CHECK(info->folder == options.folder / "save-000001-step-3");
    CHECK(job.values.are_of(3));
    const auto parts = split_rows(job.values.model(), 0, 1);
    CHECK(manager.save_parts(parts, {.step = 4}));
    CHECK(manager.last_failure().empty());
    info = manager.restore_parts(parts);
    REQUIRE(info);
    CHECK(info->folder == options.folder / "save-000002-step-4");
}

TEST_CASE("options and snapshots are checked", "[training]") {
    WarnedJob job;
    const auto refused = [&](const std::function<void(CheckpointManagerOptions&)>& change) {
        CheckpointManagerOptions options = job.options();
        change(options);
        return message_of<InvalidArgument>([&] { CheckpointManager manager(options); });
    };
    CHECK_THAT(refused([](auto& options) { options.folder.clear(); }), Contains("folder is empty"));
    CHECK_THAT(refused([](auto& options) { options.max_to_keep = 0; }), Contains("max_to_keep is 0"));
    CHECK_THAT(refused([](auto& options) { options.every_steps = -2; }), Contains("every_steps is -2"));
    CHECK_THAT(refused([](auto& options) { options.folder = "/proc/none/store"; }),
               Contains("/proc/none/store: mkdir"));
    CheckpointManager manager(job.options());
    const auto message = [&](const Snapshot& snapshot) {
        return message_of<InvalidArgument>([&] { manager.save(snapshot); });
    };
    CHECK_THAT(message({.step = -1}), Contains("step is -1"));
    CHECK_THAT(message({.values = {{"rueda.x", ""}}}), Contains("'rueda.x'"));
    CHECK_THAT(message({.metric = 0.0 / 0.0}), Contains("the metric is"));
    std::vector<TensorPart> parts = split_rows(job.values.model(), 1, 2);
    parts[0].whole_rows = 7;
    CHECK_THAT(message_of<InvalidArgument>([&] { manager.save_parts(parts, {}); }),
               Contains("tensor 'weights' has 4 rows on this rank, and they are called rows 4 to 8 of 7"));
    job.save(manager, 1);
    CHECK_THAT(message_of<InvalidArgument>([&] { manager.restore(job.values.model(), {}, WhichCheckpoint::best); }),
               Contains("none has a metric"));
}

TEST_CASE("checkpoints are due by steps and by time", "[training]") {
    WarnedJob job;
    CheckpointManagerOptions options = job.options();
    options.every_steps = 5;
    CheckpointManager by_steps(options);
    std::vector<std::int64_t> due;
    for (std::int64_t step = 0; step <= 15; ++step) {
        if (by_steps.is_due(step)) {
            due.push_back(step);
        }
    }
    CHECK(due == std::vector<std::int64_t>{5, 10, 15});
    options.every_steps = 0;
    options.every = std::chrono::seconds(1);
    CheckpointManager by_time(options);
    CHECK_FALSE(by_time.is_due(5));
    options.folder = job.folder.path() / "lost";
    CheckpointManager failing(options);
    std::filesystem::remove(options.folder);
    std::ofstream(options.folder) << "a file in place of the folder";
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // longer than one second, the interval between two
                                                                   // checkpoints
    CHECK(by_time.is_due(1));
    CHECK(by_time.save_when_due({.step = 1, .model = job.values.model()}));
    CHECK_FALSE(by_time.save_when_due({.step = 2, .model = job.values.model()}));
    // If a save cannot begin, the manager does not try again in the next step.
    const auto parts = split_rows(job.values.model(), 0, 1);
    CHECK_FALSE(failing.save_parts_when_due(parts, {.step = 1}));
    CHECK_FALSE(failing.save_parts_when_due(parts, {.step = 2}));
    REQUIRE(job.warnings.size() == 1);
    CHECK_THAT(job.warnings[0], Contains("The checkpoint of step 1 was not saved"));
}

TEST_CASE("a loop continues where an earlier one stopped", "[training]") {
    WarnedJob job;
    Random random(1);
    std::vector<std::uint64_t> numbers;
    std::string seen;
    const auto backup = [&](std::int64_t steps) {
        CheckpointManagerOptions checkpoints = job.options();
        checkpoints.every_steps = 2;
        return BackupAndRestore(steps, checkpoints, job.values.model(), {{"random", random.state()}},
                                {.save =
                                     [] {
                                         return Metadata{{"epoch", "3"}};
                                     },
                                 .restored = [&](const Metadata& values) { seen = values.at("epoch"); }});
    };
    for (const std::int64_t step : backup(10)) {
        numbers.push_back(random.next());
        if (step == 6) {
            break;  // the newest checkpoint was saved after six steps
        }
    }
    const std::vector<std::uint64_t> first(numbers.begin(), numbers.end());
    random = Random(99);
    std::vector<std::int64_t> steps;
    for (const std::int64_t step : backup(10)) {
        steps.push_back(step);
        numbers.push_back(random.next());
    }
    CHECK(steps == std::vector<std::int64_t>{6, 7, 8, 9});
    CHECK(numbers[7] == first[6]);
    CHECK(seen == "3");
    BackupAndRestore done = backup(10);
    CHECK(done.first_step() == 10);
    CHECK(done.begin() == done.end());
    BackupAndRestore shorter = backup(8);
    CHECK(shorter.begin() == shorter.end());
    CHECK_THAT(message_of<InvalidArgument>([&] { (void)backup(-1); }), Contains("steps is -1"));
}

}  // namespace
}  // namespace rueda::training
