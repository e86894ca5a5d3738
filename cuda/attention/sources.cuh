/// Numbers of pairs that a formula reads and that are computed, tile by tile, from queries and keys of their own
/// (LoweredSource in attention/engine/lowered.h): products, and sums of a pointer φ_i, a softmax of such products.
///
/// Shared memory has an array [rows, columns] for each product x_ij = scale q_i · k_j and two for each pointer,
///
///     F_ij = Σ φ_ik over the keys k up to the end of j's segment
///     S_ij = Σ φ_ik over the keys k from the beginning of j's segment on
///
/// A tile has whole segments. F runs along: a block that owns queries takes the tiles of keys in order and carries it
/// from one to the next. S_ij is 1 − F up to the segment before.
///
/// The backward pass replaces the numbers by their gradients dF and dS. With Z_k = Σ dS_j over the keys j up to the end
/// of k's segment − Σ dF_j over the segments before, φ's gradient is Z_k and a number that all keys of a query share,
/// which a softmax ignores. So one sweep in the order of keys is enough, and carries F and Z:
///
///     d(scale q_i · k_k) = φ_ik (Z_ik − V_i)     with V_i = Σ_k φ_ik Z_ik
///     dq_i = scale (Σ_k φ_ik Z_ik k_k − V_i Σ_k φ_ik k_k)
///
/// The forward pass keeps the last sum, the pointer's mean key. A block that owns keys finds F and Z of the keys before
/// its own where the query-owned pass has left them (`carried`).
#pragma once
#include "cuda/attention/pairs.cuh"

namespace fovea::cuda {

/// One query's row of a pointer: from this and a product q · k follows φ.
template <class T>
struct PointerOfQuery {
  T maximum, inverse;  ///< of its softmax
  T slope;             ///< V, see the top of the file
  int first, end;      ///< the keys that it may point to

  PointerOfQuery() = default;
  __device__ PointerOfQuery(const AttentionCall<T>& call, const Source<T>& source, Side side, int b, int h, int i)
      : maximum(source.maximum[row_number(call, b, h, i)]),
        inverse(source.inverse[row_number(call, b, h, i)]),
        slope(T(0)),
        first(call.seen.visible.first.at(b, h, i)),
        end(call.seen.visible.end.at(b, h, i)) {
    const int position = call.query_offset + i;
    if (end > call.keys) end = call.keys;  // causality may reach beyond the keys
    if (side == Side::up_to_query && end > position + 1) end = position + 1;
    if (side == Side::from_query && first < position) first = position;
  }
  /// φ of key j, from its logit.
  template <class Spec>
  __device__ T weight(T logit, int j) const {
    return first <= j && j < end ? exponential<Spec>(logit, maximum) * inverse : T(0);
  }
};

/// The numbers of one array for the keys of a tile, for one query.
template <class T>
class KeysOfQuery {
 public:
  __device__ KeysOfQuery(const SharedSpan<T>& array, int first, int step) : array_(array), first_(first), step_(step) {}
  __device__ T& operator[](int key) const { return array_[first_ + key * step_]; }

 private:
  const SharedSpan<T>& array_;
  int first_, step_;
};

/// Replaces φ in `F` by F, and writes S. `sum` is Σ φ over the keys before the tile, and then that of the tile's too:
/// it is f64, because in f32 it would drift over many tiles. The sum of all φ is `total`.
template <class T>
__device__ void sum_pointer(const KeysOfQuery<T>& F, const KeysOfQuery<T>& S, int keys, int segment, double& sum,
                            T total) {
  const auto carried = static_cast<T>(sum);
  T inside = T(0);
  for (int begin = 0; begin < keys; begin += segment) {
    const T behind = total - (carried + inside);
    for (int k = begin; k < begin + segment; ++k) inside += F[k];
    for (int k = begin; k < begin + segment; ++k) F[k] = carried + inside, S[k] = behind > T(0) ? behind : T(0);
  }
  sum += static_cast<double>(inside);
}

/// Replaces dF in `F` by Z. `sum` is Σ (dS − dF) over the keys before the tile, and then that of the tile's too.
template <class T>
__device__ void sum_gradients(const KeysOfQuery<T>& F, const KeysOfQuery<T>& S, int keys, int segment, double& sum) {
  const auto carried = static_cast<T>(sum);
  T inside = T(0);
  for (int begin = 0; begin < keys; begin += segment) {
    T of_F = T(0), of_S = T(0);
    for (int k = begin; k < begin + segment; ++k) of_F += F[k], of_S += S[k];
    for (int k = begin; k < begin + segment; ++k) F[k] = carried + inside + of_S;
    inside += of_S - of_F;
  }
  sum += static_cast<double>(inside);
}

/// The sources of a block, whose rows are queries or keys. Pointers come first.
template <class Spec, bool rows_are_queries>
class BlockSources {
 public:
  using T = typename Spec::Number;
  static constexpr int rows = Spec::shape().rows(), columns = Spec::columns, threads = 32 * Spec::warps,
                       n = columns / 8, count = rows_are_queries ? rows : columns, stride = columns + 1,
                       room = Spec::most_sources > 0 ? Spec::most_sources : 1;
  using PairStrip = Strip<T, n>;
  using QueryStrip = Strip<T, Spec::width / 8>;
  using SourceTile = Tile<typename Spec::Factor, Spec::width>;

  /// `row` is the first row of the thread's warp.
  __device__ BlockSources(const AttentionCall<T>& call, const Spec& spec, const SourcesMemory& memory, int b, int h,
                          int block_row, int row)
      : call_(call), spec_(spec), memory_(memory), b_(b), h_(h), block_row_(block_row), row_(row) {
    for_sources([&](int s) { gradient_[s].clear(); });
  }

  /// Copies the rows that the block owns to shared memory.
  __device__ void load_rows() const {
    for_sources([&](int s) {
      const Source<T>& source = call_.sources[s];
      load_tile<threads, rows>(row_tile(s), (rows_are_queries ? source.query : source.key).of(b_, h_), block_row_,
                               rows_are_queries ? call_.queries : call_.keys, call_.width);
    });
    if (rows_are_queries) load_numbers(block_row_);
  }
  /// Copies the rows of a tile's columns to shared memory.
  __device__ void load_columns(int first) const {
    for_sources([&](int s) {
      const Source<T>& source = call_.sources[s];
      load_tile<threads, columns>(column_tile(s), (rows_are_queries ? source.key : source.query).of(b_, h_), first,
                                  rows_are_queries ? call_.keys : call_.queries, call_.width);
    });
    if (!rows_are_queries) load_numbers(first);
  }

  /// Computes the numbers of the tile whose columns begin at `first`; `keys` is the number of its keys.
  __device__ void prepare(int first, int keys) {
    if (spec_.sources() == 0) return;
    for_sources([&](int s) {
      PairStrip& strip = strips_[s];
      strip.clear();
      add_product_of_rows(strip, row_tile(s), warp_rows * warp_of_thread(), column_tile(s));
      const SharedSpan<T> to = array(spec_.array_of_source(s));
      for_strip<PairStrip>([&](int c, int e) {
        const int column = strip_column(c, e);
        strip.at[c][e] *= call_.sources[s].scale;
        if (s < spec_.pointers())
          strip.at[c][e] = pointer_of(s, e, column).template weight<Spec>(strip.at[c][e], key_of(first, c, e));
        to[place(e, column)] = strip.at[c][e];
      });
    });
    barrier();
    for_queries_of_thread(first, [&](int s, int query, double& sum, double&) {
      if (!rows_are_queries) sum = *carried(s, 0, first + query, block_row_ / call_.carried_step);
      const bool points = numbers(s)[count + query] != T(0);
      sum_pointer(keys_of(array(spec_.array_of_source(s)), query), keys_of(array(spec_.array_of_source(s) + 1), query),
                  keys, spec_.segment(), sum, points ? T(1) : T(0));
    });
    barrier();
  }

  /// In the query-owned pass: stores the sums of φ and of its gradient over the keys before `first`, if the keys of a
  /// block of the key-owned pass begin there.
  __device__ void keep_carried(int first) {
    const int step = call_.carried_step;
    if (!rows_are_queries || spec_.sources() == 0 || first % step != 0) return;
    for_queries_of_thread(first, [&](int s, int query, double& sum, double& slope_sum) {
      const int i = block_row_ + query;
      if (i >= call_.query_end || !spec_.makes_source(s)) return;
      *carried(s, 0, i, first / step) = static_cast<T>(sum);
      *carried(s, 1, i, first / step) = static_cast<T>(slope_sum);
    });
  }

  /// Adds to the gradients of the block's queries or keys what comes from the tile, whose numbers' gradients have
  /// replaced them in shared memory.
  __device__ void add_gradients(int first, int keys) {
    if (spec_.sources() == 0) return;
    barrier();
    for_queries_of_thread(first, [&](int s, int query, double&, double& sum) {
      if (!spec_.makes_source(s)) return;
      if (!rows_are_queries) sum = *carried(s, 1, first + query, block_row_ / call_.carried_step);
      sum_gradients(keys_of(array(spec_.array_of_source(s)), query),
                    keys_of(array(spec_.array_of_source(s) + 1), query), keys, spec_.segment(), sum);
    });
    barrier();
    for_made_sources([&](int s) {
      const SharedSpan<T> from = array(spec_.array_of_source(s));
      PairStrip& strip = strips_[s];
      for_strip<PairStrip>([&](int c, int e) {
        const int column = strip_column(c, e);
        const bool is_seen = is_in_tile(first, keys, c, e);
        const T gradient = is_seen ? from[place(e, column)] : T(0);
        if (s >= spec_.pointers()) {
          strip.at[c][e] = gradient;
        } else if (rows_are_queries) {
          strip.at[c][e] *= gradient;
          slopes_[s][e / 2] += strip.at[c][e];
        } else {
          // beyond the last query its rows are 0, of which the exponential may be infinite
          strip.at[c][e] = is_seen ? strip.at[c][e] * (gradient - pointer_of(s, e, column).slope) : T(0);
        }
      });
      add_product(gradient_[s], strip, column_tile(s));
    });
  }

  /// Calls write(s, gradient of the block's rows) for each source s whose gradients this kernel makes.
  template <class Write>
  __device__ void finish(const Write& write) {
    for_made_sources([&](int s) {
      const Source<T>& source = call_.sources[s];
      T slope[lane_rows] = {};
      if (rows_are_queries && s < spec_.pointers())
        for (int lane_row = 0; lane_row < lane_rows; ++lane_row) {
          slope[lane_row] = sum_of_row(slopes_[s][lane_row]);
          const int i = row_ + strip_row(2 * lane_row);
          if (i < call_.query_end && lane_of_thread() % 4 == 0)
            source.slope[row_number(call_, b_, h_, i)] = slope[lane_row];
        }
      for_strip<QueryStrip>([&](int c, int e) {
        const int i = row_ + strip_row(e), column = strip_column(c, e);
        T& x = gradient_[s].at[c][e];
        if (rows_are_queries && s < spec_.pointers() && i < call_.queries && column < call_.width)
          x -= slope[e / 2] * source.mean_key.of(b_, h_).at(i, column);
        x *= source.scale;
      });
      write(s, gradient_[s]);
    });
  }

 private:
  template <class Body>
  __device__ void for_sources(const Body& body) const {
#pragma unroll
    for (int s = 0; s < Spec::most_sources; ++s)
      if (s < spec_.sources()) body(s);
  }
  template <class Body>
  __device__ void for_made_sources(const Body& body) const {
    for_sources([&](int s) {
      if (spec_.makes_source(s)) body(s);
    });
  }
  template <class Body>
  __device__ void for_pointers(const Body& body) const {
    for_sources([&](int s) {
      if (s < spec_.pointers()) body(s);
    });
  }
  /// body(pointer, query of the tile, its running sum of φ, and of gradients) for the queries whose sums this thread
  /// makes: one row of its warp or, where columns are queries, any.
  template <class Body>
  __device__ void for_queries_of_thread(int first, const Body& body) {
    if (rows_are_queries) {
      const int s = lane_of_thread() / warp_rows;
      if (s < spec_.pointers()) body(s, warp_rows * warp_of_thread() + lane_of_thread() % warp_rows, sum_, slope_sum_);
      return;
    }
    for (int k = static_cast<int>(threadIdx.x); k < spec_.pointers() * columns; k += threads)
      if (first + k % columns < call_.query_end) body(k / columns, k % columns, sum_, slope_sum_);
  }

  __device__ void barrier() const {
    if (rows_are_queries)
      __syncwarp();
    else
      __syncthreads();
  }
  __device__ SourceTile row_tile(int s) const {
    return SourceTile(memory_.rows_at + s * Spec::shape().query_tile(rows), rows);
  }
  __device__ SourceTile column_tile(int s) const {
    return SourceTile(memory_.columns_at + s * Spec::shape().query_tile(columns), columns);
  }
  __device__ SharedSpan<T> array(int number) const {
    return SharedSpan<T>(memory_.arrays_at + number * memory_.array_bytes, rows * stride);
  }
  /// The members of PointerOfQuery for the queries of the block's rows or of the tile's columns: all maxima, then all
  /// inverses, slopes, first keys and ends.
  __device__ SharedSpan<T> numbers(int s) const {
    return SharedSpan<T>(memory_.numbers_at + s * 5 * count * static_cast<int>(sizeof(T)), 5 * count);
  }
  __device__ void load_numbers(int first) const {
    for_pointers([&](int s) {
      for (int k = static_cast<int>(threadIdx.x); k < count; k += threads) {
        const int i = first + k < call_.queries ? first + k : call_.queries - 1;
        const PointerOfQuery<T> of(call_, call_.sources[s], spec_.side(s), b_, h_, i);
        const SharedSpan<T> to = numbers(s);
        to[k] = of.maximum, to[count + k] = of.inverse;
        if (!rows_are_queries) to[2 * count + k] = call_.sources[s].slope[row_number(call_, b_, h_, i)];
        to[3 * count + k] = static_cast<T>(of.first), to[4 * count + k] = static_cast<T>(of.end);
      }
    });
  }
  /// Where an array has the element e of a strip.
  __device__ int place(int e, int column) const {
    return (warp_rows * warp_of_thread() + strip_row(e)) * stride + column;
  }
  /// The numbers of an array for one query of the tile.
  __device__ KeysOfQuery<T> keys_of(const SharedSpan<T>& of, int query) const {
    return rows_are_queries ? KeysOfQuery<T>(of, query * stride, 1) : KeysOfQuery<T>(of, query, stride);
  }
  __device__ int key_of(int first, int c, int e) const {
    return rows_are_queries ? first + strip_column(c, e) : row_ + strip_row(e);
  }
  /// Whether the key of an element is one of the tile's, and its query exists.
  __device__ bool is_in_tile(int first, int keys, int c, int e) const {
    const int own = rows_are_queries ? first : block_row_,
              query = rows_are_queries ? row_ + strip_row(e) : first + strip_column(c, e);
    return key_of(first, c, e) < own + keys && query < call_.query_end;
  }
  __device__ PointerOfQuery<T> pointer_of(int s, int e, int column) const {
    const int k = rows_are_queries ? warp_rows * warp_of_thread() + strip_row(e) : column;
    const SharedSpan<T> from = numbers(s);
    PointerOfQuery<T> of;
    of.maximum = from[k], of.inverse = from[count + k], of.slope = rows_are_queries ? T(0) : from[2 * count + k];
    of.first = static_cast<int>(from[3 * count + k]), of.end = static_cast<int>(from[4 * count + k]);
    return of;
  }
  /// For query i, the sum of φ (kind 0), or of dS − dF (kind 1), over all keys before a block of the key-owned pass:
  /// an element of AttentionCall::carried [pointers, 2, B, h, blocks, queries of the launch].
  __device__ T* carried(int s, int kind, int i, int block) const {
    const int blocks = (call_.keys + call_.carried_step - 1) / call_.carried_step,
              count = call_.query_end - call_.query_begin;
    const std::int64_t head = ((2 * std::int64_t{s} + kind) * call_.sentences + b_) * call_.heads + h_;
    return call_.carried + (head * blocks + block) * count + i - call_.query_begin;
  }

  const AttentionCall<T>& call_;
  const Spec& spec_;
  SourcesMemory memory_;
  int b_, h_, block_row_, row_;
  PairStrip strips_[room];          ///< φ, or products
  QueryStrip gradient_[room];       ///< of the block's rows
  T slopes_[room][lane_rows] = {};  ///< this lane's parts of V
  double sum_ = 0, slope_sum_ = 0;  ///< carried by the row whose sums this lane makes
};

}  // namespace fovea::cuda
