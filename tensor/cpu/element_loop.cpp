#include "tensor/element_loop.h"

namespace fovea {

template <int operands>
void for_runs(const ElementLoop<operands>& loop, RunBody<operands> body, std::int64_t cost) {
  const std::int64_t count = loop.inner(), grain = element_grain / cost;
  if (loop.rows() >= 16 || count <= grain)
    return parallel_for(loop.rows(), 1 + grain / (count + 1), [&](std::int64_t begin, std::int64_t end) {
      loop.for_rows(begin, end, [&](auto& offsets) { body(offsets, count); });
    });
  loop.for_rows(0, loop.rows(), [&](auto& row) {
    parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      std::array<std::int64_t, operands> offsets;
      for (int k = 0; k < operands; ++k) offsets[k] = row[k] + begin * loop.strides[k][-1];
      body(offsets, end - begin);
    });
  });
}

template void for_runs<1>(const ElementLoop<1>&, RunBody<1>, std::int64_t);
template void for_runs<2>(const ElementLoop<2>&, RunBody<2>, std::int64_t);
template void for_runs<3>(const ElementLoop<3>&, RunBody<3>, std::int64_t);
template void for_runs<4>(const ElementLoop<4>&, RunBody<4>, std::int64_t);
template void for_runs<7>(const ElementLoop<7>&, RunBody<7>, std::int64_t);
template void for_runs<16>(const ElementLoop<16>&, RunBody<16>, std::int64_t);

}  // namespace fovea
