/// Stands in for the CUDA Toolkit's <cublas_v2.h> in builds with -Dcuda=host: what cuda/ uses of cuBLAS, on the CPU's
/// own products. The cuBLAS documentation describes the calls.
#pragma once
#include "tests/cuda_on_host/cuda_runtime.h"

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_64F = 1 };
enum cublasComputeType_t {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
};
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
using cublasHandle_t = struct cublasContext*;

const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                                          cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                                          const void* a, cudaDataType a_type, int lda, long long stride_a,
                                          const void* b, cudaDataType b_type, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType c_type, int ldc, long long stride_c,
                                          int batch, cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
/// The arrays of addresses lie in device memory.
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b,
                                   int m, int n, int k, const void* alpha, const void* const* a, cudaDataType a_type,
                                   int lda, const void* const* b, cudaDataType b_type, int ldb, const void* beta,
                                   void* const* c, cudaDataType c_type, int ldc, int batch, cublasComputeType_t compute,
                                   cublasGemmAlgo_t algorithm);
