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
  std::uint32_t pairs[pack / 2];
#pragma unroll
  for (int k = 0; k < pack; k += 4) {
    const int first = column + k;
    float four[4];
    if (rows.from.packed && first + 4 <= rows.columns)
      load_elements(from + first, 1, true, 4, four);
    else
      for (int e = 0; e < 4; ++e) four[e] = first + e < rows.columns ? from[(first + e) * rows.from.column] : 0.0f;
    pairs[k / 2] = round_pair(four[0], four[1]), pairs[k / 2 + 1] = round_pair(four[2], four[3]);
  }
  store_elements(pairs, reinterpret_cast<std::uint32_t*>(rows.to + pack * number), 1, true, 4);
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
