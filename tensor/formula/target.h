/// How a function is compiled: for the CPU, and under nvcc for the GPU as well.
#pragma once

#ifdef __CUDACC__
#define FOVEA_HD __host__ __device__
#else
#define FOVEA_HD
#endif
#define FOVEA_INLINE inline __attribute__((always_inline))
