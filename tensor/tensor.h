/// An n-d array: a value-semantic handle on shared storage, with shape, strides, offset, type and device.
///
/// Views (transpose, slice, expand, ...) share storage and cost nothing. Copying a Tensor copies the handle.
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
  Tensor() = default;  ///< undefined: no storage; `defined()` is false

  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
  /// Dense, with dimensions in this order in memory, slowest first.
  static Tensor empty(const Shape& shape, std::span<const int> memory_order, DType dtype, Device device);
  /// Like `other` in shape, type, device and, where other is dense, the order of dimensions in memory.
  static Tensor empty_like(const Tensor& other);
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32, Device device = Device::cpu);
  /// start, start + 1, ... [n]
  static Tensor arange(std::int64_t n, DType dtype = DType::f32, Device device = Device::cpu, std::int64_t start = 0);
  /// Copies `values` (row-major). Throws when their number is not the shape's.
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape);
  /// f64 literals, for tests and examples: Tensor::of({1, 2, 3, 4}, {2, 2}).
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
  /// Every element has its own place and there are no gaps: contiguous in some order of the dimensions.
  bool is_dense() const;
  std::string describe() const;  ///< "f32 [8, 20, 64]"

  /// The first element, for reading. Throws unless T is the dtype; on CUDA the pointer is a device pointer.
  template <class T>
  const T* data() const {
    if (dtype_of<T> != dtype_ || !storage_) [[unlikely]]
      no_data(dtype_of<T>);
    return reinterpret_cast<const T*>(storage_->data()) + offset_;
  }
  /// The same for writing: each call raises the storage's version, so that a backward rule notices the change. Take the
  /// pointer, write, and take it again after other operations. A const handle can be written through, as a const
  /// pointer can.
  template <class T>
  T* mutable_data() const {
    T* first = const_cast<T*>(data<T>());
    raise_version();
    return first;
  }
  /// data() and mutable_data() of any type; null when undefined.
  const std::byte* address() const { return storage_ ? storage_->data() + offset_ * size_of(dtype_) : nullptr; }
  std::byte* mutable_address() const {
    if (storage_) raise_version();
    return const_cast<std::byte*>(address());
  }
  /// The value of a one-element tensor of any type, wherever it lives.
  double item() const;
  /// The elements in row-major order, converted; from any device.
  template <class T>
  std::vector<T> to_vector() const;

  // Views. Negative dimensions count from the end.
  Tensor transpose(int a, int b) const;
  Tensor permute(std::span<const int> order) const;
  Tensor permute(std::initializer_list<int> order) const { return permute(std::span(order.begin(), order.size())); }
  Tensor slice(int dim, std::int64_t begin, std::int64_t end) const;  ///< begin ≤ index < end
  Tensor select(int dim, std::int64_t index) const;                   ///< slice of one, dimension removed
  Tensor expand(const Shape& shape) const;                            ///< broadcast: new sizes get stride 0
  Tensor unsqueeze(int dim) const;
  Tensor squeeze(int dim) const;
  /// The same elements in another shape; one size may be -1. A view where strides allow, a copy otherwise.
  Tensor reshape(const Shape& shape) const;
  /// A view with any strides: for kernels that know what they do.
  Tensor as_strided(const Shape& shape, const Shape& strides, std::int64_t offset = 0) const;

  Tensor contiguous() const;  ///< itself where it is contiguous
  Tensor clone() const;       ///< a contiguous copy
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;

  // In place.
  void fill(double value);
  void copy_from(const Tensor& source);  ///< broadcasts, casts, crosses devices; source may overlap

  /// Counts how often the storage's memory was taken for writing.
  std::uint64_t version() const { return storage_ ? storage_->version.load(std::memory_order_relaxed) : 0; }
  /// The same elements of the same storage in the same order.
  bool is_same_view(const Tensor& other) const;
  /// Memory that both may have elements in, in different orders: writing one while reading the other goes wrong.
  bool overlaps(const Tensor& other) const;
  /// Identifies the storage without owning it, for caches of what was computed from one version().
  std::weak_ptr<const void> storage() const { return storage_; }
  /// No other handle on the storage: an operation may reuse it for its result.
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
