/// Checks of arguments that several public functions of tensor/ (the fronts, see kernels.h) share. `what`, the name of
/// the operation, begins the error message.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "tensor/formula/target.h"
#include "tensor/kernels.h"
#include "tensor/tensor.h"

namespace fovea {

/// Throws unless all elements of `out`, a result that is to be written, have memory of their own: those of an expanded
/// dimension share it.
void require_own_elements(std::string_view what, const Tensor& out);

/// Returns the positions of two tensors that share memory, the smaller first, or nothing if none do. Each lies in
/// memory without gaps.
std::optional<std::pair<std::size_t, std::size_t>> sharing_memory(std::span<const Tensor* const> tensors);

/// Throws unless `x` is f32 or f64, the types that arithmetic is done in.
inline void require_real(std::string_view what, const Tensor& x) {
  visit_real(what, x.dtype(), [](auto) {});
}

/// The range that the elements of an index must lie in: least ... most, or `ignored` if `can_ignore`. Plain data, so
/// that a kernel can take it by value and report it.
struct RangeCheck {
  const char* what;   ///< the operation
  const char* which;  ///< what the message calls an element, for example "index" or "target"
  const char* must;   ///< the end of the message, such as "must be in [0, 1]"; null: it names the element and the range
  std::int64_t least, most, ignored;
  bool can_ignore;
  int rank;  ///< of the index
  std::int64_t shape[Shape::max_rank];

  FOVEA_HD bool holds(std::int64_t index) const {
    return (least <= index && index <= most) || (can_ignore && index == ignored);
  }
  /// Throws Error that names the element at `position`, in row-major order, which is `value`.
  [[noreturn]] void fail_at(std::int64_t position, std::int64_t value) const;
};

/// The check that the elements of `index` are in 0 ... size − 1, for kernels that make it while they read the index.
RangeCheck in_range(const char* what, const char* which, const Tensor& index, std::int64_t size);

/// Throws Error naming the first element of `index` that is not in 0 ... size − 1; where the host would have to wait
/// for the device to know, it is thrown when the host next waits. `which` is what the message calls such an element.
void require_in_range(const char* what, const char* which, const Tensor& index, std::int64_t size);

/// The same, but elements equal to `ignored` may be outside of the range.
void require_in_range(const char* what, const char* which, const Tensor& index, std::int64_t size,
                      std::int64_t ignored);

/// Throws Error naming the first element of `index` outside least ... most; where the host would have to wait for the
/// device to know, when the host next waits.
void require_between(const char* what, const char* which, const Tensor& index, std::int64_t least, std::int64_t most);

/// Throws Error naming the first element of `holds`, bool, that is false: "man: the mask at [0, 2] of [3, 5] must be in
/// [0, 1]", where `must` is "must be in [0, 1]". On a GPU it is thrown when the host next waits.
void require_everywhere(const char* what, const char* which, const Tensor& holds, const char* must);

}  // namespace fovea
