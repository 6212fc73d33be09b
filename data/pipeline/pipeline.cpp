// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/data/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <utility>
#include <variant>

#include "base/system/process_logger.hpp"
#include "data/pipeline/plan.hpp"
#include "data/pipeline/summary.hpp"
#include "data/pipeline/workers.hpp"
#include "data/sources/source_cache.hpp"

namespace rueda::data {

struct Pipeline::Parts {
    PipelineOptions options;
    std::string header;
    std::vector<std::string> warnings;
    Position position;
    Statistics statistics;
    bool finished = false;
    std::int64_t begin = 0;  ///< when next() or wait_for() was called first; 0 before
    std::exception_ptr error;
    bool has_warned = false;             ///< of a batch without samples
    std::unique_ptr<SourceCache> cache;  ///< null if the options ask for none
    std::unique_ptr<Workers> workers;    ///< their threads use the members above
};

namespace {

/// Reads the first row of CSV files that have one.
Status find_header(const PipelineOptions& options, std::string& header) {
    const auto* const csv = std::get_if<Csv>(&options.format);
    if (csv == nullptr || !csv->header) {
        return {};
    }
    const Source& source = options.sources.front();
    if (source.kind == SourceKind::fifo) {
        return failure(
            ErrorCode::unsupported,
            "pipeline: '{}' is a FIFO, whose first row cannot be read twice; set Csv::header = false and list all "
            "columns",
            source.name);
    }
    const StopSignal never_given;
    auto found = read_header(source, csv->quotes, never_given);
    RUEDA_RETURN_IF_FAILED(found.status());
    header = std::move(found).value();
    return {};
}

Status make_parsers(const PipelineOptions& options, const std::string& header,
                    std::vector<std::unique_ptr<Parser>>& parsers) {
    for (int i = 0; i < options.threads; ++i) {
        auto parser = make_parser(options.format, header, options.sources);
        RUEDA_RETURN_IF_FAILED(parser.status());
        parsers.push_back(std::move(parser).value());
    }
    return {};
}

/// The error for malformed records above the limit.
std::string too_many(const MalformedRecords& malformed, std::int64_t before, std::int64_t limit) {
    if (limit == 0) {
        return malformed.first + "; to leave such records out, set malformed_limit";
    }
    return fmt::format("{}; malformed_limit allows {} malformed records, and there are {} now", malformed.first, limit,
                       before + malformed.count);
}

void warn_about_empty_batch(const Position& position) {
    base::process_logger().warning(
        "input: this rank has no samples in step {} of epoch {} (counted from 0), because the last batch of the epoch "
        "has fewer samples than there are ranks; take part in this step with gradients of zero (a mean over no samples "
        "would be NaN), or set drop_remainder (a pipeline logs this warning once)",
        position.step, position.epoch);
}

void note_begin(std::int64_t& begin) {
    if (begin == 0) {
        begin = nanoseconds_now();
    }
}

}  // namespace

Pipeline::Pipeline(PipelineOptions options) : parts_(std::make_unique<Parts>()) {
    parts_->options = std::move(options);
    PipelineOptions& given = parts_->options;
    complete(given).throw_if_failed();
    find_header(given, parts_->header).throw_if_failed();
    std::vector<std::unique_ptr<Parser>> parsers;
    make_parsers(given, parts_->header, parsers).throw_if_failed();
    if (!given.cache.empty()) {
        auto cache = make_source_cache(given.cache);
        cache.status().throw_if_failed();
        parts_->cache = std::move(cache).value();
    }
    parts_->warnings = find_waste(given);
    parts_->position = {given.start.epoch, given.start.step, fingerprint_of(given)};
    parts_->finished = given.epochs != 0 && given.start.epoch >= given.epochs;
    try {
        parts_->workers = std::make_unique<Workers>(given, parts_->header, parts_->cache.get(), std::move(parsers));
    } catch (const std::system_error& error) {
        throw ResourceExhausted(fmt::format(
            "pipeline: the system refused one of {} threads that parse and one thread for each of {} lanes: {}; use "
            "fewer threads or lanes, or raise the limit (ulimit -u)",
            given.threads, plan_lanes(given).size(), error.what()));
    }
}

Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;
Pipeline::~Pipeline() = default;

bool Pipeline::wait_for(std::chrono::nanoseconds timeout) {
    Parts& parts = *parts_;
    note_begin(parts.begin);
    // The standard library adds the timeout to the present time, which overflows for nanoseconds::max().
    constexpr std::chrono::hours kLongest{1000};
    return parts.error != nullptr || parts.finished ||
           parts.workers->wait_for(std::min<std::chrono::nanoseconds>(timeout, kLongest),
                                   parts.statistics.consumer_waited);
}

bool Pipeline::next(Batch& batch) {
    Parts& parts = *parts_;
    if (parts.error != nullptr) {
        std::rethrow_exception(parts.error);
    }
    note_begin(parts.begin);
    Outcome outcome;
    if (parts.finished || !parts.workers->take(outcome, parts.statistics.consumer_waited)) {
        parts.finished = true;
        return false;
    }
    if (outcome.error == nullptr &&
        parts.statistics.malformed + outcome.malformed.count > parts.options.malformed_limit) {
        outcome.error = std::make_exception_ptr(
            InvalidArgument(too_many(outcome.malformed, parts.statistics.malformed, parts.options.malformed_limit)));
    }
    if (outcome.error != nullptr) {
        parts.error = outcome.error;
        std::rethrow_exception(parts.error);
    }
    parts.statistics.malformed += outcome.malformed.count;
    if (outcome.ends_epoch) {
        ++parts.position.epoch;
        parts.position.step = 0;
        parts.finished = parts.options.epochs != 0 && parts.position.epoch >= parts.options.epochs;
        return false;
    }
    parts.workers->recycle(std::exchange(batch, std::move(outcome.batch)));
    if (batch.rows() == 0 && outcome.malformed.count == 0 && !std::exchange(parts.has_warned, true)) {
        warn_about_empty_batch(parts.position);
    }
    ++parts.position.step;
    ++parts.statistics.batches;
    parts.statistics.records += batch.rows();
    parts.statistics.bytes += outcome.bytes;
    return true;
}

Position Pipeline::position() const { return parts_->position; }

bool Pipeline::finished() const { return parts_->finished; }

Statistics Pipeline::statistics() const {
    Statistics statistics = parts_->statistics;
    parts_->workers->add_to(statistics);
    if (parts_->cache != nullptr) {
        SourceCache::Counts counts = parts_->cache->counts();
        statistics.cache_opened = counts.opened;
        statistics.cache_refused = counts.refused;
        statistics.cache_refusal = std::move(counts.first_refusal);
    }
    statistics.seconds = parts_->begin == 0 ? 0 : static_cast<double>(nanoseconds_now() - parts_->begin) * 1e-9;
    return statistics;
}

std::string Pipeline::summary() const { return summarize(statistics()); }

std::span<const std::string> Pipeline::warnings() const { return parts_->warnings; }

}  // namespace rueda::data
