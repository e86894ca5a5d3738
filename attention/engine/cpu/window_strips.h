/// The differentiable window between two soft pointers (Nguyen et al. 2020) on strips. formula/window.h has its
/// equations: the pointers φ^L and φ^R, their sums F_j over the keys up to j's segment and S_j over those from it on,
/// and the window
///
///     m̂_j = F^L_j S^R_j + F^R_j S^L_j
///
/// The forward pass of a strip:
///   1. point() makes two more strips, φ^L and φ^R, each by a matrix product and a softmax of its own.
///   2. F and S are sums along the keys. Along a row of memory such sums are slow: every number waits for the one
///      before. So the strip is processed in blocks of about 32 keys and as many queries as a vector has lanes, and
///      each block is transposed. Then a vector holds one key of all these queries, and adding a key is one addition.
///   3. The blocks are visited in the order of keys, and F is carried from block to block. S is summed from the last
///      key on: before the visit, sum_blocks() stores for each block the sum of φ behind it. (1 − F would be cheaper
///      than S, but has no correct digits where S is small.)
///   4. change() transposes m̂ back, and multiplies the weights or adds to the logits.
///
/// The backward pass visits the blocks in the same order and computes F, S and m̂ again. With g the gradient of m̂:
///
///     dF^L_j = g_j S^R_j    dS^R_j = g_j F^L_j    dF^R_j = g_j S^L_j    dS^L_j = g_j F^R_j
///     dφ_k   = Σ_{j: e(j) ≥ k} dF_j + Σ_{j: a(j) ≤ k} dS_j                 for each of the two pointers
///
/// The sum of dS runs with the visit. The sum of dF runs against it: backward_sums() adds it within a block, and
/// add_dF_after(), at the end, adds the sums of all later blocks.
///
/// Tried, and did not pay: passing the blocks of a window by reference. Their addresses then leave the registers, and a
/// pointer window takes 5 % longer.
#pragma once
#include "attention/engine/cpu/score_strips.h"
#include "attention/engine/cpu/softmax_strips.h"
#include "attention/engine/seen_keys.h"
#include "tensor/cpu/packing.h"

namespace fovea {

/// A transposed block of a strip: one row per key, one lane per query, for as many queries as a vector has lanes. A sum
/// over keys is then a sum of vectors, for all these queries at once.
template <class T>
class TransposedKeys {
 public:
  TransposedKeys(std::int64_t most_keys, Workspace& space)
      : data_(space.take<T>((most_keys + Vec<T>::lanes) * Vec<T>::lanes)) {}

  /// Makes `key` the first key of the block.
  void begin_at(std::int64_t key) { begin_ = key; }
  Vec<T> operator[](std::int64_t key) const { return Vec<T>::load(at(key)); }
  void set(std::int64_t key, Vec<T> x) const { x.store(at(key)); }
  /// The sum over the keys begin ≤ j < end, which must not be empty.
  FOVEA_INLINE Vec<T> sum(std::int64_t begin, std::int64_t end) const {
    Vec<T> total = (*this)[begin];
    for (std::int64_t j = begin + 1; j < end; ++j) total += (*this)[j];
    return total;
  }

  /// Fills the keys begin ≤ j < end by transposing `rows` rows of a strip; row(r, j, count) returns a vector of keys of
  /// row r. Lanes from `rows` on are 0.
  template <class Row>
  FOVEA_INLINE void load_rows(std::int64_t begin, std::int64_t end, int rows, Row&& row) const {
    for_keys<T>(begin, end, [&](std::int64_t j, auto count) {
      Vec<T> square[Vec<T>::lanes];
#pragma GCC unroll 16
      for (int r = 0; r < Vec<T>::lanes; ++r) square[r] = r < rows ? row(r, j, count) : Vec<T>(T(0));
      transposition::square(square);
#pragma GCC unroll 16
      for (int k = 0; k < Vec<T>::lanes; ++k) set(j + k, square[k]);  // may write past `end`; data_ has space for it
    });
  }
  /// Transposes back: calls row(r, j, count, vector of keys) for the keys begin ≤ j < end of each row.
  template <class Row>
  FOVEA_INLINE void store_rows(std::int64_t begin, std::int64_t end, int rows, Row&& row) const {
    for_keys<T>(begin, end, [&](std::int64_t j, auto count) {
      Vec<T> square[Vec<T>::lanes];
#pragma GCC unroll 16
      for (int k = 0; k < Vec<T>::lanes; ++k) square[k] = (*this)[j + k];
      transposition::square(square);
#pragma GCC unroll 16
      for (int r = 0; r < Vec<T>::lanes; ++r)
        if (r < rows) row(r, j, count, square[r]);
    });
  }

 private:
  T* at(std::int64_t key) const { return data_ + (key - begin_) * Vec<T>::lanes; }

  T* data_;
  std::int64_t begin_ = 0;
};

/// A running sum over blocks of keys, one per lane, in f64. In f32 it would drift by 1e-5 within 32 000 keys.
template <class T>
class RunningSum {
 public:
  Vec<T> value() const { return value_; }
  FOVEA_INLINE void add(Vec<T> x) {
    T more[Vec<T>::lanes], sum[Vec<T>::lanes];
    x.store(more);
    for (int lane = 0; lane < Vec<T>::lanes; ++lane) {
      sum_[lane] += static_cast<double>(more[lane]);
      sum[lane] = static_cast<T>(sum_[lane]);
    }
    value_ = Vec<T>::load(sum);
  }

 private:
  double sum_[Vec<T>::lanes] = {};
  Vec<T> value_ = Vec<T>(T(0));
};

/// A vector for each of the two pointers.
template <class T>
struct BothPointers {
  Vec<T> left = Vec<T>(T(0)), right = Vec<T>(T(0));
  FOVEA_INLINE BothPointers operator+(BothPointers other) const { return {left + other.left, right + other.right}; }
  FOVEA_INLINE void operator+=(BothPointers other) { left += other.left, right += other.right; }
};

/// Running sums for both pointers.
template <class T>
struct BothSums {
  RunningSum<T> left, right;
  FOVEA_INLINE BothPointers<T> value() const { return {left.value(), right.value()}; }
  FOVEA_INLINE void add(BothPointers<T> x) { left.add(x.left), right.add(x.right); }
};

/// Transposed blocks of both pointers' strips.
template <class T>
struct BothTransposed {
  TransposedKeys<T> left, right;
  FOVEA_INLINE BothPointers<T> operator[](std::int64_t key) const { return {left[key], right[key]}; }
  FOVEA_INLINE void set(std::int64_t key, BothPointers<T> x) const { left.set(key, x.left), right.set(key, x.right); }
  FOVEA_INLINE BothPointers<T> sum(std::int64_t begin, std::int64_t end) const {
    return {left.sum(begin, end), right.sum(begin, end)};
  }
};

/// The rows row ≤ r < row + count of a strip, one per lane of a vector.
struct Lanes {
  std::int64_t row;
  int count;
};

/// A block of keys begin ≤ j < end that is processed at once. Blocks consist of whole segments, except at the ends of
/// the hull. About 32 keys, so that the data of a block fits the L1 cache, unless segments are longer.
struct KeyBlock {
  std::int64_t number, begin, end;
};

/// The transposed data of one block. Functions take it by value, so that its addresses are in registers.
template <class T>
struct TransposedBlock {
  BothTransposed<T> phi;  ///< φ; then its gradient
  BothTransposed<T> S;    ///< S; then the gradient of F
  TransposedKeys<T> mask, mask_gradient;

  TransposedBlock(std::int64_t keys, Workspace& space)
      : phi{{keys, space}, {keys, space}},
        S{{keys, space}, {keys, space}},
        mask(keys, space),
        mask_gradient(keys, space) {}
  void begin_at(std::int64_t key) {
    for (TransposedKeys<T>* keys : {&phi.left, &phi.right, &S.left, &S.right, &mask, &mask_gradient})
      keys->begin_at(key);
  }
};

/// One number per block, query and pointer.
template <class T>
class BlockSums {
 public:
  BlockSums(std::int64_t blocks, Workspace& space) : numbers_(space.take<T>(blocks * 2 * Vec<T>::lanes)) {}
  BothPointers<T> of(KeyBlock block) const {
    return {Vec<T>::load(at(block)), Vec<T>::load(at(block) + Vec<T>::lanes)};
  }
  void set(KeyBlock block, BothPointers<T> x) const {
    x.left.store(at(block));
    x.right.store(at(block) + Vec<T>::lanes);
  }

 private:
  T* at(KeyBlock block) const { return numbers_ + block.number * 2 * Vec<T>::lanes; }
  T* numbers_;  ///< [blocks, 2, lanes]
};

template <class T>
class WindowStrips : public StripTerm<T> {
 public:
  WindowStrips(const PointerWindow& form, const std::vector<Capture>& captures, const StripShape& shape) : form_(form) {
    form_.segment = std::min(form.segment, std::max<std::int64_t>(shape.keys, 1));  // a longer one has the same keys
    // logits that are multiplied by a large number are not rounded to bf16, because the error would be multiplied too
    const bool exact = form.pointer_scale_by_length || std::abs(form.pointer_scale) > form.local_scale;
    for (std::size_t k = 0; k < captures.size(); k += 2) {
      const bool is_local = k == 4;
      scores_.emplace_back(captures[k].value, captures[k + 1].value, is_local ? form.local_scale : form.pointer_scale,
                           shape, exact && !is_local);
      for (const StripInput& input : std::exchange(scores_.back().inputs, {})) this->inputs.push_back(input);
    }
    this->saved_strips = static_cast<std::int64_t>(scores_.size());
  }

  void start(const StripItem& item, Workspace& space) override {
    for (std::size_t k = 0; k < scores_.size(); ++k) {
      if (item.backward) scores_[k].gradients = this->gradients.subspan(2 * k, 2);
      scores_[k].start(item, space);
    }
  }

  void forward(const StripRows<T>& rows, const T* from, T* to, Workspace& space) const override {
    const Call call = call_of(rows, space);
    point(scores_[0], call.left, call.strips.left, space);
    point(scores_[1], call.right, call.strips.right, space);
    if (form_.additive) scores_[2].logits(rows, call.strips.local, space);
    TransposedBlock<T> data(most_of_block(rows), space);
    const BlockSums<T> after(end_block(call), space);
    for_lanes(rows, [&](Lanes lanes) {
      sum_blocks(call, lanes, after);
      BothSums<T> F;
      for_blocks<false>(call, [&](KeyBlock block) {
        transpose_pointers(call, lanes, block, data);
        sum_back(block, after, data);
        sum_window(block, data, F);
        change(call, lanes, block, data.mask, from, to);
      });
    });
  }

  void backward(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor>,
                Workspace& space) const override {
    const Call call = call_of(rows, space);
    const PointerStrips slopes = strips_at(space.take<T>(this->saved_strips * rows.size()), rows);
    TransposedBlock<T> data(most_of_block(rows), space);
    const BlockSums<T> after(end_block(call), space), dF_totals(end_block(call), space);
    for_lanes(rows, [&](Lanes lanes) {
      sum_blocks(call, lanes, after);
      BothSums<T> F, dS;
      for_blocks<false>(call, [&](KeyBlock block) {
        transpose_pointers(call, lanes, block, data);
        sum_back(block, after, data);
        compute_mask_gradient(call, lanes, block, from, gradient, data.mask_gradient);
        backward_window(block, data, F, dS);
        backward_sums(block, data, dF_totals);
        backward_change(call, lanes, block, data.mask, gradient, slopes.local);
        store(data.phi.left, rows, lanes, block, slopes.left);
        store(data.phi.right, rows, lanes, block, slopes.right);
      });
      add_dF_after(call, lanes, dF_totals, slopes);
    });
    backward_pointer(scores_[0], call.left, call.strips.left, slopes.left, space);
    backward_pointer(scores_[1], call.right, call.strips.right, slopes.right, space);
    if (form_.additive) scores_[2].backward(rows, slopes.local, space);
  }

 private:
  // ---- One call

  /// Strips of φ^L, φ^R and, if the window is additive, the local logits; or of their gradients.
  struct PointerStrips {
    T *left, *right, *local;
  };
  static PointerStrips strips_at(T* memory, const StripRows<T>& rows) {
    return {memory, memory + rows.size(), memory + 2 * rows.size()};
  }

  /// The data of one strip: its rows, and the keys that both pointers may point to, which have the same hull.
  struct Call {
    const StripRows<T>& rows;
    StripRows<T> left, right;
    PointerStrips strips;

    /// The part of a block that lies in the strip's own hull, which may be smaller than that of the pointers.
    KeyBlock seen(KeyBlock block) const {
      const std::int64_t begin = std::clamp(rows.hull_first, block.begin, block.end);
      return {block.number, begin, std::clamp(rows.hull_end, begin, block.end)};
    }
  };

  Call call_of(const StripRows<T>& rows, Workspace& space) const {
    Call call{rows, rows, rows, strips_at(rows.saved, rows)};
    auto *left_end = space.take<std::int64_t>(rows.count), *right_first = space.take<std::int64_t>(rows.count);
    Interval hull{rows.keys, 0};
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const std::int64_t first = rows.visible_first[r], end = rows.visible_end[r], i = rows.query_position(r);
      left_end[r] = form_.forward_only ? std::clamp(i + 1, first, end) : end;  // the left pointer stays at or before i
      right_first[r] = form_.forward_only ? std::clamp(i, first, end) : first;
      if (first < end) hull = hull.joined({first, end});
    }
    for (StripRows<T>* pointer : {&call.left, &call.right}) {
      pointer->first = pointer == &call.left ? rows.visible_first : right_first;
      pointer->end = pointer == &call.left ? left_end : rows.visible_end;
      pointer->hull_first = std::min(hull.first, hull.end) / Vec<T>::lanes * Vec<T>::lanes;
      pointer->hull_end = hull.end;
    }
    return call;
  }

  template <class Body>
  static void for_lanes(const StripRows<T>& rows, Body&& body) {
    for (std::int64_t r = 0; r < rows.count; r += Vec<T>::lanes)
      body(Lanes{r, static_cast<int>(std::min<std::int64_t>(Vec<T>::lanes, rows.count - r))});
  }

  /// Number of keys of a block: the smallest multiple of the segment's length that is 32 or more.
  std::int64_t block_keys() const { return (31 + form_.segment) / form_.segment * form_.segment; }
  std::int64_t most_of_block(const StripRows<T>& rows) const { return std::min(block_keys(), rows.keys); }
  std::int64_t first_block(const Call& call) const { return call.left.hull_first / block_keys(); }
  std::int64_t end_block(const Call& call) const { return (call.left.hull_end + block_keys() - 1) / block_keys(); }
  /// body(block) for all blocks in the order of keys or, if `back`, from the last one on.
  template <bool back, class Body>
  FOVEA_INLINE void for_blocks(const Call& call, Body&& body) const {
    const std::int64_t first = first_block(call), end = end_block(call);
    for (std::int64_t k = first; k < end; ++k) {
      const std::int64_t number = back ? first + end - 1 - k : k;
      body(KeyBlock{number, std::max(call.left.hull_first, number * block_keys()),
                    std::min(call.left.hull_end, (number + 1) * block_keys())});
    }
  }
  /// body(begin, end) for the segments of a block in the order of keys or, if `back`, from the last one on.
  template <bool back, class Body>
  FOVEA_INLINE void for_segments(KeyBlock block, Body&& body) const {
    if (form_.segment == 1) {  // a loop of its own, in which the compiler knows that segments have one key
      for (std::int64_t k = block.begin; k < block.end; ++k) {
        const std::int64_t j = back ? block.begin + block.end - 1 - k : k;
        body(j, j + 1);
      }
      return;
    }
    const std::int64_t n = form_.segment, first = block.begin / n, end = (block.end + n - 1) / n;
    for (std::int64_t k = first; k < end; ++k) {
      const std::int64_t number = back ? first + end - 1 - k : k;
      body(std::max(block.begin, number * n), std::min(block.end, (number + 1) * n));
    }
  }

  // ---- Pointers

  /// Computes φ: the softmax over the keys that the pointer may point to, 0 elsewhere.
  void point(const DotScore<T>& score, const StripRows<T>& rows, T* phi, Workspace& space) const {
    score.logits(rows, phi, space);
    scale_by_length(rows, phi);
    softmax_rows<T>({&rows, 1}, phi, -infinity<T>, nullptr);
    clear_outside(rows, phi);
  }

  /// From the gradient of φ to those of the pointer's queries and keys.
  void backward_pointer(const DotScore<T>& score, const StripRows<T>& rows, const T* phi, T* slope,
                        Workspace& space) const {
    softmax_rows_backward<T>({&rows, 1}, phi, slope, nullptr);
    clear_outside(rows, slope);
    scale_by_length(rows, slope);
    score.backward(rows, slope, space);
  }

  /// Multiplies each row by the number of keys that the query may see, if the form asks for it.
  void scale_by_length(const StripRows<T>& rows, T* strip) const {
    if (!form_.pointer_scale_by_length) return;
    change_rows<T>({&rows, 1}, strip, [&](std::int64_t r, Vec<T> x, auto, auto) {
      return x * Vec<T>(static_cast<T>(rows.visible_end[r] - rows.visible_first[r]));
    });
  }

  // ---- The window of a block

  /// Sets `after`: for each block the sum of φ over all keys behind it.
  void sum_blocks(const Call& call, Lanes lanes, const BlockSums<T>& after) const {
    BothSums<T> sums;
    for_blocks<true>(call, [&](KeyBlock block) {
      after.set(block, sums.value());
      if (block.number == first_block(call)) return;
      sums.add({mass_of_rows(call.rows, call.strips.left, lanes, block),
                mass_of_rows(call.rows, call.strips.right, lanes, block)});
    });
  }
  static FOVEA_INLINE Vec<T> mass_of_rows(const StripRows<T>& rows, const T* phi, Lanes lanes, KeyBlock block) {
    T mass[Vec<T>::lanes] = {};
    for (int r = 0; r < lanes.count; ++r) mass[r] = sum_of(phi + (lanes.row + r) * rows.stride, block.begin, block.end);
    return Vec<T>::load(mass);
  }

  /// Loads φ^L and φ^R of a block.
  static void transpose_pointers(const Call& call, Lanes lanes, KeyBlock block, TransposedBlock<T>& data) {
    data.begin_at(block.begin);
    auto load = [&](const TransposedKeys<T>& to, const T* phi) {
      const T* rows = phi + lanes.row * call.rows.stride;
      to.load_rows(block.begin, block.end, lanes.count, [&](int r, std::int64_t j, auto count) {
        return load_vector(rows + r * call.rows.stride + j, count);
      });
    };
    load(data.phi.left, call.strips.left);
    load(data.phi.right, call.strips.right);
  }
  /// Writes a block to a strip.
  static void store(const TransposedKeys<T>& from, const StripRows<T>& rows, Lanes lanes, KeyBlock block, T* strip) {
    T* to = strip + lanes.row * rows.stride;
    from.store_rows(block.begin, block.end, lanes.count, [&](int r, std::int64_t j, auto count, Vec<T> x) {
      store_vector(x, to + r * rows.stride + j, count);
    });
  }

  /// Computes S for every key of the block, starting from the sum behind the block.
  void sum_back(KeyBlock block, const BlockSums<T>& after, TransposedBlock<T> data) const {
    BothPointers<T> S = after.of(block);
    for_segments<true>(block, [&](std::int64_t begin, std::int64_t end) {
      S += data.phi.sum(begin, end);
      for (std::int64_t j = begin; j < end; ++j) data.S.set(j, S);
    });
  }

  /// The quantities of one segment in the window's equations: F with the segment, S from the segment on, and the sum of
  /// φ over the segment (mass).
  struct Segment {
    BothPointers<T> F, S, mass;
  };
  /// body(begin, end, segment) for the segments of a block in order. Adds the block's masses to F.
  template <class Body>
  FOVEA_INLINE void for_sums(KeyBlock block, TransposedBlock<T> data, BothSums<T>& F, Body&& body) const {
    const BothPointers<T> before = F.value();
    BothPointers<T> own;
    for_segments<false>(block, [&](std::int64_t begin, std::int64_t end) {
      const BothPointers<T> mass = data.phi.sum(begin, end);
      own += mass;
      body(begin, end, Segment{before + own, data.S[begin], mass});
    });
    F.add(own);
  }

  FOVEA_INLINE Vec<T> mask_of(const Segment& s) const {
    const Vec<T> x = s.F.left * s.S.right, y = s.F.right * s.S.left;
    if (form_.forward_only) return x;
    if (form_.mask == PointerWindow::Mask::exact) return x + y - s.mass.left * s.mass.right;
    if (form_.mask == PointerWindow::Mask::either) return x + y - x * y;
    return x + y;
  }

  /// Computes m̂ for every key of the block.
  void sum_window(KeyBlock block, TransposedBlock<T> data, BothSums<T>& F) const {
    for_sums(block, data, F, [&](std::int64_t begin, std::int64_t end, const Segment& s) {
      const Vec<T> mask = mask_of(s);
      for (std::int64_t j = begin; j < end; ++j) data.mask.set(j, mask);
    });
  }

  /// to = w · m̂, or z + local · m̂ for an additive window, for the keys of a block.
  void change(const Call& call, Lanes lanes, KeyBlock block, const TransposedKeys<T>& mask, const T* from,
              T* to) const {
    const KeyBlock seen = call.seen(block);
    mask.store_rows(seen.begin, seen.end, lanes.count, [&](int r, std::int64_t j, auto count, Vec<T> m) {
      const std::int64_t at = (lanes.row + r) * call.rows.stride + j;
      const Vec<T> x = load_vector(from + at, count);
      store_vector(form_.additive ? fma(m, load_vector(call.strips.local + at, count), x) : x * m, to + at, count);
    });
  }

  /// Computes the gradient of m̂ from that of change()'s result. It is 0 for keys outside of the strip's hull.
  void compute_mask_gradient(const Call& call, Lanes lanes, KeyBlock block, const T* from, const T* gradient,
                             const TransposedKeys<T>& to) const {
    const T* factor = form_.additive ? call.strips.local : from;
    const KeyBlock seen = call.seen(block);
    to.load_rows(seen.begin, seen.end, lanes.count, [&](int r, std::int64_t j, auto count) {
      const std::int64_t at = (lanes.row + r) * call.rows.stride + j;
      return load_vector(gradient + at, count) * load_vector(factor + at, count);
    });
    for (std::int64_t j = block.begin; j < seen.begin; ++j) to.set(j, Vec<T>(T(0)));
    for (std::int64_t j = seen.end; j < block.end; ++j) to.set(j, Vec<T>(T(0)));
  }

  /// Computes the gradient of m̂'s factor: of w, in place in `gradient`, or of the local logits.
  void backward_change(const Call& call, Lanes lanes, KeyBlock block, const TransposedKeys<T>& mask, T* gradient,
                       T* local_gradient) const {
    T* to = form_.additive ? local_gradient : gradient;
    const KeyBlock seen = call.seen(block);
    mask.store_rows(seen.begin, seen.end, lanes.count, [&](int r, std::int64_t j, auto count, Vec<T> m) {
      const std::int64_t at = (lanes.row + r) * call.rows.stride + j;
      store_vector(m * load_vector(gradient + at, count), to + at, count);
    });
  }

  /// Computes m̂ again, and from its gradient:
  ///   data.phi: the gradients of φ^L and φ^R through S and through the segment's own masses
  ///   data.S:   the gradients of F^L and F^R, at the first key of each segment
  /// S of a key contains φ of this key and of all later ones, so that S's gradient is a running sum, dS.
  void backward_window(KeyBlock block, TransposedBlock<T> data, BothSums<T>& F, BothSums<T>& dS) const {
    const BothPointers<T> dS_before = dS.value();
    const Vec<T> one(T(1));
    BothPointers<T> own_dS;
    for_sums(block, data, F, [&](std::int64_t begin, std::int64_t end, const Segment& s) {
      const Vec<T> g = data.mask_gradient.sum(begin, end), mask = mask_of(s);
      Vec<T> dx = g, dy = g;  // of F^L S^R and F^R S^L
      if (form_.forward_only) dy = Vec<T>(T(0));
      if (form_.mask == PointerWindow::Mask::either) {
        dx = g * (one - s.F.right * s.S.left);
        dy = g * (one - s.F.left * s.S.right);
      }
      own_dS += BothPointers<T>{dy * s.F.right, dx * s.F.left};
      BothPointers<T> dphi = dS_before + own_dS;
      if (form_.mask == PointerWindow::Mask::exact) {
        dphi.left -= g * s.mass.right;
        dphi.right -= g * s.mass.left;
      }
      for (std::int64_t j = begin; j < end; ++j) {
        data.mask.set(j, mask);
        data.phi.set(j, dphi);
      }
      data.S.set(begin, {dx * s.S.right, dy * s.S.left});
    });
    dS.add(own_dS);
  }

  /// Adds to the gradients of φ^L and φ^R those through F of the same block: F of a key contains φ of this key and of
  /// all before. Sets `totals` to the sums of the block's gradients of F.
  void backward_sums(KeyBlock block, TransposedBlock<T> data, const BlockSums<T>& totals) const {
    BothPointers<T> dF;
    for_segments<true>(block, [&](std::int64_t begin, std::int64_t end) {
      dF += data.S[begin];
      for (std::int64_t j = begin; j < end; ++j) data.phi.set(j, data.phi[j] + dF);
    });
    totals.set(block, dF);
  }

  /// Adds to the gradients of φ^L and φ^R of each block those through F of all later blocks.
  void add_dF_after(const Call& call, Lanes lanes, const BlockSums<T>& totals, const PointerStrips& slopes) const {
    BothSums<T> after;
    auto add = [&](KeyBlock block, Vec<T> dF, T* slope) {
      T more[Vec<T>::lanes];
      dF.store(more);
      for (int r = 0; r < lanes.count; ++r) {
        T* row = slope + (lanes.row + r) * call.rows.stride;
        for_keys<T>(block.begin, block.end, [&](std::int64_t j, auto count) {
          store_vector(load_vector(row + j, count) + Vec<T>(more[r]), row + j, count);
        });
      }
    };
    for_blocks<true>(call, [&](KeyBlock block) {
      if (block.number + 1 < end_block(call)) {
        add(block, after.value().left, slopes.left);
        add(block, after.value().right, slopes.right);
      }
      after.add(totals.of(block));
    });
  }

  PointerWindow form_;
  std::vector<DotScore<T>> scores_;  ///< of the left pointer, the right pointer and, if additive, the local logits
};

}  // namespace fovea
