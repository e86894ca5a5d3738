#include "nn/parallel/gradient_sum.h"

#include <algorithm>
#include <chrono>

namespace fovea {

GradientSum::GradientSum(ProcessGroup& group, const std::vector<NamedParameter>& parameters, std::size_t bucket_bytes)
    : group_(group) {
  for (const NamedParameter& parameter : parameters) parameters_.push_back(parameter.variable);
  // The backward pass finishes the gradients of the last layers first.
  std::vector<std::size_t> members;
  std::size_t bytes = 0;
  for (std::size_t k = parameters_.size(); k-- > 0;) {
    const bool is_alike = members.empty() || parameters_[members.front()].dtype() == parameters_[k].dtype();
    if (!members.empty() && (bytes >= bucket_bytes || !is_alike)) {
      add_bucket(members);
      members.clear();
      bytes = 0;
    }
    members.push_back(k);
    bytes += parameters_[k].value().bytes();
  }
  if (!members.empty()) add_bucket(members);
}

void GradientSum::add_bucket(const std::vector<std::size_t>& parameters) {
  constexpr std::int64_t line = 16;  // sections begin at whole cache lines
  Bucket bucket;
  std::int64_t elements = 0;
  for (std::size_t k : parameters) {
    places_[parameters_[k].id()] = {buckets_.size(), bucket.sum.sections.size()};
    bucket.sum.sections.push_back({elements, parameters_[k].value().elements()});
    elements += (parameters_[k].value().elements() + line - 1) / line * line;
  }
  const Tensor& like = parameters_[parameters.front()].value();
  bucket.parameters = parameters;
  bucket.sum.own = Tensor::zeros({elements}, like.dtype(), like.device());
  bucket.sum.total = Tensor::zeros({elements}, like.dtype(), like.device());
  bucket.sum.has_own.resize(parameters.size());
  bucket.sum.has_total.resize(parameters.size());
  buckets_.push_back(std::move(bucket));
}

Tensor GradientSum::view(const Tensor& flat, const Bucket& bucket, std::size_t section) const {
  const SharedSum::Section& place = bucket.sum.sections[section];
  const Tensor part = flat.slice(0, place.first, place.first + place.size);
  const Tensor& parameter = parameters_[bucket.parameters[section]].value();
  // in the parameter's order, so that the optimizer reads both in it
  return parameter.is_dense() ? part.as_strided(parameter.shape(), parameter.strides())
                              : part.reshape(parameter.shape());
}

void GradientSum::begin_update() {
  for (Bucket& bucket : buckets_) std::fill(bucket.sum.has_total.begin(), bucket.sum.has_total.end(), 0);
}

void GradientSum::round(const Variable& loss) {
  for (Bucket& bucket : buckets_) {
    bucket.unfinished = bucket.parameters.size();
    std::fill(bucket.sum.has_own.begin(), bucket.sum.has_own.end(), 0);
  }
  BackwardOptions options;
  options.leaf_finished = [this](const Variable& leaf, const Variable& gradient) { take(leaf, gradient); };
  if (loss.defined()) backward(loss, {}, options);
  finish();
}

void GradientSum::exchange() {
  begin_update();
  for (Bucket& bucket : buckets_) std::fill(bucket.sum.has_own.begin(), bucket.sum.has_own.end(), 1);
  finish();
}

/// Keeps a gradient that the backward pass has finished, and sends its bucket if it was the last one.
void GradientSum::take(const Variable& leaf, const Variable& gradient) {
  const auto found = places_.find(leaf.id());
  if (found == places_.end()) return;  // no parameter of this model
  Bucket& bucket = buckets_[found->second.bucket];
  view(bucket.sum.own, bucket, found->second.section).copy_from(gradient.value());
  bucket.sum.has_own[found->second.section] = 1;
  --bucket.unfinished;
  send_finished();
}

/// Sends the buckets that are complete, up to the first one that is not: the order must be the same in all processes.
void GradientSum::send_finished() {
  while (pending_.size() < buckets_.size() && buckets_[pending_.size()].unfinished == 0)
    pending_.push_back(group_.all_reduce(buckets_[pending_.size()].sum));
  for (std::size_t k = arrived_; k < pending_.size(); ++k)
    if (pending_[k]->progress() && k == arrived_) ++arrived_;
}

/// Sends what has not been sent, waits for all sums, and makes them the gradients.
void GradientSum::finish() {
  for (Bucket& bucket : buckets_) bucket.unfinished = 0;
  send_finished();
  const auto began = std::chrono::steady_clock::now();
  for (const std::unique_ptr<PendingSum>& sum : pending_) sum->wait();
  seconds_waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  pending_.clear();
  arrived_ = 0;
  for (Bucket& bucket : buckets_)
    for (std::size_t s = 0; s < bucket.parameters.size(); ++s)
      if (bucket.sum.has_total[s])
        parameters_[bucket.parameters[s]].set_grad(Variable(view(bucket.sum.total, bucket, s)));
}

}  // namespace fovea
