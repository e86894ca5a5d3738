/// The focus that goes from query to query (attention/formula/focus.h), ahead of the forward pass. A block takes a
/// head's queries in order. It makes the products of a tile of them with all keys, and then computes one query after
/// the other:
///
///     z_j = logit(product_ij, i, j, captures, p_{i−1})     a = softmax(z)     p_i = Σ_j a_j j
///
/// The other kernels read the focus before each query like any number of a query, and compute all queries at the same
/// time. As z has the penalty g (j − p_{i−1})² / (2 sigma²), dp_i / dp_{i−1} is g / sigma² Σ_j a_j (j − p_i)².
#pragma once
#include "attention/formula/focus_window.h"
#include "cuda/attention/backward.cuh"

namespace fovea::cuda {

template <class Spec>
class FocusBlock : BlockOfRows<Spec, true, FocusMemory> {
  using Base = BlockOfRows<Spec, true, FocusMemory>;
  using Base::call_, Base::spec_, Base::b_, Base::h_, Base::block_row_, Base::row_, Base::row_end_, Base::captures_;
  using Base::rows, Base::threads, Base::memory;
  using typename Base::ColumnTile;
  using typename Base::T, typename Base::Seen, typename Base::PairStrip;

 public:
  __device__ FocusBlock(const AttentionCall<T>& call, const Spec& spec, BlockPlace at) : Base(call, spec, at) {}

  /// Computes the block's queries. `focus` is that before the first one, and becomes that after the last one.
  __device__ void run(T& focus) {
    make_products();
    __syncthreads();
    for (int i = block_row_; i < row_end_; ++i) focus = focus_after(i, focus);
    __syncthreads();
  }

 private:
  /// The numbers of query i for all keys: products, then logits, then exp(logit − maximum).
  __device__ T* numbers_of(int i) const {
    const std::int64_t head = std::int64_t{b_} * call_.heads + h_;
    static_assert(rows <= map_tile);
    return call_.focus.products + (head * map_tile + i - block_row_) * call_.keys;
  }

  /// Stores the scores of the block's queries; −inf for keys that a query does not see.
  __device__ void make_products() {
    this->load_own_queries();
    Seen seen[lane_rows];
    this->see_rows(seen);
    const auto store = [&](int first, const auto& number) {
      for_strip<PairStrip>([&](int c, int e) {
        const int i = row_ + strip_row(e), j = first + strip_column(c, e);
        if (i < row_end_ && j < call_.keys) numbers_of(i)[j] = number(i, j, c, e);
      });
    };
    const auto visit = [&](const ColumnTile& tile) {
      PairStrip strip;
      strip.clear();
      this->add_scores(strip);
      store(tile.first, [&](int i, int j, int c, int e) {
        const bool is_seen = seen[e / 2].has(call_.seen, b_, h_, i, j, j - i - call_.query_offset);
        return is_seen ? call_.scale * strip.at[c][e] : minus_infinity<T>();
      });
    };
    const auto load = [&](int j, int stage) { this->load_column_queries(j, stage); };
    this->for_tiles(load, visit,
                    [&](int first) { store(first, [](int, int, int, int) { return minus_infinity<T>(); }); });
  }

  /// The focus after query i, from that before it.
  __device__ T focus_after(int i, T focus) const {
    const Focus<T>& to = call_.focus;
    const T gate = to.gate.of(b_, h_).at(i, 0);
    const std::int32_t visible_end = call_.seen.visible.end.at(b_, h_, i);
    const FocusWindow near = focus_window(static_cast<double>(focus), static_cast<double>(gate), to.sigma, to.threshold,
                                          visible_end < call_.keys ? visible_end : call_.keys);
    T* x = numbers_of(i);
    const auto for_keys = [&](const auto& body) {
      for (auto j = static_cast<int>(near.first + threadIdx.x); j <= near.last; j += threads) body(j, x[j]);
    };
    T maximum = minus_infinity<T>();
    for_keys([&](int j, T& z) { maximum = larger(maximum, z = logit(z, i, j, focus)); });
    maximum = of_block(maximum, [](T a, T b) { return larger(a, b); });
    const T base = maximum == minus_infinity<T>() ? T(0) : maximum;
    T total = T(0), moment = T(0), spread = T(0);
    for_keys([&](int j, T& z) { z = exponential<Spec>(z, base), total += z, moment += z * static_cast<T>(j); });
    const auto add = [](T a, T b) { return a + b; };
    total = of_block(total, add), moment = of_block(moment, add);
    const T after = total == T(0) ? T(0) : moment / total;
    if (to.slope) {
      for_keys([&](int j, T& e) { spread += e * (static_cast<T>(j) - after) * (static_cast<T>(j) - after); });
      spread = of_block(spread, add);
    }
    if (threadIdx.x > 0) return after;
    const std::int32_t visible_first = call_.seen.visible.first.at(b_, h_, i);
    const std::int64_t at = row_number(call_, b_, h_, i);
    to.before[at] = focus, to.after[at] = after;
    if (to.slope) to.slope[at] = total == T(0) ? T(0) : gate * spread / (total * static_cast<T>(to.sigma * to.sigma));
    if (to.near_first)
      to.near_first[at] = near.first < visible_first ? visible_first : static_cast<std::int32_t>(near.first),
      to.near_end[at] = static_cast<std::int32_t>(near.last + 1);
    return after;
  }

  __device__ T logit(T product, int i, int j, T focus) const {
    if (product == minus_infinity<T>()) return product;
    T x[3 + Spec::most];
    x[0] = spec_.has_product() ? product : T(0);
    captures_.fill_with_focus(x, i, j, focus);
    return spec_.logit(x);
  }

  /// Combines one number of each thread of the block, for example by adding them, and returns the result to every
  /// thread. The order is always the same, and so are the bits.
  template <class Combine>
  __device__ T of_block(T mine, const Combine& combine) const {
    for (int step = 1; step < 32; step *= 2) mine = combine(mine, __shfl_xor_sync(~0u, mine, step));
    const SharedSpan<T> of_warps(memory.sums_at, Spec::warps);
    __syncthreads();
    if (lane_of_thread() == 0) of_warps[warp_of_thread()] = mine;
    __syncthreads();
    T all = of_warps[0];
    for (int warp = 1; warp < Spec::warps; ++warp) all = combine(all, of_warps[warp]);
    return all;
  }
};

template <class Spec>
__device__ void attention_focus(const AttentionCall<typename Spec::Number>& call, const Spec& spec) {
  constexpr int rows = Spec::shape().rows();
  BlockPlace at(call.heads, 1);
  auto focus = call.focus.previous.first ? call.focus.previous.of(at.b, at.h).at(0, 0) : call.focus.first;
  for (; at.tile * rows < call.queries; ++at.tile) FocusBlock<Spec>(call, spec, at).run(focus);
}

}  // namespace fovea::cuda
