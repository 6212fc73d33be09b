// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/mpi/mpi_rendezvous.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "collectives/interruption.hpp"
#include "collectives/membership.hpp"
#include "collectives/mpi/keep_for_mpi.hpp"
#include "collectives/polling_pause.hpp"
#include "collectives/wire.hpp"

// The protocol of a rendezvous: the lowest member sends a question to every other member. Each member answers with its
// list of members and waits for the verdict. The messages contain the following, with numbers in the machine's byte
// order:
//
//   question  attempt (32 bits), the lowest member's timeout in milliseconds (32 bits, more than 0)
//   answer    attempt, hash of the list (64 bits), the list as text
//   verdict   attempt, 0 (32 bits), and a failure (wire.hpp) unless all members are present and have the same list
//
// `attempt` is the number of the rendezvous, counted by the process of the lowest member. Answers and verdicts repeat
// the number of their question. Members can therefore recognise messages of an earlier rendezvous that was given up,
// and ignore them.

namespace rueda::collectives {
namespace {

using Clock = std::chrono::steady_clock;

/// The maximum length of a message that a member receives. The text of a failure has at most 4096 bytes.
constexpr std::size_t kMostMessageBytes = 8192;
/// The maximum length of a list as text. describe_ranks() shows at most 32 ranks.
constexpr std::size_t kMostListText = 1024;
/// The time limit for sending a small message, and for receiving a message after its beginning has arrived.
constexpr std::chrono::milliseconds kTransferTime{2000};

/// The 64-bit FNV-1a hash (Fowler, Noll, Vo) of a list of ranks.
std::uint64_t hash_of(std::span<const int> ranks) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const std::byte byte : std::as_bytes(ranks)) {
        hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
    }
    return hash;
}

std::int32_t in_milliseconds(std::chrono::milliseconds time) {
    constexpr std::chrono::milliseconds::rep kMost = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int32_t>(std::clamp<std::chrono::milliseconds::rep>(time.count(), 1, kMost));
}

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

/// Returns the name of a member for error texts, for example "rank 3 of those that were launched".
std::string name_of(const RendezvousPlan& plan, int rank) {
    return fmt::format("rank {} of {}", rank, plan.is_by_list ? "those that were launched" : "the communicator");
}

Status damaged(const RendezvousPlan& plan, int rank) {
    return failure(ErrorCode::internal,
                   "start: {} has sent a message that no Rueda sends: do all ranks run the same build of Rueda?",
                   name_of(plan, rank));
}

/// Sends and receives the messages of one rank in a rendezvous. A receive is started only after its message has
/// arrived. So no receive stays open after the rendezvous, and none can get a message of a later rendezvous. Threads:
/// only one thread may use an object.
class RendezvousMessages {
public:
    RendezvousMessages(MpiApi& mpi, MPI_Comm communicator) : mpi_(mpi), communicator_(communicator) {}
    ~RendezvousMessages() {
        for (auto& message : sent_) {
            keep_for_mpi(std::move(message));
        }
    }
    RendezvousMessages(const RendezvousMessages&) = delete;
    RendezvousMessages& operator=(const RendezvousMessages&) = delete;

    Status send(int to, Bytes bytes) {
        auto message = std::make_unique<Message>(Message{std::move(bytes), MPI_REQUEST_NULL});
        auto started = mpi_.isend(message->bytes, to, kRendezvousTag, communicator_);
        RUEDA_RETURN_IF_FAILED(started.status());
        message->request = started.value();
        sent_.push_back(std::move(message));
        return {};
    }

    [[nodiscard]] bool have_left() {
        std::erase_if(sent_, [this](const auto& message) {
            const auto state = mpi_.test_message(message->request);
            return state.is_ok() && state.value().complete;
        });
        return sent_.empty();
    }

    /// Returns the next message from rank `from`, or nothing if no message has arrived.
    Result<std::optional<Bytes>> receive(int from) {
        const auto found = mpi_.probe(from, kRendezvousTag, communicator_);
        RUEDA_RETURN_IF_FAILED(found.status());
        if (!found.value()) {
            return std::optional<Bytes>();
        }
        if (found.value()->bytes > kMostMessageBytes) {
            return std::optional(Bytes());  // the caller treats an empty message as damaged
        }
        auto message = std::make_unique<Message>(Message{Bytes(found.value()->bytes), MPI_REQUEST_NULL});
        auto started = mpi_.irecv(message->bytes, from, kRendezvousTag, communicator_);
        RUEDA_RETURN_IF_FAILED(started.status());
        message->request = started.value();
        const Clock::time_point deadline = Clock::now() + kTransferTime;
        for (;;) {
            const auto state = mpi_.test_message(message->request);
            if (state.is_ok() && state.value().complete) {
                return std::optional(std::move(message->bytes));
            }
            if (!state.is_ok() || Clock::now() >= deadline) {
                keep_for_mpi(std::move(message));
                return state.is_ok() ? failure(ErrorCode::aborted, "start: a message from rank {} did not arrive", from)
                                     : state.status();
            }
            ::sched_yield();
        }
    }

private:
    struct Message {
        Bytes bytes;
        MPI_Request request;
    };

    MpiApi& mpi_;
    const MPI_Comm communicator_;
    std::vector<std::unique_ptr<Message>> sent_;
};

/// The work of the lowest member. It asks the other members, compares their lists with its own, and sends the verdict
/// to all members that have answered. These members are still waiting, because they wait longer than the lowest member
/// does.
class LowestMember final : public Rendezvous {
public:
    LowestMember(MpiApi& mpi, RendezvousPlan plan, std::int32_t attempt, RendezvousTime now)
        : plan_(std::move(plan)),
          attempt_(attempt),
          deadline_(now + plan_.timeout),
          messages_(mpi, plan_.communicator) {
        for (const int rank : std::span(plan_.members).subspan(1)) {
            others_.push_back({rank, false, false, ""});
        }
    }

    std::optional<Status> step(RendezvousTime now) override {
        if (!verdict_) {
            if (const Status status = look(now); !status.is_ok()) {
                give_up();
                verdict_ = status;
            }
        }
        return verdict_;
    }
    void give_up() override {
        end(failure(ErrorCode::aborted, "start: {} has given up", name_of(plan_, plan_.members.front())));
    }
    bool have_messages_left() override { return messages_.have_left(); }

private:
    struct Other {
        int rank;
        bool has_answered;
        bool is_different;  ///< whether the member's list differs from this rank's list
        std::string list;
    };

    Status look(RendezvousTime now) {
        if (!std::exchange(has_asked_, true)) {
            RUEDA_RETURN_IF_FAILED(ask());
        }
        bool have_all_answered = true;
        for (Other& other : others_) {
            RUEDA_RETURN_IF_FAILED(hear(other));
            have_all_answered = have_all_answered && other.has_answered;
        }
        if (have_all_answered || now >= deadline_) {
            end(conclusion());
        }
        return {};
    }
    Status ask() {
        for (const Other& other : others_) {
            WireWriter question;
            question.number(attempt_);
            question.number(in_milliseconds(plan_.timeout));
            RUEDA_RETURN_IF_FAILED(messages_.send(other.rank, std::move(question).take()));
        }
        return {};
    }
    /// Receives messages until the answer to the current question has arrived. Answers to earlier questions may arrive
    /// before it.
    Status hear(Other& other) {
        while (!other.has_answered) {
            auto message = messages_.receive(other.rank);
            RUEDA_RETURN_IF_FAILED(message.status());
            if (!message.value()) {
                return {};
            }
            WireReader answer(*message.value());
            const auto attempt = answer.number<std::int32_t>();
            const auto hash = answer.number<std::uint64_t>();
            other.list = base::printable(answer.text(kMostListText), kMostListText);
            if (!answer.complete()) {
                return damaged(plan_, other.rank);
            }
            other.has_answered = attempt == attempt_;
            other.is_different = hash != hash_of(plan_.members);
        }
        return {};
    }
    [[nodiscard]] Status conclusion() const {
        std::vector<int> missing;
        for (const Other& other : others_) {
            if (!other.has_answered) {
                missing.push_back(other.rank);
            } else if (other.is_different) {
                return lists_differ(plan_.members.front(), describe_ranks(plan_.members), other.rank, other.list);
            }
        }
        return missing.empty() ? Status()
                               : failure(ErrorCode::timeout,
                                         "start: some ranks did not come within {3} s (RUEDA_START_TIMEOUT): {2}; the "
                                         "ranks {1} are {0}",
                                         describe_ranks(plan_.members),
                                         plan_.is_by_list ? "that are to be a job" : "of the communicator",
                                         describe_ranks(missing), seconds(plan_.timeout));
    }
    void end(const Status& verdict) {
        verdict_ = verdict;
        for (const Other& other : others_) {
            if (other.has_answered) {
                WireWriter message;
                message.number(attempt_);
                message.number(std::int32_t{0});
                message.append(verdict.is_ok() ? Bytes() : encode_failure(verdict));
                // A member that gets no verdict ends at its own deadline, so a failure to send is ignored.
                static_cast<void>(messages_.send(other.rank, std::move(message).take()).is_ok());
            }
        }
    }

    const RendezvousPlan plan_;
    const std::int32_t attempt_;
    const RendezvousTime deadline_;
    RendezvousMessages messages_;
    std::vector<Other> others_;
    bool has_asked_ = false;
    std::optional<Status> verdict_;
};

/// The work of every other member. It answers the lowest member's questions until it gets the verdict or its deadline
/// passes. It also answers questions of earlier rendezvous, because only the lowest member knows which question is the
/// current one.
class OtherMember final : public Rendezvous {
public:
    OtherMember(MpiApi& mpi, RendezvousPlan plan, RendezvousTime now)
        : plan_(std::move(plan)),
          deadline_(now + plan_.timeout + kRendezvousGrace),
          messages_(mpi, plan_.communicator) {}

    std::optional<Status> step(RendezvousTime now) override {
        while (!verdict_) {
            auto message = messages_.receive(plan_.members.front());
            if (!message.is_ok()) {
                verdict_ = message.status();
            } else if (message.value()) {
                hear(*message.value(), now);
            } else {
                break;
            }
        }
        if (!verdict_ && now >= deadline_) {
            verdict_ = failure(ErrorCode::timeout,
                               "start: {} did not answer within {} s (RUEDA_START_TIMEOUT): it has not called init{}",
                               name_of(plan_, plan_.members.front()), seconds(plan_.timeout),
                               plan_.is_by_list ? ", or with a list that this rank is not in" : "");
        }
        return verdict_;
    }
    void give_up() override {}
    bool have_messages_left() override { return messages_.have_left(); }

private:
    void hear(std::span<const std::byte> bytes, RendezvousTime now) {
        WireReader message(bytes);
        const auto attempt = message.number<std::int32_t>();
        const auto timeout = message.number<std::int32_t>();
        if (!message.intact() || timeout < 0 || (timeout > 0 && !message.complete())) {
            verdict_ = damaged(plan_, plan_.members.front());
        } else if (timeout > 0) {
            answer(attempt, std::chrono::milliseconds(timeout), now);
        } else if (answered_ == attempt) {
            verdict_ = message.complete() ? Status() : parse_failure(bytes.subspan(sizeof attempt + sizeof timeout));
        }
    }
    /// Answers a question. Afterwards this rank waits longer than the lowest member's time limit, so that the verdict
    /// can arrive.
    void answer(std::int32_t attempt, std::chrono::milliseconds timeout, RendezvousTime now) {
        answered_ = attempt;
        deadline_ = std::max(deadline_, now + timeout + kRendezvousGrace);
        WireWriter message;
        message.number(attempt);
        message.number(hash_of(plan_.members));
        message.text(describe_ranks(plan_.members));
        if (const Status sent = messages_.send(plan_.members.front(), std::move(message).take()); !sent.is_ok()) {
            verdict_ = sent;
        }
    }

    const RendezvousPlan plan_;
    RendezvousTime deadline_;
    RendezvousMessages messages_;
    std::optional<std::int32_t> answered_;  ///< the number of the last question that this member answered
    std::optional<Status> verdict_;
};

/// Waits until MPI has sent this rank's messages, because other members may be waiting for them.
void see_off(Rendezvous& rendezvous) {
    const Clock::time_point deadline = Clock::now() + kTransferTime;
    while (!rendezvous.have_messages_left() && Clock::now() < deadline) {
        ::sched_yield();
    }
}

}  // namespace

std::unique_ptr<Rendezvous> begin_rendezvous(MpiApi& mpi, RendezvousPlan plan, std::int32_t attempt,
                                             RendezvousTime now) {
    if (plan.own_rank == plan.members.front()) {
        return std::make_unique<LowestMember>(mpi, std::move(plan), attempt, now);
    }
    return std::make_unique<OtherMember>(mpi, std::move(plan), now);
}

Status rendezvous_of_members(MpiApi& mpi, const RendezvousPlan& plan, const std::function<Status()>& go_on) {
    // memory_order_relaxed is enough, because the counter only gives each rendezvous of this process a different
    // number.
    static std::atomic<std::int32_t> attempts{0};
    const std::int32_t attempt = attempts.fetch_add(1, std::memory_order_relaxed) + 1;
    const auto rendezvous = begin_rendezvous(mpi, plan, attempt, Clock::now());
    Clock::time_point next_question = Clock::now() + kInterruptionInterval;
    PollingPause pause;
    std::optional<Status> result;
    while (!(result = rendezvous->step(Clock::now()))) {
        if (Clock::now() >= next_question) {
            next_question = Clock::now() + kInterruptionInterval;
            if (const Status status = go_on(); !status.is_ok()) {
                rendezvous->give_up();
                result = status;
                break;
            }
        }
        pause.wait();
    }
    see_off(*rendezvous);
    return *result;
}

}  // namespace rueda::collectives
