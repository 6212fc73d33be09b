// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// fuzz_seeds DIRECTORY writes inputs for the fuzz targets to DIRECTORY/<target>/. It makes them from messages of
// correct ranks and supervisors, so they have the current formats and pass the first checks of a target.
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "base/recorder/recorder_writer.hpp"
#include "base/recorder/recording_file.hpp"
#include "base/system/clock.hpp"
#include "base/timeline/timeline_part.hpp"
#include "base/unique_fd.hpp"
#include "collectives/host/arena/message_ring.hpp"
#include "collectives/host/sockets/descriptor_exchange.hpp"
#include "collectives/host/sockets/socket_messages.hpp"
#include "collectives/local_group.hpp"
#include "collectives/membership.hpp"
#include "collectives/tcp/leader_rendezvous.hpp"
#include "collectives/tcp/link_header.hpp"
#include "collectives/ucx/ucx_card.hpp"
#include "collectives/wire.hpp"
#include "core/diagnostics/stall_inquiry.hpp"
#include "core/messages/frame.hpp"
#include "core/operations/sparse.hpp"
#include "core/operations/verdicts.hpp"
#include "core/setup/agreement.hpp"
#include "core/setup/first_sets.hpp"
#include "core/setup/host_cores.hpp"
#include "core/setup/shared_settings.hpp"
#include "launcher/supervisor/frame_link.hpp"
#include "launcher/top/screen.hpp"
#include "tests/fuzz/handshake_inputs.hpp"
#include "tests/support/ranks/thread_control_plane.hpp"
#include "training/outcome.hpp"

namespace {

using namespace rueda;
using collectives::Bytes;

/// Builds one fuzz input from numbers and bytes.
class Seed {
public:
    template <class T>
    Seed& add(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        return append(std::as_bytes(std::span(&value, 1)));
    }
    Seed& append(std::span<const std::byte> bytes) {
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
        return *this;
    }
    Seed& append(const Seed& other) { return append(std::span(other.bytes_)); }
    template <class... Numbers>
    Seed& bytes(Numbers... numbers) {
        (bytes_.push_back(static_cast<std::byte>(numbers)), ...);
        return *this;
    }
    [[nodiscard]] const std::vector<std::byte>& all() const { return bytes_; }

private:
    std::vector<std::byte> bytes_;
};

class Folder {
public:
    Folder(const std::filesystem::path& seeds, const char* target) : folder_(seeds / target) {
        std::filesystem::create_directories(folder_);
    }
    void write(const std::string& name, const Seed& seed) const {
        std::ofstream file(folder_ / name, std::ios::binary);
        file.write(reinterpret_cast<const char*>(seed.all().data()), static_cast<std::streamsize>(seed.all().size()));
        if (!file.flush()) {
            throw std::runtime_error("cannot write " + (folder_ / name).string());
        }
    }

private:
    std::filesystem::path folder_;
};

template <class T>
T value_of(Result<T> result) {
    if (!result.is_ok()) {
        throw std::runtime_error(result.status().message());
    }
    return std::move(result).value();
}

// ---- messages that ranks send while they start ---------------------------------------------------------------------

constexpr int kRanks = 3;
constexpr int kListener = 1;  // the rank that the fuzz target simulates

/// A control plane that records what the other ranks send, in the target's format: a length byte and the message. If a
/// message is longer than 254 bytes, only the length byte 255 is recorded. The target then assumes that the message
/// equals the message of the tested rank.
class Recorder final : public collectives::ControlPlane {
public:
    explicit Recorder(std::unique_ptr<collectives::ControlPlane> plane) : plane_(std::move(plane)) {}

    [[nodiscard]] int rank() const override { return plane_->rank(); }
    [[nodiscard]] int size() const override { return plane_->size(); }
    [[nodiscard]] std::string description() const override { return plane_->description(); }
    Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override {
        Result<std::vector<Bytes>> all = plane_->allgather(mine);
        for (int rank = 0; all.is_ok() && rank < size(); ++rank) {
            if (rank != this->rank()) {
                note(all.value()[static_cast<std::size_t>(rank)]);
            }
        }
        return all;
    }
    Result<Bytes> broadcast(std::span<const std::byte> mine, int root) override {
        Result<Bytes> said = plane_->broadcast(mine, root);
        if (said.is_ok() && root != rank()) {
            note(said.value());
        }
        return said;
    }
    Status barrier() override { return plane_->barrier(); }
    void close(bool after_failure) override { plane_->close(after_failure); }
    [[nodiscard]] const Seed& heard() const { return heard_; }

private:
    void note(const Bytes& said) {
        constexpr std::size_t kMost = 254;
        if (said.size() > kMost) {
            heard_.bytes(255);
        } else {
            heard_.bytes(said.size()).append(std::span(said));
        }
    }

    std::unique_ptr<collectives::ControlPlane> plane_;
    Seed heard_;
};

/// Returns what rank kListener receives while all ranks run `exchange`.
template <class Exchange>
Seed heard_in(std::uint8_t choice, Exchange&& exchange) {
    std::vector<std::unique_ptr<Recorder>> recorders;
    for (auto& plane : collectives::make_thread_control_planes(kRanks)) {
        recorders.push_back(std::make_unique<Recorder>(std::move(plane)));
    }
    std::vector<std::jthread> ranks;
    for (const auto& recorder : recorders) {
        ranks.emplace_back([&exchange, &plane = *recorder] { exchange(plane); });
    }
    ranks.clear();  // waits for all threads
    return Seed().bytes(choice).append(recorders[kListener]->heard());
}

void write_start_messages(const Folder& folder) {
    const auto group_of = [](int rank) {
        return collectives::group_by_host(rank, std::vector(kRanks, collectives::own_facts("one")));
    };
    folder.write("agreed", heard_in(0, [](Recorder& plane) { static_cast<void>(core::agree_on(plane, {}).is_ok()); }));
    folder.write("one_failed", heard_in(0, [](Recorder& plane) {
                     const Status mine = plane.rank() == 2 ? failure(ErrorCode::unsupported, "no memory") : Status();
                     static_cast<void>(core::agree_on(plane, mine).is_ok());
                 }));
    folder.write("settings", heard_in(1, [](Recorder& plane) {
                     base::Config config;
                     static_cast<void>(core::share_settings(plane, config).is_ok());
                 }));
    folder.write("cores", heard_in(2, [&](Recorder& plane) {
                     static_cast<void>(core::cores_of_host(plane, group_of(plane.rank())).is_ok());
                 }));
    folder.write("first_sets", heard_in(3, [](Recorder& plane) {
                     static_cast<void>(core::agree_on_first_sets(plane, {7, {{0, 2}, {1}}}).is_ok());
                 }));
    folder.write("other_sets", heard_in(3, [](Recorder& plane) {
                     static_cast<void>(core::agree_on_first_sets(plane, {1 + plane.rank(), {{plane.rank()}}}).is_ok());
                 }));
    folder.write("memory", heard_in(4, [&](Recorder& plane) {
                     const collectives::LocalGroup group = group_of(plane.rank());
                     const base::UniqueFd memory(group.is_leader() ? ::memfd_create("seed", MFD_CLOEXEC) : -1);
                     static_cast<void>(collectives::share_descriptor(plane, group, memory.value(),
                                                                     std::chrono::seconds(5), {.same_process = false})
                                           .is_ok());
                 }));
    folder.write("hosts",
                 heard_in(7, [](Recorder& plane) { static_cast<void>(collectives::find_local_group(plane).is_ok()); }));
    for (const std::string cannot : {"", "no descriptors"}) {
        folder.write(cannot.empty() ? "leaders" : "no_leaders", heard_in(8, [&](Recorder& plane) {
                         collectives::LeaderRendezvousOptions options;
                         options.cannot = plane.rank() == 2 ? cannot : "";
                         static_cast<void>(collectives::rendezvous_of_leaders(plane, {}, options).is_ok());
                     }));
    }
    const auto meet = [](Recorder& plane, const std::vector<int>& members) {
        static_cast<void>(collectives::agree_on_members(plane, members).is_ok());
    };
    folder.write("list", heard_in(6, [&](Recorder& plane) { meet(plane, {0, 2, 5}); }));
    folder.write("other_list", heard_in(6, [&](Recorder& plane) { meet(plane, {0, 2, plane.rank() + 5}); }));
}

// ---- sockets --------------------------------------------------------------------------------------------------------

// tells the target how to cut the stream or, for messages with files, how many files a message has
constexpr int kCut = 5;

/// Returns the bytes that the link writes to its socket, with or without codes at the end of the frames.
template <class Say>
Seed written_by_link(Say&& say, bool has_codes = false) {
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
        throw std::runtime_error("socketpair");
    }
    const base::UniqueFd reader(fds[0]);
    base::UniqueFd writer(fds[1]);
    launcher::FrameLink link =
        has_codes ? launcher::FrameLink(base::ProvenConnection{std::move(writer), fuzz::fuzz_keys().sender})
                  : launcher::FrameLink(std::move(writer));
    say(link);
    std::array<std::byte, 8192> bytes{};
    const ssize_t got = ::recv(reader.value(), bytes.data(), bytes.size(), 0);
    return Seed().append(std::span(bytes).first(static_cast<std::size_t>(got)));
}

void write_socket_frames(const Folder& folder) {
    using launcher::FrameKind;
    const std::string body = "what a rank says";
    const Bytes header =
        collectives::encode_header({collectives::FrameKind::allgather, 0, 3, static_cast<std::uint64_t>(body.size())});
    Seed rendezvous;
    rendezvous.bytes(0, kCut);
    for (int i = 0; i < 2; ++i) {
        rendezvous.append(std::span(header)).append(std::as_bytes(std::span(body)));
    }
    folder.write("rendezvous", rendezvous);
    folder.write("supervisor", Seed().bytes(1, kCut).append(written_by_link([](launcher::FrameLink& link) {
        link.send(FrameKind::hello, 2, "host");
        link.send(FrameKind::output, launcher::kStandardOutput, "a line\n");
        link.send(FrameKind::ended, 256);
    })));
    folder.write("files", Seed().bytes(2, 1).append(std::as_bytes(std::span("d", 1))));
}

void write_handshake(const Folder& folder) {
    base::Handshake connecting = fuzz::handshake_of(base::HandshakeSide::connecting);
    base::Handshake accepting = fuzz::handshake_of(base::HandshakeSide::accepting);
    const std::string opening = connecting.take_output();
    if (!accepting.receive(opening).is_ok()) {
        throw std::runtime_error("handshake");
    }
    const std::string answer = accepting.take_output();
    if (!connecting.receive(answer).is_ok()) {
        throw std::runtime_error("handshake");
    }
    const std::string both = opening + connecting.take_output();
    folder.write("accepting", Seed().bytes(0, kCut).append(std::as_bytes(std::span(both))));
    folder.write("connecting", Seed().bytes(1, kCut).append(std::as_bytes(std::span(answer))));
    const auto say = [](launcher::FrameLink& link) {
        link.send(launcher::FrameKind::hello, 2, "host");
        link.send(launcher::FrameKind::ended, 256);
    };
    folder.write("frames", Seed().bytes(2, kCut).append(written_by_link(say, /*has_codes=*/true)));
}

void write_leader_messages(const Folder& folder) {
    const Bytes card =
        collectives::encode(collectives::LeaderCard{"0123456789abcdef", {"10.0.0.1:4711", "[fd00::1]:4712"}});
    folder.write("card", Seed().bytes(0, kCut).append(std::span(card)));
    Seed messages;
    messages.bytes(1, kCut);
    for (const std::string_view content : {"what a leader says", ""}) {
        collectives::LinkHeader header{.port = {collectives::Transport::Channel::control, 3}};
        header.bytes = static_cast<std::uint32_t>(content.size());
        const collectives::LinkHeaderBytes head = collectives::encode(header);
        messages.append(std::as_bytes(std::span(head))).append(std::as_bytes(std::span(content)));
    }
    folder.write("messages", messages);
}

void write_ucx_cards(const Folder& folder) {
    for (const std::string_view cannot : {"", "there is no plugin"}) {
        const std::size_t length = cannot.empty() ? 60 : 0;
        const collectives::UcxCard card{std::string(cannot), "ucx 1.13.1", Bytes(length, std::byte{1})};
        const Bytes bytes = collectives::encode(card);
        folder.write(cannot.empty() ? "card" : "reason", Seed().append(std::span(bytes)));
    }
}

// ---- several hosts --------------------------------------------------------------------------------------------------

void write_stall_messages(const Folder& folder) {
    const auto write = [&](const char* name, const core::StallMessage& message) {
        const std::vector<std::byte> bytes = core::encode(message);
        folder.write(name, Seed().append(std::span(bytes)));
    };
    core::StallMessage message;
    write("notice", message);
    message.kind = core::StallMessageKind::question;
    message.inquiry = 3;
    write("question", message);
    message.stacks_of = {2, 4};
    write("question_for_stacks", message);
    message.kind = core::StallMessageKind::account;
    message.account.host = 1;
    core::StallReport::Tensor tensor{"layer1.weight", 0, 61.5, {2}, {}};
    tensor.sites = {{"train.py:7", {2}}};
    message.account.tensors = {tensor, {"", 9, 60.5, {2}, {}}};
    message.account.ranks = {{2, 4711, "sleeping", "saving", {tensor}, "native:\n  f, a.cpp:1", 1.5, 9}};
    write("account", message);
}

// ---- one host -------------------------------------------------------------------------------------------------------

void write_message_frames(const Folder& folder) {
    const auto frame = [](core::FrameKind kind, std::uint64_t id, std::uint64_t bytes) {
        core::Frame made;
        made.kind = static_cast<std::uint8_t>(kind);
        made.id = id;
        made.bytes = bytes;
        return made;
    };
    const auto say = [&](const core::Frame& said, int payload) {
        Seed seed;
        return seed.bytes(5, payload).add(said);
    };
    const Seed step = Seed().bytes(4);
    const Seed receive = Seed().bytes(0, 1, 8);
    const Seed send = Seed().bytes(0, 2, 8);
    folder.write("whole",
                 Seed().append(receive).append(step).append(say(frame(core::FrameKind::whole, 1, 8), 8)).append(step));
    folder.write("offer", Seed()
                              .append(receive)
                              .append(say(frame(core::FrameKind::offer, 1, 8), 0))
                              .append(step)
                              .append(say(frame(core::FrameKind::part, 1, 8), 8))
                              .append(step));
    folder.write("asked",
                 Seed().append(send).append(step).append(say(frame(core::FrameKind::asked, 1, 8), 0)).append(step));
    folder.write("gone", Seed().append(send).append(say(frame(core::FrameKind::gone, 0, 0), 0)).append(step));
}

void write_network_frames(const Folder& folder) {
    const Seed step = Seed().bytes(4);
    const Seed receive = Seed().bytes(0, 1, 8);
    const Seed send = Seed().bytes(0, 2, 8);
    const auto come = [](core::FrameKind kind, int payload) {
        core::Frame frame;
        frame.kind = static_cast<std::uint8_t>(kind);
        frame.id = 1;
        Seed seed;
        return seed.bytes(5, 4, payload).add(frame);
    };
    folder.write("whole", Seed().append(receive).append(come(core::FrameKind::whole, 8)).append(step));
    folder.write("offer", Seed()
                              .append(receive)
                              .append(come(core::FrameKind::offer, 8))
                              .append(step)
                              .append(come(core::FrameKind::part, 8))
                              .append(step));
    folder.write("asked", Seed().append(send).append(step).append(come(core::FrameKind::asked, 0)).append(step));
    folder.write("taken", Seed().append(send).append(step).append(come(core::FrameKind::taken, 0)).append(step));
    folder.write("gone", Seed().append(receive).append(come(core::FrameKind::gone, 0)).append(step));
}

/// The input starts each operation twice on both ranks, and lets the ranks take steps until the operation has ended.
/// When an operation starts the second time, its name already has a slot.
Seed operations(std::span<const std::uint8_t> choices, std::uint8_t shape) {
    Seed seed;
    for (const std::uint8_t choice : choices) {
        for (int round = 0; round < 2; ++round) {
            seed.bytes(0, choice, shape).bytes(1, choice, shape);
            for (int turn = 0; turn < 3; ++turn) {
                seed.bytes(128 | 3 * 2, 128 | 3 * 2 | 1);
            }
        }
    }
    return seed;
}

void write_host_tables(const Folder& folder) {
    for (std::uint8_t kind = 0; kind < 16; ++kind) {
        for (const std::uint8_t shape : std::array<std::uint8_t, 4>{0, 16, 24, 128}) {
            folder.write("operation" + std::to_string(kind) + "_" + std::to_string(shape),
                         operations(std::array{kind}, shape));
        }
        folder.write("driven" + std::to_string(kind), operations(std::array{static_cast<std::uint8_t>(kind + 32)}, 0));
        folder.write("unnamed" + std::to_string(kind),
                     operations(std::array{static_cast<std::uint8_t>(kind + 192)}, 8));
    }
    folder.write("join", operations(std::array{std::uint8_t{11}}, 0).bytes(10, 0, 11, 0, 7, 7, 11, 7, 6, 7, 6));
    folder.write("shut_down", operations(std::array{std::uint8_t{11}}, 0).bytes(26, 27, 0, 11, 0, 7, 6, 7, 6));
}

// ---- how operations end ---------------------------------------------------------------------------------------------

void write_outcomes(const Folder& folder) {
    using core::Verdict;
    const auto verdicts = [](std::initializer_list<Verdict> said) {
        Seed seed;
        seed.bytes(0);
        for (const Verdict& one : said) {
            seed.add(core::encode(one));
        }
        return seed;
    };
    const Verdict sum{Verdict::Kind::checksum, 0x0123'4567'89ab'cde};
    folder.write("alike", verdicts({sum, sum, sum}));
    folder.write("differ", verdicts({sum, {Verdict::Kind::checksum, 5}, sum}));
    folder.write("changed", verdicts({sum, {Verdict::Kind::changed, 0}}));
    folder.write("not_finite", verdicts({{Verdict::Kind::not_a_number, 17}, {Verdict::Kind::infinite, 3}}));
    const auto outcome = [&](const char* name, const Status& status) {
        const training::OutcomeBytes bytes = training::encode_outcome(status);
        folder.write(name, Seed().bytes(1).append(std::as_bytes(std::span(bytes))));
    };
    outcome("ended_well", {});
    outcome("failed", failure(ErrorCode::resource_exhausted, "the disk is full\nand so is the other"));
    outcome("cut", Status(ErrorCode::internal, std::string(5000, 'x')));
}

/// Records the data that three ranks gather in a sparse allreduce of a tensor of shape (5, 4, 2).
void write_sparse_places(const Folder& folder) {
    const std::vector<std::int64_t> shape{5, 4, 2};
    for (const std::int64_t along : std::array<std::int64_t, 2>{1, 2}) {
        std::vector<std::int64_t> gathered;
        for (std::int32_t rank = 0; rank < kRanks; ++rank) {
            const std::vector<std::int32_t> indices{4, rank, 1, 3};
            const std::vector<std::int64_t> extents{4 / along, along};
            const std::vector<std::int64_t> value_extents =
                along == 1 ? std::vector<std::int64_t>{4, 4, 2} : std::vector<std::int64_t>{2, 2};
            std::vector<float> numbers(32, 1);
            const rueda_tensor places{const_cast<std::int32_t*>(indices.data()), extents.data(), 2, RUEDA_INT32};
            const rueda_tensor values{numbers.data(), value_extents.data(),
                                      static_cast<std::int32_t>(value_extents.size()), RUEDA_FLOAT32};
            rueda_options options = RUEDA_OPTIONS_INIT;
            const auto made = value_of(core::SparseAllreduce::make(places, values, shape, options));
            const rueda_tensor said = made->members()[0];
            const auto* const first = static_cast<const std::int64_t*>(said.data);
            gathered.insert(gathered.end(), first, first + said.shape[0]);
        }
        Seed seed;
        seed.bytes(along - 1, gathered.size(), gathered.size());
        folder.write("along" + std::to_string(along), seed.append(std::as_bytes(std::span(gathered))));
    }
}

void write_process_status(const Folder& folder) {
    std::ifstream file("/proc/self/stat", std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    folder.write("own", Seed().append(std::as_bytes(std::span(text))));
    const std::string odd = "17 (a) R 1\n) (b) S 1" + text.substr(text.rfind(')') + 4);
    folder.write("odd_command", Seed().append(std::as_bytes(std::span(odd))));
}

/// Writes inputs for mpi_lengths_fuzz, whose MPI delivers what the other ranks send: lengths in exchanges, and messages
/// of the rendezvous.
void write_mpi_lengths(const Folder& folder) {
    const auto gather = [](std::uint64_t a, std::uint64_t b) { return Seed().bytes(0, 3).add(a).bytes(1).add(b); };
    const Seed met = Seed().bytes(0, 0);
    folder.write("gathered", Seed().append(met).append(gather(5, 40)).append(gather(0, 0)));
    folder.write("broadcast", Seed().append(met).bytes(1, 0).add(std::uint64_t{100}).bytes(1, 2).add(std::uint64_t{7}));
    folder.write("messages",
                 Seed().append(met).bytes(3, 0, 1).add(std::uint64_t{12}).bytes(4, 8, 8, 0).bytes(4, 8, 9, 0));
    folder.write("strays", Seed().append(met).bytes(5, 2, 2).add(std::uint64_t{12}).bytes(0).add(std::uint64_t{3}));
    const std::array<std::int32_t, 2> question{7, 1000};
    folder.write("asked", Seed().bytes(1, sizeof question).append(std::as_bytes(std::span(question))).bytes(2));
    collectives::WireWriter answer;
    answer.number(std::int32_t{1});
    answer.number(std::uint64_t{0});
    answer.text("0, 1");
    const Bytes bytes = std::move(answer).take();
    folder.write("answers", Seed().bytes(2, bytes.size()).append(std::span(bytes)).bytes(4).add(std::int32_t{1}));
}

/// Writes two kinds of inputs. One contains what the writer of a ring writes, and tests the reader. The other contains
/// what the reader of a ring writes, and tests the writer.
void write_message_ring(const Folder& folder) {
    using collectives::MessageRingRecord;
    constexpr std::uint8_t written = 1;
    constexpr std::uint8_t near = 2;
    constexpr std::uint8_t header = 4;
    constexpr std::uint8_t look = 5;
    const auto record = [](int line, std::uint32_t bytes, std::uint32_t mark) {
        const auto place = static_cast<std::uint8_t>(line * 4);
        const auto lines = static_cast<std::uint8_t>(MessageRingRecord::lines_of(bytes) / 8);
        return Seed().bytes(header).add(bytes).add(mark).bytes(place, written, lines);
    };
    folder.write("near", Seed().bytes(near).add(MessageRingRecord::near_of(0, 40)).bytes(written, 8, look, look));
    const Seed first = record(0, 24, MessageRingRecord::kMessage);
    folder.write("records",
                 Seed().append(first).bytes(look).append(record(1, 0, MessageRingRecord::kMessage)).bytes(look, look));
    folder.write("filler", Seed()
                               .append(record(0, 64, MessageRingRecord::kFiller))
                               .append(record(2, 56, MessageRingRecord::kMessage))
                               .bytes(look, look));

    constexpr std::uint8_t all_read = 1;
    constexpr std::uint8_t write = 2;
    folder.write("full", Seed().bytes(write, 255, write, 255, write, 255, write, 255, write, 0, all_read, write, 255));
    folder.write("around",
                 Seed().bytes(write, 255, write, 200, write, 200, all_read, write, 255, write, 255, all_read));
}

/// Records how a rank of a job on two hosts learns the number of rows that it receives, and then receives the rows.
void write_splits(const Folder& folder) {
    for (const std::uint8_t choice : std::array<std::uint8_t, 2>{0, 1}) {
        Seed seed;
        seed.bytes(choice, 0x1b);
        for (const std::int64_t rows : std::array<std::int64_t, 3>{2, 1, 3}) {
            seed.bytes(0).add(rows);
        }
        for (const std::uint64_t bytes : std::array<std::uint64_t, 4>{0, 16, 8, 8}) {
            seed.add(bytes);
        }
        folder.write("rows" + std::to_string(choice), seed);
    }
}

// ---- the flight recorder --------------------------------------------------------------------------------------------

/// Returns the recorder of a rank that has ended one operation and waits in another one with the same name.
std::unique_ptr<base::RankRecorder> recorded(const char* name) {
    auto recorder = std::make_unique<base::RankRecorder>();
    const base::RecorderWriter writer(recorder.get());
    writer.begin();
    writer.note_set(0, "ranks 0, 1");
    writer.begin_step(7);
    const std::uint64_t ended =
        writer.announce({.is_blocking = true, .ordinal = 1, .name = writer.note_name(0, "w"), .bytes = 64});
    writer.start(ended, base::ticks_now(), 5);
    writer.end(ended, base::ticks_now(), ErrorCode::ok);
    writer.announce({.ordinal = 2, .name = writer.note_name(0, name), .generation = 1, .bytes = 8});
    return recorder;
}

void write_recordings(const Folder& folder) {
    Seed all;
    for (std::int32_t rank = 0; rank < 2; ++rank) {
        const auto recorder = recorded(rank == 0 ? "loss" : "metric");
        const base::RecorderReader reader(*recorder);
        base::Recording recording;
        recording.rank = rank;
        recording.size = 2;
        recording.host = "a";
        recording.state = "running";
        recording.written_ns = base::monotonic_ns();
        recording.began_ns = recorder->begin_ns.load();
        recording.realtime_offset_ns = reader.realtime_offset_ns();
        recording.counters = reader.counters();
        recording.sets = reader.sets();
        recording.operations = reader.operations();
        const std::string text = base::format_recording(recording);
        folder.write("rank" + std::to_string(rank), Seed().append(std::as_bytes(std::span(text))));
        all.append(std::as_bytes(std::span(text))).bytes(0);
    }
    folder.write("diverged", all);
}

/// Records two ranks' flight recorders in the target's format.
void write_recorder_ring(const Folder& folder) {
    Seed both;
    for (const std::uint8_t rank : std::array<std::uint8_t, 2>{0, 128}) {
        const auto recorder = recorded(rank == 0 ? "loss" : "metric");
        Seed seed;
        seed.bytes(rank | 4).add(recorder->begin_ticks.load()).add(recorder->begin_ns.load());
        seed.bytes(rank | 2, 0).add(std::int32_t{0}).append(std::as_bytes(std::span("ranks 0, 1\0\0\0\0\0")));
        for (std::uint64_t number = 1; number <= recorder->names_written.load(); ++number) {
            const base::NameRecord& name = recorder->names[number % base::RankRecorder::kNames];
            std::array<char, 8> text{};
            name.text.read().copy(text.data(), text.size());
            seed.bytes(rank | 1).add(number).add(name.set_id.load()).add(name.hash.load()).add(text);
        }
        const std::uint64_t announced = recorder->counters.announced.load();
        for (std::uint64_t number = 0; number < announced; ++number) {
            const base::OperationRecord& record = recorder->operations[number];
            seed.bytes(rank | 5).add(number);
            for (const auto* const word : {&record.announced, &record.started, &record.ended, &record.ordinal,
                                           &record.name, &record.size, &record.state}) {
                seed.add(word->load());
            }
        }
        seed.bytes(rank | 3).add(announced);
        folder.write("rank" + std::to_string(rank / 128), seed);
        both.append(seed);
    }
    folder.write("both", both);
    folder.write("word", Seed().bytes(0).add(std::uint32_t{8}).add(~std::uint64_t{0}).append(both));
}

void write_host_answers(const Folder& folder) {
    launcher::TopView view;
    view.job.id = "0ff1ce";
    view.job.program = "python train.py";
    view.interval_seconds = 2;
    launcher::RankRow row;
    row.rank = 3;
    row.pid = 4711;
    row.process = "running";
    row.step = 17;
    row.step_seconds = 0.25;
    row.waits.push_back({1, 300'000'000});
    row.scope = "forward";
    row.outside = launcher::TimeOutside{0.5, 0.25, 0.125};
    row.gpus.push_back({0, 0.5, 1U << 30U, 1ULL << 33U});
    view.rows.push_back(row);
    const std::string document = "mpirun says something first\n" + launcher::view_as_json(view);
    const std::string lines = launcher::view_as_json_line(view) + launcher::view_as_json_line(view);
    folder.write("document", Seed().bytes(0).append(std::as_bytes(std::span(document))));
    folder.write("lines", Seed().bytes(5).append(std::as_bytes(std::span(lines))));
    const std::string error = "rueda: there is no job\n";
    folder.write("error", Seed().bytes(0).append(std::as_bytes(std::span(error))));
}

void write_timelines(const Folder& folder) {
    base::TimelineHeader header;
    header.host = "host-a";
    header.size = 4;
    header.host_count = 2;
    header.began_realtime_ns = 1'700'000'000'000'000'000;
    const std::string begin = "[\n" + base::format_header(header) + "\n";
    const std::string row = R"({"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"rank 1"}},)";
    const std::string lost = R"({"name":"lost","cat":"lost","ph":"i","pid":1,"tid":0,"ts":1.5,"args":{"records":3}},)";
    const std::string end = base::format_end({.operations = 7, .lost = 3});
    const std::string whole = begin + row + "\n" + lost + "\n" + end + "\n]\n";
    folder.write("header", Seed().append(std::as_bytes(std::span(begin))));
    folder.write("whole", Seed().append(std::as_bytes(std::span(whole))));
}

int write_all(const std::filesystem::path& seeds) {
    write_start_messages({seeds, "start_messages_fuzz"});
    write_socket_frames({seeds, "socket_frames_fuzz"});
    write_handshake({seeds, "handshake_fuzz"});
    write_timelines({seeds, "timeline_fuzz"});
    write_host_answers({seeds, "host_answers_fuzz"});
    write_leader_messages({seeds, "leader_messages_fuzz"});
    write_ucx_cards({seeds, "ucx_card_fuzz"});
    write_stall_messages({seeds, "stall_messages_fuzz"});
    write_message_frames({seeds, "message_frames_fuzz"});
    write_network_frames({seeds, "network_frames_fuzz"});
    write_host_tables({seeds, "host_tables_fuzz"});
    write_outcomes({seeds, "outcomes_fuzz"});
    write_sparse_places({seeds, "sparse_places_fuzz"});
    write_process_status({seeds, "process_status_fuzz"});
    write_mpi_lengths({seeds, "mpi_lengths_fuzz"});
    write_splits({seeds, "splits_fuzz"});
    write_message_ring({seeds, "message_ring_fuzz"});
    write_recordings({seeds, "recordings_fuzz"});
    write_recorder_ring({seeds, "recorder_ring_fuzz"});
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc != 2) {
            throw std::invalid_argument("expected one argument, the folder to write to");
        }
        return write_all(argv[1]);
    } catch (const std::exception& error) {
        std::cerr << "fuzz_seeds: " << error.what() << '\n';
        return 1;
    }
}
