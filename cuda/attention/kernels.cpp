#include "cuda/attention/kernels.h"

#include "cuda/compiled.h"
#include "cuda/grid.h"

namespace fovea::cuda {

std::int64_t widest() { return 256; }

BlockShape block_of(Pass pass, const TileCall& call) { return spec_of(call, pass).block; }

template <class T>
void run_kernel(Pass pass, const TileCall& call, std::int64_t bytes, const AttentionCall<T>& arguments) {
  const SpecOfCall spec = spec_of(call, pass);
  const std::vector<double> numbers = constants_of(spec);
  std::vector<T> constants(numbers.begin(), numbers.end());
  AttentionCall<T> call_of_kernel = arguments;
  void* parameters[] = {&call_of_kernel, constants.data()};
  launch_compiled(name_of(pass), bytes, kernel_text(spec, pass), kernel_of_text,
                  {blocks_of(pass, spec.block, arguments), static_cast<unsigned>(32 * spec.block.warps),
                   static_cast<std::size_t>(shared_bytes(pass, spec.block))},
                  parameters);
}
template void run_kernel(Pass, const TileCall&, std::int64_t, const AttentionCall<float>&);
template void run_kernel(Pass, const TileCall&, std::int64_t, const AttentionCall<double>&);

}  // namespace fovea::cuda
