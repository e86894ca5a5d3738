#include "cuda/attention/round.h"
#include "cuda/launch.h"
#include "cuda/tensor_core.h"

namespace fovea::cuda {

namespace {

constexpr int pack = 8;  // numbers of a thread: 16 bytes in bf16

struct Roundings {
  RowsToRound all[most_rounded];
  std::int64_t ends[most_rounded];  ///< of the packs of each tensor, counted through all of them
};

/// Rounds one pack of a tensor.
__device__ void round_pack(const RowsToRound& rows, std::int64_t number) {
  const int packs = rows.width / pack;
  const std::int64_t row = quotient(number, packs), position = quotient(row, rows.heads);
  const int column = pack * static_cast<int>(number - row * packs), h = static_cast<int>(row - position * rows.heads);
  const std::int64_t b = quotient(position, rows.rows), x = position - b * rows.rows;
  const float* from = rows.from.first + b * rows.from.sentence + h * rows.from.head + x * rows.from.row;
  float numbers[pack];
#ifndef FOVEA_CUDA_ON_HOST
  if (rows.from.packed && column + pack <= rows.columns) {
    const float4 low = *reinterpret_cast<const float4*>(from + column),
                 high = *reinterpret_cast<const float4*>(from + column + 4);
    numbers[0] = low.x, numbers[1] = low.y, numbers[2] = low.z, numbers[3] = low.w;
    numbers[4] = high.x, numbers[5] = high.y, numbers[6] = high.z, numbers[7] = high.w;
  } else
#endif
    for (int e = 0; e < pack; ++e)
      numbers[e] = column + e < rows.columns ? from[(column + e) * rows.from.column] : 0.0f;
  const std::uint32_t pairs[4] = {round_pair(numbers[0], numbers[1]), round_pair(numbers[2], numbers[3]),
                                  round_pair(numbers[4], numbers[5]), round_pair(numbers[6], numbers[7])};
#ifdef FOVEA_CUDA_ON_HOST
  std::memcpy(rows.to + pack * number, pairs, sizeof pairs);
#else
  reinterpret_cast<uint4*>(rows.to)[number] = {pairs[0], pairs[1], pairs[2], pairs[3]};
#endif
}

__global__ void round_all(Roundings of, std::int64_t packs) {
  for_elements(packs, [&](std::int64_t number) {
#pragma unroll
    for (int k = 0; k < most_rounded; ++k) {  // an index known to the compiler keeps the arguments where they are
      const std::int64_t begin = k > 0 ? of.ends[k - 1] : 0;
      if (begin <= number && number < of.ends[k]) round_pack(of.all[k], number - begin);
    }
  });
}

}  // namespace

void round_rows(std::span<const RowsToRound> all) {
  Roundings of{};
  std::int64_t packs = 0, bytes = 0;
  for (int k = 0; k < most_rounded; ++k) {
    if (k < static_cast<int>(all.size())) {
      const RowsToRound& rows = all[static_cast<std::size_t>(k)];
      const std::int64_t count = std::int64_t{rows.sentences} * rows.heads * rows.rows;
      packs += count * (rows.width / pack), bytes += count * (4 * rows.columns + 2 * rows.width);
      of.all[k] = rows;
    }
    of.ends[k] = packs;
  }
  if (packs > 0) launch("attention_round", bytes, round_all, {blocks_for(packs)}, of, packs);
}

}  // namespace fovea::cuda
