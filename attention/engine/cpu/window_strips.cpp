// The differentiable window between two soft pointers (Nguyen et al. 2020) on strips. formula/window.h has its
// equations: the pointers φ^L and φ^R, their sums F_j over the keys up to j's segment and S_j over those from it on,
// and the window
//
//     m̂_j = F^L_j S^R_j + F^R_j S^L_j
//
// The forward pass of a strip:
//   1. point() makes two more strips, φ^L and φ^R, each by a matrix product and a softmax of its own.
//   2. F and S are sums along the keys. Along a row of memory such sums are slow: every number waits for the one
//      before. So the strip is processed in blocks of about 32 keys and as many queries as a vector has lanes, and each
//      block is transposed. Then a vector holds one key of all these queries, and adding a key is one addition.
//   3. The blocks are visited in the order of keys, and F is carried from block to block. S is summed from the last key
//      on: before the visit, sum_blocks() stores for each block the sum of φ behind it. (1 − F would be cheaper than S,
//      but has no correct digits where S is small.)
//   4. change() transposes m̂ back, and multiplies the weights or adds to the logits.
//
// The backward pass visits the blocks in the same order and computes F, S and m̂ again. With g the gradient of m̂:
//
//     dF^L_j = g_j S^R_j    dS^R_j = g_j F^L_j    dF^R_j = g_j S^L_j    dS^L_j = g_j F^R_j
//     dφ_k   = Σ_{j: e(j) ≥ k} dF_j + Σ_{j: a(j) ≤ k} dS_j                 for each of the two pointers
//
// The sum of dS runs with the visit. The sum of dF runs against it: backward_sums() adds it within a block, and
// add_dF_after(), at the end, adds the sums of all later blocks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/engine/cpu/strip_parts.h"
#include "tensor/cpu/packing.h"

namespace fovea {

namespace {

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

/// Running sums for both pointers.
template <class T>
struct PairOfSums {
  RunningSum<T> left, right;
};

/// The rows row ≤ r < row + count of a strip, one per lane of a vector.
struct Lanes {
  std::int64_t row;
  int count;
};

/// A block of keys begin ≤ j < end that is processed at once. Blocks consist of whole segments, except at the ends of
/// the hull. About 32 keys, so that the data of a block fits the L1 cache, unless segments are longer.
struct Block {
  std::int64_t number, begin, end;
};

/// The transposed data of one block. The backward pass reuses some members.
template <class T>
struct TransposedBlock {
  TransposedKeys<T> left, right;      ///< φ^L and φ^R; then their gradients
  TransposedKeys<T> left_S, right_S;  ///< S^L and S^R; then the gradients of F^R and F^L
  TransposedKeys<T> mask, mask_gradient;

  TransposedBlock(std::int64_t keys, Workspace& space)
      : left(keys, space),
        right(keys, space),
        left_S(keys, space),
        right_S(keys, space),
        mask(keys, space),
        mask_gradient(keys, space) {}
  void begin_at(std::int64_t key) {
    for (TransposedKeys<T>* keys : {&left, &right, &left_S, &right_S, &mask, &mask_gradient}) keys->begin_at(key);
  }
};

/// One number per block, query and pointer.
template <class T>
struct BlockNumbers {
  T *left, *right;  ///< [blocks, lanes]

  Vec<T> left_of(Block block) const { return Vec<T>::load(left + block.number * Vec<T>::lanes); }
  Vec<T> right_of(Block block) const { return Vec<T>::load(right + block.number * Vec<T>::lanes); }
  void set(Block block, Vec<T> of_left, Vec<T> of_right) const {
    of_left.store(left + block.number * Vec<T>::lanes);
    of_right.store(right + block.number * Vec<T>::lanes);
  }
};

template <class T>
class WindowStrips : public StripTerm<T> {
 public:
  WindowStrips(const PointerWindow& form, const std::vector<Capture>& captures) : form_(form) {
    auto read = [&](std::size_t k) -> const Variable& { return captures[k].value; };
    // logits that are multiplied by a large number are not rounded to bf16, because the error would be multiplied too
    const bool exact = form.pointer_scale_by_length || std::abs(form.pointer_scale) > form.local_scale;
    scores_.push_back(dot_strips<T>(read(0), read(1), form.pointer_scale, exact));
    scores_.push_back(dot_strips<T>(read(2), read(3), form.pointer_scale, exact));
    if (form.additive) scores_.push_back(dot_strips<T>(read(4), read(5), form.local_scale));
  }

  std::vector<Variable> inputs() const override {
    std::vector<Variable> all;
    for (const auto& score : scores_)
      for (const Variable& input : score->inputs()) all.push_back(input);
    return all;
  }
  Tensor gradient_room(std::size_t k, const StripShape& s) const override {
    return scores_[k / 2]->gradient_room(k % 2, s);
  }
  std::span<const std::unique_ptr<StripScore<T>>> scores() const override { return scores_; }
  std::int64_t kept_strips() const override { return static_cast<std::int64_t>(scores_.size()); }

  void forward(const StripRows<T>& rows, const T* from, T* to, Workspace& space) const override {
    const Call call = call_of(rows, rows.kept, space);
    for (const Pointer* pointer : {&call.left, &call.right}) point(*pointer, space);
    if (form_.additive) rows.scores[2]->logits(rows, call.local, space);
    TransposedBlock<T> block_data(most_of_block(rows), space);
    const BlockNumbers<T> after = take_sums(call, space);
    for_lanes(call, [&](Lanes lanes) {
      sum_blocks(call, lanes, after);
      PairOfSums<T> F;
      for_blocks(call, [&](Block block) {
        transpose_pointers(call, lanes, block, block_data);
        sum_back(block, after, block_data);
        sum_window(block, block_data, F);
        change(call, lanes, block, block_data.mask, from, to);
      });
    });
  }

  void backward(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor>,
                Workspace& space) const override {
    T* memory = take_strips(rows, space);
    if (rows.is_empty()) {
      for (const auto& score : rows.scores) score->backward(rows, memory, space);
      return;
    }
    const Call call = call_of(rows, rows.kept, space);
    const PointerGradients gradients{memory, memory + strip_size(rows), memory + 2 * strip_size(rows)};
    TransposedBlock<T> block_data(most_of_block(rows), space);
    const BlockNumbers<T> after = take_sums(call, space), dF_totals = take_sums(call, space);
    for_lanes(call, [&](Lanes lanes) {
      sum_blocks(call, lanes, after);
      PairOfSums<T> F, dS;
      for_blocks(call, [&](Block block) {
        transpose_pointers(call, lanes, block, block_data);
        sum_back(block, after, block_data);
        compute_mask_gradient(call, lanes, block, from, gradient, block_data.mask_gradient);
        backward_window(block, block_data, F, dS);
        backward_sums(block, block_data, dF_totals);
        backward_change(call, lanes, block, block_data.mask, gradient, gradients.local);
        store_gradients(call, lanes, block, block_data, gradients);
      });
      add_dF_after(call, lanes, dF_totals, gradients);
    });
    backward_pointer(call.left, gradients.left, space);
    backward_pointer(call.right, gradients.right, space);
    if (form_.additive) rows.scores[2]->backward(rows, gradients.local, space);
  }

 private:
  // ---- One call

  /// One pointer: its strip of φ, its score, and the keys that it may point to. Both pointers have the same hull.
  struct Pointer {
    T* phi;
    ScoreWorker<T>& score;
    StripRows<T> rows;
  };

  /// The data of one strip: its rows, both pointers, and the strip of local logits if the window is additive.
  struct Call {
    const StripRows<T>& rows;
    Pointer left, right;
    T* local;

    /// The part of a block that lies in the strip's own hull, which may be smaller than that of the pointers.
    Block seen(Block block) const {
      const std::int64_t begin = std::clamp(rows.hull_first, block.begin, block.end);
      return {block.number, begin, std::clamp(rows.hull_end, begin, block.end)};
    }
  };

  /// Strips for the gradients of φ^L, φ^R and the local logits.
  struct PointerGradients {
    T *left, *right, *local;
  };

  static std::int64_t strip_size(const StripRows<T>& rows) { return rows.count * rows.stride; }
  T* take_strips(const StripRows<T>& rows, Workspace& space) const {
    return space.take<T>(kept_strips() * strip_size(rows));
  }

  Call call_of(const StripRows<T>& rows, T* kept, Workspace& space) const {
    Call call{rows,
              {kept, *rows.scores[0], rows},
              {kept + strip_size(rows), *rows.scores[1], rows},
              kept + 2 * strip_size(rows)};
    auto* bounds = space.take<std::int64_t>(4 * rows.count);
    std::int64_t *left_first = bounds, *left_end = left_first + rows.count, *right_first = left_end + rows.count,
                 *right_end = right_first + rows.count, hull_first = rows.keys, hull_end = 0;
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const std::int64_t first = rows.visible_first[r], end = rows.visible_end[r], i = rows.query_position(r);
      left_first[r] = first;
      left_end[r] = form_.forward_only ? std::clamp(i + 1, first, end) : end;  // the left pointer stays at or before i
      right_first[r] = form_.forward_only ? std::clamp(i, first, end) : first;
      right_end[r] = end;
      if (first == end) continue;
      hull_first = std::min(hull_first, first);
      hull_end = std::max(hull_end, end);
    }
    hull_first = std::min(hull_first, hull_end) / Vec<T>::lanes * Vec<T>::lanes;
    for (Pointer* pointer : {&call.left, &call.right}) {
      pointer->rows.hull_first = hull_first;
      pointer->rows.hull_end = hull_end;
      pointer->rows.first = pointer == &call.left ? left_first : right_first;
      pointer->rows.end = pointer == &call.left ? left_end : right_end;
    }
    return call;
  }

  template <class Body>
  static void for_lanes(const Call& call, Body&& body) {
    for (std::int64_t r = 0; r < call.rows.count; r += Vec<T>::lanes)
      body(Lanes{r, static_cast<int>(std::min<std::int64_t>(Vec<T>::lanes, call.rows.count - r))});
  }

  /// Number of keys of a block: the smallest multiple of the segment's length that is 32 or more.
  std::int64_t block_keys() const { return (31 + form_.segment) / form_.segment * form_.segment; }
  std::int64_t most_of_block(const StripRows<T>& rows) const { return std::min(block_keys(), rows.keys); }
  Block block_of(const Call& call, std::int64_t number) const {
    const StripRows<T>& hull = call.left.rows;
    return {number, std::max(hull.hull_first, number * block_keys()),
            std::min(hull.hull_end, (number + 1) * block_keys())};
  }
  std::int64_t first_block(const Call& call) const { return call.left.rows.hull_first / block_keys(); }
  std::int64_t end_block(const Call& call) const { return (call.left.rows.hull_end + block_keys() - 1) / block_keys(); }
  template <class Body>
  void for_blocks(const Call& call, Body&& body) const {
    for (std::int64_t k = first_block(call); k < end_block(call); ++k) body(block_of(call, k));
  }
  template <class Body>
  void for_blocks_back(const Call& call, Body&& body) const {
    for (std::int64_t k = end_block(call); k-- > first_block(call);) body(block_of(call, k));
  }
  /// body(begin, end) for the segments of a block.
  template <class Body>
  FOVEA_INLINE void for_segments(Block block, Body&& body) const {
    if (form_.segment == 1) {
      for (std::int64_t j = block.begin; j < block.end; ++j) body(j, j + 1);
      return;
    }
    for (std::int64_t begin = block.begin, end; begin < block.end; begin = end) {
      end = std::min(block.end, (begin / form_.segment + 1) * form_.segment);
      body(begin, end);
    }
  }
  template <class Body>
  FOVEA_INLINE void for_segments_back(Block block, Body&& body) const {
    if (form_.segment == 1) {
      for (std::int64_t j = block.end; j-- > block.begin;) body(j, j + 1);
      return;
    }
    for (std::int64_t end = block.end, begin; end > block.begin; end = begin) {
      begin = std::max(block.begin, (end - 1) / form_.segment * form_.segment);
      body(begin, end);
    }
  }

  // ---- Pointers

  /// Computes φ: the softmax over the keys that the pointer may point to, 0 elsewhere.
  void point(const Pointer& pointer, Workspace& space) const {
    const StripRows<T>& rows = pointer.rows;
    pointer.score.logits(rows, pointer.phi, space);
    scale_by_length(rows, pointer.phi);
    softmax_rows(rows.keys_of_rows(), pointer.phi, -std::numeric_limits<T>::infinity(),
                 static_cast<LogTotal<T>*>(nullptr));
    clear_outside(rows, pointer.phi);
  }

  /// From the gradient of φ to those of the pointer's queries and keys.
  void backward_pointer(const Pointer& pointer, T* slope, Workspace& space) const {
    const StripRows<T>& rows = pointer.rows;
    softmax_rows_backward(rows.keys_of_rows(), pointer.phi, slope, static_cast<T*>(nullptr));
    clear_outside(rows, slope);
    scale_by_length(rows, slope);
    pointer.score.backward(rows, slope, space);
  }

  /// Multiplies each row by the number of keys that the query may see, if the form asks for it.
  void scale_by_length(const StripRows<T>& rows, T* strip) const {
    if (!form_.pointer_scale_by_length) return;
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const Vec<T> length(static_cast<T>(rows.visible_end[r] - rows.visible_first[r]));
      T* row = strip + r * rows.stride;
      for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
        store_vector(load_vector(row + j, count) * length, row + j, count);
      });
    }
  }

  // ---- The window of a block

  /// Uninitialised memory for one number per block, query and pointer.
  BlockNumbers<T> take_sums(const Call& call, Workspace& space) const {
    const std::int64_t blocks = end_block(call) * Vec<T>::lanes;
    return {space.take<T>(blocks), space.take<T>(blocks)};
  }

  /// Sets `after`: for each block the sum of φ over all keys behind it.
  void sum_blocks(const Call& call, Lanes lanes, const BlockNumbers<T>& after) const {
    PairOfSums<T> sums;
    for_blocks_back(call, [&](Block block) {
      after.set(block, sums.left.value(), sums.right.value());
      if (block.number == first_block(call)) return;
      sums.left.add(mass_of_rows(call.left, lanes, block));
      sums.right.add(mass_of_rows(call.right, lanes, block));
    });
  }
  static FOVEA_INLINE Vec<T> mass_of_rows(const Pointer& pointer, Lanes lanes, Block block) {
    T mass[Vec<T>::lanes] = {};
    for (int r = 0; r < lanes.count; ++r) {
      const T* row = pointer.phi + (lanes.row + r) * pointer.rows.stride + block.begin;
      mass[r] = sum_of_vectors<T>(block.end - block.begin,
                                  [&](std::int64_t j, auto count) { return load_vector(row + j, count); });
    }
    return Vec<T>::load(mass);
  }

  /// Loads φ^L and φ^R of a block.
  static void transpose_pointers(const Call& call, Lanes lanes, Block block, TransposedBlock<T>& block_data) {
    block_data.begin_at(block.begin);
    auto turn = [&](const T* phi, const TransposedKeys<T>& to) {
      const T* rows = phi + lanes.row * call.rows.stride;
      to.load_rows(block.begin, block.end, lanes.count, [&](int r, std::int64_t j, auto count) {
        return load_vector(rows + r * call.rows.stride + j, count);
      });
    };
    turn(call.left.phi, block_data.left);
    turn(call.right.phi, block_data.right);
  }

  /// Computes S for every key of the block, starting from the sum behind the block. (S = 1 − F would be cheaper, but
  /// has no correct digits where S is small.)
  void sum_back(Block block, const BlockNumbers<T>& after, const TransposedBlock<T>& block_data) const {
    Vec<T> left = after.left_of(block), right = after.right_of(block);
    for_segments_back(block, [&](std::int64_t begin, std::int64_t end) {
      left += block_data.left.sum(begin, end);
      right += block_data.right.sum(begin, end);
      for (std::int64_t j = begin; j < end; ++j) {
        block_data.left_S.set(j, left);
        block_data.right_S.set(j, right);
      }
    });
  }

  /// The quantities of one segment in the window's equations: F with the segment, S from the segment on, and the sum of
  /// φ over the segment (mass).
  struct Segment {
    Vec<T> left_F, left_S, right_F, right_S, left_mass, right_mass;
  };
  /// Iterates over the segments of a block in order. The destructor adds the block's masses to F.
  class Segments {
   public:
    Segments(const TransposedBlock<T>& block_data, PairOfSums<T>& F)
        : block_data_(block_data), F_(F), left_before_(F.left.value()), right_before_(F.right.value()) {}
    ~Segments() {
      F_.left.add(left_);
      F_.right.add(right_);
    }
    Segments(const Segments&) = delete;
    Segments& operator=(const Segments&) = delete;

    FOVEA_INLINE Segment next(std::int64_t begin, std::int64_t end) {
      const Vec<T> left_mass = block_data_.left.sum(begin, end), right_mass = block_data_.right.sum(begin, end);
      left_ += left_mass;
      right_ += right_mass;
      return {left_before_ + left_,
              block_data_.left_S[begin],
              right_before_ + right_,
              block_data_.right_S[begin],
              left_mass,
              right_mass};
    }

   private:
    const TransposedBlock<T>& block_data_;
    PairOfSums<T>& F_;
    Vec<T> left_before_, right_before_, left_ = Vec<T>(T(0)), right_ = Vec<T>(T(0));
  };

  FOVEA_INLINE Vec<T> mask_of(const Segment& s) const {
    const Vec<T> x = s.left_F * s.right_S, y = s.right_F * s.left_S;
    if (form_.forward_only) return x;
    if (form_.mask == PointerWindow::Mask::exact) return x + y - s.left_mass * s.right_mass;
    if (form_.mask == PointerWindow::Mask::either) return x + y - x * y;
    return x + y;
  }

  /// Computes m̂ for every key of the block.
  void sum_window(Block block, const TransposedBlock<T>& block_data, PairOfSums<T>& F) const {
    Segments segments(block_data, F);
    for_segments(block, [&](std::int64_t begin, std::int64_t end) {
      const Vec<T> mask = mask_of(segments.next(begin, end));
      for (std::int64_t j = begin; j < end; ++j) block_data.mask.set(j, mask);
    });
  }

  /// to = w · m̂, or z + local · m̂ for an additive window, for the keys of a block.
  void change(const Call& call, Lanes lanes, Block block, const TransposedKeys<T>& mask, const T* from, T* to) const {
    const Block seen = call.seen(block);
    mask.store_rows(seen.begin, seen.end, lanes.count, [&](int r, std::int64_t j, auto count, Vec<T> m) {
      const std::int64_t at = (lanes.row + r) * call.rows.stride + j;
      const Vec<T> x = load_vector(from + at, count);
      store_vector(form_.additive ? fma(m, load_vector(call.local + at, count), x) : x * m, to + at, count);
    });
  }

  /// Computes the gradient of m̂ from that of change()'s result. It is 0 for keys outside of the strip's hull.
  void compute_mask_gradient(const Call& call, Lanes lanes, Block block, const T* from, const T* gradient,
                             const TransposedKeys<T>& to) const {
    const T* factor = form_.additive ? call.local : from;
    const Block seen = call.seen(block);
    to.load_rows(seen.begin, seen.end, lanes.count, [&](int r, std::int64_t j, auto count) {
      const std::int64_t at = (lanes.row + r) * call.rows.stride + j;
      return load_vector(gradient + at, count) * load_vector(factor + at, count);
    });
    for (std::int64_t j = block.begin; j < seen.begin; ++j) to.set(j, Vec<T>(T(0)));
    for (std::int64_t j = seen.end; j < block.end; ++j) to.set(j, Vec<T>(T(0)));
  }

  /// Computes the gradient of m̂'s factor: of w, in place in `gradient`, or of the local logits.
  void backward_change(const Call& call, Lanes lanes, Block block, const TransposedKeys<T>& mask, T* gradient,
                       T* local_gradient) const {
    T* to = form_.additive ? local_gradient : gradient;
    const Block seen = call.seen(block);
    mask.store_rows(seen.begin, seen.end, lanes.count, [&](int r, std::int64_t j, auto count, Vec<T> m) {
      const std::int64_t at = (lanes.row + r) * call.rows.stride + j;
      store_vector(m * load_vector(gradient + at, count), to + at, count);
    });
  }

  /// Computes m̂ again, and from its gradient:
  ///   left, right:     the gradients of φ^L and φ^R through S and through the segment's own masses
  ///   right_S, left_S: the gradients of F^L and F^R, stored at the first key of each segment
  /// S of a key contains φ of this key and of all later ones, so that S's gradient is a running sum, dS.
  void backward_window(Block block, const TransposedBlock<T>& block_data, PairOfSums<T>& F, PairOfSums<T>& dS) const {
    Segments segments(block_data, F);
    const Vec<T> left_before = dS.left.value(), right_before = dS.right.value(), one(T(1));
    Vec<T> left_dS(T(0)), right_dS(T(0));
    for_segments(block, [&](std::int64_t begin, std::int64_t end) {
      const Segment s = segments.next(begin, end);
      const Vec<T> g = block_data.mask_gradient.sum(begin, end), mask = mask_of(s);
      Vec<T> dx = g, dy = g;  // of F^L S^R and F^R S^L
      if (form_.forward_only) dy = Vec<T>(T(0));
      if (form_.mask == PointerWindow::Mask::either) {
        dx = g * (one - s.right_F * s.left_S);
        dy = g * (one - s.left_F * s.right_S);
      }
      left_dS += dy * s.right_F;
      right_dS += dx * s.left_F;
      Vec<T> left = left_before + left_dS, right = right_before + right_dS;
      if (form_.mask == PointerWindow::Mask::exact) {
        left -= g * s.right_mass;
        right -= g * s.left_mass;
      }
      for (std::int64_t j = begin; j < end; ++j) {
        block_data.mask.set(j, mask);
        block_data.left.set(j, left);
        block_data.right.set(j, right);
      }
      block_data.right_S.set(begin, dx * s.right_S);  // gradient of F, at the segment's first key
      block_data.left_S.set(begin, dy * s.left_S);
    });
    dS.left.add(left_dS);
    dS.right.add(right_dS);
  }

  /// Adds to the gradients of φ^L and φ^R those through F of the same block: F of a key contains φ of this key and of
  /// all before. Sets block_totals to the sums of the block's gradients of F.
  void backward_sums(Block block, const TransposedBlock<T>& block_data, const BlockNumbers<T>& block_totals) const {
    Vec<T> left(T(0)), right(T(0));
    for_segments_back(block, [&](std::int64_t begin, std::int64_t end) {
      left += block_data.right_S[begin];
      right += block_data.left_S[begin];
      for (std::int64_t j = begin; j < end; ++j) {
        block_data.left.set(j, block_data.left[j] + left);
        block_data.right.set(j, block_data.right[j] + right);
      }
    });
    block_totals.set(block, left, right);
  }

  /// Adds to the gradients of φ^L and φ^R of each block those through F of all later blocks.
  void add_dF_after(const Call& call, Lanes lanes, const BlockNumbers<T>& block_totals,
                    const PointerGradients& gradients) const {
    PairOfSums<T> after;
    auto add = [&](Block block, Vec<T> dF, T* slope) {
      T more[Vec<T>::lanes];
      dF.store(more);
      for (int r = 0; r < lanes.count; ++r) {
        T* row = slope + (lanes.row + r) * call.rows.stride;
        for_keys<T>(block.begin, block.end, [&](std::int64_t j, auto count) {
          store_vector(load_vector(row + j, count) + Vec<T>(more[r]), row + j, count);
        });
      }
    };
    for_blocks_back(call, [&](Block block) {
      if (block.number + 1 < end_block(call)) {
        add(block, after.left.value(), gradients.left);
        add(block, after.right.value(), gradients.right);
      }
      after.left.add(block_totals.left_of(block));
      after.right.add(block_totals.right_of(block));
    });
  }

  /// Writes the block's gradients of φ^L and φ^R to their strips.
  static void store_gradients(const Call& call, Lanes lanes, Block block, const TransposedBlock<T>& block_data,
                              const PointerGradients& gradients) {
    auto turn = [&](const TransposedKeys<T>& slope, T* to) {
      T* rows = to + lanes.row * call.rows.stride;
      slope.store_rows(block.begin, block.end, lanes.count, [&](int r, std::int64_t j, auto count, Vec<T> x) {
        store_vector(x, rows + r * call.rows.stride + j, count);
      });
    };
    turn(block_data.left, gradients.left);
    turn(block_data.right, gradients.right);
  }

  PointerWindow form_;
  /// Scores of the left pointer, the right pointer and, if additive, of the local logits.
  std::vector<std::unique_ptr<StripScore<T>>> scores_;
};

}  // namespace

template <class T>
std::unique_ptr<StripTerm<T>> window_strips(const PointerWindow& window, const std::vector<Capture>& captures) {
  return std::make_unique<WindowStrips<T>>(window, captures);
}
template std::unique_ptr<StripTerm<float>> window_strips(const PointerWindow&, const std::vector<Capture>&);
template std::unique_ptr<StripTerm<double>> window_strips(const PointerWindow&, const std::vector<Capture>&);

}  // namespace fovea
