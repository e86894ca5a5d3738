// Times matrix products of the shapes that occur in models.
#include "experiments/benchmark.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/random.h"

namespace fovea {

namespace {

struct Product {
  std::int64_t batch, m, n, k;
};

/// Returns the rate of the fastest of eight trials. Each trial repeats the product for 10 ms.
double gflops_of(const Product& product, DType dtype, Precision precision, Device device) {
  Generator generator(3);
  auto random = [&](std::int64_t rows, std::int64_t columns) {
    Tensor out = Tensor::empty({product.batch, rows, columns}, dtype, device);
    fill_uniform(out, generator, -1, 1);
    return product.batch == 1 ? out.squeeze(0) : out;
  };
  Tensor a = random(product.m, product.k), b = random(product.k, product.n), c = random(product.m, product.n);
  set_matmul_precision(precision);
  const Turns trials(1, 8, [&](std::size_t) { return seconds_of_call(device, 0.01, [&] { gemm(a, b, c); }); });
  set_matmul_precision(Precision::f32);
  return 2.0 * double(product.batch * product.m * product.n * product.k) / std::ranges::min(trials.seconds[0]) / 1e9;
}

/// Whether a GPU computes, and not the processor: the CPU, or CUDA's kernels in a build with -Dcuda=host.
bool is_gpu(Device device) {
  return device == Device::cuda && !kernels(device).describe().starts_with("CUDA kernels on the host");
}

}  // namespace

double gemm_gflops(std::int64_t size, Device device) {
  return gflops_of({1, size, size, size}, DType::f32, Precision::f32, device);
}

void benchmark_gemm(Cli& cli) {
  BenchmarkFlags flags;
  std::int64_t largest = 0;
  cli.describe(
      "Times matrix products of shapes that occur in models, in f32, bf16 mode and f64. The rate is that of the "
      "fastest of eight trials. The first row of each type is a large square product: its rate is the device's "
      "ceiling. In a "
      "build with -Dcuda=host the CPU computes the products of --device cuda; their rates are not those of a GPU.");
  cli.option(
         "--largest", largest,
         "rows and columns of the matrices in the first row, where 0 stands for 8192 on a GPU and for 1024 on the CPU")
      .range(0, 65536);
  flags.add_to(cli, "");
  cli.parse();
  const Device device = flags.start(cli);
  if (largest == 0) largest = is_gpu(device) ? 8192 : 1024;
  const std::vector<Product> products{{1, largest, largest, largest},
                                      {1, 4096, 128, 128},
                                      {1, 4096, 512, 128},
                                      {1, 4096, 128, 512},
                                      {1, 4096, 512, 512},
                                      {1, 4096, 2048, 512},
                                      {1, 4096, 512, 2048},
                                      {512, 32, 32, 32},
                                      {64, 128, 128, 64}};
  Results results(flags.json, {{"batch", "batch"},
                               {"m", "m"},
                               {"n", "n"},
                               {"k", "k"},
                               {"type", "dtype"},
                               {"GFLOP/s", "gflops", 1},
                               {"of largest", "ratio_to_largest", 2}});
  for (const auto& [name, dtype, precision] : {std::tuple("f32", DType::f32, Precision::f32),
                                               {"bf16", DType::f32, Precision::bf16},
                                               {"f64", DType::f64, Precision::f32}}) {
    double ceiling = 0;  // the rate of the first product
    for (const Product& product : products) {
      const double rate = gflops_of(product, dtype, precision, device);
      if (ceiling == 0) ceiling = rate;
      results.add({{"batch", product.batch},
                   {"m", product.m},
                   {"n", product.n},
                   {"k", product.k},
                   {"dtype", name},
                   {"gflops", rate},
                   {"ratio_to_largest", rate / ceiling}});
    }
  }
  results.print();
}

}  // namespace fovea
