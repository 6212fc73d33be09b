// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "dense.hpp"

#include <cmath>
#include <string>

#include "rueda/error.hpp"

#ifdef DEEPFM_HAS_ONEDNN
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#endif

namespace deepfm {
namespace {

class EigenMath final : public DenseMath {
public:
    void forward(const Matrix& input, const Layer& layer, Matrix& output) const override {
        output.noalias() = input * layer.weights;
        output.rowwise() += layer.bias;
    }
    void backward_weights(const Matrix& input, const Matrix& slope, LayerResults& results) const override {
        (*results.weights_gradient).noalias() = input.transpose() * slope;
    }
    void backward_input(const Matrix& slope, const Layer& layer, Matrix& input_slope) const override {
        input_slope.noalias() = slope * layer.weights.transpose();
    }
};

#ifdef DEEPFM_HAS_ONEDNN
/// oneDNN generates its matrix product for the instructions of this processor when the program runs. Eigen's product
/// uses the instructions for which the program was compiled. This class calls oneDNN's matrix product directly.
/// oneDNN's primitives for dense layers call the same product for matrices in plain row-major layout, but a primitive
/// would have to be created for each number of rows.
class OnednnMath final : public DenseMath {
public:
    void forward(const Matrix& input, const Layer& layer, Matrix& output) const override {
        output.resize(input.rows(), layer.weights.cols());
        output.rowwise() = layer.bias;  // multiply() adds the product to these biases
        multiply({'N', input.data(), input.cols()}, {'N', layer.weights.data(), layer.weights.cols()}, 1.0F,
                 output.data(), {output.rows(), output.cols(), input.cols()});
    }
    void backward_weights(const Matrix& input, const Matrix& slope, LayerResults& results) const override {
        if (input.rows() == 0) {
            (*results.weights_gradient).setZero();  // if the batch has 0 rows, oneDNN may leave the gradient unchanged
            return;
        }
        multiply({'T', input.data(), input.cols()}, {'N', slope.data(), slope.cols()}, 0.0F,
                 results.weights_gradient->data(), {input.cols(), slope.cols(), input.rows()});
    }
    void backward_input(const Matrix& slope, const Layer& layer, Matrix& input_slope) const override {
        input_slope.resize(slope.rows(), layer.weights.rows());
        multiply({'N', slope.data(), slope.cols()}, {'T', layer.weights.data(), layer.weights.cols()}, 0.0F,
                 input_slope.data(), {input_slope.rows(), input_slope.cols(), slope.cols()});
    }

private:
    struct Factor {
        char transposed;  ///< 'T' or 'N'
        const float* data;
        Eigen::Index columns;  ///< the number of columns of the matrix in memory
    };
    struct Extents {
        Eigen::Index rows;
        Eigen::Index columns;
        Eigen::Index inner;  ///< the number of products that are added up for each element of the result
    };

    /// Computes result = first × second + keep × result.
    static void multiply(const Factor& first, const Factor& second, float keep, float* result, const Extents& extents) {
        use_one_thread();
        if (extents.rows == 0) {
            return;
        }
        const dnnl_status_t status =
            dnnl_sgemm(first.transposed, second.transposed, extents.rows, extents.columns, extents.inner, 1.0F,
                       first.data, first.columns, second.data, second.columns, keep, result, extents.columns);
        if (status != dnnl_success) {
            throw rueda::Error(rueda::ErrorCode::internal, "multiplying matrices with oneDNN: dnnl_sgemm returned " +
                                                               std::to_string(static_cast<int>(status)));
        }
    }

    /// oneDNN usually computes with OpenMP. Each replica has its own thread, and each rank its own cores, so a product
    /// must not start further threads. OpenMP keeps the number of threads separately for each calling thread. The
    /// function is looked up by its name, because oneDNN can be built without OpenMP.
    static void use_one_thread() {
        using SetThreads = void (*)(int);
        thread_local const bool done = [] {
            if (const auto set_threads = reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {
                set_threads(1);
            }
            return true;
        }();
        static_cast<void>(done);
    }
};
#endif

}  // namespace

Layer::Layer(Eigen::Index inputs, Eigen::Index outputs, rueda::training::Random& random)
    : weights(inputs, outputs), bias(Eigen::RowVectorXf::Zero(outputs)) {
    // He et al. 2015 (arXiv:1502.01852) choose this variance for layers that are followed by max(0, ·).
    const float bound = std::sqrt(6.0F / static_cast<float>(inputs));
    for (Eigen::Index i = 0; i < weights.size(); ++i) {
        weights.data()[i] = uniform(random, bound);
    }
}

float uniform(rueda::training::Random& random, float bound) {
    return bound * static_cast<float>(2.0 * random.uniform() - 1.0);
}

std::shared_ptr<const DenseMath> make_dense_math(DenseLibrary library) {
    if (library == DenseLibrary::eigen) {
        return std::make_shared<EigenMath>();
    }
#ifdef DEEPFM_HAS_ONEDNN
    return std::make_shared<OnednnMath>();
#else
    throw rueda::InvalidArgument(
        "--library onednn: this program was built without oneDNN; install oneDNN (on Debian: libdnnl-dev) and build it "
        "again, or use --library eigen");
#endif
}

}  // namespace deepfm
