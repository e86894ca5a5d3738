/// Scores with a hidden layer tanh(q_i + k_j) on strips. The layer [I, J, a] is never stored: each strip computes its
/// own part, and the backward pass computes it again.
#pragma once
#include "attention/engine/cpu/strips.h"
#include "attention/engine/lowered.h"
#include "tensor/formula/math.h"

namespace fovea {

/// The base of the two scores with a hidden layer tanh(q_i + k_j) of a elements. It reads queries [B, H, I, a], keys
/// [B, H, J, a], and the weights that follow the layer: a vector [H or 1, a], or a matrix [H or 1, a, D]. Each item
/// works on transposed keys [a, J], and adds up their gradient in that shape; finish() transposes it back.
template <class T>
class HiddenScore : public StripScore<T> {
 public:
  void start(const StripItem& item, Workspace& space) override {
    item_ = item;
    queries_ = head_matrix<T>(query_tensor_, item);
    rows_of_keys_ = head_matrix<T>(key_tensor_, item);
    weights_ = weight_tensor_.data<T>() + (weight_tensor_.size(0) > 1 ? item.head * weight_tensor_.strides()[0] : 0);
    if (!transposes(item)) return;
    keys_ = space.take<T>(a_ * stride_);
    pack(rows_of_keys_.transposed(), a_, J_, keys_, stride_);
    if (!item.backward) return;
    key_gradient_ = space.take<T>(a_ * stride_);
    std::fill_n(key_gradient_, a_ * stride_, T(0));
  }
  void finish() override {
    if (!item_.backward || !this->gradients[1].defined()) return;
    const MatrixView<T> to = gradient_matrix<T>(this->gradients[1], item_);
    for (std::int64_t j = 0; j < J_; ++j)
      for (std::int64_t d = 0; d < a_; ++d) *to.at(j, d) = key_gradient_[d * stride_ + j];
  }

 protected:
  /// Matrices of weights have rank 3, vectors rank 2, with the heads.
  HiddenScore(const Score& score, int rank_of_weights, const StripShape& s)
      : query_tensor_(with_unit_rows(score.queries.value())),
        key_tensor_(with_unit_rows(score.keys.value())),
        weight_tensor_(with_rank(score.weight.value(), rank_of_weights).contiguous()),
        J_(s.keys),
        a_(score.keys.size(-1)),
        stride_(strip_stride<T>(s.keys)) {
    Shape of_weights = weight_tensor_.shape();
    of_weights[0] = s.heads;
    of_weights.insert(0, s.sentences);
    of_weights.insert(0, s.parts);
    this->inputs = {query_input(score.queries, s), key_input(score.keys, s), {score.weight, of_weights}};
  }
  virtual bool transposes(const StripItem&) const { return true; }

  const T* query(std::int64_t i) const { return queries_.at(i, 0); }
  const T* keys(std::int64_t d) const { return keys_ + d * stride_; }
  T* key_gradient(std::int64_t d) const { return key_gradient_ + d * stride_; }
  /// This item's memory for the gradient of its weights; null if that is not wanted.
  T* weight_gradient() const {
    const Tensor& buffer = this->gradients[2];
    if (!buffer.defined()) return nullptr;
    return buffer.mutable_data<T>() + broadcast_offset(buffer, item_.part, item_.sentence, item_.head);
  }
  /// Writes the queries' gradient: sums [rows, a], whose elements are vectors, reduced to numbers.
  void put_query_gradient(const StripRows<T>& rows, const Vec<T>* sums) const {
    if (!this->gradients[0].defined()) return;
    const MatrixView<T> to = gradient_matrix<T>(this->gradients[0], item_).from(rows.first_query, 0);
    for (std::int64_t r = 0; r < rows.count; ++r)
      for (std::int64_t d = 0; d < a_; ++d) *to.at(r, d) = horizontal_sum(sums[r * a_ + d]);
  }
  /// `count` vectors of zeros.
  static Vec<T>* take_sums(Workspace& space, std::int64_t count) {
    auto* sums = reinterpret_cast<Vec<T>*>(space.take<T>(count * Vec<T>::lanes));
    std::fill_n(sums, count, Vec<T>(T(0)));
    return sums;
  }

  Tensor query_tensor_, key_tensor_, weight_tensor_;
  std::int64_t J_, a_, stride_;  ///< stride_: of the transposed keys and their gradient, in elements
  // of the current item:
  StripItem item_ = {};
  MatrixView<const T> queries_ = {}, rows_of_keys_ = {};
  const T* weights_ = nullptr;
  T *keys_ = nullptr, *key_gradient_ = nullptr;  ///< [a, stride]
};

// ---- Additive

/// v · tanh(q_i + k_j), v [a] or [H, a].
template <class T>
class AdditiveScore : public HiddenScore<T> {
 public:
  AdditiveScore(const Score& score, const StripShape& s) : HiddenScore<T>(score, 2, s), few_(s.queries <= 4) {}

  void start(const StripItem& item, Workspace& space) override {
    HiddenScore<T>::start(item, space);
    if (item.backward) vector_gradient_ = this->take_sums(space, a_);
  }

  void logits(const StripRows<T>& rows, T* strip, Workspace&) const override {
    if (!transposes(item_)) return logits_key_by_key(rows, strip);
    for_blocks(rows, [&](std::int64_t r, std::int64_t j, auto vectors, auto count) {
      score_block<vectors>(this->query(rows.first_query + r), j, strip + r * rows.stride + j, count);
    });
  }

  void backward(const StripRows<T>& rows, const T* gradient, Workspace& space) const override {
    WorkspaceScope taken(space);
    Vec<T>* query_gradient = this->take_sums(space, rows.count * a_);
    for_blocks(rows, [&](std::int64_t r, std::int64_t j, auto vectors, auto count) {
      slope_block<vectors>(this->query(rows.first_query + r), j, gradient + r * rows.stride + j,
                           query_gradient + r * a_, count);
    });
    this->put_query_gradient(rows, query_gradient);
  }

  void finish() override {
    HiddenScore<T>::finish();
    if (!item_.backward) return;
    if (T* to = this->weight_gradient())
      for (std::int64_t d = 0; d < a_; ++d) to[d] = horizontal_sum(vector_gradient_[d]);
  }

 private:
  using HiddenScore<T>::a_;
  using HiddenScore<T>::item_;
  using HiddenScore<T>::weights_;

  /// For a few queries per sentence, transposing the keys takes longer than it saves.
  bool transposes(const StripItem& item) const override { return item.backward || !few_; }

  /// body(row, key, vectors, count) for all keys of all rows. All rows of one block of keys come before the next block.
  /// Each call covers `vectors` vectors of keys (a std::integral_constant); `count` is that of the last vector, as in
  /// for_vectors().
  template <class Body>
  static FOVEA_INLINE void for_blocks(const StripRows<T>& rows, Body&& body) {
    constexpr int block_vectors = 4;  // their inputs to the hidden layer stay in the L1 cache
    constexpr std::int64_t lanes = Vec<T>::lanes, block = block_vectors * lanes;
    for (std::int64_t begin = rows.hull_first; begin < rows.hull_end; begin += block)
      for (std::int64_t r = 0; r < rows.count; ++r) {
        std::int64_t j = std::max(begin, rows.first[r]), end = std::min(begin + block, rows.end[r]);
        if (j + block == end) {
          body(r, j, std::integral_constant<int, block_vectors>{}, WholeVector<T>{});
          continue;
        }
        for (; j + 2 * lanes <= end; j += 2 * lanes) body(r, j, std::integral_constant<int, 2>{}, WholeVector<T>{});
        if (j + lanes <= end) body(r, j, std::integral_constant<int, 1>{}, WholeVector<T>{}), j += lanes;
        if (j < end) body(r, j, std::integral_constant<int, 1>{}, static_cast<int>(end - j));
      }
  }

  /// logit_j = Σ_d v_d tanh(q_d + k_jd), for the keys that a row sees, without transposed keys.
  void logits_key_by_key(const StripRows<T>& rows, T* strip) const {
    for (std::int64_t r = 0; r < rows.count; ++r)
      for (std::int64_t j = rows.first[r]; j < rows.end[r]; ++j) {
        const T *query = this->query(rows.first_query + r), *key = this->rows_of_keys_.at(j, 0);
        strip[r * rows.stride + j] = sum_of_vectors<T>(a_, [&](std::int64_t d, auto count) {
          return load_vector(weights_ + d, count) * tanh(load_vector(query + d, count) + load_vector(key + d, count));
        });
      }
  }

  /// logit_j = Σ_d v_d tanh(q_d + k_jd), for `vectors` vectors of keys from j on.
  template <int vectors, class Count>
  void score_block(const T* query, std::int64_t j, T* logits, Count count) const {
    constexpr int lanes = Vec<T>::lanes;
    Vec<T> sum[vectors];
    for (Vec<T>& s : sum) s = Vec<T>(T(0));
    for (std::int64_t d = 0; d < a_; ++d) {
      const T* keys = this->keys(d) + j;
      const Vec<T> q(query[d]), v(weights_[d]);
      for (int k = 0; k < vectors; ++k) sum[k] = fma(v, tanh(q + load_vector(keys + k * lanes, count)), sum[k]);
    }
    for (int k = 0; k < vectors; ++k) store_vector(sum[k], logits + k * lanes, count);
  }

  /// Adds to the gradients of the query, the keys and v, given those of `vectors` vectors of logits from key j on.
  template <int vectors, class Count>
  void slope_block(const T* query, std::int64_t j, const T* slopes, Vec<T>* query_gradient, Count count) const {
    constexpr int lanes = Vec<T>::lanes;
    Vec<T> g[vectors];
    for (int k = 0; k < vectors; ++k) g[k] = filled(load_vector(slopes + k * lanes, count), count, T(0));
    for (std::int64_t d = 0; d < a_; ++d) {
      const T* keys = this->keys(d) + j;
      T* key_gradient = this->key_gradient(d) + j;
      const Vec<T> q(query[d]), v(weights_[d]);
      Vec<T> query_sum(T(0)), vector_sum(T(0));
      for (int k = 0; k < vectors; ++k) {
        Vec<T> t = tanh(q + load_vector(keys + k * lanes, count)), slope = g[k] * fma(-t, t, Vec<T>(T(1)));
        vector_sum = fma(g[k], t, vector_sum);
        query_sum += slope;
        T* to = key_gradient + k * lanes;
        store_vector(fma(v, slope, load_vector(to, count)), to, count);
      }
      query_gradient[d] = fma(v, query_sum, query_gradient[d]);
      vector_gradient_[d] += vector_sum;
    }
  }

  bool few_;
  Vec<T>* vector_gradient_ = nullptr;  ///< [a], lane by lane
};

// ---- Fine-grained

/// tanh(q_i + k_j) V, one plane for each of the D columns of V [a, D] or [H, a, D]. Computes the hidden layer [a, J] of
/// one query at a time, then its products with V.
template <class T>
class FineGrainedScore : public HiddenScore<T> {
 public:
  FineGrainedScore(const Score& score, const StripShape& s) : HiddenScore<T>(score, 3, s), D_(score.weight.size(-1)) {
    this->planes = D_;
  }

  void logits(const StripRows<T>& rows, T* strip, Workspace& space) const override {
    WorkspaceScope taken(space);
    T* layer = space.take<T>(a_ * stride_);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      compute_layer(rows, r, layer);
      in_place(layer, stride_, a_, rows)
          .multiply(D_, 1, V().transposed(), 0, {strip + r * rows.stride, rows.size(), 1},
                    {0, a_, rows.hull_first, rows.hull_end});
    }
  }

  void backward(const StripRows<T>& rows, const T* gradient, Workspace& space) const override {
    const std::int64_t plane = rows.size();
    WorkspaceScope taken(space);
    Vec<T>* query_gradient = this->take_sums(space, rows.count * a_);
    T *layer = space.take<T>(a_ * stride_), *slopes = space.take<T>(a_ * stride_);
    for (std::int64_t r = 0; r < rows.count && !rows.is_empty(); ++r) {
      compute_layer(rows, r, layer);
      const T* row = gradient + r * rows.stride;
      in_place(row, plane, D_, rows)
          .multiply(a_, 1, V(), 0, {slopes, stride_, 1}, {0, D_, rows.hull_first, rows.hull_end});
      add_V_gradient(rows, layer, {row, plane, 1}, space);
      for (std::int64_t d = 0; d < a_; ++d)
        query_gradient[r * a_ + d] =
            slope_row(layer + d * stride_, slopes + d * stride_, this->key_gradient(d), rows.first[r], rows.end[r]);
    }
    this->put_query_gradient(rows, query_gradient);
  }

 private:
  using HiddenScore<T>::a_;
  using HiddenScore<T>::stride_;

  MatrixView<const T> V() const { return {this->weights_, D_, 1}; }
  /// The matrix [count, J] as the right factor of products, read in place.
  static Panels<T> in_place(const T* matrix, std::int64_t stride, std::int64_t count, const StripRows<T>& rows) {
    return {MatrixView<const T>{matrix, stride, 1}, count, Panels<T>::padded(rows.hull_end)};
  }

  /// The hidden layer of row r, tanh(q + k_j) [a, J], for the keys of the hull.
  void compute_layer(const StripRows<T>& rows, std::int64_t r, T* layer) const {
    const T* query = this->query(rows.first_query + r);
    for (std::int64_t d = 0; d < a_; ++d, layer += stride_) {
      const T* keys = this->keys(d);
      const Vec<T> q(query[d]);
      for (std::int64_t j = rows.hull_first; j < rows.hull_end; j += Vec<T>::lanes)
        tanh(q + Vec<T>::load(keys + j)).store(layer + j);
    }
  }

  /// dV [a, D] += layer · gradientᵀ, where layer is [a, J] and gradient [D, J].
  void add_V_gradient(const StripRows<T>& rows, const T* layer, MatrixView<const T> gradient, Workspace& space) const {
    T* to = this->weight_gradient();
    if (!to) return;
    WorkspaceScope taken(space);
    const std::int64_t keys = rows.hull_end - rows.hull_first;
    packed_matrix(space, gradient.from(0, rows.hull_first).transposed(), keys, D_)
        .multiply(a_, 1, {layer + rows.hull_first, stride_, 1}, 1, {to, D_, 1});
  }

  /// The derivative of tanh for one hidden unit: adds slope · (1 − t²) to the keys' gradient and returns the sum over
  /// keys, which is the query's gradient, lane by lane.
  static Vec<T> slope_row(const T* layer, const T* slopes, T* key_gradient, std::int64_t first, std::int64_t end) {
    Vec<T> sum(T(0));
    for_keys<T>(first, end, [&](std::int64_t j, auto count) {
      Vec<T> t = load_vector(layer + j, count);
      Vec<T> slope = load_vector(slopes + j, count) * fma(-t, t, Vec<T>(T(1)));
      sum += filled(slope, count, T(0));
      store_vector(load_vector(key_gradient + j, count) + slope, key_gradient + j, count);
    });
    return sum;
  }

  std::int64_t D_;
};

}  // namespace fovea
