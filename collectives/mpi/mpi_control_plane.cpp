// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/mpi/mpi_control_plane.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "collectives/mpi/call_watch.hpp"
#include "collectives/mpi/keep_for_mpi.hpp"
#include "collectives/mpi/mpi_rendezvous.hpp"
#include "collectives/mpi/mpi_transport.hpp"
#include "collectives/polling_pause.hpp"
#include "collectives/wire.hpp"

namespace rueda::collectives {
namespace {

using Clock = std::chrono::steady_clock;

/// Whether Rueda initialised MPI. This state is global, because a process has only one MPI.
struct Ownership {
    std::shared_ptr<MpiApi> mpi;  ///< the MPI that Rueda initialised; null if the program initialised MPI
    pid_t process = 0;            ///< the process that initialised MPI; a forked child must not finalise the MPI of its
                                  ///< parent
    bool finalize_at_exit = false;
};
Ownership& ownership() {
    // The object is never destroyed, because the exit handler reads it.
    static auto* const instance = new Ownership();
    return *instance;
}

void finalize_at_exit() {
    const Ownership& owner = ownership();
    if (owner.finalize_at_exit && owner.process == ::getpid() && !owner.mpi->finalized()) {
        static_cast<void>(owner.mpi->finalize().is_ok());  // a failure is ignored, because the process is exiting
    }
}

const char* thread_level_name(int level) {
    switch (level) {
        case MPI_THREAD_SINGLE:
            return "MPI_THREAD_SINGLE";
        case MPI_THREAD_FUNNELED:
            return "MPI_THREAD_FUNNELED";
        case MPI_THREAD_SERIALIZED:
            return "MPI_THREAD_SERIALIZED";
        case MPI_THREAD_MULTIPLE:
            return "MPI_THREAD_MULTIPLE";
        default:
            return "an unknown thread level";
    }
}

/// Finds out which ABI an MPI has, from the text of MPI_Get_library_version.
std::optional<MpiAbi> abi_of(const std::string& version) {
    if (version.find("Open MPI") != std::string::npos) {
        return MpiAbi::open_mpi;
    }
    for (const char* const name : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
        if (version.find(name) != std::string::npos) {
            return MpiAbi::mpich;
        }
    }
    return std::nullopt;
}

/// Checks that the loaded MPI has the ABI of the headers that the plugin was compiled with. An MPI with another ABI
/// would not understand the plugin's handles.
Status check_abi(const std::string& version) {
    if (abi_of(version) != own_mpi_abi()) {
        return failure(
            ErrorCode::unsupported,
            "the MPI of this process is {}, but the MPI plugin was built for {}: build Rueda with that MPI, or "
            "name another plugin by RUEDA_MPI_PLUGIN",
            short_mpi_version(version), name_of(own_mpi_abi()));
    }
    return {};
}

/// How long a rank waits in its shutdown before it logs that it waits for other ranks.
constexpr std::chrono::milliseconds kClosingWarning = std::chrono::seconds(10);

/// The time limit for cancelling receives. It can be short, because cancelling needs no other rank.
constexpr std::chrono::milliseconds kCancelling = std::chrono::seconds(10);

/// Memory that MPI reads and writes until the request of an operation is complete.
struct Buffers {
    Bytes sent;
    Bytes received;
    std::vector<int> counts;
    std::vector<int> offsets;
};

/// How many messages this rank sent to each rank, and how many all other ranks sent to this rank.
struct MessageCounts {
    std::vector<std::uint32_t> sent;
    std::uint32_t received;
};

class MpiControlPlane final : public ControlPlane {
public:
    MpiControlPlane(std::shared_ptr<MpiApi> mpi, const MpiControlPlaneOptions& options, std::size_t chunk_bytes)
        : mpi_(std::move(mpi)), options_(options), chunk_bytes_(chunk_bytes), life_(std::make_shared<MpiLife>()) {}

    Status open() {
        RUEDA_RETURN_IF_FAILED(find_launch_numbers());
        auto communicator = create_communicator();
        RUEDA_RETURN_IF_FAILED(communicator.status());
        communicator_ = communicator.value();
        auto rank = mpi_->rank(communicator_);
        auto size = mpi_->size(communicator_);
        auto ranks = mpi_->world_ranks(communicator_);
        auto key = mpi_->call_at_finalize([life = life_] { life->finalized.store(true); });
        RUEDA_RETURN_IF_FAILED(rank.status());
        RUEDA_RETURN_IF_FAILED(size.status());
        RUEDA_RETURN_IF_FAILED(ranks.status());
        RUEDA_RETURN_IF_FAILED(key.status());
        rank_ = rank.value();
        size_ = size.value();
        launch_ranks_ = std::move(ranks).value();
        key_ = key.value();
        description_ = fmt::format("mpi ({})", short_mpi_version(mpi_->library_version()));
        transport_ = std::make_unique<MpiTransport>(mpi_, life_, communicator_, rank_, size_);
        return {};
    }
    [[nodiscard]] const std::vector<int>& launch_ranks() const { return launch_ranks_; }
    [[nodiscard]] int launch_size() const { return launch_size_; }

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] std::string description() const override { return description_; }

    Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override {
        return guarded<std::vector<Bytes>>("allgather", [&] { return allgather_in_chunks(mine); });
    }
    Result<Bytes> broadcast(std::span<const std::byte> mine, int root) override {
        if (root < 0 || root >= size_) {
            return failure(ErrorCode::invalid_argument, "broadcast: root {} does not exist, expected 0 to {}", root,
                           size_ - 1);
        }
        return guarded<Bytes>("broadcast", [&] { return broadcast_in_chunks(mine, root); });
    }
    Status barrier() override { return barrier_within(options_.operation_timeout); }
    Status barrier_within(std::chrono::milliseconds limit) override {
        return guarded<Bytes>(
                   "barrier",
                   [&]() -> Result<Bytes> {
                       RUEDA_RETURN_IF_FAILED(wait(mpi_->ibarrier(communicator_)));
                       return Bytes();
                   },
                   std::min(limit, options_.operation_timeout))
            .status();
    }

    Result<bool> is_of_same_ranks(std::span<const std::byte> communicator) override {
        if (life_->finalized.load()) {
            return false;
        }
        auto level = mpi_->query_thread();  // MPI allows this call at any thread level
        RUEDA_RETURN_IF_FAILED(level.status());
        if (level.value() != MPI_THREAD_MULTIPLE) {
            return failure(ErrorCode::unsupported,
                           "init: this process is in a job already, and MPI gives {}: the communicator cannot be "
                           "compared while another thread of Rueda's may be in MPI; initialise MPI with "
                           "MPI_THREAD_MULTIPLE, or ask rueda::initialized() before",
                           thread_level_name(level.value()));
        }
        auto given = read_communicator(communicator);
        RUEDA_RETURN_IF_FAILED(given.status());
        return mpi_->are_congruent(communicator_, given.value());
    }

    [[nodiscard]] bool reaches_other_hosts() const override { return true; }
    Transport* transport() override { return transport_.get(); }

    void close(bool after_failure) override {
        if (std::exchange(closed_, true)) {
            return;
        }
        Ownership& owner = ownership();
        if (after_failure || !failed_.is_ok() || !transport_->failed().is_ok()) {
            transport_->abandon();
            // After a failure MPI is not finalised, because MPI_Finalize may hang or print errors.
            owner = Ownership();
            return;
        }
        if (life_->finalized.load()) {
            return;
        }
        if (const Status ended = end_messages(); !ended.is_ok()) {
            warn(fmt::format(
                "{}; every rank had its results, but MPI is not finalised on this one, so mpirun may report the job as "
                "failed: look for a process of the job that was stopped or cut off as it ended",
                ended.message()));
            owner = Ownership();
            return;
        }
        // The job already has its results, so a failure of the calls below is ignored.
        static_cast<void>(mpi_->release_finalize_key(key_).is_ok());
        static_cast<void>(mpi_->free_communicator(communicator_).is_ok());
        if (owner.mpi == nullptr) {
            return;
        }
        if (options_.finalize == MpiFinalize::at_exit) {
            owner.finalize_at_exit = true;
        } else {
            static_cast<void>(mpi_->finalize().is_ok());
            owner.mpi.reset();
        }
    }

private:
    Status find_launch_numbers() {
        auto rank = mpi_->rank(MPI_COMM_WORLD);
        auto size = mpi_->size(MPI_COMM_WORLD);
        RUEDA_RETURN_IF_FAILED(rank.status());
        RUEDA_RETURN_IF_FAILED(size.status());
        launch_rank_ = rank.value();
        launch_size_ = size.value();
        return {};
    }

    /// The MPI calls that create a communicator cannot be interrupted. The members therefore first check that all of
    /// them are present (mpi_rendezvous.hpp). This check can be interrupted.
    Result<MPI_Comm> create_communicator() {
        const Membership& asked = options_.membership;
        if (!asked.communicator.empty()) {
            auto given = read_communicator(asked.communicator);
            RUEDA_RETURN_IF_FAILED(given.status());
            return duplicate_of(given.value(), /*by_list=*/false);
        }
        if (asked.has_list) {
            auto members = check_members(asked.ranks, launch_rank_, launch_size_);
            RUEDA_RETURN_IF_FAILED(members.status());
            if (static_cast<int>(members.value().size()) < launch_size_) {
                RUEDA_RETURN_IF_FAILED(rendezvous(MPI_COMM_WORLD, launch_rank_, members.value(), /*by_list=*/true));
                const CallWatch watch(rules_of_creation(), "MPI_Comm_create_group", options_.operation_timeout);
                return mpi_->communicator_of(members.value(), kRendezvousTag);
            }
        }
        return duplicate_of(MPI_COMM_WORLD, /*by_list=*/true);
    }

    Result<MPI_Comm> duplicate_of(MPI_Comm communicator, bool by_list) {
        auto rank = mpi_->rank(communicator);
        auto size = mpi_->size(communicator);
        RUEDA_RETURN_IF_FAILED(rank.status());
        RUEDA_RETURN_IF_FAILED(size.status());
        std::vector<int> all(static_cast<std::size_t>(size.value()));
        std::iota(all.begin(), all.end(), 0);
        RUEDA_RETURN_IF_FAILED(rendezvous(communicator, rank.value(), std::move(all), by_list));
        const CallWatch watch(rules_of_creation(), "MPI_Comm_dup", options_.operation_timeout);
        return mpi_->duplicate(communicator);
    }

    Status rendezvous(MPI_Comm communicator, int own_rank, std::vector<int> members, bool by_list) {
        const RendezvousPlan plan{communicator, std::move(members), own_rank, by_list, options_.operation_timeout};
        return rendezvous_of_members(*mpi_, plan,
                                     [this] { return ask(options_.interruption, launch_rank_, launch_size_); });
    }

    /// Returns the rules for the MPI call that creates the communicator. These rules contain no function that
    /// interrupts the call when a launched rank ends, because that rank may belong to another job.
    MpiCallRules rules_of_creation() const { return {{}, options_.init_rules.end_process, launch_rank_, launch_size_}; }

    Result<MPI_Comm> read_communicator(std::span<const std::byte> bytes) {
        MPI_Comm communicator = MPI_COMM_NULL;
        constexpr std::size_t kBytes = sizeof(MPI_Comm);
        if (bytes.size() != kBytes) {
            return failure(ErrorCode::invalid_argument,
                           "init: the communicator has {} bytes, expected the {} of an MPI_Comm of {}", bytes.size(),
                           kBytes, name_of(own_mpi_abi()));
        }
        std::memcpy(&communicator, bytes.data(), kBytes);
        if (communicator == MPI_COMM_NULL) {
            return failure(ErrorCode::invalid_argument,
                           "init: the communicator is MPI_COMM_NULL; expected one that this process is in");
        }
        auto between = mpi_->is_intercommunicator(communicator);
        RUEDA_RETURN_IF_FAILED(between.status());
        if (between.value()) {
            return failure(ErrorCode::invalid_argument,
                           "init: the communicator is an intercommunicator; expected one of a single group: merge it "
                           "with MPI_Intercomm_merge");
        }
        return communicator;
    }

    /// Runs the body of an operation. Returns a failure instead if an earlier operation failed or MPI was finalised.
    /// Throws nothing.
    template <class T, class Body>
    Result<T> guarded(const char* operation, Body body, std::optional<std::chrono::milliseconds> limit = {}) {
        if (life_->finalized.load()) {
            return failure(
                ErrorCode::not_initialized,
                "{}: the program has called MPI_Finalize while Rueda was in use: call rueda::shutdown() first",
                operation);
        }
        if (!failed_.is_ok()) {
            return failed_;
        }
        operation_ = operation;
        limit_ = limit.value_or(options_.operation_timeout);
        deadline_ = Clock::now() + limit_;
        auto buffers = std::make_unique<Buffers>();
        buffers_ = buffers.get();
        Result<T> result = Status();
        try {
            result = body();
        } catch (const std::bad_alloc&) {
            result = out_of_memory();
        } catch (const std::length_error&) {
            result = out_of_memory();
        }
        failed_ = result.status();
        if (!failed_.is_ok()) {
            transport_->fail(failed_);
            keep_for_mpi(std::move(buffers));
        }
        return result;
    }

    /// Waits until all messages of all ranks have arrived. First, the ranks tell each other how many messages they
    /// sent. Without this wait, a rank could free the communicator before a message to this rank has arrived. MPI could
    /// then deliver the message in a later communicator with the same number.
    Status end_messages() {
        operation_ = "shutdown";
        const Clock::time_point begin = Clock::now();
        limit_ = options_.operation_timeout;
        deadline_ = begin + limit_;
        warn_at_ = begin + kClosingWarning;
        // The counts are on the heap, because MPI may still use them after this function has returned with a failure.
        auto counts = std::make_unique<MessageCounts>(MessageCounts{transport_->sent_to(), 0});
        Status status = wait(mpi_->isum_scatter(counts->sent.data(), &counts->received, communicator_));
        if (!status.is_ok()) {
            keep_for_mpi(std::move(counts));
            transport_->fail(status);
            return status;
        }
        auto ended = transport_->has_ended(counts->received);
        while (ended.is_ok() && !ended.value() && Clock::now() < deadline_) {
            warn_if_late(Clock::now());
            ::sched_yield();
            ended = transport_->has_ended(counts->received);
        }
        RUEDA_RETURN_IF_FAILED(ended.status());
        if (!ended.value()) {
            return failure(ErrorCode::timeout, "shutdown: messages from or to rank {} were still under way after {} s",
                           rank_, std::chrono::duration<double>(options_.operation_timeout).count());
        }
        return transport_->cancel_receives(kCancelling);
    }

    void warn(const std::string& text) const {
        if (options_.warn) {
            options_.warn(text);
        }
    }
    /// Logs one warning if the shutdown takes long.
    void warn_if_late(Clock::time_point now) {
        if (now >= warn_at_) {
            warn_at_ = Clock::time_point::max();
            warn(
                fmt::format("shutdown: this rank has left the job, and has waited for {} s for a rank that has not; it "
                            "waits for {} s "
                            "(RUEDA_START_TIMEOUT) at most: look for a process of the job that was stopped or cut off",
                            std::chrono::duration<double>(kClosingWarning).count(),
                            std::chrono::duration<double>(options_.operation_timeout).count()));
        }
    }

    Status out_of_memory() const {
        return failure(ErrorCode::resource_exhausted, "{}: no memory for what the ranks have sent", operation_);
    }

    Result<std::vector<Bytes>> allgather_in_chunks(std::span<const std::byte> mine) {
        auto sizes = gather_sizes(mine.size());
        if (!sizes.is_ok()) {
            return sizes.status();
        }
        std::vector<Bytes> parts;
        for (const std::uint64_t bytes : sizes.value()) {
            parts.emplace_back(bytes);
        }
        const std::uint64_t longest = *std::max_element(sizes.value().begin(), sizes.value().end());
        const std::uint64_t step = std::max<std::uint64_t>(1, chunk_bytes_ / static_cast<std::uint64_t>(size_));
        for (std::uint64_t begin = 0; begin < longest; begin += step) {
            RUEDA_RETURN_IF_FAILED(gather_chunk(mine, parts, begin, step));
        }
        return parts;
    }

    Result<std::vector<std::uint64_t>> gather_sizes(std::uint64_t bytes) {
        std::vector<std::uint64_t> sizes(static_cast<std::size_t>(size_));
        const auto view = std::as_bytes(std::span(&bytes, 1));
        buffers_->sent.assign(view.begin(), view.end());
        buffers_->received.resize(sizes.size() * sizeof(bytes));
        RUEDA_RETURN_IF_FAILED(wait(mpi_->iallgather(buffers_->sent, buffers_->received.data(), communicator_)));
        std::copy(buffers_->received.begin(), buffers_->received.end(),
                  std::as_writable_bytes(std::span(sizes)).begin());
        RUEDA_RETURN_IF_FAILED(check_sizes(sizes, bytes));
        return sizes;
    }

    /// Checks sizes from other processes before this rank allocates memory for them. All ranks check the same numbers,
    /// so they all accept or all refuse them.
    Status check_sizes(std::span<const std::uint64_t> sizes, std::uint64_t own) const {
        std::uint64_t left = kMaxControlMessage;
        for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
            if (sizes[rank] > left) {
                return failure(ErrorCode::invalid_argument,
                               "allgather: the {} ranks together gave more than the allowed {} bytes; rank {} gave {}",
                               size_, kMaxControlMessage, rank, sizes[rank]);
            }
            left -= sizes[rank];
        }
        const std::uint64_t told = sizes[static_cast<std::size_t>(rank_)];
        return told == own ? Status()
                           : failure(ErrorCode::internal,
                                     "allgather: rank {} gave {} bytes, and MPI has told the ranks {}: is the MPI "
                                     "plugin of the MPI that runs the job?",
                                     rank_, own, told);
    }

    /// Exchanges the bytes [begin, begin + step) of every rank's part. A part that ends earlier contributes only the
    /// bytes that it has in this range.
    Status gather_chunk(std::span<const std::byte> mine, std::vector<Bytes>& parts, std::uint64_t begin,
                        std::uint64_t step) {
        const auto slice = [&](std::size_t bytes) {
            return bytes <= begin ? std::size_t{0} : std::min<std::size_t>(step, bytes - begin);
        };
        buffers_->counts.clear();
        buffers_->offsets.clear();
        std::size_t total = 0;
        for (const Bytes& part : parts) {
            buffers_->offsets.push_back(static_cast<int>(total));
            buffers_->counts.push_back(static_cast<int>(slice(part.size())));
            total += slice(part.size());
        }
        const auto sent = mine.subspan(std::min<std::size_t>(begin, mine.size()), slice(mine.size()));
        buffers_->sent.assign(sent.begin(), sent.end());
        buffers_->received.resize(total);
        RUEDA_RETURN_IF_FAILED(
            wait(mpi_->iallgatherv(buffers_->sent, buffers_->received.data(), buffers_->counts.data(),
                                   buffers_->offsets.data(), communicator_)));
        for (std::size_t r = 0; r < parts.size(); ++r) {
            const auto from = buffers_->received.begin() + buffers_->offsets[r];
            std::copy(from, from + buffers_->counts[r],
                      parts[r].begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(begin, parts[r].size())));
        }
        return {};
    }

    Result<Bytes> broadcast_in_chunks(std::span<const std::byte> mine, int root) {
        const std::uint64_t own = mine.size();
        const auto view = std::as_bytes(std::span(&own, 1));
        buffers_->sent.assign(view.begin(), view.end());
        RUEDA_RETURN_IF_FAILED(wait(mpi_->ibroadcast(buffers_->sent, root, communicator_)));
        std::uint64_t bytes = 0;
        std::copy(buffers_->sent.begin(), buffers_->sent.end(), std::as_writable_bytes(std::span(&bytes, 1)).begin());
        if (bytes > kMaxControlMessage) {  // all ranks have received the same number, so all ranks fail here
            return failure(ErrorCode::invalid_argument, "broadcast: rank {} gave {} bytes, expected at most {}", root,
                           bytes, kMaxControlMessage);
        }
        Bytes& data = buffers_->received;
        data.resize(bytes);
        if (rank_ == root) {
            std::copy(mine.begin(), mine.end(), data.begin());
        }
        for (std::size_t begin = 0; begin < data.size(); begin += chunk_bytes_) {
            const auto chunk = std::span(data).subspan(begin, std::min(chunk_bytes_, data.size() - begin));
            RUEDA_RETURN_IF_FAILED(wait(mpi_->ibroadcast(chunk, root, communicator_)));
        }
        return std::move(data);
    }

    Status wait(Result<MPI_Request> started) {
        if (!started.is_ok()) {
            return failure(started.status().code(), "{}: {}", operation_, started.status().message());
        }
        PollingPause pause;
        for (;;) {
            auto complete = mpi_->test(started.value());
            if (!complete.is_ok()) {
                return failure(complete.status().code(), "{}: {}", operation_, complete.status().message());
            }
            if (complete.value()) {
                return {};
            }
            const Clock::time_point now = Clock::now();
            warn_if_late(now);
            if (now >= next_question_) {
                next_question_ = now + kInterruptionInterval;
                RUEDA_RETURN_IF_FAILED(ask(options_.interruption, launch_rank_, launch_size_));
            }
            if (now >= deadline_) {
                return failure(ErrorCode::timeout, "{}: not all ranks came within {} s", operation_,
                               std::chrono::duration<double>(limit_).count());
            }
            pause.wait();
        }
    }

    const std::shared_ptr<MpiApi> mpi_;
    const MpiControlPlaneOptions options_;
    const std::size_t chunk_bytes_;
    const std::shared_ptr<MpiLife> life_;
    std::unique_ptr<MpiTransport> transport_;
    MPI_Comm communicator_ = MPI_COMM_NULL;
    int rank_ = 0;
    int size_ = 1;
    int launch_rank_ = 0;
    int launch_size_ = 1;
    std::vector<int> launch_ranks_;
    int key_ = MPI_KEYVAL_INVALID;
    std::string description_;
    const char* operation_ = "";
    std::chrono::milliseconds limit_{};  ///< the time limit of the operation in progress, which ends at `deadline_`
    Clock::time_point deadline_;
    Clock::time_point warn_at_ = Clock::time_point::max();  ///< the time at which to warn that the shutdown takes long
    Clock::time_point next_question_;
    Buffers* buffers_ = nullptr;  ///< memory of the operation in progress
    Status failed_;
    bool closed_ = false;
};

/// Initialises MPI if it is not initialised. Returns the thread level of MPI.
Result<int> initialize(const std::shared_ptr<MpiApi>& mpi, const MpiControlPlaneOptions& options) {
    if (mpi->finalized()) {
        return failure(
            ErrorCode::unsupported,
            "MPI has been finalised in this process, and cannot be initialised again: call rueda::init() once "
            "per process, and before MPI_Finalize");
    }
    if (mpi->initialized()) {
        return mpi->query_thread();
    }
    auto level = [&] {
        const CallWatch watch(options.init_rules, "MPI_Init", options.operation_timeout);
        return mpi->init_thread(MPI_THREAD_MULTIPLE);
    }();
    if (level.is_ok()) {
        ownership().mpi = mpi;
        ownership().process = ::getpid();
    }
    return level;
}

Status check_thread_level(int level, bool is_ours) {
    if (level >= MPI_THREAD_SERIALIZED) {
        return {};
    }
    return is_ours
               ? failure(ErrorCode::unsupported,
                         "this MPI gives {}, expected MPI_THREAD_MULTIPLE or MPI_THREAD_SERIALIZED: use an MPI that "
                         "was built with threads",
                         thread_level_name(level))
               : failure(ErrorCode::unsupported,
                         "the program has initialised MPI with {}, expected MPI_THREAD_MULTIPLE or "
                         "MPI_THREAD_SERIALIZED: call MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or let "
                         "rueda::init() initialise MPI",
                         thread_level_name(level));
}

}  // namespace

std::string short_mpi_version(const std::string& library_version) {
    const std::string line = library_version.substr(0, library_version.find_first_of(",\n"));
    std::string result;
    for (const char c : line) {
        const bool is_space = std::isspace(static_cast<unsigned char>(c)) != 0;
        if (!is_space) {
            result += c;
        } else if (!result.empty() && result.back() != ' ') {
            result += ' ';
        }
    }
    // Finds name and version number in texts such as "Open MPI v4.1.4" and "MPICH Version: 4.0.2" (or "Version 4.0.2").
    for (const std::string filler : {" Version: ", " Version ", " v"}) {
        const std::size_t at = result.find(filler);
        if (at != std::string::npos && at + filler.size() < result.size() &&
            std::isdigit(static_cast<unsigned char>(result[at + filler.size()])) != 0) {
            return result.replace(at, filler.size(), " ");
        }
    }
    return result.empty() ? "unknown MPI" : result;
}

Result<OpenedMpi> open_mpi_control_plane(std::shared_ptr<MpiApi> mpi, const MpiControlPlaneOptions& options,
                                         std::size_t chunk_bytes) {
    RUEDA_RETURN_IF_FAILED(check_abi(mpi->library_version()));
    auto level = initialize(mpi, options);
    if (!level.is_ok()) {
        return level.status();
    }
    Ownership& owner = ownership();
    owner.finalize_at_exit = false;
    if (Status status = check_thread_level(level.value(), owner.mpi != nullptr); !status.is_ok()) {
        if (std::exchange(owner.mpi, nullptr) != nullptr) {
            static_cast<void>(mpi->finalize().is_ok());
        }
        return status;
    }
    if (owner.mpi != nullptr && options.finalize == MpiFinalize::at_exit) {
        // Exit handlers run in reverse order of their registration. This handler is registered after MPI_Init, so it
        // runs before the handlers that MPI_Init registered.
        static const int registered = std::atexit(finalize_at_exit);
        static_cast<void>(registered);
    }
    OpenedMpi opened;
    if (mpi->is_cuda_aware()) {
        opened.note =
            "MPI can send memory of GPUs (it is CUDA-aware). Rueda does not use this: between hosts, tensors on GPUs "
            "move by NCCL, and otherwise through pinned memory of the host (docs/gpu.md)";
    }
    auto plane = std::make_unique<MpiControlPlane>(std::move(mpi), options, chunk_bytes);
    if (Status status = plane->open(); !status.is_ok()) {
        // If the requested job was invalid, or the ranks requested different jobs, MPI still works and can be used
        // again. After any other failure, MPI is neither used nor finalised.
        const bool is_as_before = status.code() == ErrorCode::invalid_argument || status.code() == ErrorCode::mismatch;
        owner.finalize_at_exit = is_as_before && options.finalize == MpiFinalize::at_exit;
        if (!is_as_before) {
            owner = Ownership();
        }
        return status;
    }
    opened.launch_ranks = plane->launch_ranks();
    opened.launch_size = plane->launch_size();
    opened.control_plane = std::move(plane);
    if (level.value() == MPI_THREAD_SERIALIZED) {
        opened.notice =
            "MPI gives MPI_THREAD_SERIALIZED, not MPI_THREAD_MULTIPLE: the program may make no MPI call of its own "
            "between "
            "rueda::init() and rueda::shutdown()";
    }
    return opened;
}

}  // namespace rueda::collectives
