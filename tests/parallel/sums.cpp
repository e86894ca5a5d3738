// Run by mpirun with several processes: sums over processes are those of one process, bit for bit.
#include <cstdio>
#include <cstring>

#include <fmt/core.h>

#include "autograd/map.h"
#include "autograd/operations.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/lstm_sequence.h"
#include "nn/optimizer.h"
#include "nn/parallel/gradient_sum.h"
#include "tensor/error.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/formula/functions.h"
#include "tensor/random.h"

namespace {

using namespace fovea;

int checks = 0;

void check(bool holds, const std::string& claim) {
  ++checks;
  require(holds, "process {} of {}: {}", processes().rank(), processes().size(), claim);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.shape() == y.shape() && x.dtype() == y.dtype() && std::memcmp(x.address(), y.address(), x.bytes()) == 0;
}

/// Random numbers of very different sizes, whose sum depends on the order.
Tensor numbers(const Shape& shape, std::uint64_t seed, DType dtype) {
  Generator random(seed);
  Tensor x = Tensor::empty(shape, DType::f64), exponent = Tensor::empty(shape, DType::f64);
  fill_normal(x, random, 0, 1);
  fill_uniform(exponent, random, -12, 12);
  return (map(Multiply{}, x, map(Exp{}, exponent))).to(dtype);
}

/// A model with a parameter that is used twice, one that some micro-batches do not reach, and one that none reaches.
class Model : public Module {
 public:
  Model()
      : shared_(7, 7),
        sometimes_(parameter("sometimes", {3, 7}, Initializer::normal(1))),
        never_(parameter("never", {5}, Initializer::normal(1))),
        last_(7, 33) {
    child("shared", shared_);
    child("last", last_);
  }
  Variable loss(const Tensor& x, bool reaches) const {
    Variable h = shared_.forward(tanh(shared_.forward(Variable(x))));
    if (reaches) h = h * sum(sometimes_, {0});
    return sum(last_.forward(h) * last_.forward(h));
  }

 private:
  Linear shared_;
  Variable sometimes_, never_;
  Linear last_;
};

/// Micro-batch k reaches the parameter `sometimes` if this holds.
bool reaches(std::int64_t k) { return k % 3 != 1; }

std::vector<Variable> gradients_of(const Model& model) {
  std::vector<Variable> all;
  for (const NamedParameter& parameter : model.parameters()) all.push_back(parameter.variable.grad());
  return all;
}

void gradients_are_those_of_one_process(std::int64_t micro_batches, std::size_t bucket_bytes, DType dtype) {
  auto batch = [&](std::int64_t k) { return numbers({4, 7}, 100 + static_cast<std::uint64_t>(k), dtype); };
  Model alone, together;
  for (Model* model : {&alone, &together}) {
    model->initialise(3);
    model->to(dtype);
  }
  GradientSum sum(processes(), together.parameters(), bucket_bytes);
  const int rank = processes().rank(), size = processes().size();
  for (int update = 0; update < 3; ++update) {
    for (Model* model : {&alone, &together})
      for (const NamedParameter& parameter : model->parameters()) Variable(parameter.variable).clear_grad();
    for (std::int64_t k = 0; k < micro_batches; ++k) backward(alone.loss(batch(k + update), reaches(k + update)));
    sum.begin_update();
    for (std::int64_t first = 0; first < micro_batches; first += size) {
      const std::int64_t k = first + rank;
      sum.round(k < micro_batches ? together.loss(batch(k + update), reaches(k + update)) : Variable());
    }
    const std::vector<Variable> expected = gradients_of(alone), found = gradients_of(together);
    for (std::size_t p = 0; p < expected.size(); ++p) {
      check(expected[p].defined() == found[p].defined(), "a parameter has a gradient if a micro-batch reached it");
      if (expected[p].defined())
        check(same_bits(expected[p].value(), found[p].value()),
              fmt::format("gradient {} of update {}, {} micro-batches, buckets of {} bytes, equals that of one process",
                          p, update, micro_batches, bucket_bytes));
    }
  }
}

void shares_are_added_in_the_order_of_ranks(std::int64_t n, DType dtype) {
  const int rank = processes().rank(), size = processes().size();
  SharedSum sum;
  sum.sections = {{0, n / 3}, {n / 3, n - n / 3}};
  sum.total = numbers({n}, 1, dtype);
  sum.has_total = {1, 0};
  auto has = [&](int process, int section) { return (process + section) % 2 == 0 || section == 0; };
  auto share = [&](int process) { return numbers({n}, 10 + static_cast<std::uint64_t>(process), dtype); };
  sum.own = share(rank);
  sum.has_own = {has(rank, 0), has(rank, 1)};
  Tensor expected = sum.total.clone();
  bool has_sum = false;
  for (int process = 0; process < size; ++process) {
    Tensor first = expected.slice(0, 0, n / 3), second = expected.slice(0, n / 3, n);
    map_into(first, Add{}, first, share(process).slice(0, 0, n / 3));
    const Tensor more = share(process).slice(0, n / 3, n);
    if (!has(process, 1)) continue;
    has_sum ? map_into(second, Add{}, second, more) : second.copy_from(more);
    has_sum = true;
  }
  processes().all_reduce(sum)->wait();
  check(same_bits(sum.total, expected), fmt::format("{} numbers are added in the order of ranks", n));
  check(sum.has_total == std::vector<std::uint8_t>{1, 1}, "both sections have a sum");
}

void texts_of_all_arrive(std::size_t bytes) {
  auto text = [&](int rank) {
    return std::string(bytes * static_cast<std::size_t>(rank), static_cast<char>('a' + rank));
  };
  const std::vector<std::string> all = processes().gather(text(processes().rank()));
  for (int rank = 0; rank < processes().size(); ++rank)
    check(all[static_cast<std::size_t>(rank)] == text(rank), "gather() returns the text of each process");
  std::vector<double> values(bytes + 1, processes().is_first() ? 0.1 : -1);
  processes().broadcast(values.data(), values.size() * sizeof(double));
  check(values == std::vector<double>(bytes + 1, 0.1), "broadcast() copies those of process 0");
}

}  // namespace

int main() {
  try {
    start_processes();
    const int wanted = std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE"));
    check(processes().size() == wanted, "all processes that mpirun started are in the group");
    for (std::size_t bytes : {0, 1, 100'000}) texts_of_all_arrive(bytes);
    for (DType dtype : {DType::f32, DType::f64}) {
      for (std::int64_t n : {3, 17, 130, 100'003}) shares_are_added_in_the_order_of_ranks(n, dtype);
      for (std::int64_t micro_batches : {1, 2, 3, 4, 7})
        for (std::size_t bucket_bytes : {1, 300, 1 << 20})
          gradients_are_those_of_one_process(micro_batches, bucket_bytes, dtype);
    }
    if (processes().is_first()) fmt::print("{} checks in each of {} processes\n", checks, processes().size());
    finish_processes();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    processes().abort(1);
    return 1;
  }
}
