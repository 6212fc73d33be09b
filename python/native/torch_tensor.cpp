// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/torch_tensor.hpp"

#include <string>

#include "python/native/errors.hpp"

namespace rueda::python {
namespace {

/// Objects of PyTorch. set_torch() stores them once, under the GIL. The objects are never released, because a PyTorch
/// module lives as long as the process.
struct Torch {
    PyTypeObject* tensor = nullptr;
    PyObject* strided = nullptr;  // torch.strided: the layout of tensors that are plain memory
    PyObject* dtypes = nullptr;
    PyObject* current_stream = nullptr;
    // The names of the attributes that this code reads from tensors, as Python strings that are made once.
    PyObject* is_cpu = nullptr;
    PyObject* is_cuda = nullptr;
    PyObject* get_device = nullptr;
    PyObject* layout = nullptr;
    PyObject* is_contiguous = nullptr;
    PyObject* is_neg = nullptr;
    PyObject* dtype = nullptr;
    PyObject* shape = nullptr;
    PyObject* data_ptr = nullptr;
};

Torch torch;

Ref call(PyObject* object, PyObject* method) {
    return Ref::taken(PyObject_CallMethodObjArgs(object, method, static_cast<void*>(nullptr)));
}

Ref called_with(PyObject* function, PyObject* argument) {
    return Ref::taken(PyObject_CallFunctionObjArgs(function, argument, static_cast<void*>(nullptr)));
}

std::string text_of(PyObject* object) {
    const Ref shown = Ref::taken(object == nullptr ? nullptr : PyObject_Str(object));
    const char* const text = shown ? PyUnicode_AsUTF8AndSize(shown.borrow(), nullptr) : nullptr;
    PyErr_Clear();
    return text == nullptr ? "?" : text;
}

std::string attribute(PyObject* object, const char* name) {
    const Ref value = Ref::taken(PyObject_GetAttrString(object, name));
    PyErr_Clear();
    return text_of(value.borrow());
}

std::string answer(PyObject* object, const char* method) {
    const Ref name = Ref::taken(PyUnicode_FromString(method));
    const Ref value = name ? call(object, name.borrow()) : Ref();
    PyErr_Clear();
    return text_of(value.borrow());
}

bool refuse(const std::string& text) {
    raise(RUEDA_INVALID_ARGUMENT, text);
    return false;
}

/// Reads the CUDA device and PyTorch's current stream of a tensor that is not in the CPU's memory. On failure,
/// returns false with a Python error set.
bool read_device(PyObject* object, rueda_device_stream& device) {
    const Ref cuda = Ref::taken(PyObject_GetAttr(object, torch.is_cuda));
    if (!cuda) {
        return false;
    }
    if (cuda.borrow() != Py_True) {
        return refuse("the tensor lies on the device '" + attribute(object, "device") +
                      "'; Rueda works on the memory of the CPU and of CUDA devices: give tensor.cpu()");
    }
    const Ref index = call(object, torch.get_device);
    device.index = index ? static_cast<std::int32_t>(PyLong_AsLong(index.borrow())) : -1;
    device.type = RUEDA_CUDA;
    return PyErr_Occurred() == nullptr && read_current_stream(device.index, device.stream);
}

/// Whether the tensor is plain, dense memory of the CPU or of a CUDA device. If it is not, a Python error is set.
bool is_plain_memory(PyObject* object, rueda_device_stream& device) {
    const Ref cpu = Ref::taken(PyObject_GetAttr(object, torch.is_cpu));
    const Ref layout = cpu ? Ref::taken(PyObject_GetAttr(object, torch.layout)) : Ref();
    if (!layout) {
        return false;
    }
    if (cpu.borrow() != Py_True && !read_device(object, device)) {
        return false;
    }
    if (layout.borrow() != torch.strided) {
        return refuse(
            "the tensor's layout is " + text_of(layout.borrow()) +
            "; expected torch.strided: give tensor.to_dense(), or use sparse_allreduce_async for torch.sparse_coo");
    }
    const Ref contiguous = call(object, torch.is_contiguous);
    const Ref negated = contiguous ? call(object, torch.is_neg) : Ref();
    if (!negated) {
        return false;
    }
    if (negated.borrow() != Py_False) {
        return refuse(
            "the tensor has its negative bit set: its memory holds its elements negated: give tensor.resolve_neg()");
    }
    if (contiguous.borrow() != Py_True) {
        return refuse("Tensor is required to be contiguous. Its shape is " + attribute(object, "shape") +
                      " and its strides are " + answer(object, "stride") + ": give tensor.contiguous()");
    }
    return true;
}

/// Returns Rueda's dtype of a tensor; -1 with a Python error set.
int dtype_of(PyObject* object) {
    const Ref dtype = Ref::taken(PyObject_GetAttr(object, torch.dtype));
    if (!dtype) {
        return -1;
    }
    PyObject* const number = PyDict_GetItemWithError(torch.dtypes, dtype.borrow());
    if (number != nullptr) {
        return static_cast<int>(PyLong_AsLong(number));
    }
    if (PyErr_Occurred() == nullptr) {
        raise(RUEDA_INVALID_ARGUMENT, "Tensor type " + answer(object, "type") +
                                          " is not supported. Rueda takes bool, integers of 8 to 64 bits, "
                                          "float8_e4m3fn, float8_e5m2, float16, bfloat16, float32 and float64");
    }
    return -1;
}

bool read_shape(PyObject* object, rueda_tensor& tensor, std::int64_t (&shape)[RUEDA_MAX_DIMENSIONS]) {
    const Ref extents = Ref::taken(PyObject_GetAttr(object, torch.shape));
    const Py_ssize_t ndim = extents ? PyTuple_Size(extents.borrow()) : -1;
    if (ndim < 0) {
        return false;
    }
    if (ndim > RUEDA_MAX_DIMENSIONS) {
        return refuse("a tensor of " + std::to_string(ndim) + " dimensions; Rueda takes 0 to " +
                      std::to_string(RUEDA_MAX_DIMENSIONS) + ": reshape it");
    }
    for (Py_ssize_t i = 0; i < ndim; ++i) {
        shape[i] = PyLong_AsLongLong(PyTuple_GetItem(extents.borrow(), i));
    }
    tensor.shape = shape;
    tensor.ndim = static_cast<std::int32_t>(ndim);
    return PyErr_Occurred() == nullptr;
}

bool has_elements(const rueda_tensor& tensor) {
    for (std::int32_t i = 0; i < tensor.ndim; ++i) {
        if (tensor.shape[i] == 0) {
            return false;
        }
    }
    return true;
}

PyObject* name_of(const char* text) { return PyUnicode_InternFromString(text); }

}  // namespace

PyObject* set_torch(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 4 || PyType_Check(arguments[0]) == 0 || PyDict_Check(arguments[2]) == 0 ||
        PyCallable_Check(arguments[3]) == 0) {
        PyErr_SetString(PyExc_TypeError,
                        "set_torch: expected torch.Tensor, torch.strided, a dict of dtypes and a function");
        return nullptr;
    }
    const Torch known{reinterpret_cast<PyTypeObject*>(Ref::to(arguments[0]).release()),
                      Ref::to(arguments[1]).release(),
                      Ref::to(arguments[2]).release(),
                      Ref::to(arguments[3]).release(),
                      name_of("is_cpu"),
                      name_of("is_cuda"),
                      name_of("get_device"),
                      name_of("layout"),
                      name_of("is_contiguous"),
                      name_of("is_neg"),
                      name_of("dtype"),
                      name_of("shape"),
                      name_of("data_ptr")};
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    torch = known;
    Py_RETURN_NONE;
}

bool is_torch_tensor(PyObject* object) {
    return torch.tensor != nullptr && PyType_IsSubtype(Py_TYPE(object), torch.tensor) != 0;
}

bool read_current_stream(std::int32_t index, void*& stream) {
    const Ref number = Ref::taken(PyLong_FromLong(index));
    const Ref address =
        number && torch.current_stream != nullptr ? called_with(torch.current_stream, number.borrow()) : Ref();
    if (!address) {
        return torch.current_stream != nullptr ? false : refuse("no stream is given, and PyTorch is not used here");
    }
    stream = PyLong_AsVoidPtr(address.borrow());
    return PyErr_Occurred() == nullptr;
}

bool describe_torch_tensor(PyObject* object, rueda_tensor& tensor, std::int64_t (&shape)[RUEDA_MAX_DIMENSIONS],
                           rueda_device_stream& device) {
    if (!is_plain_memory(object, device)) {
        return false;
    }
    tensor.dtype = dtype_of(object);
    if (tensor.dtype < 0 || !read_shape(object, tensor, shape)) {
        return false;
    }
    const Ref address = call(object, torch.data_ptr);
    if (!address) {
        return false;
    }
    tensor.data = PyLong_AsVoidPtr(address.borrow());
    if (PyErr_Occurred() != nullptr) {
        return false;
    }
    if (tensor.data == nullptr && has_elements(tensor)) {
        return refuse("the tensor of type " + text_of(reinterpret_cast<PyObject*>(Py_TYPE(object))) +
                      " has no memory of its own; give a plain torch.Tensor");
    }
    return true;
}

}  // namespace rueda::python
