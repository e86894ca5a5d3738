/// Numbers of pairs that a formula reads and that are computed, tile by tile, from queries and keys of their own
/// (LoweredSource in attention/engine/lowered.h): products, and sums of a pointer φ_i, a softmax of such products.
///
/// A formula reads x_ij = scale q_i · k_j, or two sums of a pointer:
///
///     F_ij = Σ φ_ik over the keys k up to the end of j's segment
///     S_ij = Σ φ_ik over the keys k from the beginning of j's segment on
///
/// They are in registers, in strips of which a lane has the same pairs as of the scores: lanes add up their sums with
/// shuffles, and the warps of a block that owns keys through shared memory, because their keys follow each other.
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
  int first, end;      ///< the keys that it may point to

  PointerOfQuery() = default;
  __device__ PointerOfQuery(const AttentionCall<T>& call, const Source<T>& source, Side side, int b, int h, int i)
      : maximum(source.maximum[row_number(call, b, h, i)]),
        inverse(source.inverse[row_number(call, b, h, i)]),
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

/// The sources of a block, whose rows are queries or keys. Pointers come first. Their numbers have numbers too: 2 s and
/// 2 s + 1 are F and S of pointer s, and products follow those of all pointers.
template <class Spec, bool rows_are_queries>
class BlockSources {
 public:
  using T = typename Spec::Number;
  static constexpr int rows = Spec::shape().rows(), columns = Spec::columns, threads = 32 * Spec::warps,
                       n = columns / 8, count = rows_are_queries ? rows : columns, stride = columns + 1,
                       room = Spec::most_sources > 0 ? Spec::most_sources : 1;
  static constexpr int lane_queries = rows_are_queries ? lane_rows : 2 * n;  ///< of which a lane has pairs
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

  /// Computes the numbers of the tile whose columns begin at `first` and which has so many keys. `all_seen`: all of its
  /// queries and keys exist, and all keys are visible.
  __device__ void prepare(int first, int keys, bool all_seen) {
    for_sources([&](int s) {
      PairStrip& strip = strips_[s];
      strip.clear();
      add_product_of_rows(strip, row_tile(s), warp_rows * warp_of_thread(), column_tile(s));
      for_strip<PairStrip>([&](int c, int e) { strip.at[c][e] *= call_.sources[s].scale; });
      if (s >= spec_.pointers()) return;
      make_weights(s, first, keys, all_seen);
      F_[s] = strip;
    });
    if (spec_.pointers() == 0) return;
    sum_over_keys(F_, 0, first);
    if (spec_.segment() == 1) return;
    for_pointers([&](int s) {
      for_segments(strips_[s], [&](int c, int e, T up_to, T behind) {
        S_[s].at[c][e] = sum_from(s, c, e, F_[s].at[c][e] - up_to);
        F_[s].at[c][e] += behind;
      });
    });
  }

  /// The number with this number, for element e of at[c].
  __device__ T number(int number, int c, int e) const {
    const int s = number / 2;
    if (number >= 2 * spec_.pointers()) return strips_[number - spec_.pointers()].at[c][e];
    if (number % 2 == 0) return F_[s].at[c][e];
    return spec_.segment() == 1 ? sum_from(s, c, e, F_[s].at[c][e] - strips_[s].at[c][e]) : S_[s].at[c][e];
  }
  /// Replaces a number by its gradient: 0 where a pair is not seen.
  __device__ void set_gradient(int number, int c, int e, T gradient) {
    if (number >= 2 * spec_.pointers())
      strips_[number - spec_.pointers()].at[c][e] = gradient;
    else if (number % 2 == 0)
      F_[number / 2].at[c][e] = gradient;
    else
      S_[number / 2].at[c][e] = gradient;
  }

  /// In the query-owned pass: stores the sums of φ and of its gradient over the keys before `first`, if the keys of a
  /// block of the key-owned pass begin there.
  __device__ void keep_carried(int first) {
    const int step = call_.carried_step;
    if (!rows_are_queries || spec_.sources() == 0 || first % step != 0) return;
    const int t = lane_of_thread() % 4, s = t / 2, i = row_ + strip_row(2 * (t % 2));
    if (s >= spec_.pointers() || i >= call_.query_end || !spec_.makes_source(s)) return;
    *carried(s, 0, i, first / step) = static_cast<T>(sums_[0]);
    *carried(s, 1, i, first / step) = static_cast<T>(sums_[1]);
  }

  /// Adds to the gradients of the block's queries or keys what comes from the tile whose columns begin at `first`.
  /// Gradients have replaced its numbers.
  __device__ void add_gradients(int first) {
    if (spec_.sources() == 0) return;
    PairStrip Z[room];
    for_made_pointers(
        [&](int s) { for_strip<PairStrip>([&](int c, int e) { Z[s].at[c][e] = S_[s].at[c][e] - F_[s].at[c][e]; }); });
    sum_over_keys(Z, 1, first);
    for_made_pointers([&](int s) {
      if (spec_.segment() == 1) {
        for_strip<PairStrip>([&](int c, int e) { Z[s].at[c][e] += F_[s].at[c][e]; });
      } else {
        for_segments(F_[s], [&](int c, int e, T up_to, T) { Z[s].at[c][e] += up_to; });
        for_segments(S_[s], [&](int c, int e, T, T behind) { Z[s].at[c][e] += behind; });
      }
      T slopes[lane_queries] = {};
      if (!rows_are_queries)
        for (int q = 0; q < lane_queries; ++q) slopes[q] = numbers(s)[2 * count + query_in_tile(q)];
      for_strip<PairStrip>([&](int c, int e) {
        T& x = strips_[s].at[c][e];
        x *= rows_are_queries ? Z[s].at[c][e] : Z[s].at[c][e] - slopes[query_of(c, e)];
        if (rows_are_queries) slopes_[s][e / 2] += x;
      });
    });
    for_sources([&](int s) {
      if (spec_.makes_source(s)) add_product(gradient_[s], strips_[s], column_tile(s));
    });
  }

  /// Calls write(s, gradient of the block's rows) for each source s whose gradients this kernel makes.
  template <class Write>
  __device__ void finish(const Write& write) {
    for_sources([&](int s) {
      if (!spec_.makes_source(s)) return;
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
  __device__ void for_pointers(const Body& body) const {
    for_sources([&](int s) {
      if (s < spec_.pointers()) body(s);
    });
  }
  template <class Body>
  __device__ void for_made_pointers(const Body& body) const {
    for_pointers([&](int s) {
      if (spec_.makes_source(s)) body(s);
    });
  }

  /// Which of the lane's queries an element belongs to, and the place of such a query, and of a key, in the tile.
  __device__ static int query_of(int c, int e) { return rows_are_queries ? e / 2 : 2 * c + e % 2; }
  __device__ static int query_in_tile(int q) {
    return rows_are_queries ? warp_rows * warp_of_thread() + strip_row(2 * q) : strip_column(q / 2, q % 2);
  }
  __device__ static int key_in_tile(int c, int e) {
    return rows_are_queries ? strip_column(c, e) : warp_rows * warp_of_thread() + strip_row(e);
  }

  /// Replaces the logits of pointer s by φ.
  __device__ void make_weights(int s, int first, int keys, bool all_seen) {
    const int first_query = rows_are_queries ? block_row_ : first, first_key = rows_are_queries ? first : block_row_;
    const SharedSpan<T> from = numbers(s);
    PointerOfQuery<T> pointers[lane_queries];
#pragma unroll
    for (int q = 0; q < lane_queries; ++q) {
      const int k = query_in_tile(q);
      pointers[q].maximum = from[k], pointers[q].inverse = from[count + k];
      totals_[s][q] = pointers[q].inverse != T(0) ? T(1) : T(0);
    }
    PairStrip& strip = strips_[s];
    if (all_seen && spec_.side(s) == Side::all) {
      for_strip<PairStrip>([&](int c, int e) {
        const PointerOfQuery<T>& of = pointers[query_of(c, e)];
        strip.at[c][e] = exponential<Spec>(strip.at[c][e], of.maximum) * of.inverse;
      });
      return;
    }
#pragma unroll
    for (int q = 0; q < lane_queries; ++q) {
      const int k = query_in_tile(q), end = static_cast<int>(from[4 * count + k]);
      pointers[q].first = static_cast<int>(from[3 * count + k]);
      // Beyond the last query, whose rows are 0, the exponential may be infinite.
      pointers[q].end = first_query + k >= call_.query_end ? 0 : end < first_key + keys ? end : first_key + keys;
    }
    for_strip<PairStrip>([&](int c, int e) {
      strip.at[c][e] = pointers[query_of(c, e)].template weight<Spec>(strip.at[c][e], first_key + key_in_tile(c, e));
    });
  }

  /// S of pointer s, from the sum of φ over the keys before.
  __device__ T sum_from(int s, int c, int e, T before) const {
    const T sum = totals_[s][query_of(c, e)] - before;
    return sum > T(0) ? sum : T(0);
  }

  /// Replaces the numbers of each pointer's strip by their sums over the keys up to each one, in this tile and in all
  /// before it. Kind 0 are φ, kind 1 are dS − dF.
  __device__ void sum_over_keys(PairStrip (&strips)[room], int kind, int first) {
    if (rows_are_queries)
      sum_along_rows(strips, kind);
    else
      sum_along_columns(strips, kind, first);
  }
  /// Whether a kernel needs the sums of this kind of pointer s.
  __device__ bool needs(int s, int kind) const { return kind == 0 || spec_.makes_source(s); }

  /// A lane has two neighbouring keys in each eight, and carries one sum of a query and pointer for the four lanes of
  /// its row. What a tile has is summed apart, and carried in f64: in f32 sums would drift over many tiles.
  __device__ void sum_along_rows(PairStrip (&strips)[room], int kind) {
    const int t = lane_of_thread() % 4;
    const auto carried = static_cast<T>(sums_[kind]);
    for_pointers([&](int s) {
      if (!needs(s, kind)) return;
#pragma unroll
      for (int q = 0; q < lane_queries; ++q) {
        const T before = __shfl_sync(~0u, carried, lane_of_thread() - t + 2 * s + q);
        T inside = T(0);
#pragma unroll
        for (int c = 0; c < n; ++c) {
          T &left = strips[s].at[c][2 * q], &right = strips[s].at[c][2 * q + 1];
          const T two = left + right, neighbours = __shfl_xor_sync(~0u, two, 1), four = two + neighbours,
                  others = __shfl_xor_sync(~0u, four, 2);
          T sum = before + inside;
          if (t & 1) sum += neighbours;
          if (t & 2) sum += others;
          left += sum, right += left;
          inside += four + others;
        }
        if (t == 2 * s + q) sums_[kind] += static_cast<double>(inside);
      }
    });
  }

  /// The eight lanes of a column have neighbouring keys, and the other half of the warp's rows the eight behind. What
  /// the warps have is summed in shared memory, from what the query-owned pass has left for this block.
  __device__ void sum_along_columns(PairStrip (&strips)[room], int kind, int first) {
    const SharedSpan<T> sums(memory_.sums_at + kind * memory_.sums_bytes, room * Spec::warps * columns);
    const int lane = lane_of_thread(), own = warp_of_thread() * columns;
    for_pointers([&](int s) {
      if (!needs(s, kind)) return;
#pragma unroll
      for (int q = 0; q < lane_queries; ++q) {
        T &upper = strips[s].at[q / 2][q % 2], &lower = strips[s].at[q / 2][2 + q % 2];
        T of_upper = upper, of_lower = lower;
#pragma unroll
        for (int step = 4; step < 32; step *= 2) {
          const T upper_of_others = __shfl_xor_sync(~0u, of_upper, step),
                  lower_of_others = __shfl_xor_sync(~0u, of_lower, step);
          if (lane & step) upper += upper_of_others, lower += lower_of_others;
          of_upper += upper_of_others, of_lower += lower_of_others;
        }
        lower += of_upper;
        if (lane < 4) sums[s * Spec::warps * columns + own + query_in_tile(q)] = of_upper + of_lower;
      }
    });
    __syncthreads();
    for (int k = static_cast<int>(threadIdx.x); k < spec_.pointers() * columns; k += threads) {
      const int s = k / columns, query = k % columns, i = first + query;
      if (!needs(s, kind)) continue;
      T sum = i < call_.query_end ? *carried(s, kind, i, block_row_ / call_.carried_step) : T(0);
      for (int warp = 0; warp < Spec::warps; ++warp) {
        T& of_warp = sums[(s * Spec::warps + warp) * columns + query];
        const T inside = of_warp;
        of_warp = sum, sum += inside;
      }
    }
    __syncthreads();
    for_pointers([&](int s) {
      if (!needs(s, kind)) return;
#pragma unroll
      for (int q = 0; q < lane_queries; ++q) {
        const T before = sums[s * Spec::warps * columns + own + query_in_tile(q)];
        strips[s].at[q / 2][q % 2] += before, strips[s].at[q / 2][2 + q % 2] += before;
      }
    });
  }

  /// body(c, e, the sum of a strip's numbers over the keys of the segment up to the element's, that over the keys
  /// behind it).
  template <class Body>
  __device__ void for_segments(const PairStrip& strip, const Body& body) const {
    constexpr int most_keys = rows_are_queries ? columns : rows;
    const SharedSpan<T> array(memory_.array_at, rows * stride);
    const auto place = [](int query, int key) {
      return rows_are_queries ? query * stride + key : key * stride + query;
    };
    barrier();
    for_strip<PairStrip>(
        [&](int c, int e) { array[place(query_in_tile(query_of(c, e)), key_in_tile(c, e))] = strip.at[c][e]; });
    barrier();
    for_strip<PairStrip>([&](int c, int e) {
      const int query = query_in_tile(query_of(c, e)), key = key_in_tile(c, e), begin = key - key % spec_.segment();
      T up_to = T(0), behind = T(0);
      for (int k = begin; k < begin + spec_.segment() && k < most_keys; ++k)
        (k <= key ? up_to : behind) += array[place(query, k)];
      body(c, e, up_to, behind);
    });
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
  PairStrip F_[room], S_[room];     ///< of pointers; without segments S follows from F and φ
  QueryStrip gradient_[room];       ///< of the block's rows
  T totals_[room][lane_queries];    ///< Σ φ over all keys: 1, or 0 for a query whose pointer has none
  T slopes_[room][lane_rows] = {};  ///< this lane's parts of V
  double sums_[2] =
      {};  ///< of both kinds over the keys before, for pointer t / 2 and the lane's query t % 2, t = lane % 4
};

}  // namespace fovea::cuda
