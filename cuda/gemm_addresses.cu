// A kernel that computes the addresses of a batch of matrices.
#include "cuda/gemm_addresses.h"
#include "cuda/launch.h"

namespace fovea::cuda {

namespace {

struct FirstAddresses {
  std::int64_t at[3];
};

__global__ void compute_addresses(DeviceLoop<3> loop, FirstAddresses first, std::int64_t bytes, std::int64_t* out) {
  for_elements(loop.count, [&](std::int64_t matrix) {
    std::int64_t offset[3];
    loop.offsets(matrix, offset);
    for (int k = 0; k < 3; ++k) out[k * loop.count + matrix] = first.at[k] + offset[k] * bytes;
  });
}

}  // namespace

Tensor gemm_addresses(const ElementLoop<3>& loop, const std::array<const void*, 3>& first, std::int64_t bytes) {
  const DeviceLoop<3> matrices(loop);
  Tensor out = Tensor::empty({3, matrices.count}, DType::i64, Device::cuda);
  FirstAddresses addresses;
  for (std::size_t k = 0; k < 3; ++k) addresses.at[k] = reinterpret_cast<std::int64_t>(first[k]);
  launch("gemm_addresses", traffic(out), compute_addresses, {blocks_for(matrices.count)}, matrices, addresses, bytes,
         out.mutable_data<std::int64_t>());
  return out;
}

}  // namespace fovea::cuda
