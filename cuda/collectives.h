/// Sums, maxima and prefix sums over the threads of a block: CUB's, or in builds with -Dcuda=host the stand-ins of
/// tests/cuda_on_host/cub.
#pragma once
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
