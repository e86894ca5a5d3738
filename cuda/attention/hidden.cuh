/// Additive scores v · tanh(q_i + k_j) and their gradients, without the hidden layer of all pairs in memory:
///
///     t_ij = tanh(q_i + k_j)
///     dq_i = Σ_j ds_ij v (1 − t_ij²)     dk_j = Σ_i ds_ij v (1 − t_ij²)     dv = Σ_ij ds_ij t_ij
///
/// Both passes take one element of the hidden layer after the other.
#pragma once
#include "cuda/attention/pairs.cuh"

namespace fovea::cuda {

/// body(c, e, tanh(row of a + row of b)) for the elements of a strip, at element `at` of the hidden layer. `row` is the
/// strip's first row in the tile a.
template <int n, class T, int width, class Body>
__device__ inline void for_hidden(const Tile<T, width>& a, int row, const Tile<T, width>& b, int at, const Body& body) {
  const int g = lane_of_thread() / 4, t = lane_of_thread() % 4;
  const T of_row[2] = {a.at(row + g, at), a.at(row + g + 8, at)};
#pragma unroll
  for (int c = 0; c < n; ++c) {
    const T of_column[2] = {b.at(8 * c + 2 * t, at), b.at(8 * c + 2 * t + 1, at)};
#pragma unroll
    for (int e = 0; e < 4; ++e) body(c, e, tanh(of_row[e / 2] + of_column[e % 2]));
  }
}

/// sums += v · tanh(a + b), with `weights` = v.
template <int n, class T, int width>
__device__ void add_hidden_scores(Strip<T, n>& sums, const Tile<T, width>& a, int row, const Tile<T, width>& b,
                                  const Operand<const T>& weights, int elements) {
#pragma unroll 1
  for (int at = 0; at < elements; ++at) {
    const T v = weights.at(0, at);
    for_hidden<n>(a, row, b, at, [&](int c, int e, T t) { sums.at[c][e] += v * t; });
  }
}

/// The gradients of a block's rows and of v, summed in shared memory: the four lanes of a row add to that row alone.
template <class Spec>
class HiddenGradients {
 public:
  using T = typename Spec::Number;
  static constexpr int rows = Spec::shape().rows(), columns = Spec::columns, n = columns / 8, stride = Spec::width + 1,
                       threads = 32 * Spec::warps;

  __device__ HiddenGradients(const AttentionCall<T>& call, int b, int h, int first_byte)
      : call_(call), b_(b), h_(h), first_byte_(first_byte) {}

  __device__ void clear() const {
    const SharedSpan<T> sums(first_byte_, 2 * rows * stride);
    for (int k = static_cast<int>(threadIdx.x); k < 2 * rows * stride; k += threads) sums[k] = T(0);
  }

  /// Adds those of a tile, given the gradients of its scores. `row` is the first row of the thread's warp in the block.
  template <int width>
  __device__ void add(const Strip<T, n>& gradients, const Tile<T, width>& a, int row, const Tile<T, width>& b) const {
    const Operand<const T> weights = call_.hidden_weight.of(b_, h_);
    const SharedSpan<T> of_rows = array(0), of_weight = array(1);
#pragma unroll 1
    for (int at = 0; at < call_.width; ++at) {
      T slope[2] = {T(0), T(0)}, weighted[2] = {T(0), T(0)};
      for_hidden<n>(a, row, b, at, [&](int c, int e, T t) {
        slope[e / 2] += gradients.at[c][e] * (T(1) - t * t), weighted[e / 2] += gradients.at[c][e] * t;
      });
      const T v = weights.at(0, at);
#pragma unroll
      for (int lane_row = 0; lane_row < 2; ++lane_row) {
        const T of_row = v * sum_of_row(slope[lane_row]), of_v = sum_of_row(weighted[lane_row]);
        if (lane_of_thread() % 4 != 0) continue;
        const int k = (row + strip_row(2 * lane_row)) * stride + at;
        of_rows[k] += of_row, of_weight[k] += of_v;
      }
    }
  }

  /// Writes the gradients of `count` rows from row `first` of the head on, or adds them to what is there, after a
  /// barrier.
  __device__ void write_rows(const Operand<T>& to, int first, int count, bool adds) const {
    const Operand<T> own = to.of(b_, h_);
    for (int k = static_cast<int>(threadIdx.x); k < count * call_.width; k += threads) {
      T& x = own.at(first + k / call_.width, k % call_.width);
      const T sum = array(0)[k / call_.width * stride + k % call_.width];
      x = adds ? x + sum : sum;
    }
  }
  /// Begins the row `part` of hidden_weight_gradient, to which the tiles of a block add.
  __device__ static void begin_weight(const AttentionCall<T>& call, int b, int h, int part) {
    const Operand<T> to = call.hidden_weight_gradient.of(b, h);
    for (int at = static_cast<int>(threadIdx.x); at < call.width; at += threads) to.at(part, at) = T(0);
  }
  /// Adds v's gradient to the row `part`.
  __device__ void add_weight(int part) const {
    const Operand<T> to = call_.hidden_weight_gradient.of(b_, h_);
    for (int at = static_cast<int>(threadIdx.x); at < call_.width; at += threads) {
      T sum = T(0);
      for (int r = 0; r < rows; ++r) sum += array(1)[r * stride + at];
      to.at(part, at) += sum;
    }
  }

 private:
  /// The sums of rows (0), or those of v that come from each row (1).
  __device__ SharedSpan<T> array(int number) const {
    return SharedSpan<T>(first_byte_ + number * rows * stride * static_cast<int>(sizeof(T)), rows * stride);
  }

  const AttentionCall<T>& call_;
  int b_, h_, first_byte_;
};

}  // namespace fovea::cuda
