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

/// The running softmax of the rows of a lane.
template <class T>
struct RunningSoftmax {
  T maximum[lane_rows];
  T total[lane_rows];   ///< this lane's part of Σ exp(z − maximum)
  T weight[lane_rows];  ///< this lane's part of the sum of the weights, times the total

  __device__ RunningSoftmax() {
#pragma unroll
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row)
      maximum[lane_row] = minus_infinity<T>(), total[lane_row] = weight[lane_row] = T(0);
  }

  /// Takes the logits of a further tile, and replaces them by exp(z − maximum). Returns in `shrink` by what the sums of
  /// earlier tiles are to be multiplied.
  template <class Spec, int n>
  __device__ void take(Strip<T, n>& z, T (&shrink)[lane_rows]) {
    T largest[lane_rows];
#pragma unroll
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row) largest[lane_row] = maximum[lane_row];
    for_strip<Strip<T, n>>([&](int c, int e) { largest[e / 2] = larger(largest[e / 2], z.at[c][e]); });
#pragma unroll
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row) {
      largest[lane_row] = largest_of_row(largest[lane_row]);
      const T base = largest[lane_row] == minus_infinity<T>() ? T(0) : largest[lane_row];
      shrink[lane_row] = change_of_maximum<Spec>(maximum[lane_row], largest[lane_row]);
      maximum[lane_row] = largest[lane_row];
      total[lane_row] *= shrink[lane_row], weight[lane_row] *= shrink[lane_row];
      largest[lane_row] = base;
    }
    for_strip<Strip<T, n>>([&](int c, int e) {
      z.at[c][e] = exponential<Spec>(z.at[c][e], largest[e / 2]);
      total[e / 2] += z.at[c][e];
    });
  }
};

/// The weights of the rows of a lane summed by their distance, for values that depend on it. A distance inside of
/// the table has one pair in a row, whose weight is stored; those at its ends collect in registers. The four lanes of a
/// row share the table: a barrier of the warp is between what they write and what they read.
template <class T>
class OffsetWeights {
 public:
  __device__ OffsetWeights(const AttentionCall<T>& call, int b, int h) : call_(call), b_(b), h_(h) {}

  __device__ void take(int lane_row, int i, int j, T weight) {
    const int distance = j - i - call_.query_offset, clip = call_.offset_clip;
    if (distance <= -clip)
      low_[lane_row] += weight;
    else if (distance >= clip)
      high_[lane_row] += weight;
    else
      row(i)[distance + clip] = weight;
  }
  /// Multiplies the sums of row i by a factor.
  __device__ void multiply(int lane_row, int i, T factor) {
    low_[lane_row] *= factor, high_[lane_row] *= factor;
    for (int c = 1 + lane_of_thread() % 4; c < 2 * call_.offset_clip; c += 4) row(i)[c] *= factor;
  }
  /// Writes what has collected at the ends of the table of row i.
  __device__ void finish(int lane_row, int i, bool writes) {
    const T low = sum_of_row(low_[lane_row]), high = sum_of_row(high_[lane_row]);
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
  T low_[lane_rows] = {}, high_[lane_rows] = {};
};

/// The row quantities of the rows of a lane (nn/row_quantities.h), of the keys that the lane has.
template <class T>
class RunningRows {
 public:
  __device__ RunningRows() {
#pragma unroll
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row)
      maximum_[lane_row] = minus_infinity<T>(), key_[lane_row] = -1;
  }
  __device__ void take_logit(int lane_row, int j, T z) {
    if (z > maximum_[lane_row]) maximum_[lane_row] = z, key_[lane_row] = j;
  }
  /// Takes a weight, in units that are the same for a whole row. The logarithm of a smaller one may be −inf.
  __device__ void take_weight(int lane_row, T weight) {
    const T size = weight < T(0) ? -weight : weight;
    constexpr T least = sizeof(T) == 8 ? T(1e-300) : T(1e-37);
    if (size < least) return;
    sizes_[lane_row] += size, logarithms_[lane_row] += size * log(size);
  }
  /// Multiplies the weights that were taken.
  __device__ void multiply(int lane_row, T factor) {
    if (sizes_[lane_row] > T(0))
      logarithms_[lane_row] = factor > T(0) ? factor * (logarithms_[lane_row] + log(factor) * sizes_[lane_row]) : T(0);
    sizes_[lane_row] *= factor;
  }
  /// Joins the lanes of a row. The first of them writes row `at`, if it exists.
  __device__ void write(const AttentionCall<T>& call, int lane_row, std::int64_t at, T logsumexp, bool writes) {
    T maximum = maximum_[lane_row];
    int key = key_[lane_row];
    for (int step = 1; step < 4; step *= 2) {
      const T other = __shfl_xor_sync(~0u, maximum, step);
      const int key_of_other = __shfl_xor_sync(~0u, key, step);
      if (other > maximum || (other == maximum && key_of_other < key)) maximum = other, key = key_of_other;
    }
    const T size = sum_of_row(sizes_[lane_row]), logarithms = sum_of_row(logarithms_[lane_row]);
    if (!writes) return;
    const T entropy = size == T(0) ? T(0) : log(size) - logarithms / size;  // a NaN stays
    call.row_maximum[at] = maximum, call.row_key[at] = key, call.row_logsumexp[at] = logsumexp;
    call.row_entropy[at] = entropy < T(0) ? T(0) : entropy;
  }

 private:
  T maximum_[lane_rows];
  int key_[lane_rows];
  T sizes_[lane_rows] = {}, logarithms_[lane_rows] = {};  ///< of Σ |w| and Σ |w| log |w|
};

/// The logits of a strip from its products. Pairs that are not seen get −inf; `all_seen`: there are none.
template <bool all_seen, bool rows_are_queries, class Spec, int n, class Sees>
__device__ void make_logits(const AttentionCall<typename Spec::Number>& call, const Spec& spec,
                            const StripCaptures<Spec, rows_are_queries>& captures,
                            const BlockSources<Spec, rows_are_queries>& sources, int row, int column,
                            Strip<typename Spec::Number, n>& strip, const Sees& sees) {
  using T = typename Spec::Number;
  for_strip<Strip<T, n>>([&](int c, int e) {
    const int r = row + strip_row(e), at = column + strip_column(c, e);
    const int i = rows_are_queries ? r : at, j = rows_are_queries ? at : r;
    T x[3 + Spec::most];
    x[0] = spec.has_product() ? call.scale * strip.at[c][e] : T(0);
    const bool is_seen = all_seen || sees(i, j, e);
    captures.template fill<false>(x, c, e, all_seen || i < call.queries ? i : call.queries - 1,
                                  all_seen || j < call.keys ? j : call.keys - 1, sources);
    const T z = spec.logit(x);
    strip.at[c][e] = is_seen ? z : minus_infinity<T>();
  });
}

/// The density of a logit, exp(min(z, 40)), where 40 is Normalizer::largest_exponent. NaN stays.
template <class Spec, class T>
__device__ T density(T z) {
  return exponential<Spec>(z > T(40) ? T(40) : z, T(0));
}

/// Renormalization::least.
template <class T>
__device__ constexpr T least_sum() {
  return T(1e-9);
}

template <class Spec>
class ForwardBlock : BlockOfRows<Spec, true, ForwardMemory> {
  using Base = BlockOfRows<Spec, true, ForwardMemory>;
  using Base::call_, Base::spec_, Base::b_, Base::h_, Base::row_, Base::captures_, Base::sources_;
  using Base::columns;
  using typename Base::ColumnTile;
  using typename Base::T, typename Base::Seen, typename Base::PairStrip, typename Base::ValueStrip;

 public:
  __device__ ForwardBlock(const AttentionCall<T>& call, const Spec& spec, BlockPlace at) : Base(call, spec, at) {
    out_.clear();
  }

  __device__ void run() {
    this->load_own_queries();
    sources_.load_rows();
    if (spec_.continues()) begin_with_earlier_results();
    const auto load = [&](int j, int stage) { this->load_columns(j, stage); };
    this->for_tiles(load, [&](const ColumnTile& tile) {
      sources_.prepare(tile.first, spec_.key_step(columns), tile.all_seen);
      PairStrip strip;
      strip.clear();
      this->add_scores(strip);
      add_tile(strip, tile);
    });
    finish();
  }

 private:
  /// Adds a tile of keys, given the products of its strip.
  __device__ void add_tile(PairStrip& strip, const ColumnTile& tile) {
    if (tile.all_seen)
      logits_of_tile<true>(strip, tile);
    else
      logits_of_tile<false>(strip, tile);
    if (spec_.has_rows())
      for_strip<PairStrip>(
          [&](int c, int e) { rows_.take_logit(e / 2, tile.first + strip_column(c, e), strip.at[c][e]); });
    if (spec_.has_densities()) {
      for_strip<PairStrip>([&](int c, int e) { strip.at[c][e] = density<Spec>(strip.at[c][e]); });
    } else {
      T shrink[lane_rows];
      softmax_.template take<Spec>(strip, shrink);
      bool shrinks = false;
#pragma unroll
      for (int lane_row = 0; lane_row < lane_rows; ++lane_row) shrinks = shrinks || shrink[lane_row] != T(1);
      if (__any_sync(~0u, shrinks)) {  // few tiles have a new maximum
        for_strip<ValueStrip>([&](int c, int e) { out_.at[c][e] *= shrink[e / 2]; });
        if (spec_.has_relative_values()) multiply_offset_weights(shrink);
        if (spec_.has_rows())
          for (int lane_row = 0; lane_row < lane_rows; ++lane_row) rows_.multiply(lane_row, shrink[lane_row]);
      }
    }
    if (!spec_.has_output()) return;
    if (tile.all_seen)
      for_strip<PairStrip>([&](int c, int e) { strip.at[c][e] = weight<true>(strip.at[c][e], c, e, tile); });
    else
      for_strip<PairStrip>([&](int c, int e) { strip.at[c][e] = weight<false>(strip.at[c][e], c, e, tile); });
    add_product(out_, strip, this->column_values());
  }

  template <bool all_seen>
  __device__ void logits_of_tile(PairStrip& strip, const ColumnTile& tile) {
    Seen seen[lane_rows];
    if (!all_seen) this->see_rows(seen);
    make_logits<all_seen, true>(call_, spec_, captures_, sources_, row_, tile.first, strip, [&](int i, int at, int e) {
      return i < call_.queries && at < tile.end &&
             seen[e / 2].has(call_.seen, b_, h_, i, at, at - i - call_.query_offset);
    });
  }

  /// The weight of a pair, after windows and dropout, from its exponential.
  template <bool all_seen>
  __device__ T weight(T exponential, int c, int e, const ColumnTile& tile) {
    const int i = row_ + strip_row(e), at = tile.first + strip_column(c, e);
    if (spec_.has_window()) {
      T x[3 + Spec::most];
      x[0] = T(1);
      captures_.template fill<true>(x, c, e, all_seen || i < call_.queries ? i : call_.queries - 1,
                                    all_seen || at < call_.keys ? at : call_.keys - 1, sources_);
      const T factor = spec_.weight(x);
      exponential = all_seen || exponential != T(0) ? exponential * factor : T(0);
    }
    if (spec_.renormalizes()) softmax_.weight[e / 2] += exponential;
    if (spec_.has_rows()) rows_.take_weight(e / 2, exponential);
    if (spec_.has_dropout()) exponential *= this->kept_factor(i, at, tile.first);
    if (spec_.has_relative_values() && (all_seen || (i < call_.queries && at < tile.end)))
      offset_weights_.take(e / 2, i, at, exponential);
    return exponential;
  }

  __device__ void multiply_offset_weights(const T (&factors)[lane_rows]) {
    __syncwarp();
#pragma unroll
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row)
      if (this->has_row(lane_row))
        offset_weights_.multiply(lane_row, row_ + strip_row(2 * lane_row), factors[lane_row]);
    __syncwarp();
  }

  /// Begins with the maximum, total and output that a call with other keys has left.
  __device__ void begin_with_earlier_results() {
    T total[lane_rows];
#pragma unroll
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row) {
      const std::int64_t at = row_number(call_, b_, h_, this->existing_row(lane_row));
      const bool sees_none = call_.inverse[at] == T(0);
      total[lane_row] = sees_none ? T(0) : T(1) / call_.inverse[at];
      if (spec_.has_densities()) continue;
      softmax_.maximum[lane_row] = sees_none ? minus_infinity<T>() : call_.maximum[at];
      if (lane_of_thread() % 4 == 0) softmax_.total[lane_row] = total[lane_row];
    }
    const Operand<T> out = call_.out.of(b_, h_);
    for_strip<ValueStrip>([&](int c, int e) {
      if (strip_column(c, e) < call_.value_width)
        out_.at[c][e] = out.at(this->existing_row(e / 2), strip_column(c, e)) * total[e / 2];
    });
  }

  /// Divides by the totals, and writes the output and what the backward pass needs.
  __device__ void finish() {
    T factor[lane_rows];
#pragma unroll
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row) {
      const int i = row_ + strip_row(2 * lane_row);
      T maximum = softmax_.maximum[lane_row], total = sum_of_row(softmax_.total[lane_row]);
      const T mass = sum_of_row(softmax_.weight[lane_row]);
      T shrink = T(1);
      if (spec_.has_sink()) {
        const T sink = call_.sink[h_ * call_.sink_step], larger = sink > maximum ? sink : maximum;
        const T base = larger == minus_infinity<T>() ? T(0) : larger;
        shrink = change_of_maximum<Spec>(maximum, larger);
        total = total * shrink + exponential<Spec>(sink, base);
        maximum = larger;
      }
      const bool sees_none = maximum == minus_infinity<T>();
      T inverse = spec_.has_densities() ? T(1) : sees_none ? T(0) : T(1) / total;
      const T sum = mass * shrink * inverse;
      factor[lane_row] = shrink * inverse;
      if (spec_.renormalizes()) factor[lane_row] /= sum > least_sum<T>() ? sum : least_sum<T>();
      const bool writes = this->has_row(lane_row) && lane_of_thread() % 4 == 0;
      const std::int64_t at = row_number(call_, b_, h_, i);
      if (spec_.has_rows())
        rows_.write(call_, lane_row, at, total == T(0) ? minus_infinity<T>() : maximum + log(total), writes);
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
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row)
      offset_weights_.finish(lane_row, row_ + strip_row(2 * lane_row),
                             this->has_row(lane_row) && lane_of_thread() % 4 == 0);
  }

  RunningSoftmax<T> softmax_;
  RunningRows<T> rows_;
  OffsetWeights<T> offset_weights_{call_, b_, h_};
  ValueStrip out_;
};

template <class Spec>
__device__ void attention_forward(const AttentionCall<typename Spec::Number>& call, const Spec& spec) {
  constexpr int rows = Spec::shape().rows();
  ForwardBlock<Spec>(call, spec, BlockPlace(call.heads, (call.queries + rows - 1) / rows)).run();
}

}  // namespace fovea::cuda
