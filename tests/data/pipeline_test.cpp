// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "base/system/cores.hpp"
#include "data/pipeline/plan.hpp"
#include "data/pipeline/summary.hpp"
#include "rueda/data/vocabulary.hpp"
#include "rueda/training/random.hpp"
#include "tests/data/support.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using namespace rueda::data::test;
using Catch::Contains;
using training::Random;

/// Returns sources in memory. Together, their lines are the numbers from 0 on, in order.
std::vector<Source> numbered_sources(const std::vector<std::int64_t>& lengths) {
    std::vector<Source> sources;
    std::int64_t next = 0;
    for (const std::int64_t length : lengths) {
        std::string text;
        for (std::int64_t i = 0; i < length; ++i) {
            text += std::to_string(next++) + "\n";
        }
        sources.push_back(memory("source " + std::to_string(sources.size()), text).front());
    }
    return sources;
}

PipelineOptions numbered(const std::vector<std::int64_t>& lengths, std::int64_t batch) {
    PipelineOptions options{.sources = numbered_sources(lengths),
                            .format = Csv{.columns = {{"n", DType::int64}}, .header = false},
                            .batch = batch};
    options.threads = 2;
    return options;
}

using Steps = std::vector<std::vector<std::int64_t>>;

/// Takes up to `most` batches of an epoch. `ended` becomes true if the epoch has ended.
Steps take_steps(Pipeline& pipeline, std::int64_t most, bool& ended) {
    Steps steps;
    Batch batch;
    ended = false;
    while (static_cast<std::int64_t>(steps.size()) < most) {
        if (!pipeline.next(batch)) {
            ended = true;
            return steps;
        }
        steps.push_back(values<std::int64_t>(batch, "n"));
    }
    return steps;
}

Steps take_epoch(const PipelineOptions& options) {
    Pipeline pipeline(options);
    bool ended = false;
    return take_steps(pipeline, std::int64_t{1} << 40, ended);
}

std::vector<std::int64_t> joined(const Steps& steps) {
    std::vector<std::int64_t> all;
    for (const auto& step : steps) {
        all.insert(all.end(), step.begin(), step.end());
    }
    return all;
}

std::vector<std::int64_t> up_to(std::int64_t count) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

TEST_CASE("Without shuffle, the batches have the samples in order, and the last one is short", "[threads]") {
    auto options = numbered({4, 0, 3}, 3);
    CHECK(take_epoch(options) == Steps{{0, 1, 2}, {3, 4, 5}, {6}});
    options.drop_remainder = true;
    CHECK(take_epoch(options) == Steps{{0, 1, 2}, {3, 4, 5}});
    options.lanes = 3;   // with three lanes, a step takes one sample from each source
    options.epochs = 1;  // with an unlimited number of epochs, an epoch without a batch would be an error
    CHECK(take_epoch(options).empty());
    options.drop_remainder = false;
    CHECK(take_epoch(options) == Steps{{0, 4}, {1, 5}, {2, 6}, {3}});
}

TEST_CASE("Epochs end one after another, and differ in their order", "[threads]") {
    auto options = numbered({50, 50}, 10);
    options.shuffle = 40;
    options.epochs = 3;
    Pipeline pipeline(options);
    std::set<std::vector<std::int64_t>> orders;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        CHECK_FALSE(pipeline.finished());
        CHECK(pipeline.position().epoch == epoch);
        bool ended = false;
        auto all = joined(take_steps(pipeline, 100, ended));
        CHECK(ended);
        orders.insert(all);
        std::sort(all.begin(), all.end());
        CHECK(all == up_to(100));
    }
    CHECK(orders.size() == 3);
    CHECK(pipeline.finished());
    Batch batch;
    CHECK_FALSE(pipeline.next(batch));
    CHECK(pipeline.statistics().records == 300);
    CHECK(pipeline.statistics().batches == 30);
}

TEST_CASE("The batches do not depend on threads, prefetch or timing, and depend on the seed", "[threads]") {
    auto options = numbered({500, 300, 200}, 16);
    options.shuffle = 128;
    options.lanes = 3;
    options.seed = 7;
    const Steps expected = take_epoch(options);
    for (const int threads : {1, 3, 8}) {
        for (const std::int64_t prefetch : {1, 4, 20}) {
            options.threads = threads;
            options.prefetch = prefetch;
            options.maps = {[](Batch& batch) {
                if (batch.step() % 3 == 0) {
                    std::this_thread::yield();
                }
            }};
            CHECK(take_epoch(options) == expected);
        }
    }
    options.seed = 8;
    CHECK(take_epoch(options) != expected);
}

TEST_CASE("A global batch has the same samples for any number of ranks", "[threads]") {
    auto options = numbered({70, 30, 55, 20}, 20);
    options.shuffle = 50;
    for (const std::int64_t lanes : {1, 2, 4}) {
        options.lanes = lanes;
        options.rank = 0;
        options.size = 1;
        const Steps alone = take_epoch(options);
        for (const int size : {2, 3, 4, 7}) {
            options.size = size;
            Steps together(alone.size());
            for (options.rank = 0; options.rank < size; ++options.rank) {
                const Steps mine = take_epoch(options);
                REQUIRE(mine.size() <= alone.size());
                for (std::size_t step = 0; step < mine.size(); ++step) {
                    together[step].insert(together[step].end(), mine[step].begin(), mine[step].end());
                }
            }
            CHECK(together == alone);
        }
    }
}

/// The results of one run of a job until the run was stopped.
struct Run {
    std::vector<std::int64_t> taken;
    Position position;
    bool ended = false;
};

/// Runs all ranks of a job for at most `steps` steps. Each rank has its own pipeline.
Run run_job(PipelineOptions options, int size, const Position& start, std::int64_t steps) {
    Run run;
    run.ended = true;
    options.size = size;
    options.start = start;
    std::int64_t longest = -1;
    for (options.rank = 0; options.rank < size; ++options.rank) {
        Pipeline pipeline(options);
        bool ended = false;
        const Steps mine = take_steps(pipeline, steps, ended);
        const auto all = joined(mine);
        run.taken.insert(run.taken.end(), all.begin(), all.end());
        run.ended = run.ended && ended;
        if (static_cast<std::int64_t>(mine.size()) > longest) {
            longest = static_cast<std::int64_t>(mine.size());
            run.position = pipeline.position();
        }
    }
    return run;
}

TEST_CASE("A job that is resumed at other numbers of ranks loses and repeats no sample", "[threads]") {
    Random random(5);
    for (int round = 0; round < 25; ++round) {
        std::vector<std::int64_t> lengths(1 + random.below(20));
        for (std::int64_t& length : lengths) {
            length = static_cast<std::int64_t>(random.below(60));
        }
        auto options = numbered(lengths, static_cast<std::int64_t>(16 + random.below(50)));
        options.threads = 1;
        options.seed = random.next();
        options.shuffle = static_cast<std::int64_t>(random.below(4) == 0 ? 0 : random.below(200));
        options.lanes = static_cast<std::int64_t>(1 + random.below(std::min<std::uint64_t>(lengths.size(), 16)));
        Position position{2, 0, 0};
        std::vector<std::int64_t> taken;
        std::string sizes;
        for (bool ended = false; !ended;) {
            const int size = static_cast<int>(1 + random.below(16));
            const Run run = run_job(options, size, position, static_cast<std::int64_t>(random.below(6)));
            sizes += std::to_string(size) + " ";
            taken.insert(taken.end(), run.taken.begin(), run.taken.end());
            position = Position::from_text(run.position.to_text());
            ended = run.ended;
        }
        CAPTURE(round, sizes, options.lanes, options.batch, options.shuffle, lengths);
        std::sort(taken.begin(), taken.end());
        const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
        REQUIRE(taken == up_to(total));
    }
}

TEST_CASE("A position belongs to its options", "[unit]") {
    auto options = numbered({10, 10}, 4);
    options.shuffle = 8;
    const Position position = Pipeline(options).position();
    options.start = position;
    options.threads = 5;
    options.size = 2;
    CHECK(Pipeline(options).position() == position);
    for (const int change : {0, 1, 2, 3, 4}) {
        auto other = options;
        other.seed += change == 0 ? 1 : 0;
        other.shuffle += change == 1 ? 1 : 0;
        other.batch += change == 2 ? 1 : 0;
        other.drop_remainder = change == 3;
        other.sources[1].name += change == 4 ? "x" : "";
        CHECK_THAT(message_of([&] { Pipeline{other}; }), Contains("start belongs to a pipeline with other options"));
    }
    CHECK(Position::from_text("epoch 1 step 20 options 1a2b") == Position{1, 20, 0x1a2b});
    for (const char* const text : {"", "epoch 1 step 2", "epoch -1 step 2 options 3", "epoch 1 step 2 options 3 "}) {
        CHECK_THAT(message_of([&] { (void)Position::from_text(text); }), Contains("expected a text like"));
    }
}

TEST_CASE("Map functions change batches, and their columns do not reach later batches", "[threads]") {
    auto options = numbered({10}, 2);
    options.epochs = 1;
    options.maps = {[](Batch& batch) {
        if (batch.step() == 0) {
            batch.add_column("first", DType::float32).data.resize(8);
        }
        for (std::int64_t& value : batch.column("n").values<std::int64_t>()) {
            value *= 10;
        }
    }};
    options.threads = 1;
    options.prefetch = 1;
    Pipeline pipeline(options);
    Batch batch;
    std::int64_t sum = 0;
    while (pipeline.next(batch)) {
        CHECK(batch.columns().size() == (batch.step() == 0 ? 2U : 1U));
        for (const std::int64_t value : values<std::int64_t>(batch, "n")) {
            sum += value;
        }
    }
    CHECK(sum == 450);
}

TEST_CASE("Batches lie in the memory that the program gives", "[threads]") {
    std::atomic<int> living = 0;
    std::atomic<int> made = 0;
    auto options = numbered({30, 30}, 8);
    options.epochs = 1;
    options.maps = {[](Batch& batch) { batch.add_column("more", DType::float64).data.resize(1000); }};
    options.memory = std::make_shared<const BatchMemory>(BatchMemory{[&](std::size_t bytes) {
                                                                         living.fetch_add(1, std::memory_order_relaxed);
                                                                         made.fetch_add(1, std::memory_order_relaxed);
                                                                         return std::aligned_alloc(64, bytes);
                                                                     },
                                                                     [&](void* memory) {
                                                                         living.fetch_sub(1, std::memory_order_relaxed);
                                                                         std::free(memory);
                                                                     }});
    {
        CHECK(joined(take_epoch(options)) == up_to(60));
        Batch kept;
        {
            Pipeline pipeline(options);
            REQUIRE(pipeline.next(kept));
        }
        CHECK(living.load(std::memory_order_relaxed) == 2);  // the columns n and more
        CHECK(values<std::int64_t>(kept, "n").size() == 8);
    }
    CHECK(made.load(std::memory_order_relaxed) >= 4);
    CHECK(living.load(std::memory_order_relaxed) == 0);
    options.maps = {};
    options.memory = std::make_shared<const BatchMemory>(
        BatchMemory{[](std::size_t) -> void* { throw ResourceExhausted("no pinned memory"); }, [](void*) {}});
    CHECK_THAT(message_of([&] { take_epoch(options); }), Contains("no pinned memory"));
    alignas(64) char shifted[200] = {};
    options.memory = std::make_shared<const BatchMemory>(
        BatchMemory{[&](std::size_t) -> void* { return shifted + 1; }, [](void*) {}});
    options.batch = 8;
    CHECK_THAT(message_of([&] { take_epoch(options); }), Contains("does not begin at a multiple of 64"));
}

TEST_CASE("Memory that a device still reads is not written again before the device is done", "[threads]") {
    std::mutex mutex;  // guards the sets
    std::set<void*> busy;
    std::set<void*> used;
    bool wrote_to_busy = false;
    std::atomic<int> living = 0;  // relaxed, because it only counts
    auto options = numbered({400}, 10);
    options.epochs = 1;
    options.threads = 1;
    options.prefetch = 3;
    options.memory = std::make_shared<const BatchMemory>(BatchMemory{[&](std::size_t bytes) {
                                                                         living.fetch_add(1, std::memory_order_relaxed);
                                                                         return std::aligned_alloc(64, bytes);
                                                                     },
                                                                     [&](void* memory) {
                                                                         living.fetch_sub(1, std::memory_order_relaxed);
                                                                         std::free(memory);
                                                                     },
                                                                     [&](void* memory) {
                                                                         const std::lock_guard lock(mutex);
                                                                         busy.insert(memory);
                                                                     },
                                                                     [&](void* memory) {
                                                                         const std::lock_guard lock(mutex);
                                                                         return !busy.contains(memory);
                                                                     }});
    options.maps = {[&](Batch& batch) {
        const std::lock_guard lock(mutex);
        void* const memory = batch.column("n").data.data();
        wrote_to_busy = wrote_to_busy || busy.contains(memory);
        used.insert(memory);
    }};
    {
        Pipeline pipeline(options);
        Batch batch;
        for (std::int64_t step = 0; pipeline.next(batch); ++step) {
            CHECK(values<std::int64_t>(batch, "n").front() == step * 10);
            if (step == 12) {
                CHECK(living.load(std::memory_order_relaxed) >= 12);
            }
            if (step >= 12) {  // the device has caught up
                const std::lock_guard lock(mutex);
                busy.clear();
            }
            if (step == 39) {
                CHECK(living.load(std::memory_order_relaxed) <= 8);
            }
        }
    }
    CHECK_FALSE(wrote_to_busy);
    CHECK(used.size() >= 12);  // before step 12, no memory was used a second time
    CHECK(used.size() < 40);   // later, the memory of idle batches was used again
    CHECK(living.load(std::memory_order_relaxed) == 0);
}

TEST_CASE("Arrays that the program or a vocabulary puts into a batch", "[threads]") {
    std::mutex mutex;  // guards the set
    std::set<void*> living;
    bool asked_for_others = false;
    const auto note = [&](void* memory) {
        const std::lock_guard lock(mutex);
        asked_for_others = asked_for_others || !living.contains(memory);
    };
    PipelineOptions options{.sources = memory("lines", "a\nb\na\nb\na\nb\na\nb\n"), .format = Lines{}, .batch = 1};
    options.epochs = 1;
    options.memory =
        std::make_shared<const BatchMemory>(BatchMemory{[&](std::size_t bytes) {
                                                            const std::lock_guard lock(mutex);
                                                            return *living.insert(std::aligned_alloc(64, bytes)).first;
                                                        },
                                                        [&](void* memory) {
                                                            const std::lock_guard lock(mutex);
                                                            living.erase(memory);
                                                            std::free(memory);
                                                        },
                                                        note,
                                                        [&](void* memory) {
                                                            note(memory);
                                                            return true;
                                                        }});
    const Vocabulary letters(std::vector<std::string>{"a", "b"});
    {
        Pipeline pipeline(options);
        Batch batch;
        for (std::int64_t step = 0; pipeline.next(batch); ++step) {
            letters.look_up(batch.column("line"));
            CHECK(values<std::int64_t>(batch, "line") == std::vector<std::int64_t>{step % 2});
            Array& ids = batch.column("line").data;
            CHECK(ids.memory() == options.memory);
            const Array mine = std::move(ids);
            // the moved-from array keeps its memory resource, because the pipeline fills it again
            CHECK(ids.memory() == options.memory);
            if (step % 2 == 0) {
                Array ordinary;
                ordinary.resize(8);
                ids = std::move(ordinary);  // this array's memory does not come from options.memory
            }
        }
    }
    CHECK_FALSE(asked_for_others);
    CHECK(living.empty());
}

TEST_CASE("If a device fails, next() throws its error, and stays so", "[threads]") {
    auto options = numbered({100}, 10);
    options.memory = std::make_shared<const BatchMemory>(BatchMemory{
        [](std::size_t bytes) { return std::aligned_alloc(64, bytes); }, [](void* memory) { std::free(memory); },
        [](void* /*memory*/) { throw ResourceExhausted("the device has failed"); },
        [](void* /*memory*/) { return true; }});
    Pipeline pipeline(options);
    Batch batch;
    REQUIRE(pipeline.next(batch));
    for (int i = 0; i < 2; ++i) {
        CHECK_THAT(message_of([&] { pipeline.next(batch); }), Contains("the device has failed"));
    }
}

/// The processor time of all threads of this process.
double processor_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TEST_CASE("All threads parse for a fast consumer, and all sleep while a slow one works", "[threads]") {
    constexpr int kThreads = 3;
    auto options = numbered({2000}, 10);
    options.threads = kThreads;
    options.prefetch = kThreads + 2;
    std::mutex mutex;  // guards the numbers
    std::condition_variable met;
    int inside = 0;
    int most_inside = 0;
    std::int64_t begun = 0;
    bool slow = false;
    // Each call of this function waits until all threads are in the function at the same time, but for 10 s at most.
    // The last thread that arrives wakes the other threads.
    options.maps = {[&](Batch& /*batch*/) {
        std::unique_lock lock(mutex);
        ++begun;
        most_inside = std::max(most_inside, ++inside);
        if (!slow) {
            met.notify_all();
            met.wait_for(lock, std::chrono::seconds(10), [&] { return most_inside == kThreads; });
        }
        --inside;
    }};
    Pipeline pipeline(options);
    Batch batch;
    for (int step = 0; step < 20; ++step) {
        REQUIRE(pipeline.next(batch));
    }
    {
        const std::lock_guard lock(mutex);
        CHECK(most_inside == kThreads);
        slow = true;
    }
    const auto begun_now = [&] {
        const std::lock_guard lock(mutex);
        return begun;
    };
    for (std::int64_t step = 20; step < 25; ++step) {
        REQUIRE(pipeline.next(batch));
        // waits until the pipeline has begun a new batch for each taken one
        while (begun_now() < step + 1 + options.prefetch) {
            std::this_thread::yield();
        }
    }
    // Since the loop above, no batch was taken. So no thread may begin another batch, and the threads must not use
    // processor time.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const double since = processor_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    CHECK(processor_seconds() - since < 0.02);
    CHECK(begun_now() == 25 + options.prefetch);
}

TEST_CASE("The exception of a map function arrives at its step, and stays", "[threads]") {
    auto options = numbered({100}, 10);
    options.maps = {[](Batch& batch) {
        if (batch.step() >= 4) {
            throw std::runtime_error("step " + std::to_string(batch.step()));
        }
    }};
    options.threads = 4;
    Pipeline pipeline(options);
    Batch batch;
    for (int step = 0; step < 4; ++step) {
        CHECK(pipeline.next(batch));
    }
    CHECK_THROWS_WITH(pipeline.next(batch), "step 4");
    CHECK_THROWS_WITH(pipeline.next(batch), "step 4");
    CHECK(pipeline.position().step == 4);
}

TEST_CASE("Malformed records are counted in the order of the steps", "[threads]") {
    auto options = numbered({20}, 5);
    options.sources = memory("rows", "0\nx\n2\n3\ny\n5\n6\nz\n8\n9\n");
    options.epochs = 1;
    for (const int threads : {1, 4}) {
        options.threads = threads;
        options.malformed_limit = 3;
        Pipeline all(options);
        bool ended = false;
        CHECK(take_steps(all, 9, ended) == Steps{{0, 2, 3}, {5, 6, 8, 9}});
        CHECK(all.statistics().malformed == 3);
        options.malformed_limit = 2;
        Pipeline some(options);
        Batch batch;
        CHECK(some.next(batch));
        CHECK_THAT(message_of([&] { some.next(batch); }),
                   Contains("reading 'rows', record 7 at offset 14: column 'n' has 'z'") &&
                       Contains("malformed_limit allows 2 malformed records in each epoch, and there are 3 now"));
    }
}

TEST_CASE("The limit of malformed records holds for each epoch, also after a resume", "[threads]") {
    auto options = numbered({20}, 5);
    options.sources = memory("rows", "0\nx\n2\n3\ny\n5\n6\nz\n8\n9\n");
    options.epochs = 3;
    options.malformed_limit = 3;
    Pipeline pipeline(options);
    bool ended = false;
    for (int epoch = 0; epoch < 3; ++epoch) {
        CHECK(take_steps(pipeline, 9, ended) == Steps{{0, 2, 3}, {5, 6, 8, 9}});
    }
    CHECK(pipeline.statistics().malformed == 9);
    options.malformed_limit = 2;
    options.start = {.epoch = 1, .step = 1};
    Pipeline resumed(options);
    // After the resume at step 1, only the malformed record of step 1 counts, not those of step 0.
    CHECK(take_steps(resumed, 9, ended) == Steps{{5, 6, 8, 9}});
    CHECK_THAT(message_of([&] { take_steps(resumed, 9, ended); }),
               Contains("record 7") && Contains("allows 2 malformed records in each epoch, and there are 3 now"));
}

TEST_CASE("An epoch without a batch is an error if there is no end, and otherwise a warning", "[threads]") {
    const auto small = [](std::int64_t epochs) {
        auto options = numbered({3, 2}, 8);
        options.remainder = Remainder::drop;
        options.epochs = epochs;
        return options;
    };
    Batch batch;
    for (const int rank : {0, 1}) {
        auto options = small(0);
        options.rank = rank;
        options.size = 2;
        Pipeline pipeline(options);
        for (int epoch = 0; epoch < 99; ++epoch) {
            CHECK_FALSE(pipeline.next(batch));
        }
        for (int again = 0; again < 2; ++again) {
            CHECK_THAT(
                message_of([&] { pipeline.next(batch); }),
                Contains("epoch 99 (counted from 0) has no batch, because the sources have too few samples for a "
                         "batch of 8 (over the ranks that share them), and remainder is drop") &&
                    Contains("epochs is 0, so a loop that waits for a batch would never end"));
        }
    }
    Pipeline finite(small(2));
    CHECK_FALSE(finite.next(batch));
    CHECK_FALSE(finite.next(batch));
    CHECK(finite.finished());
    REQUIRE(finite.warnings().size() == 1);
    CHECK_THAT(finite.warnings()[0], Contains("epoch 0 (counted from 0) has no batch"));
    Pipeline empty(numbered({0}, 8));
    CHECK_FALSE(empty.next(batch));  // no error, because other hosts may have samples
    REQUIRE(empty.warnings().size() == 1);
    CHECK_THAT(empty.warnings()[0], Contains("because the sources have no samples; check the files"));

    // If a job continues at the end of an epoch, the rest of the epoch also has no batch. This is no error.
    auto options = numbered({8}, 8);
    options.start = {.epoch = 0, .step = 1};
    Pipeline resumed(options);
    CHECK_FALSE(resumed.next(batch));
    CHECK(resumed.next(batch));
    CHECK(resumed.warnings().empty());
}

TEST_CASE("A rank whose own lane is empty may wait for the other ranks, but not for ever", "[threads]") {
    auto options = numbered({0, 8}, 8);
    options.lanes = 2;
    options.size = 2;
    Pipeline pipeline(options);
    Batch batch;
    for (int epoch = 0; epoch < 99; ++epoch) {
        CHECK_FALSE(pipeline.next(batch));
    }
    REQUIRE(pipeline.warnings().size() == 1);
    CHECK_THAT(pipeline.warnings()[0], Contains("because this rank's lanes have no samples"));
    CHECK_THAT(message_of([&] { pipeline.next(batch); }), Contains("epoch 99 (counted from 0) has no batch"));
}

TEST_CASE("A batch without samples is a warning that gives the reason", "[threads]") {
    const auto warnings_of = [](PipelineOptions options) {
        options.epochs = 2;
        Pipeline pipeline(options);
        Batch batch;
        while (!pipeline.finished()) {
            (void)pipeline.next(batch);
        }
        return std::vector<std::string>(pipeline.warnings().begin(), pipeline.warnings().end());
    };
    auto options = numbered({8}, 4);
    options.sources = memory("rows", "0\n1\n2\n3\nx\ny\nz\n7\n");
    options.malformed_limit = 3;
    CHECK(warnings_of(options).empty());
    options.batch = 2;
    const auto malformed = warnings_of(options);
    REQUIRE(malformed.size() == 1);
    CHECK_THAT(malformed[0], Contains("no samples in step 2 of epoch 0 (counted from 0), because all of its records in "
                                      "this step are malformed, and were left out: the first one, reading 'rows', "
                                      "record 4 at offset 8: column 'n' has 'x'"));
    options.remainder = Remainder::pad;
    CHECK(warnings_of(options) == malformed);

    auto mapped = numbered({8}, 4);
    mapped.maps = {[](Batch& batch) {
        batch.column("n").data.resize(0);
        batch.set_rows(0);
    }};
    const auto left_out = warnings_of(mapped);
    REQUIRE(left_out.size() == 1);
    CHECK_THAT(left_out[0],
               Contains("in step 0 of epoch 0") && Contains("because the functions of maps left all of them"));

    auto last = numbered({5}, 4);
    last.size = 2;
    last.lanes = 1;
    REQUIRE(warnings_of(last).size() == 2);  // the first warning says that the ranks share a lane
    CHECK_THAT(warnings_of(last)[1], Contains("in step 1 of epoch 0") && Contains("too few samples for all ranks"));
}

TEST_CASE("A source that cannot be read is an error, whatever the limit", "[threads]") {
    auto options = numbered({3}, 2);
    options.malformed_limit = 100;
    options.sources.push_back({"/nonexistent/file", SourceKind::file, FileCompression::none, nullptr});
    Pipeline pipeline(options);
    Batch batch;
    CHECK(pipeline.next(batch));
    CHECK_THAT(message_of([&] { pipeline.next(batch); }), Contains("opening '/nonexistent/file': open failed"));
}

TEST_CASE("A pipeline can be destroyed at any time", "[threads]") {
    const Folder folder;
    make_fifo(folder.file("silent"));
    for (int taken = 0; taken < 4; ++taken) {
        auto options = numbered({1000, 1000}, 10);
        options.shuffle = 100;
        options.lanes = 2;
        Pipeline pipeline(options);
        Batch batch;
        for (int i = 0; i < taken; ++i) {
            CHECK(pipeline.next(batch));
        }
    }
    auto options = numbered({1}, 1);
    options.sources = fifo(folder.file("silent"));
    const Pipeline waiting(options);  // nobody writes into the FIFO of this pipeline
}

TEST_CASE("A FIFO feeds a pipeline, one for each epoch", "[threads]") {
    const Folder folder;
    auto options = numbered({1}, 2);
    options.sources = fifo(folder.file("train_{epoch}"));
    options.epochs = 2;
    make_fifo(folder.file("train_0"));
    Pipeline pipeline(options);
    std::thread writer([&] {
        write_file(folder.file("train_0"), "1\n2\n3\n");
        make_fifo(folder.file("train_1"));
        write_file(folder.file("train_1"), "4\n5\n");
    });
    bool ended = false;
    CHECK(take_steps(pipeline, 9, ended) == Steps{{1, 2}, {3}});
    CHECK(take_steps(pipeline, 9, ended) == Steps{{4, 5}});
    writer.join();
    options.size = 2;
    CHECK_THAT(message_of([&] { Pipeline{options}; }), Contains("2 ranks would share 1 lanes that read FIFOs"));
}

TEST_CASE("A wait for a batch ends at its time, or when next() would return at once", "[threads]") {
    const Folder folder;
    make_fifo(folder.file("late"));
    PipelineOptions options = numbered({1}, 1);
    options.sources = fifo(folder.file("late"));
    options.epochs = 1;
    Pipeline pipeline(options);
    Batch batch;
    CHECK_FALSE(pipeline.wait_for(std::chrono::milliseconds(1)));  // nobody writes
    CHECK(pipeline.statistics().consumer_waited >= 0.001);
    std::thread writer([&] { write_file(folder.file("late"), "7\n"); });
    CHECK(pipeline.wait_for(std::chrono::nanoseconds::max()));
    CHECK(pipeline.next(batch));
    CHECK(batch.values<std::int64_t>("n")[0] == 7);
    writer.join();
    CHECK(pipeline.wait_for(std::chrono::minutes(1)));  // the end of the epoch
    CHECK_FALSE(pipeline.next(batch));
    CHECK(pipeline.wait_for(std::chrono::nanoseconds(0)));  // the end of all epochs
}

TEST_CASE("With shuffle, each lane reads the same FIFO in every epoch", "[unit]") {
    auto options = numbered({1, 1, 1, 1}, 4);
    for (Source& source : options.sources) {
        source.kind = SourceKind::fifo;  // nothing is opened here
    }
    options.lanes = 4;
    options.shuffle = 100;
    for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
        for (std::int64_t lane = 0; lane < options.lanes; ++lane) {
            CHECK(order_of_sources(options, lane, epoch) ==
                  std::vector<std::uint32_t>{static_cast<std::uint32_t>(lane)});
        }
    }
}

TEST_CASE("Options that cannot be used are refused with their names", "[unit]") {
    const auto refused = [](auto change) {
        auto options = numbered({5, 5}, 4);
        change(options);
        return message_of([&] { Pipeline{options}; });
    };
    CHECK_THAT(refused([](auto& o) { o.sources.clear(); }), Contains("there are no sources"));
    CHECK_THAT(refused([](auto& o) { o.batch = 0; }), Contains("batch is 0"));
    CHECK_THAT(refused([](auto& o) { o.size = 5; }), Contains("at least the number of ranks, 5"));
    CHECK_THAT(refused([](auto& o) { o.rank = 1; }), Contains("rank is 1; expected 0 to 0, because size is 1"));
    CHECK_THAT(refused([](auto& o) { o.size = 0; }), Contains("size is 0"));
    CHECK_THAT(refused([](auto& o) { o.lanes = 3; }),
               Contains("lanes is 3; expected 1 to 2, because there are 2 sources"));
    CHECK_THAT(refused([](auto& o) { o.shuffle = -1; }), Contains("shuffle is -1") && Contains("may be negative"));
    CHECK_THAT(refused([](auto& o) { o.prefetch = 1'000'000'000; }),
               Contains("prefetch is 1000000000; expected at most 65536 batches"));
    CHECK_THAT(refused([](auto& o) { o.start.step = -1; }), Contains("start has epoch 0 and step -1"));
    CHECK_THAT(refused([](auto& o) { o.start.epoch = std::int64_t{1} << 62; }),
               Contains("start has epoch 4611686018427387904 and step 0"));
}

TEST_CASE("By default, the ranks of a host divide the cores", "[unit]") {
    const auto threads = [](int given, const HostShare& share) {
        PipelineOptions options = numbered({50, 50}, 16);
        options.threads = given;
        options.prefetch = 0;
        REQUIRE(complete(options, share).is_ok());
        CHECK(options.prefetch == options.threads + 2);
        return options.threads;
    };
    CHECK(threads(0, {.ranks = 4, .threads = 3}) == 3);
    CHECK(threads(0, {.ranks = 1, .threads = 64}) == 8);
    CHECK(threads(5, {.ranks = 4, .threads = 3}) == 5);
    // This test program is not a rank of a job, so it may use the whole host.
    CHECK(host_share().ranks == 1);
    CHECK(host_share().threads >= 1);
    CHECK(host_share().threads <= static_cast<int>(base::affinity_cores()));
}

TEST_CASE("Wasteful options are named in one line each", "[unit]") {
    auto options = numbered({50, 50}, 16);
    CHECK(Pipeline(options).warnings().empty());
    options.size = 2;
    options.shuffle = 10;
    options.threads = 4;
    options.prefetch = 2;
    const Pipeline pipeline(options);
    REQUIRE(pipeline.warnings().size() == 3);
    CHECK(pipeline.warnings()[0] ==
          "2 ranks share 1 lane, so sources are read by several ranks; lanes = 2 would let each rank read its own "
          "sources");
    CHECK_THAT(pipeline.warnings()[1], Contains("shuffle = 10 is not larger than batch = 16"));
    CHECK_THAT(pipeline.warnings()[2], Contains("prefetch = 2 is smaller than threads = 4, so 2 threads always wait"));
    auto many = numbered(std::vector<std::int64_t>(9, 1), 5);
    many.size = 2;
    // the warning names 4 lanes and not 8, because a batch has only 5 samples
    CHECK_THAT(Pipeline(many).warnings()[0], Contains("lanes = 4 would let"));
}

TEST_CASE("The summary counts, and names the slowest stage", "[unit]") {
    auto options = numbered({100}, 10);
    options.epochs = 1;
    Pipeline pipeline(options);
    Batch batch;
    while (pipeline.next(batch)) {
    }
    CHECK_THAT(pipeline.summary(), Contains("input: 10 batches, 100 samples, 190 B in"));
    const Statistics waiting{
        .batches = 4, .records = 8, .bytes = 2048, .malformed = 1, .seconds = 2, .consumer_waited = 1};
    const auto summary = [&](double reading, double parsing, double mapping, double starved) {
        Statistics statistics = waiting;
        statistics.reading = reading;
        statistics.parsing = parsing;
        statistics.mapping = mapping;
        statistics.starved = starved;
        statistics.lanes = 2;
        statistics.threads = 3;
        return summarize(statistics);
    };
    CHECK(summary(1.5, 0.5, 0.25, 2) ==
          "input: 4 batches, 8 samples, 2 KiB in 2.00 s (4 samples/s); the consumer waited 1.00 s (50 %); the slowest "
          "stage is "
          "reading (1.50 s in 2 lanes); more lanes or less compression would help; 1 malformed records were left out");
    CHECK_THAT(summary(1.5, 2, 0.25, 1), Contains("the slowest stage is parsing (2.00 s in 3 threads)"));
    CHECK_THAT(summary(1.5, 2, 2.25, 1), Contains("the slowest stage is mapping (2.25 s in 3 threads)"));
    CHECK_THAT(summarize({.batches = 4, .seconds = 2, .consumer_waited = 0.01}),
               Contains("the consumer is the slowest stage"));
    // The summary gives no advice if the run was short or has read nothing.
    CHECK_THAT(summarize({.batches = 4, .seconds = 0.99, .consumer_waited = 0.5}), !Contains("stage"));
    CHECK_THAT(summarize({.seconds = 2, .consumer_waited = 2}), !Contains("stage"));
}

}  // namespace
