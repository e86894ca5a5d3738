/// ByteSource, from which the readers of tensor files (.npy, .safetensors) read bytes, the types of elements in files,
/// and two functions for one tensor of a file: the bytes that it takes, and reading its elements.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace fovea {

/// A read-only file or a span of memory, of known size. Readers copy parts of it straight into tensors, so that no
/// second copy of the data is needed.
class ByteSource {
 public:
  /// Opens a regular file. Throws Error for a directory, a pipe or a device, without blocking.
  explicit ByteSource(const std::filesystem::path& path);
  /// Reads from memory, which must outlive this object. Error messages call it `name`.
  ByteSource(std::span<const std::byte> bytes, std::string name);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  const std::string& name() const { return name_; }
  std::size_t size() const { return size_; }
  /// Copies the bytes [offset, offset + bytes) to `to`. Throws Error unless all of them lie inside the source.
  void read(std::size_t offset, void* to, std::size_t bytes) const;

 private:
  std::string name_;
  std::size_t size_ = 0;
  int descriptor_ = -1;  ///< of the open file; -1 when reading from memory
  std::span<const std::byte> memory_;
};

/// The type that elements have in a file, and the type that they have in a tensor.
struct StoredType {
  std::string_view name;  ///< as the format writes it: "F16"
  DType dtype;
  bool is_half = false;  ///< binary16 of IEEE 754, a type that tensors do not have; `dtype` is f32

  std::size_t element_bytes() const { return is_half ? 2 : size_of(dtype); }
  /// "f32"; "half-precision"
  std::string_view description() const { return is_half ? "half-precision" : fovea::name(dtype); }
};

/// The number of bytes that the elements of a tensor take in a file. Throws Error, with a message that begins with
/// `what`, if the number exceeds 2^63 − 1.
std::size_t stored_bytes(std::string_view what, const Shape& shape, const StoredType& type);

/// Reads the elements from `offset` on into the memory of `to`, a dense tensor of the type type.dtype. Prints a line,
/// once for each source, if half-precision numbers become f32. Throws Error, with a message that begins with `what`,
/// for a bool that is neither 0 nor 1.
void read_elements(const ByteSource& source, std::size_t offset, std::string_view what, const StoredType& type,
                   const Tensor& to);

}  // namespace fovea
