#include "attention/engine/cpu/strip_score.h"

namespace fovea {

namespace {

// ---- Products

template <class T>
struct DotStrips : StripScore<T> {
  DotStrips(const Variable& q, const Variable& k, double s, bool e)
      : variables{q, k}, queries(with_unit_rows(q.value())), keys(with_unit_rows(k.value())), scale(s), exact(e) {}

  std::vector<Variable> inputs() const override { return variables; }
  Tensor gradient_room(std::size_t k, const StripShape& s) const override {
    return strip_gradient_room({s.sentences, s.heads, k == 0 ? s.queries : s.keys, keys.size(-1)}, k == 0 ? 1 : s.parts,
                               keys.dtype());
  }
  bool takes_pieces() const override { return true; }
  std::unique_ptr<ScoreWorker<T>> worker(const StripShape& shape, std::span<Tensor> rooms) const override;

  std::vector<Variable> variables;
  Tensor queries, keys;
  double scale;
  bool exact;
};

template <class T>
class DotWorker : public ScoreWorker<T> {
 public:
  DotWorker(const DotStrips<T>& score, const StripShape& shape, std::span<Tensor> rooms)
      : score_(score), J_(shape.keys), D_(score.keys.size(-1)), scale_(static_cast<T>(score.scale)), rooms_(rooms) {}

  void start(const StripItem& item, Workspace& space) override {
    MatrixView<const T> keys = head_matrix<T>(score_.keys, item.sentence, item.head);
    queries_ = head_matrix<T>(score_.queries, item.sentence, item.head);
    if (item.logits)
      transposed_keys_ =
          packed_matrix(space, keys.transposed(), D_, J_, item.strips, score_.exact ? Precision::f32 : space.products);
    if (!item.backward) return;
    if (rooms_[0].defined()) {
      keys_ = packed_matrix(space, keys, J_, D_, item.strips);
      query_gradient_ = strip_gradient<T>(rooms_[0], item.sentence, item.head, 0);
    }
    if (rooms_[1].defined()) key_gradient_ = strip_gradient<T>(rooms_[1], item.sentence, item.head, item.part);
  }

  void logits(const StripRows<T>& rows, T* strip, Workspace&) override {
    transposed_keys_.multiply(rows.count, scale_, queries_.from(rows.first_query, 0), 0, {strip, rows.stride, 1},
                              {0, D_, rows.hull_first, rows.hull_end});
  }

  void backward(const StripRows<T>& rows, const T* gradient, Workspace& space) override {
    if (rooms_[0].defined())
      keys_.multiply(rows.count, scale_, {gradient, rows.stride, 1}, rows.plane > 0 || rows.piece > 0,
                     query_gradient_.from(rows.first_query, 0), {rows.hull_first, rows.hull_end, 0, D_});
    if (rooms_[1].defined())
      add_key_gradient(rows, key_gradient_, D_, scale_, gradient, queries_.from(rows.first_query, 0), space);
  }

 private:
  const DotStrips<T>& score_;
  std::int64_t J_, D_;
  T scale_;
  std::span<Tensor> rooms_;
  MatrixView<const T> queries_;
  Panels<T> transposed_keys_, keys_;
  MatrixView<T> query_gradient_, key_gradient_;
};

template <class T>
std::unique_ptr<ScoreWorker<T>> DotStrips<T>::worker(const StripShape& shape, std::span<Tensor> rooms) const {
  return std::make_unique<DotWorker<T>>(*this, shape, rooms);
}

// ---- None

template <class T>
class NoScoreWorker : public ScoreWorker<T> {
 public:
  void start(const StripItem&, Workspace&) override {}
  void logits(const StripRows<T>& rows, T* strip, Workspace&) override {
    for (std::int64_t r = 0; r < rows.count; ++r)
      std::fill(strip + r * rows.stride + rows.hull_first, strip + r * rows.stride + rows.hull_end, T(0));
  }
  void backward(const StripRows<T>&, const T*, Workspace&) override {}
};

template <class T>
struct NoScoreStrips : StripScore<T> {
  bool takes_pieces() const override { return true; }
  std::unique_ptr<ScoreWorker<T>> worker(const StripShape&, std::span<Tensor>) const override {
    return std::make_unique<NoScoreWorker<T>>();
  }
};

// ---- Location

template <class T>
struct LocationStrips : StripScore<T> {
  explicit LocationStrips(const Variable& q) : variable(q), queries(with_unit_rows(q.value())) {}
  std::vector<Variable> inputs() const override { return {variable}; }
  Tensor gradient_room(std::size_t, const StripShape& s) const override {
    return strip_gradient_room({s.sentences, s.heads, s.queries, queries.size(-1)}, 1, queries.dtype());
  }
  std::unique_ptr<ScoreWorker<T>> worker(const StripShape&, std::span<Tensor> rooms) const override;

  Variable variable;
  Tensor queries;
};

template <class T>
class LocationWorker : public ScoreWorker<T> {
 public:
  LocationWorker(const LocationStrips<T>& score, std::span<Tensor> rooms)
      : score_(score), L_(score.queries.size(-1)), rooms_(rooms) {}

  void start(const StripItem& item, Workspace&) override {
    queries_ = head_matrix<T>(score_.queries, item.sentence, item.head);
    if (item.backward && rooms_[0].defined()) gradient_ = strip_gradient<T>(rooms_[0], item.sentence, item.head, 0);
  }

  void logits(const StripRows<T>& rows, T* strip, Workspace&) override {
    const std::int64_t first = std::min(rows.hull_first, L_), end = std::min(rows.hull_end, L_);
    for (std::int64_t r = 0; r < rows.count; ++r, strip += rows.stride) {
      const T* row = queries_.at(rows.first_query + r, 0);
      std::copy(row + first, row + end, strip + first);
      std::fill(strip + std::max(end, rows.hull_first), strip + rows.hull_end, row[L_ - 1]);
    }
  }

  void backward(const StripRows<T>& rows, const T* gradient, Workspace&) override {
    if (!rooms_[0].defined()) return;
    for (std::int64_t r = 0; r < rows.count; ++r, gradient += rows.stride) {
      T* row = gradient_.at(rows.first_query + r, 0);
      std::fill_n(row, L_, T(0));
      std::copy(gradient + std::min(rows.first[r], L_), gradient + std::min(rows.end[r], L_),
                row + std::min(rows.first[r], L_));
      for (std::int64_t j = std::max(L_, rows.first[r]); j < rows.end[r]; ++j) row[L_ - 1] += gradient[j];
    }
  }

 private:
  const LocationStrips<T>& score_;
  std::int64_t L_;
  std::span<Tensor> rooms_;
  MatrixView<const T> queries_;
  MatrixView<T> gradient_;
};

template <class T>
std::unique_ptr<ScoreWorker<T>> LocationStrips<T>::worker(const StripShape&, std::span<Tensor> rooms) const {
  return std::make_unique<LocationWorker<T>>(*this, rooms);
}

}  // namespace

template <class T>
std::unique_ptr<StripScore<T>> dot_strips(const Variable& queries, const Variable& keys, double scale, bool exact) {
  return std::make_unique<DotStrips<T>>(queries, keys, scale, exact);
}
template std::unique_ptr<StripScore<float>> dot_strips(const Variable&, const Variable&, double, bool);
template std::unique_ptr<StripScore<double>> dot_strips(const Variable&, const Variable&, double, bool);

template <class T>
std::unique_ptr<StripScore<T>> no_score_strips() {
  return std::make_unique<NoScoreStrips<T>>();
}
template std::unique_ptr<StripScore<float>> no_score_strips();
template std::unique_ptr<StripScore<double>> no_score_strips();

template <class T>
std::unique_ptr<StripScore<T>> location_strips(const Variable& queries) {
  return std::make_unique<LocationStrips<T>>(queries);
}
template std::unique_ptr<StripScore<float>> location_strips(const Variable&);
template std::unique_ptr<StripScore<double>> location_strips(const Variable&);

}  // namespace fovea
