// The largest elements of each row, on the CPU.
#include "tensor/top_k.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "tensor/cpu/row_loop.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

namespace {

/// The k largest elements found so far and their indices, in descending order. A new element is inserted before the
/// smaller ones, so of equal elements the first found comes first. An insertion moves up to k elements, which is the
/// fastest way while k is small.
template <class T>
class Best {
 public:
  Best(std::int64_t k, T* values, std::int32_t* index) : k_(k), values_(values), index_(index) {
    std::fill_n(values, k, -std::numeric_limits<T>::infinity());
    std::fill_n(index, k, 0);
  }

  T threshold() const { return values_[k_ - 1]; }
  bool full() const { return count_ == k_; }
  /// How often an element has moved to make room for another one.
  std::int64_t moves() const { return moves_; }

  FOVEA_INLINE void offer(T value, std::int64_t at) {
    if (full() && !(value > threshold())) return;
    std::int64_t place = full() ? k_ - 1 : count_++;
    for (; place > 0 && values_[place - 1] < value; --place, ++moves_) {
      values_[place] = values_[place - 1];
      index_[place] = index_[place - 1];
    }
    values_[place] = value == value ? value : -std::numeric_limits<T>::infinity();
    index_[place] = static_cast<std::int32_t>(at);
  }

 private:
  std::int64_t k_, count_ = 0, moves_ = 0;
  T* values_;
  std::int32_t* index_;
};

/// Finds the k largest elements of a row, or returns false where sort_row() is faster: if many are larger than those
/// before them, as in an ascending row. In most rows most blocks of elements contain nothing larger than the k-th
/// largest so far, and one comparison with the block's maximum rules them out. In the other blocks, the same comparison
/// rules out most of the vectors.
template <class T>
bool search_row(const T* row, std::int64_t n, std::int64_t k, T* values, std::int32_t* index) {
  Best<T> best(k, values, index);
  constexpr std::int64_t lanes = Vec<T>::lanes, block = 4 * lanes;
  const Vec<T> least(-std::numeric_limits<T>::infinity());
  auto larger = [](Vec<T> next, Vec<T> so_far) { return select(next > so_far, next, so_far); };  // a NaN is not larger
  std::int64_t j = 0;
  const std::int64_t most_moves = 8 * n;
  for (; j < n && !best.full() && best.moves() <= most_moves; ++j) best.offer(row[j], j);
  for (; j + block <= n && best.moves() <= most_moves; j += block) {
    Vec<T> largest = least;
    for (std::int64_t e = j; e < j + block; e += lanes) largest = larger(Vec<T>::load(row + e), largest);
    if (!(horizontal_max(largest) > best.threshold())) continue;
    for (std::int64_t v = j; v < j + block; v += lanes) {
      if (!(horizontal_max(larger(Vec<T>::load(row + v), least)) > best.threshold())) continue;
      for (std::int64_t e = v; e < v + lanes; ++e) best.offer(row[e], e);
    }
  }
  if (best.moves() > most_moves) return false;
  for (; j < n; ++j) best.offer(row[j], j);
  return true;
}

/// Finds the k largest elements of any row. It takes 4 to 80 times as long as a search that comes to its end.
template <class T>
void sort_row(const T* row, std::int64_t n, std::int64_t k, T* values, std::int32_t* index) {
  auto value = [row](std::int32_t j) { return row[j] == row[j] ? row[j] : -std::numeric_limits<T>::infinity(); };
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](std::int32_t a, std::int32_t b) {
    return value(a) > value(b) || (value(a) == value(b) && a < b);
  };
  std::nth_element(order.begin(), order.begin() + (k - 1), order.end(), is_before);
  std::sort(order.begin(), order.begin() + k, is_before);
  for (std::int64_t j = 0; j < k; ++j) index[j] = order[static_cast<std::size_t>(j)], values[j] = value(index[j]);
}

void top_k(const Tensor& x, TopK& out) {
  const std::int64_t n = x.size(-1), k = out.values.size(-1);
  Tensor from = x.contiguous();
  visit_real("top_k", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* rows = from.data<T>();
    T* values = out.values.mutable_data<T>();
    std::int32_t* index = out.index.mutable_data<std::int32_t>();
    parallel_for(from.elements() / n, 1 + element_grain / (n + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        if (!search_row(rows + row * n, n, k, values + row * k, index + row * k))
          sort_row(rows + row * n, n, k, values + row * k, index + row * k);
    });
  });
}

const Provide provide(Device::cpu, [](Kernels& table) { table.top_k = top_k; });

}  // namespace
}  // namespace fovea::cpu
