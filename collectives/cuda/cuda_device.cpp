// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/cuda_device.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "base/system/clock.hpp"
#include "collectives/cuda/load_cuda.hpp"

namespace rueda::collectives::cuda {
namespace {

/// cuStreamIsCapturing() returns this error for the legacy default stream while another stream of the context captures.
constexpr CudaResult kCaptureImplicit = 906;
/// Scratch memory is a multiple of this size, so that slightly larger batches need no new memory.
constexpr std::size_t kScratchStep = std::size_t{8} << 20;

Status capture_refusal(int device, const char* what) {
    return failure(ErrorCode::unsupported,
                   "the stream on GPU {} captures a CUDA graph, and Rueda cannot {} during a capture: a replay of the "
                   "graph would bypass the order in which all ranks call their operations; call Rueda outside the "
                   "captured region",
                   device, what);
}

}  // namespace

ContextScope::ContextScope(const CudaApi& api, CudaContext context) : api_(api), error_(api.context_push(context)) {}
ContextScope::~ContextScope() {
    if (error_ == kCudaSuccess) {
        CudaContext popped = nullptr;
        static_cast<void>(api_.context_pop(&popped));
    }
}

RelaxedCapture::RelaxedCapture(const CudaApi& api)
    : api_(api), is_exchanged_(api.thread_exchange_capture_mode(&mode_) == kCudaSuccess) {}
RelaxedCapture::~RelaxedCapture() {
    if (is_exchanged_) {
        static_cast<void>(api_.thread_exchange_capture_mode(&mode_));
    }
}

/// An event of a device's pool. The last owner gives the event back to the pool.
class PooledEvent final : public DeviceEvent {
public:
    PooledEvent(std::shared_ptr<Device> device, CudaEvent event) : device_(std::move(device)), event_(event) {}
    ~PooledEvent() override { device_->give_back(event_); }
    PooledEvent(const PooledEvent&) = delete;
    PooledEvent& operator=(const PooledEvent&) = delete;

    Result<bool> is_done() override {
        // All accesses to this flag are relaxed, because no other memory depends on it.
        if (is_done_.load(std::memory_order_relaxed)) {
            return true;
        }
        const CudaApi& api = device_->api();
        const RelaxedCapture relaxed(api);
        const ContextScope scope(api, device_->context());
        if (scope.error() != kCudaSuccess) {
            return device_->failure_of("cuCtxPushCurrent", scope.error());
        }
        const CudaResult result = api.event_query(event_);
        if (result == kCudaNotReady) {
            return false;
        }
        if (result != kCudaSuccess) {
            return device_->failure_of("cuEventQuery", result);
        }
        is_done_.store(true, std::memory_order_relaxed);
        return true;
    }

    Status make_wait(DeviceStream stream) override;

private:
    const std::shared_ptr<Device> device_;
    const CudaEvent event_;
    std::atomic<bool> is_done_{false};
};

/// The event at the end of measured work. It also owns two events that record the times at which the work began and
/// ended. The destructor destroys these two and does not give them back to the pool: only a timeline needs such events.
class TimedEvent final : public DeviceEvent {
public:
    TimedEvent(std::shared_ptr<Device> device, TimedBegin begin, CudaEvent measured, DeviceEventPtr end)
        : device_(std::move(device)), begin_(begin), measured_(measured), end_(std::move(end)) {}
    ~TimedEvent() override {
        const CudaApi& api = device_->api();
        const RelaxedCapture relaxed(api);
        const ContextScope scope(api, device_->context());
        static_cast<void>(api.event_destroy(begin_.event));
        static_cast<void>(api.event_destroy(measured_));
    }
    TimedEvent(const TimedEvent&) = delete;
    TimedEvent& operator=(const TimedEvent&) = delete;

    Result<bool> is_done() override { return end_->is_done(); }
    Status make_wait(DeviceStream stream) override { return end_->make_wait(stream); }
    std::optional<Times> times() override {
        const CudaApi& api = device_->api();
        const ContextScope scope(api, device_->context());
        float before_begin = 0;
        float before_end = 0;
        if (api.event_elapsed_time(&before_begin, begin_.reference, begin_.event) != kCudaSuccess ||
            api.event_elapsed_time(&before_end, begin_.reference, measured_) != kCudaSuccess) {
            return std::nullopt;
        }
        const auto at = [this](float milliseconds) {
            constexpr double kNsPerMs = 1e6;
            return begin_.reference_ns + static_cast<std::int64_t>(static_cast<double>(milliseconds) * kNsPerMs);
        };
        return Times{at(before_begin), at(before_end)};
    }

private:
    const std::shared_ptr<Device> device_;
    const TimedBegin begin_;
    const CudaEvent measured_;
    const DeviceEventPtr end_;
};

Status PooledEvent::make_wait(DeviceStream stream) {
    const CudaApi& api = device_->api();
    // A null stream means the default stream of the thread's current context, so the context of the stream's device
    // must be current here. For any other stream, any context may be current, because the stream belongs to its own
    // context.
    std::shared_ptr<Device> other;
    if (stream.stream == nullptr && stream.device != device_->ordinal()) {
        auto opened = device_->other(stream.device);
        RUEDA_RETURN_IF_FAILED(opened.status());
        other = std::move(opened).value();
    }
    const Device& current = other != nullptr ? *other : *device_;
    // If the stream captures a graph, a wait for an event that is not part of the capture would invalidate the capture.
    // So the first step is to check that the stream does not capture.
    RUEDA_RETURN_IF_FAILED(
        current.check_not_capturing(static_cast<CudaStream>(stream.stream), "make the stream wait for an operation"));
    const ContextScope scope(api, current.context());
    if (scope.error() != kCudaSuccess) {
        return current.failure_of("cuCtxPushCurrent", scope.error());
    }
    const CudaResult result = api.stream_wait_event(static_cast<CudaStream>(stream.stream), event_, 0);
    if (result == kCudaCaptureIsolation || result == kCudaCaptureUnsupported || result == kCaptureImplicit) {
        return capture_refusal(stream.device, "make the stream wait for an operation");
    }
    return result == kCudaSuccess
               ? Status()
               : current.failure_of_stream("cuStreamWaitEvent", result, static_cast<CudaStream>(stream.stream));
}

Device::Device(const CudaApi& api, int ordinal, CudaContext context, const CudaUuid& uuid, std::string name,
               std::string_view kernels)
    : api_(api),
      ordinal_(ordinal),
      context_(context),
      uuid_(uuid),
      name_(std::move(name)),
      kernels_(api_, ordinal, context, kernels) {}

Result<std::shared_ptr<Device>> Device::open(const CudaApi& api, int ordinal, std::string_view kernels) {
    int count = 0;
    if (const CudaResult error = api.device_get_count(&count); error != kCudaSuccess) {
        return cuda_failure(api, ErrorCode::unsupported, "cuDeviceGetCount", -1, error);
    }
    if (ordinal < 0 || ordinal >= count) {
        return failure(ErrorCode::invalid_argument,
                       "the tensor is on GPU {}, but this process sees {} GPU{}, numbered from 0; look at the variable "
                       "CUDA_VISIBLE_DEVICES",
                       ordinal, count, count == 1 ? "" : "s");
    }
    const RelaxedCapture relaxed(api);
    int device = 0;
    CudaUuid uuid{};
    std::array<char, 128> name{};
    CudaContext context = nullptr;
    const char* call = "cuDeviceGet";
    CudaResult error = api.device_get(&device, ordinal);
    if (error == kCudaSuccess) {
        call = "cuDeviceGetUuid";
        error = api.device_get_uuid(&uuid, device);
    }
    if (error == kCudaSuccess) {
        call = "cuDeviceGetName";
        error = api.device_get_name(name.data(), static_cast<int>(name.size() - 1), device);
    }
    if (error == kCudaSuccess) {
        call = "cuDevicePrimaryCtxRetain";
        error = api.primary_context_retain(&context, device);
    }
    if (error != kCudaSuccess) {
        return cuda_failure(api, ErrorCode::unsupported, call, ordinal, error);
    }
    return std::make_shared<Device>(api, ordinal, context, uuid, name.data(), kernels);
}

Status Device::failure_of(const char* call, CudaResult error) const {
    return cuda_failure(api_, error == kCudaOutOfMemory ? ErrorCode::resource_exhausted : ErrorCode::aborted, call,
                        ordinal_, error);
}

Status Device::failure_of_stream(const char* call, CudaResult error, CudaStream stream) const {
    const bool is_own = [&] {
        const std::scoped_lock lock(mutex_);
        return stream != nullptr && stream == stream_;
    }();
    if (!is_own && (error == kCudaInvalidHandle || error == kCudaInvalidContext || error == kCudaInvalidValue)) {
        return failure(ErrorCode::invalid_argument,
                       "the stream of the call is not a stream of GPU {}, or it was destroyed ({} returned {}); give "
                       "each stream with the number of its own GPU",
                       ordinal_, call, error);
    }
    return failure_of(call, error);
}

Result<std::shared_ptr<Device>> Device::other(int ordinal) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = others_.find(ordinal); found != others_.end()) {
        return found->second;
    }
    auto opened = open(api_, ordinal);
    if (opened.is_ok()) {
        others_.emplace(ordinal, opened.value());
    }
    return opened;
}

Status Device::check_not_capturing(CudaStream stream, const char* purpose) const {
    const ContextScope scope(api_, context_);
    if (scope.error() != kCudaSuccess) {
        return failure_of("cuCtxPushCurrent", scope.error());
    }
    int capture = kCaptureNone;
    const CudaResult result = api_.stream_is_capturing(stream, &capture);
    if (result == kCaptureImplicit || (result == kCudaSuccess && capture != kCaptureNone)) {
        return capture_refusal(ordinal_, purpose);
    }
    return result == kCudaSuccess ? Status() : failure_of_stream("cuStreamIsCapturing", result, stream);
}

Result<CudaEvent> Device::take_event() {
    {
        const std::scoped_lock lock(mutex_);
        if (!free_events_.empty()) {
            const CudaEvent event = free_events_.back();
            free_events_.pop_back();
            return event;
        }
    }
    CudaEvent event = nullptr;
    const CudaResult result = api_.event_create(&event, kEventDisableTiming);
    if (result != kCudaSuccess) {
        return failure_of("cuEventCreate", result);
    }
    return event;
}

void Device::give_back(CudaEvent event) noexcept {
    try {
        const std::scoped_lock lock(mutex_);
        free_events_.push_back(event);
    } catch (...) {  // NOLINT(bugprone-empty-catch): without memory for the list, the event is not used again
    }
}

Result<DeviceEventPtr> Device::record(CudaStream stream) {
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, context_);
    if (scope.error() != kCudaSuccess) {
        return failure_of("cuCtxPushCurrent", scope.error());
    }
    auto taken = take_event();
    RUEDA_RETURN_IF_FAILED(taken.status());
    auto event = std::make_shared<PooledEvent>(shared_from_this(), taken.value());
    const CudaResult result = api_.event_record(taken.value(), stream);
    if (result != kCudaSuccess) {
        return failure_of_stream("cuEventRecord", result, stream);
    }
    return DeviceEventPtr(std::move(event));
}

/// Returns null if this fails.
CudaEvent Device::record_timed_event(CudaStream stream) {
    CudaEvent event = nullptr;
    if (api_.event_create(&event, 0) != kCudaSuccess) {
        return nullptr;
    }
    if (api_.event_record(event, stream) != kCudaSuccess) {
        destroy(event);
        return nullptr;
    }
    return event;
}

/// Destroys the event. If the device has not reached the event yet, cuEventDestroy() frees it later.
void Device::destroy(CudaEvent event) noexcept { static_cast<void>(api_.event_destroy(event)); }

/// Compares the device's clock with the host's clock. Records an event in a stream without other work, and reads the
/// host's clock before and after it. cuEventElapsedTime() then measures later times of the device from this event, and
/// returns milliseconds as a float. After a minute, the precision of the float is only 4 microseconds, so the clocks
/// are compared again. If the device or the host is busy, the comparison may fail or be imprecise. Then this function
/// makes no other comparison for some time, because each one can cost 20 ms of the thread that drives progress.
void Device::take_reference() {
    constexpr std::int64_t kValidNs = 60'000'000'000;
    constexpr std::int64_t kPreciseNs = 500'000;
    constexpr std::int64_t kPauseWithoutNs = 1'000'000'000;
    constexpr std::int64_t kPauseImpreciseNs = 10'000'000'000;
    const std::int64_t now_ns = base::monotonic_ns();
    const bool is_valid = reference_ != nullptr && now_ns - reference_ns_ < kValidNs;
    const std::int64_t pause_ns = is_valid ? kPauseImpreciseNs : kPauseWithoutNs;
    if ((is_valid && round_trip_ns_ <= kPreciseNs) || (last_try_ns_ != 0 && now_ns - last_try_ns_ < pause_ns)) {
        return;
    }
    constexpr std::int64_t kPatienceNs = 20'000'000;  // limits how long a device that hangs blocks this thread
    std::int64_t best_ns = is_valid ? round_trip_ns_ : kPatienceNs;
    while (best_ns > kPreciseNs && base::monotonic_ns() - now_ns < kPatienceNs &&
           try_reference(now_ns + kPatienceNs, best_ns)) {
    }
    last_try_ns_ = base::monotonic_ns();
}

/// Measures once, and keeps the result if the round trip is shorter than `best_ns`. Returns whether another try may
/// succeed.
bool Device::try_reference(std::int64_t limit_ns, std::int64_t& best_ns) {
    if (clock_stream_ == nullptr) {
        auto made = make_stream();
        if (!made.is_ok()) {
            return false;
        }
        clock_stream_ = made.value();
    }
    const std::int64_t before_ns = base::monotonic_ns();
    const CudaEvent event = record_timed_event(clock_stream_);
    if (event == nullptr) {
        return false;
    }
    CudaResult reached = kCudaNotReady;
    std::int64_t after_ns = before_ns;
    do {
        reached = api_.event_query(event);
        after_ns = base::monotonic_ns();
    } while (reached == kCudaNotReady && after_ns < limit_ns);
    if (reached != kCudaSuccess || after_ns - before_ns >= best_ns) {
        destroy(event);
        return reached == kCudaSuccess;
    }
    best_ns = round_trip_ns_ = after_ns - before_ns;
    reference_ = event;
    reference_ns_ = before_ns + best_ns / 2;
    return true;
}

TimedBegin Device::begin_timed(CudaStream stream) {
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, context_);
    take_reference();
    const CudaEvent event = reference_ != nullptr ? record_timed_event(stream) : nullptr;
    return event == nullptr ? TimedBegin() : TimedBegin{event, reference_, reference_ns_};
}

Result<DeviceEventPtr> Device::end_timed(TimedBegin begin, CudaStream stream) {
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, context_);
    const CudaEvent measured = record_timed_event(stream);
    auto end = record(stream);
    if (measured == nullptr || !end.is_ok()) {
        destroy(begin.event);
        if (measured != nullptr) {
            destroy(measured);
        }
        return end;
    }
    return DeviceEventPtr(std::make_shared<TimedEvent>(shared_from_this(), begin, measured, std::move(end).value()));
}

Result<CudaStream> Device::stream() {
    const std::scoped_lock lock(mutex_);
    if (stream_ == nullptr) {
        auto made = make_stream();
        RUEDA_RETURN_IF_FAILED(made.status());
        stream_ = made.value();
    }
    return stream_;
}

Result<CudaStream> Device::make_stream() {
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, context_);
    int least = 0;
    int greatest = 0;
    CudaStream stream = nullptr;
    CudaResult result = scope.error();
    if (result == kCudaSuccess) {
        result = api_.context_get_stream_priority_range(&least, &greatest);
    }
    if (result == kCudaSuccess) {
        // The stream gets the highest priority, which is the lowest number. Kernels of communication are short, and
        // other ranks wait for them. So the device should run them before the blocks of the program's kernels that have
        // not begun yet.
        result = api_.stream_create_with_priority(&stream, kStreamNonBlocking, greatest);
    }
    if (result != kCudaSuccess) {
        return failure_of("cuStreamCreateWithPriority", result);
    }
    const std::scoped_lock lock(made_mutex_);
    made_.push_back(stream);
    return stream;
}

Result<bool> Device::record_all(const void* owner, std::vector<DeviceEventPtr>& events) {
    if (!take_turn(owner)) {
        return false;
    }
    const std::vector<CudaStream> streams = [&] {
        const std::scoped_lock lock(made_mutex_);
        return made_;
    }();
    Status status;
    std::vector<DeviceEventPtr> recorded;
    for (std::size_t i = 0; i < streams.size() && status.is_ok(); ++i) {
        auto event = record(streams[i]);
        status = event.status();
        if (event.is_ok()) {
            recorded.push_back(std::move(event).value());
        }
    }
    end_turn(owner);
    RUEDA_RETURN_IF_FAILED(status);
    events.insert(events.end(), recorded.begin(), recorded.end());
    return true;
}

bool Device::take_turn(const void* owner) noexcept {
    const void* nobody = nullptr;
    // Acquires what end_turn() released.
    return turn_.compare_exchange_strong(nobody, owner, std::memory_order_acquire, std::memory_order_relaxed) ||
           nobody == owner;
}

void Device::end_turn(const void* owner) noexcept {
    const void* expected = owner;
    // Release: pairs with the acquire in take_turn().
    turn_.compare_exchange_strong(expected, nullptr, std::memory_order_release, std::memory_order_relaxed);
}

Result<DeviceAddress> Device::scratch(std::size_t bytes) {
    if (bytes <= scratch_bytes_) {
        return scratch_;
    }
    // The scratch memory at least doubles each time. All earlier scratch memory together is therefore smaller than the
    // newest one.
    const std::size_t wanted = std::max((bytes + kScratchStep - 1) / kScratchStep * kScratchStep, 2 * scratch_bytes_);
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, context_);
    DeviceAddress address = 0;
    const CudaResult result = scope.error() != kCudaSuccess ? scope.error() : api_.memory_allocate(&address, wanted);
    if (result != kCudaSuccess) {
        return failure_of("cuMemAlloc", result);
    }
    scratch_ = address;
    scratch_bytes_ = wanted;
    return scratch_;
}

Result<const std::byte*> Device::pattern(unsigned key, const std::function<void(std::byte* to)>& write) {
    if (const auto found = patterns_.find(key); found != patterns_.end()) {
        return found->second;
    }
    void* memory = nullptr;
    const CudaResult result = api_.host_allocate(&memory, kPatternBytes, kHostPortable);
    if (result != kCudaSuccess) {
        return failure_of("cuMemHostAlloc", result);
    }
    write(static_cast<std::byte*>(memory));
    return patterns_.emplace(key, static_cast<std::byte*>(memory)).first->second;
}

Status Device::fill(DeviceAddress to, std::size_t bytes, unsigned key,
                    const std::function<void(std::byte* to)>& write) {
    auto queue = stream();
    RUEDA_RETURN_IF_FAILED(queue.status());
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, context_);
    if (scope.error() != kCudaSuccess) {
        return failure_of("cuCtxPushCurrent", scope.error());
    }
    auto source = pattern(key, write);
    RUEDA_RETURN_IF_FAILED(source.status());
    // The first copy comes from the host. Each further copy doubles the filled part of the device's memory, so b bytes
    // cost log2(b / 4096) copies, and no kernel is needed. Addresses of pinned host memory are valid on the device, too
    // (unified addressing).
    DeviceAddress from = std::bit_cast<std::uintptr_t>(source.value());
    std::size_t part = std::min(bytes, kPatternBytes);
    for (std::size_t done = 0; done < bytes; part = std::min(done, bytes - done), from = to) {
        const CudaResult result = api_.copy_async(to + done, from, part, queue.value());
        if (result != kCudaSuccess) {
            return failure_of("cuMemcpyAsync", result);
        }
        done += part;
    }
    return {};
}

}  // namespace rueda::collectives::cuda
