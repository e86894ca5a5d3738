/// Stands in for the CUDA Toolkit's <cublasLt.h> in builds with -Dcuda=host: what cuda/ uses of cuBLASLt, on the CPU's
/// own products. The cuBLAS documentation describes the calls.
///
/// A call that the documentation does not allow, such as one with matrices that do not fit together, addresses outside
/// of device memory, or an algorithm that was chosen for another problem, is refused.
#pragma once
#include "tests/cuda_on_host/cublas_v2.h"

using cublasLtHandle_t = struct cublasLtContext*;

struct cublasLtMatrixLayoutOpaque_t {
  std::uint64_t rows, cols;
  std::int64_t ld;
};
using cublasLtMatrixLayout_t = cublasLtMatrixLayoutOpaque_t*;

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  std::int32_t transa, transb;
  std::uint32_t epilogue;
  void* bias_pointer;
};
using cublasLtMatmulDesc_t = cublasLtMatmulDescOpaque_t*;

struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t max_workspace_bytes;
  std::uint32_t min_alignment[4];  ///< of A, B, C and D
};
using cublasLtMatmulPreference_t = cublasLtMatmulPreferenceOpaque_t*;

/// What an algorithm was chosen for.
struct cublasLtMatmulAlgo_t {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t layout[4];  ///< of A, B, C and D
  std::uint32_t alignment[4], bias_alignment;
  std::uint64_t workspace_bytes;
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
};

enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8
};
enum cublasLtEpilogue_t {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_BGRADA = 256,
  CUBLASLT_EPILOGUE_BGRADB = 512
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle);
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type, std::uint64_t rows,
                                        std::uint64_t cols, std::int64_t ld);
cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t operation, cublasComputeType_t compute, cudaDataType scale);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes);
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* found);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream);

namespace fovea::cuda_on_host {

/// How often an algorithm was asked for, since the program began.
std::uint64_t heuristic_calls();
/// Whether cuBLASLt finds algorithms; true where a program begins.
void set_algorithms_exist(bool exist);

}  // namespace fovea::cuda_on_host
