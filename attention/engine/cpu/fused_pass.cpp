#include "attention/engine/cpu/fused_pass.h"

#include <limits>

#include "tensor/random.h"

namespace fovea {

template <class T>
FusedPass<T>::FusedPass(const FusedCall& call, const FusedResult& result, GradientRooms* rooms)
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
  log_total_ = numbers(result.log_total), carried_ = numbers(result.carried), steps_ = numbers(result.steps);
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
    head.scores.push_back(call_.scores[k]->worker(T(), shape_, rooms_of(k)));
  for (std::size_t t = 0; t < terms(); ++t) {
    head.term_scores.emplace_back();
    std::span<Tensor> rooms = rooms_of(call_.scores.size() + t);
    for (const auto& score : term(t).scores()) {
      head.term_scores.back().push_back(score->worker(T(), shape_, rooms));
      if (rooms_) rooms = rooms.subspan(score->inputs().size());
    }
  }
  head.values = value_worker<T>(value_, call_.planes, rooms_ ? rooms_->value : Tensor());
  head.bounds.resize(static_cast<std::size_t>(bounds_of_row * call_.rows));
  return head;
}

template <class T>
void FusedPass<T>::start(Head& head, std::int64_t number) const {
  const std::int64_t head_number = number / shape_.parts, part = number % shape_.parts, h = head_number % shape_.heads;
  const std::int64_t queries = shape_.queries * (part + 1) / shape_.parts - shape_.queries * part / shape_.parts,
                     rows = call_.rows_of_head(h);
  head.item = {head_number / shape_.heads, h, part, (queries + rows - 1) / rows, !rooms_ || !result_.steps.defined(),
               rooms_ != nullptr};
  for (head.score = 0; !acts_on(*call_.scores[head.score], h);) ++head.score;
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
    if (acts_on(term(t), head.item.head))
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
StripRows<T> FusedPass<T>::strip(Head& head, std::int64_t first_query, std::int64_t count) const {
  const std::int64_t most = most_rows(head);
  std::int64_t *first = head.bounds.data(), *end = first + most, *visible_first = end + most,
               *visible_end = visible_first + most;
  StripRows<T> rows{head.item.sentence,
                    head.item.head,
                    head.item.part,
                    first_query,
                    count,
                    shape_.query_offset,
                    shape_.keys,
                    first,
                    end,
                    visible_first,
                    visible_end,
                    shape_.keys,
                    0,
                    stride_,
                    true,
                    0,
                    {}};
  const std::int64_t different = call_.same_keys ? 1 : count;
  for (std::int64_t r = 0; r < different; ++r) {
    Interval visible = call_.visible_keys(rows.sentence, rows.head, first_query + r);
    visible_first[r] = visible.first;
    visible_end[r] = visible.end;
    Interval keys = keys_of_row(visible, rows, r);
    first[r] = keys.first;
    end[r] = keys.end;
    if (keys.empty()) continue;
    rows.hull_first = std::min(rows.hull_first, keys.first);
    rows.hull_end = std::max(rows.hull_end, keys.end);
  }
  for (std::int64_t* bound : {first, end, visible_first, visible_end})
    std::fill(bound + different, bound + count, bound[0]);
  rows.hull_first = std::min(rows.hull_first, rows.hull_end) / Vec<T>::lanes * Vec<T>::lanes;
  if (rows.hull_end == 0) rows.hull_first = 0;
  if (call_.in_pieces) find_gap(rows);
  return rows;
}

/// The gap is inside the hull and ends at a multiple of the vector width, so that the second piece's hull begins there.
template <class T>
void FusedPass<T>::find_gap(StripRows<T>& rows) const {
  Interval gap{rows.hull_first, rows.hull_end};
  for (std::int64_t r = 0; r < (call_.same_keys ? 1 : rows.count); ++r)
    gap = gap.within(
        call_.gap({rows.visible_first[r], rows.visible_end[r]}, rows.sentence, rows.head, rows.first_query + r));
  gap.end = gap.end / Vec<T>::lanes * Vec<T>::lanes;
  if (gap.first == rows.hull_first || gap.end - gap.first < least_gap) return;
  rows.gap_first = gap.first;
  rows.gap_end = gap.end;
}

template <class T>
void FusedPass<T>::cut_in_pieces(Head& head, const StripRows<T>& rows) {
  auto cut = [&](std::int64_t p, std::int64_t hull_first, std::int64_t hull_end) {
    std::int64_t *first = head.bounds.data() + (4 + 2 * p) * most_rows(head), *end = first + most_rows(head);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      first[r] = std::clamp(rows.first[r], hull_first, hull_end);
      end[r] = std::clamp(rows.end[r], first[r], hull_end);
    }
    StripRows<T>& piece = head.pieces[static_cast<std::size_t>(p)];
    piece = rows;
    piece.piece = p;
    piece.begins = rows.begins && p == 0;
    piece.gap_first = piece.gap_end = 0;
    piece.hull_first = hull_first;
    piece.hull_end = hull_end;
    piece.first = first;
    piece.end = end;
  };
  cut(0, rows.hull_first, rows.gap_first);
  cut(1, rows.gap_end, rows.hull_end);
}

template <class T>
Interval FusedPass<T>::keys_of_row(Interval visible, const StripRows<T>& rows, std::int64_t r) const {
  Interval keys = call_.keys(visible, rows.sentence, rows.head, rows.first_query + r);
  if (!call_.has_recurrence(rows.head) || !call_.recurrence->chooses_keys()) return keys;
  auto [first, end] = call_.recurrence->keys(of_own_heads(rows, call_.recurrence->first_head), carried(rows));
  return keys.within({first, end});
}

template <class T>
StripRows<T> FusedPass<T>::rows_of_term(std::size_t t, const Head& head, const StripRows<T>& rows,
                                        std::int64_t plane) const {
  StripRows<T> own = of_own_heads(rows, term(t).first_head);
  own.plane = plane;
  own.begins = rows.begins && plane == 0;
  own.scores = head.term_scores[t];
  if (!head.kept.empty()) own.kept = head.kept[t] + plane * kept_size(t, rows);
  return own;
}

// ---- Steps

Tensor room_for_steps(const FusedCall& call) {
  const StripShape& s = call.shape;
  const std::int64_t queries = (s.queries + s.parts - 1) / s.parts;
  if (s.keys > few_keys || queries > call.rows || call.planes > 1 || call.recurrence) return {};
  return visit_real("attention", call.in.query.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::int64_t strips = static_cast<std::int64_t>(call.biases.size() + call.windows.size()) + 1;
    for (const auto& term : call.biases) strips += term->kept_strips();
    for (const auto& term : call.windows) strips += term->kept_strips();
    return Tensor::empty({s.sentences * s.heads * s.parts, strips * queries * strip_stride<T>(s.keys)},
                         call.in.query.dtype());
  });
}

/// The memory is in the result, if the forward pass stores steps for the backward pass; otherwise in the thread's
/// workspace.
template <class T>
void FusedPass<T>::place_steps(Head& head, const StripRows<T>& rows) const {
  T* result = nullptr;
  if (steps_) {
    const StripItem& item = head.item;
    result =
        steps_ + ((item.sentence * shape_.heads + item.head) * shape_.parts + item.part) * result_.steps.shape()[1];
  }
  auto take = [&](std::int64_t elements) {
    return result ? std::exchange(result, result + elements) : head.space.template take<T>(elements);
  };
  head.kept.clear();
  head.steps.clear();
  for (std::size_t t = 0; t < terms(); ++t) head.kept.push_back(take(call_.planes * kept_size(t, rows)));
  for (std::size_t t = 0; t <= terms(); ++t) head.steps.push_back(take(size(rows)));
}

template <class T>
bool FusedPass<T>::find_steps(Head& head, const StripRows<T>& rows) const {
  if (result_.steps.defined()) place_steps(head, rows);
  return result_.steps.defined();
}

template <class T>
void FusedPass<T>::make_steps(Head& head, const StripRows<T>& rows, bool again) const {
  place_steps(head, rows);
  logits(head, rows, head.steps[0]);
  for (std::size_t t = 0; t < terms(); ++t) {
    if (t == biases()) normalize(head, rows, head.steps[t], again);
    if (t >= biases())  // windows write the visible pairs only, but products with the values read the whole hull
      for_planes(rows, [&](std::int64_t at, std::int64_t) {
        for_pieces(head, rows, [&](const StripRows<T>& piece) { clear_outside(piece, head.steps[t + 1] + at); });
      });
    apply(t, head, rows, head.steps[t], head.steps[t + 1]);
  }
  if (biases() == terms()) normalize(head, rows, head.steps.back(), again);
}

template <class T>
void FusedPass<T>::logits(Head& head, const StripRows<T>& rows, T* strip) const {
  const StripScore& score = *call_.scores[head.score];
  for_pieces(head, rows, [&](const StripRows<T>& piece) {
    head.scores[head.score]->logits(of_own_heads(piece, score.first_head), strip, head.space);
  });
  if (score.dimensions() > 0) return;
  for_planes(rows, [&](std::int64_t at, std::int64_t) {
    if (at > 0) std::copy_n(strip, plane_size(rows), strip + at);
  });
}

template <class T>
void FusedPass<T>::apply(std::size_t t, Head& head, const StripRows<T>& rows, const T* from, T* to) const {
  if (!acts_on(term(t), rows.head)) {
    if (to != from) copy(head, rows, from, to);
    return;
  }
  for_planes(rows, [&](std::int64_t at, std::int64_t plane) {
    for_pieces(head, rows, [&](const StripRows<T>& piece) {
      WorkspaceScope taken(head.space);
      term(t).forward(rows_of_term(t, head, piece, plane), from + at, to + at, head.space);
    });
  });
}

template <class T>
void FusedPass<T>::normalize(Head& head, const StripRows<T>& rows, T* strip, bool again) const {
  for_planes(rows, [&](std::int64_t at, std::int64_t plane) {
    LogTotal<T>* total = log_totals(rows, plane);
    T* matrix = strip + at;
    for_pieces(head, rows, [&](const StripRows<T>& piece) { call_.exclude(piece, matrix); });
    if (call_.has_recurrence(rows.head)) {
      call_.recurrence->forward(of_own_heads(rows, call_.recurrence->first_head), matrix, total, carried(rows), again);
    } else {
      const bool density = call_.has_densities(rows.head);
      if (density && !again) std::fill_n(total, rows.count, LogTotal<T>{});
      if (again || density)
        for_pieces(head, rows,
                   [&](const StripRows<T>& piece) { softmax_rows_again(piece.keys_of_rows(), matrix, total); });
      else
        softmax(head, rows, matrix, total);
    }
    for_pieces(head, rows, [&](const StripRows<T>& piece) { clear_outside(piece, matrix); });
  });
}

template <class T>
void FusedPass<T>::softmax(Head& head, const StripRows<T>& rows, T* matrix, LogTotal<T>* totals) const {
  if (!rows.has_gap()) return softmax_rows(rows.keys_of_rows(), matrix, sink(rows.head), totals);
  WorkspaceScope taken(head.space);
  auto* second_totals = head.space.template take<LogTotal<T>>(rows.count);
  const RowsOfKeys first = head.pieces[0].keys_of_rows(), second = head.pieces[1].keys_of_rows();
  softmax_rows(first, matrix, sink(rows.head), totals);
  softmax_rows(second, matrix, -std::numeric_limits<T>::infinity(), second_totals);
  join_softmax(first, totals, second, second_totals, matrix, totals);
}

template <class T>
typename FusedPass<T>::DropoutFactors FusedPass<T>::dropout_factors(Head& head, const StripRows<T>& rows) const {
  const DropoutMask mask = call_.dropout.mask(shape_.keys);
  const std::int64_t width = rows.hull_end - rows.hull_first;
  const DropoutFactors factors{head.space.template take<T>(call_.planes * rows.count * width), width, rows.hull_first};
  for (std::int64_t plane = 0; plane < call_.planes; ++plane) {
    const std::int64_t first_row =
        ((plane * shape_.sentences + rows.sentence) * shape_.heads + rows.head) * shape_.queries + rows.first_query;
    for_pieces(head, rows, [&](const StripRows<T>& piece) {
      for (std::int64_t r = 0; r < rows.count; ++r)
        fovea::dropout_factors(mask, first_row + r, piece.first[r], piece.end[r], factors.row(plane * rows.count + r));
    });
  }
  return factors;
}

template <class T>
void FusedPass<T>::multiply(const Head& head, const StripRows<T>& rows, const DropoutFactors& factors, T* strip) const {
  for_planes(rows, [&](std::int64_t at, std::int64_t plane) {
    for_pieces(head, rows, [&](const StripRows<T>& piece) {
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
    for_pieces(head, rows, [&](const StripRows<T>& piece) {
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
CarriedNumbers<T> FusedPass<T>::carried(const StripRows<T>& rows) const {
  const std::int64_t head = rows.sentence * shape_.heads + rows.head;
  const T* gradient = carried_gradient_.defined() ? carried_gradient_.data<T>() + head * shape_.queries : nullptr;
  return {carried_ + head * shape_.queries, gradient,
          rooms_ ? rooms_->carry.template mutable_data<T>() + head : nullptr};
}

template <class T>
T FusedPass<T>::sink(std::int64_t head) const {
  return sink_.defined() ? sink_.data<T>()[head] : -std::numeric_limits<T>::infinity();
}

template class FusedPass<float>;
template class FusedPass<double>;

}  // namespace fovea
