/// An n-dimensional array: a handle on shared storage, with shape, strides, offset, element type and device.
///
/// Copying a Tensor copies the handle, not the elements. Views (transpose, slice, expand, ...) share the storage of the
/// original and copy no elements.
#pragma once
#include <array>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

namespace fovea {

class Tensor {
 public:
  Tensor() = default;  ///< makes an undefined tensor, which has no storage; defined() is false

  /// Returns a contiguous tensor whose elements are not initialised.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
  /// Returns an uninitialised tensor without gaps whose dimensions have the given order in memory: the first dimension
  /// of `memory_order` has the largest stride. Throws Error unless `memory_order` names each dimension once.
  static Tensor empty(const Shape& shape, std::span<const int> memory_order, DType dtype, Device device);
  /// Returns an uninitialised tensor with the shape, type and device of `other`. If `other` is dense (see is_dense()),
  /// its dimensions also have the same order in memory; otherwise the result is contiguous.
  static Tensor empty_like(const Tensor& other);
  /// Returns a tensor over memory of the CPU that another library allocated; no element is copied. `data` is the
  /// address of the first element, the strides, in elements, are not negative, and `owner` keeps the memory alive as
  /// long as a tensor refers to it. Keep a handle on the tensor: an operation may overwrite a tensor that nobody else
  /// refers to.
  static Tensor borrowed(std::byte* data, const Shape& shape, const Shape& strides, DType dtype,
                         std::shared_ptr<const void> owner);
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32, Device device = Device::cpu);
  /// Returns the n numbers start, start + 1, ..., as a tensor [n].
  static Tensor arange(std::int64_t n, DType dtype = DType::f32, Device device = Device::cpu, std::int64_t start = 0);
  /// Copies `values`, in row-major order, to a new tensor on the CPU. Throws Error unless their number is the number of
  /// elements of `shape`.
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape);
  /// Makes a tensor from literals, in row-major order, for tests and examples: Tensor::of({1, 2, 3, 4}, {2, 2}).
  static Tensor of(std::initializer_list<double> values, const Shape& shape, DType dtype = DType::f64);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }  ///< in elements
  int rank() const { return shape_.rank(); }
  std::int64_t size(int dim) const { return shape_[shape_.dimension("size", dim)]; }
  std::int64_t elements() const { return shape_.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  bool is_contiguous() const;
  /// Whether the tensor is contiguous in some order of its dimensions: its elements do not overlap and leave no gaps.
  bool is_dense() const;
  std::string describe() const;  ///< type and shape for messages: "f32 [8, 20, 64]"

  /// Returns the address of the first element, for reading. Throws Error unless T is the element type; for a tensor on
  /// CUDA, the result is a device pointer.
  template <class T>
  const T* data() const {
    if (dtype_of<T> != dtype_ || !storage_) [[unlikely]]
      no_data(dtype_of<T>);
    return reinterpret_cast<const T*>(storage_->data()) + offset_;
  }
  /// Returns the address of the first element, for writing. Each call increases version(), so that the backward pass
  /// detects the change of a tensor that it needs; call it again for writing after other operations. The function is
  /// const because only the handle is const, not the elements, as with a const pointer.
  template <class T>
  T* mutable_data() const {
    T* first = const_cast<T*>(data<T>());
    raise_version();
    return first;
  }
  /// Address of the first element as bytes, for reading, whatever the element type; null if the tensor is undefined.
  const std::byte* address() const {
    return storage_ ? storage_->data() + offset_ * static_cast<std::int64_t>(size_of(dtype_)) : nullptr;
  }
  /// Address of the first element as bytes, for writing; increases version(), as mutable_data() does.
  std::byte* mutable_address() const {
    if (storage_) raise_version();
    return const_cast<std::byte*>(address());
  }
  /// Returns the value of a tensor of one element, of any type and on any device. Throws Error if it has more or none.
  double item() const;
  /// Returns the elements in row-major order, converted to T, from any device.
  template <class T>
  std::vector<T> to_vector() const;

  // Views. Negative dimensions count from the end.
  Tensor transpose(int a, int b) const;
  Tensor permute(std::span<const int> order) const;
  Tensor permute(std::initializer_list<int> order) const { return permute(std::span(order.begin(), order.size())); }
  Tensor slice(int dim, std::int64_t begin, std::int64_t end) const;  ///< indices begin ≤ i < end of dimension `dim`
  Tensor select(int dim, std::int64_t index) const;                   ///< slice at one index, without dimension `dim`
  Tensor expand(const Shape& shape) const;                            ///< broadcast: expanded dimensions get stride 0
  Tensor unsqueeze(int dim) const;
  Tensor squeeze(int dim) const;
  /// Returns the same elements, in row-major order, in another shape. One size may be -1 to be computed from the
  /// others. The result is a view if the strides allow it, a copy otherwise.
  Tensor reshape(const Shape& shape) const;
  /// Returns a view of the same storage with the given shape, strides and additional offset, in elements. Nothing is
  /// checked: the caller must stay inside the storage.
  Tensor as_strided(const Shape& shape, const Shape& strides, std::int64_t offset = 0) const;

  Tensor contiguous() const;     ///< the tensor itself if it is contiguous, else a contiguous copy
  Tensor clone() const;          ///< a contiguous copy of the elements
  Tensor to(DType dtype) const;  ///< cast_element() of tensor/formula/cast.h for each element
  Tensor to(Device device) const;

  // Changes in place.
  void fill(double value);
  /// Copies the elements of `source`, broadcast to this shape, cast to this type and moved to this device. `source` may
  /// overlap this tensor. Throws Error if this is an expanded view, whose elements share memory.
  void copy_from(const Tensor& source);

  /// Counts how often an address for writing to the storage was taken, through any tensor that shares the storage.
  std::uint64_t version() const { return storage_ ? storage_->version.load(std::memory_order_relaxed) : 0; }
  /// Whether `other` has the same storage, offset, shape, strides and type, and so the same elements in the same order.
  bool is_same_view(const Tensor& other) const;
  /// Whether the two tensors may share memory without being the same view, so that writing one element by element could
  /// change elements of the other that are still to be read. It compares ranges of memory: views with interleaved
  /// elements count as overlapping.
  bool overlaps(const Tensor& other) const;
  /// Identifies the storage without owning it. A cache of values computed from a tensor can use it, with version(), as
  /// key.
  std::weak_ptr<const void> storage() const { return storage_; }
  /// Whether this is the only handle on the storage, so that an operation may overwrite it with its result.
  bool is_sole_owner() const { return storage_.use_count() == 1; }

 private:
  [[noreturn]] void no_data(DType asked) const;
  void raise_version() const { storage_->version.fetch_add(1, std::memory_order_relaxed); }

  std::shared_ptr<Storage> storage_;
  Shape shape_, strides_;
  std::int64_t offset_ = 0;
  DType dtype_ = DType::f32;
  Device device_ = Device::cpu;
};

template <class T>
Tensor Tensor::from(const std::vector<T>& values, const Shape& shape) {
  require_countable("Tensor", shape);
  require(static_cast<std::int64_t>(values.size()) == shape.elements(),
          "Tensor::from: {} values for shape {}, which has {}", values.size(), shape, shape.elements());
  Tensor out = empty(shape, dtype_of<T>);
  std::copy(values.begin(), values.end(), out.mutable_data<T>());
  return out;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  Tensor host = to(Device::cpu).to(dtype_of<T>).contiguous();
  const T* first = host.data<T>();
  return std::vector<T>(first, first + host.elements());
}

}  // namespace fovea
