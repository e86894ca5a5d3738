#include "attention/fused.h"

#include <cmath>
#include <limits>

#include <omp.h>

#include "attention/strips.h"
#include "autograd/node.h"
#include "tensor/parallel.h"
#include "tensor/random.h"

namespace fovea {

namespace {

/// All that the two passes of one call share.
/// Biases are what changes the logits, scores first.
struct Call {
  AttentionContext in;
  std::shared_ptr<const Terms> terms;
  AttentionDropout dropout;
  KeyRange visible;                      ///< in's, of rank 3
  std::vector<KeyRange> ranges, always;  ///< the terms', of rank 3
  std::vector<std::unique_ptr<StripTerm>> biases, windows;
  std::vector<std::unique_ptr<StripValueTerm>> values;
  StripShape shape;
  std::int64_t key_dim, value_dim;
  std::int64_t rows;  ///< of a strip, at most

  /// Queries, keys, values, what the terms read, the sink.
  std::vector<Variable> inputs() const {
    std::vector<Variable> all{in.query, in.key, in.value};
    for_terms([&](const auto& term) {
      for (Variable& input : term.inputs()) all.push_back(std::move(input));
    });
    if (terms->sink.defined()) all.push_back(terms->sink);
    return all;
  }

  template <class Body>
  void for_terms(Body&& body) const {
    for (const auto& term : biases) body(*term);
    for (const auto& term : windows) body(*term);
    for (const auto& term : values) body(*term);
  }
};

/// Everything about one call in one type. Tensors are held by the caller.
template <class T>
class Strips {
 public:
  explicit Strips(const Call& call)
      : call_(call),
        shape_(call.shape),
        query_(rows_of(call.in.query.value())),
        key_(rows_of(call.in.key.value())),
        value_(rows_of(call.in.value.value())) {
    stride_ = Panels<T>::padded(shape_.keys);
    if (stride_ * sizeof(T) % 1024 == 0) stride_ += Vec<T>::lanes;  // rows a page apart fight for the same cache lines
    if (call.terms->sink.defined()) sink_ = call.terms->sink.value().contiguous();
    for (const Tensor& mask : call.terms->masks) masks_.push_back(rows_of_keys(as_rank(mask, 4), shape_.keys));
    for (const auto* list : {&call.biases, &call.windows})
      for (const auto& term : *list) {
        term_keys_.emplace_back();
        for (const Tensor& keys : term->key_matrices()) term_keys_.back().push_back(rows_of(keys));
      }
  }

  /// out [B, H, I, D] and the logarithm of each row's normaliser [B, H, I]; the weights [B, H, I, J] if wanted.
  void forward(Tensor& out, Tensor& log_total, Tensor* weights) const {
    for_items(false, [&](Item& item) {
      for_strips(item, [&](StripRows<T>& rows) {
        T* strip = item.space.template take<T>(rows.count * stride_);
        logits(item, rows, strip);
        change(call_.biases, 0, item, rows, strip);
        exclude(rows, strip);
        T* total = log_total.data<T>() + (item.b * shape_.heads + item.h) * shape_.queries + rows.first_query;
        for (std::int64_t r = 0; r < rows.count; ++r)
          total[r] = softmax_row(strip + r * stride_, rows.first[r], rows.end[r], sink(item.h));
        clear_outside(rows, strip);
        change(call_.windows, call_.biases.size(), item, rows, strip);
        if (weights) keep_weights(item, rows, strip, *weights);
        if (call_.dropout.probability > 0) multiply(rows, strip, dropout_factors(item, rows));
        MatrixView<T> to = strip_view(out, item, rows);
        item.values.multiply(rows.count, 1, {strip, stride_, 1}, 0, to,
                             {rows.hull_first, rows.hull_end, 0, value_dim()});
        for (const auto& term : call_.values) {
          std::byte* mark = item.space.mark();
          on_heads(*term, rows, [&](const StripRows<T>& own) { term->forward(own, strip, to, item.space); });
          item.space.give_back(mark);
        }
      });
    });
  }

  /// The gradients of all inputs, in their order, for those that `wanted` names.
  std::vector<Tensor> backward(const Tensor& out_gradient, const Tensor& log_total,
                               const std::vector<bool>& wanted) const {
    const Tensor g = rows_of(out_gradient);
    std::vector<Tensor> gradients = gradient_rooms(wanted);
    for_items(true, [&](Item& item) {
      clear_keys(gradients[1], item);
      clear_keys(gradients[2], item);
      for_strips(item, [&](StripRows<T>& rows) { backward_strip(item, rows, g, log_total, gradients); });
    });
    return gradients;
  }

 private:
  struct Item {
    std::int64_t b, h, part;
    Workspace space;
    Panels<T> transposed_key, key, transposed_value, values;
    std::vector<std::vector<Panels<T>>> transposed_term_keys, term_keys;
  };

  static Tensor rows_of(const Tensor& x) { return with_unit_rows(x); }
  std::int64_t key_dim() const { return call_.key_dim; }
  std::int64_t value_dim() const { return call_.value_dim; }

  // ---- The loop over heads, parts of them, and strips

  /// body(item) for every part of every head, on all threads, with its keys and values packed.
  template <class Body>
  void for_items(bool backward, Body&& body) const {
    const std::size_t bytes = backward ? backward_bytes() : forward_bytes();
    const std::int64_t items = shape_.sentences * shape_.heads * shape_.parts;
    const std::int64_t work = shape_.queries * shape_.keys * (key_dim() + value_dim()) / shape_.parts;
    const std::int64_t threads = omp_in_parallel() ? 1 : std::min<std::int64_t>(omp_get_max_threads(), items);
    Tensor memory = Tensor::empty({threads, static_cast<std::int64_t>(bytes)}, DType::u8);
    parallel_for(items, 1 + 16 * element_grain / (work + 1), [&](std::int64_t begin, std::int64_t end) {
      std::int64_t thread = omp_in_parallel() && threads > 1 ? omp_get_thread_num() : 0;
      std::byte* own = memory.address() + thread * static_cast<std::int64_t>(bytes);
      for (std::int64_t k = begin; k < end; ++k) {
        std::int64_t head = k / shape_.parts;
        Item item{
            head / shape_.heads, head % shape_.heads, k % shape_.parts, Workspace(own, bytes), {}, {}, {}, {}, {}, {}};
        pack(item, backward);
        body(item);
      }
    });
  }

  template <class Body>
  void for_strips(Item& item, Body&& body) const {
    const std::int64_t begin = shape_.queries * item.part / shape_.parts,
                       end = shape_.queries * (item.part + 1) / shape_.parts;
    const auto most = static_cast<std::size_t>(call_.rows);
    std::vector<std::int64_t> bounds(4 * most);
    std::int64_t *first = bounds.data(), *last = first + most, *visible_first = last + most,
                 *visible_end = visible_first + most;
    for (std::int64_t i = begin; i < end; i += call_.rows) {
      StripRows<T> rows{item.b,
                        item.h,
                        item.part,
                        i,
                        std::min(call_.rows, end - i),
                        shape_.query_offset,
                        shape_.keys,
                        first,
                        last,
                        visible_first,
                        visible_end,
                        0,
                        0,
                        stride_,
                        {},
                        {}};
      for (std::int64_t r = 0; r < rows.count; ++r) {
        Interval seen = at(call_.visible, rows, r);
        visible_first[r] = seen.first;
        visible_end[r] = seen.end;
      }
      find_keys(rows, first, last);
      std::byte* mark = item.space.mark();
      body(rows);
      item.space.give_back(mark);
    }
  }

  /// Which keys each row sees, and their hull. What the terms exclude inside of a row's keys is in exclude().
  void find_keys(StripRows<T>& rows, std::int64_t* first, std::int64_t* end) const {
    rows.hull_first = shape_.keys;
    for (std::int64_t r = 0; r < rows.count; ++r) {
      Interval keys = windowed(rows, r);
      for (const KeyRange& range : call_.always) {
        Interval more = at(range, rows, r).within({rows.visible_first[r], rows.visible_end[r]});
        if (!more.empty()) keys = keys.empty() ? more : keys.joined(more);
      }
      first[r] = keys.first;
      end[r] = keys.end;
      if (keys.empty()) continue;
      rows.hull_first = std::min(rows.hull_first, keys.first);
      rows.hull_end = std::max(rows.hull_end, keys.end);
    }
    rows.hull_first = std::min(rows.hull_first, rows.hull_end) / Vec<T>::lanes * Vec<T>::lanes;
  }

  struct Interval {
    std::int64_t first, end;
    bool empty() const { return first >= end; }
    bool contains(std::int64_t j) const { return first <= j && j < end; }
    /// This one cut off by the other: where nothing is left, an empty one at this one's beginning.
    Interval within(Interval other) const {
      Interval both{std::max(first, other.first), std::min(end, other.end)};
      return both.empty() ? Interval{first, first} : both;
    }
    Interval joined(Interval other) const { return {std::min(first, other.first), std::max(end, other.end)}; }
  };

  Interval at(const KeyRange& range, const StripRows<T>& rows, std::int64_t r) const {
    std::int64_t i = rows.first_query + r;
    return Interval{0, shape_.keys}.within(
        {range.first.data<std::int64_t>()[broadcast_offset(range.first, rows.sentence, rows.head, i)],
         range.end.data<std::int64_t>()[broadcast_offset(range.end, rows.sentence, rows.head, i)]});
  }
  /// The keys that are visible and in every hard window.
  Interval windowed(const StripRows<T>& rows, std::int64_t r) const {
    Interval keys{rows.visible_first[r], rows.visible_end[r]};
    for (const KeyRange& range : call_.ranges) keys = keys.within(at(range, rows, r));
    return keys;
  }

  /// −inf where a key lies between a row's intervals, or a mask has it out.
  void exclude(const StripRows<T>& rows, T* strip) const {
    constexpr T out = -std::numeric_limits<T>::infinity();
    for (std::int64_t r = 0; r < rows.count; ++r) {
      T* row = strip + r * stride_;
      if (!call_.always.empty()) {
        Interval keys = windowed(rows, r);
        for (std::int64_t j = rows.first[r]; j < rows.end[r]; ++j)
          if (!keys.contains(j) && !is_always_seen(rows, r, j)) row[j] = out;
      }
      for (const Tensor& mask : masks_) {
        const auto* allowed = reinterpret_cast<const std::uint8_t*>(mask.address()) +
                              broadcast_offset(mask, rows.sentence, rows.head, rows.first_query + r);
        for (std::int64_t j = rows.first[r]; j < rows.end[r]; ++j)
          if (!allowed[j]) row[j] = out;
      }
    }
  }
  bool is_always_seen(const StripRows<T>& rows, std::int64_t r, std::int64_t j) const {
    for (const KeyRange& range : call_.always)
      if (at(range, rows, r).contains(j)) return true;
    return false;
  }

  // ---- Packing

  static MatrixView<const T> matrix(const Tensor& x, std::int64_t b, std::int64_t h) {
    return {x.data<T>() + (x.shape()[0] > 1 ? b * x.strides()[0] : 0) + (x.shape()[1] > 1 ? h * x.strides()[1] : 0),
            x.strides()[2], 1};
  }

  /// `uses`: how many strips will multiply with it. A copy pays from the second one on.
  Panels<T> packed(Workspace& space, MatrixView<const T> from, std::int64_t k, std::int64_t n,
                   std::int64_t uses = 1) const {
    if (uses == 1 && Panels<T>::readable(from, n)) return {from, k, n};
    Panels<T> panels(space.take<T>(Panels<T>::size(k, n)), k, n);
    panels.pack(from);
    return panels;
  }

  void pack(Item& item, bool backward) const {
    const std::int64_t J = shape_.keys, uses = (shape_.queries / shape_.parts + call_.rows - 1) / call_.rows;
    MatrixView<const T> key = matrix(key_, item.b, item.h), value = matrix(value_, item.b, item.h);
    item.transposed_key = packed(item.space, key.transposed(), key_dim(), J);
    if (backward) {
      item.key = packed(item.space, key, J, key_dim(), uses);
      item.transposed_value = packed(item.space, value.transposed(), value_dim(), J);
    } else {
      item.values = packed(item.space, value, J, value_dim(), uses);
    }
    item.transposed_term_keys.resize(term_keys_.size());
    item.term_keys.resize(term_keys_.size());
    for (std::size_t t = 0; t < term_keys_.size(); ++t) {
      const StripTerm& term = pair_term(t);
      if (item.h < term.first_head || term.first_head + term.heads <= item.h) continue;
      for (const Tensor& keys : term_keys_[t]) {
        MatrixView<const T> own = matrix(keys, item.b, item.h - term.first_head);
        item.transposed_term_keys[t].push_back(packed(item.space, own.transposed(), keys.size(-1), J));
        if (backward) item.term_keys[t].push_back(packed(item.space, own, J, keys.size(-1), uses));
      }
    }
  }

  const StripTerm& pair_term(std::size_t t) const {
    return t < call_.biases.size() ? *call_.biases[t] : *call_.windows[t - call_.biases.size()];
  }

  // ---- Memory of a thread, in bytes

  std::size_t strip_bytes() const { return Workspace::bytes<T>(call_.rows * stride_); }
  std::size_t packed_bytes(std::int64_t k, std::int64_t n) const { return Workspace::bytes<T>(Panels<T>::size(k, n)); }

  std::size_t term_bytes(bool backward) const {
    std::size_t keys = 0, working = 0;
    for (std::size_t t = 0; t < term_keys_.size(); ++t) {
      const StripTerm& term = pair_term(t);
      for (const Tensor& matrix : term_keys_[t])
        keys +=
            packed_bytes(matrix.size(-1), shape_.keys) + (backward ? packed_bytes(shape_.keys, matrix.size(-1)) : 0);
      working = std::max(working, static_cast<std::size_t>(term.strips_taken()) * strip_bytes() +
                                      Workspace::bytes<T>(term.elements_taken(shape_, call_.rows)));
    }
    for (const auto& term : call_.values)
      working = std::max(working, Workspace::bytes<T>(term->elements_taken(shape_, call_.rows)));
    return keys + working + 4096;  // each piece is rounded up to a cache line
  }
  std::size_t forward_bytes() const {
    return 2 * strip_bytes() + packed_bytes(key_dim(), shape_.keys) + packed_bytes(shape_.keys, value_dim()) +
           term_bytes(false);
  }
  std::size_t backward_bytes() const {
    return (call_.biases.size() + call_.windows.size() + 4) * strip_bytes() + packed_bytes(key_dim(), shape_.keys) +
           packed_bytes(shape_.keys, key_dim()) + packed_bytes(value_dim(), shape_.keys) +
           packed_bytes(call_.rows, key_dim()) + packed_bytes(call_.rows, value_dim()) + term_bytes(true);
  }

  // ---- The steps of the forward pass

  T sink(std::int64_t head) const {
    return sink_.defined() ? sink_.data<T>()[head] : -std::numeric_limits<T>::infinity();
  }

  /// A [B, H, I, D] tensor's rows of a strip.
  static MatrixView<T> strip_view(const Tensor& x, const Item& item, const StripRows<T>& rows) {
    return {x.data<T>() + item.b * x.strides()[0] + item.h * x.strides()[1] + rows.first_query * x.strides()[2],
            x.strides()[2], 1};
  }
  MatrixView<const T> query_view(const Item& item, const StripRows<T>& rows) const {
    return matrix(query_, item.b, item.h).from(rows.first_query, 0);
  }

  void logits(const Item& item, const StripRows<T>& rows, T* strip) const {
    item.transposed_key.multiply(rows.count, static_cast<T>(call_.in.scale()), query_view(item, rows), 0,
                                 {strip, stride_, 1}, {0, key_dim(), rows.hull_first, rows.hull_end});
  }

  /// body(the rows as a term sees them) if it acts on this head.
  template <class Term, class Body>
  void on_heads(const Term& term, const StripRows<T>& rows, Body&& body) const {
    if (rows.head < term.first_head || term.first_head + term.heads <= rows.head) return;
    StripRows<T> own = rows;
    own.head -= term.first_head;
    body(own);
  }
  template <class Body>
  void on_heads(const Item& item, std::size_t t, const StripRows<T>& rows, Body&& body) const {
    on_heads(pair_term(t), rows, [&](StripRows<T>& own) {
      own.transposed_keys = item.transposed_term_keys[t];
      own.keys_packed = item.term_keys[t];
      body(own);
    });
  }

  void change(const std::vector<std::unique_ptr<StripTerm>>& terms, std::size_t number, Item& item,
              const StripRows<T>& rows, T* strip) const {
    for (const auto& term : terms) {
      std::byte* mark = item.space.mark();
      on_heads(item, number++, rows, [&](const StripRows<T>& own) { term->forward(own, strip, strip, item.space); });
      item.space.give_back(mark);
    }
  }

  void keep_weights(const Item& item, const StripRows<T>& rows, const T* strip, Tensor& weights) const {
    const std::int64_t J = shape_.keys;
    T* to = weights.data<T>() + ((item.b * shape_.heads + item.h) * shape_.queries + rows.first_query) * J;
    for (std::int64_t r = 0; r < rows.count; ++r, to += J) {
      std::fill(to, to + J, T(0));
      std::copy(strip + r * stride_ + rows.first[r], strip + r * stride_ + rows.end[r], to + rows.first[r]);
    }
  }

  /// 1 / (1 − p) for the pairs that dropout keeps, 0 for the others: [rows, J], as composed attention draws them.
  T* dropout_factors(Item& item, const StripRows<T>& rows) const {
    T* factors = item.space.template take<T>(rows.count * stride_);
    std::int64_t row = (item.b * shape_.heads + item.h) * shape_.queries + rows.first_query;
    fovea::dropout_factors(DropoutMask(call_.dropout.probability, call_.dropout.at), row * shape_.keys,
                           rows.count * shape_.keys, factors);
    return factors;
  }

  void multiply(const StripRows<T>& rows, T* strip, const T* factors) const {
    for (std::int64_t r = 0; r < rows.count; ++r, strip += stride_, factors += shape_.keys)
      for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
        store_vector(load_vector(strip + j, count) * load_vector(factors + j, count), strip + j, count);
      });
  }

  // ---- The backward pass

  std::vector<Tensor> gradient_rooms(const std::vector<bool>& wanted) const {
    std::vector<Tensor> rooms{head_room(shape_.queries, key_dim(), 1), head_room(shape_.keys, key_dim(), shape_.parts),
                              head_room(shape_.keys, value_dim(), shape_.parts)};
    call_.for_terms([&](const auto& term) {
      StripShape own = shape_;
      own.heads = term.heads;
      for (std::size_t k = 0; k < term.inputs().size(); ++k)
        rooms.push_back(wanted[rooms.size()] ? term.gradient_room(k, own) : Tensor());
    });
    if (sink_.defined())
      rooms.push_back(wanted[rooms.size()] ? Tensor::zeros({shape_.parts, shape_.sentences, shape_.heads}, dtype_of<T>)
                                           : Tensor());
    return rooms;
  }

  Tensor head_room(std::int64_t length, std::int64_t dim, std::int64_t parts) const {
    return strip_gradient_room({shape_.sentences, shape_.heads, length, dim}, parts, dtype_of<T>);
  }

  /// The gradient matrix of one head's keys, for this part of its queries.
  static MatrixView<T> key_gradient(const Tensor& room, const Item& item) {
    return strip_gradient<T>(room, item.b, item.h, item.part);
  }

  void clear_keys(const Tensor& room, const Item& item) const {
    MatrixView<T> gradient = key_gradient(room, item);
    for (std::int64_t j = 0; j < shape_.keys; ++j) std::fill_n(gradient.at(j, 0), room.size(-1), T(0));
  }

  void backward_strip(Item& item, const StripRows<T>& rows, const Tensor& g, const Tensor& log_total,
                      std::vector<Tensor>& gradients) const {
    const std::int64_t R = rows.count;
    if (rows.hull_first == rows.hull_end) return clear_query(item, rows, gradients[0]);
    std::vector<T*> steps;  // steps[t]: what term t starts from
    auto again = [&](std::size_t begin, std::size_t end) {
      for (std::size_t t = begin; t < end; ++t) {
        const T* from = steps.back();
        T* to = item.space.template take<T>(R * stride_);
        if (!acts_on(t, rows.head)) std::copy_n(from, R * stride_, to);
        if (t >= call_.biases.size()) clear_outside(rows, to);  // weights are multiplied over the whole hull
        std::byte* mark = item.space.mark();
        on_heads(item, t, rows, [&](const StripRows<T>& own) { pair_term(t).forward(own, from, to, item.space); });
        item.space.give_back(mark);
        steps.push_back(to);
      }
    };
    T* first = item.space.template take<T>(R * stride_);
    logits(item, rows, first);
    steps.push_back(first);
    const std::size_t biases = call_.biases.size(), terms = biases + call_.windows.size();
    again(0, biases);
    exclude(rows, steps.back());
    T* weights = steps.back();  // in the place of the last logits: a term needs what it starts from, not its result
    const T* total = log_total.data<T>() + (item.b * shape_.heads + item.h) * shape_.queries + rows.first_query;
    for (std::int64_t r = 0; r < R; ++r) softmax_row_again(weights + r * stride_, rows.first[r], rows.end[r], total[r]);
    clear_outside(rows, weights);
    again(biases, terms);

    const T* dropped = steps.back();
    const T* factors = nullptr;
    T* gradient = item.space.template take<T>(R * stride_);
    if (call_.dropout.probability > 0) {
      factors = dropout_factors(item, rows);
      std::copy_n(dropped, R * stride_, gradient);
      multiply(rows, gradient, factors);
      dropped = gradient;
    }
    MatrixView<const T> g_rows = matrix(g, item.b, item.h).from(rows.first_query, 0);
    add_transposed(item, dropped, R, g_rows, value_dim(), key_gradient(gradients[2], item), rows, 1);
    T* pairs = factors ? item.space.template take<T>(R * stride_) : gradient;
    item.transposed_value.multiply(R, 1, g_rows, 0, {pairs, stride_, 1},
                                   {0, value_dim(), rows.hull_first, rows.hull_end});
    clear_outside(rows, pairs);
    std::size_t place = gradients.size() - (call_.terms->sink.defined() ? 1 : 0);
    for (auto term = call_.values.rbegin(); term != call_.values.rend(); ++term) {
      std::size_t inputs = (*term)->inputs().size();
      place -= inputs;
      std::byte* mark = item.space.mark();
      on_heads(**term, rows, [&](const StripRows<T>& own) {
        (*term)->backward(own, dropped, g_rows, pairs, std::span(gradients).subspan(place, inputs), item.space);
      });
      item.space.give_back(mark);
    }
    if (factors) multiply(rows, pairs, factors);
    auto back = [&](std::size_t begin, std::size_t end) {
      for (std::size_t t = end; t-- > begin;) {
        std::size_t inputs = pair_term(t).inputs().size();
        place -= inputs;
        std::byte* mark = item.space.mark();
        on_heads(item, t, rows, [&](const StripRows<T>& own) {
          pair_term(t).backward(own, steps[t], pairs, std::span(gradients).subspan(place, inputs), item.space);
        });
        item.space.give_back(mark);
      }
    };
    back(biases, terms);
    for (std::int64_t r = 0; r < R; ++r) {
      T mean = softmax_row_backward(weights + r * stride_, pairs + r * stride_, rows.first[r], rows.end[r]);
      if (call_.terms->sink.defined() && gradients.back().defined())
        gradients.back().template data<T>()[broadcast_offset(gradients.back(), item.part, item.b, item.h)] -=
            exp(sink(item.h) - total[r]) * mean;
    }
    back(0, biases);

    const auto scale = static_cast<T>(call_.in.scale());
    item.key.multiply(R, scale, {pairs, stride_, 1}, 0, strip_view(gradients[0], item, rows),
                      {rows.hull_first, rows.hull_end, 0, key_dim()});
    add_transposed(item, pairs, R, query_view(item, rows), key_dim(), key_gradient(gradients[1], item), rows, scale);
  }

  bool acts_on(std::size_t t, std::int64_t head) const {
    const StripTerm& term = pair_term(t);
    return term.first_head <= head && head < term.first_head + term.heads;
  }

  void clear_query(const Item& item, const StripRows<T>& rows, const Tensor& room) const {
    MatrixView<T> gradient = strip_view(room, item, rows);
    for (std::int64_t r = 0; r < rows.count; ++r) std::fill_n(gradient.at(r, 0), key_dim(), T(0));
  }

  /// to [J, n] += alpha · stripᵀ · from [R, n], over the hull's keys.
  void add_transposed(Item& item, const T* strip, std::int64_t R, MatrixView<const T> from, std::int64_t n,
                      MatrixView<T> to, const StripRows<T>& rows, T alpha) const {
    std::byte* mark = item.space.mark();
    Panels<T> panels = packed(item.space, from, R, n);
    panels.multiply(rows.hull_end - rows.hull_first, alpha, {strip + rows.hull_first, 1, stride_}, 1,
                    to.from(rows.hull_first, 0));
    item.space.give_back(mark);
  }

  const Call& call_;
  const StripShape& shape_;
  Tensor query_, key_, value_, sink_;
  std::vector<Tensor> masks_;
  std::vector<std::vector<Tensor>> term_keys_;  ///< of biases, then of windows
  std::int64_t stride_;
};

std::vector<Tensor> backward_of(const Call& call, const Tensor& g, const Tensor& log_total,
                                const std::vector<bool>& wanted) {
  return g.dtype() == DType::f64 ? Strips<double>(call).backward(g, log_total, wanted)
                                 : Strips<float>(call).backward(g, log_total, wanted);
}

/// Adds the terms' strips, on the heads that they act on; false where one has none.
template <class Term, class Strip>
bool add_strips(const std::vector<std::unique_ptr<Term>>& terms, const AttentionContext& in,
                std::vector<std::unique_ptr<Strip>>& strips) {
  for (const auto& term : terms) {
    strips.push_back(term->strips(in));
    if (!strips.back()) return false;
    if (strips.back()->heads == 0) strips.back()->heads = in.query.size(1);
  }
  return true;
}

/// Rows of a strip: so many that it takes an eighth of a megabyte, and no more than there are.
std::int64_t strip_rows(const StripShape& shape, DType dtype) {
  std::int64_t row = std::max<std::int64_t>(shape.keys, 1) * static_cast<std::int64_t>(size_of(dtype));
  std::int64_t rows = std::clamp<std::int64_t>((128 << 10) / row / 8 * 8, 8, 64);
  return std::clamp<std::int64_t>(shape.queries / shape.parts + 1, 1, rows);
}

/// A range of rank 3. Throws unless it broadcasts to [B, H, I].
KeyRange fitting_range(const KeyRange& range, const StripShape& s) {
  auto bound = [&](const Tensor& x) {
    const Shape pairs{s.sentences, s.heads, s.queries};
    require(x.dtype() == DType::i64 && x.rank() <= 3 && broadcast("attention", x.shape(), pairs) == pairs,
            "attention: a range of keys has the bound {}; it must be i64 and broadcast to {}", x, pairs);
    return as_rank(x, 3);
  };
  return {bound(range.first), bound(range.end)};
}

/// Throws, before any thread works on it, where the parts of a call do not fit each other.
void check_inputs(const AttentionContext& in) {
  const Shape &q = in.query.shape(), &k = in.key.shape(), &v = in.value.shape();
  require(q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q[0] == k[0] && q[1] == k[1] && q[3] == k[3] &&
              v[0] == k[0] && v[1] == k[1] && v[2] == k[2],
          "attention: queries {}, keys {}, values {}; expected [B, H, I, D], [B, H, J, D] and [B, H, J, Dv]", q, k, v);
}
void check(const Call& call) {
  for (const Variable& input : call.inputs())
    require(input.dtype() == call.in.query.dtype() && input.device() == call.in.query.device(),
            "attention: a term reads {} on {}, the queries are {} on {}; they must be of one type and device", input,
            name(input.device()), call.in.query, name(call.in.query.device()));
  const StripShape& s = call.shape;
  const Shape pairs{s.sentences, s.heads, s.queries, s.keys};
  for (const Tensor& mask : call.terms->masks)
    require((mask.dtype() == DType::boolean || mask.dtype() == DType::u8) && mask.rank() <= 4 &&
                broadcast("attention", mask.shape(), pairs) == pairs,
            "attention: a mask is {}; it must be bool or u8 and broadcast to {}", mask, pairs);
  if (const Variable& sink = call.terms->sink; sink.defined())
    require(sink.shape() == Shape{s.heads}, "attention: the sink is {}; it must be [{}]", sink, s.heads);
}

/// Null where a term has no strips.
std::shared_ptr<const Call> plan_call(const AttentionContext& in, const std::shared_ptr<const Terms>& terms,
                                      const AttentionDropout& dropout) {
  auto call = std::make_shared<Call>();
  call->in = in;
  call->terms = terms;
  call->dropout = dropout;
  if ((terms->score && !terms->score->is_scaled_dot()) || terms->densities.defined() || terms->recurrence)
    return nullptr;
  check_inputs(in);
  if (!add_strips(terms->scores, in, call->biases) || !add_strips(terms->biases, in, call->biases) ||
      !add_strips(terms->windows, in, call->windows) || !add_strips(terms->values, in, call->values))
    return nullptr;
  const std::int64_t B = in.query.size(0), H = in.query.size(1), I = in.query.size(2);
  // Few heads with many queries each are cut into parts; how many depends on the sizes alone, not on the threads.
  const std::int64_t parts = std::clamp<std::int64_t>(std::min(16 / std::max<std::int64_t>(B * H, 1), I / 128), 1, 16);
  call->shape = {B, H, I, in.key.size(2), in.query_offset, parts};
  call->key_dim = in.query.size(3);
  call->value_dim = in.value.size(3);
  call->rows = strip_rows(call->shape, in.query.dtype());
  check(*call);
  call->visible = fitting_range(in.visible, call->shape);
  for (const KeyRange& range : terms->ranges) call->ranges.push_back(fitting_range(range, call->shape));
  for (const KeyRange& range : terms->always) call->always.push_back(fitting_range(range, call->shape));
  return call;
}

}  // namespace

Variable attend_fused(const AttentionContext& in, const std::shared_ptr<const Terms>& terms,
                      const AttentionDropout& dropout, AttentionTrace* trace) {
  if (in.query.device() != Device::cpu) return {};
  std::shared_ptr<const Call> call = plan_call(in, terms, dropout);
  if (!call) return {};
  const StripShape& s = call->shape;
  const DType dtype = in.query.dtype();
  Tensor out = strip_gradient_room({s.sentences, s.heads, s.queries, call->value_dim}, 1, dtype);
  Tensor log_total = Tensor::empty({s.sentences, s.heads, s.queries}, dtype), weights;
  if (trace) weights = Tensor::empty({s.sentences, s.heads, s.queries, s.keys}, dtype);
  visit_real("attention", dtype, [&](auto type) {
    Strips<typename decltype(type)::type>(*call).forward(out, log_total, trace ? &weights : nullptr);
  });
  if (trace) {
    trace->weights = weights;
    for (auto& [name, compute] : terms->quantities) trace->quantities.emplace_back(name, compute());
  }

  std::vector<Variable> inputs = call->inputs();
  if (!should_record(inputs)) return out;
  std::vector<Saved> saved(inputs.begin(), inputs.end());
  return record("fused_attention", out, inputs, [call, saved, log_total](const Gradients& g, const Node& node) {
    std::vector<Variable> inputs;
    std::vector<bool> wanted;
    for (std::size_t k = 0; k < saved.size(); ++k) {
      inputs.push_back(saved[k].get(node));
      wanted.push_back(node.needs(k));
    }
    if (grad_enabled())
      return partial_gradients(attend_composed(call->in, *call->terms, call->dropout, nullptr), inputs, g[0]);
    std::vector<Tensor> gradients = backward_of(*call, g[0].value(), log_total, wanted);
    Gradients out;
    for (Tensor& gradient : gradients) out.push_back(gradient.defined() ? Variable(std::move(gradient)) : Variable());
    return out;
  });
}

std::vector<Variable> fused_inputs(const AttentionContext& in, const std::shared_ptr<const Terms>& terms) {
  std::shared_ptr<const Call> call = plan_call(in, terms, {});
  require(call != nullptr, "attention: the fused engine has no form of a term of this method; use the composed engine");
  return call->inputs();
}

namespace {
AttentionEngine chosen = AttentionEngine::fastest;
}

void set_attention_engine(AttentionEngine engine) { chosen = engine; }
AttentionEngine attention_engine() { return chosen; }

Variable attend(const AttentionContext& in, Terms terms, double dropout, AttentionTrace* trace) {
  AttentionDropout drop{dropout, {}};
  if (dropout > 0) {
    std::int64_t weights = in.query.size(0) * in.query.size(1) * in.query.size(2) * in.key.size(2);
    if (terms.score) weights *= in.value.size(3);  // a score may have weights for each dimension of the values
    drop.at = default_generator().reserve(weights);
  }
  auto shared = std::make_shared<const Terms>(std::move(terms));
  if (chosen != AttentionEngine::composed) {
    Variable out = attend_fused(in, shared, drop, trace);
    if (out.defined()) return out;
    require(chosen != AttentionEngine::fused,
            "attention: the fused engine has no form of a term of this method on {}; use the composed engine",
            name(in.query.device()));
  }
  return attend_composed(in, *shared, drop, trace);
}

}  // namespace fovea
