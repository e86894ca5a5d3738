#include "attention/window_strips.h"

#include <limits>

namespace fovea {

namespace {

/// A row's sums along the keys, from both pointers: F over the keys up to a segment's end, S over those from its start,
/// and, where the mask needs it, the mass of the segment itself.
template <class T>
struct WindowRow {
  T *left_F, *left_S, *right_F, *right_S, *left_mass, *right_mass;
};

template <class T>
void clear_beside(T* row, std::int64_t first, std::int64_t end, std::int64_t size) {
  std::fill(row, row + first, T(0));
  std::fill(row + end, row + size, T(0));
}

/// The keys that a row's pointers may choose.
struct PointerKeys {
  std::int64_t first, end;             ///< of the row
  std::int64_t left_end, right_first;  ///< with forward_only the left one stays at or before i, the right one after
};

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
    Tensor room = strip_gradient_room({s.sentences, s.heads, of_keys ? s.keys : s.queries, tensors_[k].size(-1)},
                                      of_keys ? s.parts : 1, tensors_[k].dtype());
    room.fill(0);
    return room;
  }
  std::vector<Tensor> key_matrices() const override {
    std::vector<Tensor> keys;
    for (std::size_t k = 1; k < tensors_.size(); k += 2) keys.push_back(tensors_[k]);
    return keys;
  }

  std::int64_t kept_strips() const override { return pairs(); }

  template <class T>
  void forward_strip(const StripRows<T>& rows, const T* from, T* to, Workspace& space) const {
    Pointers<T> pointers = strips_at(rows, rows.kept ? rows.kept : space.take<T>(pairs() * rows.count * rows.stride));
    point(rows, pointers);
    WindowRow<T> sums = take_row<T>(rows, space);
    T* m = space.take<T>(rows.keys + 2 * Vec<T>::lanes);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      std::int64_t at = r * rows.stride, first = rows.first[r], end = rows.end[r];
      sum_row(keys_of(rows, r), pointers.left + at, pointers.right + at, sums);
      mask_row(sums, m, first, end);
      for_keys<T>(first, end, [&](std::int64_t j, auto count) {
        Vec<T> x = load_vector(from + at + j, count), window = load_vector(m + j, count);
        Vec<T> changed = form_.additive ? x + load_vector(pointers.local + at + j, count) * window : x * window;
        store_vector(changed, to + at + j, count);
      });
    }
  }

  template <class T>
  void backward_strip(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor> rooms,
                      Workspace& space) const {
    Pointers<T> pointers = strips_at(rows, rows.kept);  // as forward() left them
    WindowRow<T> sums = take_row<T>(rows, space), slopes = take_row<T>(rows, space);
    T* m = space.take<T>(rows.keys + 2 * Vec<T>::lanes);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      std::int64_t at = r * rows.stride, first = rows.first[r], end = rows.end[r];
      PointerKeys keys = keys_of(rows, r);
      sum_row(keys, pointers.left + at, pointers.right + at, sums);
      mask_row(sums, m, first, end);
      T* dm = m;  // the mask's gradient takes its place, element by element
      for_keys<T>(first, end, [&](std::int64_t j, auto count) {
        Vec<T> g = load_vector(gradient + at + j, count), window = load_vector(m + j, count);
        if (form_.additive) {
          Vec<T> local = load_vector(pointers.local + at + j, count);
          store_vector(g * window, pointers.local + at + j, count);
          store_vector(g * local, dm + j, count);
        } else {
          store_vector(g * window, gradient + at + j, count);
          store_vector(g * load_vector(from + at + j, count), dm + j, count);
        }
      });
      if (form_.additive) clear_beside(pointers.local + at, first, end, rows.stride);
      std::fill(dm + keys.first, dm + first, T(0));
      std::fill(dm + end, dm + keys.end, T(0));
      pointer_gradients(keys, sums, dm, slopes);
      finish_pointer(rows, r, pointers.left + at, slopes.left_F, keys.first, keys.left_end);
      finish_pointer(rows, r, pointers.right + at, slopes.right_F, keys.right_first, keys.end);
    }
    add_gradients(rows, 0, pointers.left, form_.pointer_scale, rooms, space);
    add_gradients(rows, 1, pointers.right, form_.pointer_scale, rooms, space);
    if (form_.additive) add_gradients(rows, 2, pointers.local, form_.local_scale, rooms, space);
  }

 private:
  template <class T>
  struct Pointers {
    T *left, *right, *local;  ///< strips
  };

  /// Of queries and keys: of both pointers, and the local logits' if there are any.
  std::int64_t pairs() const { return static_cast<std::int64_t>(tensors_.size()) / 2; }
  template <class T>
  Pointers<T> strips_at(const StripRows<T>& rows, T* memory) const {
    const std::int64_t size = rows.count * rows.stride;
    return {memory, memory + size, pairs() > 2 ? memory + 2 * size : nullptr};
  }

  template <class T>
  WindowRow<T> take_row(const StripRows<T>& rows, Workspace& space) const {
    auto take = [&] { return space.take<T>(rows.keys + Vec<T>::lanes); };
    WindowRow<T> row{take(), take(), take(), take(), nullptr, nullptr};
    if (form_.mask == WindowForm::Mask::exact) row.left_mass = take(), row.right_mass = take();
    return row;
  }

  template <class T>
  PointerKeys keys_of(const StripRows<T>& rows, std::int64_t r) const {
    PointerKeys keys{rows.visible_first[r], rows.visible_end[r], rows.visible_end[r], rows.visible_first[r]};
    if (form_.forward_only) {
      keys.left_end = std::clamp(rows.query_position(r) + 1, keys.first, keys.end);
      keys.right_first = std::clamp(rows.query_position(r), keys.first, keys.end);
    }
    return keys;
  }

  // ---- Pointers

  /// Both pointers' softmax over each row's keys, 0 elsewhere, and the local logits.
  template <class T>
  void point(const StripRows<T>& rows, const Pointers<T>& strips) const {
    std::int64_t first = rows.keys, end = 0;
    for (std::int64_t r = 0; r < rows.count; ++r) {
      first = std::min(first, rows.visible_first[r]);
      end = std::max(end, rows.visible_end[r]);
    }
    auto multiply = [&](std::size_t k, double scale, T* strip) {
      rows.transposed_keys[k].multiply(rows.count, static_cast<T>(scale), queries(rows, k), 0, {strip, rows.stride, 1},
                                       {0, tensors_[2 * k].size(-1), first, end});
    };
    multiply(0, form_.pointer_scale, strips.left);
    multiply(1, form_.pointer_scale, strips.right);
    if (strips.local) multiply(2, form_.local_scale, strips.local);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      PointerKeys keys = keys_of(rows, r);
      choose(rows, r, strips.left + r * rows.stride, keys.first, keys.left_end, keys);
      choose(rows, r, strips.right + r * rows.stride, keys.right_first, keys.end, keys);
    }
  }

  template <class T>
  void choose(const StripRows<T>& rows, std::int64_t r, T* row, std::int64_t first, std::int64_t end,
              const PointerKeys& keys) const {
    scale_by_length(rows, r, row, first, end);
    softmax_row(row, first, end, -std::numeric_limits<T>::infinity());
    std::fill(row + keys.first, row + first, T(0));
    std::fill(row + end, row + keys.end, T(0));
  }

  template <class T>
  void scale_by_length(const StripRows<T>& rows, std::int64_t r, T* row, std::int64_t first, std::int64_t end) const {
    if (!form_.pointer_scale_by_length) return;
    const Vec<T> length(static_cast<T>(rows.visible_end[r] - rows.visible_first[r]));
    for_keys<T>(first, end, [&](std::int64_t j, auto count) {
      store_vector(load_vector(row + j, count) * length, row + j, count);
    });
  }

  template <class T>
  MatrixView<const T> queries(const StripRows<T>& rows, std::size_t k) const {
    const Tensor& q = tensors_[2 * k];
    return {
        q.data<T>() + rows.sentence * q.strides()[0] + rows.head * q.strides()[1] + rows.first_query * q.strides()[2],
        q.strides()[2], 1};
  }

  // ---- Sums along the keys

  /// Calls body(begin, end) for the segments that overlap [first, end), cut off there.
  template <class Body>
  void for_segments(std::int64_t first, std::int64_t end, Body&& body) const {
    for (std::int64_t begin = first; begin < end;) {
      std::int64_t next = std::min(end, (begin / form_.segment + 1) * form_.segment);
      body(begin, next);
      begin = next;
    }
  }

  template <class T>
  void sum_row(const PointerKeys& keys, const T* left, const T* right, const WindowRow<T>& out) const {
    auto both = [&](const T* phi, T* F, T* S, T* mass) {
      prefix_sum_row(phi, F, keys.first, keys.end);
      suffix_sum_row(phi, S, keys.first, keys.end);
      if (mass) std::copy(phi + keys.first, phi + keys.end, mass + keys.first);
      if (form_.segment == 1) return;
      for_segments(keys.first, keys.end, [&](std::int64_t begin, std::int64_t end) {
        std::fill(F + begin, F + end, F[end - 1]);
        std::fill(S + begin, S + end, S[begin]);
        if (!mass) return;
        T total = 0;
        for (std::int64_t j = begin; j < end; ++j) total += phi[j];
        std::fill(mass + begin, mass + end, total);
      });
    };
    both(left, out.left_F, out.left_S, out.left_mass);
    both(right, out.right_F, out.right_S, out.right_mass);
  }

  template <class T>
  void mask_row(const WindowRow<T>& s, T* m, std::int64_t first, std::int64_t end) const {
    for_keys<T>(first, end, [&](std::int64_t j, auto count) {
      auto at = [&](const T* row) { return load_vector(row + j, count); };
      Vec<T> x = at(s.left_F) * at(s.right_S), y = at(s.right_F) * at(s.left_S), mask = x + y;
      if (form_.forward_only) mask = x;
      if (form_.mask == WindowForm::Mask::exact) mask -= at(s.left_mass) * at(s.right_mass);
      if (form_.mask == WindowForm::Mask::either) mask -= x * y;
      store_vector(mask, m + j, count);
    });
  }

  /// From the mask's gradient to those of both pointers, which come to lie in slopes.left_F and slopes.right_F.
  template <class T>
  void pointer_gradients(const PointerKeys& keys, const WindowRow<T>& s, const T* dm,
                         const WindowRow<T>& slopes) const {
    for_keys<T>(keys.first, keys.end, [&](std::int64_t j, auto count) {
      auto at = [&](const T* row) { return load_vector(row + j, count); };
      auto put = [&](T* row, Vec<T> value) { store_vector(value, row + j, count); };
      Vec<T> g = at(dm), lF = at(s.left_F), lS = at(s.left_S), rF = at(s.right_F), rS = at(s.right_S), dx = g, dy = g;
      if (form_.forward_only) dy = Vec<T>(T(0));
      if (form_.mask == WindowForm::Mask::either) {
        dx = g * (Vec<T>(T(1)) - rF * lS);
        dy = g * (Vec<T>(T(1)) - lF * rS);
      }
      put(slopes.left_F, dx * rS);
      put(slopes.right_S, dx * lF);
      put(slopes.right_F, dy * lS);
      put(slopes.left_S, dy * rF);
      if (form_.mask == WindowForm::Mask::exact) {
        put(slopes.left_mass, -(g * at(s.right_mass)));
        put(slopes.right_mass, -(g * at(s.left_mass)));
      }
    });
    join(keys, slopes.left_F, slopes.left_S, slopes.left_mass);
    join(keys, slopes.right_F, slopes.right_S, slopes.right_mass);
  }

  /// dφ = what F's gradients after a key and S's before it sum to; it takes dF's place.
  template <class T>
  void join(const PointerKeys& keys, T* dF, T* dS, T* dmass) const {
    if (form_.segment > 1)
      for_segments(keys.first, keys.end, [&](std::int64_t begin, std::int64_t end) {
        auto gather = [&](T* row, std::int64_t to) {
          T total = 0;
          for (std::int64_t j = begin; j < end; ++j) total += row[j];
          std::fill(row + begin, row + end, T(0));
          row[to] = total;
        };
        gather(dF, end - 1);
        gather(dS, begin);
        if (!dmass) return;
        gather(dmass, begin);
        std::fill(dmass + begin, dmass + end, dmass[begin]);
      });
    suffix_sum_row(dF, dF, keys.first, keys.end);
    prefix_sum_row(dS, dS, keys.first, keys.end);
    for_keys<T>(keys.first, keys.end, [&](std::int64_t j, auto count) {
      Vec<T> total = load_vector(dF + j, count) + load_vector(dS + j, count);
      if (dmass) total += load_vector(dmass + j, count);
      store_vector(total, dF + j, count);
    });
  }

  // ---- Back through the pointers

  /// The logits' gradient in the place of φ, 0 beside it.
  template <class T>
  void finish_pointer(const StripRows<T>& rows, std::int64_t r, T* phi, T* slope, std::int64_t first,
                      std::int64_t end) const {
    softmax_row_backward(phi, slope, first, end);
    scale_by_length(rows, r, slope, first, end);
    std::copy(slope + first, slope + end, phi + first);
    clear_beside(phi, first, end, rows.stride);
  }

  /// Gradients of one pair of queries and keys, from that of their logits.
  template <class T>
  void add_gradients(const StripRows<T>& rows, std::size_t k, const T* strip, double scale, std::span<Tensor> rooms,
                     Workspace& space) const {
    const std::int64_t D = tensors_[2 * k].size(-1);
    const auto factor = static_cast<T>(scale);
    if (const Tensor& room = rooms[2 * k]; room.defined())
      rows.keys_packed[k].multiply(rows.count, factor, {strip, rows.stride, 1}, 1,
                                   strip_gradient<T>(room, rows.sentence, rows.head, 0).from(rows.first_query, 0));
    if (const Tensor& room = rooms[2 * k + 1]; room.defined()) {
      WorkspaceScope taken(space);
      Panels<T> packed(space.take<T>(Panels<T>::size(rows.count, D)), rows.count, D);
      packed.pack(queries(rows, k));
      packed.multiply(rows.keys, factor, {strip, 1, rows.stride}, 1,
                      strip_gradient<T>(room, rows.sentence, rows.head, rows.part));
    }
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
