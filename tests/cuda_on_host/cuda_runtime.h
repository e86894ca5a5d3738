/// Stands in for the CUDA Toolkit's <cuda_runtime.h> in builds with -Dcuda=host, where the C++ compiler compiles the
/// sources of cuda/ and their kernels run on the CPU. Declares what those sources use of CUDA, and nothing else.
///
/// Names, signatures and meanings are CUDA's own: the CUDA Runtime API and the CUDA C++ Programming Guide document
/// them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tests/cuda_on_host/threads.h"

#define FOVEA_CUDA_ON_HOST

// ---- The language ----
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __grid_constant__
/// Only one block runs at a time, so a block's shared memory can be a static variable.
#define __shared__ static

#define threadIdx (fovea::cuda_on_host::place().thread)
#define blockIdx (fovea::cuda_on_host::place().block)
#define blockDim (fovea::cuda_on_host::place().block_size)
#define gridDim (fovea::cuda_on_host::place().grid_size)
inline constexpr int warpSize = fovea::cuda_on_host::warp_lanes;

// ---- Errors ----
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
};
/// For cudaErrorLaunchFailure the text says what the latest faulty kernel did, in which block and thread.
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

// ---- The device ----
#define CUDART_VERSION 12090
cudaError_t cudaDriverGetVersion(int* version);
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int major, minor;
  int multiProcessorCount;
  std::size_t sharedMemPerBlockOptin;
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);

// ---- Streams and events ----
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2;
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

// ---- Memory ----
using cudaMemPool_t = struct CUmemPool_st*;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4, cudaMemPoolAttrReservedMemCurrent = 5 };
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
cudaError_t cudaMallocAsync(void** block, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* block, cudaStream_t stream);
cudaError_t cudaMallocHost(void** block, std::size_t bytes);
cudaError_t cudaFreeHost(void* block);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* block, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes);
