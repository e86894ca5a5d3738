#include "tensor/element_loop.h"

namespace fovea {

template <int operands>
void for_runs(const ElementLoop<operands>& loop, RunBody<operands> body) {
  std::int64_t count = loop.inner();
  if (loop.rows() >= 16 || count <= element_grain)
    return parallel_for(loop.rows(), 1 + element_grain / (count + 1), [&](std::int64_t begin, std::int64_t end) {
      loop.for_rows(begin, end, [&](auto& offsets) { body(offsets, count); });
    });
  loop.for_rows(0, loop.rows(), [&](auto& row) {
    parallel_for(count, element_grain, [&](std::int64_t begin, std::int64_t end) {
      std::array<std::int64_t, operands> offsets;
      for (int k = 0; k < operands; ++k) offsets[k] = row[k] + begin * loop.strides[k][-1];
      body(offsets, end - begin);
    });
  });
}

template void for_runs<2>(const ElementLoop<2>&, RunBody<2>);
template void for_runs<3>(const ElementLoop<3>&, RunBody<3>);
template void for_runs<4>(const ElementLoop<4>&, RunBody<4>);
template void for_runs<6>(const ElementLoop<6>&, RunBody<6>);
template void for_runs<9>(const ElementLoop<9>&, RunBody<9>);
template void for_runs<16>(const ElementLoop<16>&, RunBody<16>);

}  // namespace fovea
