// Scores with a hidden layer tanh(q_i + k_j) on strips. The layer [I, J, a] is never stored: each strip computes its
// own part, and the backward pass computes it again.
#include "attention/engine/cpu/strip_score.h"
#include "tensor/formula/math.h"

namespace fovea {

namespace {

/// Vectors of keys in a block: their inputs to the hidden layer stay in the L1 cache.
constexpr int block_vectors = 4;
/// Up to this many queries per sentence, transposing the keys takes longer than it saves.
constexpr int few_queries = 4;

/// The inputs of both scores: queries [B, H, I, a], keys [B, H, J, a], and the weights after the hidden layer, vectors
/// [H or 1, a] or matrices [H or 1, a, D].
struct HiddenStrips {
  HiddenStrips(const Variable& q, const Variable& k, const Variable& weights)
      : variables{q, k, weights}, queries(with_unit_rows(q.value())), keys(with_unit_rows(k.value())) {}

  /// Memory for the gradient of input k. `own` is the shape of one head's weights.
  Tensor room(std::size_t k, const StripShape& s, Shape own) const {
    if (k < 2)
      return strip_gradient_room({s.sentences, s.heads, k == 0 ? s.queries : s.keys, keys.size(-1)},
                                 k == 0 ? 1 : s.parts, keys.dtype());
    for (std::int64_t size : {s.heads, s.sentences, s.parts}) own.insert(0, size);
    return Tensor::zeros(own, keys.dtype());
  }

  std::vector<Variable> variables;
  Tensor queries, keys, weights;
};

/// The inputs of one item: queries, keys, and if start() transposes them, transposed keys [a, J]. The keys' gradient is
/// accumulated transposed; finish() copies it to the gradient's memory.
template <class T>
class HiddenItem {
 public:
  HiddenItem(const HiddenStrips& score, const StripShape& shape, std::span<Tensor> rooms)
      : score_(score), rooms_(rooms), J_(shape.keys), a_(score.keys.size(-1)), stride_(strip_stride<T>(J_)) {}

  void start(const StripItem& item, Workspace& space, bool transposes) {
    item_ = item;
    queries_ = head_matrix<T>(score_.queries, item.sentence, item.head);
    own_keys_ = head_matrix<T>(score_.keys, item.sentence, item.head);
    if (!transposes) return;
    keys_ = space.take<T>(a_ * stride_);
    pack(own_keys_.transposed(), a_, J_, keys_, stride_);
    if (!item.backward) return;
    key_gradient_ = space.take<T>(a_ * stride_);
    std::fill_n(key_gradient_, a_ * stride_, T(0));
  }
  void finish() {
    if (!item_.backward || !rooms_[1].defined()) return;
    MatrixView<T> to = strip_gradient<T>(rooms_[1], item_.sentence, item_.head, item_.part);
    for (std::int64_t j = 0; j < J_; ++j)
      for (std::int64_t d = 0; d < a_; ++d) *to.at(j, d) = key_gradient_[d * stride_ + j];
  }

  const StripItem& item() const { return item_; }
  std::int64_t a() const { return a_; }
  std::int64_t stride() const { return stride_; }  ///< of the transposed keys and their gradient, in elements
  const T* query(std::int64_t i) const { return queries_.at(i, 0); }
  const T* key(std::int64_t j) const { return own_keys_.at(j, 0); }
  const T* keys(std::int64_t d) const { return keys_ + d * stride_; }
  T* key_gradient(std::int64_t d) const { return key_gradient_ + d * stride_; }

  /// Writes the queries' gradient: sums [rows, a], whose elements are vectors, reduced to numbers.
  void put_query_gradient(const StripRows<T>& rows, const Vec<T>* sums) const {
    if (!rooms_[0].defined()) return;
    MatrixView<T> to = strip_gradient<T>(rooms_[0], item_.sentence, item_.head, 0).from(rows.first_query, 0);
    for (std::int64_t r = 0; r < rows.count; ++r)
      for (std::int64_t d = 0; d < a_; ++d) *to.at(r, d) = horizontal_sum(sums[r * a_ + d]);
  }
  /// This item's memory for the gradient of the weights, `size` elements; null if that is not wanted.
  T* weight_gradient(std::int64_t size) const {
    const Tensor& room = rooms_[2];
    if (!room.defined()) return nullptr;
    return room.mutable_data<T>() +
           ((item_.part * room.shape()[1] + item_.sentence) * room.shape()[2] + item_.head) * size;
  }
  /// `count` vectors of zeros.
  static Vec<T>* take_sums(Workspace& space, std::int64_t count) {
    auto* sums = reinterpret_cast<Vec<T>*>(space.take<T>(count * Vec<T>::lanes));
    std::fill_n(sums, count, Vec<T>(T(0)));
    return sums;
  }

 private:
  const HiddenStrips& score_;
  std::span<Tensor> rooms_;
  std::int64_t J_, a_, stride_;
  StripItem item_ = {};
  MatrixView<const T> queries_ = {}, own_keys_ = {};
  T *keys_ = nullptr, *key_gradient_ = nullptr;
};

/// body(row, key, vectors, count) for all keys of all rows. All rows of one block of keys come before the next block.
/// Each call covers `vectors` vectors of keys (a std::integral_constant); `count` is that of the last vector, as in
/// for_vectors().
template <class T, class Body>
FOVEA_INLINE void for_blocks(const StripRows<T>& rows, Body&& body) {
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

// ---- Additive

template <class T>
struct AdditiveStrips : StripScore<T> {
  AdditiveStrips(const Variable& q, const Variable& k, const Variable& v) : hidden(q, k, v) {
    hidden.weights = v.value().reshape({v.rank() == 1 ? 1 : v.size(0), v.size(-1)}).contiguous();
  }
  std::vector<Variable> inputs() const override { return hidden.variables; }
  Tensor gradient_room(std::size_t k, const StripShape& s) const override {
    return hidden.room(k, s, {hidden.keys.size(-1)});
  }
  std::unique_ptr<ScoreWorker<T>> worker(const StripShape& shape, std::span<Tensor> rooms) const override;

  HiddenStrips hidden;
};

template <class T>
class AdditiveWorker : public ScoreWorker<T> {
 public:
  AdditiveWorker(const HiddenStrips& score, const StripShape& shape, std::span<Tensor> rooms)
      : weights_(score.weights), few_(shape.queries <= few_queries), hidden_(score, shape, rooms) {}

  void start(const StripItem& item, Workspace& space) override {
    hidden_.start(item, space, item.backward || !few_);
    vector_ = weights_.data<T>() + (weights_.size(0) > 1 ? item.head * weights_.size(1) : 0);
    if (item.backward) vector_gradient_ = HiddenItem<T>::take_sums(space, hidden_.a());
  }

  void logits(const StripRows<T>& rows, T* strip, Workspace&) override {
    if (few_ && !hidden_.item().backward) return logits_key_by_key(rows, strip);
    for_blocks(rows, [&](std::int64_t r, std::int64_t j, auto vectors, auto count) {
      score_block<vectors>(hidden_.query(rows.first_query + r), j, strip + r * rows.stride + j, count);
    });
  }

  void backward(const StripRows<T>& rows, const T* gradient, Workspace& space) override {
    const std::int64_t a = hidden_.a();
    WorkspaceScope taken(space);
    Vec<T>* query_gradient = HiddenItem<T>::take_sums(space, rows.count * a);
    for_blocks(rows, [&](std::int64_t r, std::int64_t j, auto vectors, auto count) {
      slope_block<vectors>(hidden_.query(rows.first_query + r), j, gradient + r * rows.stride + j,
                           query_gradient + r * a, count);
    });
    hidden_.put_query_gradient(rows, query_gradient);
  }

  void finish() override {
    hidden_.finish();
    if (!hidden_.item().backward) return;
    if (T* to = hidden_.weight_gradient(hidden_.a()))
      for (std::int64_t d = 0; d < hidden_.a(); ++d) to[d] = horizontal_sum(vector_gradient_[d]);
  }

 private:
  /// logit_j = Σ_d v_d tanh(q_d + k_jd), for the keys that a row sees, without transposed keys.
  void logits_key_by_key(const StripRows<T>& rows, T* strip) const {
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const T* query = hidden_.query(rows.first_query + r);
      for (std::int64_t j = rows.first[r]; j < rows.end[r]; ++j)
        strip[r * rows.stride + j] = sum_of_vectors<T>(hidden_.a(), [&](std::int64_t d, auto count) {
          Vec<T> hidden = tanh(load_vector(query + d, count) + load_vector(hidden_.key(j) + d, count));
          return load_vector(vector_ + d, count) * hidden;
        });
    }
  }

  /// logit_j = Σ_d v_d tanh(q_d + k_jd), for `vectors` vectors of keys from j on.
  template <int vectors, class Count>
  void score_block(const T* query, std::int64_t j, T* logits, Count count) const {
    constexpr int lanes = Vec<T>::lanes;
    Vec<T> sum[vectors];
    for (Vec<T>& s : sum) s = Vec<T>(T(0));
    for (std::int64_t d = 0; d < hidden_.a(); ++d) {
      const T* keys = hidden_.keys(d) + j;
      const Vec<T> q(query[d]), v(vector_[d]);
      for (int k = 0; k < vectors; ++k) sum[k] = fma(v, tanh(q + load_vector(keys + k * lanes, count)), sum[k]);
    }
    for (int k = 0; k < vectors; ++k) store_vector(sum[k], logits + k * lanes, count);
  }

  /// Adds to the gradients of the query, the keys and v, given those of `vectors` vectors of logits from key j on.
  template <int vectors, class Count>
  void slope_block(const T* query, std::int64_t j, const T* slopes, Vec<T>* query_gradient, Count count) {
    constexpr int lanes = Vec<T>::lanes;
    Vec<T> g[vectors];
    for (int k = 0; k < vectors; ++k) g[k] = filled(load_vector(slopes + k * lanes, count), count, T(0));
    for (std::int64_t d = 0; d < hidden_.a(); ++d) {
      const T* keys = hidden_.keys(d) + j;
      T* key_gradient = hidden_.key_gradient(d) + j;
      const Vec<T> q(query[d]), v(vector_[d]);
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

  Tensor weights_;
  bool few_;
  HiddenItem<T> hidden_;
  const T* vector_ = nullptr;
  Vec<T>* vector_gradient_ = nullptr;
};

template <class T>
std::unique_ptr<ScoreWorker<T>> AdditiveStrips<T>::worker(const StripShape& shape, std::span<Tensor> rooms) const {
  return std::make_unique<AdditiveWorker<T>>(hidden, shape, rooms);
}

// ---- Fine-grained

template <class T>
struct FineGrainedStrips : StripScore<T> {
  FineGrainedStrips(const Variable& q, const Variable& k, const Variable& V) : hidden(q, k, V) {
    hidden.weights = V.value().reshape({V.rank() == 2 ? 1 : V.size(0), V.size(-2), V.size(-1)}).contiguous();
  }
  std::vector<Variable> inputs() const override { return hidden.variables; }
  Tensor gradient_room(std::size_t k, const StripShape& s) const override {
    return hidden.room(k, s, {hidden.keys.size(-1), hidden.weights.size(-1)});
  }
  std::int64_t dimensions() const override { return hidden.weights.size(-1); }
  std::unique_ptr<ScoreWorker<T>> worker(const StripShape& shape, std::span<Tensor> rooms) const override;

  HiddenStrips hidden;
};

/// Computes the hidden layer [a, J] of one query at a time, then its products with V.
template <class T>
class FineGrainedWorker : public ScoreWorker<T> {
 public:
  FineGrainedWorker(const HiddenStrips& score, const StripShape& shape, std::span<Tensor> rooms)
      : weights_(score.weights), D_(score.weights.size(-1)), hidden_(score, shape, rooms) {}

  void start(const StripItem& item, Workspace& space) override {
    hidden_.start(item, space, true);
    V_ = {weights_.data<T>() + (weights_.size(0) > 1 ? item.head * hidden_.a() * D_ : 0), D_, 1};
    if (!item.backward) return;
    V_gradient_ = hidden_.weight_gradient(hidden_.a() * D_);
  }

  void logits(const StripRows<T>& rows, T* strip, Workspace& space) override {
    WorkspaceScope taken(space);
    T* layer = space.take<T>(hidden_.a() * hidden_.stride());
    for (std::int64_t r = 0; r < rows.count; ++r) {
      make_layer(rows, r, layer);
      MatrixView<T> planes{strip + r * rows.stride, rows.count * rows.stride, 1};
      read(layer, hidden_.stride(), hidden_.a(), rows)
          .multiply(D_, 1, V_.transposed(), 0, planes, {0, hidden_.a(), rows.hull_first, rows.hull_end});
    }
  }

  void backward(const StripRows<T>& rows, const T* gradient, Workspace& space) override {
    const std::int64_t a = hidden_.a(), stride = hidden_.stride(), plane = rows.count * rows.stride;
    WorkspaceScope taken(space);
    Vec<T>* query_gradient = HiddenItem<T>::take_sums(space, rows.count * a);
    T *layer = space.take<T>(a * stride), *slopes = space.take<T>(a * stride);
    for (std::int64_t r = 0; r < rows.count && !rows.is_empty(); ++r) {
      make_layer(rows, r, layer);
      const T* row = gradient + r * rows.stride;
      read(row, plane, D_, rows).multiply(a, 1, V_, 0, {slopes, stride, 1}, {0, D_, rows.hull_first, rows.hull_end});
      add_V_gradient(rows, layer, {row, plane, 1}, space);
      for (std::int64_t d = 0; d < a; ++d)
        query_gradient[r * a + d] =
            slope_row(layer + d * stride, slopes + d * stride, hidden_.key_gradient(d), rows.first[r], rows.end[r]);
    }
    hidden_.put_query_gradient(rows, query_gradient);
  }

  void finish() override { hidden_.finish(); }

 private:
  /// The matrix [count, J] as the right factor of products, read in place.
  static Panels<T> read(const T* matrix, std::int64_t stride, std::int64_t count, const StripRows<T>& rows) {
    return {MatrixView<const T>{matrix, stride, 1}, count, Panels<T>::padded(rows.hull_end)};
  }

  /// The hidden layer of row r, tanh(q + k_j) [a, J], for the keys of the hull.
  void make_layer(const StripRows<T>& rows, std::int64_t r, T* layer) const {
    const T* query = hidden_.query(rows.first_query + r);
    for (std::int64_t d = 0; d < hidden_.a(); ++d, layer += hidden_.stride()) {
      const T* keys = hidden_.keys(d);
      const Vec<T> q(query[d]);
      for (std::int64_t j = rows.hull_first; j < rows.hull_end; j += Vec<T>::lanes)
        tanh(q + Vec<T>::load(keys + j)).store(layer + j);
    }
  }

  /// dV [a, D] += layer · gradientᵀ, where layer is [a, J] and gradient [D, J].
  void add_V_gradient(const StripRows<T>& rows, const T* layer, MatrixView<const T> gradient, Workspace& space) const {
    if (!V_gradient_) return;
    WorkspaceScope taken(space);
    const std::int64_t keys = rows.hull_end - rows.hull_first;
    Panels<T> transposed = packed_matrix(space, gradient.from(0, rows.hull_first).transposed(), keys, D_);
    transposed.multiply(hidden_.a(), 1, {layer + rows.hull_first, hidden_.stride(), 1}, 1, {V_gradient_, D_, 1});
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

  Tensor weights_;
  std::int64_t D_;
  HiddenItem<T> hidden_;
  MatrixView<const T> V_ = {};
  T* V_gradient_ = nullptr;
};

template <class T>
std::unique_ptr<ScoreWorker<T>> FineGrainedStrips<T>::worker(const StripShape& shape, std::span<Tensor> rooms) const {
  return std::make_unique<FineGrainedWorker<T>>(hidden, shape, rooms);
}

}  // namespace

template <class T>
std::unique_ptr<StripScore<T>> additive_strips(const Variable& queries, const Variable& keys, const Variable& vector) {
  return std::make_unique<AdditiveStrips<T>>(queries, keys, vector);
}
template std::unique_ptr<StripScore<float>> additive_strips(const Variable&, const Variable&, const Variable&);
template std::unique_ptr<StripScore<double>> additive_strips(const Variable&, const Variable&, const Variable&);

template <class T>
std::unique_ptr<StripScore<T>> fine_grained_strips(const Variable& queries, const Variable& keys, const Variable& V) {
  return std::make_unique<FineGrainedStrips<T>>(queries, keys, V);
}
template std::unique_ptr<StripScore<float>> fine_grained_strips(const Variable&, const Variable&, const Variable&);
template std::unique_ptr<StripScore<double>> fine_grained_strips(const Variable&, const Variable&, const Variable&);

}  // namespace fovea
