// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <ucp/api/ucp.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/ucx/ucx_tag.hpp"

namespace rueda::collectives {

/// A send or a receive of UCX. UCX writes to this object, so the object must stay at its address until `is_done` is
/// true.
struct UcxRequest {
    void* handle = nullptr;  ///< UCX's request; null if the message was done at once, or could not be started
    bool is_done = false;
    // The fields below are valid if is_done is true. `bytes` and `tag` are for a receive only.
    ucs_status_t status = UCS_OK;
    std::size_t bytes = 0;  ///< the length of the received message
    UcxTag tag = 0;         ///< the tag of the received message
};

/// A message that has arrived, but for which no receive was started.
struct UcxArrival {
    ucp_tag_message_h message = nullptr;  ///< UCX's handle, for receive_found(); null if find() did not take the
                                          ///< message
    UcxTag tag = 0;
    std::size_t bytes = 0;
};

/// A line that UCX has logged, with a zero at its end. UCX truncates longer lines.
using UcxLine = std::array<char, 256>;

/// Returns UCX's text for the status, and the line if it is not empty.
[[nodiscard]] std::string describe_ucx_status(ucs_status_t status, const UcxLine& line);

/// The calls of UCX that Rueda makes: a worker, and an endpoint for each rank with which this rank exchanges messages.
/// Only this class calls UCX.
///
/// UCX runs its callbacks only inside calls of this class's functions. Threads: one at a time.
class UcxWorker {
public:
    /// `ranks` is the number of ranks in the job.
    [[nodiscard]] static Result<std::unique_ptr<UcxWorker>> create(int ranks);
    /// Closes the worker, unless leak() was called.
    ~UcxWorker();
    UcxWorker(const UcxWorker&) = delete;
    UcxWorker& operator=(const UcxWorker&) = delete;

    [[nodiscard]] static std::string version();
    [[nodiscard]] const Bytes& address() const { return address_; }
    /// Sets the addresses of all ranks.
    void know(std::vector<Bytes> addresses) { addresses_ = std::move(addresses); }

    /// Makes the endpoint for messages to and from `rank`, if it does not exist. UCX notices the end of a peer only
    /// through an endpoint, so call this function before a receive, too.
    [[nodiscard]] Status reach(int rank);
    /// Says why and when UCX lost a peer: the peer's process has ended, or it cannot be reached.
    struct Loss {
        ucs_status_t status = UCS_OK;
        std::chrono::steady_clock::time_point noticed{};
        UcxLine line{};  ///< what UCX logged about the loss; may be empty
    };
    [[nodiscard]] const std::optional<Loss>& loss_of(int rank) const;
    void note_loss(int rank, ucs_status_t status);

    /// Starts a send. Call reach() for the rank before. The rank must not be lost (loss_of()).
    void send(int rank, UcxTag tag, std::span<const std::byte> bytes, UcxRequest& request);
    /// Starts a receive of a message with exactly this tag.
    void receive(UcxTag tag, std::span<std::byte> room, UcxRequest& request);
    /// Returns the first message whose tag equals `tag` in the bits of `mask`, and for which no receive was started. If
    /// `takes` is true and there is a message, the caller must receive it by receive_found().
    [[nodiscard]] std::optional<UcxArrival> find(UcxTag tag, UcxTag mask, bool takes);
    void receive_found(const UcxArrival& found, std::span<std::byte> room, UcxRequest& request);
    /// Cancels a receive. The request is done at once, unless UCX has begun to receive a message for it.
    void cancel(UcxRequest& request);
    /// Frees UCX's own object for a request that is done.
    static void release(UcxRequest& request);
    /// Lets UCX send and receive. Returns whether anything happened.
    bool progress();
    /// Starts a flush: `request` is done when UCX has finished all sends.
    void flush(UcxRequest& request);
    /// Ends all connections, and all sends with UCS_ERR_CANCELED. Takes at most `limit`, and needs no memory. Returns
    /// whether everything has ended.
    [[nodiscard]] bool disconnect(std::chrono::milliseconds limit) noexcept;
    /// Returns false in a forked child, which must leave UCX alone.
    [[nodiscard]] bool is_of_this_process() const { return process_ == ::getpid(); }
    /// From now on, the destructor does not call UCX. UCX may still use its memory, so this memory is never freed.
    void leak() { is_leaked_ = true; }

private:
    struct Peer {
        ucp_ep_h endpoint = nullptr;
        std::optional<Loss> loss;
        ucs_status_ptr_t closing = nullptr;  ///< the request that closes the endpoint, while disconnect() waits for it
    };

    explicit UcxWorker(int ranks) : peers_(static_cast<std::size_t>(ranks)) {}
    [[nodiscard]] Status open();
    [[nodiscard]] Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
    static void note_peer_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);

    const pid_t process_ = ::getpid();  ///< a forked child must not touch the connections of its parent
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    Bytes address_;
    std::vector<Bytes> addresses_;
    std::vector<Peer> peers_;  ///< never grows, because UCX keeps pointers to the elements
    bool is_leaked_ = false;
};

}  // namespace rueda::collectives
