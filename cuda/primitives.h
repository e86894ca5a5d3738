/// The primitives of the CUDA backend, one function each; backend.cpp gathers them behind tensor/cuda_backend.h.
#pragma once
#include "tensor/reduce.h"
#include "tensor/tensor.h"

namespace fovea::cuda {

void copy(Tensor& to, const Tensor& from);
void fill(Tensor& to, double value);
void reduce(Reduction reduction, const Tensor& in, Tensor& out);
void cumulative_sum(const Tensor& in, Tensor& out, bool reverse);
void gather_rows(const Tensor& table, const Tensor& index, Tensor& out);
void scatter_add_rows(Tensor& table, const Tensor& index, const Tensor& rows);
void gemm(const Tensor& a, const Tensor& b, Tensor& c, double alpha, double beta);

void register_dropout();
void register_maps();
void register_second_derivatives();

}  // namespace fovea::cuda
