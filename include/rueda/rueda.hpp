// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The C++ interface of Rueda. It consists of inline functions over the C interface (rueda.h), so that program and
/// library may be built with different compilers. If a function fails, it throws a subclass of rueda::Error. Threads:
/// any function may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rueda/error.hpp"
#include "rueda/rueda.h"
#include "rueda/types.hpp"

namespace rueda {

namespace detail {
inline void check(int status) {
    if (status != RUEDA_OK) [[unlikely]] {
        throw_error(static_cast<ErrorCode>(status), rueda_last_error());
    }
}
/// Returns the exception that check() would throw. Returns null if there is no error.
inline std::exception_ptr failure_of(int status, const char* message) {
    if (status == RUEDA_OK) {
        return nullptr;
    }
    try {
        throw_error(static_cast<ErrorCode>(status), message);
    } catch (...) {
        return std::current_exception();
    }
}
inline int number(int (*function)(int*)) {
    int value = 0;
    check(function(&value));
    return value;
}
/// Whether the elements are contiguous. Eigen's blocks and maps with strides have data() and size() like a container,
/// but their elements may not be contiguous.
template <class C>
bool is_contiguous(const C& values) {
    if constexpr (requires { values.innerStride() + values.outerStride() + values.innerSize() + values.outerSize(); }) {
        return values.size() == 0 || ((values.innerSize() == 1 || values.innerStride() == 1) &&
                                      (values.outerSize() == 1 || values.outerStride() == values.innerSize()));
    }
    return true;
}
}  // namespace detail

/// Joins the other processes of the job. Collective. Without a launcher, the job consists of this process alone.
inline void init() { detail::check(rueda_init()); }
/// Forms a job of the given launched ranks. All of these ranks must call init() with the same list. See
/// rueda_init_ranks.
inline void init(std::span<const std::int32_t> ranks) { detail::check(rueda_init_ranks(ranks.data(), ranks.size())); }
inline void init(std::initializer_list<std::int32_t> ranks) {
    init(std::span<const std::int32_t>(ranks.begin(), ranks.size()));
}
/// Forms a job of the processes of an MPI communicator (an MPI_Comm). Rueda duplicates the communicator. See
/// rueda_init_communicator.
template <class Communicator>
void init_communicator(const Communicator& communicator) {
    detail::check(rueda_init_communicator(&communicator, sizeof(communicator)));
}
/// Leaves the job. The function returns when every rank has called it. See rueda_shutdown.
inline void shutdown() { detail::check(rueda_shutdown()); }
inline bool initialized() { return rueda_initialized() != 0; }

/// This process's number in the job, 0 … size() − 1.
inline int rank() { return detail::number(rueda_rank); }
inline int size() { return detail::number(rueda_size); }
/// This rank's number among the ranks of its host, 0 … local_size() − 1.
inline int local_rank() { return detail::number(rueda_local_rank); }
inline int local_size() { return detail::number(rueda_local_size); }
/// cross_rank() is this rank's position among all ranks with the same local rank; cross_size() is their number.
inline int cross_rank() { return detail::number(rueda_cross_rank); }
inline int cross_size() { return detail::number(rueda_cross_size); }
/// Whether all hosts have the same number of ranks.
inline bool is_homogeneous() { return detail::number(rueda_is_homogeneous) != 0; }
/// The number of threads with which this rank should compute, so that the ranks of its host together have no more
/// threads than cores. See rueda_threads_per_rank. training::use_cores() gives this number to OpenMP.
inline int threads_per_rank() { return detail::number(rueda_threads_per_rank); }
/// The number of the CUDA device that this rank should use, for example for cudaSetDevice. Does not communicate and
/// creates no CUDA context. May take a second. Throws Unsupported if this process may use no GPU, and InvalidArgument
/// if this host has more ranks than GPUs and RUEDA_SHARE_GPU is not set. See rueda_local_device.
inline int local_device() { return detail::number(rueda_local_device); }

/// The shape of a tensor, stored by value: up to RUEDA_MAX_DIMENSIONS extents, each ≥ 0.
class Shape {
public:
    Shape() = default;
    Shape(std::initializer_list<std::int64_t> extents)
        : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}
    Shape(std::span<const std::int64_t> extents)  // NOLINT(google-explicit-constructor): a span of extents is a shape
        : ndim_(static_cast<std::int32_t>(extents.size())) {
        if (extents.size() > RUEDA_MAX_DIMENSIONS) {
            throw InvalidArgument("a tensor has " + std::to_string(extents.size()) + " dimensions; at most " +
                                  std::to_string(RUEDA_MAX_DIMENSIONS) + " are supported");
        }
        for (std::size_t i = 0; i < extents.size(); ++i) {
            extents_[i] = extents[i];
        }
    }
    [[nodiscard]] std::int32_t ndim() const noexcept { return ndim_; }
    [[nodiscard]] const std::int64_t* data() const noexcept { return extents_; }
    [[nodiscard]] std::span<const std::int64_t> extents() const noexcept {
        return {extents_, static_cast<std::size_t>(ndim_)};
    }
    /// The product of the extents: 1 for a scalar, 0 if any extent is 0. It is −1 if no tensor can have this shape,
    /// because an extent is negative or because no memory holds so many elements. Operations refuse such a shape.
    [[nodiscard]] std::int64_t elements() const noexcept {
        const std::optional<std::uint64_t> count = detail::count_of_elements(extents());
        return count ? static_cast<std::int64_t>(*count) : -1;
    }

private:
    std::int64_t extents_[RUEDA_MAX_DIMENSIONS] = {};
    std::int32_t ndim_ = 0;
};

namespace detail {
/// The element type of a container; const if the elements must not be written.
template <class C>
using ElementOf = std::remove_reference_t<decltype(*std::declval<C&>().data())>;
/// A contiguous container with data() and size(), whose element type has a dtype.
template <class C>
concept Elements = requires(C& values) {
    values.data();
    values.size();
    dtype_of<ElementOf<C>>;
};
template <class C>
void check_dense(const C& values) {
    if (!is_contiguous(values)) {
        throw InvalidArgument("an Eigen object of " + std::to_string(values.size()) +
                              " elements is not dense in memory; copy it into a matrix of its own");
    }
}
}  // namespace detail

/// A view of an input tensor: memory that is only read, with a dtype and a shape. The memory is dense and row-major.
/// The view does not own it.
class InputView {
public:
    InputView(const void* data, DType dtype, const Shape& shape)
        : data_(const_cast<void*>(data)), dtype_(dtype), shape_(shape) {}
    /// Makes a one-dimensional tensor of the elements of `values`.
    template <class T>
    InputView(std::span<T> values)  // NOLINT(google-explicit-constructor): a span is a one-dimensional tensor
                                    // The shape is made in place, because a copy of it would cost as much as the rest
                                    // of a small message's call.
        : data_(const_cast<std::remove_const_t<T>*>(values.data())),
          dtype_(dtype_of<T>),
          shape_{static_cast<std::int64_t>(values.size())} {}
    /// Makes a one-dimensional tensor of the elements of an Eigen vector or map, or of another contiguous container
    /// with data() and size(). Throws InvalidArgument for an Eigen object with strides. For matrices use
    /// rueda/eigen.hpp.
    template <detail::Elements C>
    InputView(C& values)  // NOLINT(google-explicit-constructor): as above
        : InputView(std::span(values.data(), static_cast<std::size_t>(values.size()))) {
        detail::check_dense(values);
    }

    [[nodiscard]] const void* data() const noexcept { return data_; }
    [[nodiscard]] DType dtype() const noexcept { return dtype_; }
    [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
    /// Returns the view as a C struct. Its pointer is not const, because the C interface uses the same struct for
    /// memory that is written.
    [[nodiscard]] rueda_tensor c_tensor() const noexcept {
        return {data_, shape_.data(), shape_.ndim(), static_cast<std::int32_t>(dtype_)};
    }

protected:
    [[nodiscard]] void* memory() const noexcept { return data_; }

private:
    void* data_;
    DType dtype_;
    Shape shape_;
};

/// A view of a tensor in memory that may be written. It can be the output of an operation, or its input and output at
/// the same time.
class TensorView : public InputView {
public:
    TensorView(void* data, DType dtype, const Shape& shape) : InputView(data, dtype, shape) {}
    // NOLINTBEGIN(google-explicit-constructor): as those of InputView
    template <class T>
    requires(!std::is_const_v<T>) TensorView(std::span<T> values) : InputView(values) {}
    template <detail::Elements C>
    requires(!std::is_const_v<detail::ElementOf<C>>) TensorView(C& values) : InputView(values) {}
    // NOLINTEND(google-explicit-constructor)

    // Const values must not be written, so they cannot be an output. They can be an input (InputView).
    template <class T>
    TensorView(std::span<const T> const_values) = delete;
    template <detail::Elements C>
    requires(std::is_const_v<detail::ElementOf<C>>) TensorView(C& const_values)
    = delete;

    [[nodiscard]] void* data() const noexcept { return memory(); }
};

/// A process set: a subset of the ranks that runs operations among its members. The object is only a number for the set
/// and can be copied. The set exists until remove_process_set(). See rueda_process_set_add.
struct ProcessSet {
    std::int32_t id = 0;

    /// The members, as ranks of the job, in ascending order.
    [[nodiscard]] std::vector<std::int32_t> ranks() const {
        std::size_t count = 0;
        detail::check(rueda_process_set_ranks(id, nullptr, 0, &count));
        std::vector<std::int32_t> all(count);
        detail::check(rueda_process_set_ranks(id, all.data(), all.size(), &count));
        return all;
    }
    [[nodiscard]] int size() const { return number(rueda_process_set_size); }
    /// This rank's position among the members; throws InvalidArgument if this rank is not a member.
    [[nodiscard]] int rank() const { return number(rueda_process_set_rank); }
    [[nodiscard]] bool included() const { return number(rueda_process_set_included) != 0; }

private:
    [[nodiscard]] int number(int (*function)(std::int32_t, int*)) const {
        int value = 0;
        detail::check(function(id, &value));
        return value;
    }
};
/// The process set of all ranks.
inline ProcessSet world() { return {}; }

/// Makes a process set. Collective: every rank of the job must call this function with the same `ranks`. See
/// rueda_process_set_add.
inline ProcessSet add_process_set(std::span<const std::int32_t> ranks) {
    ProcessSet set;
    detail::check(rueda_process_set_add(ranks.data(), ranks.size(), &set.id));
    return set;
}
inline ProcessSet add_process_set(std::initializer_list<std::int32_t> ranks) {
    return add_process_set(std::span(ranks.begin(), ranks.size()));
}
/// Removes a process set. Collective: every rank of the job must call this function. Pending operations of the set
/// fail.
inline void remove_process_set(ProcessSet set) { detail::check(rueda_process_set_remove(set.id)); }
/// Makes a process set. Only the members of the set call this function, all with the same ranks. See
/// rueda_process_set_add_among.
inline ProcessSet add_process_set_among(std::span<const std::int32_t> ranks) {
    ProcessSet set;
    detail::check(rueda_process_set_add_among(ranks.data(), ranks.size(), &set.id));
    return set;
}
inline ProcessSet add_process_set_among(std::initializer_list<std::int32_t> ranks) {
    return add_process_set_among(std::span(ranks.begin(), ranks.size()));
}
/// Makes this rank leave a process set that add_process_set_among() made. Does not wait for other ranks.
inline void leave_process_set(ProcessSet set) { detail::check(rueda_process_set_leave(set.id)); }

/// Lists of ranks of the job, one list for each process set.
using RankLists = std::vector<std::vector<std::int32_t>>;

namespace detail {
/// Joins the job that `options` describe, and makes the process sets.
inline std::vector<ProcessSet> call_init_with(rueda_init_options options, const RankLists& process_sets) {
    std::vector<rueda_rank_list> lists;
    for (const std::vector<std::int32_t>& ranks : process_sets) {
        lists.push_back({ranks.data(), ranks.size()});
    }
    std::vector<std::int32_t> ids(lists.size());
    options.process_sets = lists.data();
    options.process_set_count = lists.size();
    options.process_set_ids = ids.data();
    check(rueda_init_with(&options));
    std::vector<ProcessSet> sets;
    for (const std::int32_t id : ids) {
        sets.push_back({id});
    }
    return sets;
}
}  // namespace detail

/// The options of init_with().
struct InitOptions {
    std::vector<std::int32_t> ranks = {};  ///< the launched ranks that form the job; if empty, all launched ranks
    RankLists process_sets = {};           ///< process sets that are made at the same time; all ranks must pass the
                                           ///< same sets
};
/// Joins the job and makes process sets. Returns the sets in the order of `options.process_sets`. See rueda_init_with.
inline std::vector<ProcessSet> init_with(const InitOptions& options) {
    rueda_init_options c = RUEDA_INIT_OPTIONS_INIT;
    c.ranks = options.ranks.empty() ? nullptr : options.ranks.data();
    c.rank_count = options.ranks.size();
    return detail::call_init_with(c, options.process_sets);
}
/// Forms a job of the processes of an MPI communicator and makes process sets. See rueda_init_with.
template <class Communicator>
std::vector<ProcessSet> init_communicator(const Communicator& communicator, const RankLists& process_sets) {
    rueda_init_options c = RUEDA_INIT_OPTIONS_INIT;
    c.communicator = &communicator;
    c.communicator_size = sizeof(communicator);
    return detail::call_init_with(c, process_sets);
}

/// A stream of the caller on a GPU. See rueda_device_stream in rueda.h.
using DeviceStream = rueda_device_stream;
/// Describes a stream of the caller. `stream` is a cudaStream_t; null is the default stream. `index` is the GPU's
/// number among those that the process sees.
[[nodiscard]] inline DeviceStream cuda_stream(std::int32_t index, void* stream) { return {RUEDA_CUDA, index, stream}; }

/// Options of an allreduce, a reducescatter or a reduce.
struct AllreduceOptions {
    ReduceOp op = ReduceOp::average;
    double prescale = 1.0;
    double postscale = 1.0;
    ProcessSet process_set = world();
    Compression compression = Compression::none;  ///< the format in which values travel between hosts; only for an
                                                  ///< allreduce or grouped allreduce of float32 or float64
    /// Has a value if the tensors of the call are in the memory of a GPU: that GPU, and a stream on it. The tensors are
    /// ready when the GPU has done the work that was put into the stream before the call.
    std::optional<DeviceStream> device{};
};
struct Options {
    ProcessSet process_set = world();
    std::optional<DeviceStream> device{};  ///< as in AllreduceOptions
};

/// Keeps what Rueda knows about a tensor's name, so that operations need not look the name up again: `rueda::TensorSlot
/// slot("name"); rueda::allreduce(slot, t);`
class TensorSlot {
public:
    /// Makes a slot for operations of one process set.
    explicit TensorSlot(const std::string& name, ProcessSet process_set = world()) {
        detail::check(rueda_slot_create_in(name.c_str(), process_set.id, &slot_));
    }
    TensorSlot(TensorSlot&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
    TensorSlot& operator=(TensorSlot&& other) noexcept {
        std::swap(slot_, other.slot_);
        return *this;
    }
    TensorSlot(const TensorSlot&) = delete;
    TensorSlot& operator=(const TensorSlot&) = delete;
    ~TensorSlot() { rueda_slot_destroy(slot_); }
    [[nodiscard]] rueda_slot* c_slot() const noexcept { return slot_; }

private:
    rueda_slot* slot_ = nullptr;
};

/// The file and the line of a call in the source. With RUEDA_CALL_SITES=1, errors and stall reports show them.
struct CallSite {
    const char* file = nullptr;
    std::int32_t line = 0;

    /// As a default argument, this function returns the call site of the caller. (std::source_location is not used,
    /// because Clang before version 15 does not have it.)
    [[nodiscard]] static constexpr CallSite current(const char* file = __builtin_FILE(),
                                                    std::int32_t line = __builtin_LINE()) noexcept {
        return {file, line};
    }
};

/// The name of an operation (a text or a TensorSlot), and the file and line of the call. An empty name means an unnamed
/// operation. Unnamed operations are matched between ranks by the order of the calls.
class TensorName {
public:
    // NOLINTBEGIN(google-explicit-constructor): as above
    TensorName(const char* name, CallSite site = CallSite::current()) : name_(name), site_(site) {}
    TensorName(const std::string& name, CallSite site = CallSite::current()) : name_(name.c_str()), site_(site) {}
    TensorName(const TensorSlot& slot, CallSite site = CallSite::current()) : slot_(slot.c_slot()), site_(site) {}
    // NOLINTEND(google-explicit-constructor)
    [[nodiscard]] const char* c_name() const noexcept { return name_; }
    [[nodiscard]] rueda_slot* c_slot() const noexcept { return slot_; }
    [[nodiscard]] const CallSite& site() const noexcept { return site_; }

private:
    const char* name_ = nullptr;
    rueda_slot* slot_ = nullptr;
    CallSite site_;
};

namespace detail {
/// The result points into `options`, so `options` must outlive the result.
inline rueda_options c_options(const TensorName& name, const AllreduceOptions& options) {
    return {sizeof(rueda_options),
            options.prescale,
            options.postscale,
            name.c_slot(),
            static_cast<std::int32_t>(options.op),
            options.process_set.id,
            static_cast<std::int32_t>(options.compression),
            name.site().file,
            name.site().line,
            0,
            options.device ? &*options.device : nullptr,
            0.0};
}
inline rueda_options c_options(const TensorName& name, const Options& options) {
    return {sizeof(rueda_options),
            1.0,
            1.0,
            name.c_slot(),
            RUEDA_AVERAGE,
            options.process_set.id,
            RUEDA_COMPRESSION_NONE,
            name.site().file,
            name.site().line,
            0,
            options.device ? &*options.device : nullptr,
            0.0};
}
/// Converts views to C structs. The structs point to the shapes in `tensors`, so `tensors` must outlive the structs.
template <class View>
std::vector<rueda_tensor> c_tensors(std::span<const View> tensors) {
    std::vector<rueda_tensor> all;
    all.reserve(tensors.size());
    for (const View& tensor : tensors) {
        all.push_back(tensor.c_tensor());
    }
    return all;
}
}  // namespace detail

/// The caller's reference to an operation. The destructor neither waits for the operation nor cancels it. The operation
/// uses its tensors until it has completed, so call wait() before you free their memory.
///
/// Handles are movable. A handle is empty if it was default-constructed or moved from. The destructor, the assignment
/// and empty() work with an empty handle; all other functions throw InvalidArgument.
class Handle {
public:
    Handle() = default;
    explicit Handle(rueda_handle* handle) : handle_(handle) {}
    Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    /// Releases this handle's operation, and takes the operation of `other`. The handle `other` is empty afterwards.
    Handle& operator=(Handle&& other) noexcept {
        rueda_handle* const taken = std::exchange(other.handle_, nullptr);
        rueda_handle_release(std::exchange(handle_, taken));
        return *this;
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { rueda_handle_release(handle_); }

    /// Whether the handle has no operation.
    [[nodiscard]] bool empty() const noexcept { return handle_ == nullptr; }
    /// Blocks until the operation has completed. Throws the operation's error if it failed.
    void wait() const { detail::check(rueda_wait(held("wait()"), -1.0)); }
    /// Like wait(), but throws rueda::Timeout when `timeout` has passed. The operation continues after a timeout.
    void wait_for(std::chrono::duration<double> timeout) const {
        detail::check(rueda_wait(held("wait_for()"), timeout.count()));
    }
    /// For an operation on a GPU: the work that the caller puts into `stream` after this call waits for the end of the
    /// operation. This function blocks until all ranks have called the operation, but not until the GPU has executed
    /// it. Throws the operation's error if it failed.
    void wait_on_stream(const DeviceStream& stream) const {
        detail::check(rueda_wait_on_stream(held("wait_on_stream()"), &stream, -1.0));
    }
    /// Returns true if the operation has completed, with or without success. Does not block.
    [[nodiscard]] bool ready() const {
        int completed = 0;
        detail::check(rueda_poll(held("ready()"), &completed));
        return completed != 0;
    }
    /// The type of callbacks. The argument is null after success; otherwise it is the operation's error, for
    /// std::rethrow_exception.
    using Callback = std::function<void(std::exception_ptr failure)>;
    /// Calls `callback` once, when the operation has completed. If the operation has already completed, this thread
    /// calls `callback` at once. Otherwise a thread of Rueda calls it, and other callbacks have to wait meanwhile. The
    /// callback may start operations, but must not wait for an operation; such a wait throws InvalidArgument. If the
    /// callback throws, Rueda logs the exception. A handle has at most one callback, and may be destroyed before the
    /// callback is called. See rueda_handle_on_completion.
    void on_completion(Callback callback) const {
        rueda_handle* const handle = held("on_completion()");
        auto kept = std::make_unique<Callback>(std::move(callback));
        const auto call = [](int status, const char* message, void* data) {
            const std::unique_ptr<Callback> called(static_cast<Callback*>(data));
            (*called)(detail::failure_of(status, message));
        };
        const int status = rueda_handle_on_completion(handle, call, kept.get());
        if (status == RUEDA_OK) {
            static_cast<void>(kept.release());  // the operation owns `kept` now, and may already have called it
        }
        detail::check(status);
    }
    /// Returns the result of a completed operation, if Rueda has allocated it. Rueda does this if the caller passed no
    /// output to an allgather, alltoall, reducescatter or scatter, or if the root passed no output to a gather. The
    /// view is valid as long as this handle.
    [[nodiscard]] TensorView output() const { return output(0); }
    /// Returns the result of operation `index` of a group, counted from 0.
    [[nodiscard]] TensorView output(std::size_t index) const {
        rueda_tensor tensor{};
        detail::check(rueda_handle_output_of(held("output()"), index, &tensor));
        return {tensor.data, static_cast<DType>(tensor.dtype),
                Shape(std::span(tensor.shape, static_cast<std::size_t>(tensor.ndim)))};
    }

    /// Returns the number of rows that came from each rank: after an alltoall, and after a gather on the root. The
    /// numbers are valid as long as this handle.
    [[nodiscard]] std::span<const std::int64_t> received_splits() const {
        const std::int64_t* splits = nullptr;
        std::size_t count = 0;
        detail::check(rueda_handle_received_splits(held("received_splits()"), &splits, &count));
        return {splits, count};
    }
    /// Returns the rank that sent the message. Call this after a receive_async() has completed.
    [[nodiscard]] int sender() const {
        std::int32_t rank = -1;
        detail::check(rueda_handle_sender(held("sender()"), &rank));
        return rank;
    }
    /// Returns the rank that called join() last. Call this after a join_async() has completed.
    [[nodiscard]] int joined_last() const {
        std::int32_t rank = -1;
        detail::check(rueda_handle_joined_last(held("joined_last()"), &rank));
        return rank;
    }

private:
    [[nodiscard]] rueda_handle* held(const char* call) const {
        if (handle_ == nullptr) [[unlikely]] {
            throw InvalidArgument(std::string("Handle::") + call +
                                  ": the handle is empty, because it was moved from or never had an operation; "
                                  "expected one that an _async function returned: use the handle that it was moved to");
        }
        return handle_;
    }

    rueda_handle* handle_ = nullptr;
};

/// Starts an allreduce of `in` into `out`. Both may be the same tensor. See rueda_allreduce_async.
[[nodiscard]] inline Handle allreduce_async(const TensorName& name, const InputView& in, const TensorView& out,
                                            const AllreduceOptions& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const rueda_tensor c_out = out.c_tensor();
    rueda_handle* handle = nullptr;
    detail::check(rueda_allreduce_async(name.c_name(), &c_in, &c_out, &c, &handle));
    return Handle(handle);
}
/// Starts an allreduce in place: the result replaces `tensor`.
[[nodiscard]] inline Handle allreduce_async(const TensorName& name, const TensorView& tensor,
                                            const AllreduceOptions& options = {}) {
    return allreduce_async(name, tensor, tensor, options);
}
/// Like allreduce_async(), but blocks until the operation has completed.
inline void allreduce(const TensorName& name, const InputView& in, const TensorView& out,
                      const AllreduceOptions& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const rueda_tensor c_out = out.c_tensor();
    detail::check(rueda_allreduce(name.c_name(), &c_in, &c_out, &c));
}
/// Like allreduce_async() in place, but blocks until the operation has completed.
inline void allreduce(const TensorName& name, const TensorView& tensor, const AllreduceOptions& options = {}) {
    allreduce(name, tensor, tensor, options);
}

/// Starts one allreduce for each tensor, in place. All of them have one handle. Either all of them are started or none.
[[nodiscard]] inline Handle grouped_allreduce_async(const TensorName& name, std::span<const TensorView> tensors,
                                                    const AllreduceOptions& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const std::vector<rueda_tensor> c_tensors = detail::c_tensors(tensors);
    rueda_handle* handle = nullptr;
    detail::check(rueda_grouped_allreduce_async(name.c_name(), c_tensors.size(), c_tensors.data(), c_tensors.data(), &c,
                                                &handle));
    return Handle(handle);
}
/// Like grouped_allreduce_async(), but blocks until the operation has completed.
inline void grouped_allreduce(const TensorName& name, std::span<const TensorView> tensors,
                              const AllreduceOptions& options = {}) {
    grouped_allreduce_async(name, tensors, options).wait();
}

/// Starts a broadcast: copies `tensor` of rank `root` to `tensor` of every other rank.
[[nodiscard]] inline Handle broadcast_async(const TensorName& name, const TensorView& tensor, int root,
                                            const Options& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_tensor = tensor.c_tensor();
    rueda_handle* handle = nullptr;
    detail::check(rueda_broadcast_async(name.c_name(), &c_tensor, &c_tensor, root, &c, &handle));
    return Handle(handle);
}
/// Like broadcast_async(), but blocks until the operation has completed.
inline void broadcast(const TensorName& name, const TensorView& tensor, int root, const Options& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_tensor = tensor.c_tensor();
    detail::check(rueda_broadcast(name.c_name(), &c_tensor, &c_tensor, root, &c));
}

/// Starts an allgather: concatenates the ranks' tensors along the first dimension. Handle::output() is the result.
[[nodiscard]] inline Handle allgather_async(const TensorName& name, const InputView& in, const Options& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    rueda_handle* handle = nullptr;
    detail::check(rueda_allgather_async(name.c_name(), &c_in, &c, &handle));
    return Handle(handle);
}
/// Like allgather_async(), but blocks until the operation has completed. The result is output() of the returned handle.
[[nodiscard]] inline Handle allgather(const TensorName& name, const InputView& in, const Options& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    rueda_handle* handle = nullptr;
    detail::check(rueda_allgather(name.c_name(), &c_in, &c, &handle));
    return Handle(handle);
}
/// Starts an allgather into `out`, whose first dimension must be the sum of the first dimensions of all ranks' `in`.
/// `in` must be this rank's rows in `out`, or must not overlap `out`. See rueda_allgather_into_async.
[[nodiscard]] inline Handle allgather_into_async(const TensorName& name, const InputView& in, const TensorView& out,
                                                 const Options& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const rueda_tensor c_out = out.c_tensor();
    rueda_handle* handle = nullptr;
    detail::check(rueda_allgather_into_async(name.c_name(), &c_in, &c_out, &c, &handle));
    return Handle(handle);
}
/// Like allgather_into_async(), but blocks until the operation has completed.
inline void allgather_into(const TensorName& name, const InputView& in, const TensorView& out,
                           const Options& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const rueda_tensor c_out = out.c_tensor();
    detail::check(rueda_allgather_into(name.c_name(), &c_in, &c_out, &c));
}

using ReducescatterOptions = AllreduceOptions;

/// Starts a reducescatter of `in`: `out` gets this rank's rows of the reduced tensor. See rueda_reducescatter_async.
[[nodiscard]] inline Handle reducescatter_async(const TensorName& name, const InputView& in, const TensorView& out,
                                                const ReducescatterOptions& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const rueda_tensor c_out = out.c_tensor();
    rueda_handle* handle = nullptr;
    detail::check(rueda_reducescatter_async(name.c_name(), &c_in, &c_out, &c, &handle));
    return Handle(handle);
}
/// Starts a reducescatter for which Rueda allocates the result, Handle::output().
[[nodiscard]] inline Handle reducescatter_async(const TensorName& name, const InputView& in,
                                                const ReducescatterOptions& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    rueda_handle* handle = nullptr;
    detail::check(rueda_reducescatter_async(name.c_name(), &c_in, nullptr, &c, &handle));
    return Handle(handle);
}
/// Like reducescatter_async(), but blocks until the operation has completed.
inline void reducescatter(const TensorName& name, const InputView& in, const TensorView& out,
                          const ReducescatterOptions& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const rueda_tensor c_out = out.c_tensor();
    detail::check(rueda_reducescatter(name.c_name(), &c_in, &c_out, &c));
}
/// Like reducescatter_async(), but blocks until the operation has completed. The result is output() of the returned
/// handle.
[[nodiscard]] inline Handle reducescatter(const TensorName& name, const InputView& in,
                                          const ReducescatterOptions& options = {}) {
    Handle handle = reducescatter_async(name, in, options);
    handle.wait();
    return handle;
}

namespace detail {
inline Handle start_grouped_allgather(const TensorName& name, const std::vector<rueda_tensor>& tensors,
                                      const Options& options) {
    const rueda_options c = c_options(name, options);
    rueda_handle* handle = nullptr;
    check(rueda_grouped_allgather_async(name.c_name(), tensors.size(), tensors.data(), &c, &handle));
    return Handle(handle);
}
inline Handle start_grouped_reducescatter(const TensorName& name, const std::vector<rueda_tensor>& tensors,
                                          const ReducescatterOptions& options) {
    const rueda_options c = c_options(name, options);
    rueda_handle* handle = nullptr;
    check(rueda_grouped_reducescatter_async(name.c_name(), tensors.size(), tensors.data(), nullptr, &c, &handle));
    return Handle(handle);
}
inline Handle waited_for(Handle handle) {
    handle.wait();
    return handle;
}
}  // namespace detail

/// Starts one allgather for each tensor. All of them have one handle. Either all of them are started or none.
/// Handle::output(index) are the results.
[[nodiscard]] inline Handle grouped_allgather_async(const TensorName& name, std::span<const TensorView> tensors,
                                                    const Options& options = {}) {
    return detail::start_grouped_allgather(name, detail::c_tensors(tensors), options);
}
[[nodiscard]] inline Handle grouped_allgather_async(const TensorName& name, std::span<const InputView> tensors,
                                                    const Options& options = {}) {
    return detail::start_grouped_allgather(name, detail::c_tensors(tensors), options);
}
/// Like grouped_allgather_async(), but blocks until the operation has completed. The results are output(index) of the
/// returned handle.
[[nodiscard]] inline Handle grouped_allgather(const TensorName& name, std::span<const TensorView> tensors,
                                              const Options& options = {}) {
    return detail::waited_for(grouped_allgather_async(name, tensors, options));
}
[[nodiscard]] inline Handle grouped_allgather(const TensorName& name, std::span<const InputView> tensors,
                                              const Options& options = {}) {
    return detail::waited_for(grouped_allgather_async(name, tensors, options));
}

/// Starts one reducescatter for each tensor. All of them have one handle. Either all of them are started or none.
/// Handle::output(index) are the results.
[[nodiscard]] inline Handle grouped_reducescatter_async(const TensorName& name, std::span<const TensorView> tensors,
                                                        const ReducescatterOptions& options = {}) {
    return detail::start_grouped_reducescatter(name, detail::c_tensors(tensors), options);
}
[[nodiscard]] inline Handle grouped_reducescatter_async(const TensorName& name, std::span<const InputView> tensors,
                                                        const ReducescatterOptions& options = {}) {
    return detail::start_grouped_reducescatter(name, detail::c_tensors(tensors), options);
}
/// Like grouped_reducescatter_async(), but blocks until the operation has completed. The results are output(index) of
/// the returned handle.
[[nodiscard]] inline Handle grouped_reducescatter(const TensorName& name, std::span<const TensorView> tensors,
                                                  const ReducescatterOptions& options = {}) {
    return detail::waited_for(grouped_reducescatter_async(name, tensors, options));
}
[[nodiscard]] inline Handle grouped_reducescatter(const TensorName& name, std::span<const InputView> tensors,
                                                  const ReducescatterOptions& options = {}) {
    return detail::waited_for(grouped_reducescatter_async(name, tensors, options));
}

/// Options of a sparse allreduce.
struct SparseOptions {
    ReduceOp op = ReduceOp::average;  ///< average or sum
    ProcessSet process_set = world();
};

namespace detail {
using SparseAllreduce = int (*)(const char*, const rueda_tensor*, const rueda_tensor*, const std::int64_t*,
                                std::int32_t, const rueda_options*, rueda_handle**);
inline Handle call_sparse_allreduce(SparseAllreduce function, const TensorName& name, const InputView& indices,
                                    const InputView& values, const Shape& shape, const SparseOptions& options) {
    const rueda_options c = c_options(name, AllreduceOptions{.op = options.op, .process_set = options.process_set});
    const rueda_tensor c_indices = indices.c_tensor();
    const rueda_tensor c_values = values.c_tensor();
    rueda_handle* handle = nullptr;
    check(function(name.c_name(), &c_indices, &c_values, shape.data(), shape.ndim(), &c, &handle));
    return Handle(handle);
}
}  // namespace detail

/// Starts an allreduce of a tensor with the shape `shape`. Each rank has only some rows or elements of this tensor:
/// `values` at the positions `indices`. Handle::output(0) contains the positions that at least one rank has, in
/// ascending order, as int64. Handle::output(1) contains the values at these positions. See
/// rueda_sparse_allreduce_async.
[[nodiscard]] inline Handle sparse_allreduce_async(const TensorName& name, const InputView& indices,
                                                   const InputView& values, const Shape& shape,
                                                   const SparseOptions& options = {}) {
    return detail::call_sparse_allreduce(rueda_sparse_allreduce_async, name, indices, values, shape, options);
}
/// Like sparse_allreduce_async(), but blocks until the operation has completed. The results are output(0) and output(1)
/// of the returned handle.
[[nodiscard]] inline Handle sparse_allreduce(const TensorName& name, const InputView& indices, const InputView& values,
                                             const Shape& shape, const SparseOptions& options = {}) {
    return detail::call_sparse_allreduce(rueda_sparse_allreduce, name, indices, values, shape, options);
}

namespace detail {
/// Converts splits (row counts) for the C interface. An empty list is an error. The result is never null, because the
/// C interface would take null for equal splits and report no error.
inline const std::int64_t* c_splits(std::span<const std::int64_t> splits) {
    static constexpr std::int64_t kNone = 0;
    return splits.empty() ? &kNone : splits.data();
}
inline Handle start_alltoall(const TensorName& name, const InputView& in, const std::int64_t* splits,
                             std::size_t split_count, const Options& options) {
    const rueda_options c = c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    rueda_handle* handle = nullptr;
    check(rueda_alltoall_async(name.c_name(), &c_in, splits, split_count, &c, &handle));
    return Handle(handle);
}
inline Handle run_alltoall(const TensorName& name, const InputView& in, const std::int64_t* splits,
                           std::size_t split_count, const Options& options) {
    const rueda_options c = c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    rueda_handle* handle = nullptr;
    check(rueda_alltoall(name.c_name(), &c_in, splits, split_count, &c, &handle));
    return Handle(handle);
}
inline Handle start_alltoall_into(const TensorName& name, const InputView& in, const TensorView& out,
                                  const std::int64_t* splits, std::size_t split_count, const Options& options) {
    const rueda_options c = c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const rueda_tensor c_out = out.c_tensor();
    rueda_handle* handle = nullptr;
    check(rueda_alltoall_into_async(name.c_name(), &c_in, &c_out, splits, split_count, &c, &handle));
    return Handle(handle);
}
inline void run_alltoall_into(const TensorName& name, const InputView& in, const TensorView& out,
                              const std::int64_t* splits, std::size_t split_count, const Options& options) {
    const rueda_options c = c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const rueda_tensor c_out = out.c_tensor();
    check(rueda_alltoall_into(name.c_name(), &c_in, &c_out, splits, split_count, &c));
}
}  // namespace detail

/// Starts an alltoall: the first splits[0] rows of `in` go to rank 0, the next splits[1] rows go to rank 1, and so on.
/// Handle::output() is the result, and Handle::received_splits() says how many rows came from each rank. See
/// rueda_alltoall_async.
[[nodiscard]] inline Handle alltoall_async(const TensorName& name, const InputView& in,
                                           std::span<const std::int64_t> splits, const Options& options = {}) {
    return detail::start_alltoall(name, in, detail::c_splits(splits), splits.size(), options);
}
/// Like alltoall_async() above, but every rank gets the same number of rows.
[[nodiscard]] inline Handle alltoall_async(const TensorName& name, const InputView& in, const Options& options = {}) {
    return detail::start_alltoall(name, in, nullptr, 0, options);
}
/// Like alltoall_async(), but blocks until the operation has completed. The result is output() and received_splits() of
/// the returned handle.
[[nodiscard]] inline Handle alltoall(const TensorName& name, const InputView& in, std::span<const std::int64_t> splits,
                                     const Options& options = {}) {
    return detail::run_alltoall(name, in, detail::c_splits(splits), splits.size(), options);
}
[[nodiscard]] inline Handle alltoall(const TensorName& name, const InputView& in, const Options& options = {}) {
    return detail::run_alltoall(name, in, nullptr, 0, options);
}

/// Starts an alltoall into `out`, whose first dimension must be the number of rows that all ranks send to this rank.
/// See rueda_alltoall_into_async.
[[nodiscard]] inline Handle alltoall_into_async(const TensorName& name, const InputView& in, const TensorView& out,
                                                std::span<const std::int64_t> splits, const Options& options = {}) {
    return detail::start_alltoall_into(name, in, out, detail::c_splits(splits), splits.size(), options);
}
/// Like alltoall_into_async() above, but every rank gets the same number of rows.
[[nodiscard]] inline Handle alltoall_into_async(const TensorName& name, const InputView& in, const TensorView& out,
                                                const Options& options = {}) {
    return detail::start_alltoall_into(name, in, out, nullptr, 0, options);
}
/// Like alltoall_into_async(), but blocks until the operation has completed.
inline void alltoall_into(const TensorName& name, const InputView& in, const TensorView& out,
                          std::span<const std::int64_t> splits, const Options& options = {}) {
    detail::run_alltoall_into(name, in, out, detail::c_splits(splits), splits.size(), options);
}
inline void alltoall_into(const TensorName& name, const InputView& in, const TensorView& out,
                          const Options& options = {}) {
    detail::run_alltoall_into(name, in, out, nullptr, 0, options);
}

// In the functions below, one rank is the root; `root` is its rank in the job. In a scatter, every rank has an output,
// or a result in the handle. In the other functions, only the root has one.

namespace detail {
/// A C tensor, or nothing: get() returns null if there is no tensor.
class OptionalTensor {
public:
    explicit OptionalTensor(const TensorView* view)
        : tensor_(view != nullptr ? view->c_tensor() : rueda_tensor{}), given_(view != nullptr) {}
    [[nodiscard]] const rueda_tensor* get() const noexcept { return given_ ? &tensor_ : nullptr; }

private:
    rueda_tensor tensor_;
    bool given_;
};
using Gather = int (*)(const char*, const rueda_tensor*, const rueda_tensor*, int, const rueda_options*,
                       rueda_handle**);
inline Handle call_gather(Gather function, const TensorName& name, const InputView& in, const TensorView* out, int root,
                          const Options& options) {
    const rueda_options c = c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const OptionalTensor c_out(out);
    rueda_handle* handle = nullptr;
    check(function(name.c_name(), &c_in, c_out.get(), root, &c, &handle));
    return Handle(handle);
}
using Scatter = int (*)(const char*, const rueda_tensor*, const std::int64_t*, std::size_t, const rueda_tensor*, int,
                        const rueda_options*, rueda_handle**);
inline Handle call_scatter(Scatter function, const TensorName& name, const InputView& in,
                           std::optional<std::span<const std::int64_t>> splits, const TensorView* out, int root,
                           const Options& options) {
    const rueda_options c = c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const OptionalTensor c_out(out);
    rueda_handle* handle = nullptr;
    check(function(name.c_name(), &c_in, splits ? c_splits(*splits) : nullptr, splits ? splits->size() : 0, c_out.get(),
                   root, &c, &handle));
    return Handle(handle);
}
}  // namespace detail

/// Starts a gather: the root gets the rows of all ranks. On the root, Handle::output() is the result, and
/// Handle::received_splits() says how many rows came from each rank. See rueda_gather_async.
[[nodiscard]] inline Handle gather_async(const TensorName& name, const InputView& in, int root,
                                         const Options& options = {}) {
    return detail::call_gather(rueda_gather_async, name, in, nullptr, root, options);
}
/// Like gather_async(), but blocks until the operation has completed. On the root, the result is output() of the
/// returned handle.
[[nodiscard]] inline Handle gather(const TensorName& name, const InputView& in, int root, const Options& options = {}) {
    return detail::call_gather(rueda_gather, name, in, nullptr, root, options);
}
/// Starts a gather into `out`. Only the root uses `out`, which must have space for all rows.
[[nodiscard]] inline Handle gather_into_async(const TensorName& name, const InputView& in, const TensorView& out,
                                              int root, const Options& options = {}) {
    return detail::call_gather(rueda_gather_async, name, in, &out, root, options);
}
/// Like gather_into_async(), but blocks until the operation has completed.
inline void gather_into(const TensorName& name, const InputView& in, const TensorView& out, int root,
                        const Options& options = {}) {
    static_cast<void>(detail::call_gather(rueda_gather, name, in, &out, root, options));
}

/// Starts a scatter of the root's rows: the first splits[0] rows go to rank 0, and so on. Handle::output() is the
/// result. On ranks other than the root, only the dtype of `in` and the shape of its rows matter, and `splits` is
/// ignored. See rueda_scatter_async.
[[nodiscard]] inline Handle scatter_async(const TensorName& name, const InputView& in,
                                          std::span<const std::int64_t> splits, int root, const Options& options = {}) {
    return detail::call_scatter(rueda_scatter_async, name, in, splits, nullptr, root, options);
}
/// Like scatter_async() above, but every rank gets the same number of rows.
[[nodiscard]] inline Handle scatter_async(const TensorName& name, const InputView& in, int root,
                                          const Options& options = {}) {
    return detail::call_scatter(rueda_scatter_async, name, in, std::nullopt, nullptr, root, options);
}
/// Like scatter_async(), but blocks until the operation has completed. The result is output() of the returned handle.
[[nodiscard]] inline Handle scatter(const TensorName& name, const InputView& in, std::span<const std::int64_t> splits,
                                    int root, const Options& options = {}) {
    return detail::call_scatter(rueda_scatter, name, in, splits, nullptr, root, options);
}
[[nodiscard]] inline Handle scatter(const TensorName& name, const InputView& in, int root,
                                    const Options& options = {}) {
    return detail::call_scatter(rueda_scatter, name, in, std::nullopt, nullptr, root, options);
}
/// Starts a scatter into `out`, which must have space for this rank's rows.
[[nodiscard]] inline Handle scatter_into_async(const TensorName& name, const InputView& in, const TensorView& out,
                                               std::span<const std::int64_t> splits, int root,
                                               const Options& options = {}) {
    return detail::call_scatter(rueda_scatter_async, name, in, splits, &out, root, options);
}
/// Like scatter_into_async() above, but every rank gets the same number of rows.
[[nodiscard]] inline Handle scatter_into_async(const TensorName& name, const InputView& in, const TensorView& out,
                                               int root, const Options& options = {}) {
    return detail::call_scatter(rueda_scatter_async, name, in, std::nullopt, &out, root, options);
}
/// Like scatter_into_async(), but blocks until the operation has completed.
inline void scatter_into(const TensorName& name, const InputView& in, const TensorView& out,
                         std::span<const std::int64_t> splits, int root, const Options& options = {}) {
    static_cast<void>(detail::call_scatter(rueda_scatter, name, in, splits, &out, root, options));
}
inline void scatter_into(const TensorName& name, const InputView& in, const TensorView& out, int root,
                         const Options& options = {}) {
    static_cast<void>(detail::call_scatter(rueda_scatter, name, in, std::nullopt, &out, root, options));
}

using ReduceOptions = AllreduceOptions;

/// Starts a reduce of the ranks' `in` into `out` of the root. Both may be the same tensor. Other ranks' `out` is
/// ignored. See rueda_reduce_async.
[[nodiscard]] inline Handle reduce_async(const TensorName& name, const InputView& in, const TensorView& out, int root,
                                         const ReduceOptions& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const rueda_tensor c_out = out.c_tensor();
    rueda_handle* handle = nullptr;
    detail::check(rueda_reduce_async(name.c_name(), &c_in, &c_out, root, &c, &handle));
    return Handle(handle);
}
/// Starts a reduce in place: the result replaces the root's `tensor`. On other ranks `tensor` is only read.
[[nodiscard]] inline Handle reduce_async(const TensorName& name, const TensorView& tensor, int root,
                                         const ReduceOptions& options = {}) {
    return reduce_async(name, tensor, tensor, root, options);
}
/// Like reduce_async(), but blocks until the operation has completed.
inline void reduce(const TensorName& name, const InputView& in, const TensorView& out, int root,
                   const ReduceOptions& options = {}) {
    const rueda_options c = detail::c_options(name, options);
    const rueda_tensor c_in = in.c_tensor();
    const rueda_tensor c_out = out.c_tensor();
    detail::check(rueda_reduce(name.c_name(), &c_in, &c_out, root, &c));
}
/// Like reduce_async() in place, but blocks until the operation has completed.
inline void reduce(const TensorName& name, const TensorView& tensor, int root, const ReduceOptions& options = {}) {
    reduce(name, tensor, tensor, root, options);
}

/// As the argument `peer` of receive() and receive_async(), this constant means that any rank may send the message.
inline constexpr int any_peer = RUEDA_ANY_PEER;

/// Starts sending `in` to rank `peer` of the job, which must receive it with the same tag, dtype and number of
/// elements. See rueda_send_async.
[[nodiscard]] inline Handle send_async(const InputView& in, int peer, std::int32_t tag = 0, const Options& options = {},
                                       CallSite site = CallSite::current()) {
    const rueda_options c = detail::c_options(TensorName("", site), options);
    const rueda_tensor c_in = in.c_tensor();
    rueda_handle* handle = nullptr;
    detail::check(rueda_send_async(&c_in, peer, tag, &c, &handle));
    return Handle(handle);
}
/// Like send_async(), but blocks until the operation has completed.
inline void send(const InputView& in, int peer, std::int32_t tag = 0, const Options& options = {},
                 CallSite site = CallSite::current()) {
    const rueda_options c = detail::c_options(TensorName("", site), options);
    const rueda_tensor c_in = in.c_tensor();
    detail::check(rueda_send(&c_in, peer, tag, &c));
}
/// Starts receiving a message with the given tag from `peer` (or any_peer) into `out`. Handle::sender() says which rank
/// sent the message.
[[nodiscard]] inline Handle receive_async(const TensorView& out, int peer, std::int32_t tag = 0,
                                          const Options& options = {}, CallSite site = CallSite::current()) {
    const rueda_options c = detail::c_options(TensorName("", site), options);
    const rueda_tensor c_out = out.c_tensor();
    rueda_handle* handle = nullptr;
    detail::check(rueda_receive_async(&c_out, peer, tag, &c, &handle));
    return Handle(handle);
}
/// Like receive_async(), but blocks until the operation has completed. Returns the rank that sent the message.
inline int receive(const TensorView& out, int peer, std::int32_t tag = 0, const Options& options = {},
                   CallSite site = CallSite::current()) {
    const rueda_options c = detail::c_options(TensorName("", site), options);
    const rueda_tensor c_out = out.c_tensor();
    std::int32_t sender = -1;
    detail::check(rueda_receive(&c_out, peer, tag, &c, &sender));
    return sender;
}

/// Starts a barrier. The handle completes when every rank has called barrier_async() or barrier().
[[nodiscard]] inline Handle barrier_async(const Options& options = {}, CallSite site = CallSite::current()) {
    const rueda_options c = detail::c_options(TensorName("", site), options);
    rueda_handle* handle = nullptr;
    detail::check(rueda_barrier_async(&c, &handle));
    return Handle(handle);
}
/// Returns when every rank has called barrier() or barrier_async().
inline void barrier(const Options& options = {}, CallSite site = CallSite::current()) {
    const rueda_options c = detail::c_options(TensorName("", site), options);
    detail::check(rueda_barrier(&c));
}

/// By which number allreduces divide an average while some ranks are in join(): `all` is the number of all ranks,
/// `active` the number of ranks that contribute.
enum class JoinAverage { all = RUEDA_JOIN_AVERAGE_ALL, active = RUEDA_JOIN_AVERAGE_ACTIVE };

/// Call this on a rank that has fewer batches than other ranks. join() blocks until every rank of the job has called
/// join(), and returns the rank that called it last. In the meantime, allreduces and barriers of the other ranks work
/// without this rank. See rueda_join.
inline int join(JoinAverage average = JoinAverage::all, CallSite site = CallSite::current()) {
    std::int32_t last = -1;
    rueda_set_call_site(site.file, site.line);
    detail::check(rueda_join(static_cast<std::int32_t>(average), &last));
    return last;
}

/// Like join(), but returns a handle at once. Handle::joined_last() is the rank that joined last.
[[nodiscard]] inline Handle join_async(JoinAverage average = JoinAverage::all, CallSite site = CallSite::current()) {
    rueda_handle* handle = nullptr;
    rueda_set_call_site(site.file, site.line);
    detail::check(rueda_join_async(static_cast<std::int32_t>(average), &handle));
    return Handle(handle);
}

/// Allocates zeroed memory that all ranks of the host share ("resident" memory). The ranks reduce tensors in this
/// memory in place. See rueda_allocate.
[[nodiscard]] inline void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    detail::check(rueda_allocate(bytes, &memory));
    return memory;
}
inline void deallocate(void* memory) { detail::check(rueda_deallocate(memory)); }

/// A device, for allocate().
struct Device {
    DeviceType type = DeviceType::cuda;
    std::int32_t index = 0;  ///< the device's number among those that the process sees
};
[[nodiscard]] inline Device cuda_device(std::int32_t index) { return {DeviceType::cuda, index}; }

/// Allocates memory of a device. NCCL can read and write this memory without copies of its own. The contents are
/// undefined. deallocate() frees the memory. See rueda_allocate_on_device.
[[nodiscard]] inline void* allocate(std::size_t bytes, const Device& device) {
    void* memory = nullptr;
    detail::check(rueda_allocate_on_device(static_cast<std::int32_t>(device.type), device.index, bytes, &memory));
    return memory;
}

/// Owns an array in the memory of a device: `rueda::DeviceArray<float> gradient(n, rueda::cuda_device(0));`
///
/// When the object is destroyed, the program's own work must no longer use the array. Pending operations of Rueda may
/// still use it; the memory is freed after them.
template <class T>
class DeviceArray {
public:
    DeviceArray(std::size_t size, const Device& device) : size_(size), device_(device) {
        if (size > static_cast<std::size_t>(-1) / sizeof(T)) {
            throw std::bad_array_new_length();
        }
        memory_.reset(static_cast<T*>(rueda::allocate(size * sizeof(T), device)));
    }

    /// The address on the device. The host must not read it.
    [[nodiscard]] T* data() const noexcept { return memory_.get(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] const Device& device() const noexcept { return device_; }

private:
    struct Free {
        void operator()(T* memory) const noexcept { rueda_deallocate(memory); }
    };
    std::size_t size_;
    Device device_;
    std::unique_ptr<T, Free> memory_;
};

/// Allocates memory that all ranks of the host share, for standard containers: `std::vector<float,
/// rueda::Allocator<float>> gradient(n);`
template <class T>
class Allocator {
public:
    using value_type = T;

    Allocator() = default;
    template <class U>
    Allocator(const Allocator<U>& /*other*/) noexcept {}  // NOLINT(google-explicit-constructor): required of allocators

    [[nodiscard]] T* allocate(std::size_t count) {
        if (count > static_cast<std::size_t>(-1) / sizeof(T)) {
            throw std::bad_array_new_length();
        }
        return static_cast<T*>(rueda::allocate(count * sizeof(T)));
    }
    void deallocate(T* memory, std::size_t /*count*/) noexcept { rueda_deallocate(memory); }
    friend bool operator==(const Allocator& /*a*/, const Allocator& /*b*/) noexcept { return true; }
};

/// Ends the job on all ranks because this rank cannot continue. See rueda_abort.
inline void abort(const std::string& reason) { detail::check(rueda_abort(reason.c_str())); }

/// Says that this rank begins training step `step`. Steps are counted from 0, and restarts do not reset the count. See
/// rueda_begin_step.
inline void begin_step(std::int64_t step) { detail::check(rueda_begin_step(step)); }

/// Returns how many seconds threads of this program were blocked in Rueda's operations since the first init(). See
/// rueda_blocked_seconds.
inline double blocked_seconds() {
    double seconds = 0;
    detail::check(rueda_blocked_seconds(&seconds));
    return seconds;
}

/// Returns a JSON object with counts of what this rank has done. See rueda_metrics.
inline std::string metrics() {
    std::string text;
    for (std::size_t bytes = 4096;;) {
        text.resize(bytes);
        detail::check(rueda_metrics(text.data(), text.size(), &bytes));
        if (bytes <= text.size()) {
            text.resize(bytes - 1);  // removes the terminating zero
            return text;
        }
    }
}

/// Says what this rank is doing while it runs no collectives. Stall reports show the text as long as the object lives.
class Busy {
public:
    explicit Busy(const std::string& what) { detail::check(rueda_busy_begin(what.c_str())); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    ~Busy() { rueda_busy_end(); }
};

/// Starts to write a timeline of the operations of all ranks to a file. See rueda_timeline_start.
inline void start_timeline(const std::string& path, bool mark_cycles = false) {
    detail::check(rueda_timeline_start(path.c_str(), mark_cycles ? 1 : 0));
}
/// Ends the timeline. See rueda_timeline_stop.
inline void stop_timeline() { detail::check(rueda_timeline_stop()); }

/// Adds a span to this rank's timeline, from the construction to the destruction of the object. See
/// rueda_timeline_scope.
class TimelineScope {
public:
    explicit TimelineScope(std::string name) : name_(std::move(name)) {}
    TimelineScope(const TimelineScope&) = delete;
    TimelineScope& operator=(const TimelineScope&) = delete;
    ~TimelineScope() {
        rueda_timeline_scope(name_.c_str(),
                             std::chrono::duration_cast<std::chrono::nanoseconds>(began_.time_since_epoch()).count());
    }

private:
    std::string name_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace rueda
