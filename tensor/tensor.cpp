#include "tensor/tensor.h"

#include <limits>

#include "tensor/kernels.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

/// Returns the size of a tensor in bytes. Throws Error if a dimension is negative, or if the size reaches 2^47 bytes,
/// the address space of a process.
std::size_t checked_bytes(const Shape& shape, DType dtype) {
  require_countable("Tensor", shape);
  const auto elements = static_cast<std::size_t>(shape.elements());
  require(elements < (std::size_t{1} << 47) / size_of(dtype), "Tensor: {} {} is too large for any machine", name(dtype),
          shape);
  return elements * size_of(dtype);
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  Tensor out;
  out.storage_ = std::make_shared<Storage>(checked_bytes(shape, dtype), device);
  out.shape_ = shape;
  out.strides_ = contiguous_strides(shape);
  out.dtype_ = dtype;
  out.device_ = device;
  return out;
}

Tensor Tensor::borrowed(std::byte* data, const Shape& shape, const Shape& strides, DType dtype,
                        std::shared_ptr<const void> owner) {
  std::int64_t last = 0;  // position of the last element
  for (int k = 0; k < shape.rank(); ++k) last += std::max<std::int64_t>(shape[k] - 1, 0) * strides[k];
  Tensor out;
  out.storage_ = std::make_shared<Storage>(data, static_cast<std::size_t>(last + 1) * size_of(dtype), std::move(owner));
  out.shape_ = shape;
  out.strides_ = strides;
  out.dtype_ = dtype;
  return out;
}

Tensor Tensor::empty(const Shape& shape, std::span<const int> memory_order, DType dtype, Device device) {
  require(static_cast<int>(memory_order.size()) == shape.rank(),
          "Tensor::empty: {} dimensions ordered, the shape is {}", memory_order.size(), shape);
  Shape in_memory;
  unsigned named = 0;
  for (int d : memory_order) {
    in_memory.push_back(shape[shape.dimension("Tensor::empty", d)]);
    named |= 1u << shape.dimension("Tensor::empty", d);
  }
  require(named + 1 == 1u << shape.rank(), "Tensor::empty: the order in memory must name each dimension of {} once",
          shape);
  Tensor out = empty(in_memory, dtype, device);
  Shape strides = shape;
  for (int d = 0; d < shape.rank(); ++d) strides[memory_order[d]] = out.strides_[d];
  return out.as_strided(shape, strides);
}

bool Tensor::is_dense() const {
  if (elements() == 0) return true;
  auto order = memory_order(strides_);
  return permute(std::span(order.data(), static_cast<std::size_t>(rank()))).is_contiguous();
}

Tensor Tensor::empty_like(const Tensor& other) {
  if (other.is_contiguous() || !other.is_dense()) return empty(other.shape(), other.dtype(), other.device());
  auto order = memory_order(other.strides_);
  return empty(other.shape_, std::span(order.data(), static_cast<std::size_t>(other.rank())), other.dtype_,
               other.device_);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor out = empty(shape, dtype, device);
  out.fill(value);
  return out;
}

Tensor Tensor::arange(std::int64_t n, DType dtype, Device device, std::int64_t start) {
  Tensor out = empty({n}, dtype, device);
  require(start <= std::numeric_limits<std::int64_t>::max() - n, "arange: {} numbers from {} on exceed i64", n, start);
  if (n > 0) kernels(device).arange(out, start);
  return out;
}

Tensor Tensor::of(std::initializer_list<double> values, const Shape& shape, DType dtype) {
  return from(std::vector<double>(values), shape).to(dtype);
}

bool Tensor::is_contiguous() const {
  std::int64_t step = 1;
  for (int d = rank() - 1; d >= 0; --d) {
    if (shape_[d] != 1 && strides_[d] != step) return false;
    step *= shape_[d];
  }
  return true;
}

std::string Tensor::describe() const {
  return defined() ? fmt::format("{} {}", name(dtype_), shape_.str()) : "undefined";
}

void Tensor::no_data(DType asked) const {
  require(defined(), "Tensor: an undefined tensor cannot be read or written; it was never given a value");
  fail("Tensor::data: asked for {}, the tensor is {}", name(asked), describe());
}

double Tensor::item() const {
  require(defined() && elements() == 1, "item: needs a tensor of one element, got {}", *this);
  Tensor host = to(Device::cpu);
  return visit(dtype_, [&](auto type) { return static_cast<double>(*host.data<typename decltype(type)::type>()); });
}

Tensor Tensor::transpose(int a, int b) const {
  Tensor out = *this;
  a = shape_.dimension("transpose", a), b = shape_.dimension("transpose", b);
  std::swap(out.shape_[a], out.shape_[b]);
  std::swap(out.strides_[a], out.strides_[b]);
  return out;
}

Tensor Tensor::permute(std::span<const int> order) const {
  require(static_cast<int>(order.size()) == rank(), "permute: {} dimensions named, the tensor is {}", order.size(),
          shape_);
  Tensor out = *this;
  unsigned seen = 0;
  for (int d = 0; d < rank(); ++d) {
    int source = shape_.dimension("permute", order[d]);
    require(!(seen >> source & 1), "permute: dimension {} is named twice", source);
    seen |= 1u << source;
    out.shape_[d] = shape_[source];
    out.strides_[d] = strides_[source];
  }
  return out;
}

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t end) const {
  dim = shape_.dimension("slice", dim);
  require(0 <= begin && begin <= end && end <= shape_[dim], "slice: [{}, {}) is not inside dimension {} of {}", begin,
          end, dim, shape_);
  Tensor out = *this;
  out.shape_[dim] = end - begin;
  out.offset_ += begin * strides_[dim];
  return out;
}

Tensor Tensor::select(int dim, std::int64_t index) const {
  dim = shape_.dimension("select", dim);
  require(0 <= index && index < shape_[dim], "select: index {} is out of range for dimension {} of {}", index, dim,
          shape_);
  return slice(dim, index, index + 1).squeeze(dim);
}

Tensor Tensor::expand(const Shape& shape) const {
  require(defined(), "expand: the tensor is undefined");
  require(broadcast("expand", shape_, shape) == shape, "expand: {} does not broadcast to {}", shape_, shape);
  require_countable("expand", shape);
  Tensor out = *this;
  out.shape_ = shape;
  out.strides_ = shape;
  for (int d = 0; d < shape.rank(); ++d) {
    int own = d - (shape.rank() - rank());
    out.strides_[d] = own < 0 || (shape_[own] == 1 && shape[d] != 1) ? 0 : strides_[own];
  }
  return out;
}

Tensor Tensor::unsqueeze(int dim) const {
  require(-rank() - 1 <= dim && dim <= rank(), "unsqueeze: dimension {} is out of range for {}", dim, shape_);
  if (dim < 0) dim += rank() + 1;
  Tensor out = *this;
  out.shape_.insert(dim, 1);
  out.strides_.insert(dim, dim < rank() ? strides_[dim] * shape_[dim] : 1);
  return out;
}

Tensor Tensor::squeeze(int dim) const {
  dim = shape_.dimension("squeeze", dim);
  require(shape_[dim] == 1, "squeeze: dimension {} of {} is not 1", dim, shape_);
  Tensor out = *this;
  out.shape_.erase(dim);
  out.strides_.erase(dim);
  return out;
}

namespace {

/// Computes `strides` with which a view of shape `to` has the same elements, in row-major order, as a view of shape
/// `from`. Returns false if there are none: dimensions that `to` merges must be contiguous with each other.
bool reshaped_strides(const Shape& from, const Shape& from_strides, const Shape& to, Shape& strides) {
  strides = to;
  int old_dim = from.rank() - 1, new_dim = to.rank() - 1;
  while (new_dim >= 0) {
    while (old_dim >= 0 && from[old_dim] == 1) --old_dim;
    if (old_dim < 0) {
      strides[new_dim--] = 1;
      continue;
    }
    // Find the longest run of old dimensions that are contiguous with each other, and split it into new dimensions.
    std::int64_t step = from_strides[old_dim], run = from[old_dim];
    while (old_dim > 0 && (from[old_dim - 1] == 1 || from_strides[old_dim - 1] == run * step)) run *= from[--old_dim];
    --old_dim;
    std::int64_t used = 1;
    while (new_dim >= 0 && used < run) {
      strides[new_dim] = step * used;
      used *= to[new_dim--];
    }
    if (used != run) return false;
  }
  return true;
}

/// Replaces a size of -1 by the size that gives `shape` as many elements as `x`. Throws Error if the numbers differ.
Shape resolve_sizes(const Tensor& x, Shape shape) {
  int unknown = -1;
  for (int d = 0; d < shape.rank(); ++d) {
    require(shape[d] >= -1, "reshape: a size is -1 or not negative: {}", shape);
    if (shape[d] == -1) {
      require(unknown < 0, "reshape: only one size may be -1: {}", shape);
      unknown = d;
    }
  }
  if (unknown >= 0) {
    Shape others = shape;
    others[unknown] = 1;
    require_countable("reshape", others);
    const std::int64_t known = others.elements();
    require(known > 0, "reshape: {} to {}: the other sizes multiply to 0, so -1 cannot be determined; write the size",
            x.shape(), shape);
    require(x.elements() % known == 0, "reshape: {} has {} elements, {} needs a multiple of {}", x.shape(),
            x.elements(), shape, known);
    shape[unknown] = x.elements() / known;
  }
  require_countable("reshape", shape);
  require(shape.elements() == x.elements(), "reshape: {} has {} elements, {} needs {}", x.shape(), x.elements(), shape,
          shape.elements());
  return shape;
}

}  // namespace

Tensor Tensor::reshape(const Shape& asked) const {
  require(defined(), "reshape: the tensor is undefined");
  Shape shape = resolve_sizes(*this, asked);
  Tensor out = *this;
  out.shape_ = shape;
  if (elements() == 0) {
    out.strides_ = contiguous_strides(shape);
    return out;
  }
  if (reshaped_strides(shape_, strides_, shape, out.strides_)) return out;
  out = clone();
  out.shape_ = shape;
  out.strides_ = contiguous_strides(shape);
  return out;
}

Tensor Tensor::as_strided(const Shape& shape, const Shape& strides, std::int64_t offset) const {
  Tensor out = *this;
  out.shape_ = shape;
  out.strides_ = strides;
  out.offset_ += offset;
  return out;
}

namespace {

Tensor copy_of(const Tensor& x, DType dtype, Device device) {
  Tensor out = Tensor::empty(x.shape(), dtype, device);
  out.copy_from(x);
  return out;
}

}  // namespace

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }
Tensor Tensor::clone() const { return copy_of(*this, dtype_, device_); }
Tensor Tensor::to(DType dtype) const { return dtype == dtype_ ? *this : copy_of(*this, dtype, device_); }
Tensor Tensor::to(Device device) const { return device == device_ ? *this : copy_of(*this, dtype_, device); }

void Tensor::fill(double value) {
  if (elements() > 0) kernels(device_).fill(*this, value);
}

bool Tensor::is_same_view(const Tensor& other) const {
  return storage_ == other.storage_ && offset_ == other.offset_ && dtype_ == other.dtype_ && shape_ == other.shape_ &&
         strides_ == other.strides_;
}

namespace {

/// Returns the lowest and highest offset of the elements of a view, in elements, relative to its first element.
std::pair<std::int64_t, std::int64_t> reach(const Shape& shape, const Shape& strides) {
  std::int64_t first = 0, last = 0;
  for (int d = 0; d < shape.rank(); ++d) (strides[d] < 0 ? first : last) += (shape[d] - 1) * strides[d];
  return {first, last};
}

}  // namespace

bool Tensor::overlaps(const Tensor& other) const {
  if (storage_ != other.storage_ || !storage_ || is_same_view(other)) return false;
  if (elements() == 0 || other.elements() == 0) return false;
  auto [first, last] = reach(shape_, strides_);
  auto [other_first, other_last] = reach(other.shape_, other.strides_);
  return offset_ + first <= other.offset_ + other_last && other.offset_ + other_first <= offset_ + last;
}

void Tensor::copy_from(const Tensor& source) {
  require(defined() && source.defined(),
          "Tensor: an undefined tensor cannot be copied, or copied into; it was never given a value");
  require(broadcast("copy_from", source.shape_, shape_) == shape_, "copy_from: {} does not broadcast to {}",
          source.shape_, shape_);
  require_own_elements("copy_from", *this);
  if (overlaps(source)) return copy_from(source.clone());
  if (elements() == 0) return;
  if (device_ == source.device_) return kernels(device_).copy(*this, source);
  // Across devices: cast and broadcast on the device of the source, then copy the bytes.
  Tensor packed = source.to(dtype_).expand(shape_).contiguous();
  if (!is_contiguous()) return copy_from(packed.to(device_));
  if (device_ == Device::cpu) {
    kernels(source.device_).download(mutable_address(), packed.address(), bytes());
  } else {
    kernels(device_).upload(mutable_address(), packed.address(), bytes());
  }
}

}  // namespace fovea
