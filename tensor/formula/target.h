/// Macros for functions that run on both devices: FOVEA_HD compiles a function for the CPU and, under nvcc, also for
/// the GPU; FOVEA_INLINE forces it to be inlined.
#pragma once

#ifdef __CUDACC__
#define FOVEA_HD __host__ __device__
#else
#define FOVEA_HD
#endif
#define FOVEA_INLINE inline __attribute__((always_inline))
