#include "attention/engine/cpu/fused_pass.h"
#include "tensor/formula/math.h"

namespace fovea {

namespace {

/// Memory for the wanted gradients.
template <class T>
GradientRooms make_rooms(const FusedCall<T>& call, const std::vector<bool>& wanted) {
  const StripShape& s = call.shape;
  const DType dtype = call.in.query.dtype();
  GradientRooms rooms;
  std::size_t place = 0;
  if (wanted[place++])
    rooms.value = strip_gradient_room({s.sentences, s.heads, s.keys, call.in.value.size(-1)}, s.parts, dtype);
  call.for_parts([&](const StripPart& part) {
    rooms.parts.emplace_back();
    StripShape own = s;
    own.heads = part.heads;
    for (std::size_t k = 0; k < part.inputs().size(); ++k)
      rooms.parts.back().push_back(wanted[place++] ? part.gradient_room(k, own) : Tensor());
  });
  if (call.plan->sink.defined() && wanted[place]) rooms.sink = Tensor::zeros({s.parts, s.sentences, s.heads}, dtype);
  if (call.focus) rooms.carry = Tensor::zeros({s.sentences, s.heads}, dtype);
  return rooms;
}

/// The gradients of a call without queries. Elsewhere the first strip begins them, and there is none.
template <class T>
std::vector<Tensor> zeros_of_inputs(const FusedCall<T>& call, const std::vector<bool>& wanted) {
  std::vector<Tensor> gradients;
  for (const Variable& input : call.inputs())
    gradients.push_back(wanted[gradients.size()] ? Tensor::zeros(input.shape(), input.dtype()) : Tensor());
  return gradients;
}

/// Computes a strip's weights again and goes through the steps in the opposite order.
template <class T>
class BackwardPass : FusedPass<T> {
 public:
  BackwardPass(const FusedCall<T>& call, const FusedResult& result, const Tensor& out_gradient,
               const Tensor& focus_gradient, GradientRooms& rooms)
      : FusedPass<T>(call, result, &rooms), g_(with_unit_rows(out_gradient)) {
    this->prefetch(g_);
    if (focus_gradient.defined()) this->focus_gradient_ = focus_gradient.contiguous();
  }

  void run() const {
    this->for_heads(
        [&](Head& head) { this->for_strips(head, [&](const StripRows<T>& rows) { backward_strip(head, rows); }); });
  }

 private:
  using typename FusedPass<T>::Head;
  using FusedPass<T>::call_;
  using FusedPass<T>::rooms_;
  using FusedPass<T>::biases;
  using FusedPass<T>::terms;
  MatrixView<const T> rows_of_gradient(const StripRows<T>& rows) const {
    return head_matrix<T>(g_, rows.sentence, rows.head).from(rows.first_query, 0);
  }

  void backward_strip(Head& head, const StripRows<T>& rows) const {
    if (rows.is_empty()) return backward_of_empty_strip(head, rows);
    const MatrixView<const T> g = rows_of_gradient(rows);
    this->make_steps(head, rows);
    const typename FusedPass<T>::Steps& steps = head.steps;
    auto step = [&](std::size_t t) { return t < terms() ? steps.inputs[t] : steps.weights; };
    T* dropped = steps.weights;
    const bool drops = call_.dropout.probability > 0;
    typename FusedPass<T>::DropoutFactors factors{};
    if (drops) {
      factors = this->dropout_factors(head, rows);
      dropped = this->take_strip(head, rows);
      this->copy(head, rows, steps.weights, dropped);
      this->multiply(head, rows, factors, dropped);
    }
    T* gradient = this->take_strip(head, rows);
    this->for_pieces(head, [&](const StripRows<T>& piece) {
      head.values->backward_of_values(piece, dropped, g, head.space);
      head.values->backward_of_weights(piece, g, gradient);
      this->for_planes(rows, [&](std::int64_t at, std::int64_t) { clear_outside(piece, gradient + at); });
      back_through_value_terms(head, piece, dropped, g, gradient);
    });
    if (drops) this->multiply(head, rows, factors, gradient);
    for (std::size_t t = terms(); t-- > biases();) back_through_term(t, head, rows, step(t), gradient);
    back_through_softmax(head, rows, step(biases()), gradient);
    for (std::size_t t = biases(); t-- > 0;) back_through_term(t, head, rows, step(t), gradient);
    back_through_score(head, rows, gradient);
  }

  /// The backward pass of a strip whose rows see no key. Scores and values write zeros, and the focus gets a gradient
  /// of 0.
  void backward_of_empty_strip(Head& head, const StripRows<T>& rows) const {
    head.steps.kept.clear();
    T* gradient = this->take_strip(head, rows);
    head.values->backward_of_values(rows, gradient, rows_of_gradient(rows), head.space);
    if (call_.has_focus(rows.head)) back_through_softmax(head, rows, gradient, gradient);
    for (std::size_t t = terms(); t-- > 0;) back_through_term(t, head, rows, gradient, gradient);
    back_through_score(head, rows, gradient);
  }

  /// The gradients' memory of one term, counted as in FusedCall::for_parts(): scores, biases, windows, focus,
  /// values.
  std::span<Tensor> rooms_of(std::size_t part) const { return rooms_->parts[part]; }

  void back_through_value_terms(Head& head, const StripRows<T>& rows, const T* weights, MatrixView<const T> g,
                                T* gradient) const {
    const std::size_t first = call_.scores.size() + terms() + (call_.focus ? 1 : 0);
    for (std::size_t k = 0; k < call_.values.size(); ++k) {
      const StripValueTerm<T>& term = *call_.values[k];
      if (!term.acts_on(rows.head)) continue;
      WorkspaceScope taken(head.space);
      term.backward(this->of_own_heads(rows, term.first_head), weights, g, gradient, rooms_of(first + k), head.space);
    }
  }

  void back_through_term(std::size_t t, Head& head, const StripRows<T>& rows, const T* from, T* gradient) const {
    if (!this->term(t).acts_on(rows.head)) return;
    this->for_planes(rows, [&](std::int64_t at, std::int64_t plane) {
      this->for_pieces(head, [&](const StripRows<T>& piece) {
        WorkspaceScope taken(head.space);
        this->term(t).backward(this->rows_of_term(t, head, piece, plane), from + at, gradient + at,
                               rooms_of(call_.scores.size() + t), head.space);
      });
    });
  }

  void back_through_softmax(Head& head, const StripRows<T>& rows, const T* weights, T* gradient) const {
    this->for_planes(rows, [&](std::int64_t at, std::int64_t plane) {
      if (call_.has_focus(rows.head))
        return call_.focus->backward(this->of_own_heads(rows, call_.focus->first_head), weights + at, gradient + at,
                                     this->focus(rows), rooms_of(call_.scores.size() + terms()));
      const T* matrix = weights + at;
      const LogTotal<T>* total = this->log_totals(rows, plane);
      T* slope = gradient + at;
      if (call_.has_densities(rows.head)) {
        this->for_pieces(head, [&](const StripRows<T>& piece) {
          for (std::int64_t r = 0; r < rows.count; ++r)
            density_row_backward(matrix + r * rows.stride, slope + r * rows.stride, piece.first[r], piece.end[r]);
        });
        return;
      }
      T* means = head.space.template take<T>(rows.count);
      softmax_backward(head, matrix, slope, means);
      if (!rooms_->sink.defined()) return;
      T& sink_gradient =
          rooms_->sink.template mutable_data<T>()[broadcast_offset(rooms_->sink, rows.part, rows.sentence, rows.head)];
      for (std::int64_t r = 0; r < rows.count; ++r)
        sink_gradient -= exp(this->sink(rows.head) - total[r].value - total[r].rest) * means[r];
    });
  }

  /// Replaces the gradient of the weights by that of the logits, and writes Σ_j w_j g_j of each row to `means`.
  void softmax_backward(Head& head, const T* weights, T* gradient, T* means) const {
    softmax_rows_backward(head.pieces[0].keys_of_rows(), weights, gradient, means);
    if (head.pieces.size() == 1) return;
    WorkspaceScope taken(head.space);
    const std::int64_t rows = head.pieces[0].count;
    T* of_pieces = head.space.template take<T>(static_cast<std::int64_t>(head.pieces.size()) * rows);
    std::copy_n(means, rows, of_pieces);
    for (std::size_t p = 1; p < head.pieces.size(); ++p) {
      T* of_piece = of_pieces + static_cast<std::int64_t>(p) * rows;
      softmax_rows_backward(head.pieces[p].keys_of_rows(), weights, gradient, of_piece);
      for (std::int64_t r = 0; r < rows; ++r) means[r] += of_piece[r];
    }
    for (std::size_t p = 0; p < head.pieces.size(); ++p) {
      T* others = of_pieces + static_cast<std::int64_t>(p) * rows;
      for (std::int64_t r = 0; r < rows; ++r) others[r] = means[r] - others[r];
      subtract_means(head.pieces[p].keys_of_rows(), weights, gradient, others);
    }
  }

  void back_through_score(Head& head, const StripRows<T>& rows, T* gradient) const {
    const StripScore<T>& score = *call_.scores[head.score];
    if (score.dimensions() == 0)  // all planes began with the same logits: their gradients are added up
      this->for_planes(rows, [&](std::int64_t at, std::int64_t) {
        for (std::int64_t e = 0; at > 0 && e < this->plane_size(rows); ++e) gradient[e] += gradient[at + e];
      });
    this->for_pieces(head, [&](const StripRows<T>& piece) {
      head.scores[head.score]->backward(this->of_own_heads(piece, score.first_head), gradient, head.space);
    });
  }

  Tensor g_;
};

}  // namespace

template <class T>
std::vector<Tensor> fused_backward(const FusedCall<T>& call, const FusedResult& result, const Tensor& out_gradient,
                                   const Tensor& focus_gradient, const std::vector<bool>& wanted) {
  if (call.shape.queries == 0) return zeros_of_inputs(call, wanted);
  GradientRooms rooms = make_rooms(call, wanted);
  BackwardPass<T>(call, result, out_gradient, focus_gradient, rooms).run();
  std::vector<Tensor> gradients{rooms.value};
  for (const auto& part : rooms.parts) gradients.insert(gradients.end(), part.begin(), part.end());
  if (call.plan->sink.defined()) gradients.push_back(rooms.sink);
  return gradients;
}
template std::vector<Tensor> fused_backward(const FusedCall<float>&, const FusedResult&, const Tensor&, const Tensor&,
                                            const std::vector<bool>&);
template std::vector<Tensor> fused_backward(const FusedCall<double>&, const FusedResult&, const Tensor&, const Tensor&,
                                            const std::vector<bool>&);

}  // namespace fovea
