// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/tensor_view.hpp"

#include <algorithm>
#include <iterator>
#include <new>

#include "python/native/dlpack.hpp"

namespace rueda::python {
namespace {

constexpr int kLastDType = RUEDA_FLOAT8_E5M2;

PyTypeObject* view_type = nullptr;

TensorView& view_of(PyObject* object) { return *reinterpret_cast<TensorView*>(object); }

/// Makes a view whose shape is not set yet; on failure, null with an error set.
Ref new_view(PyTypeObject* type, void* data, int ndim, int dtype, bool writable, PyObject* owner) {
    if (ndim < 0 || ndim > RUEDA_MAX_DIMENSIONS) {
        PyErr_Format(PyExc_ValueError, "a tensor of %d dimensions; Rueda takes 0 to %d: reshape it", ndim,
                     RUEDA_MAX_DIMENSIONS);
        return {};
    }
    Ref made = Ref::taken(
        reinterpret_cast<PyObject* (*)(PyTypeObject*, Py_ssize_t)>(PyType_GetSlot(type, Py_tp_alloc))(type, 0));
    if (made) {
        TensorView& view = view_of(made.borrow());
        view.tensor = {data, view.shape, ndim, dtype};
        view.device = {RUEDA_CPU, 0, nullptr};
        view.writable = writable;
        view.owner = Ref::to(owner).release();
    }
    return made;
}

/// Arguments: TensorView(address, shape, dtype, owner=None, writable=True, device=-1, stream=0)
PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"address", "shape", "dtype", "owner", "writable", "device", "stream", nullptr};
    unsigned long long address = 0;
    PyObject* shape = nullptr;
    int dtype = 0;
    PyObject* owner = Py_None;
    int writable = 1;
    int device = -1;
    unsigned long long stream = 0;
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "KO!i|OpiK:TensorView", const_cast<char**>(names), &address,
                                    &PyTuple_Type, &shape, &dtype, &owner, &writable, &device, &stream) == 0) {
        return nullptr;
    }
    if (device < -1 || (device < 0 && stream != 0)) {
        PyErr_Format(PyExc_ValueError,
                     "device is %d and stream is %llu; expected the number of a CUDA device and a stream of it, or -1 "
                     "and 0 for the CPU's memory",
                     device, stream);
        return nullptr;
    }
    if (bytes_of(dtype) == 0) {
        PyErr_Format(PyExc_ValueError, "dtype %d is none of rueda.DType, which are 0 to %d", dtype, kLastDType);
        return nullptr;
    }
    const Py_ssize_t ndim = PyTuple_Size(shape);
    Ref made = new_view(type, reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)),
                        static_cast<int>(std::min<Py_ssize_t>(ndim, 1000)), dtype, writable != 0, owner);
    for (Py_ssize_t i = 0; made && i < ndim; ++i) {
        const long long extent = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        if (extent < 0) {
            if (PyErr_Occurred() == nullptr) {
                PyErr_Format(PyExc_ValueError, "dimension %zd of the shape is %lld; extents must not be negative", i,
                             extent);
            }
            return nullptr;
        }
        view_of(made.borrow()).shape[i] = extent;
    }
    if (made && device >= 0) {
        view_of(made.borrow()).device = {RUEDA_CUDA, device,
                                         reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream))};
    }
    return made.release();
}

void destroy(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    Py_XDECREF(view_of(self).owner);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject* shape_of(PyObject* self, void* /*closure*/) {
    const TensorView& view = view_of(self);
    Ref shape = Ref::taken(PyTuple_New(view.tensor.ndim));
    for (Py_ssize_t i = 0; shape && i < view.tensor.ndim; ++i) {
        PyObject* const extent = PyLong_FromLongLong(view.shape[i]);
        if (extent == nullptr || PyTuple_SetItem(shape.borrow(), i, extent) != 0) {
            return nullptr;
        }
    }
    return shape.release();
}

PyObject* dtype_of(PyObject* self, void* /*closure*/) { return PyLong_FromLong(view_of(self).tensor.dtype); }
PyObject* address_of(PyObject* self, void* /*closure*/) { return PyLong_FromVoidPtr(view_of(self).tensor.data); }
PyObject* is_writable(PyObject* self, void* /*closure*/) { return PyBool_FromLong(view_of(self).writable ? 1 : 0); }

PyObject* device_of(PyObject* self, void* /*closure*/) {
    const rueda_device_stream& device = view_of(self).device;
    return PyLong_FromLong(device.type == RUEDA_CUDA ? device.index : -1);
}
PyObject* stream_of(PyObject* self, void* /*closure*/) { return PyLong_FromVoidPtr(view_of(self).device.stream); }

/// Returns Rueda's dtype for a DLPack type; -1 if there is none.
int dtype_of(const dlpack::DataType& type) {
    if (type.lanes != 1) {
        return -1;
    }
    switch (type.code << 8 | type.bits) {
        case dlpack::kBool << 8 | 8:
            return RUEDA_BOOL;
        case dlpack::kUnsigned << 8 | 8:
            return RUEDA_UINT8;
        case dlpack::kUnsigned << 8 | 16:
            return RUEDA_UINT16;
        case dlpack::kUnsigned << 8 | 32:
            return RUEDA_UINT32;
        case dlpack::kUnsigned << 8 | 64:
            return RUEDA_UINT64;
        case dlpack::kInteger << 8 | 8:
            return RUEDA_INT8;
        case dlpack::kInteger << 8 | 16:
            return RUEDA_INT16;
        case dlpack::kInteger << 8 | 32:
            return RUEDA_INT32;
        case dlpack::kInteger << 8 | 64:
            return RUEDA_INT64;
        case dlpack::kFloat << 8 | 16:
            return RUEDA_FLOAT16;
        case dlpack::kBfloat << 8 | 16:
            return RUEDA_BFLOAT16;
        case dlpack::kFloat8E4M3fn << 8 | 8:
            return RUEDA_FLOAT8_E4M3FN;
        case dlpack::kFloat8E5M2 << 8 | 8:
            return RUEDA_FLOAT8_E5M2;
        case dlpack::kFloat << 8 | 32:
            return RUEDA_FLOAT32;
        case dlpack::kFloat << 8 | 64:
            return RUEDA_FLOAT64;
        default:
            return -1;
    }
}

/// Whether the tensor is dense and row-major. Null strides also mean that the tensor is dense and row-major. The stride
/// of a dimension with one element does not matter, and in a tensor without elements no stride matters.
bool is_dense(const dlpack::Tensor& tensor) {
    if (tensor.strides == nullptr ||
        std::find(tensor.shape, tensor.shape + tensor.ndim, 0) != tensor.shape + tensor.ndim) {
        return true;
    }
    std::int64_t expected = 1;
    for (std::int32_t i = tensor.ndim; i-- > 0;) {
        if (tensor.shape[i] != 1 && tensor.strides[i] != expected) {
            return false;
        }
        expected *= tensor.shape[i];
    }
    return true;
}

PyObject* view_of(const dlpack::Tensor& tensor, bool writable, PyObject* capsule, void* stream) {
    const bool is_on_gpu = tensor.device.type == dlpack::kCuda || tensor.device.type == dlpack::kManagedCuda;
    if (!is_on_gpu && tensor.device.type != dlpack::kCpu && tensor.device.type != dlpack::kPinnedCuda &&
        tensor.device.type != dlpack::kPinnedRocm) {
        PyErr_Format(PyExc_TypeError,
                     "the tensor lies on a device (DLPack device type %d); Rueda works on the memory of the CPU and of "
                     "NVIDIA GPUs: move the tensor there",
                     tensor.device.type);
        return nullptr;
    }
    const int dtype = dtype_of(tensor.dtype);
    if (dtype < 0) {
        PyErr_Format(
            PyExc_TypeError,
            "the tensor has the DLPack dtype (code %d, %d bits, %d lanes); Rueda takes bool, integers of 8 to 64 "
            "bits, float8_e4m3fn, float8_e5m2, float16, bfloat16, float32 and float64",
            tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
        return nullptr;
    }
    if (!is_dense(tensor)) {
        PyErr_SetString(PyExc_BufferError,
                        "the tensor's elements do not lie one after the other; give a contiguous one");
        return nullptr;
    }
    auto* const data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
    Ref made = new_view(view_type, data, tensor.ndim, dtype, writable, capsule);
    if (made) {
        std::copy_n(tensor.shape, tensor.ndim, view_of(made.borrow()).shape);
        if (is_on_gpu) {
            view_of(made.borrow()).device = {RUEDA_CUDA, tensor.device.id, stream};
        }
    }
    return made.release();
}

}  // namespace

std::size_t bytes_of(int dtype) {
    // the size of an element, indexed by the number of the dtype
    constexpr std::size_t kBytes[] = {1, 1, 4, 8, 2, 2, 4, 8, 1, 2, 2, 4, 8, 1, 1};
    static_assert(std::size(kBytes) == kLastDType + 1);
    return dtype >= 0 && dtype <= kLastDType ? kBytes[dtype] : 0;
}

bool is_tensor_view(PyObject* object) { return Py_TYPE(object) == view_type; }

PyObject* make_tensor_view_type() {
    static PyGetSetDef properties[] = {
        {"shape", shape_of, nullptr, "The extents, a tuple.", nullptr},
        {"dtype", dtype_of, nullptr, "The number of the element type, one of rueda.DType.", nullptr},
        {"address", address_of, nullptr, "Where the first element lies.", nullptr},
        {"writable", is_writable, nullptr, "Whether it may be an output.", nullptr},
        {"device", device_of, nullptr, "The number of the CUDA device; -1 for the CPU's memory.", nullptr},
        {"stream", stream_of, nullptr, "The CUDA stream on which the memory is ready; 0 is the default stream.",
         nullptr},
        {nullptr, nullptr, nullptr, nullptr, nullptr}};
    static PyType_Slot slots[] = {
        {Py_tp_new, reinterpret_cast<void*>(&create)},
        {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
        {Py_tp_getset, properties},
        {Py_tp_doc,
         const_cast<char*>(
             "A typed, shaped view of dense, row-major memory: for memory that has neither a buffer nor DLPack.\n\n"
             "The owner is kept alive as long as the view, and the view as long as an operation that uses it.\n"
             "For memory of a GPU, give the number of the device, and the stream on which the memory is ready.\n\n"
             "Example::\n\n"
             "    view = rueda.TensorView(pointer, (3, 2), rueda.DType.float32, owner=buffer)\n"
             "    rueda.allreduce_(view, 'values')\n")},
        {0, nullptr}};
    static PyType_Spec spec = {"rueda.TensorView", sizeof(TensorView), 0, Py_TPFLAGS_DEFAULT, slots};
    view_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return Ref::to(reinterpret_cast<PyObject*>(view_type)).release();
}

PyObject* view_of_dlpack(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "view_of_dlpack: %zd arguments; expected 2", count);
        return nullptr;
    }
    PyObject* const capsule = arguments[0];
    void* const stream = PyLong_AsVoidPtr(arguments[1]);
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    if (PyCapsule_IsValid(capsule, dlpack::kName) != 0) {
        const auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, dlpack::kName));
        return view_of(managed->tensor, /*writable=*/true, capsule, stream);
    }
    if (PyCapsule_IsValid(capsule, dlpack::kVersionedName) != 0) {
        const auto* managed =
            static_cast<dlpack::VersionedManaged*>(PyCapsule_GetPointer(capsule, dlpack::kVersionedName));
        if (managed->major == 1) {
            return view_of(managed->tensor, (managed->flags & dlpack::kReadOnly) == 0, capsule, stream);
        }
    }
    PyErr_SetString(PyExc_BufferError, "__dlpack__ returned no capsule of DLPack 0 or 1 that is unused");
    return nullptr;
}

}  // namespace rueda::python
