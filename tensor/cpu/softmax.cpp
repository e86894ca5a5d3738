// Softmax and its relatives on the CPU, a row at a time.
#include <limits>
#include <utility>

#include "tensor/cpu/row_loop.h"
#include "tensor/formula/math.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

namespace {

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// True in the lanes whose byte is not 0; reads one byte per lane.
template <class T>
FOVEA_INLINE LaneMask<T> nonzero(const std::uint8_t* bytes) {
  typename LaneMask<T>::Native wide;
#if defined(__AVX512F__)
  // with a mask of all lanes: GCC 12 warns about the form without
  if constexpr (sizeof(T) == 4)
    wide = (decltype(wide))_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  else
    wide = (decltype(wide))_mm512_maskz_cvtepu8_epi64(0xff, _mm_loadu_si64(bytes));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    wide = (decltype(wide))_mm256_cvtepu8_epi32(_mm_loadu_si64(bytes));
  else
    wide = (decltype(wide))_mm256_cvtepu8_epi64(_mm_loadu_si32(bytes));
#else
  for (int lane = 0; lane < Vec<T>::lanes; ++lane) wide[lane] = bytes[lane];
#endif
  return {wide != 0};
}

/// A row of logits; what is not allowed, and the lanes past its end, read as −inf.
template <class T, bool masked>
struct LogitRow {
  const T* logits;
  const std::uint8_t* allow;  // padded with 0 to whole vectors
  std::int64_t size;

  template <class Count>
  FOVEA_INLINE Vec<T> load(std::int64_t j, Count count) const {
    Vec<T> z = load_vector(logits + j, count);
    if constexpr (masked)
      return select(nonzero<T>(allow + j), z, Vec<T>(-infinity<T>));
    else
      return filled(z, count, -infinity<T>);
  }
};

template <class T>
FOVEA_INLINE Vec<T> larger(Vec<T> a, Vec<T> b) {
  return select(a < b, b, a);
}

/// What is subtracted before exp: the row's maximum, or 0 where that is −inf, so that exp gives 0 and not NaN.
template <class T>
FOVEA_INLINE T shift_of(Vec<T> maximum) {
  T m = horizontal_max(maximum);
  return m == -infinity<T> ? T(0) : m;
}

template <class T>
FOVEA_INLINE T inverse_or_zero(T sum) {
  return sum == T(0) ? T(0) : T(1) / sum;
}

/// A row of `chunks` vectors, the last of them perhaps partial, in registers from the logits to the weights.
template <int chunks, class T, bool masked>
FOVEA_INLINE void softmax_in_registers(const LogitRow<T, masked>& row, T* out) {
  using V = Vec<T>;
  constexpr int last = (chunks - 1) * V::lanes;
  int rest = static_cast<int>(row.size) - last;
  V z[chunks];
  for (int c = 0; c < chunks - 1; ++c) z[c] = row.load(c * V::lanes, WholeVector<T>{});
  z[chunks - 1] = rest == V::lanes ? row.load(last, WholeVector<T>{}) : row.load(last, rest);
  V maximum = z[0];
  for (int c = 1; c < chunks; ++c) maximum = larger(maximum, z[c]);
  V shift(shift_of(maximum)), sum(T(0));
  for (int c = 0; c < chunks; ++c) sum += z[c] = exp(z[c] - shift);
  V scale(inverse_or_zero(horizontal_sum(sum)));
  for (int c = 0; c < chunks - 1; ++c) (z[c] * scale).store(out + c * V::lanes);
  V tail = z[chunks - 1] * scale;
  rest == V::lanes ? tail.store(out + last) : tail.store_partial(out + last, rest);
}

template <class T, bool masked>
T row_shift(const LogitRow<T, masked>& row) {
  Vec<T> maximum(-infinity<T>);
  for_vectors<T>(row.size, [&](std::int64_t j, auto count) { maximum = larger(maximum, row.load(j, count)); });
  return shift_of(maximum);
}

template <class T, bool masked>
void softmax_in_memory(const LogitRow<T, masked>& row, T* out) {
  Vec<T> shift(row_shift(row));
  Vec<T> scale(inverse_or_zero(sum_of_vectors<T>(row.size, [&](std::int64_t j, auto count) {
    Vec<T> e = exp(row.load(j, count) - shift);
    store_vector(e, out + j, count);
    return e;
  })));
  for_vectors<T>(
      row.size, [&](std::int64_t j, auto count) { store_vector(load_vector(out + j, count) * scale, out + j, count); });
}

/// log Σ exp(z − shift), and +inf where nothing is allowed.
template <class T, bool masked>
T log_sum(const LogitRow<T, masked>& row, T shift) {
  T total =
      sum_of_vectors<T>(row.size, [&](std::int64_t j, auto count) { return exp(row.load(j, count) - Vec<T>(shift)); });
  return total == T(0) ? infinity<T> : log(total);
}

/// The mask with its last dimension spelt out and padded with 0 to whole vectors: no load of it is partial.
Tensor padded_mask(const Tensor& allow, const Tensor& logits) {
  constexpr std::int64_t lanes = Vec<float>::lanes;
  std::int64_t n = logits.size(-1);
  if (n % lanes == 0 && allow.is_contiguous() && allow.size(-1) == n) return allow;
  Shape shape = allow.shape();
  shape[-1] = (n + lanes - 1) / lanes * lanes;
  Tensor padded = Tensor::zeros(shape, allow.dtype());
  padded.slice(-1, 0, n).copy_from(allow);
  return padded;
}

/// compute(row of logits, the result's row) for all rows; rows of `out` are any size.
template <class Compute>
void for_logit_rows(const char* what, const Tensor& logits, const Tensor& allow, Tensor& out, const Compute& compute) {
  Tensor z = with_unit_rows(logits), mask = allow.defined() ? padded_mask(allow, logits) : z;
  auto loop = plan_rows<3>(leading_shape(logits.shape()), {&z, &mask, &out});
  std::int64_t n = logits.size(-1);
  visit_real(what, logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* first = z.data<T>();
    T* to = out.data<T>();
    auto over_rows = [&](const std::uint8_t* bytes, auto masked) {
      parallel_rows(loop, 4 * n, [&](auto& offset) {
        constexpr bool is_masked = decltype(masked)::value;
        const std::uint8_t* allowed = is_masked ? bytes + offset[1] : nullptr;
        compute(LogitRow<T, is_masked>{first + offset[0], allowed, n}, to + offset[2]);
      });
    };
    if (allow.defined())
      over_rows(reinterpret_cast<const std::uint8_t*>(mask.address()), std::true_type{});
    else
      over_rows(nullptr, std::false_type{});
  });
}

void softmax(const Tensor& logits, const Tensor& allow, Tensor& out) {
  constexpr const char* what = "softmax";
  auto lanes = static_cast<std::int64_t>(vector_bytes / size_of(logits.dtype()));
  auto chunks = (logits.size(-1) + lanes - 1) / lanes;
  auto short_rows = [&](auto c) {
    for_logit_rows(what, logits, allow, out,
                   [](const auto& row, auto* to) { softmax_in_registers<decltype(c)::value>(row, to); });
  };
  bool done = [&]<int... c>(std::integer_sequence<int, c...>) {
    return ((chunks == c + 1 && (short_rows(std::integral_constant<int, c + 1>{}), true)) || ...);
  }
  (std::make_integer_sequence<int, 8>{});
  if (!done) for_logit_rows(what, logits, allow, out, [](const auto& row, auto* to) { softmax_in_memory(row, to); });
}

void log_softmax(const Tensor& logits, Tensor& out) {
  for_logit_rows("log_softmax", logits, {}, out, [](const auto& row, auto* to) {
    auto shift = row_shift(row), log_total = log_sum(row, shift);
    using T = decltype(shift);
    for_vectors<T>(row.size, [&](std::int64_t j, auto count) {
      store_vector(row.load(j, count) - Vec<T>(shift) - Vec<T>(log_total), to + j, count);
    });
  });
}

void log_sum_exp(const Tensor& logits, const Tensor& allow, Tensor& out) {
  Tensor column = out.unsqueeze(-1);
  for_logit_rows("log_sum_exp", logits, allow, column, [](const auto& row, auto* to) {
    auto shift = row_shift(row);
    *to = shift + log_sum(row, shift);
  });
}

/// compute(row of y, row of g, the result's row) for all rows of two tensors that are alike.
template <class Compute>
void for_gradient_rows(const char* what, const Tensor& y, const Tensor& g, Tensor& out, const Compute& compute) {
  Tensor value = with_unit_rows(y), gradient = with_unit_rows(g);
  auto loop = plan_rows<3>(leading_shape(y.shape()), {&value, &gradient, &out});
  std::int64_t n = y.size(-1);
  visit_real(what, y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T *from = value.data<T>(), *upstream = gradient.data<T>();
    T* to = out.data<T>();
    parallel_rows(loop, 2 * n,
                  [&](auto& offset) { compute(from + offset[0], upstream + offset[1], to + offset[2], n); });
  });
}

void softmax_backward(const Tensor& y, const Tensor& g, Tensor& out) {
  for_gradient_rows("softmax_backward", y, g, out, []<class T>(const T* y, const T* g, T* out, std::int64_t n) {
    const Vec<T> zero(T(0));
    Vec<T> mean(sum_of_vectors<T>(n, [&](std::int64_t j, auto count) {
      Vec<T> weight = load_vector(y + j, count);
      return select(weight == zero, zero, weight * load_vector(g + j, count));
    }));
    for_vectors<T>(n, [&](std::int64_t j, auto count) {
      Vec<T> weight = load_vector(y + j, count);
      store_vector(select(weight == zero, zero, weight * (load_vector(g + j, count) - mean)), out + j, count);
    });
  });
}

void log_softmax_backward(const Tensor& y, const Tensor& g, Tensor& out) {
  for_gradient_rows("log_softmax_backward", y, g, out, []<class T>(const T* y, const T* g, T* out, std::int64_t n) {
    Vec<T> total(sum_of_vectors<T>(n, [&](std::int64_t j, auto count) { return load_vector(g + j, count); }));
    for_vectors<T>(n, [&](std::int64_t j, auto count) {
      store_vector(load_vector(g + j, count) - exp(load_vector(y + j, count)) * total, out + j, count);
    });
  });
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.softmax = softmax;
  table.softmax_backward = softmax_backward;
  table.log_softmax = log_softmax;
  table.log_softmax_backward = log_softmax_backward;
  table.log_sum_exp = log_sum_exp;
});

}  // namespace
}  // namespace fovea::cpu
