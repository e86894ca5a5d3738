// Products with a bias, and products with column sums, in one kernel of cuBLASLt: its epilogues read or write a vector
// beside the matrices.
//
// cuBLASLt's results repeat bit for bit on one type of GPU with one version of the library (cuBLAS's documentation,
// "Results Reproducibility"): an algorithm adds in a fixed order, and its workspace is ours. Which algorithm runs
// depends on the problem only. Of the addresses, it depends on whether all of them are multiples of 16 bytes.
#include "cuda/gemm_epilogue.h"

#include <map>
#include <mutex>
#include <optional>

#include <cublasLt.h>

#include "cuda/matrix_operand.h"

namespace fovea::cuda {

namespace {

cublasLtHandle_t blas_lt() {
  static cublasLtHandle_t handle = [] {
    cublasLtHandle_t made;
    check_blas(cublasLtCreate(&made), "cublasLtCreate");
    return made;
  }();
  return handle;
}

/// A matrix in memory as cuBLASLt takes it, by columns; a factor is this matrix or, with CUBLAS_OP_T, its transpose.
struct Layout {
  std::int64_t rows, columns, leading;
  cublasOperation_t operation = CUBLAS_OP_N;
  auto operator<=>(const Layout&) const = default;
  std::int64_t elements() const { return rows * columns; }
};

/// D = op(A) op(B) with an epilogue: all that the choice of an algorithm depends on.
struct Problem {
  Layout a, b, d;
  cublasLtEpilogue_t epilogue;
  cublasComputeType_t compute;
  std::uint32_t alignment;  ///< bytes; all addresses are multiples of it
  auto operator<=>(const Problem&) const = default;
};

/// The addresses of a problem's matrices, and of the vector that its epilogue reads or writes.
struct Addresses {
  const float *a, *b;
  float* d;
  const float* vector;

  /// Returns the alignment to choose an algorithm for: 16 bytes, the most that kernels need, or that of an element.
  std::uint32_t alignment() const {
    std::uintptr_t all = 0;
    for (const float* address : {a, b, static_cast<const float*>(d), vector})
      all |= reinterpret_cast<std::uintptr_t>(address);
    return all % 16 == 0 ? 16 : sizeof(float);
  }
};

/// A problem in cuBLASLt's own structures, which need no memory of the heap.
struct Description {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, d;

  explicit Description(const Problem& problem) {
    check_blas(cublasLtMatmulDescInit(&operation, problem.compute, CUDA_R_32F), "cublasLtMatmulDescInit");
    set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(problem.a.operation));
    set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(problem.b.operation));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(problem.epilogue));
    for (auto [to, from] : {std::pair(&a, &problem.a), std::pair(&b, &problem.b), std::pair(&d, &problem.d)})
      check_blas(cublasLtMatrixLayoutInit(to, CUDA_R_32F, static_cast<std::uint64_t>(from->rows),
                                          static_cast<std::uint64_t>(from->columns), from->leading),
                 "cublasLtMatrixLayoutInit");
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check_blas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
  }
  void set_vector(const void* address) { set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, address); }
};

/// How a problem is computed.
struct Algorithm {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace_bytes;
};

/// Asks cuBLASLt for the algorithm that it expects to be the fastest. Returns nothing if it has none for the problem.
std::optional<Algorithm> chosen_algorithm(const Problem& problem) {
  // cuBLAS's documentation recommends a workspace of this size for Hopper, and smaller ones for earlier GPUs.
  constexpr std::uint64_t most_workspace_bytes = std::uint64_t{32} << 20;
  Description description(problem);
  // The vector's address is not read here, only its alignment is.
  description.set_vector(reinterpret_cast<const void*>(std::uintptr_t{problem.alignment}));
  cublasLtMatmulPreferenceOpaque_t preference;
  check_blas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_blas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace_bytes);
  for (auto matrix : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(matrix, problem.alignment);
  cublasLtMatmulHeuristicResult_t best;
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(blas_lt(), &description.operation, &description.a, &description.b, &description.d,
                                     &description.d, &preference, 1, &best, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) return {};
  check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
  if (best.state != CUBLAS_STATUS_SUCCESS) return {};
  return Algorithm{best.algo, best.workspaceSize};
}

/// Returns the algorithm for a problem, which is chosen once in the process. Null if there is none.
const Algorithm* algorithm_for(const Problem& problem) {
  static std::mutex mutex;
  static auto* chosen = new std::map<Problem, std::optional<Algorithm>>;  // never destroyed, as the GPU's memory
  std::lock_guard lock(mutex);
  auto found = chosen->find(problem);
  if (found == chosen->end()) found = chosen->emplace(problem, chosen_algorithm(problem)).first;
  return found->second ? &*found->second : nullptr;
}

/// Computes the product. Returns false, and does nothing, if cuBLASLt has no algorithm for it.
bool multiply(const Problem& problem, const Addresses& at) {
  const Algorithm* algorithm = algorithm_for(problem);
  if (!algorithm) return false;
  Description description(problem);
  description.set_vector(at.vector);
  Tensor workspace;
  if (algorithm->workspace_bytes > 0)
    workspace = Tensor::empty({static_cast<std::int64_t>(algorithm->workspace_bytes)}, DType::u8, Device::cuda);
  const float alpha = 1, beta = 0;
  check_blas(cublasLtMatmul(blas_lt(), &description.operation, &alpha, at.a, &description.a, at.b, &description.b,
                            &beta, at.d, &description.d, at.d, &description.d, &algorithm->algorithm,
                            workspace.mutable_address(), algorithm->workspace_bytes, stream()),
             "cublasLtMatmul");
  launched("gemm", static_cast<std::int64_t>(sizeof(float)) *
                       (problem.a.elements() + problem.b.elements() + problem.d.elements() + problem.d.rows));
  return true;
}

/// A factor whose product is stored by rows, and which cuBLASLt therefore takes transposed.
Layout transposed_layout(const Operand& x) {
  const Tensor& matrix = x.tensor;
  if (x.operation == CUBLAS_OP_N) return {matrix.size(1), matrix.size(0), x.leading, CUBLAS_OP_N};
  return {matrix.size(0), matrix.size(1), x.leading, CUBLAS_OP_T};
}

/// Computes c = a b by rows, as cᵀ = bᵀ aᵀ, with an epilogue of that transposed product.
bool multiply(const Tensor& left, const Tensor& right, Tensor& c, cublasLtEpilogue_t epilogue, const float* vector) {
  const Operand a = operand(left), b = operand(right);
  const Addresses at{b.tensor.data<float>(), a.tensor.data<float>(), c.mutable_data<float>(), vector};
  const Layout d{c.size(1), c.size(0), leading_of(c, -1, -2)};
  return multiply({transposed_layout(b), transposed_layout(a), d, epilogue, compute_type_of_f32(), at.alignment()}, at);
}

}  // namespace

bool gemm_with_epilogue(const Tensor& a, const Tensor& b, Tensor& c, const GemmForm& form) {
  if (c.dtype() != DType::f32 || c.elements() == 0 || a.size(1) == 0) return false;
  if (form.bias) {
    const Tensor vector = form.bias->contiguous();  // one element for each row of cᵀ
    return multiply(a, b, c, CUBLASLT_EPILOGUE_BIAS, vector.data<float>());
  }
  const bool has_rows = fits(c, -1, -2);
  if (!has_rows && !fits(c, -2, -1)) return false;
  Tensor sums = Tensor::empty({b.size(1)}, DType::f32, Device::cuda);
  float* vector = sums.mutable_data<float>();
  // In cᵀ = bᵀ aᵀ the first factor, A, is bᵀ, and its rows are summed. If columns of c are contiguous, c = a b itself
  // is computed by columns, and the columns of its second factor, B, are summed.
  Tensor transposed = c.transpose(0, 1);
  const bool is_computed =
      has_rows ? multiply(a, b, c, CUBLASLT_EPILOGUE_BGRADA, vector)
               : multiply(b.transpose(0, 1), a.transpose(0, 1), transposed, CUBLASLT_EPILOGUE_BGRADB, vector);
  if (is_computed) *form.column_sums = sums;
  return is_computed;
}

}  // namespace fovea::cuda
