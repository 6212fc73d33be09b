// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The input pipeline: from sources to batches.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/data/batch.hpp"
#include "rueda/data/formats.hpp"
#include "rueda/data/source.hpp"

namespace rueda::data {

/// The position of a pipeline between two batches. A pipeline has no other state. Save the position of one rank in the
/// checkpoint: ranks that took the same number of batches have the same position. (If there are several lanes, there is
/// an exception near the end of an epoch: see docs/data.md.) The position stays valid if the number of ranks changes.
struct Position {
    std::int64_t epoch = 0;
    std::int64_t step = 0;          ///< number of batches that the caller has taken in this epoch
    std::uint64_t fingerprint = 0;  ///< identifies the options that determine the order of the samples

    [[nodiscard]] bool operator==(const Position&) const = default;
    /// Returns the position as one line of text, for a checkpoint.
    [[nodiscard]] RUEDA_API std::string to_text() const;
    /// Parses a line that to_text() returned. Throws InvalidArgument for any other text.
    [[nodiscard]] RUEDA_API static Position from_text(std::string_view text);
};

/// What happens to the last samples of an epoch if they do not fill a batch.
enum class Remainder : std::int32_t {
    keep,  ///< the last samples form a smaller batch
    drop,  ///< the epoch ends before the first batch that is not full
    pad,   ///< if a batch is not full, each rank's part is filled up with rows of zeros (and empty texts). So all
           ///< batches of a rank have the same number of rows. A column says which rows are samples; see
           ///< PipelineOptions::weights. Rows in place of malformed records are padding, too
};

struct PipelineOptions {
    std::vector<Source> sources;  ///< for example files("train-*.tfrecord")
    Format format;
    std::int64_t batch = 0;  ///< number of samples in one step, over all ranks; ≥ size
    int rank = 0;            ///< usually rueda::rank()
    int size = 1;            ///< usually rueda::size()
    std::uint64_t seed = 0;  ///< seed of the permutations; must be the same on every rank
    /// number of samples that are permuted together, summed over all lanes (see `lanes`). The order of the sources is
    /// permuted too, unless a source is a FIFO. 0: the samples keep their order
    std::int64_t shuffle = 0;
    /// the number of lanes: the sources are divided into this many sequences. At most the number of sources. If this is
    /// a multiple of `size`, each rank reads only its own sources. If this is 1, every rank reads all sources
    std::int64_t lanes = 1;
    Remainder remainder = Remainder::keep;
    bool drop_remainder = false;  ///< true: the same as `remainder` = Remainder::drop
    /// With Remainder::pad, each batch has a column of float32 with this name. Its value is 1 for a sample, and 0 for
    /// padding. In loss, gradient and metrics, multiply each row by this weight. average_weight() in
    /// rueda/data/agree.hpp computes how much a rank's mean counts in the average over the ranks. The column is added
    /// after `maps`, which must not add a column of the same name.
    std::string weights = "weight";
    /// number of epochs; 0: no end. If this rank gets no batch in an epoch, the pipeline warns. This is no error,
    /// because other ranks may have batches in this epoch. With the value 0 and without FIFOs, 100 epochs in a row
    /// without a batch, within 10 s, are an error: a loop that waits for a batch would never end
    std::int64_t epochs = 0;
    /// The number of malformed records that are left out in each epoch; a further malformed record is an error. Each
    /// rank counts its own malformed records. The count begins at 0 in each epoch, and at the start of the pipeline if
    /// it starts in the middle of an epoch. Options that do not fit the files, such as the name of a tensor that a file
    /// does not have, are an error whatever the limit.
    std::int64_t malformed_limit = 0;
    /// number of threads that parse; 0: the number of usable cores, but at most 8. After init(), the ranks of a host
    /// divide the cores: 0 then stands for threads_per_rank(), but at most 8
    int threads = 0;
    /// the largest number of batches that the pipeline prepares before the caller takes them; 0: threads + 2
    std::int64_t prefetch = 0;
    /// For each batch, a thread calls these functions in their order. Several threads may call them at the same time,
    /// for different batches.
    std::vector<std::function<void(Batch&)>> maps = {};
    /// where the arrays of batches lie: a null pointer stands for ordinary memory. resident_memory() in
    /// rueda/data/resident.hpp stands for memory that all ranks of the host share. A program can also pass functions of
    /// its own, for example cudaMallocHost and cudaFreeHost for pinned memory
    std::shared_ptr<const BatchMemory> memory = {};
    /// where to keep the decompressed bytes of the files for later epochs: "memory" (of this process), or a folder,
    /// where they stay for later jobs. All ranks of a host can share this folder. Empty: nowhere. There is no cache for
    /// FIFOs, for bytes in memory, and for the formats Safetensors and WholeFiles
    std::string cache = {};
    /// the position at which the pipeline begins. The position's fingerprint must be that of these options; a
    /// fingerprint of 0 is not checked
    Position start = {};
};

/// How much work a pipeline did, and how long each of its stages took.
struct Statistics {
    std::int64_t batches = 0;    ///< number of batches that were taken
    std::int64_t records = 0;    ///< number of records in the batches that were taken, without padding
    std::int64_t bytes = 0;      ///< number of bytes of these records before parsing
    std::int64_t malformed = 0;  ///< number of malformed records that were left out
    double seconds = 0;          ///< time since the first call of next()
    double consumer_waited = 0;  ///< seconds in which next() waited
    double reading = 0;  ///< seconds for reading, decompressing, finding and permuting records; sum of all lanes
    double parsing = 0;  ///< seconds for parsing records; sum of all threads
    double mapping = 0;  ///< seconds in the functions of PipelineOptions::maps; sum of all threads
    double starved = 0;  ///< seconds in which threads that parse waited for samples of the lanes; sum of all threads
    int lanes = 0;       ///< number of lanes that this rank reads
    int threads = 0;     ///< number of threads that parse
    std::int64_t cache_opened = 0;   ///< how often a file's copy in the cache was opened instead of the file
    std::int64_t cache_refused = 0;  ///< how often the cache could not keep a copy
    std::string cache_refusal = {};  ///< why the cache could not keep the first of these copies
};

/// Reads the sources with threads of its own and hands out batches. The batches depend on the options alone, not on the
/// number of threads or on timing. docs/data.md explains how to choose the options.
///
/// Threads: one thread at a time may call the functions.
class RUEDA_API Pipeline {
public:
    /// Starts the threads. Throws InvalidArgument if an option cannot be used, or if `start` has the fingerprint of
    /// other options; the message names the option. Throws ResourceExhausted if the system refuses a thread.
    explicit Pipeline(PipelineOptions options);
    Pipeline(Pipeline&&) noexcept;
    Pipeline& operator=(Pipeline&&) noexcept;
    /// Stops the threads, and drops batches that were not taken.
    ~Pipeline();

    /// Waits for the next batch and puts it into `batch`, whose old memory is used again. Returns false at the end of
    /// each epoch, and at every call after the last epoch. If the result is false, `batch` is unchanged.
    ///
    /// With Remainder::keep, the last batch of an epoch may be smaller than the other batches. If it has fewer samples
    /// than there are ranks, this rank's part of the batch may be empty (rows() is 0). It is also empty if all of this
    /// rank's records in the step are malformed and are left out. The log and warnings() say so once.
    ///
    /// Throws InvalidArgument if there are more malformed records than the limit, or if a source cannot be read or does
    /// not fit the options of the format. Also throws it if the number of epochs is not limited and no epoch has a
    /// batch (see PipelineOptions::epochs). If a map function or a function of BatchMemory has thrown an exception,
    /// next() throws this exception. Later calls throw the same error.
    bool next(Batch& batch);

    /// Waits until next() would return at once, but not longer than `timeout`. Returns whether next() would return at
    /// once. A program that must also handle other events, for example signals, calls this function repeatedly with a
    /// short timeout.
    bool wait_for(std::chrono::nanoseconds timeout);

    /// Returns the position after the last batch that was taken. After next() returned false, this is the beginning of
    /// the next epoch.
    [[nodiscard]] Position position() const;
    /// Returns whether all epochs have ended.
    [[nodiscard]] bool finished() const;
    [[nodiscard]] Statistics statistics() const;
    /// Returns the numbers of statistics() as one line for people. The line names the slowest stage if the consumer
    /// waited.
    [[nodiscard]] std::string summary() const;
    /// Returns one line for each choice of options that wastes time or memory, and one line for the first event of each
    /// of these kinds: a batch without samples of this rank, an epoch without a batch, a copy that the cache could not
    /// keep, and a damaged copy. (The two lines about the cache appear at the end of an epoch.) The result is valid
    /// until the next call of next().
    [[nodiscard]] std::span<const std::string> warnings() const;

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace rueda::data
