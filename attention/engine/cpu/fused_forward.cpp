#include "attention/engine/cpu/fused_pass.h"

namespace fovea {

namespace {

template <class T>
class ForwardPass : FusedPass<T> {
 public:
  ForwardPass(const FusedCall& call, const FusedResult& result, const Tensor& weights)
      : FusedPass<T>(call, result, nullptr), weights_(weights) {}

  void run() const {
    this->for_heads(
        [&](Head& head) { this->for_strips(head, [&](const StripRows<T>& rows) { forward_strip(head, rows); }); });
  }

 private:
  using typename FusedPass<T>::Head;
  using FusedPass<T>::call_;
  using FusedPass<T>::shape_;

  void forward_strip(Head& head, const StripRows<T>& rows) const {
    T* strip = weights_of(head, rows);
    if (weights_.defined()) store_weights(head, rows, strip);
    if (call_.dropout.probability > 0) this->multiply(head, rows, this->dropout_factors(head, rows), strip);
    MatrixView<T> out = this->rows_of(this->result_.out, rows);
    this->for_pieces(head, rows, [&](const StripRows<T>& piece) {
      head.values->weighted_sum(piece, strip, out);
      for (const auto& term : call_.values) {
        if (!this->acts_on(*term, rows.head)) continue;
        WorkspaceScope taken(head.space);
        term->forward(this->of_own_heads(piece, term->first_head), strip, out, head.space);
      }
    });
  }

  /// The strip's weights, in memory that the caller may change.
  T* weights_of(Head& head, const StripRows<T>& rows) const {
    T* strip = this->take_strip(head, rows);
    if (this->result_.steps.defined()) {
      this->make_steps(head, rows, false);
      if (call_.dropout.probability == 0) return head.steps.back();
      this->copy(head, rows, head.steps.back(), strip);
      return strip;
    }
    this->logits(head, rows, strip);
    for (std::size_t t = 0; t < this->biases(); ++t) this->apply(t, head, rows, strip, strip);
    this->normalize(head, rows, strip, false);
    for (std::size_t t = this->biases(); t < this->terms(); ++t) this->apply(t, head, rows, strip, strip);
    return strip;
  }

  /// Copies the strip's weights to weights_, with 0 for keys that a row does not see.
  void store_weights(const Head& head, const StripRows<T>& rows, const T* strip) const {
    const std::int64_t J = shape_.keys;
    this->for_planes(rows, [&](std::int64_t at, std::int64_t plane) {
      const std::int64_t number = (plane * shape_.sentences + rows.sentence) * shape_.heads + rows.head;
      T* to = weights_.mutable_data<T>() + (number * shape_.queries + rows.first_query) * J;
      std::fill_n(to, rows.count * J, T(0));
      this->for_pieces(head, rows, [&](const StripRows<T>& piece) {
        for (std::int64_t r = 0; r < rows.count; ++r) {
          const T* row = strip + at + r * rows.stride;
          std::copy(row + piece.first[r], row + piece.end[r], to + r * J + piece.first[r]);
        }
      });
    });
  }

  Tensor weights_;
};

}  // namespace

void fused_forward(const FusedCall& call, const FusedResult& result, const Tensor& weights) {
  visit_real("attention", call.in.query.dtype(),
             [&](auto type) { ForwardPass<typename decltype(type)::type>(call, result, weights).run(); });
}

}  // namespace fovea
