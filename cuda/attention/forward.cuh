/// The forward pass of fused attention: a block computes the output of 16 · warps queries of one head. It keeps their
/// rows in shared memory and takes a tile of keys after the other:
///
///     s = scale q kᵀ     z = logit(s, i, j, captures)     m' = max(m, z)
///     p = exp(z − m')    l = exp(m − m') l + Σ p          o = exp(m − m') o + p · weight(i, j, captures) v
///
/// so that no matrix of all pairs exists. In the end the output is o / l.
#pragma once
#include "cuda/attention/block.cuh"

namespace fovea::cuda {

/// The running softmax of the two rows of a lane.
template <class T>
struct RunningSoftmax {
  T maximum[2] = {minus_infinity<T>(), minus_infinity<T>()};
  T total[2] = {T(0), T(0)};   ///< this lane's part of Σ exp(z − maximum)
  T weight[2] = {T(0), T(0)};  ///< this lane's part of the sum of the weights, times the total

  /// Takes the logits of a further tile, and replaces them by exp(z − maximum). Returns in `shrink` by what the sums of
  /// earlier tiles are to be multiplied.
  template <class Spec, int n>
  __device__ void take(Strip<T, n>& z, T (&shrink)[2]) {
    T largest[2] = {maximum[0], maximum[1]};
    for_strip<n>([&](int c, int e) { largest[e / 2] = larger(largest[e / 2], z.at[c][e]); });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      largest[half] = largest_of_row(largest[half]);
      const T base = largest[half] == minus_infinity<T>() ? T(0) : largest[half];
      shrink[half] = exponential<Spec>(maximum[half], base);
      maximum[half] = largest[half];
      total[half] *= shrink[half], weight[half] *= shrink[half];
      largest[half] = base;
    }
    for_strip<n>([&](int c, int e) {
      z.at[c][e] = exponential<Spec>(z.at[c][e], largest[e / 2]);
      total[e / 2] += z.at[c][e];
    });
  }
};

/// The weights of the two rows of a lane summed by their distance, for values that depend on it. A distance inside of
/// the table has one pair in a row, whose weight is stored; those at its ends collect in registers. The four lanes of a
/// row share the table: a barrier of the warp is between what they write and what they read.
template <class T>
class OffsetWeights {
 public:
  __device__ OffsetWeights(const AttentionCall<T>& call, int b, int h) : call_(call), b_(b), h_(h) {}

  __device__ void take(int half, int i, int j, T weight) {
    const int distance = j - i - call_.query_offset, clip = call_.offset_clip;
    if (distance <= -clip)
      low_[half] += weight;
    else if (distance >= clip)
      high_[half] += weight;
    else
      row(i)[distance + clip] = weight;
  }
  /// Multiplies the sums of row i by a factor.
  __device__ void multiply(int half, int i, T factor) {
    low_[half] *= factor, high_[half] *= factor;
    for (int c = 1 + lane_of_thread() % 4; c < 2 * call_.offset_clip; c += 4) row(i)[c] *= factor;
  }
  /// Writes what has collected at the ends of the table of row i.
  __device__ void finish(int half, int i, bool writes) {
    const T low = sum_of_row(low_[half]), high = sum_of_row(high_[half]);
    if (!writes) return;
    row(i)[0] = call_.offset_clip > 0 ? low : low + high;
    if (call_.offset_clip > 0) row(i)[2 * call_.offset_clip] = high;
  }

 private:
  __device__ T* row(int i) const {
    return call_.offset_weights + row_number(call_, b_, h_, i) * (2 * call_.offset_clip + 1);
  }
  const AttentionCall<T>& call_;
  int b_, h_;
  T low_[2] = {T(0), T(0)}, high_[2] = {T(0), T(0)};
};

/// The row quantities of the two rows of a lane (nn/row_quantities.h), of the keys that the lane has.
template <class T>
class RunningRows {
 public:
  __device__ void take_logit(int half, int j, T z) {
    if (z > maximum_[half]) maximum_[half] = z, key_[half] = j;
  }
  /// Takes a weight, in units that are the same for a whole row. The logarithm of a smaller one may be −inf.
  __device__ void take_weight(int half, T weight) {
    const T size = weight < T(0) ? -weight : weight;
    constexpr T least = sizeof(T) == 8 ? T(1e-300) : T(1e-37);
    if (size < least) return;
    sizes_[half] += size, logarithms_[half] += size * logarithm(size);
  }
  /// Multiplies the weights that were taken.
  __device__ void multiply(int half, T factor) {
    if (sizes_[half] > T(0))
      logarithms_[half] = factor > T(0) ? factor * (logarithms_[half] + logarithm(factor) * sizes_[half]) : T(0);
    sizes_[half] *= factor;
  }
  /// Joins the lanes of a row. The first of them writes row `at`, if it exists.
  __device__ void write(const AttentionCall<T>& call, int half, std::int64_t at, T logsumexp, bool writes) {
    T maximum = maximum_[half];
    int key = key_[half];
    for (int step = 1; step < 4; step *= 2) {
      const T other = __shfl_xor_sync(~0u, maximum, step);
      const int key_of_other = __shfl_xor_sync(~0u, key, step);
      if (other > maximum || (other == maximum && key_of_other < key)) maximum = other, key = key_of_other;
    }
    const T size = sum_of_row(sizes_[half]), logarithms = sum_of_row(logarithms_[half]);
    if (!writes) return;
    const T entropy = size == T(0) ? T(0) : logarithm(size) - logarithms / size;  // a NaN stays
    call.row_maximum[at] = maximum, call.row_key[at] = key, call.row_logsumexp[at] = logsumexp;
    call.row_entropy[at] = entropy < T(0) ? T(0) : entropy;
  }

 private:
  T maximum_[2] = {minus_infinity<T>(), minus_infinity<T>()};
  int key_[2] = {-1, -1};
  T sizes_[2] = {T(0), T(0)}, logarithms_[2] = {T(0), T(0)};  ///< of Σ |w| and Σ |w| log |w|
};

/// The logits of a strip from its products. Pairs that are not seen get −inf; `all_seen`: there are none.
template <bool all_seen, bool rows_are_queries, class Spec, int n, class Sees>
__device__ void make_logits(const AttentionCall<typename Spec::Number>& call, const Spec& spec,
                            const StripCaptures<Spec, rows_are_queries>& captures, int row, int column,
                            Strip<typename Spec::Number, n>& strip, const Sees& sees) {
  using T = typename Spec::Number;
  for_strip<n>([&](int c, int e) {
    const int r = row + strip_row(e), at = column + strip_column(c, e);
    const int i = rows_are_queries ? r : at, j = rows_are_queries ? at : r;
    T x[3 + Spec::most];
    x[0] = spec.has_product() ? call.scale * strip.at[c][e] : T(0);
    const bool is_seen = all_seen || sees(i, j, e);
    captures.template fill<false>(x, e / 2, all_seen || i < call.queries ? i : call.queries - 1,
                                  all_seen || j < call.keys ? j : call.keys - 1);
    const T z = spec.logit(x);
    strip.at[c][e] = is_seen ? z : minus_infinity<T>();
  });
}

/// The density of a logit, exp(min(z, 40)), where 40 is Normalizer::largest_exponent.
template <class Spec, class T>
__device__ T density(T z) {
  return exponential<Spec>(z < T(40) ? z : T(40), T(0));
}

/// Renormalization::least.
template <class T>
__device__ constexpr T least_sum() {
  return T(1e-9);
}

template <class Spec>
class ForwardBlock : BlockOfRows<Spec, true> {
  using Base = BlockOfRows<Spec, true>;
  using Base::call_, Base::spec_, Base::b_, Base::h_, Base::block_row_, Base::row_, Base::captures_, Base::sources_;
  using Base::rows, Base::columns, Base::threads, Base::n;
  using typename Base::ColumnTile;
  using typename Base::T, typename Base::Seen, typename Base::QueryTile, typename Base::ValueTile,
      typename Base::PairStrip;
  static constexpr ForwardMemory memory{Spec::shape()};

 public:
  __device__ ForwardBlock(const AttentionCall<T>& call, const Spec& spec, BlockPlace at)
      : Base(call, spec, at, memory.sources),
        seen_{Seen(call.seen, b_, h_, this->existing_row(0)), Seen(call.seen, b_, h_, this->existing_row(1))} {
    out_.clear();
  }

  __device__ void run() {
    const QueryTile query(0, rows), key(memory.keys_at, columns);
    const ValueTile value(memory.values_at, columns);
    if (spec_.has_product()) this->template load<rows>(query, call_.query, block_row_, call_.queries, call_.width);
    sources_.load_rows();
    if (call_.continues) begin_with_earlier_results();
    this->for_tiles([&](const ColumnTile& tile) {
      const int j = tile.first;
      __syncthreads();
      if (spec_.has_product()) this->template load<columns>(key, call_.key, j, call_.keys, call_.width);
      if (spec_.has_output()) this->template load<columns>(value, call_.value, j, call_.keys, call_.value_width);
      sources_.load_columns(j);
      if (spec_.has_dropout()) kept_.template draw<threads>(call_, b_, h_, block_row_, rows, j);
      __syncthreads();
      sources_.prepare(j, spec_.key_step(columns));
      PairStrip strip;
      strip.clear();
      if (spec_.has_product()) this->add_scores(strip, query, key);
      if (tile.all_seen)
        add_tile<true>(strip, tile, value);
      else
        add_tile<false>(strip, tile, value);
    });
    finish();
  }

 private:
  /// Adds a tile of keys, given the products of its strip.
  template <bool all_seen>
  __device__ void add_tile(PairStrip& strip, const ColumnTile& tile, const ValueTile& value) {
    make_logits<all_seen, true>(call_, spec_, captures_, row_, tile.first, strip, [&](int i, int at, int e) {
      return i < call_.queries && at < tile.end &&
             seen_[e / 2].has(call_.seen, b_, h_, i, at, at - i - call_.query_offset);
    });
    if (spec_.has_rows())
      for_strip<n>([&](int c, int e) { rows_.take_logit(e / 2, tile.first + strip_column(c, e), strip.at[c][e]); });
    if (spec_.has_densities()) {
      for_strip<n>([&](int c, int e) { strip.at[c][e] = density<Spec>(strip.at[c][e]); });
    } else {
      T shrink[2];
      softmax_.template take<Spec>(strip, shrink);
      if (__any_sync(~0u, shrink[0] != T(1) || shrink[1] != T(1))) {  // few tiles have a new maximum
        for_strip<Spec::value_width / 8>([&](int c, int e) { out_.at[c][e] *= shrink[e / 2]; });
        if (spec_.has_relative_values()) multiply_offset_weights(shrink);
        if (spec_.has_rows()) rows_.multiply(0, shrink[0]), rows_.multiply(1, shrink[1]);
      }
    }
    if (!spec_.has_output()) return;
    for_strip<n>([&](int c, int e) { strip.at[c][e] = weight<all_seen>(strip.at[c][e], c, e, tile); });
    add_product(out_, strip, value);
  }

  /// The weight of a pair, after windows and dropout, from its exponential.
  template <bool all_seen>
  __device__ T weight(T exponential, int c, int e, const ColumnTile& tile) {
    const int i = row_ + strip_row(e), at = tile.first + strip_column(c, e);
    if (spec_.has_window()) {
      T x[3 + Spec::most];
      x[0] = T(1);
      captures_.template fill<true>(x, e / 2, all_seen || i < call_.queries ? i : call_.queries - 1,
                                    all_seen || at < call_.keys ? at : call_.keys - 1);
      const T factor = spec_.weight(x);
      exponential = all_seen || exponential != T(0) ? exponential * factor : T(0);
    }
    if (spec_.renormalizes()) softmax_.weight[e / 2] += exponential;
    if (spec_.has_rows()) rows_.take_weight(e / 2, exponential);
    if (spec_.has_dropout()) exponential *= kept_.factor(call_, i - block_row_, at);
    if (spec_.has_relative_values() && (all_seen || (i < call_.queries && at < tile.end)))
      offset_weights_.take(e / 2, i, at, exponential);
    return exponential;
  }

  __device__ void multiply_offset_weights(const T (&factors)[2]) {
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (this->has_row(half)) offset_weights_.multiply(half, row_ + strip_row(2 * half), factors[half]);
    __syncwarp();
  }

  /// Begins with the maximum, total and output that a call with other keys has left.
  __device__ void begin_with_earlier_results() {
    T total[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = row_number(call_, b_, h_, this->existing_row(half));
      const bool sees_none = call_.inverse[at] == T(0);
      total[half] = sees_none ? T(0) : T(1) / call_.inverse[at];
      if (spec_.has_densities()) continue;
      softmax_.maximum[half] = sees_none ? minus_infinity<T>() : call_.maximum[at];
      if (lane_of_thread() % 4 == 0) softmax_.total[half] = total[half];
    }
    const Operand<T> out = call_.out.of(b_, h_);
    for_strip<Spec::value_width / 8>([&](int c, int e) {
      if (strip_column(c, e) < call_.value_width)
        out_.at[c][e] = out.at(this->existing_row(e / 2), strip_column(c, e)) * total[e / 2];
    });
  }

  /// Divides by the totals, and writes the output and what the backward pass needs.
  __device__ void finish() {
    T factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = row_ + strip_row(2 * half);
      T maximum = softmax_.maximum[half], total = sum_of_row(softmax_.total[half]);
      const T mass = sum_of_row(softmax_.weight[half]);
      T shrink = T(1);
      if (spec_.has_sink()) {
        const T sink = call_.sink[h_], larger = sink > maximum ? sink : maximum;
        const T base = larger == minus_infinity<T>() ? T(0) : larger;
        shrink = exponential<Spec>(maximum, base);
        total = total * shrink + exponential<Spec>(sink, base);
        maximum = larger;
      }
      const bool sees_none = maximum == minus_infinity<T>();
      T inverse = spec_.has_densities() ? T(1) : sees_none ? T(0) : T(1) / total;
      const T sum = mass * shrink * inverse;
      factor[half] = shrink * inverse;
      if (spec_.renormalizes()) factor[half] /= sum > least_sum<T>() ? sum : least_sum<T>();
      const bool writes = this->has_row(half) && lane_of_thread() % 4 == 0;
      const std::int64_t at = row_number(call_, b_, h_, i);
      if (spec_.has_rows())
        rows_.write(call_, half, at, total == T(0) ? minus_infinity<T>() : maximum + logarithm(total), writes);
      if (!writes) continue;
      call_.maximum[at] = sees_none || spec_.has_densities() ? T(0) : maximum;
      call_.inverse[at] = inverse;
      if (spec_.renormalizes()) call_.weight[at] = sum;
    }
    if (!spec_.has_output()) return;
    this->write(call_.out.of(b_, h_), out_, call_.value_width, factor);
    if (!spec_.has_relative_values()) return;
    multiply_offset_weights(factor);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      offset_weights_.finish(half, row_ + strip_row(2 * half), this->has_row(half) && lane_of_thread() % 4 == 0);
  }

  Seen seen_[2];
  KeptWeights kept_{memory.kept_at, rows};
  RunningSoftmax<T> softmax_;
  RunningRows<T> rows_;
  OffsetWeights<T> offset_weights_{call_, b_, h_};
  Strip<T, Spec::value_width / 8> out_;
};

template <class Spec>
__device__ void attention_forward(const AttentionCall<typename Spec::Number>& call, const Spec& spec) {
  constexpr int rows = Spec::shape().rows();
  ForwardBlock<Spec>(call, spec, BlockPlace(call.heads, (call.queries + rows - 1) / rows)).run();
}

}  // namespace fovea::cuda
