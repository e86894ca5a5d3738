// cuBLASLt's products with epilogues on the host: operations in a stream's queue.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "tests/cuda_on_host/cublasLt.h"
#include "tests/cuda_on_host/matrix.h"
#include "tests/cuda_on_host/runtime.h"

struct cublasLtContext {};

namespace fovea::cuda_on_host {

namespace {

std::atomic<std::uint64_t> calls = 0;
std::atomic<bool> algorithms_exist = true;

constexpr std::uint64_t wanted_workspace_bytes = 1 << 10;

bool same(const cublasLtMatrixLayoutOpaque_t& a, const cublasLtMatrixLayoutOpaque_t& b) {
  return a.rows == b.rows && a.cols == b.cols && a.ld == b.ld;
}
bool same(const cublasLtMatmulDescOpaque_t& a, const cublasLtMatmulDescOpaque_t& b) {
  return a.compute == b.compute && a.transa == b.transa && a.transb == b.transb && a.epilogue == b.epilogue;
}

/// Copies an attribute's value, whose size must be that of `to`.
template <class T>
cublasStatus_t set(T& to, const void* value, std::size_t bytes) {
  if (!value || bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

std::uint32_t alignment_of(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(value & -value, 256));
}
bool is_aligned(const void* address, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

/// The bytes from the first element of a matrix to its last one.
std::size_t bytes_of(const cublasLtMatrixLayoutOpaque_t& x) {
  return (static_cast<std::size_t>(x.ld) * (x.cols - 1) + x.rows) * sizeof(float);
}

Matrix<float> factor(const void* first, const cublasLtMatrixLayoutOpaque_t& x, std::int32_t operation) {
  const bool transposed = operation == CUBLAS_OP_T;
  return {static_cast<const float*>(first), static_cast<int>(transposed ? x.cols : x.rows),
          static_cast<int>(transposed ? x.rows : x.cols), static_cast<int>(x.ld), transposed};
}

/// Whether the matrices are not empty and fit together.
bool is_product(const cublasLtMatmulDescOpaque_t& operation, const cublasLtMatrixLayoutOpaque_t (&layout)[4]) {
  for (const cublasLtMatrixLayoutOpaque_t& x : layout)
    if (x.rows == 0 || x.cols == 0 || x.ld < static_cast<std::int64_t>(x.rows)) return false;
  const Matrix<float> a = factor(nullptr, layout[0], operation.transa),
                      b = factor(nullptr, layout[1], operation.transb);
  return a.columns == b.rows && layout[3].rows == static_cast<std::uint64_t>(a.rows) &&
         layout[3].cols == static_cast<std::uint64_t>(b.columns) && same(layout[2], layout[3]);
}

/// The number of elements of the vector that an epilogue reads or writes.
std::size_t vector_size(std::uint32_t epilogue, const cublasLtMatrixLayoutOpaque_t& d) {
  if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) return 0;
  return epilogue == CUBLASLT_EPILOGUE_BGRADB ? d.cols : d.rows;
}

/// The product and its epilogue, when the stream comes to it.
struct Run {
  Matrix<float> a, b;
  float* d;
  int leading;
  float alpha;
  std::uint32_t epilogue;
  float* vector;
  bool rounds;
  std::byte* workspace;
  std::size_t workspace_bytes;

  void operator()() const {
    std::fill_n(workspace, workspace_bytes, std::byte{0xff});
    multiply(a, b, d, leading, alpha, 0.0f, rounds);
    if (epilogue == CUBLASLT_EPILOGUE_BIAS)
      for (int j = 0; j < b.columns; ++j)
        for (int i = 0; i < a.rows; ++i) d[j * static_cast<std::int64_t>(leading) + i] += vector[i];
    // The documentation leaves open whether it is the rounded factor that is summed: here it is.
    if (epilogue == CUBLASLT_EPILOGUE_BGRADA)
      for (int i = 0; i < a.rows; ++i) vector[i] = sum(a, a.columns, [&](auto& x, int k) { return *x.at(i, k); });
    if (epilogue == CUBLASLT_EPILOGUE_BGRADB)
      for (int j = 0; j < b.columns; ++j) vector[j] = sum(b, b.rows, [&](auto& x, int k) { return *x.at(k, j); });
  }

 private:
  template <class Element>
  float sum(const Matrix<float>& x, int count, const Element& element) const {
    const MatrixView<const float> view = x.view();
    double total = 0;
    for (int k = 0; k < count; ++k) total += rounds ? float(bf16(element(view, k))) : element(view, k);
    return static_cast<float>(total);
  }
};

}  // namespace

std::uint64_t heuristic_calls() { return calls; }
void set_algorithms_exist(bool exist) { algorithms_exist = exist; }

}  // namespace fovea::cuda_on_host

using namespace fovea::cuda_on_host;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType, std::uint64_t rows,
                                        std::uint64_t cols, std::int64_t ld) {
  *layout = {rows, cols, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t operation, cublasComputeType_t compute, cudaDataType) {
  *operation = {compute, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(operation->transa, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(operation->transb, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(operation->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(operation->bias_pointer, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
  *preference = {0, {256, 256, 256, 256}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return set(preference->max_workspace_bytes, value, bytes);
  const int matrix = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (matrix < 0 || matrix > 3) return CUBLAS_STATUS_INVALID_VALUE;
  return set(preference->min_alignment[matrix], value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  ++calls;
  *found = 0;
  cublasLtMatmulAlgo_t algorithm{*operation, {*a, *b, *c, *d}, {}, alignment_of(operation->bias_pointer), 0};
  const bool needs_vector = operation->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  if (!handle || requested < 1 || !is_product(*operation, algorithm.layout) ||
      (needs_vector && !operation->bias_pointer))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!algorithms_exist) return CUBLAS_STATUS_NOT_SUPPORTED;
  std::copy_n(preference->min_alignment, 4, algorithm.alignment);
  algorithm.workspace_bytes = std::min(preference->max_workspace_bytes, wanted_workspace_bytes);
  results[(*found)++] = {algorithm, algorithm.workspace_bytes, CUBLAS_STATUS_SUCCESS, 1};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t bytes, cudaStream_t stream) {
  const cublasLtMatrixLayout_t layouts[] = {a_layout, b_layout, c_layout, d_layout};
  const void* addresses[] = {a, b, c, d};
  bool fits = handle && algorithm && same(algorithm->operation, *operation) && bytes >= algorithm->workspace_bytes &&
              is_device_memory(workspace, bytes);
  for (int k = 0; k < 4 && fits; ++k)
    fits = same(algorithm->layout[k], *layouts[k]) && is_aligned(addresses[k], algorithm->alignment[k]) &&
           is_device_memory(addresses[k], bytes_of(*layouts[k]));
  const std::size_t of_vector = vector_size(operation->epilogue, *d_layout) * sizeof(float);
  fits = fits && (of_vector == 0 || (is_aligned(operation->bias_pointer, algorithm->bias_alignment) &&
                                     is_device_memory(operation->bias_pointer, of_vector)));
  // With another beta, C would be read, which no caller does.
  if (!fits || *static_cast<const float*>(beta) != 0) return CUBLAS_STATUS_INVALID_VALUE;
  enqueue(stream, "cublasLt",
          Run{factor(a, *a_layout, operation->transa), factor(b, *b_layout, operation->transb), static_cast<float*>(d),
              static_cast<int>(d_layout->ld), *static_cast<const float*>(alpha), operation->epilogue,
              static_cast<float*>(operation->bias_pointer), operation->compute == CUBLAS_COMPUTE_32F_FAST_16BF,
              static_cast<std::byte*>(workspace), bytes});
  return CUBLAS_STATUS_SUCCESS;
}
