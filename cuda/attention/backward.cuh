/// The backward pass of fused attention, in two kernels that add nothing twice and use no atomics. Both compute the
/// weights again, tile by tile. With g the gradient of the output, u_ij = g_i · v_j and D_i = g_i · o_i:
///
///     dz_ij = p_ij (m_ij u_ij − D_i)     dq_i = Σ_j ds_ij k_j     dk_j = Σ_i ds_ij q_i     dv_j = Σ_i w_ij g_i
///
/// where m is the factor of the windows, and ds and the gradients of captures come from the formula's own gradients.
/// The query-owned kernel has a block for each tile of queries and computes D, dq and the gradients of what belongs to
/// queries; the key-owned kernel follows, with a block for each tile of keys.
#pragma once
#include "cuda/attention/forward.cuh"

namespace fovea::cuda {

/// The numbers of one query from which the weights of its pairs, and the gradients of these weights, are computed.
template <class T>
struct QueryNumbers {
  T maximum, inverse;
  T mean;    ///< what is subtracted in the softmax's gradient: D, or 0
  T factor;  ///< the gradient of a weight before it was normalised again is factor · (u − shift)
  T shift;

  QueryNumbers() = default;
  /// `D` is g · o of the query with the number `at`.
  template <class Spec>
  __device__ QueryNumbers(const AttentionCall<T>& call, const Spec& spec, std::int64_t at, T D)
      : maximum(call.maximum[at]),
        inverse(call.inverse[at]),
        mean(spec.has_densities() ? T(0) : D),
        factor(T(1)),
        shift(T(0)) {
    if (!spec.renormalizes()) return;
    const T sum = call.weight[at];
    factor = T(1) / (sum > least_sum<T>() ? sum : least_sum<T>());
    if (sum > least_sum<T>()) shift = D, mean = T(0);
  }
  __device__ QueryNumbers(T maximum, T inverse, T mean, T factor, T shift)
      : maximum(maximum), inverse(inverse), mean(mean), factor(factor), shift(shift) {}
};

/// The gradients of one pair.
template <class T, int most>
struct PairGradients {
  T weight;  ///< w_ij after dropout, the factor of g_i in dv_j
  T score;   ///< the gradient of q_i · k_j
  T captures[most];
};

/// A pair whose gradients are wanted, element e of at[c].
template <class T>
struct Pair {
  int i, j, c, e;
  T product, out_product;  ///< q_i · k_j and g_i · v_j
};

/// The base of the query-owned and the key-owned kernel. For each tile it multiplies q · k and g · v, where g is the
/// gradient of the output, makes the gradients of the tile's pairs from them, and adds those of the scores to the
/// gradients of the rows that the block owns: its queries, or its keys.
template <class Spec, bool rows_are_queries, class Memory>
class GradientBlock : protected BlockOfRows<Spec, rows_are_queries, Memory> {
  using Base = BlockOfRows<Spec, rows_are_queries, Memory>;

 protected:
  using Base::call_, Base::spec_, Base::b_, Base::h_, Base::block_row_, Base::row_end_, Base::captures_, Base::sources_;
  using typename Base::T, typename Base::PairStrip, typename Base::QueryStrip;
  static constexpr int most = Spec::most;

  __device__ GradientBlock(const AttentionCall<T>& call, const Spec& spec, BlockPlace at) : Base(call, spec, at) {
    score_gradient_.clear();
  }

  /// Computes the scores of a tile, without their scale, and its products g · v.
  __device__ void multiply(PairStrip& scores, PairStrip& out_products) const {
    scores.clear(), out_products.clear();
    this->add_scores(scores);
    add_product_of_rows(out_products, Base::own_values(), warp_rows * warp_of_thread(), this->column_values());
  }

  /// The gradients of a pair of the tile whose columns begin at `first`.
  __device__ PairGradients<T, most> gradients_of(const QueryNumbers<T>& query, const Pair<T>& pair, int first) const {
    const T kept = this->kept_factor(pair.i, pair.j, first), of_kept = gradient_of_weight(pair);
    T x[3 + most], to[1 + most];
    x[0] = spec_.has_product() ? call_.scale * pair.product : T(0);
    captures_.template fill<false>(x, pair.c, pair.e, pair.i, pair.j, sources_);
    const T z = spec_.logit(x);
    const T p = spec_.has_densities() ? density<Spec>(z) : exponential<Spec>(z, query.maximum) * query.inverse;
    T y[3 + most];
    y[0] = T(1);
    if (spec_.has_window()) captures_.template fill<true>(y, pair.c, pair.e, pair.i, pair.j, sources_);
    const T m = spec_.has_window() ? spec_.weight(y) : T(1);
    const T of_weight = (kept * of_kept - query.shift) * query.factor;
    const T of_logit =
        spec_.has_densities() && z >= T(40) ? T(0) : p * (m * of_weight + gradient_by_focus(pair) - query.mean);
    PairGradients<T, most> made;
    made.weight = p * m * query.factor * kept;
    spec_.logit_gradients(of_logit, x, to);
    made.score = call_.scale * to[0];
#pragma unroll
    for (int k = 0; k < most; ++k)
      if (k < spec_.logits()) made.captures[k] = to[1 + k];
    if (!spec_.has_window()) return made;
    spec_.weight_gradients(p * of_weight, y, to);
#pragma unroll
    for (int k = 0; k < most; ++k)
      if (k >= spec_.logits() && k < spec_.captures()) made.captures[k] = to[1 + k - spec_.logits()];
    return made;
  }

  /// Adds the gradients of the block's queries or keys, given those of a tile's scores.
  __device__ void add_score_gradients(const PairStrip& gradients) {
    if (!makes_scores()) return;
    if constexpr (sizeof(typename Spec::Factor) == sizeof(T))
      if (spec_.has_hidden())
        return hidden_.add(gradients, Base::own_queries(), warp_rows * warp_of_thread(), this->column_queries());
    add_product(score_gradient_, gradients, this->column_queries());
  }
  /// Writes them.
  __device__ void write_score_gradients(const Operand<T>& to) const {
    if (!makes_scores()) return;
    if (!spec_.has_hidden()) return this->write(to.of(b_, h_), score_gradient_, call_.width);
    __syncthreads();
    hidden_.write_rows(to, block_row_, row_end_ - block_row_, this->adds());
  }
  __device__ bool makes_scores() const { return spec_.has_product() && spec_.makes_score(); }

  HiddenGradients<Spec> hidden_{call_, b_, h_, Base::memory.hidden.at};

 private:
  /// The gradient of a pair's weight, after dropout: g_i · v_j, and that of its distance's sum of weights.
  __device__ T gradient_of_weight(const Pair<T>& pair) const {
    if (!spec_.has_relative_values()) return pair.out_product;
    const int clip = call_.offset_clip, distance = pair.j - pair.i - call_.query_offset;
    return pair.out_product + call_.offset_weight_gradients[row_number(call_, b_, h_, pair.i) * (2 * clip + 1) +
                                                            entry_of(Index::offset, clip, pair.j, distance)];
  }
  /// The gradient of p_ij by way of the focus Σ_j p_ij j, less what a softmax ignores.
  __device__ T gradient_by_focus(const Pair<T>& pair) const {
    if (!spec_.has_focus() || !call_.focus.gradient) return T(0);
    const std::int64_t at = row_number(call_, b_, h_, pair.i);
    return call_.focus.gradient[at] * (static_cast<T>(pair.j) - call_.focus.after[at]);
  }

  QueryStrip score_gradient_;
};

// ---- The query-owned kernel

/// The gradients of tables that all queries share, in a block's own buffer. A tile's gradients lie in shared memory;
/// each thread adds up diagonals of it. Offsets at the ends of the table collect in registers.
template <class Spec>
class OffsetSums {
 public:
  using T = typename Spec::Number;
  static constexpr QueryOwnedMemory memory{Spec::shape()};
  static constexpr int rows = Spec::shape().rows(), columns = Spec::columns, threads = 32 * Spec::warps;

  __device__ OffsetSums(const AttentionCall<T>& call, const Spec& spec, BlockPlace at) : call_(call), spec_(spec) {
    for_slots([&](int k, int slot) {
      to_[slot] = call.capture_gradients[k].of(at.b, at.h);
      to_[slot].first += at.tile * to_[slot].row;
      for (int c = static_cast<int>(threadIdx.x); c <= 2 * call.clips[k] && call.query_begin == 0; c += threads)
        to_[slot].at(0, c) = T(0);
      low_[slot] = T(0), high_[slot] = T(0);
    });
  }

  /// Keeps the gradient of capture k for a pair of the tile.
  __device__ void set(int k, int row, int column, T gradient) const {
    slot(spec_.slot(k))[row * memory.slot_stride + column] = gradient;
  }

  /// Adds the tile of queries from i and keys from j on. Barriers before and after it are the caller's.
  __device__ void add_tile(int i, int j) {
    for_slots([&](int k, int number) {
      const SharedSpan<T> gradients = slot(number);
      for (int d = static_cast<int>(threadIdx.x); d < rows + columns - 1; d += threads) {
        const int shift = d - (rows - 1), begin = shift < 0 ? -shift : 0,
                  end = columns - shift < rows ? columns - shift : rows;  // rows r with column r + shift
        T sum = T(0);
        for (int r = begin; r < end; ++r) sum += gradients[r * memory.slot_stride + r + shift];
        const int distance = j - i - call_.query_offset + shift, clip = call_.clips[k];
        if (distance <= -clip)
          low_[number] += sum;
        else if (distance >= clip)
          high_[number] += sum;
        else
          to_[number].at(0, distance + clip) += sum;
      }
    });
  }

  /// Adds what has collected at the ends of the tables, in the order of threads.
  __device__ void finish() {
    for_slots([&](int k, int number) {
      const SharedSpan<T> ends(memory.ends_at, 2 * threads);
      __syncthreads();
      ends[threadIdx.x] = low_[number], ends[threads + threadIdx.x] = high_[number];
      __syncthreads();
      if (threadIdx.x > 0) return;  // a table of one entry has both ends there
      T low = T(0), high = T(0);
      for (int r = 0; r < threads; ++r) low += ends[r], high += ends[threads + r];
      to_[number].at(0, 0) += low, to_[number].at(0, 2 * call_.clips[k]) += high;
    });
  }

 private:
  template <class Body>
  __device__ void for_slots(const Body& body) const {
#pragma unroll
    for (int k = 0; k < Spec::most; ++k)
      if (k < spec_.captures() && spec_.index(k) == Index::offset && spec_.wants(k)) body(k, spec_.slot(k));
  }
  __device__ SharedSpan<T> slot(int number) const {
    return SharedSpan<T>(memory.slots_at + number * memory.slot_bytes, rows * memory.slot_stride);
  }

  const AttentionCall<T>& call_;
  const Spec& spec_;
  static constexpr int room = Spec::most_slots > 0 ? Spec::most_slots : 1;
  Operand<T> to_[room];  ///< a block's own table [1, 2 clip + 1]
  T low_[room], high_[room];
};

template <class Spec>
class QueryOwnedBlock : GradientBlock<Spec, true, QueryOwnedMemory> {
  using Base = GradientBlock<Spec, true, QueryOwnedMemory>;
  using Base::call_, Base::spec_, Base::b_, Base::h_, Base::block_row_, Base::row_, Base::captures_, Base::sources_,
      Base::hidden_;
  using Base::rows, Base::columns;
  using typename Base::ColumnTile;
  using typename Base::T, typename Base::Seen, typename Base::PairStrip, typename Base::QueryStrip;

 public:
  __device__ QueryOwnedBlock(const AttentionCall<T>& call, const Spec& spec, BlockPlace at, OffsetSums<Spec>& offsets)
      : Base(call, spec, at), offsets_(offsets) {
#pragma unroll
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row) numbers_[lane_row] = numbers_of(lane_row);
    __syncthreads();  // a block that takes several tiles has written the last one's gradients
    if (spec_.has_hidden()) hidden_.clear();
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row)
#pragma unroll
      for (int k = 0; k < Spec::most; ++k) low_[lane_row][k] = T(0), high_[lane_row][k] = T(0);
  }

  __device__ void run() {
    __syncthreads();
    this->load_own_queries();
    this->load_own_values();
    sources_.load_rows();
    const auto load = [&](int j, int stage) { this->load_columns(j, stage); };
    const auto visit = [&](const ColumnTile& tile) {
      const int j = tile.first;
      sources_.keep_carried(j);
      sources_.prepare(j, spec_.key_step(columns), tile.all_seen);
      PairStrip strip, out_products;
      this->multiply(strip, out_products);
      if (tile.all_seen)
        take_tile<true>(strip, out_products, tile);
      else
        take_tile<false>(strip, out_products, tile);
      this->add_score_gradients(strip);
      sources_.add_gradients(j);
      if (spec_.slots() == 0) return;
      __syncthreads();
      offsets_.add_tile(block_row_, j);
    };
    this->for_tiles(load, visit, [&](int j) { sources_.keep_carried(j); });
    finish();
  }

 private:
  /// Computes D, and keeps it for the key-owned kernel.
  __device__ QueryNumbers<T> numbers_of(int lane_row) const {
    const int i = this->existing_row(lane_row);
    const Operand<const T> gradient = call_.out_gradient.of(b_, h_);
    const Operand<T> out = call_.out.of(b_, h_);
    T mine = T(0);
    for (int c = lane_of_thread() % 4; c < call_.value_width; c += 4) mine += gradient.at(i, c) * out.at(i, c);
    const T D = sum_of_row(mine);
    const std::int64_t at = row_number(call_, b_, h_, i);
    const QueryNumbers<T> numbers(call_, spec_, at, D);
    if (lane_of_thread() % 4 == 0 && this->has_row(lane_row)) {
      call_.mean[at] = D;
      if (spec_.has_sink() && call_.sink_gradient)
        call_.sink_gradient[at] =
            -exponential<Spec>(call_.sink[h_ * call_.sink_step], numbers.maximum) * numbers.inverse * numbers.mean;
    }
    return numbers;
  }

  /// Replaces the products q · k of a tile by their gradients, and takes the gradients of captures.
  template <bool all_seen>
  __device__ void take_tile(PairStrip& strip, const PairStrip& out_products, const ColumnTile& tile) {
    Seen seen[lane_rows];
    if (!all_seen) this->see_rows(seen);
    for_strip<PairStrip>([&](int c, int e) {
      const int i = row_ + strip_row(e), at = tile.first + strip_column(c, e), distance = at - i - call_.query_offset;
      const bool is_seen =
          all_seen || (i < call_.queries && at < tile.end && seen[e / 2].has(call_.seen, b_, h_, i, at, distance));
      PairGradients<T, Spec::most> made{};
      if (is_seen)
        made = this->gradients_of(numbers_[e / 2], {i, at, c, e, strip.at[c][e], out_products.at[c][e]}, tile.first);
      strip.at[c][e] = made.score;
#pragma unroll
      for (int k = 0; k < Spec::most; ++k)
        if (k < spec_.captures() && spec_.wants(k)) {
          if (spec_.index(k) == Index::offset)
            offsets_.set(k, i - block_row_, at - tile.first, made.captures[k]);
          else if (is_of_source(spec_.index(k)))
            sources_.set_gradient(spec_.number_of_source(k), c, e, made.captures[k]);
          else if (is_seen)
            take(k, e / 2, i, at, distance, made.captures[k]);
        }
    });
  }

  /// Adds the gradient of one pair to that of capture k, which belongs to the pair's query.
  __device__ void take(int k, int lane_row, int i, int j, int distance, T gradient) {
    const Index index = spec_.index(k);
    const int clip = call_.clips[k];
    if (is_of_query(index) || (index == Index::query_offset && distance <= -clip)) {
      low_[lane_row][k] += gradient;
    } else if ((index == Index::query_offset && distance >= clip) || (index == Index::query_column && j >= clip)) {
      high_[lane_row][k] += gradient;
    } else if (index != Index::key) {  // no other pair reads this entry
      call_.capture_gradients[k].of(b_, h_).at(i, entry_of(index, clip, j, distance)) = gradient;
    }
  }

  __device__ void finish() {
    this->write_score_gradients(call_.query_gradient);
    if (this->makes_scores() && spec_.has_hidden())
      hidden_.add_weight((block_row_ - call_.query_begin) / rows % call_.parts);
    sources_.finish([&](int s, const QueryStrip& gradient) {
      this->write(call_.sources[s].query_gradient.of(b_, h_), gradient, call_.width);
    });
#pragma unroll
    for (int k = 0; k < Spec::most; ++k) {
      if (k >= spec_.captures() || !spec_.wants(k)) continue;
      const Index index = spec_.index(k);
      const bool has_low = is_of_query(index) || index == Index::query_offset,
                 has_high = index == Index::query_offset || index == Index::query_column;
      const Operand<T> to = call_.capture_gradients[k].of(b_, h_);
#pragma unroll
      for (int lane_row = 0; lane_row < lane_rows; ++lane_row) {
        const T low = has_low ? sum_of_row(low_[lane_row][k]) : T(0),
                high = has_high ? sum_of_row(high_[lane_row][k]) : T(0);
        const int i = row_ + strip_row(2 * lane_row), clip = call_.clips[k];
        if (!this->has_row(lane_row) || lane_of_thread() % 4 != 0) continue;
        const bool has_one_entry = has_low && clip == 0;
        if (has_low) to.at(i, 0) = low;
        if (has_high) to.at(i, index == Index::query_offset ? 2 * clip : clip) = has_one_entry ? low + high : high;
      }
    }
  }

  OffsetSums<Spec>& offsets_;
  QueryNumbers<T> numbers_[lane_rows];
  T low_[lane_rows][Spec::most], high_[lane_rows][Spec::most];  ///< gradients of captures of the lane's queries
};

/// A block takes every call.parts-th tile of a head's queries.
template <class Spec>
__device__ void attention_query_gradients(const AttentionCall<typename Spec::Number>& call, const Spec& spec) {
  constexpr int rows = Spec::shape().rows();
  BlockPlace at(call.heads, call.parts);
  OffsetSums<Spec> offsets(call, spec, at);
  if (spec.has_hidden() && spec.makes_score() && call.query_begin == 0)
    HiddenGradients<Spec>::begin_weight(call, at.b, at.h, at.tile);
  for (; at.tile * rows < call.query_end - call.query_begin; at.tile += call.parts)
    QueryOwnedBlock<Spec>(call, spec, at, offsets).run();
  offsets.finish();
}

// ---- The key-owned kernel

template <class Spec>
class KeyOwnedBlock : GradientBlock<Spec, false, KeyOwnedMemory> {
  using Base = GradientBlock<Spec, false, KeyOwnedMemory>;
  using Base::call_, Base::spec_, Base::b_, Base::h_, Base::row_, Base::row_end_, Base::captures_, Base::sources_;
  using Base::rows, Base::columns, Base::threads, Base::stage_, Base::memory;
  using typename Base::ColumnTile;
  using typename Base::T, typename Base::Seen, typename Base::PairStrip, typename Base::QueryStrip,
      typename Base::ValueStrip;

 public:
  __device__ KeyOwnedBlock(const AttentionCall<T>& call, const Spec& spec, BlockPlace at) : Base(call, spec, at) {
    value_gradient_.clear();
    if (spec_.has_hidden()) this->hidden_.clear();
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row)
#pragma unroll
      for (int k = 0; k < Spec::most; ++k) sums_[lane_row][k] = T(0);
  }

  __device__ void run() {
    this->load_own_queries();
    this->load_own_values();
    sources_.load_rows();
    const auto load = [&](int i, int stage) {
      this->load_columns(i, stage);
      load_numbers(i, stage);
    };
    this->for_tiles(load, [&](const ColumnTile& tile) {
      const int i = tile.first;
      sources_.prepare(i, spec_.key_step(rows), tile.all_seen);
      PairStrip strip, out_products;
      this->multiply(strip, out_products);
      if (tile.all_seen)
        take_tile<true>(strip, out_products, tile);
      else
        take_tile<false>(strip, out_products, tile);
      sources_.add_gradients(i);
      if (spec_.makes_values()) add_product(value_gradient_, out_products, this->column_values());
      this->add_score_gradients(strip);
    });
    finish();
  }

 private:
  __device__ static SharedSpan<T> numbers_in(int stage) {
    return SharedSpan<T>(memory.tiles.numbers_at + stage * memory.tiles.stage_bytes, KeyOwnedMemory::numbers * columns);
  }

  /// Copies the numbers of the queries from i on to shared memory, one kind after the other.
  __device__ void load_numbers(int i, int stage) const {
    const SharedSpan<T> to = numbers_in(stage);
    for (int k = static_cast<int>(threadIdx.x); k < columns; k += threads) {
      const std::int64_t at = row_number(call_, b_, h_, i + k < call_.queries ? i + k : call_.queries - 1);
      const QueryNumbers<T> of(call_, spec_, at, call_.mean[at]);
      to[k] = of.maximum, to[columns + k] = of.inverse, to[2 * columns + k] = of.mean;
      to[3 * columns + k] = of.factor, to[4 * columns + k] = of.shift;
    }
  }

  /// Replaces the products q · k of a tile by their gradients and g · v by the weights, and takes the gradients of
  /// captures that belong to keys.
  template <bool all_seen>
  __device__ void take_tile(PairStrip& strip, PairStrip& out_products, const ColumnTile& tile) {
    const SharedSpan<T> of = numbers_in(stage_);
    for_strip<PairStrip>([&](int c, int e) {
      const int j = row_ + strip_row(e), column = strip_column(c, e), i = tile.first + column;
      const bool is_seen =
          all_seen || (i < tile.end && j < row_end_ &&
                       Seen(call_.seen, b_, h_, i).has(call_.seen, b_, h_, i, j, j - i - call_.query_offset));
      PairGradients<T, Spec::most> made{};
      if (is_seen) {
        const QueryNumbers<T> numbers(of[column], of[columns + column], of[2 * columns + column],
                                      of[3 * columns + column], of[4 * columns + column]);
        made = this->gradients_of(numbers, {i, j, c, e, strip.at[c][e], out_products.at[c][e]}, tile.first);
      }
      strip.at[c][e] = made.score, out_products.at[c][e] = made.weight;
#pragma unroll
      for (int k = 0; k < Spec::most; ++k)
        if (k < spec_.captures() && spec_.wants(k)) {
          if (is_of_source(spec_.index(k)))
            sources_.set_gradient(spec_.number_of_source(k), c, e, made.captures[k]);
          else if (spec_.index(k) == Index::key)
            sums_[e / 2][k] += made.captures[k];
        }
    });
  }

  __device__ void finish() {
    this->write_score_gradients(call_.key_gradient);
    sources_.finish([&](int s, const QueryStrip& gradient) {
      this->write(call_.sources[s].key_gradient.of(b_, h_), gradient, call_.width);
    });
    if (spec_.makes_values()) this->write(call_.value_gradient.of(b_, h_), value_gradient_, call_.value_width);
#pragma unroll
    for (int k = 0; k < Spec::most; ++k) {
      if (k >= spec_.captures() || !spec_.wants(k) || spec_.index(k) != Index::key) continue;
#pragma unroll
      for (int lane_row = 0; lane_row < lane_rows; ++lane_row) {
        const T sum = sum_of_row(sums_[lane_row][k]);
        const int j = row_ + strip_row(2 * lane_row);
        if (!this->has_row(lane_row) || lane_of_thread() % 4 != 0) continue;
        T& x = call_.capture_gradients[k].of(b_, h_).at(j, 0);
        x = this->adds() ? x + sum : sum;
      }
    }
  }

  ValueStrip value_gradient_;
  T sums_[lane_rows][Spec::most];  ///< gradients of captures of the lane's keys
};

template <class Spec>
__device__ void attention_key_gradients(const AttentionCall<typename Spec::Number>& call, const Spec& spec) {
  constexpr int rows = Spec::shape().rows();
  const int step = spec.key_step(rows);
  KeyOwnedBlock<Spec>(call, spec, BlockPlace(call.heads, (call.keys + step - 1) / step)).run();
}

}  // namespace fovea::cuda
