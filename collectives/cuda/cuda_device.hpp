// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/cuda_api.hpp"
#include "collectives/cuda/kernels.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "ops/cuda/kernel_image.hpp"

namespace rueda::collectives::cuda {

/// While this object lives, a device's primary context is the current context of the thread. The driver's functions
/// work on the current context, and the program's own current context must not change.
class ContextScope {
public:
    ContextScope(const CudaApi& api, CudaContext context);
    ~ContextScope();
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;
    [[nodiscard]] CudaResult error() const { return error_; }

private:
    const CudaApi& api_;
    CudaResult error_;
};

/// While this object lives, the thread's calls do not disturb another thread that captures a graph. Without such an
/// object, a query of an event or an allocation would invalidate every capture of mode "global" in the process (CUDA
/// Driver API, cuThreadExchangeStreamCaptureMode; pytorch#148594).
class RelaxedCapture {
public:
    explicit RelaxedCapture(const CudaApi& api);
    ~RelaxedCapture();
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

private:
    const CudaApi& api_;
    int mode_ = kCaptureModeRelaxed;
    bool is_exchanged_;
};

/// The begin of measured work: `event` records its time on the device. `reference` is an earlier event, and
/// `reference_ns` is the time of this earlier event on the host.
struct TimedBegin {
    CudaEvent event = nullptr;  ///< null if the work is not measured
    CudaEvent reference = nullptr;
    std::int64_t reference_ns = 0;  ///< CLOCK_MONOTONIC
};

/// One device of the process: its primary context, a pool of events, Rueda's own stream, and scratch memory.
///
/// The primary context is retained at the first use and never released, because NCCL and the program use it, too. The
/// stream and the events are never destroyed either: at the end of a process the driver may end before this code does.
///
/// Threads: any thread may call any function, except where a function says otherwise.
class Device : public std::enable_shared_from_this<Device> {
public:
    /// `kernels` is the text of the kernels (ops/cuda/kernel_image.hpp).
    [[nodiscard]] static Result<std::shared_ptr<Device>> open(const CudaApi& api, int ordinal,
                                                              std::string_view kernels = ops::cuda::kernel_image());
    Device(const CudaApi& api, int ordinal, CudaContext context, const CudaUuid& uuid, std::string name,
           std::string_view kernels);

    [[nodiscard]] const CudaApi& api() const { return api_; }
    [[nodiscard]] int ordinal() const { return ordinal_; }
    [[nodiscard]] CudaContext context() const { return context_; }
    [[nodiscard]] const CudaUuid& uuid() const { return uuid_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] Kernels& kernels() { return kernels_; }

    /// Records an event behind the work that is now in `stream`.
    [[nodiscard]] Result<DeviceEventPtr> record(CudaStream stream);
    /// begin_timed() records where measured work begins, and end_timed() records where it ends. If the device cannot
    /// measure now, begin_timed() returns a TimedBegin without an event, and the work is not measured. Threads: only
    /// the owner of the turn (take_turn()) may call begin_timed(), which may measure the device's clock.
    [[nodiscard]] TimedBegin begin_timed(CudaStream stream);
    [[nodiscard]] Result<DeviceEventPtr> end_timed(TimedBegin begin, CudaStream stream);
    /// Returns Unsupported if `stream` captures a graph.
    [[nodiscard]] Status check_not_capturing(CudaStream stream, const char* purpose) const;

    /// Returns Rueda's own stream, which has the highest priority and does not wait for the legacy default stream. All
    /// communicators of the device use this one stream: NCCL demands an order between the communicators of a device.
    [[nodiscard]] Result<CudaStream> stream();
    /// Makes another stream, with the same properties as Rueda's own stream (see stream()). It is never destroyed.
    [[nodiscard]] Result<CudaStream> make_stream();
    /// Records an event at the end of the work in each of Rueda's streams of this device, and adds the events to
    /// `events`. Only the owner of the turn may put work into the streams, so the function takes the turn for `owner`
    /// (take_turn()), and gives it back at the end. If another owner has the turn, returns false and records nothing.
    /// Two threads must not use the same `owner` at the same time.
    [[nodiscard]] Result<bool> record_all(const void* owner, std::vector<DeviceEventPtr>& events);

    /// Takes the turn, which is the right to put work into the stream. A communicator needs the turn from its first
    /// call until NCCL has put all work into the stream. NCCL does this in a thread of its own, so its functions may
    /// return earlier. Returns false if another communicator has the turn.
    [[nodiscard]] bool take_turn(const void* owner) noexcept;
    void end_turn(const void* owner) noexcept;

    /// Returns scratch memory of at least `bytes` bytes. The memory is ordered by the stream: only work in stream() may
    /// use it, and only the owner of the turn may call this function. Larger memory replaces smaller memory; the
    /// smaller memory stays allocated, because freeing it would wait for all work of the device.
    [[nodiscard]] Result<DeviceAddress> scratch(std::size_t bytes);
    /// Fills `bytes` bytes at `to` with a repeated pattern, by work in the stream. `key` identifies the pattern. The
    /// function `write` writes `kPatternBytes` bytes of the pattern. It is called once for each key. Only the owner of
    /// the turn may call fill().
    static constexpr std::size_t kPatternBytes = 4096;
    [[nodiscard]] Status fill(DeviceAddress to, std::size_t bytes, unsigned key,
                              const std::function<void(std::byte* to)>& write);

    [[nodiscard]] Status failure_of(const char* call, CudaResult error) const;
    /// Like failure_of(), for a call that failed on `stream`. Returns InvalidArgument if `stream` belongs to the
    /// program and cannot be a stream of this device.
    [[nodiscard]] Status failure_of_stream(const char* call, CudaResult error, CudaStream stream) const;
    /// Returns another device of this process, which has the number `ordinal`. The first call opens it. A caller needs
    /// the other device if that device's null stream must wait for an event of this device.
    [[nodiscard]] Result<std::shared_ptr<Device>> other(int ordinal);

private:
    friend class PooledEvent;
    friend class TimedEvent;
    [[nodiscard]] Result<CudaEvent> take_event();
    void give_back(CudaEvent event) noexcept;
    [[nodiscard]] CudaEvent record_timed_event(CudaStream stream);
    void destroy(CudaEvent event) noexcept;
    void take_reference();
    [[nodiscard]] bool try_reference(std::int64_t limit_ns, std::int64_t& best_ns);
    [[nodiscard]] Result<const std::byte*> pattern(unsigned key, const std::function<void(std::byte* to)>& write);

    const CudaApi api_;
    const int ordinal_;
    const CudaContext context_;
    const CudaUuid uuid_;
    const std::string name_;
    Kernels kernels_;

    mutable std::mutex mutex_;  // guards the next three members
    std::map<int, std::shared_ptr<Device>> others_;
    std::vector<CudaEvent> free_events_;
    CudaStream stream_ = nullptr;

    std::mutex made_mutex_;           // guards `made_`; a thread that holds it takes no other lock
    std::vector<CudaStream> made_{};  // all streams of Rueda on this device

    // The clock by which the work of the device is measured. Only the owner of the turn uses it.
    CudaStream clock_stream_ = nullptr;
    CudaEvent reference_ = nullptr;  // never destroyed, because the times of measured work are computed from this event
                                     // later
    std::int64_t reference_ns_ = 0;
    std::int64_t round_trip_ns_ = 0;  // how long the measurement of the clock took; the clock's error is at most half
                                      // of this time
    std::int64_t last_try_ns_ = 0;

    /// The owner of the turn (take_turn()); null if nobody has the turn. The acquire in take_turn() pairs with the
    /// release in end_turn() of the previous owner, so the new owner sees the changes of the fields below.
    std::atomic<const void*> turn_{nullptr};
    DeviceAddress scratch_ = 0;
    std::size_t scratch_bytes_ = 0;
    std::map<unsigned, std::byte*> patterns_;  // pinned memory with the patterns; never written again, because copies
                                               // read it later
};

}  // namespace rueda::collectives::cuda
