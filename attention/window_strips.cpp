#include "attention/window_strips.h"

#include <cmath>
#include <limits>

#include "attention/strip_score.h"
#include "tensor/math.h"

namespace fovea {

namespace {

/// A strip turned over: a row for each key, and the queries side by side in lanes. What runs along the keys of a row is
/// then a plain sum, for a vector of queries at a time.
template <class T>
struct TurnedStrip {
  T* data;
  std::int64_t width;  ///< from key to key

  T* at(std::int64_t key, std::int64_t row) const { return data + key * width + row; }
};

/// Of so many rows.
template <class T>
std::int64_t turned_width(std::int64_t rows) {
  return Panels<T>::padded(rows);
}

/// Sums that run along the keys, with carries in f64: f32 alone drifts by 1e-5 in 32 000 keys.
template <class T>
class RunningSum {
 public:
  Vec<T> value() const { return base_ + part_; }
  FOVEA_INLINE void add(Vec<T> x) {
    part_ += x;
    if (++terms_ == 64) settle();
  }

 private:
  void settle() {
    T part[Vec<T>::lanes], base[Vec<T>::lanes];
    part_.store(part);
    for (int lane = 0; lane < Vec<T>::lanes; ++lane) {
      carry_[lane] += static_cast<double>(part[lane]);
      base[lane] = static_cast<T>(carry_[lane]);
    }
    base_ = Vec<T>::load(base);
    part_ = Vec<T>(T(0));
    terms_ = 0;
  }

  Vec<T> base_ = Vec<T>(T(0)), part_ = Vec<T>(T(0));
  double carry_[Vec<T>::lanes] = {};
  int terms_ = 0;
};

/// A vector of queries: the lanes [row, row + count) of turned strips.
template <class T>
struct Lanes {
  std::int64_t row;
  int count;

  Vec<T> load(const TurnedStrip<T>& strip, std::int64_t key) const {
    return count == Vec<T>::lanes ? Vec<T>::load(strip.at(key, row)) : Vec<T>::load_partial(strip.at(key, row), count);
  }
  /// The lanes past the last query are room for whole vectors.
  void store(Vec<T> x, const TurnedStrip<T>& strip, std::int64_t key) const { x.store(strip.at(key, row)); }
};

/// The keys that a vector of queries may choose with one pointer; between core_first and core_end all of them may.
template <class T>
struct PointerKeys {
  Vec<T> first, end;
  std::int64_t core_first, core_end;
};

/// One vector of queries' sums along the keys, up to where they have come.
template <class T>
struct WindowSums {
  RunningSum<T> left, right;
  Vec<T> left_total, right_total;  ///< 1, or 0 where there is nothing to choose

  /// F up to and with a segment, S from it on, and the segment's own masses.
  struct Segment {
    Vec<T> left_F, left_S, right_F, right_S, left_mass, right_mass;
  };
  FOVEA_INLINE Segment next(Vec<T> left_mass, Vec<T> right_mass) {
    const Vec<T> left_S = rest(left_total - left.value()), right_S = rest(right_total - right.value());
    left.add(left_mass);
    right.add(right_mass);
    return {left.value(), left_S, right.value(), right_S, left_mass, right_mass};
  }

 private:
  static Vec<T> rest(Vec<T> x) { return select(x < Vec<T>(T(0)), Vec<T>(T(0)), x); }
};

/// to[b][a] = from[a][b] for one square.
template <class T>
FOVEA_INLINE void load_turned(const TurnedStrip<T>& from, std::int64_t key, std::int64_t keys, std::int64_t row,
                              Vec<T> (&to)[Vec<T>::lanes]) {
#pragma GCC unroll 16
  for (int j = 0; j < Vec<T>::lanes; ++j)  // past the last key: some lanes that nobody looks at
    to[j] = Vec<T>::load(from.at(std::min(key + j, keys - 1), row));
  transposition::square(to);
}

class WindowStrips : public StripTermOf<WindowStrips> {
 public:
  WindowStrips(const WindowForm& form, const WindowProjections& p) : form_(form) {
    variables_ = {p.left_query, p.left_key, p.right_query, p.right_key};
    if (form.additive) variables_.insert(variables_.end(), {p.local_query, p.local_key});
    for (const Variable& variable : variables_) tensors_.push_back(with_unit_rows(variable.value()));
  }

  std::vector<Variable> inputs() const override { return variables_; }
  Tensor gradient_room(std::size_t k, const StripShape& s) const override {
    bool of_keys = k % 2 == 1;
    return strip_gradient_room({s.sentences, s.heads, of_keys ? s.keys : s.queries, tensors_[k].size(-1)},
                               of_keys ? s.parts : 1, tensors_[k].dtype());
  }
  std::vector<Tensor> key_matrices() const override {
    std::vector<Tensor> keys;
    for (std::size_t k = 1; k < tensors_.size(); k += 2) keys.push_back(tensors_[k]);
    return keys;
  }

  std::int64_t kept_rows() const override { return pairs(); }

  template <class T>
  void forward_strip(const StripRows<T>& rows, const T* from, T* to, Workspace& space) const {
    const Call<T> call = call_of(rows, space);
    T* kept = rows.kept ? rows.kept : space.take<T>(pairs() * call.size());
    const TurnedStrip<T> window = call.take(space);
    point(call, kept, space);
    for_lanes(call, [&](const Lanes<T>& lanes) { sum_window(call, lanes, kept, window); });
    for_squares(call, window, [&](std::int64_t r, std::int64_t j, auto count, Vec<T> change) {
      Vec<T> x = load_vector(from + r * rows.stride + j, count);
      store_vector(form_.additive ? x + change : x * change, to + r * rows.stride + j, count);
    });
  }

  template <class T>
  void backward_strip(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor> rooms,
                      Workspace& space) const {
    const Call<T> call = call_of(rows, space);
    T *kept = rows.kept, *slopes = space.take<T>(pairs() * call.size());
    if (!rows.is_empty()) {
      const TurnedStrip<T> slope = call.take(space);  // of the window, or of what is added to the logits
      if (!form_.additive) for_lanes(call, [&](const Lanes<T>& lanes) { sum_window(call, lanes, kept, slope); });
      turn_gradient(call, from, gradient, slope);
      for_lanes(call, [&](const Lanes<T>& lanes) { back_through_window(call, lanes, kept, slope, slopes); });
    }
    for (std::size_t k = 0; k < static_cast<std::size_t>(pairs()); ++k)
      add_gradients(call, k, call.strip(slopes, k), rooms, space);
  }

 private:
  // ---- One call

  /// A strip's rows, the keys that any of its pointers may choose, and those of each.
  template <class T>
  struct Call {
    const StripRows<T>& rows;
    std::int64_t width, first, end;  ///< first is a multiple of the lanes
    T *left_first, *left_end, *right_first, *right_end, *length;

    std::int64_t size() const { return width * rows.keys; }
    TurnedStrip<T> take(Workspace& space) const { return {space.take<T>(size()), width}; }
    /// Of several one after the other.
    TurnedStrip<T> strip(T* of, std::size_t k) const { return {of + static_cast<std::int64_t>(k) * size(), width}; }
  };

  template <class T>
  Call<T> call_of(const StripRows<T>& rows, Workspace& space) const {
    Call<T> call{rows, turned_width<T>(rows.count), rows.keys, 0, {}, {}, {}, {}, {}};
    for (T** numbers : {&call.left_first, &call.left_end, &call.right_first, &call.right_end, &call.length}) {
      *numbers = space.take<T>(call.width);
      std::fill_n(*numbers, call.width, T(0));
    }
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const std::int64_t first = rows.visible_first[r], end = rows.visible_end[r];
      call.left_first[r] = call.right_first[r] = static_cast<T>(first);
      call.left_end[r] = call.right_end[r] = static_cast<T>(end);
      call.length[r] = static_cast<T>(end - first);
      if (form_.forward_only) {  // the left one stays at or before i, the right one at or after
        call.left_end[r] = static_cast<T>(std::clamp(rows.query_position(r) + 1, first, end));
        call.right_first[r] = static_cast<T>(std::clamp(rows.query_position(r), first, end));
      }
      if (first == end) continue;
      call.first = std::min(call.first, first);
      call.end = std::max(call.end, end);
    }
    call.first = std::min(call.first, call.end) / Vec<T>::lanes * Vec<T>::lanes;
    return call;
  }

  /// Of queries and keys: of both pointers, and the local logits' if there are any.
  std::int64_t pairs() const { return static_cast<std::int64_t>(tensors_.size()) / 2; }

  template <class T, class Body>
  static void for_lanes(const Call<T>& call, Body&& body) {
    for (std::int64_t r = 0; r < call.rows.count; r += Vec<T>::lanes)
      body(Lanes<T>{r, static_cast<int>(std::min<std::int64_t>(Vec<T>::lanes, call.rows.count - r))});
  }

  /// body(row, key, count, vector of keys): the hull of a turned strip, as rows.
  template <class T, class Body>
  static void for_squares(const Call<T>& call, const TurnedStrip<T>& strip, Body&& body) {
    const StripRows<T>& rows = call.rows;
    Vec<T> square[Vec<T>::lanes];
    for_lanes(call, [&](const Lanes<T>& lanes) {
      for_keys<T>(rows.hull_first, rows.hull_end, [&](std::int64_t j, auto count) {
        load_turned(strip, j, rows.hull_end, lanes.row, square);
        for (int r = 0; r < lanes.count; ++r) body(lanes.row + r, j, count, square[r]);
      });
    });
  }

  /// Calls body(begin, end) for the segments that overlap the call's keys, cut off there.
  template <class T, class Body>
  FOVEA_INLINE void for_segments(const Call<T>& call, Body&& body) const {
    if (form_.segment == 1) {
      for (std::int64_t j = call.first; j < call.end; ++j) body(j, j + 1);
      return;
    }
    for (std::int64_t begin = call.first; begin < call.end;) {
      std::int64_t next = std::min(call.end, (begin / form_.segment + 1) * form_.segment);
      body(begin, next);
      begin = next;
    }
  }

  // ---- Pointers

  double scale_of(std::size_t pair) const { return pair < 2 ? form_.pointer_scale : form_.local_scale; }

  /// What is made larger, by the length or by its own scale, is not rounded: it would be the rounding that grows.
  Precision precision_of(std::size_t pair, const Workspace& space) const {
    const bool grows = form_.pointer_scale_by_length || std::abs(form_.pointer_scale) > form_.local_scale;
    return pair < 2 && grows ? Precision::f32 : space.products;
  }

  template <class T>
  MatrixView<const T> queries(const StripRows<T>& rows, std::size_t pair) const {
    return head_matrix<T>(tensors_[2 * pair], rows.sentence, rows.head).from(rows.first_query, 0);
  }

  /// Both pointers' softmax over each query's keys, 0 elsewhere, and the local logits: turned strips one after the
  /// other.
  template <class T>
  void point(const Call<T>& call, T* kept, Workspace& space) const {
    const StripRows<T>& rows = call.rows;
    for (std::size_t k = 0; k < static_cast<std::size_t>(pairs()); ++k) {
      WorkspaceScope taken(space);
      const Tensor& keys = tensors_[2 * k + 1];
      const TurnedStrip<T> strip = call.strip(kept, k);
      packed_matrix(space, queries(rows, k).transposed(), keys.size(-1), rows.count, 1, precision_of(k, space))
          .multiply(call.end - call.first, static_cast<T>(scale_of(k)),
                    head_matrix<T>(keys, rows.sentence, rows.head).from(call.first, 0), 0,
                    {strip.at(call.first, 0), strip.width, 1});
    }
    for_lanes(call, [&](const Lanes<T>& lanes) {
      choose(call, lanes, call.left_first, call.left_end, call.strip(kept, 0));
      choose(call, lanes, call.right_first, call.right_end, call.strip(kept, 1));
    });
  }

  /// Softmax of one vector of queries, each over its own keys.
  template <class T>
  void choose(const Call<T>& call, const Lanes<T>& lanes, const T* firsts, const T* ends,
              const TurnedStrip<T>& strip) const {
    const Vec<T> zero(T(0)), lowest(-std::numeric_limits<T>::infinity()),
        first = Vec<T>::load(firsts + lanes.row), end = Vec<T>::load(ends + lanes.row),
        length = Vec<T>::load(call.length + lanes.row);
    const T core_first = *std::max_element(firsts + lanes.row, firsts + lanes.row + lanes.count),
            core_end = *std::min_element(ends + lanes.row, ends + lanes.row + lanes.count);
    Vec<T> maximum = lowest;
    for (std::int64_t j = call.first; j < call.end; ++j) {
      Vec<T> x = lanes.load(strip, j);
      if (form_.pointer_scale_by_length) x *= length;
      const Vec<T> key(static_cast<T>(j));
      if (key[0] < core_first || key[0] >= core_end) x = select((first <= key) & (key < end), x, lowest);
      maximum = select((maximum < x) | (x != x), x, maximum);  // NaN wins
      lanes.store(x, strip, j);
    }
    const LaneMask<T> nothing = maximum == lowest;
    const Vec<T> shift = select(nothing, zero, maximum);
    RunningSum<T> total;
    for (std::int64_t j = call.first; j < call.end; ++j) {
      const Vec<T> e = exp(Vec<T>::load(strip.at(j, lanes.row)) - shift);
      lanes.store(e, strip, j);
      total.add(e);
    }
    const Vec<T> scale = select(nothing, zero, Vec<T>(T(1)) / total.value());
    for (std::int64_t j = call.first; j < call.end; ++j)
      lanes.store(Vec<T>::load(strip.at(j, lanes.row)) * scale, strip, j);
  }

  // ---- Sums along the keys

  template <class T>
  WindowSums<T> sums_of(const Call<T>& call, const Lanes<T>& lanes) const {
    auto total = [&](const T* first, const T* end) {
      return select(Vec<T>::load(first + lanes.row) < Vec<T>::load(end + lanes.row), Vec<T>(T(1)), Vec<T>(T(0)));
    };
    return {{}, {}, total(call.left_first, call.left_end), total(call.right_first, call.right_end)};
  }

  /// The sum of one vector of queries over the keys [begin, end).
  template <class T>
  static FOVEA_INLINE Vec<T> mass(const TurnedStrip<T>& strip, const Lanes<T>& lanes, std::int64_t begin,
                                  std::int64_t end) {
    Vec<T> total = Vec<T>::load(strip.at(begin, lanes.row));
    for (std::int64_t j = begin + 1; j < end; ++j) total += Vec<T>::load(strip.at(j, lanes.row));
    return total;
  }

  template <class T>
  FOVEA_INLINE Vec<T> mask_of(const typename WindowSums<T>::Segment& s) const {
    const Vec<T> x = s.left_F * s.right_S, y = s.right_F * s.left_S;
    if (form_.forward_only) return x;
    if (form_.mask == WindowForm::Mask::exact) return x + y - s.left_mass * s.right_mass;
    if (form_.mask == WindowForm::Mask::either) return x + y - x * y;
    return x + y;
  }

  /// m̂, or local · m̂, of one vector of queries.
  template <class T>
  void sum_window(const Call<T>& call, const Lanes<T>& lanes, T* kept, const TurnedStrip<T>& to) const {
    const TurnedStrip<T> left = call.strip(kept, 0), right = call.strip(kept, 1);
    WindowSums<T> sums = sums_of(call, lanes);
    for_segments(call, [&](std::int64_t begin, std::int64_t end) {
      const Vec<T> mask = mask_of<T>(sums.next(mass(left, lanes, begin, end), mass(right, lanes, begin, end)));
      for (std::int64_t j = begin; j < end; ++j)
        lanes.store(form_.additive ? mask * lanes.load(call.strip(kept, 2), j) : mask, to, j);
    });
  }

  /// The gradient of what comes out, turned. Multiplicative: `slope` has the window, which the gradient is multiplied
  /// with, and becomes the window's gradient.
  template <class T>
  void turn_gradient(const Call<T>& call, const T* from, T* gradient, const TurnedStrip<T>& slope) const {
    constexpr int lanes = Vec<T>::lanes;
    const StripRows<T>& rows = call.rows;
    Vec<T> window[lanes], turned[lanes];
    for_lanes(call, [&](const Lanes<T>& own) {
      for (std::int64_t j = call.first; j < rows.hull_first; ++j) own.store(Vec<T>(T(0)), slope, j);
      for_keys<T>(rows.hull_first, rows.hull_end, [&](std::int64_t j, auto count) {
        if (!form_.additive) load_turned(slope, j, rows.hull_end, own.row, window);
        for (int r = 0; r < lanes; ++r) {
          turned[r] = Vec<T>(T(0));
          if (r >= own.count) continue;
          const std::int64_t at = (own.row + r) * rows.stride + j;
          const Vec<T> g = load_vector(gradient + at, count);
          turned[r] = form_.additive ? g : g * load_vector(from + at, count);
          if (!form_.additive) store_vector(g * window[r], gradient + at, count);
        }
        transposition::square(turned);
        for (int k = 0; k < count; ++k) own.store(turned[k], slope, j + k);
      });
      for (std::int64_t j = rows.hull_end; j < call.end; ++j) own.store(Vec<T>(T(0)), slope, j);
    });
  }

  /// One vector of queries, from the gradient of what comes out to that of the pointers' logits and the local ones:
  /// the slopes. Pointers' slopes are less a constant, which a softmax does not see: the sum of all of dF.
  template <class T>
  void back_through_window(const Call<T>& call, const Lanes<T>& lanes, T* kept, const TurnedStrip<T>& of_change,
                           T* slopes) const {
    const TurnedStrip<T> left = call.strip(kept, 0), right = call.strip(kept, 1), left_slope = call.strip(slopes, 0),
                         right_slope = call.strip(slopes, 1);
    WindowSums<T> sums = sums_of(call, lanes);
    RunningSum<T> left_run, right_run, left_mean, right_mean;
    for_segments(call, [&](std::int64_t begin, std::int64_t end) {
      const auto s = sums.next(mass(left, lanes, begin, end), mass(right, lanes, begin, end));
      const Vec<T> one(T(1)),
          g = form_.additive ? back_through_local(call, lanes, kept, of_change, slopes, mask_of<T>(s), begin, end)
                             : mass(of_change, lanes, begin, end);
      Vec<T> dx = g, dy = g;  // of F^L S^R and F^R S^L
      if (form_.forward_only) dy = Vec<T>(T(0));
      if (form_.mask == WindowForm::Mask::either) {
        dx = g * (one - s.right_F * s.left_S);
        dy = g * (one - s.left_F * s.right_S);
      }
      const Vec<T> left_S = dy * s.right_F, right_S = dx * s.left_F;
      Vec<T> of_left = left_run.value() + left_S, of_right = right_run.value() + right_S;
      if (form_.mask == WindowForm::Mask::exact) {
        of_left -= g * s.right_mass;
        of_right -= g * s.left_mass;
      }
      left_run.add(left_S - dx * s.right_S);
      right_run.add(right_S - dy * s.left_S);
      left_mean.add(of_left * s.left_mass);
      right_mean.add(of_right * s.right_mass);
      for (std::int64_t j = begin; j < end; ++j) {
        lanes.store(of_left, left_slope, j);
        lanes.store(of_right, right_slope, j);
      }
    });
    back_through_softmax(call, lanes, left, left_mean.value(), left_slope);
    back_through_softmax(call, lanes, right, right_mean.value(), right_slope);
  }

  /// Additive: fills in the local logits' slopes, and returns the mask's gradient of a segment.
  template <class T>
  FOVEA_INLINE Vec<T> back_through_local(const Call<T>& call, const Lanes<T>& lanes, T* kept,
                                         const TurnedStrip<T>& of_change, T* slopes, Vec<T> mask, std::int64_t begin,
                                         std::int64_t end) const {
    Vec<T> of_mask(T(0));
    for (std::int64_t j = begin; j < end; ++j) {
      const Vec<T> g = lanes.load(of_change, j);
      of_mask += g * lanes.load(call.strip(kept, 2), j);
      lanes.store(g * mask, call.strip(slopes, 2), j);
    }
    return of_mask;
  }

  template <class T>
  void back_through_softmax(const Call<T>& call, const Lanes<T>& lanes, const TurnedStrip<T>& phi, Vec<T> mean,
                            const TurnedStrip<T>& slope) const {
    const Vec<T> length = form_.pointer_scale_by_length ? Vec<T>::load(call.length + lanes.row) : Vec<T>(T(1));
    for (std::int64_t j = call.first; j < call.end; ++j) {
      const Vec<T> weight = Vec<T>::load(phi.at(j, lanes.row)) * length;
      lanes.store(weight * (Vec<T>::load(slope.at(j, lanes.row)) - mean), slope, j);
    }
  }

  /// Gradients of one pair of queries and keys, from that of their logits.
  template <class T>
  void add_gradients(const Call<T>& call, std::size_t k, const TurnedStrip<T>& slope, std::span<Tensor> rooms,
                     Workspace& space) const {
    const StripRows<T>& rows = call.rows;
    const std::int64_t D = tensors_[2 * k].size(-1), first = rows.is_empty() ? 0 : call.first,
                       end = rows.is_empty() ? 0 : call.end;
    const auto factor = static_cast<T>(scale_of(k));
    if (const Tensor& room = rooms[2 * k]; room.defined())
      rows.keys_packed[k].multiply(rows.count, factor, {slope.data, 1, slope.width}, rows.plane > 0,
                                   strip_gradient<T>(room, rows.sentence, rows.head, 0).from(rows.first_query, 0),
                                   {first, end, 0, D});
    if (const Tensor& room = rooms[2 * k + 1]; room.defined())
      add_key_gradient(rows, strip_gradient<T>(room, rows.sentence, rows.head, rows.part), D, first, end, factor,
                       {slope.data, slope.width, 1}, queries(rows, k), space);
  }

  WindowForm form_;
  std::vector<Variable> variables_;  ///< query and key of left, right, and local
  std::vector<Tensor> tensors_;
};

}  // namespace

std::unique_ptr<StripTerm> window_strips(const WindowForm& form, const WindowProjections& projections) {
  return std::make_unique<WindowStrips>(form, projections);
}

}  // namespace fovea
