// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/data/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "base/system/process_logger.hpp"
#include "data/pipeline/host_share.hpp"
#include "data/pipeline/plan.hpp"
#include "data/pipeline/summary.hpp"
#include "data/pipeline/workers.hpp"
#include "data/sources/source_cache.hpp"

namespace rueda::data {

// Programs do not use this struct, so it is not exported. Without the attribute, it would be exported together with the
// class Pipeline.
struct __attribute__((visibility("hidden"))) Pipeline::Parts {
    PipelineOptions options;
    std::string header;
    std::vector<std::string> warnings;
    Position position;
    Statistics statistics;
    std::int64_t malformed_in_epoch = 0;  ///< number of malformed records of this epoch that were left out
    std::int64_t empty_epochs = 0;        ///< number of consecutive epochs without a batch, up to the newest epoch
    std::int64_t first_empty_epoch = 0;   ///< when the first of the `empty_epochs` epochs ended, in nanoseconds
    bool finished = false;
    std::int64_t begin = 0;  ///< the time of the first call of next() or wait_for(); 0 before that call
    std::exception_ptr error;
    std::set<std::string_view> warned;   ///< the kinds of warnings that were logged
    std::unique_ptr<SourceCache> cache;  ///< null if the options ask for no cache
    std::unique_ptr<Workers> workers;    ///< declared last, because its threads use the fields above

    /// If this is the first warning of its kind, logs it and adds it to `warnings`. `kind` must be a string literal.
    void warn_once(std::string_view kind, std::string text);
    /// Warns once if the cache could not keep a copy, and once if a copy was damaged.
    void warn_about_cache();
    void warn_about_empty_batch(const Outcome& outcome);
    /// Warns of an epoch without a batch. Throws InvalidArgument if a loop over the batches would not end.
    void look_at_empty_epoch(const Outcome& outcome);
    /// Throws the error of the outcome, if it has one. Also throws if too many records were malformed. Later calls of
    /// next() throw the same error.
    void check(const Outcome& outcome);
    void end_epoch(const Outcome& outcome);
    /// Returns a batch to the workers, which use its memory again. If a function of BatchMemory throws, later calls of
    /// next() throw, too.
    void give_back(Batch&& batch);
};

namespace {

/// If the files are CSV files with a header row, reads this row from the first file.
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

/// Returns the error message for more malformed records than the limit allows.
std::string too_many(const MalformedRecords& malformed, std::int64_t before, std::int64_t limit) {
    if (limit == 0) {
        return malformed.first + "; to leave such records out, set malformed_limit";
    }
    return fmt::format(
        "{} (the first malformed record of this batch); malformed_limit allows {} malformed records in each epoch, and "
        "there are {} now",
        malformed.first, limit, before + malformed.count);
}

/// Whether this rank reads all sources that its options name.
bool reads_everything(const PipelineOptions& options) { return options.lanes == 1 || options.size == 1; }

/// Says why an epoch has no batch, and what the user can do.
std::string reason_of_empty_epoch(const PipelineOptions& options) {
    const std::string_view whose = reads_everything(options) ? "the sources have" : "this rank's lanes have";
    if (options.remainder == Remainder::drop) {
        return fmt::format(
            "{} too few samples for a batch of {} (over the ranks that share them), and remainder is drop; use a "
            "smaller "
            "batch or more data, or set remainder to keep or pad",
            whose, options.batch);
    }
    return fmt::format("{} no samples; check the files", whose);
}

std::string describe_damage(const std::string& where, const SourceCache::Counts& counts) {
    return fmt::format(
        "cache = '{}' had {} damaged {}; the pipeline read the {} instead, and makes {} in the next epoch: {}; check "
        "the disk of the cache",
        where, counts.damaged, counts.damaged == 1 ? "copy" : "copies", counts.damaged == 1 ? "file" : "files",
        counts.damaged == 1 ? "a new copy" : "new copies", counts.first_damage);
}

std::string describe_refusal(const std::string& where, const SourceCache::Counts& counts) {
    return fmt::format("cache = '{}' could not keep the copy of a file, so the file is read in each epoch: {}", where,
                       counts.first_refusal);
}

void note_begin(std::int64_t& begin) {
    if (begin == 0) {
        begin = nanoseconds_now();
    }
}

}  // namespace

void Pipeline::Parts::warn_once(std::string_view kind, std::string text) {
    if (warned.insert(kind).second) {
        base::process_logger().warning("input: {} (a pipeline logs this warning once)", text);
        warnings.push_back(std::move(text));
    }
}

void Pipeline::Parts::warn_about_cache() {
    if (cache == nullptr) {
        return;
    }
    const SourceCache::Counts counts = cache->counts();
    if (counts.refused > 0) {
        warn_once("refused copy", describe_refusal(options.cache, counts));
    }
    if (counts.damaged > 0) {
        warn_once("damaged copy", describe_damage(options.cache, counts));
    }
}

void Pipeline::Parts::warn_about_empty_batch(const Outcome& outcome) {
    std::string_view kind = "short batch";
    std::string reason = "the last batch of the epoch has too few samples for all ranks";
    std::string advice = ", or set remainder to drop";
    if (outcome.records > 0) {
        kind = outcome.parsed == 0 ? "malformed batch" : "mapped batch";
        reason = outcome.parsed == 0
                     ? "all of its records in this step are malformed, and were left out: the first one, " +
                           outcome.malformed.first
                     : "the functions of maps left all of them out";
        advice.clear();
    }
    warn_once(kind,
              fmt::format("this rank has no samples in step {} of epoch {} (counted from 0), because {}; take part "
                          "in this step with gradients of zero (a mean over no samples, or with weights that are "
                          "all 0, would be NaN){}",
                          position.step, position.epoch, reason, advice));
}

void Pipeline::Parts::look_at_empty_epoch(const Outcome& outcome) {
    // An epoch without a batch is no error if other ranks, perhaps on other hosts, have batches in this epoch. This
    // rank then takes part by join(), and its epoch takes as long as theirs. But if no rank has a batch, a loop that
    // waits for a batch runs through epoch after epoch and never ends. With FIFOs this is no error, because each epoch
    // waits for a writer.
    constexpr std::int64_t kMostInARow = 100;
    constexpr std::int64_t kMoment = 10'000'000'000;  // nanoseconds
    std::string text = fmt::format("epoch {} (counted from 0) has no batch, because {}", position.epoch,
                                   reason_of_empty_epoch(options));
    if (outcome.malformed.count > 0) {
        text += fmt::format("; {} malformed records were left out, the first one: {}", outcome.malformed.count,
                            outcome.malformed.first);
    }
    const std::int64_t now = nanoseconds_now();
    if (empty_epochs++ == 0) {
        first_empty_epoch = now;
    }
    if (options.epochs != 0 || has_fifo(options) || empty_epochs < kMostInARow) {
        warn_once("empty epoch", text);
        return;
    }
    if (now - first_empty_epoch > kMoment) {
        empty_epochs = 0;  // counts the next ones anew
        return;
    }
    error = std::make_exception_ptr(
        InvalidArgument(fmt::format("input: {}; epochs is 0, so a loop that waits for a batch would never end", text)));
    std::rethrow_exception(error);
}

void Pipeline::Parts::check(const Outcome& outcome) {
    error = outcome.error;
    if (error == nullptr && malformed_in_epoch + outcome.malformed.count > options.malformed_limit) {
        error = std::make_exception_ptr(
            InvalidArgument(too_many(outcome.malformed, malformed_in_epoch, options.malformed_limit)));
    }
    if (error != nullptr) {
        std::rethrow_exception(error);
    }
    malformed_in_epoch += outcome.malformed.count;
    statistics.malformed += outcome.malformed.count;
}

void Pipeline::Parts::end_epoch(const Outcome& outcome) {
    warn_about_cache();
    if (position.step == 0) {
        look_at_empty_epoch(outcome);
    } else {
        empty_epochs = 0;
    }
    malformed_in_epoch = 0;
    ++position.epoch;
    position.step = 0;
    finished = options.epochs != 0 && position.epoch >= options.epochs;
}

void Pipeline::Parts::give_back(Batch&& batch) {
    try {
        workers->recycle(std::move(batch));
    } catch (...) {
        error = std::current_exception();
        throw;
    }
}

Pipeline::Pipeline(PipelineOptions options) : parts_(std::make_unique<Parts>()) {
    parts_->options = std::move(options);
    PipelineOptions& given = parts_->options;
    const HostShare share = host_share();
    complete(given, share).throw_if_failed();
    find_header(given, parts_->header).throw_if_failed();
    std::vector<std::unique_ptr<Parser>> parsers;
    make_parsers(given, parts_->header, parsers).throw_if_failed();
    if (!given.cache.empty()) {
        auto cache = make_source_cache(given.cache);
        cache.status().throw_if_failed();
        parts_->cache = std::move(cache).value();
    }
    parts_->warnings = find_waste(given, share);
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
    // The standard library adds the timeout to the present time. The sum would overflow for nanoseconds::max().
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
    parts.check(outcome);
    if (outcome.ends_epoch) {
        parts.end_epoch(outcome);
        return false;
    }
    parts.give_back(std::exchange(batch, std::move(outcome.batch)));
    if (batch.counted() == 0) {
        parts.warn_about_empty_batch(outcome);
    }
    ++parts.position.step;
    ++parts.statistics.batches;
    parts.statistics.records += batch.counted();
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
