// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The network on a GPU, through cuDNN. The program puts all work into one stream. Rueda reads a gradient only after
/// the GPU has done the work that was in the stream before the allreduce was called. The update of a parameter is in
/// the same stream, and begins when the allreduce of its gradient has completed. The CPU waits for the GPU only once in
/// each step, to get the logits.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "cuda_functions.hpp"
#include "model.hpp"
#include "rueda/rueda.hpp"

namespace digits {
namespace {

constexpr float kOne = 1.0F;
constexpr float kZero = 0.0F;

/// The GPU that Rueda chose for this rank, a stream on it, and cuDNN.
class Gpu {
public:
    Gpu() : cuda(open_cuda()), cudnn(open_cudnn()), ordinal(rueda::local_device()) {
        constexpr unsigned kNonBlocking = 1;  // the stream does not wait for the default stream
        int device = 0;
        void* context = nullptr;
        check(cuda.init(0), "cuInit");
        check(cuda.get_device(&device, ordinal), "cuDeviceGet");
        check(cuda.retain_context(&context, device), "cuDevicePrimaryCtxRetain");
        check(cuda.push_context(context), "cuCtxPushCurrent");
        check(cuda.create_stream(&stream, kNonBlocking, 0), "cuStreamCreateWithPriority");
        check_cudnn(cudnn.create(&handle), "cudnnCreate");
        check_cudnn(cudnn.set_stream(handle, stream), "cudnnSetStream");
    }
    [[nodiscard]] rueda::DeviceStream rueda_stream() const { return rueda::cuda_stream(ordinal, stream); }
    void synchronise() const { check(cuda.synchronise(stream), "cuStreamSynchronize"); }
    void check(int error, const char* call) const {
        if (error != 0) {
            const char* name = nullptr;
            cuda.get_error_name(error, &name);
            throw rueda::Unsupported(std::string(call) + " failed: " + (name == nullptr ? "unknown error" : name));
        }
    }
    void check_cudnn(int status, const char* call) const {
        if (status != 0) {
            throw rueda::Unsupported(std::string(call) + " failed: " + cudnn.get_error_string(status));
        }
    }

    CudaFunctions cuda;
    CudnnFunctions cudnn;
    int ordinal;
    void* stream = nullptr;
    CudnnObject handle = nullptr;
};

/// Numbers in the GPU's memory.
class Numbers {
public:
    explicit Numbers(const Gpu& gpu) : gpu_(gpu) {}
    ~Numbers() { release(); }
    Numbers(const Numbers&) = delete;
    Numbers& operator=(const Numbers&) = delete;

    [[nodiscard]] float* data() const { return reinterpret_cast<float*>(address_); }
    /// Makes room for `count` numbers. The numbers that the object had before may be lost.
    void resize(std::size_t count) {
        if (count > capacity_) {
            release();
            gpu_.check(gpu_.cuda.allocate(&address_, count * sizeof(float)), "cuMemAlloc");
            capacity_ = count;
        }
        count_ = count;
    }
    /// upload() and download() put a copy into the stream. When upload() returns, `from` may change: cuMemcpyAsync has
    /// already read it, because it is pageable memory. download() has written `to` when synchronise() returns.
    void upload(const std::vector<float>& from) {
        resize(from.size());
        copy(address_, reinterpret_cast<DeviceAddress>(from.data()));
    }
    void download(std::vector<float>& to) const {
        to.resize(count_);
        copy(reinterpret_cast<DeviceAddress>(to.data()), address_);
    }
    void clear() { gpu_.check(gpu_.cuda.fill(address_, 0, count_ * sizeof(float), gpu_.stream), "cuMemsetD8Async"); }

private:
    void copy(DeviceAddress to, DeviceAddress from) const {
        gpu_.check(gpu_.cuda.copy(to, from, count_ * sizeof(float), gpu_.stream), "cuMemcpyAsync");
    }
    void release() {
        if (address_ != 0) {
            static_cast<void>(gpu_.cuda.synchronise(gpu_.stream));
            static_cast<void>(gpu_.cuda.free(address_));
        }
        address_ = 0;
    }

    const Gpu& gpu_;
    DeviceAddress address_ = 0;
    std::size_t count_ = 0;
    std::size_t capacity_ = 0;
};

/// Describes the shape of a tensor of images to cuDNN. The program makes only few of these descriptors, and never frees
/// them.
class Form {
public:
    explicit Form(const Gpu& gpu) : gpu_(gpu) {
        gpu.check_cudnn(gpu.cudnn.create_tensor(&tensor_), "cudnnCreateTensorDescriptor");
    }
    void set(std::int64_t images, std::int64_t channels, std::int64_t side) {
        gpu_.check_cudnn(
            gpu_.cudnn.set_tensor(tensor_, kChannelsFirst, kFloat, static_cast<int>(images), static_cast<int>(channels),
                                  static_cast<int>(side), static_cast<int>(side)),
            "cudnnSetTensor4dDescriptor");
    }
    [[nodiscard]] CudnnObject tensor() const { return tensor_; }

private:
    const Gpu& gpu_;
    CudnnObject tensor_ = nullptr;
};

/// A parameter on the GPU. The same parameter of the CPU's network (`host`) has its name, its shape and the memory for
/// its checkpoints.
class GpuParameter {
public:
    GpuParameter(const Gpu& gpu, Parameter& host)
        : gpu_(gpu), host_(host), value(gpu), gradient(gpu), velocity_(gpu), form_(gpu), slot_("gpu." + host.name) {
        form_.set(1, static_cast<std::int64_t>(host.value.size()), 1);
        gradient.resize(host.value.size());
        upload();
    }
    GpuParameter(const GpuParameter&) = delete;
    GpuParameter& operator=(const GpuParameter&) = delete;
    /// Waits for the allreduce of the gradient, even after an exception, because Rueda uses the gradient until the end
    /// of the allreduce.
    ~GpuParameter() {
        try {
            if (!pending_.empty()) {
                pending_.wait();
            }
        } catch (const rueda::Error&) {  // ignored: update() has already thrown this error
        }
    }

    void upload() {
        value.upload(host_.value);
        velocity_.upload(host_.velocity);
    }
    void download() {
        value.download(host_.value);
        velocity_.download(host_.velocity);
    }
    void start(rueda::AllreduceOptions reduction) {
        const rueda::TensorView view(gradient.data(), rueda::DType::float32, host_.shape);
        reduction.device = gpu_.rueda_stream();
        pending_ = rueda::allreduce_async(slot_, view, reduction);
    }
    /// velocity = momentum * velocity + gradient; value = value - rate * velocity
    void update(float rate, float momentum) {
        pending_.wait_on_stream(gpu_.rueda_stream());
        const float against = -rate;
        add(kOne, gradient, momentum, velocity_);
        add(against, velocity_, kOne, value);
    }

private:
    const Gpu& gpu_;
    Parameter& host_;

public:
    Numbers value;
    Numbers gradient;

private:
    /// c = alpha * a + beta * c
    void add(float alpha, const Numbers& a, float beta, const Numbers& c) {
        gpu_.check_cudnn(gpu_.cudnn.add(gpu_.handle, &alpha, form_.tensor(), a.data(), &beta, form_.tensor(), c.data()),
                         "cudnnAddTensor");
    }

    Numbers velocity_;
    Form form_;
    rueda::TensorSlot slot_;
    rueda::Handle pending_;
};

/// A convolution or a dense layer, with or without the rectifier after it. cuDNN has no dense layers. A dense layer is
/// therefore computed as a 1×1 convolution from the layer's outputs to its inputs, which has weights of the layer's
/// shape, [inputs, outputs]. The directions are exchanged: the layer's forward pass is the convolution's backward pass
/// for the data, and the layer's backward pass for the data is the convolution's forward pass.
class GpuLayer {
public:
    enum class Kind { convolution, dense };
    struct Shape {
        Kind kind;
        std::int64_t in_channels, in_side;
        std::int64_t out_channels, out_side;
        std::int64_t stride = 1;
        bool has_rectifier = true;
    };
    GpuLayer(const Gpu& gpu, const Shape& shape, Parameter& weights, Parameter& biases)
        : gpu_(gpu),
          shape_(shape),
          weights_(gpu, weights),
          biases_(gpu, biases),
          in_(gpu),
          out_(gpu),
          bias_(gpu),
          output_(gpu),
          in_slope_(gpu),
          workspace_(gpu) {
        const auto number = [](std::int64_t value) { return static_cast<int>(value); };
        const bool dense = is_dense();
        const int kernel = dense ? 1 : 3;
        const int padding = dense ? 0 : 1;
        const CudnnFunctions& cudnn = gpu.cudnn;
        gpu.check_cudnn(cudnn.create_filter(&filter_), "cudnnCreateFilterDescriptor");
        gpu.check_cudnn(
            cudnn.set_filter(filter_, kFloat, kChannelsFirst, number(dense ? shape.in_channels : shape.out_channels),
                             number(dense ? shape.out_channels : shape.in_channels), kernel, kernel),
            "cudnnSetFilter4dDescriptor");
        gpu.check_cudnn(cudnn.create_convolution(&convolution_), "cudnnCreateConvolutionDescriptor");
        gpu.check_cudnn(cudnn.set_convolution(convolution_, padding, padding, number(shape.stride),
                                              number(shape.stride), 1, 1, kCrossCorrelation, kFloat),
                        "cudnnSetConvolution2dDescriptor");
        gpu.check_cudnn(cudnn.set_math(convolution_, kFmaMath), "cudnnSetConvolutionMathType");
        gpu.check_cudnn(cudnn.create_activation(&rectifier_), "cudnnCreateActivationDescriptor");
        gpu.check_cudnn(cudnn.set_activation(rectifier_, kRectifier, kPropagateNan, 0.0),
                        "cudnnSetActivationDescriptor");
        bias_.set(1, shape.out_channels, 1);
    }
    GpuLayer(const GpuLayer&) = delete;
    GpuLayer& operator=(const GpuLayer&) = delete;

    [[nodiscard]] const Numbers& output() const { return output_; }
    [[nodiscard]] Numbers& input_slope() { return in_slope_; }
    /// The parameters in the order in which the CPU's network completes their gradients.
    [[nodiscard]] std::array<GpuParameter*, 2> parameters() { return {&weights_, &biases_}; }

    void forward(const Numbers& in, std::int64_t images) {
        prepare(images);
        if (is_dense()) {
            convolve_backward(in.data(), in_, out_, output_.data());
        } else {
            convolve(in.data(), in_, out_, output_.data());
        }
        gpu_.check_cudnn(gpu_.cudnn.add(gpu_.handle, &kOne, bias_.tensor(), biases_.value.data(), &kOne, out_.tensor(),
                                        output_.data()),
                         "cudnnAddTensor");
        if (shape_.has_rectifier) {
            gpu_.check_cudnn(gpu_.cudnn.activate(gpu_.handle, rectifier_, &kOne, out_.tensor(), output_.data(), &kZero,
                                                 out_.tensor(), output_.data()),
                             "cudnnActivationForward");
        }
    }

    /// Computes the gradients of the parameters. `slope` is the slope of the loss with respect to the output of the
    /// last forward(). This function changes `slope`.
    void backward_parameters(const Numbers& in, Numbers& slope) {
        if (shape_.has_rectifier) {
            gpu_.check_cudnn(gpu_.cudnn.activate_backward(gpu_.handle, rectifier_, &kOne, out_.tensor(), output_.data(),
                                                          out_.tensor(), slope.data(), out_.tensor(), output_.data(),
                                                          &kZero, out_.tensor(), slope.data()),
                             "cudnnActivationBackward");
        }
        const bool dense = is_dense();
        const Form& x = dense ? out_ : in_;
        const Form& y = dense ? in_ : out_;
        gpu_.check_cudnn(
            gpu_.cudnn.backward_filter(gpu_.handle, &kOne, x.tensor(), dense ? slope.data() : in.data(), y.tensor(),
                                       dense ? in.data() : slope.data(), convolution_, filter_algorithm_,
                                       workspace_.data(), workspace_bytes_, &kZero, filter_, weights_.gradient.data()),
            "cudnnConvolutionBackwardFilter");
        gpu_.check_cudnn(gpu_.cudnn.backward_bias(gpu_.handle, &kOne, out_.tensor(), slope.data(), &kZero,
                                                  bias_.tensor(), biases_.gradient.data()),
                         "cudnnConvolutionBackwardBias");
    }
    /// Computes the slope of the loss with respect to this layer's input. The layer below needs this slope.
    void backward_input(const Numbers& slope) {
        if (is_dense()) {
            convolve(slope.data(), out_, in_, in_slope_.data());
        } else {
            convolve_backward(slope.data(), out_, in_, in_slope_.data());
        }
    }

private:
    [[nodiscard]] bool is_dense() const { return shape_.kind == Kind::dense; }

    /// Sets the shapes of input and output for this number of images, and chooses cuDNN's algorithms.
    void prepare(std::int64_t images) {
        if (images == images_) {
            return;
        }
        images_ = images;
        in_.set(images, shape_.in_channels, shape_.in_side);
        out_.set(images, shape_.out_channels, shape_.out_side);
        const auto count = [images](std::int64_t channels, std::int64_t side) {
            return static_cast<std::size_t>(images * channels * side * side);
        };
        output_.resize(count(shape_.out_channels, shape_.out_side));
        in_slope_.resize(count(shape_.in_channels, shape_.in_side));
        const CudnnObject x = (is_dense() ? out_ : in_).tensor();
        const CudnnObject y = (is_dense() ? in_ : out_).tensor();
        workspace_bytes_ = 0;
        forward_algorithm_ = choose([&](int algorithm, std::size_t* bytes) {
            return gpu_.cudnn.forward_workspace(gpu_.handle, x, filter_, convolution_, y, algorithm, bytes);
        });
        data_algorithm_ = choose([&](int algorithm, std::size_t* bytes) {
            return gpu_.cudnn.backward_data_workspace(gpu_.handle, filter_, y, convolution_, x, algorithm, bytes);
        });
        filter_algorithm_ = choose([&](int algorithm, std::size_t* bytes) {
            return gpu_.cudnn.backward_filter_workspace(gpu_.handle, x, y, convolution_, filter_, algorithm, bytes);
        });
        workspace_.resize(workspace_bytes_ / sizeof(float) + 1);
    }
    /// Returns algorithm 1 if cuDNN offers it for these shapes, because it gives the same bits every time. Otherwise
    /// returns algorithm 0, whose backward passes do not.
    int choose(const std::function<int(int algorithm, std::size_t* bytes)>& workspace_of) {
        for (const int algorithm : {1, 0}) {
            std::size_t bytes = 0;
            if (workspace_of(algorithm, &bytes) == 0) {
                workspace_bytes_ = std::max(workspace_bytes_, bytes);
                return algorithm;
            }
        }
        throw rueda::Unsupported("--device cuda: this cuDNN has no algorithm for a layer of the network");
    }
    void convolve(const float* from, const Form& from_form, const Form& to_form, float* to) {
        gpu_.check_cudnn(gpu_.cudnn.forward(gpu_.handle, &kOne, from_form.tensor(), from, filter_,
                                            weights_.value.data(), convolution_, forward_algorithm_, workspace_.data(),
                                            workspace_bytes_, &kZero, to_form.tensor(), to),
                         "cudnnConvolutionForward");
    }
    void convolve_backward(const float* from, const Form& from_form, const Form& to_form, float* to) {
        gpu_.check_cudnn(gpu_.cudnn.backward_data(gpu_.handle, &kOne, filter_, weights_.value.data(),
                                                  from_form.tensor(), from, convolution_, data_algorithm_,
                                                  workspace_.data(), workspace_bytes_, &kZero, to_form.tensor(), to),
                         "cudnnConvolutionBackwardData");
    }

    const Gpu& gpu_;
    Shape shape_;
    GpuParameter weights_;
    GpuParameter biases_;
    Form in_;
    Form out_;
    Form bias_;
    Numbers output_;
    Numbers in_slope_;
    Numbers workspace_;
    CudnnObject filter_ = nullptr;
    CudnnObject convolution_ = nullptr;
    CudnnObject rectifier_ = nullptr;
    std::int64_t images_ = 0;
    std::size_t workspace_bytes_ = 0;
    int forward_algorithm_ = 0;
    int data_algorithm_ = 0;
    int filter_algorithm_ = 0;
};

class GpuModel final : public Model {
public:
    /// `host_` is the network for the CPU. It provides the initial parameters, and the host's memory for checkpoints.
    explicit GpuModel(std::uint64_t seed) : host_(seed), pixels_(gpu_), slope_(gpu_) {
        // `all` has the parameters in the order of the backward pass: dense2, dense1, convolution2, convolution1.
        using Kind = GpuLayer::Kind;
        const auto& all = host_.parameters();
        layers_[0].emplace(gpu_, GpuLayer::Shape{Kind::convolution, 1, kSide, kChannels1, kSide}, *all[6], *all[7]);
        layers_[1].emplace(gpu_, GpuLayer::Shape{Kind::convolution, kChannels1, kSide, kChannels2, kHalfSide, 2},
                           *all[4], *all[5]);
        layers_[2].emplace(gpu_, GpuLayer::Shape{Kind::dense, kChannels2 * kHalfSide * kHalfSide, 1, kHidden, 1},
                           *all[2], *all[3]);
        layers_[3].emplace(gpu_, GpuLayer::Shape{Kind::dense, kHidden, 1, kClasses, 1, 1, false}, *all[0], *all[1]);
        gpu_.synchronise();
    }

    const std::vector<float>& forward(const Images& images) override {
        logits_.clear();
        if (images.count() == 0) {
            return logits_;
        }
        pixels_.upload(images.pixels);
        const Numbers* in = &pixels_;
        for (auto& layer : layers_) {
            layer->forward(*in, images.count());
            in = &layer->output();
        }
        in->download(logits_);
        gpu_.synchronise();
        return logits_;
    }

    void backward(const Images& images, const std::vector<float>& logits_slope,
                  const rueda::AllreduceOptions& reduction) override {
        const bool has_images = images.count() > 0;
        if (has_images) {
            slope_.upload(logits_slope);
        }
        Numbers* slope = &slope_;
        for (std::size_t i = layers_.size(); i-- > 0;) {
            GpuLayer& layer = *layers_[i];
            if (has_images) {
                layer.backward_parameters(i == 0 ? pixels_ : layers_[i - 1]->output(), *slope);
            }
            for (GpuParameter* parameter : layer.parameters()) {
                if (!has_images) {  // a rank without samples contributes zeros to the sums
                    parameter->gradient.clear();
                }
                parameter->start(reduction);
            }
            if (has_images && i > 0) {
                layer.backward_input(*slope);
                slope = &layer.input_slope();
            }
        }
    }

    void update(float rate, float momentum) override {
        for_each_parameter([&](GpuParameter& parameter) { parameter.update(rate, momentum); });
    }
    std::vector<rueda::training::NamedTensor> state() override {
        for_each_parameter([](GpuParameter& parameter) { parameter.download(); });
        gpu_.synchronise();
        return host_.state();
    }
    void changed() override {
        for_each_parameter([](GpuParameter& parameter) { parameter.upload(); });
        gpu_.synchronise();
    }

private:
    /// Calls the function for all parameters, in the order in which backward() starts to reduce their gradients.
    void for_each_parameter(const std::function<void(GpuParameter&)>& function) {
        for (std::size_t i = layers_.size(); i-- > 0;) {
            for (GpuParameter* parameter : layers_[i]->parameters()) {
                function(*parameter);
            }
        }
    }

    Gpu gpu_;
    Network host_;
    std::array<std::optional<GpuLayer>, 4> layers_;
    Numbers pixels_;
    Numbers slope_;
    std::vector<float> logits_;
};

}  // namespace

std::unique_ptr<Model> make_gpu_model(std::uint64_t seed) { return std::make_unique<GpuModel>(seed); }

}  // namespace digits
