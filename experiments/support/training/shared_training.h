/// The additional parts of a training that several processes make together.
#pragma once
#include <cstdint>
#include <vector>

#include "experiments/support/program/run_directory.h"
#include "nn/checkpoint.h"
#include "nn/module.h"
#include "nn/parallel/gradient_sum.h"

namespace fovea {

class Cli;

/// One update after another, whose micro-batches the processes share out. A round is one micro-batch of each process.
class SharedUpdate {
 public:
  /// `micro_batches` are those of an update, of all processes together.
  SharedUpdate(const std::vector<NamedParameter>& parameters, std::int64_t micro_batches);

  void begin();
  /// Runs the backward pass of this process's next micro-batch, and adds the gradients and losses of all processes.
  void add(const Variable& loss, double count, const Tensor& unsmoothed);

  /// The sums over all micro-batches of the update.
  struct Sums {
    Tensor loss, unsmoothed;  ///< f64 []
    double count = 0;
  };
  /// Takes part in the last round even if this process has no micro-batch in it.
  Sums finish();

  /// Whether Ctrl-C or SIGTERM had reached one of the processes at the end of the last update. The same in all of them.
  bool is_stopped() const { return is_stopped_; }

 private:
  void round(const Variable& loss);

  std::int64_t micro_batches_, rounds_ = 0;
  GradientSum gradients_;
  SharedSum losses_;  ///< of one section: loss, loss without smoothing
  double count_ = 0;
  bool is_stopped_ = false;
};

/// Copies the tensors of the first process into those of the others.
void share(NamedTensors tensors);

/// Throws Error, in all processes, unless all of them have read the same data, as data.json in the directory says.
void require_same_data_everywhere(const RunDirectory& directory);
/// Throws Error, in all processes, unless all have the same number of threads: sums depend on it.
void require_same_threads();
/// Throws Error, in all processes, unless the parameters are the same in all of them.
void require_same_parameters(const Module& model, std::int64_t update);
/// Throws Error, in all processes, unless all run the same program, of the same version, with the same flags.
/// `directory` is the value of --out or --resume.
void require_same_start(const Cli& cli, const std::string& directory);

/// The number of threads without --threads: one for each core on which this process may run, or its part of those cores
/// if other processes of the group run there too.
int threads_of_a_process();

}  // namespace fovea
