/// Data parallelism: the gradients of micro-batches, summed over processes.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "nn/module.h"
#include "nn/parallel/process_group.h"

namespace fovea {

/// Sums the gradients of an update over all of its micro-batches, which are divided among several processes. Gradients
/// are sent while the backward pass still runs: they are copied into a few flat tensors, the buckets, and a bucket is
/// sent as soon as the backward pass has finished all gradients in it. The parameters of the last layers are in the
/// first bucket, because the backward pass finishes them first.
///
/// An update has rounds. In each round every process computes one micro-batch (in the last round, perhaps none), and
/// adds the gradients of all processes to grad() of its parameters. On the CPU the result is bit for bit that of one
/// process that runs backward() on the micro-batches of processes 0, 1, ... of the first round, then of the second, ...
class GradientSum {
 public:
  /// A bucket has parameters of about `bucket_bytes` bytes in total, and at least one parameter.
  GradientSum(ProcessGroup& group, const std::vector<NamedParameter>& parameters,
              std::size_t bucket_bytes = std::size_t{8} << 20);

  /// Begins an update, after the optimizer's zero_grad().
  void begin_update();
  /// One round: calls backward(loss) and sums over all processes. An undefined loss means that this process has no
  /// micro-batch in this round.
  void round(const Variable& loss);

  /// Sums all buckets over the processes, without a backward pass before, to measure how long that takes.
  void exchange();
  /// The seconds for which this process has waited for sums after its backward passes, in all rounds so far.
  double seconds_waited() const { return seconds_waited_; }

 private:
  struct Bucket {
    SharedSum sum;
    std::vector<std::size_t> parameters;  ///< one for each section
    std::size_t unfinished = 0;           ///< sections whose gradient may still come in this round
  };
  struct Place {
    std::size_t bucket, section;
  };

  void add_bucket(const std::vector<std::size_t>& parameters);
  void take(const Variable& leaf, const Variable& gradient);
  void send_finished();
  void finish();
  Tensor view(const Tensor& flat, const Bucket& bucket, std::size_t section) const;

  ProcessGroup& group_;
  std::vector<Variable> parameters_;
  std::vector<Bucket> buckets_;
  std::unordered_map<const void*, Place> places_;     ///< by Variable::id()
  std::vector<std::unique_ptr<PendingSum>> pending_;  ///< the sums of the buckets that have been sent, in order
  std::size_t arrived_ = 0;                           ///< the number of finished sums at the front of pending_
  double seconds_waited_ = 0;
};

}  // namespace fovea
