// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/descriptor_exchange.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "collectives/host/sockets/descriptor_server.hpp"
#include "collectives/wire.hpp"

namespace rueda::collectives {
namespace {

constexpr std::size_t kMaxText = 1024;

/// Identifies the object that a descriptor refers to. After a rank has received a descriptor, it compares this value
/// with the value for the leader's object.
struct ObjectId {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t bytes = 0;

    friend bool operator==(const ObjectId&, const ObjectId&) = default;
};

ObjectId id_of(const struct stat& facts) {
    return {static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino),
            static_cast<std::uint64_t>(facts.st_size)};
}

std::optional<ObjectId> id_of(int fd) {
    struct stat facts {};
    return ::fstat(fd, &facts) == 0 ? std::optional(id_of(facts)) : std::nullopt;
}

/// The message in which the leader of a host tells the other ranks of its host where they get the descriptor. Ranks
/// that are not leaders send an empty offer.
struct Offer {
    std::int32_t fd = -1;  ///< The descriptor's number in the leader's process.
    ObjectId object;
    std::string name;     ///< The name of the socket or of the shm object. Empty if the leader has neither.
    std::string problem;  ///< Why there is no name. Empty if there is a name.
};

Bytes encode(const Offer& offer) {
    WireWriter writer;
    writer.number(offer.fd);
    writer.number(offer.object.device);
    writer.number(offer.object.inode);
    writer.number(offer.object.bytes);
    writer.text(offer.name);
    writer.text(base::shortened(offer.problem, kMaxText));
    return std::move(writer).take();
}

Result<Offer> parse_offer(std::span<const std::byte> bytes) {
    WireReader reader(bytes);
    Offer offer;
    offer.fd = reader.number<std::int32_t>();
    offer.object.device = reader.number<std::uint64_t>();
    offer.object.inode = reader.number<std::uint64_t>();
    offer.object.bytes = reader.number<std::uint64_t>();
    offer.name = base::printable(reader.text(kMaxText), kMaxText);
    offer.problem = base::printable(reader.text(kMaxText), kMaxText);
    if (!reader.complete()) {
        return failure(ErrorCode::internal, "the offer of the shared memory is damaged ({} bytes)", bytes.size());
    }
    return offer;
}

/// The result of the exchange on one rank.
struct Outcome {
    base::UniqueFd fd;
    std::string problems;  ///< the ways that failed, and the reasons: "way: reason; way: reason"

    void add_problem(const char* way, const std::string& text) {
        problems += fmt::format("{}{}: {}", problems.empty() ? "" : "; ", way, text);
    }
};

/// Tries one way to get the descriptor. Keeps the descriptor only if it refers to the expected object.
template <class Fetch>
void take_way(Outcome& outcome, const char* way, bool allowed, const ObjectId& expected, Fetch fetch) {
    if (outcome.fd.is_open()) {
        return;
    }
    if (!allowed) {
        outcome.add_problem(way, "not allowed");
        return;
    }
    Result<base::UniqueFd> fetched = fetch();
    if (!fetched.is_ok()) {
        outcome.add_problem(way, fetched.status().message());
    } else if (id_of(fetched.value().value()) != expected) {
        outcome.add_problem(way, "received another object than the leader's");
    } else {
        outcome.fd = std::move(fetched).value();
    }
}

Result<base::UniqueFd> duplicated(int fd) {
    base::UniqueFd copy = base::duplicate(fd);
    if (!copy.is_open()) {
        return system_failure(ErrorCode::resource_exhausted, "dup");
    }
    return copy;
}

/// Checks the object before it is opened. Opening a wrong object, for example a device or a pipe, could have side
/// effects.
Result<base::UniqueFd> open_by_proc(int pid, int fd, const ObjectId& expected) {
    const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) {
        return system_failure(ErrorCode::unsupported, fmt::format("stat of {}", path));
    }
    if (id_of(facts) != expected) {
        return failure(ErrorCode::unsupported, "{} is another object than the leader's", path);
    }
    base::UniqueFd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!opened.is_open()) {
        return system_failure(ErrorCode::unsupported, fmt::format("open of {}", path));
    }
    return opened;
}

/// A shared-memory object from shm_open. The destructor removes the object's name. Threads: only one thread may use an
/// object.
class NamedMemory {
public:
    NamedMemory() = default;
    NamedMemory(const NamedMemory&) = delete;
    NamedMemory& operator=(const NamedMemory&) = delete;
    ~NamedMemory() {
        if (!name_.empty()) {
            ::shm_unlink(name_.c_str());
        }
    }

    Result<base::UniqueFd> create(std::uint64_t bytes) {
        auto token = random_token();
        if (!token.is_ok()) {
            return token.status();
        }
        const std::string name = "/rueda-" + token.value();
        base::UniqueFd fd(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (!fd.is_open()) {
            return system_failure(ErrorCode::unsupported, "shm_open");
        }
        name_ = name;
        // Reserves the memory now. If /dev/shm is full, this call fails. Without this call, the first access to the
        // memory would cause a bus error.
        const int error = ::posix_fallocate(fd.value(), 0, static_cast<off_t>(bytes));
        if (error != 0) {
            return system_failure(ErrorCode::resource_exhausted, fmt::format("reserving {} bytes in /dev/shm", bytes),
                                  error);
        }
        return fd;
    }
    [[nodiscard]] const std::string& name() const { return name_; }

private:
    std::string name_;
};

/// Runs the steps of share_descriptor(). Threads: only one thread may use an object.
class Exchange {
public:
    Exchange(ControlPlane& control_plane, const LocalGroup& group, int fd, Deadline deadline,
             const DescriptorWays& ways)
        : control_plane_(control_plane), group_(group), given_(fd), deadline_(deadline), ways_(ways) {}

    Result<base::UniqueFd> run() {
        Outcome outcome;
        RUEDA_RETURN_IF_FAILED(pass_given(outcome));
        if (!everybody_has_it() && ways_.shm && any_memory_) {
            RUEDA_RETURN_IF_FAILED(pass_named(outcome));
        }
        if (!everybody_has_it()) {
            return first_failure_;
        }
        return std::move(outcome.fd);
    }

private:
    [[nodiscard]] std::size_t leader() const { return static_cast<std::size_t>(group_.leader()); }
    [[nodiscard]] int leader_pid() const { return group_.facts[leader()].pid; }
    [[nodiscard]] bool everybody_has_it() const { return first_failure_.is_ok(); }

    /// Gets a descriptor of the leader's own object, by the first way that works.
    Status pass_given(Outcome& outcome) {
        Offer mine;
        std::unique_ptr<DescriptorServer> server;
        if (group_.is_leader()) {
            mine = offer_given(server);
        }
        auto offer = exchange_offers(mine);
        if (!offer.is_ok()) {
            return offer.status();
        }
        fetch_given(outcome, offer.value());
        // A rank may still connect to the server until all ranks have reported their outcome. The server must exist
        // until then.
        return exchange_outcomes(outcome);
    }

    Offer offer_given(std::unique_ptr<DescriptorServer>& server) const {
        Offer offer;
        const auto object = id_of(given_);
        if (!object) {
            offer.problem = "the leader has no shared memory to give";
            return offer;
        }
        offer.fd = given_;
        offer.object = *object;
        if (!ways_.socket || group_.local_size == 1) {
            offer.problem = "not offered";
            return offer;
        }
        auto token = random_token();
        const std::string name = token.is_ok() ? "@rueda-" + token.value() : "";
        auto started = token.is_ok() ? DescriptorServer::start(name, given_)
                                     : Result<std::unique_ptr<DescriptorServer>>(token.status());
        if (started.is_ok()) {
            server = std::move(started).value();
            offer.name = name;
        } else {
            offer.problem = started.status().message();
        }
        return offer;
    }

    void fetch_given(Outcome& outcome, const Offer& offer) const {
        if (offer.fd < 0) {
            outcome.add_problem("memory", offer.problem);
            return;
        }
        if (group_.is_leader()) {
            take_way(outcome, "dup", true, offer.object, [&] { return duplicated(given_); });
            return;
        }
        if (leader_pid() == ::getpid()) {
            take_way(outcome, "dup", ways_.same_process, offer.object, [&] { return duplicated(offer.fd); });
        }
        take_way(outcome, "socket", ways_.socket, offer.object, [&]() -> Result<base::UniqueFd> {
            if (offer.name.empty()) {
                return Status(ErrorCode::unsupported, offer.problem);
            }
            RUEDA_RETURN_IF_FAILED(check_socket_name(offer.name));
            return fetch_descriptor(offer.name, leader_pid(), deadline_);
        });
        take_way(outcome, "/proc", ways_.proc, offer.object,
                 [&] { return open_by_proc(leader_pid(), offer.fd, offer.object); });
    }

    /// Gives a new shared-memory object to the ranks of this host, which open it by its name. If all ranks of this host
    /// already have the object that the leader passed to share_descriptor(), they keep that object. In that case the
    /// leader makes no new object.
    Status pass_named(Outcome& outcome) {
        const bool needed = !host_has_it_[static_cast<std::size_t>(group_.host_index)];
        NamedMemory memory;
        Offer mine;
        if (group_.is_leader() && needed) {
            outcome.fd.reset();
            mine = offer_named(memory, outcome);
        }
        auto offer = exchange_offers(mine);
        if (!offer.is_ok()) {
            return offer.status();
        }
        if (needed && !group_.is_leader()) {
            outcome.fd.reset();
            take_way(outcome, "shm_open", true, offer.value().object, [&]() -> Result<base::UniqueFd> {
                if (offer.value().name.empty()) {
                    return Status(ErrorCode::unsupported, offer.value().problem);
                }
                base::UniqueFd opened(::shm_open(offer.value().name.c_str(), O_RDWR | O_CLOEXEC, 0));
                if (!opened.is_open()) {
                    return system_failure(ErrorCode::unsupported, "shm_open");
                }
                return opened;
            });
        }
        // The name of the shared-memory object is removed when this function returns. No rank writes to the memory
        // before its name is removed.
        return exchange_outcomes(outcome);
    }

    Offer offer_named(NamedMemory& memory, Outcome& outcome) const {
        Offer offer;
        const auto given = id_of(given_);
        auto created = memory.create(given ? given->bytes : 0);
        if (!created.is_ok()) {
            offer.problem = created.status().message();
            outcome.add_problem("shm_open", offer.problem);
            return offer;
        }
        outcome.fd = std::move(created).value();
        offer.fd = outcome.fd.value();
        offer.object = id_of(offer.fd).value_or(ObjectId());
        offer.name = memory.name();
        return offer;
    }

    /// Sends this rank's offer to all ranks, and returns the offer of this rank's leader.
    Result<Offer> exchange_offers(const Offer& mine) {
        auto gathered = control_plane_.allgather(encode(mine));
        if (!gathered.is_ok()) {
            return gathered.status();
        }
        return parse_offer(gathered.value()[leader()]);
    }

    /// Exchanges the outcomes of all ranks, so that all ranks of the job make the same decision.
    Status exchange_outcomes(const Outcome& mine) {
        WireWriter writer;
        writer.number(static_cast<std::uint8_t>(mine.fd.is_open()));
        writer.number(static_cast<std::uint8_t>(given_ >= 0));
        writer.text(base::shortened(mine.problems, kMaxText));
        auto gathered = control_plane_.allgather(std::move(writer).take());
        if (!gathered.is_ok()) {
            return gathered.status();
        }
        first_failure_ = Status();
        host_has_it_.assign(static_cast<std::size_t>(group_.host_count), true);
        for (std::size_t r = 0; r < gathered.value().size(); ++r) {
            WireReader reader(gathered.value()[r]);
            const bool has_it = reader.number<std::uint8_t>() == 1;
            any_memory_ = reader.number<std::uint8_t>() == 1 || any_memory_;
            const std::string problems = base::printable(reader.text(kMaxText), kMaxText);
            if (has_it && reader.complete()) {
                continue;
            }
            host_has_it_[static_cast<std::size_t>(group_.host_of[r])] = false;
            if (first_failure_.is_ok()) {
                first_failure_ =
                    failure(ErrorCode::unsupported, "rank {} cannot share memory with the ranks of its host ({})", r,
                            reader.complete() ? problems : "its report is damaged");
            }
        }
        return {};
    }

    ControlPlane& control_plane_;
    const LocalGroup& group_;
    const int given_;
    const Deadline deadline_;
    const DescriptorWays& ways_;
    std::vector<bool> host_has_it_;
    bool any_memory_ = false;
    Status first_failure_;
};

}  // namespace

Result<base::UniqueFd> share_descriptor(ControlPlane& control_plane, const LocalGroup& group, int fd_or_minus_1,
                                        std::chrono::milliseconds timeout, const DescriptorWays& ways) {
    return Exchange(control_plane, group, fd_or_minus_1, deadline_in(timeout), ways).run();
}

}  // namespace rueda::collectives
