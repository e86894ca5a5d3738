// Times matrix products of the shapes that occur in models.
#include <omp.h>

#include "experiments/benchmark.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/report/table.h"
#include "tensor/cpu/parallel.h"
#include "tensor/gemm.h"
#include "tensor/random.h"

namespace fovea {

namespace {

struct Product {
  std::int64_t batch, m, n, k;
};

double gflops_of(const Product& product, DType dtype, Precision precision) {
  Generator generator(3);
  auto random = [&](std::int64_t rows, std::int64_t columns) {
    Tensor out = Tensor::empty({product.batch, rows, columns}, dtype);
    fill_uniform(out, generator, -1, 1);
    return product.batch == 1 ? out.squeeze(0) : out;
  };
  Tensor a = random(product.m, product.k), b = random(product.k, product.n), c = random(product.m, product.n);
  set_matmul_precision(precision);
  double flops = 2.0 * static_cast<double>(product.batch * product.m * product.n * product.k), best = 1e9;
  auto repeats = std::max<std::int64_t>(1, static_cast<std::int64_t>(2e8 / flops));
  for (int trial = 0; trial < 8; ++trial)
    best = std::min(best, seconds_of([&] {
                            for (std::int64_t r = 0; r < repeats; ++r) gemm(a, b, c);
                          }) / static_cast<double>(repeats));
  set_matmul_precision(Precision::f32);
  return flops / best / 1e9;
}

}  // namespace

double machine_gemm_gflops(std::int64_t size) { return gflops_of({1, size, size, size}, DType::f32, Precision::f32); }

void benchmark_gemm(Cli& cli) {
  bool json = false;
  int threads = 0;
  cli.describe(
      "Times matrix products of shapes that occur in models, in f32, bf16 mode and f64. The rate is that of the "
      "fastest of "
      "eight trials.");
  cli.option("--threads", threads, "number of threads; 0: one per core").range(0, 1024);
  cli.option("--json", json, "print one JSON object per product and type instead of the table");
  cli.parse();
  if (threads > 0) omp_set_num_threads(threads);
  const std::vector<Product> products{{1, 4096, 128, 128},   {1, 4096, 512, 128},  {1, 4096, 128, 512},
                                      {1, 4096, 512, 512},   {1, 4096, 2048, 512}, {1, 4096, 512, 2048},
                                      {1, 1024, 1024, 1024}, {512, 32, 32, 32},    {64, 128, 128, 64}};
  Table table({"batch", "m", "n", "k", "f32 GFLOP/s", "bf16 GFLOP/s", "f64 GFLOP/s"});
  for (const Product& product : products) {
    struct Timed {
      const char* name;
      double gflops;
    };
    const Timed timed[] = {{"f32", gflops_of(product, DType::f32, Precision::f32)},
                           {"bf16", gflops_of(product, DType::f32, Precision::bf16)},
                           {"f64", gflops_of(product, DType::f64, Precision::f32)}};
    if (json)
      for (const Timed& one : timed)
        fmt::print("{}\n", Json{{"batch", product.batch},
                                {"m", product.m},
                                {"n", product.n},
                                {"k", product.k},
                                {"dtype", one.name},
                                {"gflops", one.gflops}}
                               .dump());
    else
      table.row({product.batch, product.m, product.n, product.k, Cell::number(timed[0].gflops, 1),
                 Cell::number(timed[1].gflops, 1), Cell::number(timed[2].gflops, 1)});
  }
  if (!json) fmt::print("{}", table.text());
}

}  // namespace fovea
