#include "tensor/scan.h"

#include "tensor/cpu/parallel.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

namespace {

/// Rows are summed four at a time: each sum waits for the one before it, but not for another row's.
template <class T, int rows>
void scan_rows(const T* x, T* out, std::int64_t n, bool reverse) {
  double total[rows] = {};
  std::int64_t j = reverse ? n - 1 : 0, step = reverse ? -1 : 1;
  for (std::int64_t count = 0; count < n; ++count, j += step)
    for (int k = 0; k < rows; ++k) {
      total[k] += static_cast<double>(x[k * n + j]);
      out[k * n + j] = static_cast<T>(total[k]);
    }
}

template <class T>
void scan_all(const T* x, T* out, std::int64_t rows, std::int64_t n, bool reverse) {
  parallel_for(rows, 1 + element_grain / (n + 1), [&](std::int64_t begin, std::int64_t end) {
    std::int64_t row = begin;
    for (; row + 4 <= end; row += 4) scan_rows<T, 4>(x + row * n, out + row * n, n, reverse);
    for (; row < end; ++row) scan_rows<T, 1>(x + row * n, out + row * n, n, reverse);
  });
}

void cumulative_sum(const Tensor& x, Tensor& out, bool reverse) {
  Tensor from = x.contiguous();
  std::int64_t n = x.size(-1);
  visit_real("cumulative_sum", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    scan_all(from.data<T>(), out.mutable_data<T>(), x.elements() / n, n, reverse);
  });
}

const Provide provide(Device::cpu, [](Kernels& table) { table.cumulative_sum = cumulative_sum; });

}  // namespace
}  // namespace fovea::cpu
