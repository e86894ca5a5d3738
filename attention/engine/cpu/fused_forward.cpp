#include "attention/engine/cpu/fused_pass.h"

namespace fovea {

namespace {

template <class T>
class ForwardPass : FusedPass<T> {
 public:
  ForwardPass(const FusedCall<T>& call, const FusedResult& result, const Tensor& weights)
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
    this->make_steps(head, rows);
    T* strip = head.steps.weights;
    if (weights_.defined()) store_weights(head, rows, strip);
    if (call_.dropout.probability > 0) strip = dropped(head, rows, strip);
    MatrixView<T> out = this->rows_of(this->result_.out, rows);
    this->for_pieces(head, [&](const StripRows<T>& piece) {
      head.values->weighted_sum(piece, strip, out);
      for (const auto& term : call_.values) {
        if (!term->acts_on(rows.head)) continue;
        WorkspaceScope taken(head.space);
        term->forward(this->of_own_heads(piece, term->first_head), strip, out, head.space);
      }
    });
  }

  /// The weights after dropout; in place unless the backward pass will read the weights.
  T* dropped(Head& head, const StripRows<T>& rows, T* weights) const {
    T* strip = weights;
    if (this->result_.steps.defined()) {
      strip = this->take_strip(head, rows);
      this->copy(head, rows, weights, strip);
    }
    this->multiply(head, rows, this->dropout_factors(head, rows), strip);
    return strip;
  }

  /// Copies the strip's weights to weights_, with 0 for keys that a row does not see.
  void store_weights(const Head& head, const StripRows<T>& rows, const T* strip) const {
    const std::int64_t J = shape_.keys;
    this->for_planes(rows, [&](std::int64_t at, std::int64_t plane) {
      const std::int64_t number = (plane * shape_.sentences + rows.sentence) * shape_.heads + rows.head;
      T* to = weights_.mutable_data<T>() + (number * shape_.queries + rows.first_query) * J;
      std::fill_n(to, rows.count * J, T(0));
      this->for_pieces(head, [&](const StripRows<T>& piece) {
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

template <class T>
void fused_forward(const FusedCall<T>& call, const FusedResult& result, const Tensor& weights) {
  ForwardPass<T>(call, result, weights).run();
}
template void fused_forward(const FusedCall<float>&, const FusedResult&, const Tensor&);
template void fused_forward(const FusedCall<double>&, const FusedResult&, const Tensor&);

}  // namespace fovea
