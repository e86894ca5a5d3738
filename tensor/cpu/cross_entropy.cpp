// Cross-entropy on the CPU.
#include "tensor/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "tensor/cpu/row_loop.h"
#include "tensor/formula/math.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class I>
void require_classes(const I* targets, std::int64_t rows, std::int64_t classes, std::int64_t ignored) {
  for (std::int64_t row = 0; row < rows; ++row)
    require(targets[row] == ignored || (0 <= targets[row] && targets[row] < classes),
            "cross_entropy: the target of row {} is {}; it must be in 0 to {}, or {} to be ignored", row, targets[row],
            classes - 1, ignored);
}

struct RowTotals {
  double log_sum_exp, sum;
};

/// Block by block, so that a block's second sweep finds it in the first cache; what was summed before is rescaled when
/// the maximum grows.
template <class T>
RowTotals row_totals(const T* logits, std::int64_t n) {
  constexpr std::int64_t block = 2048;
  double most = -infinity, sum_exp = 0, sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += block) {
    const T* z = logits + begin;
    std::int64_t size = std::min(block, n - begin);
    Vec<T> maximum(static_cast<T>(-infinity)), total(T(0)), exponentials(T(0));
    for_vectors<T>(size, [&](std::int64_t j, auto count) {
      Vec<T> v = load_vector(z + j, count);
      total += v;
      v = filled(v, count, static_cast<T>(-infinity));
      maximum = select(maximum < v, v, maximum);
    });
    double block_most = static_cast<double>(horizontal_max(maximum));
    Vec<T> shift(block_most == -infinity ? T(0) : static_cast<T>(block_most));
    for_vectors<T>(size, [&](std::int64_t j, auto count) {
      exponentials += exp(filled(load_vector(z + j, count), count, static_cast<T>(-infinity)) - shift);
    });
    sum += static_cast<double>(horizontal_sum(total));
    double larger = std::max(most, block_most), origin = larger == -infinity ? 0 : larger;
    sum_exp = sum_exp * exp(most - origin) +
              static_cast<double>(horizontal_sum(exponentials)) * exp(static_cast<double>(shift[0]) - origin);
    most = larger;
  }
  return {sum_exp == 0 ? infinity : most + log(sum_exp), sum};
}

/// One row of the gradient. The logarithm is subtracted in two pieces, as it has more digits than T.
template <class T>
void row_gradient(const T* logits, T g, double log_sum_exp, std::int64_t target, double label_smoothing, T* out,
                  std::int64_t n) {
  T high = static_cast<T>(log_sum_exp);
  T low = log_sum_exp == infinity ? T(0) : static_cast<T>(log_sum_exp - static_cast<double>(high));
  Vec<T> scale(g), first(high), second(low), everywhere(static_cast<T>(label_smoothing / static_cast<double>(n)));
  for_vectors<T>(n, [&](std::int64_t j, auto count) {
    Vec<T> p = exp(load_vector(logits + j, count) - first - second);
    store_vector(scale * (p - everywhere), out + j, count);
  });
  double p = exp(static_cast<double>(logits[target]) - log_sum_exp);
  out[target] =
      static_cast<T>(static_cast<double>(g) * (p - label_smoothing / static_cast<double>(n) - (1 - label_smoothing)));
}

void cross_entropy(const Tensor& logits, const Tensor& targets, double label_smoothing, std::int64_t ignored,
                   CrossEntropyResult& result) {
  std::int64_t rows = logits.size(0), V = logits.size(1);
  Tensor z = with_unit_rows(logits), classes = targets.contiguous();
  double* log_sum_exp = result.log_sum_exp.data<double>();
  visit_index("cross_entropy", targets.dtype(), [&](auto index) {
    const auto* target = classes.data<typename decltype(index)::type>();
    require_classes(target, rows, V, ignored);
    visit_real("cross_entropy", logits.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      T* loss = result.loss.data<T>();
      Rows<const T> row_of(z);
      parallel_for(rows, 1 + element_grain / (4 * V + 1), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          loss[row] = 0;
          log_sum_exp[row] = 0;
          if (target[row] == ignored) continue;
          const T* first = row_of[row];
          RowTotals totals = row_totals(first, V);
          double nll = totals.log_sum_exp - static_cast<double>(first[target[row]]);
          double uniform = totals.log_sum_exp - totals.sum / static_cast<double>(V);
          // without smoothing, an infinite logit elsewhere must not turn 0 · inf into NaN
          loss[row] =
              static_cast<T>(label_smoothing == 0 ? nll : (1 - label_smoothing) * nll + label_smoothing * uniform);
          log_sum_exp[row] = totals.log_sum_exp;
        }
      });
    });
  });
}

void cross_entropy_backward(const Tensor& g, const Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                            double label_smoothing, std::int64_t ignored, Tensor& out) {
  std::int64_t rows = logits.size(0), V = logits.size(1);
  Tensor z = with_unit_rows(logits), classes = targets.contiguous(), upstream = g.contiguous(),
         saved = log_sum_exp.contiguous();
  const double* log_totals = saved.data<double>();
  visit_index("cross_entropy", targets.dtype(), [&](auto index) {
    const auto* target = classes.data<typename decltype(index)::type>();
    visit_real("cross_entropy", logits.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      Rows<const T> from(z);
      Rows<T> to(out);
      const T* g_row = upstream.data<T>();
      parallel_for(rows, 1 + element_grain / (4 * V + 1), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          if (target[row] == ignored)
            std::fill_n(to[row], V, T(0));
          else
            row_gradient(from[row], g_row[row], log_totals[row], target[row], label_smoothing, to[row], V);
        }
      });
    });
  });
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.cross_entropy = cross_entropy;
  table.cross_entropy_backward = cross_entropy_backward;
});

}  // namespace
}  // namespace fovea::cpu
