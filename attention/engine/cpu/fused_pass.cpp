#include "attention/engine/cpu/fused_pass.h"

#include <mutex>

#include "tensor/random.h"

namespace fovea {

namespace {

/// Up to this many keys a head's strip is no larger than its inputs.
constexpr std::int64_t few_keys = 64;
/// Two intervals of keys with at least this many keys between them are processed one by one. With fewer, that costs
/// more than computing the keys between.
constexpr std::int64_t least_gap = 64;

/// The call, its result and the gradients' buffers, which all threads of a forward or backward pass share.
template <class T>
struct Pass {
  const FusedCall<T>& call;
  const FusedResult& result;
  FusedTrace trace;
  Tensor out_gradient, focus_gradient;          ///< undefined in the forward pass; focus_gradient may be undefined
  std::vector<Tensor> gradients = {};           ///< of FusedCall::inputs(); undefined where not wanted
  T *log_total = {}, *focus = {}, *steps = {};  ///< of the result, or null; the backward pass only reads them

  /// A tensor [B, H, X, D] of which a thread fetches the rows of the next item's head into the cache while it processes
  /// one item; strides are in bytes.
  struct Prefetched {
    RowsAhead::Matrix first;  ///< the matrix of sentence 0, head 0
    std::int64_t sentence_stride, head_stride;
  };
  std::vector<Prefetched> prefetched = {};

  bool is_backward() const { return out_gradient.defined(); }
  bool traces_rows() const { return trace.rows.key.defined(); }

  void prefetch(const Tensor& x) {
    constexpr std::int64_t most = 64 << 10, element = sizeof(T);  // bytes of one matrix: several must fit the cache
    if (!x.defined() || x.rank() != 4 || x.size(0) != call.shape.sentences || x.size(1) != call.shape.heads) return;
    if (x.strides()[3] != 1 || x.size(2) * x.size(3) * element > most) return;
    prefetched.push_back({{x.address(), x.strides()[2] * element, x.size(2), x.size(3) * element},
                          x.strides()[0] * element,
                          x.strides()[1] * element});
  }

  /// Processes all items, on all threads.
  void run();
};

/// One thread's part of a pass. It processes items one after the other; all members below are of the current item and
/// strip.
template <class T>
class ThreadOfPass {
 public:
  explicit ThreadOfPass(Pass<T>& pass)
      : pass_(pass), call_(pass.call), shape_(pass.call.shape), stride_(strip_stride<T>(pass.call.shape.keys)) {
    space_.products = call_.products;
    if (call_.plan->sink.defined()) sink_ = call_.plan->sink.value().contiguous();
    std::size_t next = 0;
    auto copy = [&](const auto& parts, auto& own) {
      for (const auto& part : parts) {
        own.push_back(part.copy(*part.model));
        own.back()->heads = part.heads, own.back()->may_change_zeros = part.may_change_zeros;
        const std::size_t inputs = part.inputs.size();
        if (pass.is_backward()) own.back()->gradients = std::span<Tensor>(pass.gradients).subspan(next, inputs);
        next += inputs;
      }
    };
    copy(call_.scores, scores_), copy(call_.terms, terms_), copy(call_.focus, focus_), copy(call_.values, values_);
    const std::size_t intervals = call_.seen.intervals();
    bounds_.resize((4 + (call_.by_interval ? 2 * intervals : 0)) * static_cast<std::size_t>(call_.rows));
    hulls_.resize(intervals);
  }

  /// Processes item `number`; items are counted over sentences, heads and parts. Prefetches for the next one, unless
  /// this is the last item of the thread.
  void process(std::int64_t number, bool is_last) {
    WorkspaceScope taken(space_);
    const std::int64_t h = number / shape_.parts % shape_.heads, part = number % shape_.parts,
                       begin = shape_.queries * part / shape_.parts, end = shape_.queries * (part + 1) / shape_.parts,
                       most = call_.rows_of_head(h);
    item_ = {number / shape_.parts / shape_.heads,
             h,
             part,
             (end - begin + most - 1) / most,
             !pass_.is_backward() || !pass_.steps,
             pass_.is_backward()};
    for_own_parts([&](StripPart& own) {
      StripItem item = item_;
      item.head -= own.heads.first;
      own.start(item, space_);
    });
    for (const auto& score : scores_)
      if (score->acts_on(h)) score_ = score.get();
    if (has_focus()) {
      const std::int64_t own = (item_.sentence * focus_[0]->heads.count + h - focus_[0]->heads.first) * shape_.queries;
      focus_[0]->after = pass_.focus + own;
      if (pass_.focus_gradient.defined()) focus_[0]->after_gradient = pass_.focus_gradient.template data<T>() + own;
    }
    space_.ahead.clear();
    if (!is_last) prefetch_item(number + 1);
    // with a focus, the backward pass goes from the last strip to the first; then all have `most` rows but the last one
    const bool from_last = pass_.is_backward() && !focus_.empty();
    std::int64_t first = from_last ? begin + (end - begin - 1) / most * most : begin;
    for (bool begins = true; begin <= first && first < end; begins = false) {
      WorkspaceScope taken_by_strip(space_);
      find_strip(first, std::min(most, end - first), begins);
      make_steps();
      if (pass_.is_backward())
        backward_strip();
      else
        forward_strip();
      first += from_last ? -most : rows_.count;
    }
    for_own_parts([](StripPart& own) { own.finish(); });
    space_.ahead.fetch_all();
  }

 private:
  /// body(part) for the parts that act on the item's head.
  template <class Body>
  void for_own_parts(Body&& body) {
    auto visit = [&](auto& parts) {
      for (auto& part : parts)
        if (part->acts_on(item_.head)) body(*part);
    };
    visit(scores_), visit(terms_), visit(focus_), visit(values_);
  }
  bool has_focus() const { return call_.has_focus(item_.head); }

  /// Begins to prefetch for item `number`.
  void prefetch_item(std::int64_t number) {
    const std::int64_t sentence = number / shape_.parts / shape_.heads, h = number / shape_.parts % shape_.heads;
    for (const auto& x : pass_.prefetched) {
      RowsAhead::Matrix rows = x.first;
      rows.data += sentence * x.sentence_stride + h * x.head_stride;
      space_.ahead.add(rows);
    }
  }

  // ---- Rows

  /// Row r of the bounds begins at bound(n)[r]; these are `first` and `end` of the strip, those of the visible keys,
  /// and then `first` and `end` of each interval.
  std::int64_t* bound(std::size_t n) { return bounds_.data() + static_cast<std::int64_t>(n) * call_.rows; }

  /// Sets rows_ and intervals_ to the strip of `most` queries from first_query on, or of fewer where a document ends:
  /// the queries of a strip belong to one document, so that pairs of two documents are not computed. `begins`: whether
  /// this is the first strip of the item that is processed.
  void find_strip(std::int64_t first_query, std::int64_t most, bool begins) {
    std::int64_t *visible_first = bound(2), *visible_end = bound(3);
    rows_ = {.sentence = item_.sentence,
             .head = item_.head,
             .part = item_.part,
             .first_query = first_query,
             .count = most,
             .query_offset = shape_.query_offset,
             .keys = shape_.keys,
             .first = bound(0),
             .end = bound(1),
             .visible_first = visible_first,
             .visible_end = visible_end,
             .hull_first = shape_.keys,
             .hull_end = 0,
             .stride = stride_,
             .begins = begins};
    std::fill(hulls_.begin(), hulls_.end(), Interval{shape_.keys, 0});
    const bool ends_with_document = call_.in.document_start.defined() && !pass_.steps && focus_.empty();
    for (std::int64_t r = 0; r < (call_.same_keys ? 1 : most); ++r) {
      const Interval visible = call_.seen.visible(rows_.sentence, rows_.head, first_query + r);
      if (ends_with_document && r > 0 && visible.first >= visible_end[0]) {
        rows_.count = r;
        break;
      }
      visible_first[r] = visible.first;
      visible_end[r] = visible.end;
      find_keys_of_row(visible, r);
    }
    if (call_.same_keys)
      for (std::size_t n = 0; n < 4; ++n) std::fill_n(bound(n) + 1, rows_.count - 1, bound(n)[0]);
    rows_.hull_first = std::min(rows_.hull_first, rows_.hull_end) / Vec<T>::lanes * Vec<T>::lanes;
    intervals_ = {&rows_, 1};
    if (call_.by_interval && !rows_.is_empty()) find_intervals();
  }

  /// Writes the keys of row r to the bounds, and adds them to the hull of the strip and to those of its intervals.
  void find_keys_of_row(Interval visible, std::int64_t r) {
    Interval all{0, 0};
    for (std::size_t k = 0; k < hulls_.size(); ++k) {
      const Interval keys = call_.seen.interval(k, visible, rows_.sentence, rows_.head, rows_.first_query + r);
      if (k == 0) all = {keys.first, keys.first};  // the empty interval of a row that sees no key
      if (keys.empty()) continue;
      all = all.empty() ? keys : all.joined(keys);
      hulls_[k] = hulls_[k].joined(keys);
    }
    if (call_.focus_chooses_keys(rows_.head)) all = all.within(focus_[0]->keys(own_rows(*focus_[0], rows_)));
    bound(0)[r] = all.first;
    bound(1)[r] = all.end;
    if (all.empty()) return;
    rows_.hull_first = std::min(rows_.hull_first, all.first);
    rows_.hull_end = std::max(rows_.hull_end, all.end);
  }

  /// Sets intervals_: one for each group of hulls with at least least_gap keys between it and the next.
  void find_intervals() {
    std::sort(hulls_.begin(), hulls_.end(), [](Interval a, Interval b) { return a.first < b.first; });
    separate_.clear();
    for (const Interval hull : hulls_) {
      if (hull.empty()) continue;
      if (!separate_.empty() && hull.first < separate_.back().hull_end + least_gap) {
        separate_.back().hull_end = std::max(separate_.back().hull_end, hull.end);
        continue;
      }
      separate_.push_back(rows_);
      separate_.back().interval = static_cast<std::int64_t>(separate_.size()) - 1;
      separate_.back().begins = rows_.begins && separate_.size() == 1;
      separate_.back().hull_first = hull.first / Vec<T>::lanes * Vec<T>::lanes;
      separate_.back().hull_end = hull.end;
    }
    if (separate_.size() < 2) return;
    intervals_ = separate_;
    for (std::size_t n = 0; n < separate_.size(); ++n) {
      StripRows<T>& keys = separate_[n];
      std::int64_t *first = bound(4 + 2 * n), *end = bound(5 + 2 * n);
      for (std::int64_t r = 0; r < rows_.count; ++r) {
        first[r] = std::clamp(rows_.first[r], keys.hull_first, keys.hull_end);
        end[r] = std::clamp(rows_.end[r], first[r], keys.hull_end);
      }
      keys.first = first;
      keys.end = end;
    }
  }

  /// Rows with the head counted as the part does.
  static StripRows<T> own_rows(const StripPart& part, const StripRows<T>& rows) {
    StripRows<T> own = rows;
    own.head -= part.heads.first;
    return own;
  }
  StripRows<T> rows_of_term(std::size_t t, const StripRows<T>& rows, std::int64_t plane) const {
    StripRows<T> own = own_rows(*terms_[t], rows);
    own.plane = plane;
    own.begins = rows.begins && plane == 0;
    own.saved = saved_[t] + plane * terms_[t]->saved_strips * rows_.size();
    return own;
  }

  /// body(offset of the plane in a strip, number of the plane) for each plane.
  template <class Body>
  void for_planes(Body&& body) const {
    for (std::int64_t p = 0; p < call_.planes; ++p) body(p * rows_.size(), p);
  }
  /// body(rows, offset of the plane, number of the plane) for each interval of each plane.
  template <class Body>
  void for_intervals(Body&& body) const {
    for_planes([&](std::int64_t at, std::int64_t plane) {
      for (const StripRows<T>& rows : intervals_) body(rows, at, plane);
    });
  }

  T* take_strip() { return space_.take<T>(call_.planes * rows_.size()); }
  /// The number of the strip's first row in a matrix [planes, B, H, I].
  std::int64_t row_number(std::int64_t plane) const {
    return ((plane * shape_.sentences + rows_.sentence) * shape_.heads + rows_.head) * shape_.queries +
           rows_.first_query;
  }
  LogTotal<T>* log_totals(std::int64_t plane) const {
    return reinterpret_cast<LogTotal<T>*>(pass_.log_total) + row_number(plane);
  }
  T sink() const { return sink_.defined() ? sink_.data<T>()[item_.head] : -infinity<T>; }
  void clear_outside_of_keys(T* strip) const {
    for_intervals([&](const StripRows<T>& rows, std::int64_t at, std::int64_t) { clear_outside(rows, strip + at); });
  }

  // ---- Steps

  /// Sets steps_ to the steps of this strip: those that the forward pass stored, or else computes them. In a forward
  /// pass that stores none all steps are in one place, and only the last one, the weights, remains.
  void make_steps() {
    T* stored = pass_.steps;  // in the result, or null: in the thread's memory
    if (stored)
      stored += ((item_.sentence * shape_.heads + item_.head) * shape_.parts + item_.part) * pass_.result.steps.size(1);
    auto take = [&](std::int64_t strips) {
      const std::int64_t elements = strips * call_.planes * rows_.size();
      return stored ? std::exchange(stored, stored + elements) : space_.take<T>(elements);
    };
    saved_.clear();
    for (const auto& term : terms_) saved_.push_back(take(term->saved_strips));
    steps_.assign(terms_.size() + 1, take(1));
    if (pass_.is_backward() || pass_.steps)
      for (std::size_t t = 0; t < terms_.size(); ++t) steps_[t] = take(1);
    if (!item_.logits) return;
    logits(steps_[0]);
    for (std::size_t t = 0; t <= terms_.size(); ++t) {
      if (t == call_.biases) normalize(steps_[t]);
      if (t < terms_.size()) apply(t, steps_[t], steps_[t + 1]);
    }
  }

  /// Writes the logits of all planes.
  void logits(T* strip) {
    for (const StripRows<T>& rows : intervals_) score_->logits(own_rows(*score_, rows), strip, space_);
    if (score_->planes > 0) return;
    for_planes([&](std::int64_t at, std::int64_t) {
      if (at > 0) std::copy_n(strip, rows_.size(), strip + at);
    });
  }

  /// to = term t applied to `from`; a copy of `from` if the term does not act on this head. `to` may be `from`.
  void apply(std::size_t t, const T* from, T* to) {
    if (!terms_[t]->acts_on(item_.head)) {
      if (to != from) copy(from, to);
      return;
    }
    // A window writes only the pairs that a row sees. The product with the values reads the hull, all keys that any row
    // of the strip sees, so the rest of the hull becomes 0.
    if (t >= call_.biases && to != from) clear_outside_of_keys(to);
    for_intervals([&](const StripRows<T>& rows, std::int64_t at, std::int64_t plane) {
      WorkspaceScope taken(space_);
      terms_[t]->forward(rows_of_term(t, rows, plane), from + at, to + at, space_);
      if (hides_after(t)) call_.exclude(rows, to + at, T(0));
    });
  }
  /// Whether term t is a window after which the weights of hidden keys must be set to 0.
  bool hides_after(std::size_t t) const { return t >= call_.biases && terms_[t]->may_change_zeros; }

  /// Replaces logits by weights: softmax, also with a focus, or densities. The backward pass uses the normalisers of
  /// the forward pass.
  void normalize(T* strip) {
    for_intervals([&](const StripRows<T>& rows, std::int64_t at, std::int64_t) {
      call_.exclude(rows, strip + at, -infinity<T>);
    });
    for_planes([&](std::int64_t at, std::int64_t plane) {
      LogTotal<T>* totals = log_totals(plane);
      T* matrix = strip + at;
      if (pass_.traces_rows() && !has_focus()) store_logits(intervals_, matrix, plane);
      if (has_focus()) {
        const StripRows<T> own = own_rows(*focus_[0], rows_);
        auto store = [&](const StripRows<T>& row, const T* logits) {
          if (pass_.traces_rows()) store_logits({&row, 1}, logits, plane);
        };
        if (pass_.is_backward())
          focus_[0]->forward_again(own, matrix, totals);
        else
          focus_[0]->forward(own, matrix, totals, store);
      } else if (call_.has_densities(item_.head)) {
        density_rows<T>(intervals_, matrix);
      } else if (pass_.is_backward()) {
        softmax_rows_again<T>(intervals_, matrix, totals);
      } else {
        softmax_rows<T>(intervals_, matrix, sink(), totals);
      }
    });
    clear_outside_of_keys(strip);
  }

  /// Copies what lies in the hull, of all planes. (A narrow window sees little of a strip.)
  void copy(const T* from, T* to) const {
    for_intervals([&](const StripRows<T>& rows, std::int64_t at, std::int64_t) {
      for (std::int64_t r = 0; r < rows.count; ++r, at += stride_)
        std::copy(from + at + rows.hull_first, from + at + rows.hull_end, to + at + rows.hull_first);
    });
  }

  /// Dropout's factors of a strip, 1 / (1 − p) or 0, written only for the keys that a row sees. The composed engine
  /// draws the same.
  T* take_dropout_factors() {
    T* factors = take_strip();
    const DropoutMask mask = call_.dropout.mask(shape_.keys);
    for_intervals([&](const StripRows<T>& rows, std::int64_t at, std::int64_t plane) {
      for (std::int64_t r = 0; r < rows.count; ++r)
        dropout_factors(mask, row_number(plane) + r, rows.first[r], rows.end[r], factors + at + r * stride_);
    });
    return factors;
  }
  /// Multiplies a strip by its dropout factors, in place.
  void drop(const T* factors, T* strip) const {
    for_intervals([&](const StripRows<T>& rows, std::int64_t at, std::int64_t) {
      change_rows<T>({&rows, 1}, strip + at, [&](std::int64_t r, Vec<T> x, std::int64_t j, auto count) {
        return x * load_vector(factors + at + r * stride_ + j, count);
      });
    });
  }
  T* copy_of_weights() {
    T* weights = take_strip();
    copy(steps_.back(), weights);
    return weights;
  }

  // ---- Forward

  void forward_strip() {
    T* weights = steps_.back();
    if (pass_.trace.weights.defined()) store_weights(weights);
    if (pass_.traces_rows()) store_entropy_and_mass(weights);
    if (call_.dropout.probability > 0) {
      if (pass_.steps) weights = copy_of_weights();  // the backward pass will read those of before
      drop(take_dropout_factors(), weights);
    }
    const Tensor& out = pass_.result.out;
    const MatrixView<T> out_rows = gradient_matrix<T>(out, item_).from(rows_.first_query, 0);
    for (const StripRows<T>& rows : intervals_)
      for (const auto& part : values_)
        if (part->acts_on(item_.head)) part->forward(own_rows(*part, rows), weights, out_rows, space_);
  }

  /// Copies the strip's weights to the trace, with 0 for keys that a row does not see.
  void store_weights(const T* strip) const {
    const std::int64_t J = shape_.keys;
    T* all = pass_.trace.weights.template mutable_data<T>();
    for_planes([&](auto, std::int64_t plane) { std::fill_n(all + row_number(plane) * J, rows_.count * J, T(0)); });
    for_intervals([&](const StripRows<T>& rows, std::int64_t at, std::int64_t plane) {
      for (std::int64_t r = 0; r < rows.count; ++r) {
        const T* row = strip + at + r * stride_;
        std::copy(row + rows.first[r], row + rows.end[r], all + (row_number(plane) + r) * J + rows.first[r]);
      }
    });
  }

  /// Stores the row quantities of logits, for the rows of these intervals; the first of them is the first of `strip`.
  void store_logits(StripIntervals<T> intervals, const T* strip, std::int64_t plane) const {
    const RowQuantities& to = pass_.trace.rows;
    T *maximum = to.maximum.mutable_data<T>(), *logsumexp = to.logsumexp.mutable_data<T>();
    auto* key = to.key.mutable_data<std::int32_t>();
    std::int64_t at = row_number(plane) + intervals[0].first_query - rows_.first_query;
    for (std::int64_t r = 0; r < intervals[0].count; ++r, ++at) {
      const RowLogits<T> own = logits_of_row<T>(intervals, strip + r * stride_, r, sink());
      maximum[at] = own.maximum, key[at] = own.key, logsumexp[at] = own.logsumexp;
    }
  }

  /// Stores the entropies of the strip's weights, and adds them to the mass of their keys.
  void store_entropy_and_mass(const T* strip) const {
    const RowQuantities& to = pass_.trace.rows;
    T *entropy = to.entropy.mutable_data<T>(), *mass = to.key_mass.mutable_data<T>();
    for_planes([&](std::int64_t at, std::int64_t plane) {
      for (std::int64_t r = 0; r < rows_.count; ++r)
        entropy[row_number(plane) + r] = entropy_of_row<T>(intervals_, strip + at + r * stride_, r);
    });
    for_intervals([&](const StripRows<T>& rows, std::int64_t at, std::int64_t plane) {
      const std::int64_t first = (item_.part * call_.planes + plane) * shape_.sentences + item_.sentence;
      T* of_head = mass + (first * shape_.heads + item_.head) * shape_.keys;
      for (std::int64_t r = 0; r < rows.count; ++r)
        for (std::int64_t j = rows.first[r]; j < rows.end[r]; ++j) of_head[j] += strip[at + r * stride_ + j];
    });
  }

  // ---- Backward

  void backward_strip() {
    const bool drops = call_.dropout.probability > 0;
    const T* factors = drops ? take_dropout_factors() : nullptr;
    T* weights = drops ? copy_of_weights() : steps_.back();
    if (drops) drop(factors, weights);
    const MatrixView<const T> g = head_matrix<T>(pass_.out_gradient, item_).from(rows_.first_query, 0);
    T* gradient = take_strip();
    for (const StripRows<T>& rows : intervals_)
      for (const auto& part : values_)
        if (part->acts_on(item_.head)) part->backward(own_rows(*part, rows), weights, g, gradient, space_);
    clear_outside_of_keys(gradient);
    if (drops) drop(factors, gradient);
    for (std::size_t t = terms_.size() + 1; t-- > 0;) {
      if (t < terms_.size()) back_through_term(t, steps_[t], gradient);
      if (t == call_.biases) back_through_softmax(steps_[t], gradient);
    }
    back_through_score(gradient);
  }

  void back_through_term(std::size_t t, const T* from, T* gradient) {
    if (!terms_[t]->acts_on(item_.head)) return;
    for_intervals([&](const StripRows<T>& rows, std::int64_t at, std::int64_t plane) {
      WorkspaceScope taken(space_);
      if (hides_after(t)) call_.exclude(rows, gradient + at, T(0));
      terms_[t]->backward(rows_of_term(t, rows, plane), from + at, gradient + at, terms_[t]->gradients, space_);
    });
  }

  void back_through_softmax(const T* weights, T* gradient) {
    for_planes([&](std::int64_t at, std::int64_t plane) {
      if (has_focus()) return focus_[0]->backward(own_rows(*focus_[0], rows_), weights + at, gradient + at);
      if (call_.has_densities(item_.head)) return density_rows_backward<T>(intervals_, weights + at, gradient + at);
      T* means = space_.take<T>(rows_.count);
      softmax_rows_backward<T>(intervals_, weights + at, gradient + at, means);
      if (!sink_.defined() || !pass_.gradients.back().defined()) return;
      const Tensor& buffer = pass_.gradients.back();
      T& of_sink = buffer.mutable_data<T>()[broadcast_offset(buffer, rows_.part, rows_.sentence, rows_.head)];
      const LogTotal<T>* total = log_totals(plane);
      for (std::int64_t r = 0; r < rows_.count; ++r) of_sink -= exp(sink() - total[r].value - total[r].rest) * means[r];
    });
  }

  void back_through_score(T* gradient) {
    if (score_->planes == 0)  // all planes began with the same logits: their gradients are added up
      for_planes([&](std::int64_t at, std::int64_t) {
        for (std::int64_t e = 0; at > 0 && e < rows_.size(); ++e) gradient[e] += gradient[at + e];
      });
    for (const StripRows<T>& rows : intervals_) score_->backward(own_rows(*score_, rows), gradient, space_);
  }

  Pass<T>& pass_;
  const FusedCall<T>& call_;
  const StripShape& shape_;
  const std::int64_t stride_;
  Workspace space_;
  Tensor sink_;  ///< [H], contiguous
  std::vector<std::unique_ptr<StripScore<T>>> scores_;
  std::vector<std::unique_ptr<StripTerm<T>>> terms_;
  std::vector<std::unique_ptr<FocusStrips<T>>> focus_;
  std::vector<std::unique_ptr<StripValues<T>>> values_;

  StripItem item_ = {};
  StripScore<T>* score_ = nullptr;  ///< the score that acts on the item's head

  StripRows<T> rows_ = {};              ///< the whole strip
  StripIntervals<T> intervals_;         ///< `separate_`, or rows_ as the only interval
  std::vector<StripRows<T>> separate_;  ///< the strip's intervals, if there are several
  std::vector<Interval> hulls_;         ///< of SeenKeys::intervals()
  std::vector<std::int64_t> bounds_;
  std::vector<T*> steps_;  ///< the input of each term, and the weights
  std::vector<T*> saved_;  ///< StripRows::saved of each term
};

template <class T>
void Pass<T>::run() {
  auto numbers = [&](const Tensor& x) -> T* {
    if (!x.defined()) return nullptr;
    return is_backward() ? const_cast<T*>(x.data<T>()) : x.mutable_data<T>();
  };
  log_total = numbers(result.log_total), focus = numbers(result.focus), steps = numbers(result.steps);
  for (const Variable& input : call.inputs()) prefetch(input.value());
  prefetch(is_backward() ? out_gradient : result.out);
  for (const Tensor& gradient : gradients) prefetch(gradient);
  const StripShape& shape = call.shape;
  const std::int64_t items = shape.sentences * shape.heads * shape.parts,
                     items_at_once = shape.whole_sentences ? shape.heads * shape.parts : 1,
                     width = call.in.key.size(-1) + call.in.value.size(-1),
                     work = shape.queries * shape.keys * width / shape.parts * items_at_once;
  // All threads' memory lives until the last thread is done. A thread that ended early would otherwise hand its memory
  // to one that begins late, and the number of blocks that a pass needs would depend on how busy the machine is.
  std::vector<std::unique_ptr<ThreadOfPass<T>>> threads;
  std::mutex mutex;
  parallel_for(items / items_at_once, 1 + 16 * element_grain / (work + 1), [&](std::int64_t begin, std::int64_t end) {
    auto own = std::make_unique<ThreadOfPass<T>>(*this);
    ThreadOfPass<T>& thread = *own;
    {
      std::lock_guard lock(mutex);
      threads.push_back(std::move(own));
    }
    for (std::int64_t k = begin * items_at_once; k < end * items_at_once; ++k)
      thread.process(k, k + 1 == end * items_at_once);
  });
}

}  // namespace

template <class T>
Tensor memory_of_steps(const FusedCall<T>& call) {
  const StripShape& s = call.shape;
  const std::int64_t queries = (s.queries + s.parts - 1) / s.parts;
  if (s.keys > few_keys || queries > call.rows || call.planes > 1 || !call.focus.empty()) return {};
  std::int64_t strips = 1;
  for (const auto& term : call.terms) strips += 1 + term.model->saved_strips;
  return Tensor::empty({s.sentences * s.heads * s.parts, strips * queries * strip_stride<T>(s.keys)},
                       call.in.query.dtype());
}

template <class T>
RowQuantities room_for_rows(const FusedCall<T>& call) {
  const StripShape& s = call.shape;
  auto per_query = [&](DType dtype) { return Tensor::empty({call.planes, s.sentences, s.heads, s.queries}, dtype); };
  const DType dtype = call.in.query.dtype();
  return {per_query(dtype), per_query(DType::i32), per_query(dtype), per_query(dtype),
          Tensor::zeros({s.parts, call.planes, s.sentences, s.heads, s.keys}, dtype)};
}

template <class T>
void fused_forward(const FusedCall<T>& call, const FusedResult& result, const FusedTrace& trace) {
  Pass<T>{call, result, trace, {}, {}}.run();
}

template <class T>
std::vector<Tensor> fused_backward(const FusedCall<T>& call, const FusedResult& result, const Tensor& out_gradient,
                                   const Tensor& focus_gradient, const std::vector<bool>& wanted) {
  Pass<T> pass{call, result, {}, with_unit_rows(out_gradient), focus_gradient};
  const bool has_queries = call.shape.queries > 0;  // otherwise no strip begins the gradients, which are 0
  auto add = [&](const StripInput& input) {
    const DType dtype = input.variable.dtype();
    Tensor buffer;
    if (wanted[pass.gradients.size()])
      buffer = !has_queries ? Tensor::zeros(input.variable.shape(), dtype)
               : input.adds ? Tensor::zeros(input.buffer, dtype)
                            : empty_by_position(input.buffer, dtype);
    pass.gradients.push_back(buffer);
  };
  call.for_kinds([&](const auto& parts) {
    for (const auto& part : parts)
      for (const StripInput& input : part.inputs) add(input);
  });
  const StripShape& s = call.shape;
  if (const Variable& sink = call.plan->sink; sink.defined()) add({sink, {s.parts, s.sentences, s.heads}});
  if (has_queries) pass.run();
  return pass.gradients;
}

template Tensor memory_of_steps(const FusedCall<float>&);
template Tensor memory_of_steps(const FusedCall<double>&);
template RowQuantities room_for_rows(const FusedCall<float>&);
template RowQuantities room_for_rows(const FusedCall<double>&);
template void fused_forward(const FusedCall<float>&, const FusedResult&, const FusedTrace&);
template void fused_forward(const FusedCall<double>&, const FusedResult&, const FusedTrace&);
template std::vector<Tensor> fused_backward(const FusedCall<float>&, const FusedResult&, const Tensor&, const Tensor&,
                                            const std::vector<bool>&);
template std::vector<Tensor> fused_backward(const FusedCall<double>&, const FusedResult&, const Tensor&, const Tensor&,
                                            const std::vector<bool>&);

}  // namespace fovea
