/// Data parallelism: the gradients of micro-batches, summed over processes.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "nn/module.h"
#include "nn/parallel/process_group.h"

namespace fovea {

/// Sums the gradients of an update over its micro-batches, which several processes share out, while the backward pass
/// still runs. The parameters' gradients are the sections of a few flat tensors, the buckets. A bucket is sent as soon
/// as the backward pass has finished all of its gradients; the last layers come first.
///
/// An update has rounds. In each of them every process has one micro-batch, or in the last round perhaps none, and adds
/// the gradients of all processes to grad() of its parameters. On the CPU the result is bit for bit that of one process
/// that runs backward() on the micro-batches of process 0, 1, ..., round after round.
class GradientSum {
 public:
  /// `bucket_bytes`: a bucket has parameters of about so many bytes, and at least one.
  GradientSum(ProcessGroup& group, const std::vector<NamedParameter>& parameters,
              std::size_t bucket_bytes = std::size_t{8} << 20);

  /// Begins an update, after the optimizer's zero_grad().
  void begin_update();
  /// One round: backward(loss), and the sum over all processes. Without a loss this process has no micro-batch.
  void round(const Variable& loss);

  /// Sends all buckets as they are, and waits: a round without its backward pass, for benchmarks.
  void exchange();
  /// Seconds that this process has waited so far for sums, when its backward pass was done.
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
  std::vector<std::unique_ptr<PendingSum>> pending_;  ///< those of the first buckets
  double seconds_waited_ = 0;
  std::size_t arrived_ = 0;  ///< of pending_, in order
};

}  // namespace fovea
