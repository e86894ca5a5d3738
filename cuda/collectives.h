/// Sums, maxima and prefix sums over the threads of a block, from CUB. Builds with -Dcuda=host use the stand-ins in
/// tests/cuda_on_host/cub.
#pragma once
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
