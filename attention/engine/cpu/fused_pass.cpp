#include "attention/engine/cpu/fused_pass.h"

#include <limits>

#include "tensor/random.h"

namespace fovea {

template <class T>
FusedPass<T>::FusedPass(const FusedCall<T>& call, const FusedResult& result, GradientRooms* rooms)
    : call_(call),
      shape_(call.shape),
      result_(result),
      rooms_(rooms),
      stride_(strip_stride<T>(call.shape.keys)),
      value_(with_unit_rows(call.in.value.value())) {
  auto numbers = [&](const Tensor& x) -> T* {
    if (!x.defined()) return nullptr;
    return rooms ? const_cast<T*>(x.data<T>()) : x.mutable_data<T>();
  };
  log_total_ = numbers(result.log_total), focus_ = numbers(result.focus), steps_ = numbers(result.steps);
  if (call.plan->sink.defined()) sink_ = call.plan->sink.value().contiguous();
  for (const Variable& input : call.inputs()) prefetch(input.value());
  if (!rooms) {
    prefetch(result.out);
    return;
  }
  prefetch(rooms->value);
  for (const auto& part : rooms->parts)
    for (const Tensor& room : part) prefetch(room);
}

template <class T>
void FusedPass<T>::prefetch(const Tensor& x) {
  constexpr std::int64_t most = 64 << 10, element = sizeof(T);  // bytes of one matrix: several must fit the cache
  if (!x.defined() || x.rank() != 4 || x.size(0) != shape_.sentences || x.size(1) != shape_.heads) return;
  if (x.strides()[3] != 1 || x.size(2) * x.size(3) * element > most) return;
  prefetched_.push_back({{x.address(), x.strides()[2] * element, x.size(2), x.size(3) * element},
                         x.strides()[0] * element,
                         x.strides()[1] * element});
}

// ---- Heads

template <class T>
typename FusedPass<T>::Head FusedPass<T>::make_head() const {
  Head head{};
  head.space.products = call_.products;
  auto rooms_of = [&](std::size_t part) {
    return rooms_ ? std::span<Tensor>(rooms_->parts[part]) : std::span<Tensor>();
  };
  for (std::size_t k = 0; k < call_.scores.size(); ++k)
    head.scores.push_back(call_.scores[k]->worker(shape_, rooms_of(k)));
  for (std::size_t t = 0; t < terms(); ++t) {
    head.term_scores.emplace_back();
    std::span<Tensor> rooms = rooms_of(call_.scores.size() + t);
    for (const auto& score : term(t).scores()) {
      head.term_scores.back().push_back(score->worker(shape_, rooms));
      if (rooms_) rooms = rooms.subspan(score->inputs().size());
    }
  }
  head.values = value_worker<T>(value_, call_.planes, rooms_ ? rooms_->value : Tensor());
  const std::size_t intervals = call_.seen.intervals(), pieces = call_.in_pieces ? intervals : 0;
  head.bounds.resize((4 + 2 * pieces) * static_cast<std::size_t>(call_.rows));
  head.intervals.resize(intervals);
  return head;
}

template <class T>
void FusedPass<T>::start(Head& head, std::int64_t number) const {
  const std::int64_t head_number = number / shape_.parts, part = number % shape_.parts, h = head_number % shape_.heads;
  const std::int64_t queries = shape_.queries * (part + 1) / shape_.parts - shape_.queries * part / shape_.parts,
                     rows = call_.rows_of_head(h);
  head.item = {head_number / shape_.heads, h, part, (queries + rows - 1) / rows, !rooms_ || !result_.steps.defined(),
               rooms_ != nullptr};
  for (head.score = 0; !call_.scores[head.score]->acts_on(h);) ++head.score;
  for_scores(head, [&](ScoreWorker<T>& score, std::int64_t first_head) {
    score.start(of_own_heads(head.item, first_head), head.space);
  });
  head.values->start(head.item, head.space);
}

template <class T>
void FusedPass<T>::finish(Head& head) const {
  for_scores(head, [](ScoreWorker<T>& score, std::int64_t) { score.finish(); });
  head.values->finish();
}

template <class T>
template <class Body>
void FusedPass<T>::for_scores(Head& head, Body&& body) const {
  body(*head.scores[head.score], call_.scores[head.score]->first_head);
  for (std::size_t t = 0; t < terms(); ++t)
    if (term(t).acts_on(head.item.head))
      for (const auto& score : head.term_scores[t]) body(*score, term(t).first_head);
}

template <class T>
void FusedPass<T>::prefetch_item(Head& head, std::int64_t number) const {
  const std::int64_t head_number = number / shape_.parts, sentence = head_number / shape_.heads,
                     h = head_number % shape_.heads;
  head.space.ahead.clear();
  for (const Prefetched& x : prefetched_) {
    RowsAhead::Matrix rows = x.first;
    rows.data += sentence * x.sentence_stride + h * x.head_stride;
    head.space.ahead.add(rows);
  }
}

// ---- Rows

template <class T>
void FusedPass<T>::find_strip(Head& head, std::int64_t first_query, std::int64_t most, bool begins) const {
  std::int64_t *first = bound(head, 0), *end = bound(head, 1), *visible_first = bound(head, 2),
               *visible_end = bound(head, 3);
  StripRows<T>& rows = head.rows;
  rows = {.sentence = head.item.sentence,
          .head = head.item.head,
          .part = head.item.part,
          .first_query = first_query,
          .count = most,
          .query_offset = shape_.query_offset,
          .keys = shape_.keys,
          .first = first,
          .end = end,
          .visible_first = visible_first,
          .visible_end = visible_end,
          .hull_first = shape_.keys,
          .hull_end = 0,
          .stride = stride_,
          .begins = begins};
  std::fill(head.intervals.begin(), head.intervals.end(), Interval{shape_.keys, 0});
  const bool ends_with_document = call_.in.document_start.defined() && !steps_ && !call_.focus;
  const std::int64_t different = call_.same_keys ? 1 : most;
  for (std::int64_t r = 0; r < different; ++r) {
    const Interval visible = call_.seen.visible(rows.sentence, rows.head, first_query + r);
    if (ends_with_document && r > 0 && visible.first >= visible_end[0]) {
      rows.count = r;
      break;
    }
    visible_first[r] = visible.first;
    visible_end[r] = visible.end;
    find_keys_of_row(head, visible, r);
  }
  if (call_.same_keys)
    for (std::int64_t* bounds : {first, end, visible_first, visible_end})
      std::fill(bounds + 1, bounds + rows.count, bounds[0]);
  rows.hull_first = std::min(rows.hull_first, rows.hull_end) / Vec<T>::lanes * Vec<T>::lanes;
  if (rows.hull_end == 0) rows.hull_first = 0;
  head.pieces = {&head.rows, 1};
  if (call_.in_pieces && !rows.is_empty()) cut_in_pieces(head);
}

template <class T>
void FusedPass<T>::find_keys_of_row(Head& head, Interval visible, std::int64_t r) const {
  StripRows<T>& rows = head.rows;
  Interval all{0, 0};
  for (std::size_t k = 0; k < call_.seen.intervals(); ++k) {
    const Interval keys = call_.seen.interval(k, visible, rows.sentence, rows.head, rows.first_query + r);
    if (k == 0) all = {keys.first, keys.first};  // where a row that sees nothing stands
    if (keys.empty()) continue;
    all = all.empty() ? keys : all.joined(keys);
    head.intervals[k] = head.intervals[k].joined(keys);
  }
  if (call_.has_focus(rows.head) && call_.focus->chooses_keys()) {
    auto [first, end] = call_.focus->keys(of_own_heads(rows, call_.focus->first_head), focus(rows));
    all = all.within({first, end});
  }
  bound(head, 0)[r] = all.first;
  bound(head, 1)[r] = all.end;
  if (all.empty()) return;
  rows.hull_first = std::min(rows.hull_first, all.first);
  rows.hull_end = std::max(rows.hull_end, all.end);
}

template <class T>
void FusedPass<T>::cut_in_pieces(Head& head) const {
  const StripRows<T>& rows = head.rows;
  std::vector<Interval>& hulls = head.intervals;  // joined, in place, to those of the pieces
  std::sort(hulls.begin(), hulls.end(), [](Interval a, Interval b) { return a.first < b.first; });
  std::size_t count = 0;
  for (const Interval hull : hulls) {
    if (hull.empty()) continue;
    if (count > 0 && hull.first < hulls[count - 1].end + least_gap)
      hulls[count - 1] = hulls[count - 1].joined(hull);
    else
      hulls[count++] = hull;
  }
  if (count < 2) return;
  head.parts.assign(count, rows);
  head.pieces = head.parts;
  for (std::size_t p = 0; p < count; ++p) {
    StripRows<T>& piece = head.parts[p];
    piece.piece = static_cast<std::int64_t>(p);
    piece.begins = rows.begins && p == 0;
    piece.hull_first = hulls[p].first / Vec<T>::lanes * Vec<T>::lanes;
    piece.hull_end = hulls[p].end;
    std::int64_t *first = bound(head, 4 + 2 * p), *end = bound(head, 5 + 2 * p);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      first[r] = std::clamp(rows.first[r], piece.hull_first, piece.hull_end);
      end[r] = std::clamp(rows.end[r], first[r], piece.hull_end);
    }
    piece.first = first;
    piece.end = end;
  }
}

template <class T>
StripRows<T> FusedPass<T>::rows_of_term(std::size_t t, const Head& head, const StripRows<T>& rows,
                                        std::int64_t plane) const {
  StripRows<T> own = of_own_heads(rows, term(t).first_head);
  own.plane = plane;
  own.begins = rows.begins && plane == 0;
  own.scores = head.term_scores[t];
  if (!head.steps.kept.empty()) own.kept = head.steps.kept[t] + plane * kept_size(t, rows);
  return own;
}

// ---- Steps

template <class T>
Tensor room_for_steps(const FusedCall<T>& call) {
  const StripShape& s = call.shape;
  const std::int64_t queries = (s.queries + s.parts - 1) / s.parts;
  if (s.keys > few_keys || queries > call.rows || call.planes > 1 || call.focus) return {};
  std::int64_t strips = static_cast<std::int64_t>(call.biases.size() + call.windows.size()) + 1;
  for (const auto& term : call.biases) strips += term->kept_strips();
  for (const auto& term : call.windows) strips += term->kept_strips();
  return Tensor::empty({s.sentences * s.heads * s.parts, strips * queries * strip_stride<T>(s.keys)},
                       call.in.query.dtype());
}
template Tensor room_for_steps(const FusedCall<float>&);
template Tensor room_for_steps(const FusedCall<double>&);

template <class T>
void FusedPass<T>::place_steps(Head& head, const StripRows<T>& rows) const {
  const StripItem& item = head.item;
  T* stored = steps_;  // in the result, or null: in the thread's memory
  if (stored)
    stored += ((item.sentence * shape_.heads + item.head) * shape_.parts + item.part) * result_.steps.shape()[1];
  auto take = [&](std::int64_t elements) {
    return stored ? std::exchange(stored, stored + elements) : head.space.template take<T>(elements);
  };
  Steps& steps = head.steps;
  steps.kept.clear();
  steps.inputs.clear();
  for (std::size_t t = 0; t < terms(); ++t) steps.kept.push_back(take(call_.planes * kept_size(t, rows)));
  steps.weights = take(size(rows));
  const bool in_one_place = !is_backward() && !steps_;
  for (std::size_t t = 0; t < terms(); ++t) steps.inputs.push_back(in_one_place ? steps.weights : take(size(rows)));
}

template <class T>
void FusedPass<T>::make_steps(Head& head, const StripRows<T>& rows) const {
  place_steps(head, rows);
  if (is_backward() && steps_) return;
  auto step = [&](std::size_t t) { return t < terms() ? head.steps.inputs[t] : head.steps.weights; };
  logits(head, rows, step(0));
  for (std::size_t t = 0; t < biases(); ++t) apply(t, head, rows, step(t), step(t + 1));
  normalize(head, rows, step(biases()));
  for (std::size_t t = biases(); t < terms(); ++t) {
    if (step(t) != step(t + 1))  // windows write the visible pairs only, but products with the values read the hull
      for_planes(rows, [&](std::int64_t at, std::int64_t) {
        for_pieces(head, [&](const StripRows<T>& piece) { clear_outside(piece, step(t + 1) + at); });
      });
    apply(t, head, rows, step(t), step(t + 1));
  }
}

template <class T>
void FusedPass<T>::logits(Head& head, const StripRows<T>& rows, T* strip) const {
  const StripScore<T>& score = *call_.scores[head.score];
  for_pieces(head, [&](const StripRows<T>& piece) {
    head.scores[head.score]->logits(of_own_heads(piece, score.first_head), strip, head.space);
  });
  if (score.dimensions() > 0) return;
  for_planes(rows, [&](std::int64_t at, std::int64_t) {
    if (at > 0) std::copy_n(strip, plane_size(rows), strip + at);
  });
}

template <class T>
void FusedPass<T>::apply(std::size_t t, Head& head, const StripRows<T>& rows, const T* from, T* to) const {
  if (!term(t).acts_on(rows.head)) {
    if (to != from) copy(head, rows, from, to);
    return;
  }
  for_planes(rows, [&](std::int64_t at, std::int64_t plane) {
    for_pieces(head, [&](const StripRows<T>& piece) {
      WorkspaceScope taken(head.space);
      term(t).forward(rows_of_term(t, head, piece, plane), from + at, to + at, head.space);
    });
  });
}

template <class T>
void FusedPass<T>::normalize(Head& head, const StripRows<T>& rows, T* strip) const {
  for_planes(rows, [&](std::int64_t at, std::int64_t plane) {
    LogTotal<T>* total = log_totals(rows, plane);
    T* matrix = strip + at;
    for_pieces(head, [&](const StripRows<T>& piece) { call_.exclude(piece, matrix); });
    if (call_.has_focus(rows.head)) {
      const StripRows<T> own = of_own_heads(rows, call_.focus->first_head);
      if (is_backward())
        call_.focus->forward_again(own, matrix, total, focus(rows));
      else
        call_.focus->forward(own, matrix, total, focus(rows));
    } else if (call_.has_densities(rows.head)) {
      for_pieces(head, [&](const StripRows<T>& piece) { density_rows(piece.keys_of_rows(), matrix); });
    } else if (is_backward()) {
      for_pieces(head, [&](const StripRows<T>& piece) { softmax_rows_again(piece.keys_of_rows(), matrix, total); });
    } else {
      softmax(head, matrix, sink(rows.head), total);
    }
    for_pieces(head, [&](const StripRows<T>& piece) { clear_outside(piece, matrix); });
  });
}

/// The sink takes part in the softmax of the first piece.
template <class T>
void FusedPass<T>::softmax(Head& head, T* matrix, T sink, LogTotal<T>* totals) const {
  softmax_rows(head.pieces[0].keys_of_rows(), matrix, sink, totals);
  if (head.pieces.size() == 1) return;
  WorkspaceScope taken(head.space);
  const auto count = static_cast<std::int64_t>(head.pieces.size());
  auto* rows = head.space.template take<RowsOfKeys>(count);
  auto** of_piece = head.space.template take<LogTotal<T>*>(count);
  for (std::int64_t p = 0; p < count; ++p) {
    const StripRows<T>& piece = head.pieces[static_cast<std::size_t>(p)];
    rows[p] = piece.keys_of_rows();
    of_piece[p] = p == 0 ? totals : head.space.template take<LogTotal<T>>(piece.count);
    if (p > 0) softmax_rows(rows[p], matrix, -std::numeric_limits<T>::infinity(), of_piece[p]);
  }
  const auto pieces = static_cast<std::size_t>(count);
  join_softmax<T>({rows, pieces}, {of_piece, pieces}, matrix);
}

template <class T>
typename FusedPass<T>::DropoutFactors FusedPass<T>::dropout_factors(Head& head, const StripRows<T>& rows) const {
  const DropoutMask mask = call_.dropout.mask(shape_.keys);
  const std::int64_t width = rows.hull_end - rows.hull_first;
  const DropoutFactors factors{head.space.template take<T>(call_.planes * rows.count * width), width, rows.hull_first};
  for (std::int64_t plane = 0; plane < call_.planes; ++plane) {
    const std::int64_t first_row =
        ((plane * shape_.sentences + rows.sentence) * shape_.heads + rows.head) * shape_.queries + rows.first_query;
    for_pieces(head, [&](const StripRows<T>& piece) {
      for (std::int64_t r = 0; r < rows.count; ++r)
        fovea::dropout_factors(mask, first_row + r, piece.first[r], piece.end[r], factors.row(plane * rows.count + r));
    });
  }
  return factors;
}

template <class T>
void FusedPass<T>::multiply(const Head& head, const StripRows<T>& rows, const DropoutFactors& factors, T* strip) const {
  for_planes(rows, [&](std::int64_t at, std::int64_t plane) {
    for_pieces(head, [&](const StripRows<T>& piece) {
      T* to = strip + at;
      for (std::int64_t r = 0; r < rows.count; ++r, to += stride_) {
        const T* row = factors.row(plane * rows.count + r);
        for_keys<T>(piece.first[r], piece.end[r], [&](std::int64_t j, auto count) {
          store_vector(load_vector(to + j, count) * load_vector(row + j, count), to + j, count);
        });
      }
    });
  });
}

template <class T>
void FusedPass<T>::copy(const Head& head, const StripRows<T>& rows, const T* from, T* to) const {
  for_planes(rows, [&](std::int64_t at, std::int64_t) {
    for_pieces(head, [&](const StripRows<T>& piece) {
      for (std::int64_t r = 0; r < rows.count; ++r) {
        const std::int64_t row = at + r * stride_;
        std::copy(from + row + piece.hull_first, from + row + piece.hull_end, to + row + piece.hull_first);
      }
    });
  });
}

template <class T>
LogTotal<T>* FusedPass<T>::log_totals(const StripRows<T>& rows, std::int64_t plane) const {
  return reinterpret_cast<LogTotal<T>*>(log_total_) +
         ((plane * shape_.sentences + rows.sentence) * shape_.heads + rows.head) * shape_.queries + rows.first_query;
}

template <class T>
FocusOfHead<T> FusedPass<T>::focus(const StripRows<T>& rows) const {
  const std::int64_t head = rows.sentence * shape_.heads + rows.head;
  const T* gradient = focus_gradient_.defined() ? focus_gradient_.data<T>() + head * shape_.queries : nullptr;
  return {focus_ + head * shape_.queries, gradient, rooms_ ? rooms_->carry.template mutable_data<T>() + head : nullptr};
}

template <class T>
T FusedPass<T>::sink(std::int64_t head) const {
  return sink_.defined() ? sink_.data<T>()[head] : -std::numeric_limits<T>::infinity();
}

template class FusedPass<float>;
template class FusedPass<double>;

}  // namespace fovea
