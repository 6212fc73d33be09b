// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The functions of rueda/data.h.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/c_interface/guarded.hpp"
#include "data/c_interface/options_text.hpp"
#include "data/c_interface/vocabulary_handle.hpp"
#include "data/pipeline/summary.hpp"
#include "rueda/data.h"
#include "rueda/data/pipeline.hpp"

namespace rueda::data {

/// Keeps the batches that the caller has released, so that later batches can use their memory. The pipeline and its
/// batches share this object, because the pipeline may be closed before its batches are released. Threads: any.
class ReleasedBatches {
public:
    void keep(Batch&& batch) {
        const std::lock_guard lock(mutex_);
        if (batches_.size() < kMost) {
            batches_.push_back(std::move(batch));
        }
    }
    [[nodiscard]] Batch take() {
        const std::lock_guard lock(mutex_);
        if (batches_.empty()) {
            return {};
        }
        Batch batch = std::move(batches_.back());
        batches_.pop_back();
        return batch;
    }

private:
    /// The maximum number of batches that are kept. Without a maximum, a caller that releases many batches at once
    /// would leave many unused batches in memory.
    static constexpr std::size_t kMost = 4;
    std::mutex mutex_;
    std::vector<Batch> batches_;
};

}  // namespace rueda::data

namespace {

using rueda::ErrorCode;
using rueda::failure;
using rueda::Status;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::guarded;
using rueda::data::Batch;
using rueda::data::ReleasedBatches;
using rueda::data::Statistics;

nlohmann::json statistics_as_json(const Statistics& counts) {
    return {{"batches", counts.batches},
            {"records", counts.records},
            {"bytes", counts.bytes},
            {"malformed", counts.malformed},
            {"seconds", counts.seconds},
            {"consumer_waited", counts.consumer_waited},
            {"reading", counts.reading},
            {"parsing", counts.parsing},
            {"mapping", counts.mapping},
            {"starved", counts.starved},
            {"lanes", counts.lanes},
            {"threads", counts.threads},
            {"cache_opened", counts.cache_opened},
            {"cache_refused", counts.cache_refused}};
}

}  // namespace

/// The pipeline to which a pointer of the C interface points.
struct rueda_data_pipeline {
    rueda::data::Pipeline pipeline;
    std::shared_ptr<ReleasedBatches> released = std::make_shared<ReleasedBatches>();
};

/// The batch to which a pointer of the C interface points.
struct rueda_data_batch {
    Batch batch;
    std::shared_ptr<ReleasedBatches> released;
};

extern "C" {

int rueda_data_open(const char* options, rueda_data_pipeline** pipeline) {
    return rueda_data_open_with(options, nullptr, 0, pipeline);
}

int rueda_data_open_with(const char* options, rueda_data_vocabulary* const* vocabularies, size_t count,
                         rueda_data_pipeline** pipeline) {
    return rueda_data_open_from(options, vocabularies, count, nullptr, 0, pipeline);
}

int rueda_data_open_from(const char* options, rueda_data_vocabulary* const* vocabularies, size_t count,
                         const rueda_data_bytes* contents, size_t content_count, rueda_data_pipeline** pipeline) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(options, "options"));
        RUEDA_RETURN_IF_FAILED(check_place(pipeline, "pipeline"));
        if (count > 0) {
            RUEDA_RETURN_IF_FAILED(check_place(vocabularies, "vocabularies"));
        }
        if (content_count > 0) {
            RUEDA_RETURN_IF_FAILED(check_place(contents, "contents"));
        }
        std::vector<std::string_view> given;
        for (size_t i = 0; i < content_count; ++i) {
            if (contents[i].size > 0) {
                RUEDA_RETURN_IF_FAILED(check_place(contents[i].bytes, "bytes of a memory source"));
            }
            given.emplace_back(static_cast<const char*>(contents[i].bytes), contents[i].size);
        }
        std::vector<std::shared_ptr<const rueda::data::Vocabulary>> used;
        for (size_t i = 0; i < count; ++i) {
            RUEDA_RETURN_IF_FAILED(check_place(vocabularies[i], "vocabulary"));
            used.push_back(vocabularies[i]->vocabulary);
        }
        auto read = rueda::data::options_from_text(options, used, given);
        RUEDA_RETURN_IF_FAILED(read.status());
        *pipeline = new rueda_data_pipeline{rueda::data::Pipeline(std::move(read).value())};
        return {};
    });
}

int rueda_data_wait(rueda_data_pipeline* pipeline, double timeout_seconds, int32_t* ready) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(pipeline, "pipeline"));
        RUEDA_RETURN_IF_FAILED(check_place(ready, "answer"));
        constexpr double kLongest = 1e6;  // in seconds; a much longer time has too many nanoseconds for 64 bits
        if (!(timeout_seconds >= 0) || timeout_seconds > kLongest) {
            return failure(ErrorCode::invalid_argument, "pipeline: the timeout is {} s; expected 0 to {} s",
                           timeout_seconds, kLongest);
        }
        const auto timeout = std::chrono::nanoseconds(std::llround(timeout_seconds * 1e9));
        *ready = pipeline->pipeline.wait_for(timeout) ? 1 : 0;
        return {};
    });
}

int rueda_data_next(rueda_data_pipeline* pipeline, rueda_data_batch** batch) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(pipeline, "pipeline"));
        RUEDA_RETURN_IF_FAILED(check_place(batch, "batch"));
        *batch = nullptr;
        std::unique_ptr<rueda_data_batch> next(new rueda_data_batch{pipeline->released->take(), pipeline->released});
        if (pipeline->pipeline.next(next->batch)) {
            *batch = next.release();
        } else if (!next->batch.columns().empty()) {
            pipeline->released->keep(std::move(next->batch));  // for the next epoch
        }
        return {};
    });
}

int rueda_data_batch_size(const rueda_data_batch* batch, int64_t* rows, size_t* columns) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(batch, "batch"));
        RUEDA_RETURN_IF_FAILED(check_place(rows, "number of samples"));
        RUEDA_RETURN_IF_FAILED(check_place(columns, "number of columns"));
        *rows = batch->batch.rows();
        *columns = batch->batch.columns().size();
        return {};
    });
}

int rueda_data_batch_column(rueda_data_batch* batch, size_t index, rueda_data_column* column) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(batch, "batch"));
        RUEDA_RETURN_IF_FAILED(check_place(column, "column"));
        const std::span<rueda::data::Column> columns = batch->batch.columns();
        if (index >= columns.size()) {
            return failure(ErrorCode::invalid_argument, "batch: there is no column {}; there are {} columns", index,
                           columns.size());
        }
        rueda::data::Column& each = columns[index];
        const std::span<const std::int64_t> offsets = each.offsets();
        *column = {each.name.c_str(),
                   each.data.data(),
                   each.data.size(),
                   offsets.empty() ? nullptr : offsets.data(),
                   offsets.size(),
                   each.width,
                   static_cast<std::int32_t>(each.dtype)};
        return {};
    });
}

void rueda_data_batch_release(rueda_data_batch* batch) {
    if (batch != nullptr) {
        // keep() fails if the list of batches cannot grow. This failure is ignored, because the batch is then freed
        // below.
        static_cast<void>(guarded([&]() -> Status {
            batch->released->keep(std::move(batch->batch));
            return {};
        }));
        delete batch;
    }
}

int rueda_data_describe(const rueda_data_pipeline* pipeline, char** text) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(pipeline, "pipeline"));
        RUEDA_RETURN_IF_FAILED(check_place(text, "text"));
        const rueda::data::Pipeline& described = pipeline->pipeline;
        const rueda::data::Position position = described.position();
        const rueda::data::Statistics statistics = described.statistics();
        const auto warnings = described.warnings();
        const nlohmann::json json = {{"position", position.to_text()},
                                     {"epoch", position.epoch},
                                     {"step", position.step},
                                     {"finished", described.finished()},
                                     {"summary", rueda::data::summarize(statistics)},
                                     {"slowest", rueda::data::describe_slowest(statistics)},
                                     {"warnings", std::vector<std::string>(warnings.begin(), warnings.end())},
                                     {"statistics", statistics_as_json(statistics)}};
        const std::string written = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        *text = strdup(written.c_str());
        return *text != nullptr ? Status() : failure(ErrorCode::resource_exhausted, "out of memory");
    });
}

void rueda_data_free_text(char* text) { std::free(text); }

void rueda_data_close(rueda_data_pipeline* pipeline) { delete pipeline; }

}  // extern "C"
