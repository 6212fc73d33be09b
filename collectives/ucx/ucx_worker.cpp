// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/ucx/ucx_worker.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/assert.hpp"
#include "base/system/thread_signals.hpp"

namespace rueda::collectives {
namespace {

using Clock = std::chrono::steady_clock;

/// A setting of UCX that Rueda chooses, unless the user has set its variable.
struct UcxDefault {
    const char* name;
    const char* variable;
    const char* value;
};
constexpr std::array kUcxDefaults{
    // Only ranks of different hosts exchange messages over UCX, so UCX's transports by shared memory are of no use.
    // With them, UCX would also notice the end of a peer late: only after UCX_KEEPALIVE_INTERVAL, which is 20 s.
    UcxDefault{"TLS", "UCX_TLS", "^shm"},
    // UCX asks the receiver before it sends a message above this size. The messages with tensors' data are smaller, and
    // their receivers have posted receives in advance, so asking would only cost time.
    UcxDefault{"RNDV_THRESH", "UCX_RNDV_THRESH", "256K"},
};

/// What UCX has logged last inside a UcxCall of this thread.
thread_local UcxLine last_log_line{};
/// Whether this thread is inside a UcxCall.
thread_local bool is_in_ucx_call = false;

/// UCX prints errors and warnings to the standard output, even those that it also returns to the caller as a status.
/// While Rueda calls UCX, this function stores such a line, and UCX does not print it. Lines of other users of UCX, for
/// example MPI, are still printed.
ucs_log_func_rc_t keep_log_line(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                                ucs_log_level_t level, const ucs_log_component_config_t* /*component*/,
                                const char* text, va_list arguments) {
    if (!is_in_ucx_call || (level != UCS_LOG_LEVEL_ERROR && level != UCS_LOG_LEVEL_WARN)) {
        return UCS_LOG_FUNC_RC_CONTINUE;
    }
    static_cast<void>(std::vsnprintf(last_log_line.data(), last_log_line.size(), text, arguments));
    return UCS_LOG_FUNC_RC_STOP;
}

/// While an object of this class lives, lines that UCX logs in this thread are stored and not printed. Objects must not
/// be nested.
class UcxCall {
public:
    UcxCall() { is_in_ucx_call = true; }
    ~UcxCall() { is_in_ucx_call = false; }
    UcxCall(const UcxCall&) = delete;
    UcxCall& operator=(const UcxCall&) = delete;
};

/// Installs keep_log_line(), unless the user wants to see what UCX logs.
void keep_log_lines_from_now_on() {
    static const bool is_installed = [] {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): UCX reads the environment in the same way
        const bool is_wanted = std::getenv("UCX_LOG_LEVEL") == nullptr;
        if (is_wanted) {
            ucs_log_push_handler(keep_log_line);
        }
        return is_wanted;
    }();
    static_cast<void>(is_installed);
}

/// Whether the signal's handler is a function of UCX.
bool has_handler_of_ucx(int signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
        return false;
    }
    Dl_info of_handler{};
    Dl_info of_ucx{};
    return ::dladdr(reinterpret_cast<void*>(action.sa_handler), &of_handler) != 0 &&
           ::dladdr(reinterpret_cast<void*>(ucs_debug_disable_signal), &of_ucx) != 0 &&
           of_handler.dli_fbase == of_ucx.dli_fbase;
}

/// Restores the signal handlers that UCX replaced when it was loaded: the handlers of faults and of SIGHUP. With UCX's
/// handler, SIGHUP would not end the process any more. Nothing is restored if the user has set one of UCX's variables
/// for signals. A handler that was installed after UCX's handler also stays.
void give_back_signals() {
    constexpr std::array kVariables{"UCX_HANDLE_ERRORS", "UCX_ERROR_SIGNALS", "UCX_DEBUG_SIGNO"};
    static const bool are_given_back = [&] {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): UCX reads the environment in the same way
        const auto is_set = [](const char* variable) { return std::getenv(variable) != nullptr; };
        if (std::any_of(kVariables.begin(), kVariables.end(), is_set)) {
            return false;
        }
        for (int signal = 1; signal < NSIG; ++signal) {
            if (has_handler_of_ucx(signal)) {
                ucs_debug_disable_signal(signal);
            }
        }
        return true;
    }();
    static_cast<void>(are_given_back);
}

Status ucx_failure(const char* call, ucs_status_t status) {
    return failure(ErrorCode::unsupported, "{}: {}", call, describe_ucx_status(status, last_log_line));
}

Result<ucp_config_t*> read_ucx_config() {
    ucp_config_t* config = nullptr;
    if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
        return ucx_failure("ucp_config_read", status);
    }
    for (const UcxDefault& setting : kUcxDefaults) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): UCX reads the environment in the same way
        if (std::getenv(setting.variable) == nullptr) {
            if (const auto status = ucp_config_modify(config, setting.name, setting.value); status != UCS_OK) {
                ucp_config_release(config);
                return failure(ErrorCode::unsupported, "{}={}: {}", setting.variable, setting.value,
                               ucs_status_string(status));
            }
        }
    }
    return config;
}

void note_sent(void* /*handle*/, ucs_status_t status, void* request) {
    auto& sent = *static_cast<UcxRequest*>(request);
    sent.status = status;
    sent.is_done = true;
}

void note_received(void* /*handle*/, ucs_status_t status, const ucp_tag_recv_info_t* info, void* request) {
    auto& received = *static_cast<UcxRequest*>(request);
    received.status = status;
    received.bytes = info == nullptr ? 0 : info->length;
    received.tag = info == nullptr ? 0 : info->sender_tag;
    received.is_done = true;
}

ucp_request_param_t sending_to(UcxRequest& request) {
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.cb.send = note_sent;
    parameters.user_data = &request;
    return parameters;
}

/// Returns parameters with which UCX calls the callback in any case. By default, UCX does not call it if the message
/// has arrived before the receive was started.
ucp_request_param_t receiving_into(UcxRequest& request) {
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    parameters.cb.recv = note_received;
    parameters.user_data = &request;
    return parameters;
}

/// Stores the result of a UCX call that starts an operation: either UCX's request, or the final status.
void keep_started(ucs_status_ptr_t started, UcxRequest& request) {
    if (UCS_PTR_IS_PTR(started)) {
        request.handle = started;
    } else {
        request.status = UCS_PTR_STATUS(started);
        request.is_done = true;
    }
}

}  // namespace

std::string describe_ucx_status(ucs_status_t status, const UcxLine& line) {
    return fmt::format("{}{}{}", ucs_status_string(status), line[0] == '\0' ? "" : ": ", line.data());
}

Result<std::unique_ptr<UcxWorker>> UcxWorker::create(int ranks) {
    std::unique_ptr<UcxWorker> worker(new UcxWorker(ranks));
    RUEDA_RETURN_IF_FAILED(worker->open());
    return worker;
}

Status UcxWorker::open() {
    keep_log_lines_from_now_on();
    give_back_signals();
    const base::ProgramSignalsBlocked blocked;  // UCX starts a thread here. The thread inherits the blocked signals, so
                                                // it does not handle the program's signals.
    const UcxCall call;
    last_log_line[0] = '\0';
    const Result<ucp_config_t*> config = read_ucx_config();
    RUEDA_RETURN_IF_FAILED(config.status());
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME;
    parameters.features = UCP_FEATURE_TAG;
    parameters.estimated_num_eps = peers_.size();
    parameters.name = "rueda";
    const ucs_status_t initialized = ucp_init(&parameters, config.value(), &context_);
    ucp_config_release(config.value());
    if (initialized != UCS_OK) {
        return ucx_failure("ucp_init", initialized);
    }
    ucp_worker_params_t of_worker{};
    of_worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    of_worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    if (const ucs_status_t status = ucp_worker_create(context_, &of_worker, &worker_); status != UCS_OK) {
        return ucx_failure("ucp_worker_create", status);
    }
    ucp_address_t* address = nullptr;
    std::size_t length = 0;
    if (const ucs_status_t status = ucp_worker_get_address(worker_, &address, &length); status != UCS_OK) {
        return ucx_failure("ucp_worker_get_address", status);
    }
    const auto* const bytes = reinterpret_cast<const std::byte*>(address);
    address_.assign(bytes, bytes + length);
    ucp_worker_release_address(worker_, address);
    last_log_line[0] = '\0';  // Warnings that UCX logged so far are forgotten. Otherwise a later failure would report
                              // them as its reason.
    return {};
}

UcxWorker::~UcxWorker() {
    if (is_leaked_ || !is_of_this_process()) {
        return;
    }
    const UcxCall call;
    if (worker_ != nullptr) {
        ucp_worker_destroy(worker_);
    }
    if (context_ != nullptr) {
        ucp_cleanup(context_);
    }
}

std::string UcxWorker::version() {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    ucp_get_version(&major, &minor, &release);
    return fmt::format("{}.{}.{}", major, minor, release);
}

Status UcxWorker::reach(int rank) {
    Peer& reached = peer(rank);
    if (reached.endpoint != nullptr || reached.loss) {
        return {};
    }
    const UcxCall call;
    last_log_line[0] = '\0';
    ucp_ep_params_t parameters{};
    parameters.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    parameters.address = reinterpret_cast<const ucp_address_t*>(addresses_[static_cast<std::size_t>(rank)].data());
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    parameters.err_handler = {note_peer_error, &reached};
    if (const ucs_status_t status = ucp_ep_create(worker_, &parameters, &reached.endpoint); status != UCS_OK) {
        reached.endpoint = nullptr;
        return failure(ErrorCode::aborted, "a connection to rank {} over UCX could not be made: {}", rank,
                       describe_ucx_status(status, last_log_line));
    }
    return {};
}

void UcxWorker::note_peer_error(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t status) {
    auto& lost = *static_cast<Peer*>(peer);
    if (!lost.loss) {
        // Before UCX calls this function, it logs the reason. `last_log_line` has this line, even if UCX logged it
        // during an earlier call that Rueda made.
        lost.loss = Loss{status, Clock::now(), last_log_line};
        last_log_line[0] = '\0';
    }
}

const std::optional<UcxWorker::Loss>& UcxWorker::loss_of(int rank) const {
    return peers_[static_cast<std::size_t>(rank)].loss;
}

void UcxWorker::note_loss(int rank, ucs_status_t status) { note_peer_error(&peer(rank), nullptr, status); }

void UcxWorker::send(int rank, UcxTag tag, std::span<const std::byte> bytes, UcxRequest& request) {
    RUEDA_ASSERT(peer(rank).endpoint != nullptr && !peer(rank).loss);
    const UcxCall call;
    const ucp_request_param_t parameters = sending_to(request);
    keep_started(ucp_tag_send_nbx(peer(rank).endpoint, bytes.data(), bytes.size(), tag, &parameters), request);
}

void UcxWorker::receive(UcxTag tag, std::span<std::byte> room, UcxRequest& request) {
    const UcxCall call;
    const ucp_request_param_t parameters = receiving_into(request);
    keep_started(ucp_tag_recv_nbx(worker_, room.data(), room.size(), tag, kWholeTag, &parameters), request);
}

std::optional<UcxArrival> UcxWorker::find(UcxTag tag, UcxTag mask, bool takes) {
    ucp_tag_recv_info_t info{};
    const ucp_tag_message_h message = ucp_tag_probe_nb(worker_, tag, mask, takes ? 1 : 0, &info);
    if (message == nullptr) {
        return std::nullopt;
    }
    return UcxArrival{takes ? message : nullptr, info.sender_tag, info.length};
}

void UcxWorker::receive_found(const UcxArrival& found, std::span<std::byte> room, UcxRequest& request) {
    const UcxCall call;
    const ucp_request_param_t parameters = receiving_into(request);
    keep_started(ucp_tag_msg_recv_nbx(worker_, room.data(), room.size(), found.message, &parameters), request);
}

void UcxWorker::cancel(UcxRequest& request) {
    if (!request.is_done) {
        const UcxCall call;
        ucp_request_cancel(worker_, request.handle);
    }
}

void UcxWorker::release(UcxRequest& request) {
    if (request.handle != nullptr) {
        ucp_request_free(std::exchange(request.handle, nullptr));
    }
}

bool UcxWorker::progress() {
    const UcxCall call;
    return ucp_worker_progress(worker_) != 0;
}

void UcxWorker::flush(UcxRequest& request) {
    const UcxCall call;
    const ucp_request_param_t parameters = sending_to(request);
    keep_started(ucp_worker_flush_nbx(worker_, &parameters), request);
}

bool UcxWorker::disconnect(std::chrono::milliseconds limit) noexcept {
    for (Peer& one : peers_) {
        if (one.endpoint == nullptr) {
            continue;
        }
        const UcxCall call;
        ucp_request_param_t parameters{};
        parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
        const ucs_status_ptr_t close = ucp_ep_close_nbx(one.endpoint, &parameters);
        one.closing = UCS_PTR_IS_PTR(close) ? close : nullptr;
        one.endpoint = nullptr;
    }
    const auto has_closed = [](Peer& one) {
        if (one.closing != nullptr && ucp_request_check_status(one.closing) != UCS_INPROGRESS) {
            ucp_request_free(std::exchange(one.closing, nullptr));
        }
        return one.closing == nullptr;
    };
    const Clock::time_point deadline = Clock::now() + limit;
    while (!std::all_of(peers_.begin(), peers_.end(), has_closed)) {
        if (Clock::now() >= deadline) {
            return false;
        }
        progress();
    }
    return true;
}

}  // namespace rueda::collectives
