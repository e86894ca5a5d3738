/// The arguments of the kernels of fused attention, made of a call's tensors.
#pragma once
#include <vector>

#include "attention/engine/tiles.h"
#include "cuda/attention/kernels.h"
#include "cuda/attention/round.h"
#include "cuda/attention/seen.h"

namespace fovea::cuda {

/// x, which broadcasts to [B, H, rows, columns].
template <class T, class Element>
Operand<T> operand(const Tensor& x, Element* first) {
  std::int64_t strides[4] = {};
  for (int d = 0; d < x.rank(); ++d) strides[4 - x.rank() + d] = x.shape()[d] > 1 ? x.strides()[d] : 0;
  auto is_aligned = [](std::int64_t elements) { return elements * sizeof(T) % 16 == 0; };
  const bool packed = strides[3] == 1 && is_aligned(strides[0]) && is_aligned(strides[1]) && is_aligned(strides[2]) &&
                      reinterpret_cast<std::uintptr_t>(first) % 16 == 0;
  return {first, strides[0], strides[1], strides[2], strides[3], packed};
}
template <class T>
Operand<const T> read(const Tensor& x) {
  return operand<const T>(x, x.data<T>());
}
template <class T>
Operand<T> write(Tensor& x) {
  return operand<T>(x, x.mutable_data<T>());
}
/// The elements of a result of the forward pass, which writes them. Backward passes take the same arguments and only
/// read: with mutable_data(), a result would count as changed since it was saved.
template <class T>
T* elements(const Tensor& x) {
  return const_cast<T*>(x.data<T>());
}

/// Memory for a result [B, H, X, D] in the memory order [B, X, H, D], so that merging the heads costs nothing. Its type
/// and device are those of `like`.
Tensor with_heads_inside(std::int64_t B, std::int64_t H, std::int64_t X, std::int64_t D, const Tensor& like);

/// The factors of a call's products, rounded to bf16 for kernels with Spec::Factor = Bf16. They must live until the
/// kernels are launched.
class RoundedTensors {
 public:
  /// Rounds queries, keys, values (unless the call computes only totals) and out_gradient, which may be undefined. Does
  /// nothing unless the call's products are in bf16 and its values f32.
  RoundedTensors(const TileCall& call, const Tensor& out_gradient);
  const RoundedFactors& operands() const { return operands_; }

 private:
  Operand<const std::uint16_t> round(Tensor x, int width);

  RoundedFactors operands_{};
  std::vector<Tensor> tensors_;
  std::vector<RowsToRound> rows_;
};

/// The pairs of query and key that a call's masks and ranges let through.
SeenPairs seen_pairs(const LoweredCall& call);
/// All keys that the queries may see, or those on one side of the query.
SeenPairs visible_pairs(const LoweredCall& call, Side side);

/// The kinds of all tiles of a call whose queries see `seen`, u8 [B or 1, H or 1, ceil(I / 64), ceil(J / 64)];
/// undefined if all pairs are seen.
Tensor make_tile_map(const LoweredCall& call, const SeenPairs& seen);
/// The same as kernels read it.
TileMap map_of(const Tensor& tiles);

/// Whether queries see only the keys near the focus.
bool has_window(const LoweredCall& call);

/// The arguments that the kernels of both passes have in common. T is float or double, the type of the values.
template <class T>
AttentionCall<T> arguments(const TileCall& call, const TileResult& result);

/// The least number of bytes that a kernel of the call moves.
std::int64_t bytes_of(const TileCall& call, const TileResult& result);

}  // namespace fovea::cuda
