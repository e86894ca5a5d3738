// Layer normalisation on the CPU.
#include "tensor/layer_norm.h"

#include <algorithm>

#include "tensor/cpu/row_loop.h"
#include "tensor/formula/math.h"
#include "tensor/kernels.h"
#include "tensor/reduce.h"

namespace fovea::cpu {

namespace {

template <class T>
struct RowStatistics {
  T mean, inverse_deviation;
};

/// In two sweeps: the difference E[x²] − E[x]² would lose all digits where the mean is large.
template <class T>
RowStatistics<T> row_statistics(const T* x, std::int64_t n, double epsilon) {
  T mean =
      sum_of_vectors<T>(n, [&](std::int64_t j, auto count) { return load_vector(x + j, count); }) / static_cast<T>(n);
  T squares = sum_of_vectors<T>(n, [&](std::int64_t j, auto count) {
    Vec<T> d = filled(load_vector(x + j, count) - Vec<T>(mean), count, T(0));
    return d * d;
  });
  T variance = squares / static_cast<T>(n);
  return {mean, T(1) / sqrt(variance + static_cast<T>(epsilon))};
}

template <class T>
void normalise_row(const T* x, RowStatistics<T> row, const T* gain, const T* bias, T* out, std::int64_t n) {
  Vec<T> mean(row.mean), inverse(row.inverse_deviation);
  for_vectors<T>(n, [&](std::int64_t j, auto count) {
    Vec<T> normal = (load_vector(x + j, count) - mean) * inverse;
    store_vector(normal * load_vector(gain + j, count) + load_vector(bias + j, count), out + j, count);
  });
}

/// Writes the row's gradient and adds the row to those of gain and bias. With x̂ the normalised row and h = g · gain:
/// dx = inverse_deviation · (h − mean(h) − x̂ · mean(h x̂)).
template <class T>
void row_gradients(const T* x, const T* g, RowStatistics<T> row, const T* gain, T* dx, T* d_gain, T* d_bias,
                   std::int64_t n) {
  Vec<T> mean(row.mean), inverse(row.inverse_deviation), sum(T(0)), product(T(0));
  for_vectors<T>(n, [&](std::int64_t j, auto count) {
    Vec<T> h = load_vector(g + j, count) * load_vector(gain + j, count);
    sum += h;
    product += h * ((load_vector(x + j, count) - mean) * inverse);
  });
  Vec<T> mean_h(horizontal_sum(sum) / static_cast<T>(n)), mean_product(horizontal_sum(product) / static_cast<T>(n));
  for_vectors<T>(n, [&](std::int64_t j, auto count) {
    Vec<T> upstream = load_vector(g + j, count), normal = (load_vector(x + j, count) - mean) * inverse;
    Vec<T> h = upstream * load_vector(gain + j, count);
    store_vector(inverse * (h - mean_h - normal * mean_product), dx + j, count);
    store_vector(load_vector(d_gain + j, count) + upstream * normal, d_gain + j, count);
    store_vector(load_vector(d_bias + j, count) + upstream, d_bias + j, count);
  });
}

void layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double epsilon, LayerNormResult& result) {
  std::int64_t n = x.size(-1);
  Tensor from = with_unit_rows(x), means = result.mean.unsqueeze(-1), scale = gain.contiguous(),
         shift = bias.contiguous();
  auto loop = plan_rows<3>(leading_shape(x.shape()), {&from, &result.output, &means});
  visit_real("layer_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T *first = from.data<T>(), *gains = scale.data<T>(), *biases = shift.data<T>();
    T *out = result.output.data<T>(), *mean = result.mean.data<T>(), *inverse = result.inverse_deviation.data<T>();
    parallel_rows(loop, 4 * n, [&](auto& offset) {
      auto row = row_statistics(first + offset[0], n, epsilon);
      normalise_row(first + offset[0], row, gains, biases, out + offset[1], n);
      mean[offset[2]] = row.mean;
      inverse[offset[2]] = row.inverse_deviation;
    });
  });
}

/// The sums of some rows' gradients of gain and bias, side by side [2 n]: blocks of rows in T, blocks in f64.
template <class T>
struct ParameterSums {
  T* block;
  double* total;
  std::int64_t n;

  void flush() {
    for (std::int64_t j = 0; j < 2 * n; ++j) {
      total[j] += static_cast<double>(block[j]);
      block[j] = 0;
    }
  }
};

/// All operands with contiguous rows.
template <class T>
void backward_rows(const Tensor& g, const Tensor& x, const Tensor& gain, const Tensor& mean,
                   const Tensor& inverse_deviation, LayerNormGradients& out) {
  std::int64_t n = x.size(-1), rows = x.elements() / std::max<std::int64_t>(n, 1);
  auto loop = plan_rows<5>(leading_shape(x.shape()), {&x, &g, &out.x, &mean, &inverse_deviation});
  const T *x_first = x.data<T>(), *g_first = g.data<T>(), *gains = gain.data<T>();
  const T *mean_first = mean.data<T>(), *inverse_first = inverse_deviation.data<T>();
  T* dx = out.x.data<T>();

  // as many parts whatever the number of threads
  constexpr std::int64_t block_rows = 128;
  std::int64_t parts = std::clamp<std::int64_t>(rows / 16, 1, 32);
  Tensor totals = Tensor::zeros({parts, 2 * n}, DType::f64), blocks = Tensor::zeros({parts, 2 * n}, x.dtype());
  parallel_for(parts, 1 + element_grain / (8 * n * rows / parts + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      ParameterSums<T> sums{blocks.data<T>() + part * 2 * n, totals.data<double>() + part * 2 * n, n};
      std::int64_t last = rows * (part + 1) / parts;
      for (std::int64_t row = rows * part / parts; row < last; row += block_rows) {
        loop.for_rows(row, std::min(row + block_rows, last), [&](auto& at) {
          row_gradients(x_first + at[0], g_first + at[1], {mean_first[at[3]], inverse_first[at[4]]}, gains, dx + at[2],
                        sums.block, sums.block + n, n);
        });
        sums.flush();
      }
    }
  });
  Tensor total = sum(totals, {0});
  out.gain.copy_from(total.slice(0, 0, n));
  out.bias.copy_from(total.slice(0, n, 2 * n));
}

void layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gain, const Tensor& mean,
                         const Tensor& inverse_deviation, LayerNormGradients& out) {
  visit_real("layer_norm", x.dtype(), [&](auto type) {
    backward_rows<typename decltype(type)::type>(with_unit_rows(g), with_unit_rows(x), gain.contiguous(),
                                                 mean.unsqueeze(-1), inverse_deviation.unsqueeze(-1), out);
  });
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.layer_norm = layer_norm;
  table.layer_norm_backward = layer_norm_backward;
});

}  // namespace
}  // namespace fovea::cpu
