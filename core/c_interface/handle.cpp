// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/c_interface/handle.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/c_interface/process.hpp"

using rueda::ErrorCode;
using rueda::Status;
using rueda::core::Completion;
using rueda::core::SparseAllreduce;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::guarded;
using rueda::core::c_interface::in_callback;
using rueda::core::c_interface::not_initialized;
using rueda::core::c_interface::note_told;
using rueda::core::c_interface::process;
using rueda::core::c_interface::refused_in_callback;
using rueda::core::c_interface::with_site;

namespace {

/// The memory of released handles that a thread keeps. The blocks form a list, and each block begins with the pointer
/// to the next one.
///
/// Threads: each thread has its own object. A handle may be released by another thread than the one that made it.
class KeptHandles {
public:
    KeptHandles() = default;
    ~KeptHandles() {
        most_ = 0;  // other destructors of this thread may still release handles
        while (void* const memory = take()) {
            ::operator delete(memory);
        }
    }
    KeptHandles(const KeptHandles&) = delete;
    KeptHandles& operator=(const KeptHandles&) = delete;

    /// Returns a block, or null if the thread keeps none.
    [[nodiscard]] void* take() noexcept {
        void* const memory = first_;
        if (memory != nullptr) {
            first_ = *static_cast<void**>(memory);
            --count_;
        }
        return memory;
    }
    /// Keeps the block. Returns false if the thread keeps enough blocks already.
    [[nodiscard]] bool keep(void* memory) noexcept {
        if (count_ >= most_) {
            return false;
        }
        *static_cast<void**>(memory) = first_;
        first_ = memory;
        ++count_;
        return true;
    }

private:
    /// As many handles as a batch has operations at most; they take a third of a MiB. With AddressSanitizer, a thread
    /// keeps none, so that a use after the release is found.
#if defined(__SANITIZE_ADDRESS__)
    static constexpr std::uint32_t kMost = 0;
#elif defined(__has_feature)
    static constexpr std::uint32_t kMost = __has_feature(address_sanitizer) ? 0 : 1024;
#else
    static constexpr std::uint32_t kMost = 1024;
#endif

    void* first_ = nullptr;
    std::uint32_t count_ = 0;
    std::uint32_t most_ = kMost;
};
constinit thread_local KeptHandles kept_handles;

}  // namespace

void* rueda_handle::operator new(std::size_t bytes) {
    void* const kept = kept_handles.take();
    return kept != nullptr ? kept : ::operator new(bytes);
}

void rueda_handle::operator delete(void* memory) noexcept {
    if (memory != nullptr && !kept_handles.keep(memory)) {
        ::operator delete(memory);
    }
}

void rueda_handle::call() noexcept {
    call_back();
    drop();
}

void rueda_handle::call_back() noexcept {
    const bool nested = std::exchange(in_callback, true);
    try {
        Status placed;
        const Status& told = with_own_site(placed);
        note_told(told.code());
        callback(static_cast<int>(told.code()), told.message().c_str(), data);
    } catch (const std::exception& error) {
        runtime->logger().error("a completion callback threw an exception, which is ignored: {}", error.what());
    } catch (...) {
        runtime->logger().error("a completion callback threw an exception, which is ignored");
    }
    in_callback = nested;
}

const Status& rueda_handle::with_own_site(Status& placed) noexcept try {
    const Status& ended = outcome();
    if (ended.is_ok() || source_file == nullptr) {
        return ended;
    }
    placed = with_site(ended, source_file, source_line);
    return placed;
} catch (const std::bad_alloc&) {
    return outcome();
}

namespace {

Status no_handle() {
    return {ErrorCode::invalid_argument,
            "the handle is NULL; expected one from an _async function: was its operation refused?"};
}

/// Sets the completion callback. If the operation has ended already, calls the callback at once.
Status call_at_end(rueda_handle& handle, rueda_callback callback, void* data) {
    if (callback == nullptr) {
        return {ErrorCode::invalid_argument, "the callback is NULL; expected a function"};
    }
    if (!handle.claim()) {
        return {ErrorCode::invalid_argument,
                "this handle has a completion callback already, and can have only one: call several functions from "
                "that callback"};
    }
    const bool ended = handle.done();
    Status started = ended ? Status() : handle.runtime->callbacks().start();
    // The start of the callback thread also fails after this process has left the job. By that time all operations have
    // ended, so this function calls the callback itself.
    if (!started.is_ok() && !handle.done()) {
        handle.give_up_claim();
        return started;
    }
    handle.callback = callback;
    handle.data = data;
    const bool is_now = ended || !started.is_ok() || !handle.arm(handle);
    if (is_now) {
        // keeps the handle alive, because the callback may release it and still read its text afterwards
        handle.keep();
        handle.call();
    }
    return {};
}

/// Checks a handle whose result the caller asks for.
Status check_completed(rueda_handle* handle) {
    if (handle == nullptr) {
        return no_handle();
    }
    if (!handle->done()) {
        return {ErrorCode::invalid_argument,
                "the operation has not completed: wait for it before asking for its output"};
    }
    return handle->outcome();
}

}  // namespace

extern "C" {

int rueda_wait(rueda_handle* handle, double timeout_seconds) {
    return guarded([&]() -> Status {
        if (process().forked.load(std::memory_order_relaxed)) {
            return not_initialized();
        }
        if (handle == nullptr) {
            return no_handle();
        }
        if (std::isnan(timeout_seconds)) {
            return {ErrorCode::invalid_argument,
                    "the timeout is not a number; expected seconds, or a negative number for none"};
        }
        Status status =
            in_callback && !handle->done() ? refused_in_callback() : handle->runtime->wait(*handle, timeout_seconds);
        if (status.is_ok() && handle->sparse != nullptr) {
            status = handle->outcome();
        }
        return status.is_ok() ? status : with_site(status, handle->source_file, handle->source_line);
    });
}

int rueda_wait_on_stream(rueda_handle* handle, const rueda_device_stream* stream, double timeout_seconds) {
    return guarded([&]() -> Status {
        if (process().forked.load(std::memory_order_relaxed)) {
            return not_initialized();
        }
        if (handle == nullptr) {
            return no_handle();
        }
        if (stream == nullptr || stream->type != RUEDA_CUDA || std::isnan(timeout_seconds)) {
            return {ErrorCode::invalid_argument,
                    stream == nullptr ? "the stream is NULL; expected a pointer to a rueda_device_stream"
                    : stream->type != RUEDA_CUDA
                        ? "the stream is not one of a CUDA device; expected the type RUEDA_CUDA"
                        : "the timeout is not a number; expected seconds, or a negative "
                          "number for none"};
        }
        const Status status = in_callback && !handle->done()
                                  ? refused_in_callback()
                                  : handle->runtime->wait_on_stream(*handle, *stream, timeout_seconds);
        return status.is_ok() ? status : with_site(status, handle->source_file, handle->source_line);
    });
}

int rueda_handle_waits_for(rueda_handle* handle, char* text, size_t size) {
    return guarded([&]() -> Status {
        if (process().forked.load(std::memory_order_relaxed)) {
            return not_initialized();
        }
        if (handle == nullptr) {
            return no_handle();
        }
        RUEDA_RETURN_IF_FAILED(check_place(text, "text"));
        if (size == 0) {
            return {ErrorCode::invalid_argument, "the size of the memory for the text is 0; expected one byte or more"};
        }
        const std::string found = handle->runtime->describe_wait(*handle);
        text[rueda::base::copy_shortened(found, {text, size - 1})] = '\0';
        return {};
    });
}

int rueda_poll(rueda_handle* handle, int* completed) {
    return guarded([&]() -> Status {
        if (process().forked.load(std::memory_order_relaxed)) {
            return not_initialized();
        }
        if (handle == nullptr) {
            return no_handle();
        }
        RUEDA_RETURN_IF_FAILED(check_place(completed, "answer"));
        *completed = handle->runtime->poll(*handle) ? 1 : 0;
        return {};
    });
}

int rueda_handle_output(rueda_handle* handle, rueda_tensor* output) {
    return rueda_handle_output_of(handle, 0, output);
}

int rueda_handle_output_of(rueda_handle* handle, size_t index, rueda_tensor* output) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_completed(handle));
        RUEDA_RETURN_IF_FAILED(check_place(output, "output"));
        const std::size_t outputs = handle->sparse != nullptr ? SparseAllreduce::kResults : handle->outputs();
        if (index >= outputs) {
            return rueda::failure(ErrorCode::invalid_argument, "this handle has no output {}; expected 0 to {}", index,
                                  outputs - 1);
        }
        const Completion::Output* ready = nullptr;
        if (handle->sparse != nullptr) {
            const auto combined = handle->sparse->result(*handle, index);
            RUEDA_RETURN_IF_FAILED(combined.status());
            ready = combined.value();
        } else {
            ready = &handle->output(static_cast<std::uint32_t>(index));
        }
        const Completion::Output& found = *ready;
        if (found.memory == nullptr) {
            return {ErrorCode::invalid_argument,
                    "this operation has no output of its own; an allgather, an alltoall, a reducescatter, a "
                    "scatter, and a gather on its root have one if no output was given"};
        }
        *output = {found.memory.get(), found.shape.data(), static_cast<std::int32_t>(found.shape.size()),
                   static_cast<std::int32_t>(found.dtype)};
        return {};
    });
}

int rueda_handle_received_splits(rueda_handle* handle, const int64_t** splits, size_t* count) {
    return guarded([&]() -> Status {
        // For an operation on a GPU, the engine writes the received splits before it launches the operation, and does
        // not change them afterwards. So they can be read after the launch.
        const bool is_known =
            handle != nullptr && handle->is_on_device() && handle->is_launched() && !handle->has_failed();
        if (!is_known) {
            RUEDA_RETURN_IF_FAILED(check_completed(handle));
        }
        RUEDA_RETURN_IF_FAILED(check_place(splits, "splits"));
        RUEDA_RETURN_IF_FAILED(check_place(count, "number"));
        if (handle->received_splits.empty()) {
            return {ErrorCode::invalid_argument,
                    "this operation received no splits; only an alltoall does, and a gather on its root"};
        }
        *splits = handle->received_splits.data();
        *count = handle->received_splits.size();
        return {};
    });
}

int rueda_handle_sender(rueda_handle* handle, int32_t* sender) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_completed(handle));
        RUEDA_RETURN_IF_FAILED(check_place(sender, "rank"));
        if (!handle->is_receive) {
            return {ErrorCode::invalid_argument, "this operation is not a receive"};
        }
        *sender = handle->sender;
        return {};
    });
}

int rueda_handle_joined_last(rueda_handle* handle, int32_t* last_rank) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_completed(handle));
        RUEDA_RETURN_IF_FAILED(check_place(last_rank, "rank"));
        if (handle->joined_last < 0) {
            return {ErrorCode::invalid_argument, "this operation is not a join"};
        }
        *last_rank = handle->joined_last;
        return {};
    });
}

int rueda_handle_on_completion(rueda_handle* handle, rueda_callback callback, void* data) {
    return guarded([&]() -> Status {
        if (process().forked.load(std::memory_order_relaxed)) {
            return not_initialized();
        }
        if (handle == nullptr) {
            return no_handle();
        }
        return call_at_end(*handle, callback, data);
    });
}

void rueda_handle_release(rueda_handle* handle) {
    if (handle != nullptr) {
        handle->drop();
    }
}

}  // extern "C"
